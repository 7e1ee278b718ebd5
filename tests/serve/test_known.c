/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Scripts that are known by heart: they ask for the same, and end the same, as where the
 * interpreter runs them, whatever the answers are; and other scripts are not taken for them.
 */
#include "script/known.h"
#include "scripted.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define RUNS 4000
#define STEPS_MAX 64

/* What a key or a quorum may answer to a call; of each kind several, so that all branches are
 * taken. */
static struct answer random_answer(enum key_command command) {
    static const struct answer held[] = {{.kind = ANSWER_BYTES, .bytes = {"mine", 4}},
                                         {.kind = ANSWER_BYTES, .bytes = {"mine", 4}},
                                         {.kind = ANSWER_BYTES, .bytes = {"another's", 9}},
                                         {.kind = ANSWER_BYTES, .bytes = {"", 0}},
                                         {.kind = ANSWER_NIL}};
    static const int64_t left[] = {-2, -1, 0, 1, 499, 500, 1500, 600400};
    const struct answer ok = {.kind = ANSWER_STATUS, .bytes = {"OK", 2}},
                        nil = {.kind = ANSWER_NIL};
    if (random() % 8 == 0) {
        const char *text = random() % 2 ? "NOQUORUM too few (a: refused;\r\nb: timeout)"
                                        : "WRONGTYPE it is a hash";
        return (struct answer){.kind = ANSWER_ERROR, .bytes = text_bytes(text)};
    }
    switch (command) {
    case KEY_GET: return held[(size_t)random() % (sizeof held / sizeof held[0])];
    case KEY_PTTL:
        return (struct answer){.kind = ANSWER_INTEGER,
                               .integer = left[(size_t)random() % (sizeof left / sizeof left[0])]};
    case KEY_TAKE: return random() % 2 ? ok : nil;
    case KEY_PUBLISH:
    case KEY_EXISTS:
    case KEY_DELETE:
    case KEY_EXTEND: break;
    }
    return (struct answer){.kind = ANSWER_INTEGER, .integer = random() % 2};
}

static bool same_bytes(struct bytes a, struct bytes b) {
    return a.bytes == b.bytes && (a.bytes == 0 || memcmp(a.data, b.data, a.bytes) == 0);
}

static void assert_same_call(const char *text, const struct key_call *here,
                             const struct key_call *there) {
    const bool lives = there->command == KEY_EXTEND || there->command == KEY_TAKE;
    if (here->command != there->command || (lives && here->ttl_ms != there->ttl_ms))
        fail_msg("%s: calls %d for %lld ms, the interpreter %d for %lld ms", text, here->command,
                 (long long)here->ttl_ms, there->command, (long long)there->ttl_ms);
    if (there->command == KEY_TAKE) assert_true(same_bytes(here->value, there->value));
}

static void assert_same_result(const char *text, const struct answer *here,
                               const struct answer *there) {
    const bool has_bytes = there->kind != ANSWER_NIL && there->kind != ANSWER_INTEGER;
    const bool same = here->kind == there->kind &&
                      (there->kind != ANSWER_INTEGER || here->integer == there->integer) &&
                      (!has_bytes || same_bytes(here->bytes, there->bytes));
    if (!same)
        fail_msg("%s: %d %lld '%.*s', the interpreter %d %lld '%.*s'", text, here->kind,
                 (long long)here->integer, (int)here->bytes.bytes, here->bytes.data, there->kind,
                 (long long)there->integer, (int)there->bytes.bytes, there->bytes.data);
}

/* Returns the number of calls. */
static unsigned compare_run(const char *text, struct known_run *here, struct script_run *there) {
    struct key_call call_here, call_there;
    struct answer result_here, result_there, answer, *given = NULL;
    for (unsigned calls = 0; calls < STEPS_MAX; calls++) {
        const enum program_step step = known_step(here, given, &call_here, &result_here);
        assert_int_equal(step, script_run_step(there, given, &call_there, &result_there));
        if (step == PROGRAM_ENDS) {
            assert_same_result(text, &result_here, &result_there);
            return calls;
        }
        assert_same_call(text, &call_here, &call_there);
        answer = random_answer(call_there.command);
        given = &answer;
    }
    fail_msg("%s: does not end", text);
    return 0;
}

