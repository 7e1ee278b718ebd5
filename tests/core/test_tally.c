/* SPDX-License-Identifier: BSD-2-Clause */
#include "machine.h"

static void test_quorum_of_1_to_15(void **state) {
    (void)state;
    static const unsigned quorum[16] = {0, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7, 8, 8};
    for (unsigned n = 1; n <= RL_NODES_MAX; n++) {
        assert_int_equal(rl_quorum(n), quorum[n]);
        assert_int_equal(rl_count(rl_all(n)), n);
    }
}

/* Peers compute N * 0.5 + 0.5 or N / 2.0 and compare a float with a count: 2 of 4 then passes. */
static void test_float_quorum(void **state) {
    (void)state;
    for (unsigned n = 1; n <= RL_NODES_MAX; n++) {
        for (unsigned granted = 0; granted <= n; granted++) {
            struct rl_tally tally;
            rl_tally_open(&tally, n, rl_quorum(n), rl_all(n));
            for (unsigned node = 0; node < n; node++)
                assert_true(
                    rl_tally_vote(&tally, node, node < granted ? RL_VOTE_GRANTED : RL_VOTE_DENIED));
            assert_int_equal(rl_tally_won(&tally), 2 * granted > n);
            assert_int_equal(rl_tally_hopeless(&tally), 2 * granted <= n);
        }
    }
}

static void test_drift_at_the_extremes(void **state) {
    (void)state;
    struct rl_terms terms = test_terms(5);
    terms.drift_ppm = 10000;
    terms.drift_fixed = 2 * RL_MS;
    assert_int_equal(rl_drift(&terms, 10 * RL_MS), 2100000); /* 0.1 + 2 ms */
    assert_int_equal(rl_drift(&terms, 30000 * RL_MS), 302 * RL_MS);
    assert_int_equal(rl_drift(&terms, 86400000 * RL_MS), 864002 * RL_MS); /* 24 h */
    terms.drift_ppm = 1000000;
    assert_int_equal(rl_drift(&terms, 86400000 * RL_MS), 86400002 * RL_MS);
    terms.drift_ppm = UINT32_MAX;
    terms.drift_fixed = (rl_ns)UINT32_MAX * RL_MS;
    assert_true(rl_drift(&terms, 86400000 * RL_MS) > terms.drift_fixed); /* no overflow */
    terms.drift_ppm = 1;
    terms.drift_fixed = 0;
    assert_int_equal(rl_drift(&terms, 1), 1); /* rounded up: validity errs short */
    assert_int_equal(rl_drift(&terms, 1000001), 2);
}

static void test_unasked_nodes_have_failed(void **state) {
    (void)state;
    struct rl_tally tally;
    rl_tally_open(&tally, 5, 3, 0x13);
    assert_int_equal(tally.failed, 0x0c);
    assert_int_equal(rl_tally_pending(&tally), 0x13);
    assert_false(rl_tally_vote(&tally, 2, RL_VOTE_GRANTED));
    assert_false(rl_tally_won(&tally));
    assert_false(rl_tally_hopeless(&tally));
    assert_true(rl_tally_vote(&tally, 4, RL_VOTE_ABSENT));
    assert_true(rl_tally_hopeless(&tally));
}

static void test_a_node_votes_once(void **state) {
    (void)state;
    struct rl_tally tally;
    rl_tally_open(&tally, 3, 2, 7);
    assert_false(rl_tally_vote(&tally, 0, RL_VOTE_NONE));
    assert_true(rl_tally_vote(&tally, 0, RL_VOTE_DENIED));
    assert_false(rl_tally_vote(&tally, 0, RL_VOTE_GRANTED));
    assert_false(rl_tally_vote(&tally, 3, RL_VOTE_GRANTED));
    assert_false(rl_tally_vote(&tally, 200, RL_VOTE_GRANTED));
    assert_false(rl_tally_vote(&tally, 32 + 2, RL_VOTE_GRANTED)); /* not node 2 of a 32-bit mask */
    assert_int_equal(tally.denied, 1);
    assert_int_equal(tally.granted, 0);
}

static void test_close_fails_the_silent(void **state) {
    (void)state;
    struct rl_tally tally;
    rl_tally_open(&tally, 5, 3, 0x1f);
    rl_tally_vote(&tally, 0, RL_VOTE_GRANTED);
    rl_tally_close(&tally);
    assert_int_equal(tally.failed, 0x1e);
    assert_int_equal(rl_tally_pending(&tally), 0);
    assert_true(rl_tally_hopeless(&tally));
}

static void test_node_counts_outside_the_limits(void **state) {
    (void)state;
    struct rl_tally tally;
    expect_assert_failure(rl_tally_open(&tally, 0, 1, 0));
    expect_assert_failure(rl_tally_open(&tally, 16, 9, 1));
    expect_assert_failure(rl_tally_open(&tally, 3, 0, 7)); /* everybody would have won */
}

/* Guarded: the members are five, this client lists three of them; or three, and five are listed. */
static void test_a_quorum_of_its_own(void **state) {
    (void)state;
    struct rl_tally tally;
    rl_tally_open(&tally, 3, 4, 7);
    for (unsigned node = 0; node < 3; node++) {
        assert_true(rl_tally_hopeless(&tally));
        assert_true(rl_tally_vote(&tally, node, RL_VOTE_GRANTED));
    }
    assert_false(rl_tally_won(&tally));

    rl_tally_open(&tally, 5, 2, 0x15);
    rl_tally_vote(&tally, 0, RL_VOTE_DENIED);
    rl_tally_vote(&tally, 2, RL_VOTE_GRANTED);
    assert_false(rl_tally_won(&tally));
    assert_false(rl_tally_hopeless(&tally));
    rl_tally_vote(&tally, 4, RL_VOTE_GRANTED);
    assert_true(rl_tally_won(&tally));
}

