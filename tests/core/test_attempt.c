/* SPDX-License-Identifier: BSD-2-Clause */
#include "machine.h"

#include "core/attempt.c" /* for its table of transitions */

static struct rl_terms terms;
static struct rl_attempt attempt;
static struct rl_actions actions;

static void begin(unsigned nodes, rl_mask ready) {
    terms = test_terms(nodes);
    rl_attempt_init(&attempt, &terms);
    struct rl_event event = {.type = RL_EVENT_START, .ready = ready};
    rl_attempt_step(&attempt, &event, 0, &actions);
}

static void say(unsigned node, enum rl_vote vote, rl_ns now) {
    struct rl_event event = {.type = RL_EVENT_VOTE, .node = (uint8_t)node, .vote = vote};
    rl_attempt_step(&attempt, &event, now, &actions);
}

static void tick(rl_ns now) {
    struct rl_event event = {.type = RL_EVENT_TICK};
    rl_attempt_step(&attempt, &event, now, &actions);
}

static void test_asks_all_ready_at_once(void **state) {
    (void)state;
    begin(5, 0xffff);
    assert_int_equal(actions.acquire, 0x1f);
    assert_true(actions.fresh_token);
    assert_int_equal(actions.release, 0);
    assert_int_equal(actions.wake_at, 50 * RL_MS);
    assert_int_equal(attempt.state, RL_ATTEMPT_VOTING);
}

static void test_each_count_wins_with_exactly_a_quorum(void **state) {
    (void)state;
    for (unsigned nodes = 1; nodes <= RL_NODES_MAX; nodes++) {
        begin(nodes, rl_all(nodes));
        for (unsigned node = 0; node < rl_quorum(nodes); node++) {
            assert_int_equal(attempt.state, RL_ATTEMPT_VOTING);
            say(node, RL_VOTE_GRANTED, 5 * RL_MS);
        }
        assert_int_equal(attempt.state, RL_ATTEMPT_WON);
        assert_int_equal(actions.outcome, RL_OUTCOME_OK);
        assert_int_equal(actions.release, 0);
        assert_int_equal(attempt.validity_end, 990 * RL_MS);
    }
}

static void test_quorum_counts_configured_nodes(void **state) {
    (void)state;
    begin(5, 0x07); /* three of five can be asked: all three must grant */
    say(0, RL_VOTE_GRANTED, RL_MS);
    say(1, RL_VOTE_GRANTED, RL_MS);
    assert_int_equal(attempt.state, RL_ATTEMPT_VOTING);
    say(2, RL_VOTE_DENIED, RL_MS);
    assert_int_equal(actions.outcome, RL_OUTCOME_HELD);
}

static void test_too_few_ready_sends_nothing(void **state) {
    (void)state;
    begin(5, 0x03);
    assert_int_equal(attempt.state, RL_ATTEMPT_LOST);
    assert_int_equal(attempt.outcome, RL_OUTCOME_NO_QUORUM);
    assert_int_equal(actions.acquire | actions.release, 0);
    assert_false(actions.fresh_token);
    assert_int_equal(actions.wake_at, RL_NEVER);
}

static void test_release_only_of_nodes_believed_locked(void **state) {
    (void)state;
    begin(5, 0x1f);
    say(0, RL_VOTE_GRANTED, RL_MS);
    say(1, RL_VOTE_DENIED, RL_MS);
    say(2, RL_VOTE_FAILED, RL_MS);
    assert_int_equal(actions.release, 0);
    say(3, RL_VOTE_DENIED,
        RL_MS); /* node 4 has not answered, node 2 said nothing of use: their keys may be there */
    assert_int_equal(actions.outcome, RL_OUTCOME_HELD);
    assert_int_equal(actions.release, 0x1f);
}

static void test_failed_nodes_alone_are_no_quorum(void **state) {
    (void)state;
    begin(5, 0x1f);
    say(0, RL_VOTE_FAILED, RL_MS);
    say(1, RL_VOTE_FAILED, RL_MS);
    say(2, RL_VOTE_GRANTED, RL_MS);
    say(3, RL_VOTE_FAILED, RL_MS);
    assert_int_equal(actions.outcome, RL_OUTCOME_NO_QUORUM);
    assert_int_equal(actions.release, 0x1f);
}

