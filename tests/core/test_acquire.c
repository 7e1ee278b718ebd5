/* SPDX-License-Identifier: BSD-2-Clause */
#include "machine.h"

#include "core/acquire.c" /* for its table of transitions */

static struct rl_terms terms;
static struct rl_retry_rules rules;
static struct rl_acquire acquire;
static struct rl_actions actions;
static rl_mask ready, settled;

static void setup(unsigned nodes) {
    terms = test_terms(nodes);
    rules = (struct rl_retry_rules){.retries_max = UINT32_MAX,
                                    .deadline = RL_NEVER,
                                    .delay_min = 100 * RL_MS,
                                    .delay_max = 200 * RL_MS,
                                    .connect_timeout = 1000 * RL_MS};
    ready = settled = rl_all(nodes);
}

static void step(struct rl_event event, rl_ns now) {
    event.ready = ready;
    event.settled = settled;
    rl_acquire_step(&acquire, &event, now, &actions);
}

static void start(rl_ns now) {
    rl_acquire_init(&acquire, &terms, &rules);
    step((struct rl_event){.type = RL_EVENT_START, .seed = 42}, now);
}

static void tick(rl_ns now) { step((struct rl_event){.type = RL_EVENT_TICK}, now); }
static void say(unsigned node, enum rl_vote vote, rl_ns now) {
    step((struct rl_event){.type = RL_EVENT_VOTE, .node = (uint8_t)node, .vote = vote}, now);
}
static void unlocked(unsigned node, rl_ns now) {
    step((struct rl_event){.type = RL_EVENT_UNLOCKED,
                           .node = (uint8_t)node,
                           .vote = RL_VOTE_GRANTED},
         now);
}
static void hint(unsigned node, rl_ns remaining, rl_ns now) {
    step((struct rl_event){.type = RL_EVENT_HINT, .node = (uint8_t)node, .remaining = remaining},
         now);
}
static void cancel_it(rl_ns now) { step((struct rl_event){.type = RL_EVENT_CANCEL}, now); }

static void lose_to(rl_mask denying, rl_ns now) {
    for (unsigned node = 0; node < terms.nodes; node++)
        if (acquire.state == RL_ACQUIRE_VOTING)
            say(node, denying & rl_bit(node) ? RL_VOTE_DENIED : RL_VOTE_GRANTED, now);
    assert_int_equal(acquire.state, RL_ACQUIRE_CLEANING);
}
static void clean_all(rl_ns now) {
    for (unsigned node = 0; node < terms.nodes; node++) unlocked(node, now);
    assert_int_not_equal(acquire.state, RL_ACQUIRE_CLEANING);
}

static void test_first_try_at_once_when_all_is_settled(void **state) {
    (void)state;
    setup(5);
    ready = 0x0f; /* the fifth is known to have failed */
    start(7);
    assert_int_equal(acquire.state, RL_ACQUIRE_VOTING);
    assert_int_equal(actions.acquire, 0x0f);
    assert_int_equal(actions.wake_at, 7 + 50 * RL_MS);
}

static void test_gathering_ends_in_three_ways(void **state) {
    (void)state;
    setup(5);
    ready = settled = 0x03;
    start(0);
    assert_int_equal(acquire.state, RL_ACQUIRE_GATHERING);
    assert_int_equal(actions.wake_at, 1000 * RL_MS);
    tick(60 * RL_MS); /* no majority: the node timeout ends nothing */
    assert_int_equal(acquire.state, RL_ACQUIRE_GATHERING);
    ready = settled = 0x07;
    step((struct rl_event){.type = RL_EVENT_NODES},
         70 * RL_MS); /* a majority, and a node timeout has passed */
    assert_int_equal(actions.acquire, 0x07);

    ready = settled = 0x07;
    start(0);
    assert_int_equal(actions.wake_at, 50 * RL_MS);
    settled = 0x1f;
    step((struct rl_event){.type = RL_EVENT_NODES}, 3 * RL_MS); /* all settled */
    assert_int_equal(actions.acquire, 0x07);

    ready = settled = 0;
    start(0);
    tick(1000 * RL_MS - 1);
    assert_int_equal(acquire.state, RL_ACQUIRE_GATHERING);
    tick(1000 * RL_MS); /* connect_timeout: a lost attempt without sends */
    assert_int_equal(acquire.state, RL_ACQUIRE_SLEEPING);
    assert_int_equal(actions.acquire | actions.release, 0);
}