static void test_a_stale_vote_is_no_grant(void **state) {
    (void)state;
    struct rl_tally tally;
    rl_tally_open(&tally, 3, 2, 7);
    assert_true(rl_tally_vote(&tally, 0, RL_VOTE_STALE));
    assert_int_equal(tally.failed, 1);
}

static void test_void_nodes_have_failed(void **state) {
    (void)state;
    struct rl_tally tally;
    rl_tally_open(&tally, 5, 3, 0x1e);
    rl_tally_vote(&tally, 1, RL_VOTE_GRANTED);
    rl_tally_vote(&tally, 2, RL_VOTE_DENIED);
    rl_tally_vote(&tally, 3, RL_VOTE_ABSENT);
    assert_false(rl_tally_void(&tally, 0));
    assert_false(rl_tally_void(
        &tally, 0x8001)); /* the first was not asked, and has failed; there is no sixteenth */
    assert_true(rl_tally_void(&tally, 0x0a));
    assert_int_equal(tally.granted | tally.absent, 0);
    assert_int_equal(tally.denied, 0x04);
    assert_int_equal(tally.failed, 0x0b);
    assert_true(rl_tally_void(&tally, 0xffff)); /* also who is still asked */
    assert_int_equal(tally.failed, 0x1f);
    assert_false(rl_tally_vote(&tally, 4, RL_VOTE_GRANTED));
    assert_false(rl_tally_void(&tally, 0xffff));
}

static void test_names(void **state) {
    (void)state;
    for (unsigned i = 0; i <= RL_ACQUIRE_OVER; i++)
        assert_string_not_equal(rl_acquire_state_name((enum rl_acquire_state)i), "unknown");
    for (unsigned i = 0; i <= RL_LEASE_RELEASED; i++)
        assert_string_not_equal(rl_lease_state_name((enum rl_lease_state)i), "unknown");
    for (unsigned i = 0; i <= RL_OUTCOME_OTHER_SLOTS; i++)
        assert_string_not_equal(rl_outcome_name((enum rl_outcome)i), "unknown");
    for (unsigned i = 0; i <= RL_VOTE_FAILED; i++)
        assert_string_not_equal(rl_vote_name((enum rl_vote)i), "unknown");
    assert_string_equal(rl_vote_name((enum rl_vote)99), "unknown");
    assert_string_equal(rl_outcome_name((enum rl_outcome)99), "unknown");
    assert_string_equal(rl_acquire_state_name((enum rl_acquire_state)99), "unknown");
    assert_string_equal(rl_lease_state_name((enum rl_lease_state)99), "unknown");
}

/* Of any nodes so many of the steadiest must be covered. */
static void test_allowance(void **state) {
    (void)state;
    struct rl_terms terms = test_terms(5);
    terms.drift_ppm = 10000;
    assert_int_equal(rl_allowance(&terms, 0x1f, 3), 10000); /* nothing is measured */
    struct rl_rates rates = {.ppm = {80000, 500000, 90000, 70000}};
    terms.rates = &rates;
    assert_int_equal(rl_allowance(&terms, 0x1f, 3), 10000);
    rates.fast = 0x02;
    assert_int_equal(rl_allowance(&terms, 0x1f, 3), 10000);
    assert_int_equal(rl_allowance(&terms, 0x07, 3), 500000);
    rates.fast = 0x0f;
    assert_int_equal(rl_allowance(&terms, 0x1f, 1), 10000);
    assert_int_equal(rl_allowance(&terms, 0x1f, 2), 70000);
    assert_int_equal(rl_allowance(&terms, 0x1f, 3), 80000);
    assert_int_equal(rl_allowance(&terms, 0x1f, 4), 90000);
    assert_int_equal(rl_allowance(&terms, 0x1f, 5), 500000);
    assert_int_equal(rl_allowance(&terms, 0x07, 5), 500000); /* fewer nodes */
    assert_int_equal(rl_allowance(&terms, 0, 3), 10000);
    rates = (struct rl_rates){0x0f, {90000, 70000, 80000, 500000}}; /* each is counted once */
    assert_int_equal(rl_allowance(&terms, 0x1f, 3), 80000);
}

static void test_only_a_majority_may_get_steadier(void **state) {
    (void)state;
    struct rl_terms terms = test_terms(3);
    const struct rl_rates rates = {0x07, {90000, 70000, 80000}};
    struct rl_tally tally;
    terms.rates = &rates;
    rl_tally_open(&tally, 3, 2, 0x07);
    rl_tally_vote(&tally, 0, RL_VOTE_GRANTED);
    assert_false(rl_tally_may_get_steadier(&tally, &terms));
    rl_tally_vote(&tally, 2, RL_VOTE_GRANTED);
    assert_true(rl_tally_may_get_steadier(&tally, &terms));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_quorum_of_1_to_15),
        cmocka_unit_test(test_float_quorum),
        cmocka_unit_test(test_drift_at_the_extremes),
        cmocka_unit_test(test_unasked_nodes_have_failed),
        cmocka_unit_test(test_a_node_votes_once),
        cmocka_unit_test(test_close_fails_the_silent),
        cmocka_unit_test(test_node_counts_outside_the_limits),
        cmocka_unit_test(test_a_quorum_of_its_own),
        cmocka_unit_test(test_a_stale_vote_is_no_grant),
        cmocka_unit_test(test_void_nodes_have_failed),
        cmocka_unit_test(test_allowance),
        cmocka_unit_test(test_only_a_majority_may_get_steadier),
        cmocka_unit_test(test_names),
    };
    return cmocka_run_group_tests_name("tally", tests, NULL, NULL);
}
