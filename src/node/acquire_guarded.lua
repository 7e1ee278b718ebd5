-- SPDX-License-Identifier: BSD-2-Clause
-- acquire_many.lua, and then the fences of all stripes: strictly raised, or none is touched.
-- KEYS: the keys, last the fences. ARGV[1]: token, ARGV[2]: ttl in milliseconds, ARGV[3]: fence, then the stripes.
-- Returns 1: set and raised. 0: a key exists (of whatever type), nothing was changed. -1: the keys are set; a stripe
-- is as high as the fence or higher, or the fences are gone, and no fence was changed.
-- Redis does not roll back. So what may be refused comes before the first write: a command that is needed after it is sent
-- before, too, where it changes nothing (no member of a sorted set of ours has the name '').
local fences, raised = KEYS[#KEYS], true
for i = 1, #KEYS - 1 do
    if redis.call('EXISTS', KEYS[i]) == 1 then
        return 0
    end
end
for i = 4, #ARGV do
    local score = redis.pcall('ZSCORE', fences, ARGV[i])
    if type(score) == 'table' and not string.find(score.err, 'WRONGTYPE') then
        return score
    elseif type(score) ~= 'string' or tonumber(score) >= tonumber(ARGV[3]) then
        raised = false
    end
end
if raised and fences then
    redis.call('ZADD', fences, 'XX', ARGV[3], '')
end
for i = 1, #KEYS - 1 do
    redis.call('SET', KEYS[i], ARGV[1], 'PX', ARGV[2])
end
if not raised then
    return -1
end
for i = 4, #ARGV do
    redis.call('ZADD', fences, 'XX', ARGV[3], ARGV[i])
end
return 1
