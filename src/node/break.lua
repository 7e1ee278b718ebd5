-- SPDX-License-Identifier: BSD-2-Clause
-- Ends the lock of another client: raises the fences of all stripes strictly, and in the same step compares and deletes the key.
-- So the holder's own raise came before, and is lower, or comes after, and finds its key gone.
-- KEYS: the key, last the fences. ARGV[1]: token, ARGV[2]: fence, then the stripes.
-- Returns -3: raised, and the key deleted. 0: raised; there is no key. -1: raised; the key is another's. -2: the fences are
-- gone. Else the highest of these stripes; nothing was changed then, nor on an error (WRONGTYPE).
local fences = KEYS[#KEYS]
local highest = 0
for i = 3, #ARGV do
    local score = redis.call('ZSCORE', fences, ARGV[i])
    if not score then
        return -2
    end
    highest = math.max(highest, tonumber(score))
end
if #KEYS == 0 then
    return 0
end
if highest >= tonumber(ARGV[2]) then
    return highest
end
local held = redis.call('GET', KEYS[1])
for i = 3, #ARGV do
    redis.call('ZADD', fences, 'XX', ARGV[2], ARGV[i])
end
if not held then
    return 0
end
if held ~= ARGV[1] then
    return -1
end
redis.call('DEL', KEYS[1])
return -3
