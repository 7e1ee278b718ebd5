-- SPDX-License-Identifier: BSD-2-Clause
-- A reader leaves. The last one deletes the key; else the key lives as long as the last of those that remain. Where the
-- key holds the reader's own token, it was a writer, and this node has not learnt that it reads (share_extend.lua).
-- KEYS[1], KEYS[2], ARGV[1], ARGV[2]: see share.lua.
-- Returns 1: the reader was listed and its end had not come. 0: it was not, or the key is absent. -1: the key is
-- another's; nothing was changed.
-- A reader that had no place deletes no key: others may rely on it.
if #KEYS == 0 then
    return 0
end
local held = redis.call('GET', KEYS[1])
if not held then
    return 0
elseif held == ARGV[2] then
    redis.call('DEL', KEYS[1])
    return 1
elseif held ~= ARGV[1] then
    return -1
end
-- The only reader leaves: the key ends with that reader, so while the key is there, the reader's end has not come.
local two = redis.call('ZREVRANGE', KEYS[2], 0, 1, 'WITHSCORES')
if two[1] == ARGV[2] and not two[3] then
    redis.call('DEL', KEYS[1], KEYS[2])
    return 1
end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local ours = redis.call('ZSCORE', KEYS[2], ARGV[2])
if not ours or tonumber(ours) <= now then
    redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now)
    return 0
end
local last = tonumber(two[1] == ARGV[2] and two[4] or two[2])
-- Where no other's end is to come, both keys end now. Readers that have ended stay listed until the next one comes (share.lua).
-- ZREM is sent once before the first write, where it changes nothing: see share.lua.
redis.call('ZREM', KEYS[2], ARGV[1])
redis.call('PEXPIREAT', KEYS[2], last)
redis.call('PEXPIREAT', KEYS[1], last)
redis.call('ZREM', KEYS[2], ARGV[2])
return 1
