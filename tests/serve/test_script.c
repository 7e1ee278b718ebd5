/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What a script asks for, what it hears, and what becomes of its result.
 */
#include "scripted.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

struct stage {
    struct scripts *scripts;
    struct script_run *run;
    struct key_call call;
    struct answer result;
    enum program_step step;
};

static int begin(void **state) {
    static struct stage stage;
    stage = (struct stage){.scripts = scripts_new(16, 16384)};
    *state = &stage;
    return stage.scripts == NULL;
}

static int end(void **state) {
    struct stage *stage = *state;
    script_run_free(stage->run);
    scripts_free(stage->scripts);
    return 0;
}

static void start(struct stage *stage, const char *text, const char *one, const char *two) {
    char sha[SCRIPT_SHA_BYTES + 1], error[512] = "";
    const struct bytes arguments[] = {text_bytes(one), text_bytes(two)};
    script_run_free(stage->run);
    if (!script_load(stage->scripts, text, strlen(text), sha, error, sizeof error))
        fail_msg("%s: %s", text, error);
    stage->run = script_run_new(stage->scripts, sha, text_bytes("resource"), arguments, 2);
    assert_non_null(stage->run);
    stage->step = script_run_step(stage->run, NULL, &stage->call, &stage->result);
}

static void answer(struct stage *stage, struct answer value) {
    assert_int_equal(stage->step, PROGRAM_CALLS);
    stage->step = script_run_step(stage->run, &value, &stage->call, &stage->result);
}

static struct answer nil(void) { return (struct answer){.kind = ANSWER_NIL}; }
static struct answer number(int64_t value) {
    return (struct answer){.kind = ANSWER_INTEGER, .integer = value};
}
static struct answer bytes(const char *text) {
    return (struct answer){.kind = ANSWER_BYTES, .bytes = text_bytes(text)};
}
static struct answer status(const char *text) {
    return (struct answer){.kind = ANSWER_STATUS, .bytes = text_bytes(text)};
}
static struct answer error(const char *text) {
    return (struct answer){.kind = ANSWER_ERROR, .bytes = text_bytes(text)};
}

static void expect_text(struct stage *stage, enum answer_kind kind, const char *text) {
    char found[600];
    assert_int_equal(stage->step, PROGRAM_ENDS);
    assert_int_equal(stage->result.kind, kind);
    assert_true(stage->result.bytes.bytes < sizeof found);
    memcpy(found, stage->result.bytes.data, stage->result.bytes.bytes);
    found[stage->result.bytes.bytes] = '\0';
    assert_string_equal(found, text);
}

static void expect_number(struct stage *stage, int64_t value) {
    assert_int_equal(stage->step, PROGRAM_ENDS);
    assert_int_equal(stage->result.kind, ANSWER_INTEGER);
    assert_int_equal(stage->result.integer, value);
}

static void expect_call(struct stage *stage, enum key_command command, const char *value,
                        int64_t ttl_ms) {
    assert_int_equal(stage->step, PROGRAM_CALLS);
    assert_int_equal(stage->call.command, command);
    assert_int_equal(stage->call.ttl_ms, ttl_ms);
    if (value == NULL) {
        assert_null(stage->call.value.data);
        return;
    }
    assert_int_equal(stage->call.value.bytes, strlen(value));
    assert_memory_equal(stage->call.value.data, value, strlen(value));
}

