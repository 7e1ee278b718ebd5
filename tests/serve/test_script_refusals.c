/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Which texts are taken, however they are written, and which are refused: most before they run, and
 * all before they change a key.
 */
#include "scripted.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static struct scripts *scripts;

static int begin(void **state) {
    (void)state;
    scripts = scripts_new(16, 16384);
    return scripts == NULL;
}

static int end(void **state) {
    (void)state;
    scripts_free(scripts);
    return 0;
}

static const char *const mine[] = {"mine", "5000", "0", NULL};

static struct ending run(const char *text) {
    struct key_now key;
    key_fill(&key, "mine", 60000);
    return script_ending(scripts, text, mine, &key);
}

/* All of these release: 1, and the key is gone. */
static void releases_in_many_hands(void **state) {
    (void)state;
    static const char *const rows[] = {
        "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end",
        "if redis.call(\"get\",KEYS[1])==ARGV[1]then return redis.call(\"del\",KEYS[1])else return 0 end",
        "\r\n\tif redis . call ( [[GET]] , KEYS [ 1 ] ) == ARGV [ 1 ]\r\n then -- \"hset\"\r\n return redis.call 'x' "
        "end\r\n",
        "if redis[\"call\"]('get', KEYS[1]) ~= ARGV[1] then return 0 end\nreturn redis['call']('unlink', KEYS[1])",
        "--[[ redis.call('hset') ]] --[==[ ]] redis.x ]==]\nlocal v = redis.pcall('GET', KEYS[1])\n"
        "if not v or v ~= ARGV[1] then return 0 end; return redis.pcall('UNLINK', KEYS[1])",
        "local call = redis.call; local key, token = KEYS[1], ARGV[1]\n"
        "if call('get', key) == token then call('del', key) return 1 end return 0",
        "local rcall, argv\nlocal try = redis.pcall\nargv = ARGV local get = redis.call\n"
        "if get([==[get]==], unpack(KEYS)) == argv[#argv - 2] then return try(\"de\\108\", KEYS[1]) end",
        "local count = 0 for _, key in ipairs(KEYS) do if redis.call('get', key) == ARGV[1] then redis.pcall('del', "
        "key) "
        "count = count + 1 end end return count",
        "local function holds(k) return redis.call('get', k) == ARGV[1] end return holds(KEYS[1]) and "
        "redis.call('del', KEYS[1]) or 0",
        "local n = 0 while redis.call('exists', KEYS[1]) == 1 do n = n + redis.call('del', KEYS[1]) end return "
        "tonumber(n)",
        "return redis.call('get', KEYS[1]):upper() == string.upper(ARGV[1]) and redis.call('pexpire', KEYS[1], 0)",
        "if redis.call('get', KEYS[1]) == ARGV[1] then redis.call('del', KEYS[1]) return true end return false",
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct key_now key;
        key_fill(&key, "mine", 60000);
        const struct ending ending = script_ending(scripts, rows[i], mine, &key);
        if (i == 2) { /* a call without a key, in Redis's words */
            assert_int_equal(ending.value.kind, ANSWER_ERROR);
            continue;
        }
        if (ending.value.kind != ANSWER_INTEGER) print_error("%s: %s\n", rows[i], ending.text);
        assert_int_equal(ending.value.kind, ANSWER_INTEGER);
        assert_int_equal(ending.value.integer, 1);
        assert_false(key.there);
        key_fill(&key, "another's", 60000);
        script_ending(scripts, rows[i], mine, &key);
        if (i != 9) assert_true(key.there);
    }
}

struct row {
    const char *text;
    const char *says;
};

