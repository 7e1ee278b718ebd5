-- SPDX-License-Identifier: BSD-2-Clause
-- Takes a lock of the old pattern: SETNX where there is none, GETSET over one whose time is over (C4 of the pattern), both
-- in one step, so that nobody's value is ever overwritten in vain (the pattern's C5).
-- KEYS[1]: the lock, KEYS[2]: whose it is. ARGV[1]: token, ARGV[2]: ttl in milliseconds, ARGV[3]: microseconds in one unit
-- of our timestamp.
-- Returns 1: taken. 0: another's, or something else than such a lock; nothing was changed. An error: the user may not
-- read the lock.
if #KEYS < 2 then
    return 0
end
-- replicate_commands: before 5.0 no write may follow TIME without this.
if redis.replicate_commands then
    redis.replicate_commands()
end
local time = redis.call('TIME')
local now, unit = time[1] * 1000000 + time[2], tonumber(ARGV[3])
-- When the time in it is over; nil: no timestamp of this century. Ten digits are seconds, thirteen milliseconds.
local function over_at(text)
    local whole, rest = string.match(text, '^0*(%d+)(.*)$')
    local units = {[10] = 1000000, [13] = 1000}
    local each = whole and #text <= 32 and units[#whole]
    if not each then
        return nil
    elseif rest == '' then
        return tonumber(whole) * each
    end
    local fraction = string.match(rest, '^%.(%d+)$')
    return fraction and tonumber(whole) * each + math.ceil(tonumber('0.' .. fraction) * each)
end
-- A key with a TTL ends by itself, and its number may be a token. A second later than its time says: for those who compare
-- whole seconds, and for clocks that are behind.
local left = redis.call('PTTL', KEYS[1])
if left ~= -2 then
    local held = left == -1 and redis.pcall('GETRANGE', KEYS[1], 0, 40)
    if type(held) == 'table' and not string.find(held.err, '^WRONGTYPE') then
        return held
    end
    local over = type(held) == 'string' and over_at(held)
    if not over or now < over + 1000000 then
        return 0
    end
end
-- Rounded up, and a second more, as in the pattern: for those who compare whole seconds, and for clocks that are ahead.
local stamp = string.format('%.0f', math.ceil((now + ARGV[2] * 1000 + 1000000) / unit))
-- Redis does not roll back: what may be refused comes before the first write, where it changes nothing (acquire_guarded.lua).
-- No server looks at PEXPIRE's number before it has looked at the user's rights.
redis.call('SET', KEYS[1], stamp, left == -2 and 'XX' or 'NX')
local tried = redis.pcall('PEXPIRE', KEYS[2], '')
if not string.find(tried.err, 'not an integer') then
    return tried
end
tried = redis.pcall('HMSET', KEYS[2], 'value', stamp, 'token', ARGV[1])
if tried.err and not string.find(tried.err, 'WRONGTYPE') then
    return tried
elseif tried.err then -- not ours, and the lock is nobody's
    redis.call('DEL', KEYS[2])
    redis.call('HMSET', KEYS[2], 'value', stamp, 'token', ARGV[1])
end
redis.call('PEXPIRE', KEYS[2], ARGV[2] + 3000)
redis.call('SET', KEYS[1], stamp)
return 1
