/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Nothing a text does may crash, hang or grow the process; and how many texts are kept.
 */
#include "scripted.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

static struct scripts *scripts;

static int begin(void **state) {
    (void)state;
    scripts = scripts_new(4, 65536);
    return scripts == NULL;
}

static int end(void **state) {
    (void)state;
    scripts_free(scripts);
    return 0;
}

static struct ending run(const char *text) {
    struct key_now key;
    key_fill(&key, "mine", 60000);
    return script_ending(scripts, text, NULL, &key);
}

static void expect_error(const char *text, const char *says) {
    const struct ending ending = run(text);
    if (strstr(ending.text, says) == NULL) print_error("%.200s\nsays '%s'\n", text, ending.text);
    assert_int_equal(ending.value.kind, ANSWER_ERROR);
    assert_non_null(strstr(ending.text, says));
}

static double cpu_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

#define ENDLESS "the script does not end"
#define MUCH "KiB of memory"

static void loops_end(void **state) {
    (void)state;
    static const char *const rows[] = {
        "while true do end",
        "repeat until false",
        "for i = 1, 1e300 do end",
        "local function f() return f() end return f()",
        "local x = ('x'):lower() while true do x = x:upper() end",
        "local i = 0 while true do i = i + '1' end",
        "while true do redis.pcall() end",
        "local t = {} while true do t[1] = #t table.insert(t, 1, nil) end",
        "local s, t = '', {} while true do local a = tostring(s) .. '' t[1] = a == s end",
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct ending ending = run(rows[i]);
        const bool ends = strstr(ending.text, ENDLESS) != NULL || strstr(ending.text, MUCH) != NULL;
        if (!ends) print_error("%s: '%s'\n", rows[i], ending.text);
        assert_true(ends);
    }
    expect_error("while true do redis.call('get', KEYS[1]) end", "more than 64 calls");
    expect_error("while true do redis.pcall('pttl', KEYS[1]) end", "more than 64 calls");
}

static void memory_is_bounded(void **state) {
    (void)state;
    expect_error("local s = 'x' while true do s = s .. s end", MUCH);
    expect_error("local s, t = 'x', {} for i = 1, 1e9 do t[i] = s .. i end", MUCH);
    expect_error("local t = {} for i = 1, 1e9 do t = {t} end", MUCH);
    expect_error("local function f(n) return 1 + f(n + 1) end return f(1)", MUCH);
    expect_error("local s = KEYS[1] for i = 1, 20 do s = s .. s end return {err = s}", MUCH);
    expect_error("return unpack({}, 1, 1e8)", "too many results");
    /* Debian's library counts these in an int that overflows, and writes where its stack ends. */
    expect_error("return unpack(KEYS, 0, 2147483647)", "too many results");
    expect_error("return unpack(KEYS, -2147483648)", "too many results");
    expect_error("return unpack({}, -2147483648, 2147483647)", "too many results");
    expect_error("return string.char(unpack({}, 1, 7000))", MUCH);
    expect_error("table.insert({}, -2147483648, 1)", "out of bounds");
    expect_error("return table.concat({}, '', 1, 2147483647)", "invalid value");
    expect_error("return ('%99.99f'):format(1e300):len() + string.format('%999d', 1)",
                 "invalid format");
}

/* redis-server 7.0.15 dies of the first one. */
static void odd_errors_are_errors(void **state) {
    (void)state;
    expect_error("error({})", "ERR nil script: ");
    expect_error("error(setmeta)", "nonexistent global variable 'setmeta'");
    expect_error("error(function() end)", "ERR function script: ");
    expect_error("error({err = 1})", "ERR nil script: ");
}

/* The answer is as long as a server likes. */
static void a_long_answer_is_an_error(void **state) {
    (void)state;
    static const char text[] = "return redis.call('get', KEYS[1])";
    static char answer[1 << 20];
    char sha[SCRIPT_SHA_BYTES + 1], why[256];
    struct key_call call;
    struct answer result;
    assert_true(script_load(scripts, text, sizeof text - 1, sha, why, sizeof why));
    struct script_run *one = script_run_new(scripts, sha, text_bytes("resource"), NULL, 0);
    assert_int_equal(script_run_step(one, NULL, &call, &result), PROGRAM_CALLS);
    const struct answer value = {.kind = ANSWER_BYTES, .bytes = {answer, sizeof answer}};
    assert_int_equal(script_run_step(one, &value, &call, &result), PROGRAM_ENDS);
    assert_int_equal(result.kind, ANSWER_ERROR);
    script_run_free(one);
}

