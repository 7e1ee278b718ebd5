-- SPDX-License-Identifier: BSD-2-Clause
-- Prolongs a reader's place, only while it is listed and its end has not come; never shortens it. A writer becomes a
-- reader so: where the key holds the reader's own token, the marker takes its place, and the reader is the only one.
-- KEYS and ARGV: see share.lua.
-- Returns 1: the reader is listed for at least ttl from now; guarded: the stripe is at least the fence. -2: the fences
-- are gone (said first). -1: the key is another's. 0: the key is absent, or the reader has no place any more. For these
-- three nothing was changed.
-- PXAT, here and in share.lua: before 7.2 the time goes on within a script, and a key that ends after all that are listed
-- would admit no reader.
if #KEYS == 0 then
    return 0
end
local fence = nil
if #KEYS > 2 then
    fence = redis.pcall('ZSCORE', KEYS[3], ARGV[5])
    if type(fence) == 'table' and not string.find(fence.err, 'WRONGTYPE') then
        return fence
    elseif type(fence) ~= 'string' then
        return -2
    end
end
local held = redis.call('GET', KEYS[1])
if not held then
    return 0
elseif held ~= ARGV[1] and held ~= ARGV[2] then
    return -1
end
local left = redis.call('PTTL', KEYS[1])
local low = fence and tonumber(fence) < tonumber(ARGV[4])
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
-- Each command is sent once before the first write, where it changes nothing: see share.lua and setnx_acquire.lua.
if held == ARGV[2] then
    redis.call('SET', KEYS[1], ARGV[1], 'NX')
    local tried = redis.pcall('ZADD', KEYS[2], 'XX', 0, ARGV[1])
    if type(tried) == 'table' and not string.find(tried.err, 'WRONGTYPE') then
        return tried
    end
    tried = redis.pcall('PEXPIREAT', KEYS[2], '')
    if not string.find(tried.err, 'not an integer') then
        return tried
    end
    local ours = now + math.max(left, tonumber(ARGV[3]))
    redis.call('DEL', KEYS[2])
    redis.call('SET', KEYS[1], ARGV[1], 'PXAT', ours)
    redis.call('ZADD', KEYS[2], ours, ARGV[2])
    redis.call('PEXPIREAT', KEYS[2], ours)
else
    local before = redis.call('ZSCORE', KEYS[2], ARGV[2])
    if not before or tonumber(before) <= now then
        return 0
    end
    local ours = math.max(now + ARGV[3], tonumber(before))
    local last = math.max(ours, tonumber(redis.call('ZREVRANGE', KEYS[2], 0, 0, 'WITHSCORES')[2]))
    local later = ours > tonumber(before)
    if later or low then
        redis.call('ZADD', KEYS[2], 'XX', 0, ARGV[1])
    end
    redis.call('PEXPIREAT', KEYS[2], last)
    if later then
        redis.call('ZADD', KEYS[2], ours, ARGV[2])
    end
    if left < last - now then
        redis.call('PEXPIREAT', KEYS[1], last)
    end
end
if low then
    redis.call('ZADD', KEYS[3], 'XX', ARGV[4], ARGV[5])
end
return 1