static void test_win(void **state) {
    (void)state;
    setup(3);
    start(0);
    say(0, RL_VOTE_GRANTED, RL_MS);
    say(1, RL_VOTE_GRANTED, RL_MS);
    assert_int_equal(actions.outcome, RL_OUTCOME_OK);
    assert_int_equal(actions.release, 0);
    assert_int_equal(actions.wake_at, RL_NEVER);
    say(2, RL_VOTE_DENIED, 2 * RL_MS);
    cancel_it(2 * RL_MS);
    assert_int_equal(acquire.state, RL_ACQUIRE_WON);
    assert_int_equal(actions.release | actions.acquire | actions.peek, 0);
    assert_int_equal(actions.outcome, RL_OUTCOME_NONE);
}

static void test_a_retry_blocked_by_its_own_key(void **state) {
    (void)state;
    setup(5);
    start(0);
    lose_to(0x1c, RL_MS);
    assert_int_equal(actions.release, 0x1f);
    assert_int_equal(actions.peek, 0x1c);
    for (unsigned node = 0; node < 4; node++) unlocked(node, 2 * RL_MS);
    tick(40 * RL_MS); /* node 4 has not confirmed: no retry may start */
    assert_int_equal(acquire.state, RL_ACQUIRE_CLEANING);
    assert_int_equal(actions.wake_at, 51 * RL_MS);
    unlocked(4, 41 * RL_MS);
    assert_int_equal(acquire.state, RL_ACQUIRE_SLEEPING);
    assert_true(actions.wake_at >= 141 * RL_MS && actions.wake_at <= 241 * RL_MS);
    tick(actions.wake_at);
    assert_int_equal(actions.acquire, 0x1f);
    assert_true(actions.fresh_token); /* a new token for each try */
    assert_int_equal(acquire.tries, 2);
}

static void test_cleaning_takes_at_most_a_node_timeout(void **state) {
    (void)state;
    setup(3);
    rules.retries_max = 0;
    start(0);
    lose_to(0x06, RL_MS);
    tick(51 * RL_MS - 1);
    assert_int_equal(actions.outcome, RL_OUTCOME_NONE);
    tick(51 * RL_MS);
    assert_int_equal(actions.outcome, RL_OUTCOME_HELD);
    assert_int_equal(acquire.state, RL_ACQUIRE_OVER);
}

static void test_a_cancelled_caller_whose_release_is_cancelled_too(void **state) {
    (void)state;
    setup(5);
    start(0);
    say(0, RL_VOTE_GRANTED, RL_MS);
    cancel_it(2 * RL_MS);
    assert_int_equal(actions.release, 0x1f);
    assert_int_equal(actions.peek, 0);
    assert_int_equal(actions.outcome, RL_OUTCOME_NONE); /* told when nothing is left */
    cancel_it(3 * RL_MS);
    assert_int_equal(acquire.state, RL_ACQUIRE_CLEANING);
    for (unsigned node = 0; node < 5; node++) unlocked(node, 4 * RL_MS);
    assert_int_equal(actions.outcome, RL_OUTCOME_CANCELLED);
}