static void expect_refusals(const struct row *rows, size_t count, unsigned calls_max) {
    for (size_t i = 0; i < count; i++) {
        const struct ending ending = run(rows[i].text);
        if (ending.value.kind != ANSWER_ERROR || strstr(ending.text, rows[i].says) == NULL) {
            print_error("%s\nsays '%s', not '%s'\n", rows[i].text, ending.text, rows[i].says);
        }
        assert_int_equal(ending.value.kind, ANSWER_ERROR);
        assert_non_null(strstr(ending.text, rows[i].says));
        assert_null(strchr(ending.text, '\n'));
        assert_int_equal(strncmp(ending.text, "ERR ", 4), 0);
        assert_in_range(ending.calls, 0, calls_max);
        assert_int_equal(ending.changes, 0);
    }
}

/* The effect that stands in front of each must not be seen: nothing of it runs. */
#define ACTS "redis.call('del', KEYS[1]) "

static void commands_that_a_quorum_cannot_answer(void **state) {
    (void)state;
    static const struct row rows[] = {
        {ACTS "redis.call('hset', KEYS[1], 'f', 1)", "line 1 calls 'hset'; it takes get, getrange"},
        {ACTS "\n\nredis.pcall(\n'SPUBLISH', 'c', 'm')", "line 4 calls 'SPUBLISH'"},
        {ACTS "redis.call('get\\0', KEYS[1])", "calls 'get?'"},
        {ACTS "redis.call 'TIME'", "calls 'TIME'"},
        {ACTS "local c = redis.call c('hget', KEYS[1], 'f')", "calls 'hget'"},
        {ACTS "redis.call('get', 'another key')", "names the key 'another key'"},
        {ACTS "redis.call('set', KEYS[1], ARGV[1])", "calls set without PX or EX"},
        {ACTS "redis.call('set', KEYS[1], ARGV[1], 'NX')", "calls set without PX or EX"},
        {ACTS "redis.call('a name that is longer than any command is anywhere', KEYS[1])",
         "calls 'a name that is longer"},
        {ACTS "redis.call('\xff\n', KEYS[1])", "Error compiling script"},
    };
    expect_refusals(rows, sizeof rows / sizeof rows[0], 0);
}

static void calls_that_the_text_does_not_show(void **state) {
    (void)state;
    static const struct row rows[] = {
        {ACTS "redis.call(ARGV[1], KEYS[1])", "computed, not written out: 'ARGV'"},
        {ACTS "redis.call('g' .. 'et', KEYS[1])", "computed, not written out: 'g'"},
        {ACTS "redis.call(('get'), KEYS[1])", "not written out"},
        {ACTS "redis.call(unpack(ARGV))", "not written out"},
        {ACTS "local r = redis r.call('hset')", "uses redis other than"},
        {ACTS "local t = {redis} t[1].call('hset')", "uses redis other than"},
        {ACTS "(redis).call('get', KEYS[1])", "uses redis other than"},
        {ACTS "redis:call('get', KEYS[1])", "uses redis other than"},
        {ACTS "redis[ARGV[1]]('get', KEYS[1])", "redis[...]"},
        {ACTS "local t = {redis.call} t[1]('hset')", "uses redis.call other than"},
        {ACTS "local a, b = redis.call, redis.pcall a('hset')", "uses redis.call other than"},
        {ACTS "local c = redis.call local d = c d('hset')", "uses c other than"},
        {ACTS "local c = redis.call c = nil", "uses c other than"},
        {ACTS "local c = redis.call c(ARGV[1], KEYS[1])", "not written out"},
        {ACTS "local c = redis.call or 1 c('hset')", "uses redis.call other than"},
        {ACTS "local c = redis.call(ARGV[1])", "not written out"},
        {ACTS "redis.call = nil", "uses redis.call other than"},
        {ACTS "table.concat(redis)", "uses redis other than"},
        {ACTS "for k, v in pairs(redis) do v('hset') end", "uses redis other than"},
        {ACTS "local f = redis.call f 'hset'", "calls 'hset'"},
    };
    expect_refusals(rows, sizeof rows / sizeof rows[0], 0);
}

