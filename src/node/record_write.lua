-- SPDX-License-Identifier: BSD-2-Clause
-- Replaces the node's record as a whole, if its nonce is the expected one, and moves the fences along.
-- KEYS[1]: the record, KEYS[2]: where the fences are, KEYS[3]: where they are to be. ARGV[1]: the nonce that the record
-- must have, '' for no record. ARGV[2]: floors, "stripe fence stripe fence ..." (where none is named: 0). ARGV[3]: '1',
-- every stripe exists afterwards and is at least its floor; '0', stripes stay as they are. Then field, value, ...
-- Returns 1: written. 0: another nonce, nothing was changed.
-- A value of another type under a name of fences is not ours, and there are no fences: it is deleted. A member whose fences
-- were overwritten could not come back otherwise.
if #KEYS == 0 or (redis.call('HGET', KEYS[1], 'nonce') or '') ~= ARGV[1] then
    return 0
elseif ARGV[1] == '' and redis.call('EXISTS', KEYS[1]) == 1 then
    return 0
end
local foreign, exist = {}, false
for i = 2, 3 do
    local count = redis.pcall('ZCARD', KEYS[i])
    if type(count) ~= 'table' then
        exist = exist or i == 2 and count > 0
    elseif string.find(count.err, 'WRONGTYPE') then
        foreign[#foreign + 1] = KEYS[i]
    else
        return count
    end
end
-- Each command is sent once before the first write, where it changes nothing: see acquire_guarded.lua. RENAME comes first: it
-- needs no memory, and a server whose memory is used up refuses no command of a script that has sent a write. So such a
-- member follows a change of the quorum.
if exist and KEYS[2] ~= KEYS[3] then
    redis.call('RENAME', KEYS[2], KEYS[2])
end
local tried = redis.pcall('ZADD', KEYS[3], 'XX', 0, '')
if type(tried) == 'table' and not string.find(tried.err, 'WRONGTYPE') then
    return tried
end
if ARGV[1] ~= '' then
    redis.call('HSET', KEYS[1], 'nonce', ARGV[1])
end
redis.call('DEL', KEYS[1])
redis.call('HSET', KEYS[1], unpack(ARGV, 4))
if #foreign > 0 then
    redis.call('DEL', unpack(foreign))
end
if exist and KEYS[2] ~= KEYS[3] then
    redis.call('RENAME', KEYS[2], KEYS[3])
end
if ARGV[3] ~= '1' then
    return 1
end
-- GT adds what is absent too. In pieces, for unpack() takes some thousands at most.
local floors = {}
for stripe, fence in string.gmatch(ARGV[2], '(%d+) (%d+)') do
    floors[tonumber(stripe)] = fence
end
for first = 0, 4095, 512 do
    local raises = {}
    for stripe = first, first + 511 do
        raises[#raises + 1] = floors[stripe] or '0'
        raises[#raises + 1] = stripe
    end
    redis.call('ZADD', KEYS[3], 'GT', unpack(raises))
end
return 1