static void test_cancel_elsewhere(void **state) {
    (void)state;
    setup(3);
    rl_acquire_init(&acquire, &terms, &rules);
    cancel_it(0); /* before it began */
    assert_int_equal(actions.outcome, RL_OUTCOME_CANCELLED);

    settled = 0;
    start(0); /* while gathering */
    cancel_it(1);
    assert_int_equal(actions.outcome, RL_OUTCOME_CANCELLED);
    assert_int_equal(actions.wake_at, RL_NEVER);

    settled = 7;
    start(0); /* while cleaning */
    lose_to(6, RL_MS);
    cancel_it(2 * RL_MS);
    assert_int_equal(actions.outcome, RL_OUTCOME_NONE);
    clean_all(3 * RL_MS);
    assert_int_equal(actions.outcome, RL_OUTCOME_CANCELLED);

    start(0); /* while sleeping */
    lose_to(6, RL_MS);
    clean_all(2 * RL_MS);
    cancel_it(3 * RL_MS);
    assert_int_equal(actions.outcome, RL_OUTCOME_CANCELLED);
    assert_int_equal(actions.release, 0);
    cancel_it(4 * RL_MS);
    assert_int_equal(actions.outcome, RL_OUTCOME_NONE);
}

/* Two clients in step: with the same fixed delay they would tie for ever. */
static void test_even_n_with_a_tie_never_resolves(void **state) {
    (void)state;
    setup(4);
    rl_ns wakes[2][20];
    for (unsigned client = 0; client < 2; client++) {
        rl_ns now = 0;
        rl_acquire_init(&acquire, &terms, &rules);
        step((struct rl_event){.type = RL_EVENT_START, .seed = 100 + client}, now);
        for (unsigned round = 0; round < 20; round++) {
            lose_to(0x0c, now += RL_MS); /* two granted, two denied: nobody has three */
            assert_int_equal(acquire.attempt.outcome, RL_OUTCOME_HELD);
            clean_all(now += RL_MS);
            wakes[client][round] = acquire.wake_at - now;
            assert_true(wakes[client][round] >= rules.delay_min &&
                        wakes[client][round] <= rules.delay_max);
            tick(now = acquire.wake_at);
        }
    }
    unsigned apart = 0, fresh = 0;
    for (unsigned round = 0; round < 20; round++) {
        rl_ns gap = wakes[0][round] - wakes[1][round];
        if (gap > 2 * RL_MS || gap < -2 * RL_MS) apart++;
        if (round > 0 && wakes[0][round] != wakes[0][round - 1]) fresh++;
    }
    assert_true(apart >= 10);
    assert_int_equal(fresh, 19);
}

static void test_retries_are_counted(void **state) {
    (void)state;
    setup(3);
    rules.retries_max = 2;
    start(0);
    rl_ns now = 0;
    for (unsigned try = 1; try <= 3; try++) {
        assert_int_equal(acquire.tries, try);
        lose_to(6, now += RL_MS);
        assert_int_equal(actions.peek,
                         try < 3 ? 2 + 4 : 0); /* a hint is of no use after the last try */
        for (unsigned node = 0; node < 3; node++) unlocked(node, now);
        if (try < 3) tick(now = acquire.wake_at);
    }
    assert_int_equal(acquire.outcome, RL_OUTCOME_HELD);
    assert_int_equal(acquire.state, RL_ACQUIRE_OVER);
}

static void test_a_wait_of_zero_is_one_try(void **state) {
    (void)state;
    setup(3);
    rules.deadline = 5;
    start(5);
    assert_int_equal(actions.acquire, 7);
    lose_to(6, 5); /* no time has passed at all: still only one */
    clean_all(5);
    assert_int_equal(acquire.state, RL_ACQUIRE_OVER);
    assert_int_equal(acquire.tries, 1);
}

