-- SPDX-License-Identifier: BSD-2-Clause
-- extend.lua, only where the fences exist, which are raised to at least the lease's: not strictly, it may have them.
-- KEYS: the keys, last the fences. ARGV[1]: token, ARGV[2]: ttl in milliseconds, ARGV[3]: fence, then the stripes.
-- Returns 1: every key is ours and lives at least ttl from now, every stripe is at least the fence. -2: the fences are
-- gone, or a value of another type has their name (said first: such a node counts for nothing). -1: a key is another's. 0: else, a key is absent. For these three
-- nothing was changed.
local fences, absent, low = KEYS[#KEYS], false, false
for i = 4, #ARGV do
    local score = redis.pcall('ZSCORE', fences, ARGV[i])
    if type(score) == 'table' and not string.find(score.err, 'WRONGTYPE') then
        return score
    elseif type(score) ~= 'string' then
        return -2
    end
    low = low or tonumber(score) < tonumber(ARGV[3])
end
for i = 1, #KEYS - 1 do
    local held = redis.call('GET', KEYS[i])
    if not held then
        absent = true
    elseif held ~= ARGV[1] then
        return -1
    end
end
if absent then
    return 0
end
-- ZADD only where it changes something: a server that is out of memory refuses it before it looks. Once before the first
-- write, where it changes nothing: see acquire_guarded.lua.
if low then
    redis.call('ZADD', fences, 'XX', ARGV[3], '')
end
for i = 1, #KEYS - 1 do
    if redis.call('PTTL', KEYS[i]) < tonumber(ARGV[2]) then
        redis.call('PEXPIRE', KEYS[i], ARGV[2])
    end
end
for i = 4, low and #ARGV or 0 do
    if tonumber(redis.call('ZSCORE', fences, ARGV[i])) < tonumber(ARGV[3]) then
        redis.call('ZADD', fences, 'XX', ARGV[3], ARGV[i])
    end
end
return 1
