-- SPDX-License-Identifier: BSD-2-Clause
-- The line of those who wait for a lock: who came when, and until when each is believed to wait. A hint for them alone:
-- a lock is granted without a look at it.
-- KEYS[1]: sorted set, member: a waiter, score: when it came (microseconds of this server). KEYS[2]: the same members,
-- score: when they are forgotten. ARGV[1]: the waiter. ARGV[2]: for how many ms it is to be remembered, 0: it leaves.
-- ARGV[3]: for how many microseconds it has waited. ARGV[4]: how many at the head are told of their rank.
-- ARGV[5], [6]: their channels' prefix; what they are told beside the rank. ARGV[7]: 1: it leaves, and those before it
-- did not come when it was their turn: they are taken out too. (Who is alive comes back, and has his old place.)
-- Returns how many are before it; when it leaves how many remain.
if #KEYS < 2 then
    return 0
end
local time = redis.call('TIME')
local now, lease = time[1] * 1000000 + time[2], tonumber(ARGV[2])
local moved = nil
-- A line from before the server's clock was set back would else stay for as long.
local over = redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', now)
if #over > 0 then
    redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now)
    for _, waiter in ipairs(over) do
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
-- Whose turn is near learns it at once. Where publishing is refused, he asks by himself, later.
local told = tonumber(ARGV[4])
if moved and moved < told then
    for i, waiter in ipairs(redis.call('ZRANGE', KEYS[1], moved, told - 1)) do
        if waiter ~= ARGV[1] then
            redis.pcall('PUBLISH', ARGV[5] .. waiter, (moved + i - 1) .. ' ' .. ARGV[6])
        end
    end
end
return answer