static struct answer run_with(const char *text, const struct bytes *arguments, size_t count,
                              char *copy, size_t size) {
    char sha[SCRIPT_SHA_BYTES + 1], why[256];
    struct key_call call;
    struct answer result;
    if (!script_load(scripts, text, strlen(text), sha, why, sizeof why)) fail_msg("%s", why);
    struct script_run *one = script_run_new(scripts, sha, text_bytes("resource"), arguments, count);
    assert_non_null(one);
    assert_int_equal(script_run_step(one, NULL, &call, &result), PROGRAM_ENDS);
    snprintf(copy, size, "%.*s", (int)result.bytes.bytes,
             result.bytes.data != NULL ? result.bytes.data : "");
    script_run_free(one);
    return result;
}

static void much_may_be_given_and_not_too_much(void **state) {
    (void)state;
    static char long_one[1 << 20];
    static struct bytes many[2000];
    char why[600];
    memset(long_one, '1', sizeof long_one);
    for (size_t i = 0; i < 2000; i++) many[i] = (struct bytes){long_one, 100};
    const struct bytes fits = {long_one, 120 * 1024};
    assert_int_equal(run_with("return #ARGV[1]", &fits, 1, why, sizeof why).integer, 120 * 1024);
    assert_int_equal(run_with("return #ARGV", many, 1000, why, sizeof why).integer, 1000);
    const struct bytes too_long = {long_one, sizeof long_one};
    assert_int_equal(run_with("return 1", &too_long, 1, why, sizeof why).kind, ANSWER_ERROR);
    assert_non_null(strstr(why, "takes at most"));
    assert_int_equal(run_with("return 1", many, 2000, why, sizeof why).kind, ANSWER_ERROR);
    assert_non_null(strstr(why, "takes at most"));
}

/* The slowest that was found: instructions which go through all of a long argument, and
 * concatenations that make a text which is there already. Under 20 ms of a processor where this was
 * written; the limit leaves room for slow machines.
 */
static void time_is_bounded(void **state) {
    (void)state;
    static char digits[128 * 1024 - 64];
    static const char *const rows[] = {"while true do local a = ARGV[1] + 0 end",
                                       "while true do local a = ARGV[1] < ARGV[2] end",
                                       "while true do local a = tonumber(ARGV[1]) end",
                                       "local a, b = ARGV[1], '' for i = 1, 1e9 do b = a .. b end"};
    char why[600];
    memset(digits, '7', sizeof digits);
    digits[sizeof digits - 1] = '8';
    const struct bytes arguments[] = {{digits, sizeof digits / 2}, {digits, sizeof digits / 2}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const double before = cpu_ms();
        assert_int_equal(run_with(rows[i], arguments, 2, why, sizeof why).kind, ANSWER_ERROR);
        const double took = cpu_ms() - before;
        print_message("%.1f ms: %s\n", took, rows[i]);
        assert_true(took < 2000);
    }
    static const char same_again[] =
        "local s = 'x' for i = 1, 12 do s = s .. s end local t = s .. s while true do local u = s .. s end";
    const double before = cpu_ms();
    expect_error(same_again, ENDLESS);
    print_message("%.1f ms: %s\n", cpu_ms() - before, same_again);
}

/* `open` n times, the middle, `close` n times. */
static char *nested(const char *open, const char *middle, const char *close, size_t n) {
    char *text = malloc((strlen(open) + strlen(close)) * n + strlen(middle) + 1), *at = text;
    assert_non_null(text);
    for (size_t i = 0; i < n; i++) at = stpcpy(at, open);
    at = stpcpy(at, middle);
    for (size_t i = 0; i < n; i++) at = stpcpy(at, close);
    return text;
}

