-- SPDX-License-Identifier: BSD-2-Clause
-- A reader takes its place in a shared lock: the key is absent, or holds the marker of readers. Each reader has its own
-- end, and the key lives as long as the last of them. Said again, it prolongs the place, and never shortens it.
-- KEYS[1]: the key. KEYS[2]: its readers, a sorted set of tokens with their ends (ms of this server). Guarded: KEYS[3]:
-- the fences. ARGV[1]: the marker, ARGV[2]: token, ARGV[3]: ttl in milliseconds. Guarded: ARGV[4]: a fence, ARGV[5]: the
-- stripe, which is raised to at least that fence.
-- Returns -2: the fences are gone. -1: the key is another's (of whatever type). For these two nothing was changed. Else
-- the reader is listed; the stripe's fence, 0 in classic mode.
-- Readers that have ended are removed here: only a reader that comes makes the list longer.
-- A key that was absent has no readers, whatever is listed: those lost their places when it went.
-- A key that lives longer than all that are listed has a reader who is not: the list was deleted, or the key is what a
-- native node has left. Nobody may delete it before its end, so nobody joins.
if #KEYS == 0 then
    return 0
end
local fence = 0
if #KEYS > 2 then
    local score = redis.pcall('ZSCORE', KEYS[3], ARGV[5])
    if type(score) == 'table' and not string.find(score.err, 'WRONGTYPE') then
        return score
    elseif type(score) ~= 'string' then
        return -2
    end
    fence = tonumber(score)
end
local held = redis.pcall('GET', KEYS[1])
if type(held) == 'table' and not string.find(held.err, 'WRONGTYPE') then
    return held
elseif held and held ~= ARGV[1] then
    return -1
end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local ours = now + ARGV[3]
local last = ours
-- Redis does not roll back: each command is sent once before the first write, where it changes nothing (acquire_guarded.lua).
-- Here that is the key while it is absent, and the marker, which is no reader's token. ZREVRANGE: or the reader could not
-- leave.
if not held then
    redis.call('ZREVRANGE', KEYS[1], 0, 0)
    redis.call('ZADD', KEYS[1], 'XX', 0, ARGV[1])
    redis.call('PEXPIREAT', KEYS[1], 1)
    redis.call('DEL', KEYS[1])
    redis.call('SET', KEYS[1], ARGV[1], 'PXAT', last)
    redis.call('DEL', KEYS[2])
else
    local before = redis.call('ZSCORE', KEYS[2], ARGV[2])
    local longest = redis.call('ZREVRANGE', KEYS[2], 0, 0, 'WITHSCORES')[2]
    local left = redis.call('PTTL', KEYS[1])
    if before and tonumber(before) > now then
        ours = math.max(ours, tonumber(before))
    elseif not longest or left > tonumber(longest) - now then
        return -1
    end
    last = math.max(ours, tonumber(longest))
    redis.call('ZADD', KEYS[2], 'XX', 0, ARGV[1])
    redis.call('ZREMRANGEBYSCORE', KEYS[2], '+inf', '-inf')
    redis.call('PEXPIREAT', KEYS[2], last)
    if left < last - now then
        redis.call('PEXPIREAT', KEYS[1], last)
    end
end
redis.call('ZADD', KEYS[2], ours, ARGV[2])
if held then
    redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now)
else
    redis.call('PEXPIREAT', KEYS[2], last)
end
if #KEYS > 2 and fence < tonumber(ARGV[4]) then
    redis.call('ZADD', KEYS[3], 'XX', ARGV[4], ARGV[5])
    fence = tonumber(ARGV[4])
end
return fence
