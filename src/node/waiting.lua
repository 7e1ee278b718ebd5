-- SPDX-License-Identifier: BSD-2-Clause
-- The wait queue of a lock: the clients that wait, in the order of their arrival. It is a hint: a lock is granted
-- without reading it.
-- KEYS[1]: sorted set, member: a waiter, score: when it came (microseconds of this server). KEYS[2]: the same members,
-- score: when they are forgotten. ARGV[1]: the waiter. ARGV[2]: for how many ms it is remembered; 0: it leaves.
-- ARGV[3]: for how many microseconds it has waited. ARGV[4]: how many waiters at the head are notified of their rank.
-- ARGV[5]: the prefix of their channels. ARGV[6]: what the message has after the rank. ARGV[7]: 1: the waiter leaves, and
-- those before it, which did not come when it was their turn, are removed too. (A removed waiter that is alive comes back
-- with its age.)
-- Returns how many waiters are before it; if it leaves, how many remain.
if #KEYS < 2 then
    return 0
end
local time = redis.call('TIME')
local now, lease = time[1] * 1000000 + time[2], tonumber(ARGV[2])
local moved = nil
local expired = redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', now)
-- Each command is sent once before the first write, where it changes nothing: see acquire_guarded.lua.
if lease > 0 then
    redis.call('ZADD', KEYS[1], 'XX', 0, '')
    redis.call('ZRANK', KEYS[1], '')
end
if lease == 0 or #expired > 0 then
    redis.call('ZRANGE', KEYS[1], 1, 0)
    redis.call('ZREM', KEYS[1], '')
    redis.call('ZREMRANGEBYSCORE', KEYS[2], 1, 0)
end
if lease > 0 then
    redis.call('PEXPIRE', KEYS[1], lease * 4)
else
    redis.call('ZRANK', KEYS[1], '')
    redis.call('ZCARD', KEYS[1])
end
-- Waiters that did not come back in time are forgotten.
if #expired > 0 then
    redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now)
    for _, waiter in ipairs(expired) do
        redis.call('ZREM', KEYS[1], waiter)
    end
    moved = 0
end
local answer
if lease > 0 then
    redis.call('ZADD', KEYS[1], 'NX', now - ARGV[3], ARGV[1])
    redis.call('ZADD', KEYS[2], now + lease * 1000, ARGV[1])
    redis.call('PEXPIRE', KEYS[1], lease * 4)
    redis.call('PEXPIRE', KEYS[2], lease * 4)
    answer = redis.call('ZRANK', KEYS[1], ARGV[1])
else
    local before = redis.call('ZRANK', KEYS[1], ARGV[1])
    if before and before > 0 and ARGV[7] == '1' then
        for _, waiter in ipairs(redis.call('ZRANGE', KEYS[1], 0, before - 1)) do
            redis.call('ZREM', KEYS[1], waiter)
            redis.call('ZREM', KEYS[2], waiter)
        end
        before = 0
    end
    moved = moved or before or nil
    redis.call('ZREM', KEYS[1], ARGV[1])
    redis.call('ZREM', KEYS[2], ARGV[1])
    answer = redis.call('ZCARD', KEYS[1])
end
-- The waiters at the head are notified at once. Where PUBLISH is refused, they ask for their rank later.
local heads = tonumber(ARGV[4])
if moved and moved < heads then
    for i, waiter in ipairs(redis.call('ZRANGE', KEYS[1], moved, heads - 1)) do
        if waiter ~= ARGV[1] then
            redis.pcall('PUBLISH', ARGV[5] .. waiter, (moved + i - 1) .. ' ' .. ARGV[6])
        end
    end
end
return answer
