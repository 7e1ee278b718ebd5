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
if redis.replicate_commands then
    redis.replicate_commands()
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
if redis.call('ZCARD', KEYS[2]) == 1 and redis.call('ZREM', KEYS[2], ARGV[2]) == 1 then
    redis.call('DEL', KEYS[1])
    return 1
end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', string.format('%.0f', now))
if redis.call('ZREM', KEYS[2], ARGV[2]) == 0 then
    return 0
end
local last = redis.call('ZREVRANGE', KEYS[2], 0, 0, 'WITHSCORES')[2]
if last then
    redis.call('PEXPIREAT', KEYS[2], last)
    redis.call('PEXPIREAT', KEYS[1], last)
else
    redis.call('DEL', KEYS[1])
end
return 1
