/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Histories written by hand, one record a line, and their judgement. Times are nanoseconds.
 */
#ifndef TESTS_SIM_PAST_H
#define TESTS_SIM_PAST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "judges/check.h"

enum { A, B, C };
enum { OK = 0, HELD = -1, NO_QUORUM = -2, LOST_ = -4, TWO_QUORUMS = -16 };

/* The variable part is a kind and, where it needs more, designated fields: DOES(5, A, ACQUIRED,
 * .until = 9). Of resource 0 unless a field says otherwise. */
#define DOES(when, who, ...)                                                                       \
    { .at = (when), .client = (who), .node = -1, .kind = HISTORY_##__VA_ARGS__ }
#define BEFALLS(when, who, ...)                                                                    \
    { .at = (when), .client = (who), .node = -1, .resource = -1, .kind = HISTORY_##__VA_ARGS__ }
#define KEY(when, where, ...)                                                                      \
    { .at = (when), .client = -1, .node = (where), .kind = HISTORY_KEY_##__VA_ARGS__ }
#define NODE(when, where, ...)                                                                     \
    {                                                                                              \
        .at = (when), .client = -1, .node = (where), .resource = -1,                               \
        .kind = HISTORY_NODE_##__VA_ARGS__                                                         \
    }
#define RUN(when, ...)                                                                             \
    { .at = (when), .client = -1, .node = -1, .resource = -1, .kind = HISTORY_##__VA_ARGS__ }

#define FOUND_ROOM 16
static struct check_violation found[FOUND_ROOM];
static rl_ns liveness_bound;
static uint32_t others, refused; /* nodes, clients */

static inline size_t past_judge(enum check_rule rule, const struct history_record *records,
                                size_t count) {
    static struct history_record copy[256];
    assert_in_range(count, 1, 256);
    memcpy(copy, records, count * sizeof *records);
    struct history history = {.records = copy,
                              .count = count,
                              .capacity = 256,
                              .clients = 3,
                              .nodes = 3,
                              .resources = 2,
                              .liveness_bound = liveness_bound,
                              .others = others,
                              .refused = refused};
    memset(found, 0, sizeof found);
    return check_history(&history, 1u << rule, found, FOUND_ROOM);
}

#define JUDGE(rule, ...)                                                                           \
    past_judge(CHECK_##rule, (const struct history_record[]){__VA_ARGS__},                         \
               sizeof((const struct history_record[]){__VA_ARGS__}) /                              \
                   sizeof(struct history_record))
#define HOLDS(rule, ...)                                                                           \
    do {                                                                                           \
        if (JUDGE(rule, __VA_ARGS__) != 0) fail_msg("%s", found[0].text);                          \
    } while (0)

/* Exactly one violation, of these records. */
#define BREAKS(broken, one, other, ...)                                                            \
    do {                                                                                           \
        size_t many = JUDGE(broken, __VA_ARGS__);                                                  \
        if (many == 0) fail_msg("%s not found", check_rule_name(CHECK_##broken));                  \
        if (many > 1) fail_msg("%zu found: %s; %s", many, found[0].text, found[1].text);           \
        assert_int_equal(found[0].rule, CHECK_##broken);                                           \
        assert_int_equal(found[0].first, one);                                                     \
        assert_int_equal(found[0].second, other);                                                  \
    } while (0)

static inline void says(const char *text) { assert_string_equal(found[0].text, text); }
static inline void spans(rl_ns from, rl_ns until) {
    assert_int_equal(found[0].from, from);
    assert_int_equal(found[0].until, until);
}

#endif
