-- SPDX-License-Identifier: BSD-2-Clause
-- Ends the lock of another client: raises the fences of all stripes strictly, and in the same step compares and deletes the key.
-- So the holder's own raise came before, and is lower, or comes after, and finds its key gone. A vote of SET and ZADD does not
-- look at the key between the two. So the step also changes the nonce: a ZADD that was sent before finds no fences.
-- KEYS: the key, the record, last the fences. ARGV[1]: token, ARGV[2]: fence, ARGV[3]: what is added to the nonce, half by half,
-- then the stripes.
-- Returns -3: raised, and the key deleted. 0: raised; there is no key. -1: raised; the key is another's. -2: the fences are
-- gone. Else the highest of these stripes; nothing was changed then, nor on an error (WRONGTYPE).
local fences = KEYS[#KEYS]
local highest = 0
for i = 4, #ARGV do
    local score = redis.pcall('ZSCORE', fences, ARGV[i])
    if type(score) == 'table' and not string.find(score.err, 'WRONGTYPE') then
        return score
    elseif type(score) ~= 'string' then
        return -2
    end
    highest = math.max(highest, tonumber(score))
end
if #KEYS == 0 then
    return 0
end
local nonce = string.sub(fences, -16)
if redis.call('HGET', KEYS[2], 'nonce') ~= nonce then
    return -2
end
if highest >= tonumber(ARGV[2]) then
    return highest
end
local held = redis.call('GET', KEYS[1])
local function sum(first, last)
    local half = tonumber(string.sub(nonce, first, last), 16) + tonumber(string.sub(ARGV[3], first, last), 16)
    return string.format('%08x', half % 4294967296)
end
local following = sum(1, 8) .. sum(9, 16)
local renamed = string.sub(fences, 1, -17) .. following
-- Each command and each name once before the first write, where it changes nothing: see acquire_guarded.lua.
redis.call('ZADD', renamed, 'XX', ARGV[2], '')
redis.call('HSET', KEYS[2], 'nonce', nonce)
redis.call('RENAME', fences, fences)
if held == ARGV[1] then
    redis.call('DEL', KEYS[1])
end
redis.call('HSET', KEYS[2], 'nonce', following)
for i = 4, #ARGV do
    redis.call('ZADD', fences, 'XX', ARGV[2], ARGV[i])
end
redis.call('RENAME', fences, renamed)
return not held and 0 or held == ARGV[1] and -3 or -1