static void test_one_dead_node_does_not_fail_the_acquire(void **state) {
    (void)state;
    begin(5, 0x1f);
    say(0, RL_VOTE_FAILED, RL_MS);
    say(1, RL_VOTE_GRANTED, RL_MS);
    say(2, RL_VOTE_GRANTED, RL_MS);
    say(3, RL_VOTE_GRANTED, RL_MS);
    assert_int_equal(actions.outcome, RL_OUTCOME_OK);
}

static void test_the_silent_fail_at_the_deadline(void **state) {
    (void)state;
    begin(5, 0x1f);
    say(0, RL_VOTE_GRANTED, RL_MS);
    tick(50 * RL_MS - 1);
    assert_int_equal(attempt.state, RL_ATTEMPT_VOTING);
    tick(50 * RL_MS);
    assert_int_equal(actions.outcome, RL_OUTCOME_NO_QUORUM);
    assert_int_equal(actions.release, 0x1f);
    assert_int_equal(attempt.tally.failed, 0x1e);
}

static void test_votes_in_the_socket_count_when_we_are_late(void **state) {
    (void)state;
    begin(3, 7);
    say(0, RL_VOTE_GRANTED, 70 * RL_MS);
    assert_int_equal(attempt.state, RL_ATTEMPT_VOTING);
    say(1, RL_VOTE_GRANTED, 70 * RL_MS);
    assert_int_equal(attempt.state, RL_ATTEMPT_WON);
}

static void test_a_lock_returned_that_has_already_expired(void **state) {
    (void)state;
    begin(3, 7);
    say(0, RL_VOTE_GRANTED, RL_MS);
    say(1, RL_VOTE_GRANTED, 990 * RL_MS); /* nothing is left */
    assert_int_equal(attempt.state, RL_ATTEMPT_LOST);
    assert_int_equal(actions.outcome, RL_OUTCOME_EXPIRED);
    assert_int_equal(actions.release, 7);

    begin(3, 7);
    terms.validity_min = 100 * RL_MS;
    say(0, RL_VOTE_GRANTED, RL_MS);
    say(1, RL_VOTE_GRANTED, 890 * RL_MS + 1); /* a nanosecond less than the caller accepts */
    assert_int_equal(actions.outcome, RL_OUTCOME_EXPIRED);

    begin(3, 7);
    terms.validity_min = 100 * RL_MS;
    say(0, RL_VOTE_GRANTED, RL_MS);
    say(1, RL_VOTE_GRANTED, 890 * RL_MS);
    assert_int_equal(actions.outcome, RL_OUTCOME_OK);

    begin(3, 7);
    terms.validity_min = 0;
    say(0, RL_VOTE_GRANTED, RL_MS);
    say(1, RL_VOTE_GRANTED,
        990 * RL_MS); /* more than nothing must be left, whatever the caller accepts */
    assert_int_equal(actions.outcome, RL_OUTCOME_EXPIRED);
}

static void test_drift_larger_than_the_ttl_never_wins(void **state) {
    (void)state;
    begin(1, 1);
    terms.drift_fixed = 2000 * RL_MS;
    say(0, RL_VOTE_GRANTED, 0);
    assert_int_equal(actions.outcome, RL_OUTCOME_EXPIRED);
}

static void test_a_straggler_is_recorded_and_decides_nothing(void **state) {
    (void)state;
    begin(3, 7);
    say(0, RL_VOTE_GRANTED, RL_MS);
    say(1, RL_VOTE_GRANTED, RL_MS);
    say(2, RL_VOTE_DENIED, 2 * RL_MS);
    assert_int_equal(attempt.state, RL_ATTEMPT_WON);
    assert_int_equal(attempt.tally.denied, 4);
    assert_int_equal(actions.outcome, RL_OUTCOME_NONE);
    assert_int_equal(actions.release, 0);
    tick(60 * RL_MS);
    assert_int_equal(attempt.state, RL_ATTEMPT_WON);
}