static const struct bytes arguments[][3] = {{{"mine", 4}, {"900400", 6}, {"0", 1}},
                                            {{"mine", 4}, {"10", 2}, {"1", 1}},
                                            {{"", 0}, {"9999999999999", 13}, {"", 0}}};

static void compare_text(struct scripts *scripts, const char *text) {
    char sha[SCRIPT_SHA_BYTES + 1], error[512];
    const struct known known = known_find(text_bytes(text));
    static struct known_run here;
    unsigned calls = 0;
    if (known.program == NULL) fail_msg("not known: %s", text);
    if (!script_load(scripts, text, strlen(text), sha, error, sizeof error))
        fail_msg("%s: %s", text, error);
    for (unsigned i = 0; i < RUNS; i++) {
        const struct bytes *given = arguments[(size_t)random() % 3];
        const size_t count = 2 + (size_t)random() % 2;
        struct script_run *there =
            script_run_new(scripts, sha, text_bytes("resource"), given, count);
        assert_non_null(there);
        assert_true(known_begin(&here, &known, sha, given, count));
        calls += compare_run(text, &here, there);
        script_run_free(there);
    }
    assert_true(calls > RUNS);
}

/* The same words in another layout: each blank becomes some, other quotes, the commands in the
 * other case. */
static void write_otherwise(const char *text, char *out) {
    for (; *text != '\0'; text++) {
        if (*text == ' ' && (text[1] == '(' || text[-1] == ')')) {
            *out++ = ' ';
        } else if (*text == ' ') {
            static const char *const blanks[] = {" ", "\n", "\t\n ", " -- why ]] not\n"};
            out = stpcpy(out, blanks[random() % 4]);
        } else {
            *out++ = *text == '\'' ? '"' : *text;
        }
    }
    *out = '\0';
}

static void all_do_what_the_interpreter_does(void **state) {
    struct scripts *scripts = scripts_new(256, 16384);
    static char otherwise[8192];
    (void)state;
    assert_non_null(scripts);
    srandom(20240607);
    for (size_t i = 0; known_program_at(i) != NULL; i++) {
        compare_text(scripts, known_program_at(i)->text);
        write_otherwise(known_program_at(i)->text, otherwise);
        if (strlen(otherwise) <= 1024) compare_text(scripts, otherwise);
    }
    scripts_free(scripts);
}

static void layout_makes_no_difference(void **state) {
    (void)state;
    static const char *const rows[] = {"if redis.call(\"get\",KEYS[1]) == ARGV[1] then\n    return "
                                       "redis.call(\"del\",KEYS[1])\nelse\n    return 0\nend\n",
                                       "if redis.call('get',KEYS[1])==ARGV[1] then return "
                                       "redis.call('del',KEYS[1]) else return 0 end",
                                       "if redis.call( \"GET\" , KEYS [1] ) == ARGV[1]then -- "
                                       "mine\nreturn redis.call('Del', KEYS[1])else return 0 end"};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (known_find(text_bytes(rows[i])).program == NULL) fail_msg("not known: %s", rows[i]);
    }
    assert_int_equal(known_find(text_bytes(rows[0])).lines[1], 2);
}