static void test_one_last_try_at_the_deadline(void **state) {
    (void)state;
    setup(3);
    rules.deadline = 60 * RL_MS;
    start(0);
    lose_to(6, RL_MS);
    clean_all(RL_MS);
    assert_int_equal(acquire.wake_at, 60 * RL_MS);
    tick(60 * RL_MS + 300000); /* a timer is never quite on time */
    assert_int_equal(actions.acquire, 7);
    lose_to(6, 61 * RL_MS);
    for (unsigned node = 0; node < 3; node++) unlocked(node, 62 * RL_MS);
    assert_int_equal(actions.outcome, RL_OUTCOME_HELD);

    start(0);
    lose_to(6, RL_MS);
    clean_all(RL_MS);
    tick(3600000 * RL_MS); /* stopped for an hour: no try so long after */
    assert_int_equal(actions.outcome, RL_OUTCOME_HELD);
    assert_int_equal(actions.acquire, 0);
}

static void test_hints_shorten_the_sleep(void **state) {
    (void)state;
    setup(5);
    start(0);
    lose_to(0x1c, RL_MS);
    hint(2, 30 * RL_MS,
         RL_MS); /* two granted to us, so one of the three is enough: the first to end */
    hint(3, 20 * RL_MS, RL_MS);
    hint(4, -RL_MS, RL_MS); /* no TTL there: says nothing */
    clean_all(2 * RL_MS);
    assert_true(acquire.wake_at > 21 * RL_MS && acquire.wake_at <= 31 * RL_MS);
}

static void test_hints_need_as_many_as_a_majority_lacks(void **state) {
    (void)state;
    setup(5);
    start(0);
    say(0, RL_VOTE_FAILED, RL_MS);
    say(1, RL_VOTE_DENIED, RL_MS);
    say(2, RL_VOTE_DENIED, RL_MS);
    say(3, RL_VOTE_DENIED, RL_MS); /* node 4 is free, node 0 failed: two of the three must end */
    assert_int_equal(acquire.state, RL_ACQUIRE_CLEANING);
    clean_all(2 * RL_MS);
    rl_ns random = acquire.wake_at;
    assert_true(random >= 102 * RL_MS);
    hint(1, 10 * RL_MS, 3 * RL_MS);
    assert_int_equal(acquire.wake_at, random);
    hint(2, 40 * RL_MS, 3 * RL_MS); /* it comes while sleeping */
    assert_true(acquire.wake_at > 43 * RL_MS && acquire.wake_at <= 53 * RL_MS);
    hint(3, 900 * RL_MS, 3 * RL_MS); /* never longer */
    assert_true(acquire.wake_at <= 53 * RL_MS);
    hint(200, 0, 3 * RL_MS);
    assert_true(acquire.wake_at > 43 * RL_MS);
}

static void test_a_hint_never_wakes_before_now(void **state) {
    (void)state;
    setup(3);
    start(0);
    lose_to(6, RL_MS);
    hint(1, 0, RL_MS);
    clean_all(30 * RL_MS);
    assert_int_equal(acquire.wake_at, 31 * RL_MS);
}

static void test_wake_is_a_hint(void **state) {
    (void)state;
    setup(3);
    start(0);
    lose_to(6, RL_MS);
    step((struct rl_event){.type = RL_EVENT_WAKE},
         RL_MS); /* while cleaning: our own releases look like that */
    clean_all(2 * RL_MS);
    assert_true(acquire.wake_at >= 102 * RL_MS);
    step((struct rl_event){.type = RL_EVENT_WAKE}, 10 * RL_MS);
    assert_true(acquire.wake_at >= 10 * RL_MS && acquire.wake_at <= 12 * RL_MS);
}

static void test_no_quorum_and_expired_are_tried_again(void **state) {
    (void)state;
    setup(3);
    ready = 1;
    start(0);
    assert_int_equal(acquire.state, RL_ACQUIRE_SLEEPING); /* without sends, without cleaning */
    ready = 7;
    tick(acquire.wake_at);
    assert_int_equal(actions.acquire, 7);
    rl_ns t1 = acquire.attempt.t1;
    say(0, RL_VOTE_GRANTED, t1 + RL_MS);
    say(1, RL_VOTE_GRANTED, t1 + 995 * RL_MS);
    assert_int_equal(acquire.attempt.outcome, RL_OUTCOME_EXPIRED);
    assert_int_equal(actions.outcome, RL_OUTCOME_NONE);
    assert_int_equal(actions.release, 7);
    clean_all(t1 + 996 * RL_MS);
    assert_int_equal(acquire.state, RL_ACQUIRE_SLEEPING);
    assert_true(acquire.wake_at >= t1 + 1096 * RL_MS); /* hints play no part: the random delay */
}

