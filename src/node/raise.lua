-- SPDX-License-Identifier: BSD-2-Clause
-- Raises the fences of all stripes strictly, or none.
-- KEYS[1]: the fences. ARGV[1]: fence, then the stripes.
-- Returns 0: all raised. -2: the fences are gone. Else the highest of these stripes, nothing was changed.
local highest = 0
for i = 2, #ARGV do
    local score = redis.call('ZSCORE', KEYS[1], ARGV[i])
    if not score then
        return -2
    end
    highest = math.max(highest, tonumber(score))
end
if #KEYS > 0 and highest >= tonumber(ARGV[1]) then
    return highest
end
for i = 2, #ARGV do
    redis.call('ZADD', KEYS[1], 'XX', ARGV[1], ARGV[i])
end
return 0
