-- SPDX-License-Identifier: BSD-2-Clause
-- Raises the fences of all stripes strictly, or none; only where the keys are ours. They were when they were set: but this
-- may be another body of the node, or they ended meanwhile.
-- KEYS: the keys, last the fences. ARGV[1]: token, ARGV[2]: fence, then the stripes.
-- Returns 0: all raised. -2: the fences are gone (a value of another type has their name, or none). -1: not every key holds the token. Else the highest of these stripes;
-- nothing was changed then.
local fences = KEYS[#KEYS]
local highest = 0
for i = 3, #ARGV do
    local score = redis.pcall('ZSCORE', fences, ARGV[i])
    if type(score) == 'table' and not string.find(score.err, 'WRONGTYPE') then
        return score
    elseif type(score) ~= 'string' then
        return -2
    end
    highest = math.max(highest, tonumber(score))
end
for i = 1, #KEYS - 1 do
    if redis.call('GET', KEYS[i]) ~= ARGV[1] then
        return -1
    end
end
if #KEYS > 0 and highest >= tonumber(ARGV[2]) then
    return highest
end
for i = 3, #ARGV do
    redis.call('ZADD', fences, 'XX', ARGV[2], ARGV[i])
end
return 0