static void test_delay_of_zero_does_not_spin(void **state) {
    (void)state;
    setup(3);
    rules.delay_min = rules.delay_max = 0;
    ready = 0;
    start(0);
    assert_int_equal(acquire.wake_at, RL_MS);
}

/* ---- guarded ---- */

static void guarded(rl_ns now) {
    setup(3);
    terms.guarded = true;
    rl_acquire_init(&acquire, &terms, &rules);
    step((struct rl_event){.type = RL_EVENT_START, .seed = 42, .fence_hint = 100}, now);
    assert_int_equal(actions.acquire, 7);
    assert_int_equal(actions.fence, 100);
}
static void stale(unsigned node, int64_t fence, rl_ns now) {
    step(
        (struct rl_event){
            .type = RL_EVENT_VOTE, .node = (uint8_t)node, .vote = RL_VOTE_STALE, .fence = fence},
        now);
}

static void test_a_raise_is_part_of_the_try(void **state) {
    (void)state;
    guarded(0);
    stale(0, 0, RL_MS);
    stale(1, 200, RL_MS);
    assert_int_equal(acquire.state, RL_ACQUIRE_VOTING);
    assert_int_equal(actions.raise, 3);
    assert_int_equal(actions.fence, 201);
    assert_int_equal(actions.wake_at, 50 * RL_MS);
    say(0, RL_VOTE_GRANTED, 2 * RL_MS);
    say(1, RL_VOTE_GRANTED, 2 * RL_MS);
    assert_int_equal(acquire.state, RL_ACQUIRE_WON);
    assert_int_equal(acquire.attempt.fence, 201);
    assert_int_equal(acquire.tries, 1);
}

static void test_a_try_is_above_the_one_before(void **state) {
    (void)state;
    guarded(0);
    lose_to(6, RL_MS);
    clean_all(2 * RL_MS);
    tick(acquire.wake_at); /* the hint says nothing this time */
    assert_int_equal(actions.acquire, 7);
    assert_int_equal(actions.fence, 101); /* node 0 has accepted 100 */

    guarded(0);
    say(1, RL_VOTE_DENIED, RL_MS);
    say(2, RL_VOTE_DENIED, RL_MS);
    assert_int_equal(acquire.state, RL_ACQUIRE_CLEANING);
    stale(0, 900, 2 * RL_MS); /* late, and heard */
    clean_all(3 * RL_MS);
    tick(acquire.wake_at);
    assert_int_equal(actions.fence, 901);
}

static void test_confirming_is_part_of_the_try(void **state) {
    (void)state;
    guarded(0);
    terms.confirm = true;
    say(0, RL_VOTE_GRANTED, RL_MS);
    say(1, RL_VOTE_GRANTED, RL_MS);
    assert_int_equal(acquire.state, RL_ACQUIRE_VOTING);
    assert_int_equal(actions.confirm, 3);
    assert_int_equal(actions.wake_at, 50 * RL_MS);
    stale(0, 0, 2 * RL_MS);
    assert_int_equal(acquire.state, RL_ACQUIRE_CLEANING);
    assert_int_equal(actions.release, 7);
    clean_all(3 * RL_MS);
    assert_int_equal(acquire.state, RL_ACQUIRE_SLEEPING);

    guarded(0);
    terms.confirm = true;
    say(0, RL_VOTE_GRANTED, RL_MS);
    say(1, RL_VOTE_GRANTED, RL_MS);
    cancel_it(2 * RL_MS);
    assert_int_equal(actions.release, 7);
    clean_all(3 * RL_MS);
    assert_int_equal(acquire.outcome, RL_OUTCOME_CANCELLED);
}

