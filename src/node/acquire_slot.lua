-- SPDX-License-Identifier: BSD-2-Clause
-- Takes one slot of a resource: one that is ours already, else the first free one, in the order of this client. Slot n is
-- the plain lock KEYS[1]:slot:n.
-- A slot's token is 40 hexadecimal digits, '/', and the number of slots, so that number lives exactly as long as the slots
-- do, on each node that holds one. Any slot held with another number is a refusal: such holders exclude each other.
-- KEYS[1]: the resource; guarded: KEYS[2]: the fences. ARGV[1]: token, ARGV[2]: ttl in milliseconds, ARGV[3]: the number of
-- slots, ARGV[4]: slots to try, in this order, "3 1 2". Guarded: ARGV[5]: fence, then the stripes of slots 1, 2, ...
-- Returns {1, slot}: it is ours, and its fence is raised; slots that were ours before and are not this one are deleted.
-- {-1, slot}: the same, but the fence is as high or higher, or gone, and was not changed. {0, ms}: none of them is free; the
-- slot that ends first has ms left, or -1. {-2, number}: slots are held with this other number; nothing was changed.
if #KEYS == 0 then
    return {0, -1}
end
-- Also above our own number: there are the slots of those who have a greater one. (To write the numbers as text here takes
-- several times as long as all the rest.)
local tails = {
    ':slot:1', ':slot:2', ':slot:3', ':slot:4', ':slot:5', ':slot:6', ':slot:7', ':slot:8',
    ':slot:9', ':slot:10', ':slot:11', ':slot:12', ':slot:13', ':slot:14', ':slot:15', ':slot:16',
    ':slot:17', ':slot:18', ':slot:19', ':slot:20', ':slot:21', ':slot:22', ':slot:23', ':slot:24',
    ':slot:25', ':slot:26', ':slot:27', ':slot:28', ':slot:29', ':slot:30', ':slot:31', ':slot:32',
    ':slot:33', ':slot:34', ':slot:35', ':slot:36', ':slot:37', ':slot:38', ':slot:39', ':slot:40',
    ':slot:41', ':slot:42', ':slot:43', ':slot:44', ':slot:45', ':slot:46', ':slot:47', ':slot:48',
    ':slot:49', ':slot:50', ':slot:51', ':slot:52', ':slot:53', ':slot:54', ':slot:55', ':slot:56',
    ':slot:57', ':slot:58', ':slot:59', ':slot:60', ':slot:61', ':slot:62', ':slot:63', ':slot:64',
}
local resource, most, count = KEYS[1], #tails, tonumber(ARGV[3])
local names = {}
for slot = 1, most do
    names[slot] = resource .. tails[slot]
end
local held = redis.call('MGET', unpack(names))
for _, token in ipairs(held) do
    if token and string.sub(token, 41, 41) == '/' then
        local number = string.match(token, '^%x+/([1-9]%d?)$') or string.match(token, '^%x+/([1-9]%d?):')
        if number and number ~= ARGV[3] then
            return {-2, tonumber(number)}
        end
    end
end
-- A slot that is ours already comes first: a request that comes late, or twice, must not move the slot that counts by now.
local taken, free
for word in string.gmatch(ARGV[4], '%d+') do
    local slot = tonumber(word)
    if held[slot] == ARGV[1] then
        taken = slot
        break
    end
    free = free or not held[slot]
end
local others = {}
for slot = 1, count do
    if held[slot] == ARGV[1] and slot ~= taken then
        others[#others + 1] = names[slot]
    end
end
-- Each command is sent once before the first write, where it changes nothing: see acquire_guarded.lua.
if KEYS[2] and (free and not taken or #others > 0) then
    redis.call('ZSCORE', KEYS[2], '')
    redis.call('ZADD', KEYS[2], 'XX', 0, '')
end
if #others > 0 then
    redis.call('PTTL', KEYS[1])
    for word in string.gmatch(taken and '' or ARGV[4], '%d+') do
        local slot = tonumber(word)
        -- A key of another type has no value here either; XX must not replace it.
        if not held[slot] and redis.call('PTTL', names[slot]) == -2 then
            redis.call('SET', names[slot], ARGV[1], 'XX', 'PX', ARGV[2])
            break
        end
    end
    redis.call('DEL', unpack(others))
end
for word in string.gmatch(taken and '' or ARGV[4], '%d+') do
    local slot = tonumber(word)
    -- NX: a key of another type has no value here, and is not free.
    if not held[slot] and redis.call('SET', names[slot], ARGV[1], 'NX', 'PX', ARGV[2]) then
        taken = slot
        break
    end
end
if not taken then
    local first = -1
    for slot = 1, count do
        local left = redis.call('PTTL', names[slot])
        if left >= 0 and (first < 0 or left < first) then
            first = left
        end
    end
    return {0, first}
end
if KEYS[2] then
    local stripe = ARGV[5 + taken]
    local score = redis.call('ZSCORE', KEYS[2], stripe)
    if not score or tonumber(score) >= tonumber(ARGV[5]) then
        return {-1, taken}
    end
    redis.call('ZADD', KEYS[2], 'XX', ARGV[5], stripe)
end
return {1, taken}
