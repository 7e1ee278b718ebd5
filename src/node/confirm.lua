-- SPDX-License-Identifier: BSD-2-Clause
-- Do keys and fences still say what was voted? Changes nothing.
-- KEYS: the keys, last the fences. ARGV[1]: token, ARGV[2]: fence, then the stripes.
-- Returns 1: every key holds the token, and every stripe is at least the fence: higher where a rival was denied, whose
-- proposal raised it all the same. -2: the fences are gone. 0: else.
for i = 3, #ARGV do
    local score = redis.pcall('ZSCORE', KEYS[#KEYS], ARGV[i])
    if type(score) == 'table' and not string.find(score.err, 'WRONGTYPE') then
        return score
    elseif type(score) ~= 'string' then
        return -2
    elseif tonumber(score) < tonumber(ARGV[2]) then
        return 0
    end
end
for i = 1, #KEYS - 1 do
    if redis.call('GET', KEYS[i]) ~= ARGV[1] then
        return 0
    end
end
return 1