static void test_gathering_waits_for_a_majority_of_the_members(void **state) {
    (void)state;
    setup(3);
    terms.guarded = true;
    terms.quorum = 3; /* of four or five members */
    ready = settled = 3;
    start(0);
    assert_int_equal(actions.wake_at, 1000 * RL_MS);
    terms.quorum = 2; /* the records have been read: three members */
    step((struct rl_event){.type = RL_EVENT_NODES}, RL_MS);
    assert_int_equal(actions.wake_at, 50 * RL_MS);
}

static void prepare(unsigned from, unsigned to) {
    setup(5);
    rl_acquire_init(&acquire, &terms, &rules);
    acquire.state = (enum rl_acquire_state)from;
    acquire.attempt.tally.nodes = 5;
    acquire.attempt.tally.quorum = 3;
    acquire.attempt.tally.granted = 0x07;
    acquire.attempt.state = to == RL_ACQUIRE_WON ? RL_ATTEMPT_WON : RL_ATTEMPT_LOST;
}
static void go(unsigned to) { move(&acquire, (enum rl_acquire_state)to, 0); }

static void test_transitions(void **state) {
    (void)state;
    /*                                  IGVCSWO */
    static const char *const table[] = {".+....+", "..+.+.+", "...+.+.", "....+.+",
                                        "..+...+", ".......", "......."};
    check_table(&(struct table_test){table, 7, prepare, go});

    prepare(RL_ACQUIRE_VOTING, RL_ACQUIRE_WON);
    acquire.attempt.tally.granted = 0x03;
    expect_assert_failure(go(RL_ACQUIRE_WON));
    prepare(RL_ACQUIRE_VOTING, RL_ACQUIRE_WON);
    acquire.cancelled = true;
    expect_assert_failure(go(RL_ACQUIRE_WON));
    prepare(RL_ACQUIRE_CLEANING, RL_ACQUIRE_SLEEPING);
    acquire.cancelled = true;
    expect_assert_failure(go(RL_ACQUIRE_SLEEPING));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_first_try_at_once_when_all_is_settled),
        cmocka_unit_test(test_gathering_ends_in_three_ways),
        cmocka_unit_test(test_win),
        cmocka_unit_test(test_a_retry_blocked_by_its_own_key),
        cmocka_unit_test(test_cleaning_takes_at_most_a_node_timeout),
        cmocka_unit_test(test_a_cancelled_caller_whose_release_is_cancelled_too),
        cmocka_unit_test(test_cancel_elsewhere),
        cmocka_unit_test(test_even_n_with_a_tie_never_resolves),
        cmocka_unit_test(test_retries_are_counted),
        cmocka_unit_test(test_a_wait_of_zero_is_one_try),
        cmocka_unit_test(test_one_last_try_at_the_deadline),
        cmocka_unit_test(test_hints_shorten_the_sleep),
        cmocka_unit_test(test_hints_need_as_many_as_a_majority_lacks),
        cmocka_unit_test(test_a_hint_never_wakes_before_now),
        cmocka_unit_test(test_wake_is_a_hint),
        cmocka_unit_test(test_no_quorum_and_expired_are_tried_again),
        cmocka_unit_test(test_delay_of_zero_does_not_spin),
        cmocka_unit_test(test_a_raise_is_part_of_the_try),
        cmocka_unit_test(test_a_try_is_above_the_one_before),
        cmocka_unit_test(test_confirming_is_part_of_the_try),
        cmocka_unit_test(test_gathering_waits_for_a_majority_of_the_members),
        cmocka_unit_test(test_transitions),
    };
    return cmocka_run_group_tests_name("acquire", tests, NULL, NULL);
}