static void test_cancel_releases_all_asked(void **state) {
    (void)state;
    begin(5, 0x1e);
    say(1, RL_VOTE_GRANTED, RL_MS);
    struct rl_event event = {.type = RL_EVENT_CANCEL};
    rl_attempt_step(&attempt, &event, 2 * RL_MS, &actions);
    assert_int_equal(actions.outcome, RL_OUTCOME_CANCELLED);
    assert_int_equal(actions.release, 0x1e);
    rl_attempt_step(&attempt, &event, 2 * RL_MS, &actions);
    assert_int_equal(actions.outcome, RL_OUTCOME_NONE);
    assert_int_equal(actions.release, 0);
}

static void prepare(unsigned from, unsigned to) {
    begin(5, 0x1f);
    attempt.state = (enum rl_attempt_state)from;
    attempt.tally.granted = 0x07;
    if (to == RL_ATTEMPT_CONFIRMING || from == RL_ATTEMPT_CONFIRMING) {
        terms.guarded = terms.confirm = true;
        attempt.fence = 1;
        rl_tally_open(&attempt.confirming, 5, 3, 0x07);
        attempt.confirming.granted = 0x07;
    }
    attempt.validity_end = 1;
    attempt.outcome = to == RL_ATTEMPT_LOST ? RL_OUTCOME_HELD : RL_OUTCOME_NONE;
}
static void go(unsigned to) { move(&attempt, (enum rl_attempt_state)to, 0); }

static void test_transitions(void **state) {
    (void)state;
    /*                                  IVCWL */
    static const char *const table[] = {".+..+", "..+++", "...++", ".....", "....."};
    check_table(&(struct table_test){table, 5, prepare, go});

    prepare(RL_ATTEMPT_VOTING, RL_ATTEMPT_WON);
    attempt.tally.granted = 0x03; /* no quorum, no win */
    expect_assert_failure(go(RL_ATTEMPT_WON));
    prepare(RL_ATTEMPT_VOTING, RL_ATTEMPT_WON);
    attempt.validity_end = 0;
    expect_assert_failure(go(RL_ATTEMPT_WON));

    prepare(RL_ATTEMPT_CONFIRMING, RL_ATTEMPT_WON);
    attempt.confirming.granted = 0x03;
    expect_assert_failure(go(RL_ATTEMPT_WON));
    prepare(RL_ATTEMPT_CONFIRMING, RL_ATTEMPT_WON);
    attempt.fence = 0; /* no token */
    expect_assert_failure(go(RL_ATTEMPT_WON));
    prepare(RL_ATTEMPT_VOTING, RL_ATTEMPT_CONFIRMING);
    attempt.confirming.asked = 0x0f; /* one that did not vote */
    expect_assert_failure(go(RL_ATTEMPT_CONFIRMING));
    prepare(RL_ATTEMPT_VOTING, RL_ATTEMPT_WON);
    terms.guarded = terms.confirm = true;
    attempt.fence = 1; /* it was to be confirmed */
    expect_assert_failure(go(RL_ATTEMPT_WON));
}

static void test_terms_are_checked(void **state) {
    (void)state;
    struct rl_terms bad = test_terms(5);
    bad.node_timeout = bad.ttl;
    expect_assert_failure(rl_attempt_init(&attempt, &bad));
    bad = test_terms(5);
    bad.nodes = 0;
    expect_assert_failure(rl_attempt_init(&attempt, &bad));
    bad = test_terms(5);
    bad.quorum = 2; /* classic: that of the nodes configured, and no other */
    expect_assert_failure(rl_attempt_init(&attempt, &bad));
    bad.guarded = true;
    bad.quorum = 0;
    expect_assert_failure(rl_attempt_init(&attempt, &bad));
    bad = test_terms(5);
    bad.confirm = true; /* there is no fence to confirm */
    expect_assert_failure(rl_attempt_init(&attempt, &bad));
}

/* ---- clocks that run fast ---- */