/* Each is near to one that is known, and is another script, or none. */
static void others_are_not_known(void **state) {
    (void)state;
    static const char *const rows[] = {"",
                                       "return 1",
                                       "if redis.call('get', KEYS[1]) == ARGV[1] then return "
                                       "redis.call('del', KEYS[1]) else return 0",
                                       "if redis.call('get', KEYS[1]) == ARGV[1] then return "
                                       "redis.call('del', KEYS[1]) else return 0 end end",
                                       "if redis.call('get', KEYS[1]) == ARGV[2] then return "
                                       "redis.call('del', KEYS[1]) else return 0 end",
                                       "if redis.call('get', KEYS[1]) == ARGV[1] then return "
                                       "redis.call('del', KEYS[1]) else return 1 end",
                                       "if redis.call('get', KEYS[1]) == ARGV[1] then return "
                                       "redis.call('del', KEYS[1]) else return 0x0 end",
                                       "if redis.call('get', KEYS[1]) ~= ARGV[1] then return "
                                       "redis.call('del', KEYS[1]) else return 0 end",
                                       "if redis.pcall('get', KEYS[1]) == ARGV[1] then return "
                                       "redis.call('del', KEYS[1]) else return 0 end",
                                       "if redis.call('get', keys[1]) == ARGV[1] then return "
                                       "redis.call('del', KEYS[1]) else return 0 end",
                                       "IF redis.call('get', KEYS[1]) == ARGV[1] then return "
                                       "redis.call('del', KEYS[1]) else return 0 end",
                                       "if redis.call('get', KEYS[1]) == ARGV[1] then return "
                                       "redis.call('del ', KEYS[1]) else return 0 end",
                                       "if redis.call([[get]], KEYS[1]) == ARGV[1] then return "
                                       "redis.call('del', KEYS[1]) else return 0 end",
                                       "if redis.call('\\103et', KEYS[1]) == ARGV[1] then return "
                                       "redis.call('del', KEYS[1]) else return 0 end",
                                       "if redis.call\n('get', KEYS[1]) == ARGV[1] then return "
                                       "redis.call('del', KEYS[1]) else return 0 end",
                                       "if redis.call('get', KEYS[1]) == ARGV[1] then return "
                                       "redis.call('del', KEYS[1]) --[[ else ]] else return 0 end",
                                       "local identifier = redis.call('get', KEYS[1]) if not "
                                       "identifier then return redis.status_reply('ok') elseif "
                                       "identifier == ARGV[1] then return redis.call('del', "
                                       "KEYS[1]) else return redis.error_reply('ERROR') end"};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (known_find(text_bytes(rows[i])).program != NULL) fail_msg("known: %s", rows[i]);
    }
    /* Every text that is cut somewhere. */
    for (size_t i = 0; known_program_at(i) != NULL; i++) {
        for (size_t bytes = 0; bytes < strlen(known_program_at(i)->text); bytes++)
            assert_null(known_find((struct bytes){known_program_at(i)->text, bytes}).program);
    }
}

static void odd_arguments_are_for_the_interpreter(void **state) {
    (void)state;
    static const char extension[] =
        "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], "
        "ARGV[2]) else return 0 end";
    static const char sha[] = "0123456789012345678901234567890123456789";
    static const char *const times[] = {
        "", "0", "-1", "+1", "01", " 1", "1 ", "1.5", "1e3", "soon", "12345678901234"};
    const struct known known = known_find(text_bytes(extension));
    static struct known_run run;
    assert_non_null(known.program);
    for (size_t i = 0; i < sizeof times / sizeof times[0]; i++) {
        const struct bytes given[] = {text_bytes("mine"), text_bytes(times[i])};
        if (known_begin(&run, &known, sha, given, 2)) fail_msg("taken: '%s'", times[i]);
    }
    const struct bytes given[] = {text_bytes("mine"), text_bytes("1")};
    assert_true(known_begin(&run, &known, sha, given, 2));
    assert_false(known_begin(&run, &known, sha, given, 1));
    assert_false(known_begin(&run, &known, sha, given, 0));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_do_what_the_interpreter_does),
        cmocka_unit_test(layout_makes_no_difference),
        cmocka_unit_test(others_are_not_known),
        cmocka_unit_test(odd_arguments_are_for_the_interpreter),
    };
    return cmocka_run_group_tests_name("known scripts", tests, NULL, NULL);
}
