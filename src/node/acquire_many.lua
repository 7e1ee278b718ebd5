-- SPDX-License-Identifier: BSD-2-Clause
-- All or nothing: SET token PX ttl on every key, unless one of them exists.
-- KEYS: the keys. ARGV[1]: token, ARGV[2]: ttl in milliseconds.
-- Returns 1: all set. 0: one exists (of whatever type), nothing was changed.
for _, key in ipairs(KEYS) do
    if redis.call('EXISTS', key) == 1 then
        return 0
    end
end
for _, key in ipairs(KEYS) do
    redis.call('SET', key, ARGV[1], 'PX', ARGV[2])
end
return 1