static struct rl_rates rates;

static void begin_with_rates(unsigned nodes, struct rl_rates measured) {
    begin(nodes, rl_all(nodes));
    rates = measured;
    terms.rates = &rates;
    terms.drift_ppm = 10000; /* the same, in proportion */
    terms.drift_fixed = 0;
}

static void test_all_clocks_run_fast(void **state) {
    (void)state;
    begin_with_rates(5, (struct rl_rates){0x1f, {80000, 82500, 85000, 80000, 80000}});
    for (unsigned node = 0; node < 3; node++) say(node, RL_VOTE_GRANTED, RL_MS);
    assert_int_equal(attempt.state, RL_ATTEMPT_VOTING); /* two steadier ones may grant */
    say(3, RL_VOTE_GRANTED, RL_MS);
    assert_int_equal(attempt.state, RL_ATTEMPT_VOTING);
    say(4, RL_VOTE_DENIED, RL_MS);
    assert_int_equal(attempt.state, RL_ATTEMPT_WON);
    assert_int_equal(attempt.validity_end, 1000 * RL_MS - 82500 * RL_MS / 1000);
    assert_int_equal(rl_lease_start(&attempt).drift_ppm, 82500);
}

/* One clock runs wild. Its vote is needed only if the others cannot make a majority. */
static void test_one_clock_runs_wild(void **state) {
    (void)state;
    const struct rl_rates one = {0x01, {500000}};
    begin_with_rates(3, one);
    say(0, RL_VOTE_GRANTED, RL_MS);
    say(1, RL_VOTE_GRANTED, RL_MS);
    assert_int_equal(attempt.state, RL_ATTEMPT_VOTING);
    say(2, RL_VOTE_GRANTED, 2 * RL_MS);
    assert_int_equal(attempt.state, RL_ATTEMPT_WON);
    assert_int_equal(attempt.validity_end, 990 * RL_MS);
    begin_with_rates(3, one);
    say(0, RL_VOTE_GRANTED, RL_MS);
    say(1, RL_VOTE_GRANTED, RL_MS);
    tick(49 * RL_MS);
    assert_int_equal(attempt.state, RL_ATTEMPT_VOTING);
    tick(50 * RL_MS); /* the third did not answer in time */
    assert_int_equal(actions.outcome, RL_OUTCOME_OK);
    assert_int_equal(attempt.validity_end, 500 * RL_MS);
    begin_with_rates(3, (struct rl_rates){0x01, {1000000}});
    say(0, RL_VOTE_GRANTED, RL_MS);
    say(1, RL_VOTE_GRANTED, RL_MS);
    say(2, RL_VOTE_FAILED, RL_MS);
    assert_int_equal(actions.outcome, RL_OUTCOME_EXPIRED);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_asks_all_ready_at_once),
        cmocka_unit_test(test_each_count_wins_with_exactly_a_quorum),
        cmocka_unit_test(test_quorum_counts_configured_nodes),
        cmocka_unit_test(test_too_few_ready_sends_nothing),
        cmocka_unit_test(test_release_only_of_nodes_believed_locked),
        cmocka_unit_test(test_failed_nodes_alone_are_no_quorum),
        cmocka_unit_test(test_one_dead_node_does_not_fail_the_acquire),
        cmocka_unit_test(test_the_silent_fail_at_the_deadline),
        cmocka_unit_test(test_votes_in_the_socket_count_when_we_are_late),
        cmocka_unit_test(test_a_lock_returned_that_has_already_expired),
        cmocka_unit_test(test_drift_larger_than_the_ttl_never_wins),
        cmocka_unit_test(test_a_straggler_is_recorded_and_decides_nothing),
        cmocka_unit_test(test_cancel_releases_all_asked),
        cmocka_unit_test(test_transitions),
        cmocka_unit_test(test_terms_are_checked),
        cmocka_unit_test(test_all_clocks_run_fast),
        cmocka_unit_test(test_one_clock_runs_wild),
    };
    return cmocka_run_group_tests_name("attempt", tests, NULL, NULL);
}
