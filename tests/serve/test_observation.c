/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What the nodes say, judged together: a lock, nothing, or not to be known.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "key/observation.h"

#define MS INT64_C(1000000)

/* One letter a node: a, b: a lock of that token; -: absent; ?: silent; h: a hash; l: too long. */
static enum observation_verdict judge(const char *nodes, struct observation *observation) {
    static struct redlock_view views[REDLOCK_NODES_MAX];
    memset(views, 0, sizeof views);
    for (size_t i = 0; nodes[i] != '\0'; i++) {
        views[i].verdict = REDLOCK_VERDICT_GRANTED;
        views[i].remaining_ms = 1000 * (int64_t)(i + 1);
        views[i].token_bytes = 1;
        views[i].token[0] = (unsigned char)nodes[i];
        views[i].token_truncated = nodes[i] == 'l';
        if (nodes[i] == '-') views[i] = (struct redlock_view){.verdict = REDLOCK_VERDICT_ABSENT};
        if (nodes[i] == 'h') views[i] = (struct redlock_view){.verdict = REDLOCK_VERDICT_WRONGTYPE};
        if (nodes[i] == '?') views[i] = (struct redlock_view){.verdict = REDLOCK_VERDICT_TIMEOUT};
    }
    memset(observation, 0, sizeof *observation);
    return observation_judge(views, strlen(nodes), 0, observation);
}

static void test_majorities(void **state) {
    (void)state;
    static const struct {
        const char *nodes;
        enum observation_verdict verdict;
        enum observation_state state;
    } rows[] = {
        {"aaaaa", OBSERVED_DECIDED, OBSERVED_LOCK},   {"aaa--", OBSERVED_DECIDED, OBSERVED_LOCK},
        {"aaa??", OBSERVED_DECIDED, OBSERVED_LOCK},   {"aaabb", OBSERVED_DECIDED, OBSERVED_LOCK},
        {"aa---", OBSERVED_DECIDED, OBSERVED_ABSENT}, {"aabb-", OBSERVED_DECIDED, OBSERVED_ABSENT},
        {"-----", OBSERVED_DECIDED, OBSERVED_ABSENT}, {"---??", OBSERVED_DECIDED, OBSERVED_ABSENT},
        {"aa--?", OBSERVED_UNKNOWN, OBSERVED_NONE},   {"a--??", OBSERVED_UNKNOWN, OBSERVED_NONE},
        {"--???", OBSERVED_UNKNOWN, OBSERVED_NONE},   {"?????", OBSERVED_UNKNOWN, OBSERVED_NONE},
        {"aabb?", OBSERVED_UNKNOWN, OBSERVED_NONE},   {"ab-??", OBSERVED_UNKNOWN, OBSERVED_NONE},
        {"hhh--", OBSERVED_FOREIGN, OBSERVED_NONE},   {"lll??", OBSERVED_LONG, OBSERVED_NONE},
        {"a", OBSERVED_DECIDED, OBSERVED_LOCK},       {"-", OBSERVED_DECIDED, OBSERVED_ABSENT},
        {"?", OBSERVED_UNKNOWN, OBSERVED_NONE},       {"aa--", OBSERVED_DECIDED, OBSERVED_ABSENT},
        {"aaa-", OBSERVED_DECIDED, OBSERVED_LOCK},    {"ab?", OBSERVED_UNKNOWN, OBSERVED_NONE},
        {"ab-", OBSERVED_DECIDED, OBSERVED_ABSENT}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct observation observation;
        enum observation_verdict verdict = judge(rows[i].nodes, &observation);
        if (verdict != rows[i].verdict || observation.state != rows[i].state)
            fail_msg("%s: verdict %d, state %d", rows[i].nodes, (int)verdict,
                     (int)observation.state);
    }
}

/* Node i holds it for i seconds: it ends when fewer than three are left. */
static void test_it_ends_with_its_majority(void **state) {
    (void)state;
    struct observation observation;
    judge("aaaaa", &observation);
    assert_int_equal(observation.ends_ns, 3000 * MS);
    judge("aaa--", &observation);
    assert_int_equal(observation.ends_ns, 1000 * MS);
    judge("--aaa", &observation);
    assert_int_equal(observation.ends_ns, 3000 * MS);
}

/* A key of somebody else's that ends in 317 years, which are more nanoseconds than there are
 * numbers. */
static void test_an_end_beyond_all_numbers(void **state) {
    (void)state;
    static const struct redlock_view view = {.verdict = REDLOCK_VERDICT_GRANTED,
                                             .remaining_ms = INT64_C(9999999999000),
                                             .token_bytes = 1,
                                             .token = "a"};
    const struct redlock_view views[] = {view, view, view};
    struct observation observation = {0};
    assert_int_equal(observation_judge(views, 3, 1000 * MS, &observation), OBSERVED_DECIDED);
    assert_int_equal(observation.state, OBSERVED_LOCK);
    assert_true(observation.ends_ns > INT64_C(90) * 365 * 86400 * 1000 * MS);
    assert_true(observation.ends_ns < OBSERVED_NEVER_ENDS);
}

static void value_is(const char *token, const char *expected) {
    struct bytes value = observation_value(token, strlen(token));
    assert_int_equal(value.bytes, strlen(expected));
    assert_memory_equal(value.data, expected, value.bytes);
}

static void test_value_of_a_token(void **state) {
    (void)state;
#define HEX "0123456789abcdef0123456789abcdef01234567"
    value_is(HEX ":mine", "mine");
    value_is(HEX ":" HEX ":x", HEX ":x");
    value_is(HEX, HEX);
    value_is(HEX ":", HEX ":");
    value_is(HEX "-mine", HEX "-mine");
    value_is("g" HEX ":x", "g" HEX ":x");
    value_is("0123456789ABCDEF0123456789abcdef01234567:x",
             "0123456789ABCDEF0123456789abcdef01234567:x");
    value_is("abc", "abc");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_majorities), cmocka_unit_test(test_it_ends_with_its_majority),
        cmocka_unit_test(test_an_end_beyond_all_numbers), cmocka_unit_test(test_value_of_a_token)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