static void what_redis_has_and_this_has_not(void **state) {
    (void)state;
    static const struct row rows[] = {
        {ACTS "redis.sha1hex('')", "uses redis.sha1hex"},
        {ACTS "redis.log(redis.LOG_NOTICE, '')", "uses redis.log"},
        {ACTS "redis.error_reply = 1", "uses redis.error_reply"},
        {ACTS "loadstring('return 1')()", "uses loadstring"},
        {ACTS "getfenv()", "uses getfenv"},
        {ACTS "_G.redis.call('hset')", "uses _G"},
        {ACTS "setmetatable({}, {})", "uses setmetatable"},
        {ACTS "pcall(function() end)", "uses pcall"},
        {ACTS "return cjson.encode({})", "uses cjson"},
        {ACTS "os.execute('true')", "uses os"},
        {ACTS "io.open('x')", "uses io"},
        {ACTS "coroutine.yield()", "uses coroutine"},
        {ACTS "collectgarbage()", "uses collectgarbage"},
        {ACTS "(''):rep(1e9)", "the function rep"},
        {ACTS "string.find('', '')", "the function find"},
        {ACTS "table.sort({})", "the function sort"},
        {ACTS "math.random()", "the function random"},
        {ACTS "return {1, {2}}", "returns a table in a table"},
        {ACTS "return {{}}", "returns a table in a table"},
        {"#!lua\n" ACTS, "without a #! line"},
        {"\x1bLuaQ", "as text only"},
        {ACTS "return (",
         "ERR Error compiling script (new function): user_script:1: unexpected symbol near '<eof>'"},
        {ACTS "goto a", "ERR Error compiling script (new function): user_script:1:"},
    };
    expect_refusals(rows, sizeof rows / sizeof rows[0], 0);
}

/* Seen only when it happens, which is before anything is asked of the nodes. */
static void what_only_the_run_can_see(void **state) {
    (void)state;
    static const struct row rows[] = {
        {"redis.call('get', KEYS[1] .. 'x')", "calls get on another key"},
        {"redis.call('get', ARGV[1])", "calls get on another key"},
        {"KEYS[1] = 'x' redis.pcall('del', KEYS[1])", "calls del on another key"},
        {"redis.call('del', KEYS[1], KEYS[1])", "several keys"},
        {"redis.pcall('pexpire', KEYS[1], 5, 'GT')", "without options"},
        {"redis.call('set', KEYS[1], ARGV[1], 'XX', 'PX', 5)", "only after the script has seen"},
        {"redis.pcall('set', KEYS[1], ARGV[1], 'PX', 5)", "only after the script has seen"},
        {"redis.call('set', KEYS[1], ARGV[1], 'NX', 'KEEPTTL')", "does not take set with KEEPTTL"},
        {"redis.call('set', KEYS[1], ARGV[1], 'NX', 'PX', 5, 'get')", "does not take set with GET"},
        {"redis.call('set', KEYS[1], ARGV[1], 'NX', 'nX')", "set with PX or EX only"},
        {"redis.call('set', KEYS[1], unpack({'v', 'NX'}))", "set with PX or EX only"},
        {"redis.call('get', KEYS[1]) redis.call('set', KEYS[1], 'another', 'PX', 5)",
         "only after the script has seen"},
        {"redis.call('exists', KEYS[1]) redis.call('set', KEYS[1], ARGV[1], 'PX', 5)",
         "only after the script has seen"},
        {"local t = {1} t[2] = {2} return t", "returns a table in a table"},
        {"local t = {} for i = 1, 65 do t[i] = i end return t", "of more than 64 elements"},
    };
    expect_refusals(rows, sizeof rows / sizeof rows[0], 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(releases_in_many_hands, begin, end),
        cmocka_unit_test_setup_teardown(commands_that_a_quorum_cannot_answer, begin, end),
        cmocka_unit_test_setup_teardown(calls_that_the_text_does_not_show, begin, end),
        cmocka_unit_test_setup_teardown(what_redis_has_and_this_has_not, begin, end),
        cmocka_unit_test_setup_teardown(what_only_the_run_can_see, begin, end),
    };
    return cmocka_run_group_tests_name("script texts", tests, NULL, NULL);
}
