-- SPDX-License-Identifier: BSD-2-Clause
-- The readers of a shared lock, for an observer: it changes nothing. They come in the order of their ends, so that one
-- that renews meanwhile moves ahead of a walk, and is not missed.
-- KEYS: see share.lua. ARGV[1]: the marker, ARGV[2]: how many to list, ARGV[3], ARGV[4]: where the page before ended; 0, 0:
-- begin.
-- Returns -1: the key holds something else. 0: it is absent. Else how many readers there are whose end has not come; where
-- this page ended (two numbers; 0 and 0: nothing is left); and for each reader its milliseconds left, a space, its token.
if #KEYS == 0 then
    return 0
end
local held = redis.call('GET', KEYS[1])
if not held then
    return 0
elseif held ~= ARGV[1] then
    return -1
end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local most, from, skip = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local least = ARGV[3]
if from <= now then
    from, skip = 0, 0
    least = string.format('(%.0f', now)
end
local answer = {redis.call('ZCOUNT', KEYS[2], string.format('(%.0f', now), '+inf'), 0, 0}
local page = redis.call('ZRANGEBYSCORE', KEYS[2], least, '+inf', 'WITHSCORES', 'LIMIT', skip, most)
local last, same = from, skip
for i = 1, #page, 2 do
    local ends = math.min(tonumber(page[i + 1]), 9007199254740991)
    if ends ~= last then
        last, same = ends, 0
    end
    same = same + 1
    answer[#answer + 1] = string.format('%.0f ', ends - now) .. string.sub(page[i], 1, 1024)
end
if most > 0 and #page == 2 * most then
    answer[2], answer[3] = last, same
end
return answer
