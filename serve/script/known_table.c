/* SPDX-License-Identifier: BSD-2-Clause */
#include "known.h"

#define GIVES(n)                                                                                   \
    { .outcome = KNOWN_NUMBER, .number = (n) }
#define GIVES_OK                                                                                   \
    { .outcome = KNOWN_OK }
#define FAILS                                                                                      \
    { .outcome = KNOWN_ERROR }
#define DOES(what, is)                                                                             \
    { .act = KNOWN_##what, .call = 1, .outcome = KNOWN_##is }
#define DOES_THEN_GIVES(what, n)                                                                   \
    { .act = KNOWN_##what, .call = 1, .outcome = KNOWN_NUMBER, .number = (n) }
#define TRIES                                                                                      \
    { .act = KNOWN_TRY, .call = 2, .outcome = KNOWN_FLAG }

/* clang-format off */
static const struct known_program programs[] = {
    /* ---- releases ---- */
    /* Redis's documentation, redlock-py, pottery, rslock and many others. */
    {"if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) "
     "else return 0 end",
     KEY_GET, false, DOES(DELETE, ANSWER), GIVES(0), GIVES(0)},
    {"if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0",
     KEY_GET, false, DOES(DELETE, ANSWER), GIVES(0), GIVES(0)},
    /* redis-py */
    {"local token = redis.call('get', KEYS[1]) "
     "if not token or token ~= ARGV[1] then return 0 end "
     "redis.call('del', KEYS[1]) return 1",
     KEY_GET, false, DOES_THEN_GIVES(DELETE, 1), GIVES(0), GIVES(0)},
    /* redsync */
    {"local val = redis.call('GET', KEYS[1]) "
     "if val == ARGV[1] then return redis.call('DEL', KEYS[1]) "
     "elseif val == false then return -1 else return 0 end",
     KEY_GET, false, DOES(DELETE, ANSWER), GIVES(-1), GIVES(0)},
    /* node-redlock */
    {"local count = 0 for i, key in ipairs(KEYS) do "
     "if redis.call('get', key) == ARGV[1] then redis.pcall('del', key) count = count + 1 end "
     "end return count",
     KEY_GET, false,
     {.act = KNOWN_DELETE, .call = 1, .outcome = KNOWN_NUMBER, .number = 1, .quiet = true},
     GIVES(0), GIVES(0)},
    /* redis-semaphore */
    {"local key = KEYS[1] local identifier = ARGV[1] "
     "if redis.call('get', key) == identifier then return redis.call('del', key) end return 0",
     KEY_GET, false, DOES(DELETE, ANSWER), GIVES(0), GIVES(0)},
    /* aioredlock */
    {"local identifier = redis.call('get', KEYS[1]) "
     "if not identifier then return redis.status_reply('OK') "
     "elseif identifier == ARGV[1] then return redis.call('del', KEYS[1]) "
     "else return redis.error_reply('ERROR') end",
     KEY_GET, false, DOES(DELETE, ANSWER), GIVES_OK, FAILS},

    /* ---- extensions ---- */
    /* redsync, pottery and many others */
    {"if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) "
     "else return 0 end",
     KEY_GET, true, DOES(EXTEND, ANSWER), GIVES(0), GIVES(0)},
    {"if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) "
     "end return 0",
     KEY_GET, true, DOES(EXTEND, ANSWER), GIVES(0), GIVES(0)},
    /* redis-py */
    {"local token = redis.call('get', KEYS[1]) "
     "if not token or token ~= ARGV[1] then return 0 end "
     "redis.call('pexpire', KEYS[1], ARGV[2]) return 1",
     KEY_GET, true, DOES_THEN_GIVES(EXTEND, 1), GIVES(0), GIVES(0)},
    {"local token = redis.call('get', KEYS[1]) "
     "if not token or token ~= ARGV[1] then return 0 end "
     "local expiration = redis.call('pttl', KEYS[1]) "
     "if not expiration then expiration = 0 end "
     "if expiration < 0 then return 0 end "
     "local newttl = ARGV[2] "
     "if ARGV[3] == '0' then newttl = ARGV[2] + expiration end "
     "redis.call('pexpire', KEYS[1], newttl) return 1",
     KEY_GET, true, DOES_THEN_GIVES(EXTEND_LEFT, 1), GIVES(0), GIVES(0)},
    /* redsync */
    {"if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) "
     "elseif redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2], 'NX') then return 1 "
     "else return 0 end",
     KEY_GET, true, DOES(EXTEND, ANSWER), TRIES, TRIES},
    /* node-redlock */
    {"for i, key in ipairs(KEYS) do if redis.call('get', key) ~= ARGV[1] then return 0 end end "
     "for i, key in ipairs(KEYS) do redis.call('set', key, ARGV[1], 'PX', ARGV[2]) end "
     "return #KEYS",
     KEY_GET, true, DOES_THEN_GIVES(EXTEND, 1), GIVES(0), GIVES(0)},
    /* redis-semaphore */
    {"local key = KEYS[1] local identifier = ARGV[1] local lockTimeout = ARGV[2] "
     "local value = redis.call('get', key) "
     "if value == identifier then redis.call('pexpire', key, lockTimeout) return 1 end return 0",
     KEY_GET, true, DOES_THEN_GIVES(EXTEND, 1), GIVES(0), GIVES(0)},
    /* rslock */
    {"if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 else "
     "if redis.call('set', KEYS[1], ARGV[1], 'PX', ARGV[2]) ~= nil then return 1 "
     "else return 0 end end",
     KEY_GET, true, DOES_THEN_GIVES(EXTEND, 1), GIVES(0), GIVES(0)},

    /* ---- acquisitions ---- */
    /* node-redlock */
    {"for i, key in ipairs(KEYS) do if redis.call('exists', key) == 1 then return 0 end end "
     "for i, key in ipairs(KEYS) do redis.call('set', key, ARGV[1], 'PX', ARGV[2]) end "
     "return #KEYS",
     KEY_EXISTS, true, GIVES(0), DOES_THEN_GIVES(TAKE, 1), GIVES(0)},
    /* aioredlock */
    {"local identifier = redis.call('get', KEYS[1]) "
     "if not identifier or identifier == ARGV[1] then "
     "return redis.call('set', KEYS[1], ARGV[1], 'PX', ARGV[2]) "
     "else return redis.error_reply('ERROR') end",
     KEY_GET, true, DOES(EXTEND, OK), DOES(TAKE, OK), FAILS},

    /* ---- questions ---- */
    /* pottery */
    {"if redis.call('get', KEYS[1]) == ARGV[1] then local pttl = redis.call('pttl', KEYS[1]) "
     "return (pttl > 0) and pttl or 0 else return 0 end",
     KEY_GET, false, DOES(PTTL, POSITIVE), GIVES(0), GIVES(0)},
    /* aioredlock */
    {"local identifier = redis.call('get', KEYS[1]) "
     "if not identifier then return redis.error_reply('ERROR') "
     "elseif identifier == ARGV[1] then return redis.call('TTL', KEYS[1]) "
     "else return redis.error_reply('ERROR') end",
     KEY_GET, false, DOES(TTL, ANSWER), FAILS, FAILS},
};
/* clang-format on */

const struct known_program *known_program_at(size_t index) {
    return index < sizeof programs / sizeof programs[0] ? &programs[index] : NULL;
}
