/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The words for states, outcomes and votes. Traces and messages contain them, so each is written
 * down here once more. */
#include "machine.h"

static void test_acquire_states(void **state) {
    (void)state;
    static const char *const names[] = {"idle",     "gathering", "voting", "cleaning",
                                        "sleeping", "won",       "over",   "unknown"};
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++)
        assert_string_equal(rl_acquire_state_name((enum rl_acquire_state)i), names[i]);
}

static void test_lease_states(void **state) {
    (void)state;
    static const char *const names[] = {"none",      "held",     "unsure", "lost",
                                        "releasing", "released", "unknown"};
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++)
        assert_string_equal(rl_lease_state_name((enum rl_lease_state)i), names[i]);
}

static void test_outcomes(void **state) {
    (void)state;
    static const char *const names[] = {"none",
                                        "ok",
                                        "held by another",
                                        "no quorum",
                                        "expired while acquiring",
                                        "lost",
                                        "cancelled",
                                        "limit reached",
                                        "held with another number of slots",
                                        "unknown"};
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++)
        assert_string_equal(rl_outcome_name((enum rl_outcome)i), names[i]);
}

static void test_votes(void **state) {
    (void)state;
    static const char *const names[] = {"none",  "granted", "denied", "absent",
                                        "stale", "failed",  "unknown"};
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++)
        assert_string_equal(rl_vote_name((enum rl_vote)i), names[i]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_acquire_states),
        cmocka_unit_test(test_lease_states),
        cmocka_unit_test(test_outcomes),
        cmocka_unit_test(test_votes),
    };
    return cmocka_run_group_tests_name("names", tests, NULL, NULL);
}
