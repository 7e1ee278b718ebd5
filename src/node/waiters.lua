-- SPDX-License-Identifier: BSD-2-Clause
-- The length of a wait queue (waiting.lua), for an observer: it changes nothing.
-- KEYS[1]: sorted set, member: a waiter, score: when it came (microseconds of this server). KEYS[2]: the same members,
-- score: when they are forgotten.
-- Returns how many wait, and for how many microseconds the first of them has waited. Waiters that have expired, and that
-- waiting.lua has not removed yet, do not count.
if #KEYS < 2 then
    return {0, 0}
end
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local expired = redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', now)
local count = redis.call('ZCARD', KEYS[1]) - #expired
if count < 1 then
    return {0, 0}
end
local dead = {}
for _, waiter in ipairs(expired) do
    dead[waiter] = true
end
local head = redis.call('ZRANGE', KEYS[1], 0, #expired, 'WITHSCORES')
for i = 1, #head, 2 do
    if not dead[head[i]] then
        return {count, math.max(0, now - head[i + 1])}
    end
end
return {count, 0}
