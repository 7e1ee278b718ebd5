-- SPDX-License-Identifier: BSD-2-Clause
-- Compare and set a later timestamp: only when the value is the one that this token has set, its time is not over, and never
-- to an earlier one.
-- KEYS[1]: the lock, KEYS[2]: whose it is. ARGV[1]: token, ARGV[2]: ttl in milliseconds, ARGV[3]: microseconds in one unit
-- of our timestamp.
-- Returns 1: ours, for at least ttl from now. -1: another's. 0: absent, or over. For 0 and -1 nothing was changed.
if #KEYS < 2 then
    return 0
end
if redis.replicate_commands then
    redis.replicate_commands()
end
local time = redis.call('TIME')
local now, unit = time[1] * 1000000 + time[2], tonumber(ARGV[3])
if redis.call('PTTL', KEYS[1]) == -2 then
    return 0
end
local held, ours = redis.call('GETRANGE', KEYS[1], 0, 40), redis.call('HMGET', KEYS[2], 'value', 'token')
if ours[1] ~= held or ours[2] ~= ARGV[1] then
    return -1
end
local over = tonumber(held) * (#held > 10 and 1000 or 1000000)
if now >= over then
    return 0
end
local later = math.ceil((now + ARGV[2] * 1000 + 1000000) / unit)
if later * unit > over then
    local stamp = string.format('%.0f', later)
    -- Before the first write, where they change nothing: see setnx_acquire.lua.
    redis.call('SET', KEYS[1], stamp, 'NX')
    local tried = redis.pcall('PEXPIRE', KEYS[2], '')
    if not string.find(tried.err, 'not an integer') then
        return tried
    end
    redis.call('HMSET', KEYS[2], 'value', stamp, 'token', ARGV[1])
    redis.call('PEXPIRE', KEYS[2], ARGV[2] + 3000)
    redis.call('SET', KEYS[1], stamp)
end
return 1
