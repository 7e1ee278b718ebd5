-- SPDX-License-Identifier: BSD-2-Clause
-- Compare and DEL, each key for itself: what is ours goes, whatever the other keys hold.
-- KEYS: the keys. ARGV[1]: token.
-- Returns -1: a key is another's (those of ours are deleted all the same). 1: none is another's and at least one
-- was ours. 0: no key exists. An error on one key (WRONGTYPE) is returned after the others were dealt with.
local deleted, foreign, failure = 0, 0, nil
for _, key in ipairs(KEYS) do
    local held = redis.pcall('GET', key)
    if type(held) == 'table' then
        failure = failure or held
    elseif held == ARGV[1] then
        redis.call('DEL', key)
        deleted = deleted + 1
    elseif held then
        foreign = foreign + 1
    end
end
if failure then
    return failure
elseif foreign > 0 then
    return -1
elseif deleted > 0 then
    return 1
end
return 0
