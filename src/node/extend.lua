-- SPDX-License-Identifier: BSD-2-Clause
-- Compare and PEXPIRE: only when every key holds the token, and never shortening what is left.
-- KEYS: the keys. ARGV[1]: token, ARGV[2]: ttl in milliseconds.
-- Returns 1: every key is ours and lives at least ttl from now. -1: a key is another's. 0: else, a key is absent.
-- For 0 and -1 nothing was changed. (A key of ours without a TTL gets one: a lock must end.)
-- replicate_commands: from 4.0 to 4.x PTTL counts as random, and no write may follow it without this.
if redis.replicate_commands then
    redis.replicate_commands()
end
local absent = false
for _, key in ipairs(KEYS) do
    local held = redis.call('GET', key)
    if not held then
        absent = true
    elseif held ~= ARGV[1] then
        return -1
    end
end
if absent then
    return 0
end
for _, key in ipairs(KEYS) do
    if redis.call('PTTL', key) < tonumber(ARGV[2]) then
        redis.call('PEXPIRE', key, ARGV[2])
    end
end
return 1
