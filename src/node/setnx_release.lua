-- SPDX-License-Identifier: BSD-2-Clause
-- Compare and DEL: only when the value is the one that this token has set, and its time is not over. (Afterwards it is whose
-- GETSET comes first; were it deleted then, some who wait would find nothing to compare with, and leave a lock of nobody.)
-- KEYS[1]: the lock, KEYS[2]: whose it is. ARGV[1]: token.
-- Returns 1: deleted. -1: another's. 0: absent, or over. For 0 and -1 nothing was changed.
if #KEYS < 2 then
    return 0
end
if redis.replicate_commands then
    redis.replicate_commands()
end
local time = redis.call('TIME')
if redis.call('PTTL', KEYS[1]) == -2 then
    return 0
end
local held, ours = redis.call('GETRANGE', KEYS[1], 0, 40), redis.call('HMGET', KEYS[2], 'value', 'token')
if ours[1] ~= held or ours[2] ~= ARGV[1] then
    return -1
end
if time[1] * 1000000 + time[2] >= tonumber(held) * (#held > 10 and 1000 or 1000000) then
    return 0
end
redis.call('DEL', KEYS[1], KEYS[2])
return 1