static void each_command(void **state) {
    struct stage *stage = *state;
    static const struct {
        const char *text;
        enum key_command command;
        const char *value;
        int64_t ttl_ms;
    } rows[] = {
        {"redis.call('get', KEYS[1])", KEY_GET, NULL, 0},
        {"redis.call('EXISTS', KEYS[1])", KEY_EXISTS, NULL, 0},
        {"redis.call('pttl', KEYS[1])", KEY_PTTL, NULL, 0},
        {"redis.call('ttl', KEYS[1])", KEY_PTTL, NULL, 0},
        {"redis.call('del', KEYS[1])", KEY_DELETE, NULL, 0},
        {"redis.call('unlink', KEYS[1])", KEY_DELETE, NULL, 0},
        {"redis.call('del', unpack(KEYS))", KEY_DELETE, NULL, 0},
        {"redis.call('PExpire', KEYS[1], ARGV[2])", KEY_EXTEND, NULL, 2500},
        {"redis.call('pexpire', KEYS[1], ARGV[2] + 500)", KEY_EXTEND, NULL, 3000},
        {"redis.call('pexpire', KEYS[1], 1e15)", KEY_EXTEND, NULL, 1000000000000000},
        {"redis.call('expire', KEYS[1], 30)", KEY_EXTEND, NULL, 30000},
        {"redis.call('expire', KEYS[1], 0)", KEY_DELETE, NULL, 0},
        {"redis.call('pexpire', KEYS[1], -1)", KEY_DELETE, NULL, 0},
        {"redis.call('set', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2])", KEY_TAKE, "mine", 2500},
        {"redis.call('set', KEYS[1], ARGV[1], 'ex', 3, 'nx')", KEY_TAKE, "mine", 3000},
        {"redis.call('set', KEYS[1], 42, 'px', ARGV[2], 'Nx')", KEY_TAKE, "42", 2500},
        {"redis.call('getrange', KEYS[1], 0, 3)", KEY_GET, NULL, 0},
        {"redis.call('publish', 'channel', KEYS[1])", KEY_PUBLISH, "resource", 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        start(stage, rows[i].text, "mine", "2500");
        expect_call(stage, rows[i].command, rows[i].value, rows[i].ttl_ms);
    }
}

static void answers_reach_the_script(void **state) {
    struct stage *stage = *state;
    static const char get[] =
        "local a = redis.call('get', KEYS[1]) return type(a) .. ':' .. tostring(a)";
    start(stage, get, "", "");
    answer(stage, nil());
    expect_text(stage, ANSWER_BYTES, "boolean:false");
    start(stage, get, "", "");
    answer(stage, bytes("v"));
    expect_text(stage, ANSWER_BYTES, "string:v");
    start(stage, "local a = redis.call('pttl', KEYS[1]) return type(a) .. ':' .. a", "", "");
    answer(stage, number(-2));
    expect_text(stage, ANSWER_BYTES, "number:-2");
    start(stage, "return redis.call('set', KEYS[1], 'v', 'PX', 5, 'NX').ok", "", "");
    answer(stage, status("OK"));
    expect_text(stage, ANSWER_BYTES, "OK");
    start(stage, "return redis.pcall('get', KEYS[1]).err", "", "");
    answer(stage, error("TRYAGAIN not now"));
    expect_text(stage, ANSWER_BYTES, "TRYAGAIN not now");
}

static void seconds_are_rounded_as_redis_does(void **state) {
    struct stage *stage = *state;
    static const int64_t rows[][2] = {{-2, -2}, {-1, -1},  {0, 0},     {499, 0},
                                      {500, 1}, {1499, 1}, {30000, 30}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        start(stage, "return redis.call('ttl', KEYS[1])", "", "");
        answer(stage, number(rows[i][0]));
        expect_number(stage, rows[i][1]);
    }
}

static void an_error_ends_a_call_and_not_a_pcall(void **state) {
    struct stage *stage = *state;
    start(stage, "\nredis.call('del', KEYS[1]) return 1", "", "");
    answer(stage, error("CLUSTERDOWN no majority"));
    assert_int_equal(stage->step, PROGRAM_ENDS);
    assert_int_equal(stage->result.kind, ANSWER_ERROR);
    /* As Redis 7 says it: what, in which script, on which line. */
    static const char before[] = "CLUSTERDOWN no majority script: ",
                      after[] = ", on @user_script:2.";
    assert_int_equal(stage->result.bytes.bytes,
                     sizeof before - 1 + SCRIPT_SHA_BYTES + sizeof after - 1);
    assert_memory_equal(stage->result.bytes.data, before, sizeof before - 1);
    assert_memory_equal(stage->result.bytes.data + sizeof before - 1 + SCRIPT_SHA_BYTES, after,
                        sizeof after - 1);
    start(stage, "redis.pcall('del', KEYS[1]) return 1", "", "");
    answer(stage, error("CLUSTERDOWN no majority"));
    expect_number(stage, 1);
}

static void a_release_names_what_it_compared(void **state) {
    struct stage *stage = *state;
    start(
        stage,
        "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0",
        "mine", "");
    expect_call(stage, KEY_GET, NULL, 0);
    answer(stage, bytes("mine"));
    expect_call(stage, KEY_DELETE, "mine", 0);
    answer(stage, number(1));
    expect_number(stage, 1);
}

/* What a script has seen may be over when it acts; in a Redis it cannot be. redis-py's extend
 * ignores what pexpire says, and would report a lock that is lost. */
static void a_run_begins_again_when_the_key_was_changed(void **state) {
    struct stage *stage = *state;
    start(
        stage,
        "if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end redis.call('pexpire', KEYS[1], 50) return 1",
        "mine", "");
    answer(stage, bytes("mine"));
    expect_call(stage, KEY_EXTEND, "mine", 50);
    answer(stage, number(0));
    expect_call(stage, KEY_GET, NULL, 0);
    answer(stage, bytes("another's"));
    expect_number(stage, 0);

    start(
        stage,
        "if redis.call('exists', KEYS[1]) == 1 then return 0 end redis.call('set', KEYS[1], ARGV[1], 'PX', 50) "
        "return #KEYS",
        "mine", "");
    answer(stage, number(0));
    expect_call(stage, KEY_TAKE, "mine", 50);
    answer(stage, nil());
    expect_call(stage, KEY_EXISTS, NULL, 0);
    answer(stage, number(1));
    expect_number(stage, 0);
}

static void it_does_not_begin_again_for_ever(void **state) {
    struct stage *stage = *state;
    unsigned tries = 0;
    start(stage, "redis.call('get', KEYS[1]) redis.call('del', KEYS[1]) return 1", "", "");
    for (; stage->step == PROGRAM_CALLS; tries++) {
        answer(stage, bytes("mine"));
        answer(stage, number(0));
    }
    assert_int_equal(tries, 4);
    expect_text(stage, ANSWER_ERROR,
                "ERR the key was changed by another client while the script ran");
}

static void nor_after_it_has_changed_something(void **state) {
    struct stage *stage = *state;
    start(
        stage,
        "redis.call('get', KEYS[1]) redis.call('pexpire', KEYS[1], 9) redis.call('pexpire', KEYS[1], 9) return 1",
        "", "");
    answer(stage, bytes("mine"));
    answer(stage, number(1));
    expect_call(stage, KEY_EXTEND, "mine", 9);
    answer(stage, number(0));
    expect_text(stage, ANSWER_ERROR,
                "ERR the key was changed by another client while the script ran");
}

static void what_nobody_looked_at_may_be_absent(void **state) {
    struct stage *stage = *state;
    start(stage, "return redis.call('del', KEYS[1])", "", "");
    answer(stage, number(0));
    expect_number(stage, 0);
    start(stage, "return redis.call('set', KEYS[1], 'v', 'NX', 'PX', 9)", "", "");
    answer(stage, nil());
    assert_int_equal(stage->result.kind, ANSWER_NIL);
}

static void a_value_set_again_is_an_extension(void **state) {
    struct stage *stage = *state;
    start(
        stage,
        "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('set', KEYS[1], ARGV[1], 'PX', ARGV[2]) end",
        "mine", "700");
    answer(stage, bytes("mine"));
    expect_call(stage, KEY_EXTEND, "mine", 700);
    answer(stage, number(1));
    expect_text(stage, ANSWER_STATUS, "OK");
}

static void two_runs_of_one_script_do_not_meet(void **state) {
    struct stage *stage = *state;
    static const char text[] =
        "local old = redis.call('get', KEYS[1]) KEYS[2] = 'x' return old .. ARGV[1] .. #KEYS";
    struct stage other = {.scripts = stage->scripts};
    start(stage, text, "a", "");
    start(&other, text, "b", "");
    answer(stage, bytes("1"));
    answer(&other, bytes("2"));
    expect_text(stage, ANSWER_BYTES, "1a2");
    expect_text(&other, ANSWER_BYTES, "2b2");
    script_run_free(other.run);
}

static void bytes_are_bytes(void **state) {
    struct stage *stage = *state;
    char sha[SCRIPT_SHA_BYTES + 1], why[256];
    static const char text[] =
        "local v = redis.call('get', KEYS[1]) if v == ARGV[1] then return #v end";
    const struct bytes argument = {"a\0b", 3};
    assert_true(script_load(stage->scripts, text, sizeof text - 1, sha, why, sizeof why));
    stage->run = script_run_new(stage->scripts, sha, (struct bytes){"k\0k", 3}, &argument, 1);
    stage->step = script_run_step(stage->run, NULL, &stage->call, &stage->result);
    answer(stage, (struct answer){.kind = ANSWER_BYTES, .bytes = {"a\0b", 3}});
    expect_number(stage, 3);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(each_command, begin, end),
        cmocka_unit_test_setup_teardown(answers_reach_the_script, begin, end),
        cmocka_unit_test_setup_teardown(seconds_are_rounded_as_redis_does, begin, end),
        cmocka_unit_test_setup_teardown(an_error_ends_a_call_and_not_a_pcall, begin, end),
        cmocka_unit_test_setup_teardown(a_release_names_what_it_compared, begin, end),
        cmocka_unit_test_setup_teardown(a_run_begins_again_when_the_key_was_changed, begin, end),
        cmocka_unit_test_setup_teardown(it_does_not_begin_again_for_ever, begin, end),
        cmocka_unit_test_setup_teardown(nor_after_it_has_changed_something, begin, end),
        cmocka_unit_test_setup_teardown(what_nobody_looked_at_may_be_absent, begin, end),
        cmocka_unit_test_setup_teardown(a_value_set_again_is_an_extension, begin, end),
        cmocka_unit_test_setup_teardown(two_runs_of_one_script_do_not_meet, begin, end),
        cmocka_unit_test_setup_teardown(bytes_are_bytes, begin, end),
    };
    return cmocka_run_group_tests_name("scripts", tests, NULL, NULL);
}
