/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What every test of a state machine needs: cmocka, terms that make easy numbers, and failed
 * assertions of the core as failures (or, where a test asks for one, as the expected end) instead
 * of an abort.
 */
#ifndef MACHINE_H
#define MACHINE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "core/core.h"

#ifdef NDEBUG
#error "these tests need the core's assertions"
#endif

/* assert() of <assert.h> ends here: cmocka then knows it as an assertion one may expect. */
_Noreturn void __assert_fail(const char *expression, const char *file, unsigned line,
                             const char *function);
_Noreturn void __assert_fail(const char *expression, const char *file, unsigned line,
                             const char *function) {
    (void)function;
    mock_assert(0, expression, file, (int)line);
    __builtin_unreachable();
}

/* 1000 ms, no drift but 10 ms: a win at 5 ms leaves until 990. */
static inline struct rl_terms test_terms(unsigned nodes) {
    return (struct rl_terms){.nodes = (uint8_t)nodes,
                             .quorum = (uint8_t)rl_quorum(nodes),
                             .ttl = 1000 * RL_MS,
                             .drift_ppm = 0,
                             .drift_fixed = 10 * RL_MS,
                             .node_timeout = 50 * RL_MS,
                             .validity_min = RL_MS};
}

/* `table` has a line for each state, a character for each target: '+' allowed. Moves that are
 * allowed may also assert an invariant, so `prepare` makes the machine fit for `to`. */
struct table_test {
    const char *const *table;
    unsigned states;
    void (*prepare)(unsigned from, unsigned to);
    void (*move)(unsigned to);
};
static inline void check_move(const struct table_test *test, unsigned from, unsigned to) {
    test->prepare(from, to);
    if (test->table[from][to] == '+')
        test->move(to);
    else
        expect_assert_failure(test->move(to));
}

static inline void check_table(const struct table_test *test) {
    void (*volatile check)(const struct table_test *, unsigned, unsigned) =
        check_move; /* setjmp: never inlined */
    for (unsigned from = 0; from < test->states; from++)
        for (unsigned to = 0; to < test->states; to++) check(test, from, to);
}

#endif