static void texts_are_bounded(void **state) {
    (void)state;
    static const char *const rows[][4] = {{"(", "return 1", ")", "Error compiling"},
                                          {"return (", "1", ")", "Error compiling"},
                                          {"{", "", "}", "Error compiling"},
                                          {"do ", "return 1", " end", "Error compiling"},
                                          {"a=", "1", "", "Error compiling"},
                                          {"return not ", "1", "", "Error compiling"},
                                          {"local a ", "return 1", "", "Error compiling"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char *text = nested(rows[i][0], rows[i][1], rows[i][2], 5000);
        expect_error(text, rows[i][3]);
        free(text);
    }
    char *text = nested(" ", "return 1", "", 65536);
    expect_error(text, "too long");
    free(text);
    text = nested(" ", "return 1", "", 65000);
    assert_int_equal(run(text).value.integer, 1);
    free(text);
}

static void the_one_unused_for_longest_makes_room(void **state) {
    (void)state;
    char sha[6][SCRIPT_SHA_BYTES + 1], why[256], text[32];
    for (int i = 0; i < 6; i++) {
        snprintf(text, sizeof text, "return %d", i);
        assert_true(script_load(scripts, text, strlen(text), sha[i], why, sizeof why));
        if (i == 3) script_run_free(script_run_new(scripts, sha[0], text_bytes("k"), NULL, 0));
        if (i == 4) assert_true(script_load(scripts, "return 2", 8, sha[2], why, sizeof why));
    }
    assert_true(scripts_has(scripts, sha[0]));
    assert_false(scripts_has(scripts, sha[1]));
    assert_true(scripts_has(scripts, sha[2]));
    assert_false(scripts_has(scripts, sha[3]));
    assert_true(scripts_has(scripts, sha[4]));
    assert_true(scripts_has(scripts, sha[5]));
    assert_null(script_run_new(scripts, sha[1], text_bytes("k"), NULL, 0));
    assert_null(script_run_new(scripts, "", text_bytes("k"), NULL, 0));
    for (char *at = sha[5]; *at != '\0'; at++) *at = *at >= 'a' ? (char)(*at - 32) : *at;
    assert_true(scripts_has(scripts, sha[5]));
    scripts_flush(scripts);
    assert_false(scripts_has(scripts, sha[5]));
    assert_int_equal(run("return 7").value.integer, 7);
}

static void a_run_outlives_its_text(void **state) {
    (void)state;
    static const char text[] =
        "if redis.call('exists', KEYS[1]) == 0 then redis.call('set', KEYS[1], ARGV[1], 'PX', 9) end return #ARGV[1]";
    const struct bytes argument = text_bytes("token");
    char sha[SCRIPT_SHA_BYTES + 1], why[256];
    struct key_call call;
    struct answer result, answer = {.kind = ANSWER_INTEGER};
    assert_true(script_load(scripts, text, sizeof text - 1, sha, why, sizeof why));
    struct script_run *one = script_run_new(scripts, sha, text_bytes("resource"), &argument, 1);
    assert_int_equal(script_run_step(one, NULL, &call, &result), PROGRAM_CALLS);
    scripts_flush(scripts);
    assert_int_equal(script_run_step(one, &answer, &call, &result), PROGRAM_CALLS);
    assert_int_equal(call.command, KEY_TAKE);
    answer = (struct answer){.kind = ANSWER_NIL};
    assert_int_equal(script_run_step(one, &answer, &call, &result), PROGRAM_CALLS);
    assert_int_equal(call.command, KEY_EXISTS);
    answer = (struct answer){.kind = ANSWER_INTEGER, .integer = 1};
    assert_int_equal(script_run_step(one, &answer, &call, &result), PROGRAM_ENDS);
    assert_int_equal(result.integer, 5);
    script_run_free(one);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(loops_end, begin, end),
        cmocka_unit_test_setup_teardown(memory_is_bounded, begin, end),
        cmocka_unit_test_setup_teardown(odd_errors_are_errors, begin, end),
        cmocka_unit_test_setup_teardown(a_long_answer_is_an_error, begin, end),
        cmocka_unit_test_setup_teardown(much_may_be_given_and_not_too_much, begin, end),
        cmocka_unit_test_setup_teardown(time_is_bounded, begin, end),
        cmocka_unit_test_setup_teardown(texts_are_bounded, begin, end),
        cmocka_unit_test_setup_teardown(the_one_unused_for_longest_makes_room, begin, end),
        cmocka_unit_test_setup_teardown(a_run_outlives_its_text, begin, end),
    };
    return cmocka_run_group_tests_name("script limits", tests, NULL, NULL);
}
