/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Scripts of the shapes that lock clients send, and of shapes that show how Lua and Redis convert,
 * err and end. All of them run on a Redis too, with the same effect.
 */
#ifndef TESTS_SCRIPT_SHAPES_H
#define TESTS_SCRIPT_SHAPES_H

#include <stddef.h>

#define GET "redis.call('get', KEYS[1])"

static const char *const script_shapes[] = {
    /* Releases. */
    "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end",
    "if redis.call(\"GET\",KEYS[1]) ~= ARGV[1] then\n\treturn 0\nend\nreturn redis.call(\"UNLINK\",KEYS[1])",
    "local v = " GET
    " if not v or v ~= ARGV[1] then return 0 end redis.call('del', KEYS[1]) return 1",
    "local v = " GET
    " if v == false then return -1 elseif v == ARGV[1] then return redis.call('DEL', KEYS[1]) else return 0 end",
    "local k, t = KEYS[1], ARGV[1]\n\nif redis.call('get', k) == t then\n  return redis.call('del', k)\nend\n\nreturn "
    "0\n",
    "local n = 0 for i, key in ipairs(KEYS) do if redis.call('get', key) == ARGV[1] then redis.pcall('del', key) n = n "
    "+ 1 end end return n",
    "local r = redis.call local v = r('get', KEYS[1]) if v ~= ARGV[1] then return redis.error_reply('NOTOWNER it is ' "
    ".. tostring(v)) end "
    "r('del', KEYS[1]) return redis.status_reply('RELEASED')",
    "if " GET " == ARGV[1] then redis.call('expire', KEYS[1], 0) return true end return false",
    "for _, v in pairs({redis.call('get', KEYS[1])}) do if v == ARGV[1] then return redis.call('del', KEYS[1]) end end",
    /* Extensions. */
    "if " GET " == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) else return 0 end",
    "if " GET
    " ~= ARGV[1] then return 0 end local left = redis.call('pttl', KEYS[1]) if not left then left = 0 end "
    "if left < 0 then return 0 end local to = ARGV[2] if ARGV[3] == '0' then to = ARGV[2] + left end "
    "redis.call('pexpire', KEYS[1], to) return 1",
    "if " GET
    " == ARGV[1] then if redis.call('set', KEYS[1], ARGV[1], 'PX', ARGV[2]) ~= nil then return 1 else return "
    "0 end end return 0",
    "if " GET
    " == ARGV[1] then return redis.call('set', KEYS[1], ARGV[1], 'XX', 'PX', ARGV[2]) end return 'held by another'",
    "for i, key in ipairs(KEYS) do if redis.call('get', key) ~= ARGV[1] then return 0 end end "
    "for i, key in ipairs(KEYS) do redis.call('set', key, ARGV[1], 'PX', ARGV[2]) end return #KEYS",
    "if " GET " == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) "
    "elseif redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2], 'NX') then return 1 else return 0 end",
    "local v = " GET
    " if v == false then return redis.call('set', KEYS[1], ARGV[1], 'PX', ARGV[2]) and 1 or 0 "
    "elseif v == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) else return -1 end",
    "if " GET
    " == ARGV[1] then return redis.call('expire', KEYS[1], tonumber(ARGV[2]) / 1000) end return 0",
    "if " GET
    " == ARGV[1] then return redis.call('expire', KEYS[1], math.ceil(tonumber(ARGV[2] or 0) / 1000)) end return 0",
    "if " GET
    " == ARGV[1] and tonumber(ARGV[2]) > redis.call('pttl', KEYS[1]) then return redis.call('pexpire', "
    "KEYS[1], ARGV[2]) end",
    /* Acquisitions. */
    "if redis.call('exists', KEYS[1]) == 1 then return 0 end redis.call('set', KEYS[1], ARGV[1], 'PX', ARGV[2]) return "
    "#KEYS",
    "for i, key in ipairs(KEYS) do if redis.call('exists', key) == 1 then return 0 end end "
    "for i, key in ipairs(KEYS) do redis.call('set', key, ARGV[1], 'PX', ARGV[2]) end return #KEYS",
    "return redis.call('set', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2])",
    "return redis.call('set', KEYS[1], ARGV[1], 'EX', 900, 'NX')",
    "local v = " GET
    " if not v or v == ARGV[1] then return redis.call('set', KEYS[1], ARGV[1], 'PX', ARGV[2]) "
    "else return redis.error_reply('ERROR') end",
    "if (redis.call('exists', KEYS[1]) == 0 and ARGV[4] == 'yes') or redis.call('get', KEYS[1]) == ARGV[1] then "
    "return redis.call('set', KEYS[1], ARGV[1], 'PX', ARGV[2]) end",
    "if redis.call('pttl', KEYS[1]) == -2 then return redis.call('set', KEYS[1], ARGV[1], 'px', ARGV[2]) end return "
    "redis.call('ttl', KEYS[1])",
    "redis.call('del', KEYS[1]) return redis.call('set', KEYS[1], ARGV[1], 'PX', ARGV[2])",
    "if redis.call('set', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return 1 else return redis.call('pttl', KEYS[1]) "
    "end",
    "local a = redis.call('set', KEYS[1], ARGV[1], 'nx', 'ex', 900) return type(a)",
    /* Questions. */
    "return " GET, "return redis.call('pttl', KEYS[1])", "return redis.call('ttl', KEYS[1])",
    "return redis.call('exists', KEYS[1])",
    "if " GET
    " == ARGV[1] then local left = redis.call('pttl', KEYS[1]) return (left > 0) and left or 0 else return 0 end",
    "local v = " GET
    " if not v then return redis.error_reply('ERROR') elseif v == ARGV[1] then return redis.call('TTL', KEYS[1]) "
    "else return redis.error_reply('ERROR') end",
    "return redis.call('get', KEYS[1]) == ARGV[1]", "local v = " GET " return v and #v",
    "local v = " GET " return v and v:sub(2, 3):upper()", "local v = " GET " return v and v.err",
    "return string.format('%s/%5.1f/%q', tostring(" GET "), 3, ARGV[1])",
    /* Results. */
    "return", "", "return nil", "return false", "return true", "return 3.99", "return -3.99",
    "return 0/0", "return 1e300", "return -1e19", "return 9007199254740993", "return 1, 2",
    "return ''", "return 'a\\0b'", "return tostring", "return {ok = 'fine'}", "return {err = 'x'}",
    "return {err = 'MY word', 1, 2}", "return {ok = 'a', err = 'b'}", "return {ok = 'a\\r\\nb'}",
    "return {err = 'a\\r\\nb c'}", "return redis.error_reply('My words')",
    "return redis.error_reply('-My words')", "return redis.error_reply('word')",
    "return redis.error_reply('')", "return redis.error_reply('A ')", "return redis.error_reply(1)",
    "return redis.error_reply()", "return redis.status_reply('fine')",
    "return redis.status_reply(1)", "return redis.status_reply('a', 'b')",
    "return tostring(nil) .. tostring(1e15) .. tostring(0.1) .. tostring(true)",
    "return type(KEYS) .. #KEYS .. #ARGV", "return table.concat(ARGV, ',')",
    "local t = {3} table.insert(t, 1) table.insert(t, 1, 5) return table.concat(t, ' ') .. table.remove(t)",
    "return select('#', unpack(ARGV))", "return math.floor(-1.5) + math.max(1, 2)",
    "KEYS.x = 1 return KEYS.x", "return redis.call('get', KEYS[1], nil)",
    /* Errors, with the line where they are. */
    "\n\nreturn nothing", "made = 1", "function f() end", "error('boom')", "error('boom', 0)",
    "error('boom', 2)", "error({err = 'MY boom'})", "error()", "error(true)", "\nerror(12)",
    "assert(false)", "assert(nil, 'because')", "assert(" GET ")", "local x = nil + 1",
    "local x = {} .. 'a'", "return ARGV[9].x", "return #nil",
    "local function f()\n  return redis.call('pexpire', KEYS[1], 'abc')\nend\nreturn f()",
    "local function f()\n  error('inner')\nend\nf()", "return ('x')()", "redis.call()",
    "return redis.pcall()", "redis.call('get', nil)", "return redis.pcall('get', KEYS)",
    "redis.call('get')", "return redis.pcall('pexpire', KEYS[1])", "redis.call('ttl', KEYS[1], 1)",
    "redis.call('set', KEYS[1], ARGV[1], 'NX', 'PX', 0)",
    "return redis.pcall('set', KEYS[1], 'v', 'EX', '-5', 'NX')",
    "redis.call('set', KEYS[1], 'v', 'NX', 'PX')",
    "redis.call('set', KEYS[1], 'v', 'NX', 'PX', 1.5)",
    "redis.call('set', KEYS[1], 'v', 'NX', 'XX', 'PX', 5)",
    "redis.call('set', KEYS[1], 'v', 'NX', 'PX', 5, 'EX', 5)",
    "redis.call('set', KEYS[1], 'v', 'NX', 'EX', '9223372036854775807')",
    "redis.call('set', KEYS[1], 'v', 'NX', 'nonsense', 5)",
    "return redis.call('set', KEYS[1], 'v', 'NX', 'PX', 100000, 'px', 200000)",
    "return redis.call('pexpire', KEYS[1], 1e15)", "redis.call('pexpire', KEYS[1], 1e20)",
    "redis.call('pexpire', KEYS[1], '9223372036854775807')",
    "redis.call('expire', KEYS[1], '9223372036854775')",
    "return redis.call('pexpire', KEYS[1], '-9223372036854775808')",
    "return redis.call('expire', KEYS[1], '-9223372036854775808')",
    "redis.call('pexpire', KEYS[1], ' 1')", "redis.call('pexpire', KEYS[1], '01')",
    "redis.call('pexpire', KEYS[1], '-0')", "redis.call('pexpire', KEYS[1], '')",
    "return redis.pcall('pexpire', KEYS[1], 'x').err",
    /* A part of a value, and what goes with it. */
    "return redis.call('getrange', KEYS[1], 0, 1)", "return redis.call('getrange', KEYS[1], 1, -2)",
    "return redis.call('getrange', KEYS[1], -3, -1)",
    "return redis.call('getrange', KEYS[1], -1, -3)",
    "return redis.call('getrange', KEYS[1], -99, 99)",
    "return redis.call('getrange', KEYS[1], 3, 1)",
    "return redis.call('getrange', KEYS[1], 0, -99)",
    "return redis.call('getrange', KEYS[1], 99, 100)",
    "return redis.call('getrange', KEYS[1], 'x', 1)", "return redis.call('getrange', KEYS[1], 0)",
    "return redis.call('getrange', KEYS[1], '-9223372036854775808', '9223372036854775807')",
    "if redis.call('set', KEYS[1], ARGV[1], 'NX', 'PX', 900400) then return redis.status_reply('OK') end "
    "if redis.call('getrange', KEYS[1], 0, 3) == string.sub(ARGV[1], 1, 4) and ARGV[1] == 'mine' then return "
    "redis.call('set', KEYS[1], ARGV[1], 'PX', 900400) end",
    /* Times of day: far ahead, and past. */
    "local r = redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PXAT', '4102444800000') redis.call('GET', KEYS[1]) return r",
    "return redis.call('set', KEYS[1], 'v', 'NX', 'EXAT', 4102444800)",
    "if " GET
    " == ARGV[1] then local r = redis.call('PEXPIREAT', KEYS[1], '4102444800000') redis.call('GET', KEYS[1]) "
    "return r end return 0",
    "return redis.call('expireat', KEYS[1], 4102444800)",
    "return redis.call('pexpireat', KEYS[1], 1000)", "return redis.call('expireat', KEYS[1], -1)",
    "return redis.call('pexpireat', KEYS[1], 'soon')",
    "redis.call('set', KEYS[1], 'v', 'NX', 'PXAT', 0)",
    "redis.call('set', KEYS[1], 'v', 'NX', 'EXAT', '9223372036854775807')",
    "redis.call('set', KEYS[1], 'v', 'NX', 'PX', 5, 'PXAT', 5)",
    /* The database, and subscribers, of whom there are none. */
    "redis.pcall('SELECT', tonumber('0')) return " GET, "return redis.call('select', 0)",
    "return redis.call('select', '0').ok", "return redis.pcall('select', 9999).err",
    "return redis.pcall('select', -1)", "redis.call('select', 'x')", "redis.pcall('select')",
    "redis.pcall('select', 9999) return " GET,
    "local v = " GET
    " if (v == ARGV[1] and redis.call('UNLINK', KEYS[1]) == 1) then redis.call('PUBLISH', 'of:' .. KEYS[1], "
    "KEYS[1]) return true end return false",
    "return redis.call('publish', 'channel', 'message')", "redis.call('publish', 'channel')",
    /* Arrays. */
    "return {1, 2.9, 'three', true, false}", "return {}", "return {1, nil, 3}",
    "return {-1, redis.call('pttl', KEYS[1])}", "return {x = 1, 2}",
    "local v = " GET " if not v then return nil end return {v, #v}", "return {'', 'a\0b'}",
    "local left = redis.call('pttl', KEYS[1]) if left == -2 then return {-1, -2} end if left < 500 then return {0, left} end "
    "if " GET
    " == ARGV[1] then redis.call('pexpire', KEYS[1], 900400) return {1, left} else return {-1, left} end",
    "return ARGV", "return {tostring(nil)}", "return {pairs}", NULL};

#endif
