/* SPDX-License-Identifier: BSD-2-Clause
 *
 * An attempt of guarded mode: what is proposed, what a vote is worth, when fences are raised again,
 * and confirming.
 */
#include "machine.h"

static struct rl_terms terms;
static struct rl_attempt attempt;
static struct rl_actions actions;
static rl_mask ready, voided, foreign;
static int64_t hint;

static void step(struct rl_event event, rl_ns now) {
    event.ready = ready;
    event.voided = voided;
    event.foreign = foreign;
    event.fence_hint = hint;
    rl_attempt_step(&attempt, &event, now, &actions);
}

static void start(void) {
    rl_attempt_init(&attempt, &terms);
    step((struct rl_event){.type = RL_EVENT_START}, 0);
}

/* The proposal of all tests is 100, the next one 101 or what a node or the hint makes of it. */
static void begin(unsigned nodes) {
    terms = test_terms(nodes);
    terms.guarded = true;
    ready = rl_all(nodes);
    voided = foreign = 0;
    hint = 100;
    start();
    hint = 0;
}
static void begin_confirmed(unsigned nodes) {
    begin(nodes);
    terms.confirm = true;
}

static void vote(unsigned node, enum rl_vote vote, int64_t fence, rl_ns now) {
    step(
        (struct rl_event){
            .type = RL_EVENT_VOTE, .node = (uint8_t)node, .vote = vote, .fence = fence},
        now);
}
static void grant(unsigned node) { vote(node, RL_VOTE_GRANTED, 0, RL_MS); }
static void deny(unsigned node) { vote(node, RL_VOTE_DENIED, 0, RL_MS); }
static void fail_node(unsigned node) { vote(node, RL_VOTE_FAILED, 0, RL_MS); }
static void stale(unsigned node, int64_t fence) { vote(node, RL_VOTE_STALE, fence, RL_MS); }
static void look(void) { step((struct rl_event){.type = RL_EVENT_NODES}, RL_MS); }
static void tick(rl_ns now) { step((struct rl_event){.type = RL_EVENT_TICK}, now); }

#define assert_raised(nodes, proposal)                                                             \
    do {                                                                                           \
        assert_int_equal(actions.raise, nodes);                                                    \
        assert_int_equal(actions.fence, proposal);                                                 \
        assert_int_equal(attempt.fence, proposal);                                                 \
        assert_int_equal(attempt.state, RL_ATTEMPT_VOTING);                                        \
    } while (0)
#define assert_quiet()                                                                             \
    do {                                                                                           \
        assert_int_equal(actions.acquire | actions.raise | actions.confirm | actions.release, 0);  \
        assert_int_equal(actions.outcome, RL_OUTCOME_NONE);                                        \
        assert_int_equal(actions.wake_at, 50 * RL_MS);                                             \
    } while (0)
#define assert_lost(why)                                                                           \
    do {                                                                                           \
        assert_int_equal(actions.outcome, why);                                                    \
        assert_int_equal(actions.release, attempt.tally.asked);                                    \
        assert_int_equal(actions.acquire | actions.raise | actions.confirm, 0);                    \
        assert_int_equal(attempt.state, RL_ATTEMPT_LOST);                                          \
    } while (0)
#define assert_won(proposal)                                                                       \
    do {                                                                                           \
        assert_int_equal(actions.outcome, RL_OUTCOME_OK);                                          \
        assert_int_equal(attempt.state, RL_ATTEMPT_WON);                                           \
        assert_int_equal(attempt.fence, proposal);                                                 \
        assert_int_equal(attempt.validity_end, 990 * RL_MS);                                       \
    } while (0)

/* ---- the first proposal ---- */

static void test_one_round(void **state) {
    (void)state;
    begin(5);
    assert_int_equal(actions.acquire, 0x1f);
    assert_int_equal(actions.fence, 100);
    assert_true(actions.fresh_token);
    grant(0);
    assert_quiet();
    deny(1);
    grant(2);
    assert_quiet();
    grant(4);
    assert_won(100);
    assert_int_equal(actions.raise | actions.confirm | actions.release, 0);
}

static void test_a_proposal_is_above_all_that_was_seen(void **state) {
    (void)state;
    terms = test_terms(3);
    terms.guarded = true;
    ready = 7;
    voided = 0;
    const struct {
        int64_t seen, clock, proposal;
    } cases[] = {{0, 0, 1},
                 {0, -5, 1},
                 {0, 7, 7},
                 {7, 7, 8},
                 {9, 7, 10},
                 {9, 1000, 1000},
                 {9, RL_FENCE_MAX, RL_FENCE_MAX},
                 {9, RL_FENCE_MAX + 1, 10}, /* a clock out of its mind */
                 {9, INT64_MAX, 10},
                 {RL_FENCE_MAX - 1, 0, RL_FENCE_MAX}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        rl_attempt_init(&attempt, &terms);
        attempt.fence_seen = cases[i].seen;
        hint = cases[i].clock;
        step((struct rl_event){.type = RL_EVENT_START}, 0);
        assert_int_equal(actions.fence, cases[i].proposal);
        assert_int_equal(actions.acquire, 7);
    }
    rl_attempt_init(&attempt, &terms);
    attempt.fence_seen = RL_FENCE_MAX; /* there is no token left to give */
    step((struct rl_event){.type = RL_EVENT_START}, 0);
    assert_int_equal(actions.outcome, RL_OUTCOME_NO_QUORUM);
    assert_int_equal(actions.acquire | actions.release, 0);
}

static void test_classic_knows_no_fences(void **state) {
    (void)state;
    begin(3);
    terms.guarded = false;
    hint = 100;
    start();
    assert_int_equal(actions.acquire, 7);
    assert_int_equal(actions.fence, 0);
    stale(0, 0);
    stale(1, 0);
    assert_lost(RL_OUTCOME_NO_QUORUM);
}

static void test_quorum_is_that_of_the_members(void **state) {
    (void)state;
    begin(3);
    terms.quorum = 4; /* of seven members, this client lists three */
    start();
    assert_int_equal(actions.outcome, RL_OUTCOME_NO_QUORUM);
    assert_int_equal(actions.acquire, 0);

    begin(5);
    terms.quorum = 2; /* three of the five are members */
    ready = 0x15;
    start();
    assert_int_equal(actions.acquire, 0x15);
    deny(0);
    grant(2);
    assert_quiet();
    grant(4);
    assert_int_equal(actions.outcome, RL_OUTCOME_OK);

    begin(5);
    terms.quorum = 2; /* five that may vote, and two are to be a majority */
    expect_assert_failure(start());
}

/* ---- stale ---- */

static void test_stale_where_a_majority_can_do_without(void **state) {
    (void)state;
    begin(5);
    stale(0, 0);
    assert_quiet();
    stale(1, 500);
    assert_quiet(); /* three have not answered */
    grant(2);
    grant(3);
    grant(4);
    assert_won(100);
}

static void test_stale_then_raised(void **state) {
    (void)state;
    begin(3);
    grant(0);
    stale(1, 0);
    assert_quiet();
    stale(2, 0); /* nobody tells how high: one higher, at all three, also where it was granted */
    assert_raised(7, 101);
    assert_int_equal(actions.acquire, 0);
    assert_false(actions.fresh_token); /* the keys stay */
    assert_int_equal(attempt.tally.granted, 0);
    grant(0);
    assert_quiet(); /* what was granted for 100 is worth nothing now */
    stale(1, 0);
    assert_quiet();
    grant(2);
    assert_won(101);
    assert_int_equal(attempt.tally.granted, 0x05);
}

static void test_a_raise_goes_above_what_nodes_and_hint_say(void **state) {
    (void)state;
    begin(3);
    stale(0, 300);
    stale(1, 200);
    assert_raised(3, 301);
    hint = 777;
    stale(0, 302); /* now 301 is known to be too low: node 2 will not be asked for it, so it is out
                      of reach */
    assert_raised(1, 777);
    stale(1, 0);
    assert_raised(2, 777);
    stale(0, INT64_MAX); /* no token is above that */
    assert_lost(RL_OUTCOME_NO_QUORUM);
    assert_int_equal(attempt.fence_seen, RL_FENCE_MAX);
}

/* Node 0 could still be asked for this proposal, but without a majority. */
static void test_the_last_proposal_is_the_last(void **state) {
    (void)state;
    begin(5);
    hint = RL_FENCE_MAX;
    start();
    assert_int_equal(actions.fence, RL_FENCE_MAX);
    voided = 1;
    look();
    voided = 0;
    ready = 0x1e;
    grant(0);
    stale(1, 0);
    stale(2, 0);
    ready = 0x1f;
    stale(3, 0);
    assert_lost(RL_OUTCOME_NO_QUORUM);
}

static void test_start_comes_first(void **state) {
    (void)state;
    begin(3);
    rl_attempt_init(&attempt, &terms);
    tick(0);
    stale(0, 300);
    assert_int_equal(attempt.state, RL_ATTEMPT_IDLE);
    assert_int_equal(actions.acquire, 0);
    hint = 100;
    step((struct rl_event){.type = RL_EVENT_START}, 0);
    assert_int_equal(actions.fence, 100);
}

static void test_grant_of_an_earlier_proposal_is_stale(void **state) {
    (void)state;
    begin(5);
    stale(0, 0);
    stale(1, 0);
    grant(2);
    stale(3, 0);
    assert_raised(0x0f, 101); /* node 4 has not answered what was asked first */
    grant(0);
    grant(1);
    grant(4); /* for 100 */
    assert_int_equal(attempt.state, RL_ATTEMPT_VOTING);
    assert_int_equal(attempt.tally.granted, 0x03);
    assert_raised(0x10, 101); /* it is asked for 101 now */
    grant(4);
    assert_won(101);
    assert_int_equal(attempt.tally.granted, 0x13);
}

static void test_a_node_has_one_request_at_a_time(void **state) {
    (void)state;
    begin(3);
    stale(0, 0);
    stale(1, 0);
    assert_raised(3, 101); /* also if the caller calls a node ready that has not answered */
    stale(0, 0);
    assert_quiet();
    stale(1, 0);
    assert_raised(3, 102);
    stale(2, 0);
    assert_raised(4, 102); /* straight to the proposal of now */
    vote(2, RL_VOTE_NONE, 0, RL_MS);
    assert_quiet();
    grant(2);
    grant(2); /* twice is once */
    assert_quiet();
    grant(1);
    assert_won(102);
}

/* It answered its only request already: what comes now belongs to no proposal. */
static void test_an_answer_to_nothing_is_no_grant(void **state) {
    (void)state;
    begin(3);
    stale(0, 150);
    assert_quiet();
    grant(0);
    assert_quiet();
    grant(1);
    assert_quiet();
    grant(2);
    assert_won(100);
    assert_int_equal(attempt.tally.granted, 6);
}

static void test_a_raise_in_vain_takes_the_node_out(void **state) {
    (void)state;
    const enum rl_vote no[] = {RL_VOTE_FAILED, RL_VOTE_DENIED, RL_VOTE_ABSENT};
    for (unsigned i = 0; i < 3; i++) {
        begin(3);
        stale(0, 0);
        stale(1, 0);
        assert_raised(3, 101);
        vote(0, no[i], 0, RL_MS);
        assert_quiet(); /* node 2 may still come */
        assert_int_equal(attempt.ours, 2);
        grant(1);
        vote(2, RL_VOTE_DENIED, 0, RL_MS);
        assert_lost(RL_OUTCOME_HELD); /* two could have voted */
    }
    begin(3);
    stale(0, 0);
    stale(1, 0);
    fail_node(0);
    fail_node(1);
    assert_lost(RL_OUTCOME_NO_QUORUM);
}

static void test_held_by_another_is_no_matter_of_fences(void **state) {
    (void)state;
    begin(3);
    stale(0, 0);
    deny(1);
    assert_raised(1, 101); /* node 2 may be free */
    deny(2);
    assert_lost(RL_OUTCOME_HELD);
}

static void test_eight_raises_are_enough(void **state) {
    (void)state;
    for (unsigned last_ready = 0; last_ready <= 3; last_ready += 3) {
        begin(3);
        fail_node(2);
        for (int raise = 1; raise <= 8; raise++) {
            stale(0, 0);
            assert_raised(1, 100 + raise);
            stale(1, 0);
            assert_raised(2, 100 + raise); /* it joins: no raise of its own */
            assert_int_equal(attempt.raises, raise);
        }
        ready = (rl_mask)last_ready;
        stale(0, 0);
        assert_lost(RL_OUTCOME_HELD);
    }
}

/* ---- nodes that cannot be asked just now ---- */

/* A registration changes the nonce of every node at once: who voted under the old one is told
 * nothing but that. */
static void test_all_nonces_changed(void **state) {
    (void)state;
    begin(3);
    stale(0, 0);
    stale(1, 0);
    assert_raised(3, 101);
    stale(2, 0);
    assert_raised(4, 101);
    for (unsigned node = 0; node < 3; node++) {
        ready &= (rl_mask)~rl_bit(node); /* its record is read again */
        stale(node, 0);
        assert_quiet();
    }
    tick(49 * RL_MS);
    assert_quiet(); /* they may come back until the deadline */
    ready = 2;
    look();
    assert_raised(2, 102);
    ready = 3;
    look();
    assert_raised(1, 102); /* the same proposal */
    look();
    assert_quiet();
    assert_int_equal(attempt.raises, 2);
    grant(0);
    grant(1);
    assert_won(102);
}

static void test_unready_until_the_deadline(void **state) {
    (void)state;
    begin(3);
    ready = 0;
    for (unsigned node = 0; node < 3; node++) {
        stale(node, 0);
        assert_quiet();
    }
    assert_int_equal(attempt.raises, 0);
    tick(50 * RL_MS);
    assert_lost(RL_OUTCOME_NO_QUORUM);
}

static void test_who_comes_later_joins_the_proposal(void **state) {
    (void)state;
    begin(5);
    stale(0, 0);
    stale(1, 0);
    ready = 0x1b;
    stale(2, 0);
    assert_raised(0x03, 101);
    deny(3);
    deny(4);
    grant(0);
    assert_quiet();
    ready = 0x1f;
    look();
    assert_raised(0x04, 101);
    assert_int_equal(attempt.tally.granted, 0x01); /* nothing granted is lost */
    grant(1);
    grant(2);
    assert_won(101);
}

static void test_nobody_joins_a_proposal_that_is_too_low(void **state) {
    (void)state;
    begin(5);
    stale(0, 0);
    stale(1, 0);
    ready = 0x1b;
    stale(2, 0);
    assert_raised(0x03, 101);
    deny(3);
    deny(4);
    grant(0);
    stale(1, 400);
    assert_raised(0x03, 401); /* node 0 granted in vain */
    assert_int_equal(attempt.tally.granted, 0);
    ready = 0x1f;
    look();
    assert_raised(0x04, 401);

    begin(7);
    for (unsigned node = 0; node < 4; node++) stale(node, 0);
    assert_raised(0x0f, 101);
    stale(4, 0);
    assert_raised(0x10, 101);
    stale(0, 400);
    grant(5); /* for 100. Four may still grant 101, but whoever is asked for it now is most likely
                 asked in vain */
    assert_quiet();
}

/* ---- time ---- */

static void test_nothing_is_raised_after_the_deadline(void **state) {
    (void)state;
    begin(3);
    stale(0, 0);
    vote(1, RL_VOTE_STALE, 0, 50 * RL_MS);
    assert_quiet();
    tick(50 * RL_MS);
    assert_lost(RL_OUTCOME_NO_QUORUM);

    begin(3);
    stale(0, 0);
    stale(1, 0);
    assert_raised(3, 101);
    tick(50 * RL_MS - 1);
    assert_quiet();
    tick(50 * RL_MS); /* a raise has no time of its own */
    assert_lost(RL_OUTCOME_NO_QUORUM);
}

static void test_validity_counts_from_the_first_request(void **state) {
    (void)state;
    begin(3);
    vote(0, RL_VOTE_STALE, 0, 30 * RL_MS);
    vote(1, RL_VOTE_STALE, 0, 30 * RL_MS);
    vote(0, RL_VOTE_GRANTED, 0, 70 * RL_MS); /* we come late, the answers were in the socket */
    vote(1, RL_VOTE_GRANTED, 0, 70 * RL_MS);
    assert_won(101);

    begin(3);
    grant(0);
    vote(1, RL_VOTE_GRANTED, 0, 990 * RL_MS);
    assert_lost(RL_OUTCOME_EXPIRED);
}

static void test_cancel_releases_all_asked(void **state) {
    (void)state;
    begin(3);
    stale(0, 0);
    stale(1, 0);
    step((struct rl_event){.type = RL_EVENT_CANCEL}, RL_MS);
    assert_lost(RL_OUTCOME_CANCELLED);
    grant(0);
    assert_int_equal(actions.outcome, RL_OUTCOME_NONE);
    assert_int_equal(actions.raise | actions.release, 0);
}

static void test_a_straggler_decides_nothing(void **state) {
    (void)state;
    begin(3);
    grant(0);
    grant(1);
    assert_won(100);
    stale(2, 500);
    assert_int_equal(attempt.fence_seen, 500); /* good to know for the next one */
    assert_int_equal(attempt.fence, 100);
    assert_int_equal(attempt.state, RL_ATTEMPT_WON);
    assert_int_equal(actions.raise | actions.release, 0);
}

/* ---- nodes that turn out not to be entitled ---- */

static void test_voided_nodes_are_not_asked(void **state) {
    (void)state;
    begin(3);
    voided = 4;
    hint = 100;
    start();
    assert_int_equal(actions.acquire, 3);
    voided = 5;
    stale(0, 300);
    assert_quiet(); /* node 0 is ready, but for the connection alone */
    voided = 4;
    look();
    assert_raised(1, 301);
}

static void test_a_voided_grant_is_dropped(void **state) {
    (void)state;
    begin(3);
    grant(0);
    voided = 1;
    grant(1); /* it would have been the majority */
    assert_quiet();
    assert_int_equal(attempt.tally.granted, 2);
    voided = 0;
    look();
    assert_quiet(); /* dropped is dropped: what it said was said before */
    grant(2);
    assert_won(100);
    assert_int_equal(attempt.tally.granted, 6);
}

static void test_a_voided_node_is_asked_again(void **state) {
    (void)state;
    begin(3);
    deny(2);
    grant(0);
    voided = 1;
    look();
    assert_quiet();
    grant(1);
    assert_raised(2, 101); /* node 0 has accepted 100 and will not do so twice */
    voided = 0;
    look();
    assert_raised(1, 101);
    grant(0);
    grant(1);
    assert_won(101);
}

static void test_what_a_voided_node_is_about_to_say_is_no_grant(void **state) {
    (void)state;
    begin(3);
    voided = 1;
    look();
    voided = 0;
    grant(0); /* asked under what was known before */
    assert_int_equal(attempt.tally.granted, 0);
    assert_raised(1, 100);
    grant(0);
    grant(1);
    assert_won(100);
}

/* Node 1 names another incarnation of node 0's member. Then it cannot be asked any more, and
 * nothing that is known says so: but its vote and one of the old incarnation's are none of one
 * quorum. */
static void test_a_foreign_node_is_not_asked_again(void **state) {
    (void)state;
    begin(3);
    grant(0);
    stale(1, 0);
    voided = foreign = 1;
    look();
    assert_raised(2, 101); /* the record of node 1 was read again */
    grant(1);
    assert_quiet();
    voided = foreign = 0;
    ready = 5;
    look();
    assert_quiet();
    grant(0);
    assert_quiet();
    assert_int_equal(attempt.tally.granted, 2);
    deny(2);
    assert_lost(RL_OUTCOME_HELD);
}

static void test_what_a_foreign_node_is_about_to_say_is_nothing(void **state) {
    (void)state;
    begin(3);
    voided = foreign = 1;
    look();
    voided = foreign = 0;
    grant(0);
    assert_quiet();
    assert_int_equal(attempt.tally.granted, 0);
    grant(1);
    grant(2);
    assert_won(100);
}

static void test_a_quorum_that_grows_under_way(void **state) {
    (void)state;
    begin(3);
    grant(0);
    terms.quorum = 3;
    grant(1);
    assert_quiet();
    grant(2);
    assert_won(100);

    begin(3);
    terms.quorum = 3;
    deny(0);
    assert_lost(RL_OUTCOME_HELD);

    begin(3);
    terms.quorum = 1; /* a member less: two were asked for, and two it takes */
    grant(0);
    assert_quiet();
    grant(1);
    assert_won(100);
}

/* ---- confirming ---- */

static void test_confirmed(void **state) {
    (void)state;
    begin_confirmed(3);
    grant(0);
    assert_quiet();
    grant(2);
    assert_int_equal(attempt.state, RL_ATTEMPT_CONFIRMING);
    assert_int_equal(actions.confirm, 5);
    assert_int_equal(actions.fence, 100);
    assert_int_equal(actions.wake_at, 50 * RL_MS);
    assert_int_equal(actions.outcome, RL_OUTCOME_NONE);
    look();
    assert_quiet();
    grant(2);
    assert_quiet();
    grant(2);
    assert_quiet();
    grant(0);
    assert_won(100);
}

static void test_confirmed_at_the_raised_fence(void **state) {
    (void)state;
    begin_confirmed(3);
    stale(0, 0);
    stale(1, 300);
    assert_raised(3, 301);
    grant(0);
    grant(1);
    assert_int_equal(actions.confirm, 3);
    assert_int_equal(actions.fence, 301);
    grant(0);
    grant(1);
    assert_won(301);
}

static void test_late_votes_confirm_nothing(void **state) {
    (void)state;
    begin_confirmed(5);
    grant(0);
    grant(1);
    grant(2);
    assert_int_equal(actions.confirm, 0x07);
    grant(0);
    grant(3); /* its SET */
    stale(4, 700);
    assert_quiet(); /* and no raise: the proposal stands */
    assert_int_equal(attempt.tally.granted, 0x0f);
    assert_int_equal(attempt.confirming.granted, 0x01);
    grant(1);
    assert_quiet();
    grant(2);
    assert_won(100);
}

static void confirming(unsigned nodes) {
    begin_confirmed(nodes);
    for (unsigned node = 0; node < rl_quorum(nodes); node++) grant(node);
    assert_int_equal(attempt.state, RL_ATTEMPT_CONFIRMING);
    assert_int_equal(actions.confirm, rl_all(rl_quorum(nodes)));
}

static void test_confirm_refused(void **state) {
    (void)state;
    const struct {
        enum rl_vote vote;
        enum rl_outcome outcome;
    } cases[] = {{RL_VOTE_STALE, RL_OUTCOME_HELD},
                 {RL_VOTE_DENIED, RL_OUTCOME_HELD},
                 {RL_VOTE_ABSENT, RL_OUTCOME_HELD},
                 {RL_VOTE_FAILED, RL_OUTCOME_NO_QUORUM}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        confirming(5);
        grant(0);
        vote(1, cases[i].vote, 0, 2 * RL_MS);
        assert_lost(cases[i].outcome);
        grant(2);
        assert_int_equal(attempt.state, RL_ATTEMPT_LOST);
        assert_int_equal(actions.outcome, RL_OUTCOME_NONE);
    }
}

static void test_confirm_in_time(void **state) {
    (void)state;
    confirming(3);
    grant(0);
    tick(50 * RL_MS - 1);
    assert_quiet();
    tick(50 * RL_MS);
    assert_lost(RL_OUTCOME_NO_QUORUM);
    assert_int_equal(attempt.confirming.failed, 6);

    confirming(3);
    grant(0);
    vote(1, RL_VOTE_GRANTED, 0, 989 * RL_MS);
    assert_won(100);

    confirming(3);
    grant(0);
    vote(1, RL_VOTE_GRANTED, 0, 990 * RL_MS);
    assert_lost(RL_OUTCOME_EXPIRED);

    begin_confirmed(3);
    grant(0);
    vote(1, RL_VOTE_GRANTED, 0, 50 * RL_MS); /* no time is left to ask once more */
    assert_int_equal(actions.confirm, 0);
    assert_lost(RL_OUTCOME_EXPIRED);
}

static void test_cancelled_while_confirming(void **state) {
    (void)state;
    confirming(3);
    step((struct rl_event){.type = RL_EVENT_CANCEL}, 2 * RL_MS);
    assert_lost(RL_OUTCOME_CANCELLED);
}

static void test_a_voided_voter_does_not_confirm(void **state) {
    (void)state;
    confirming(3);
    grant(0);
    voided = 1;
    look();
    assert_lost(RL_OUTCOME_NO_QUORUM);

    confirming(3);
    voided = 4; /* no voter */
    grant(0);
    grant(1);
    assert_won(100);

    confirming(3);
    terms.quorum = 3; /* another epoch: two cannot confirm for three */
    look();
    assert_lost(RL_OUTCOME_NO_QUORUM);
}

/* ---- readers ---- */

static void begin_reader(unsigned nodes) {
    begin(nodes);
    terms.shared = true;
    start();
}

static void found(unsigned node, int64_t fence) { vote(node, RL_VOTE_GRANTED, fence, RL_MS); }

static void a_reader_takes_the_fence_that_the_majority_has(void **state) {
    (void)state;
    begin_reader(5);
    assert_int_equal(actions.fence, 1); /* it proposes nothing of its own */
    for (unsigned node = 0; node < 2; node++) {
        found(node, 70);
        assert_quiet();
    }
    found(2, 70);
    assert_won(70);
}

static void a_reader_writes_the_highest_fence_back(void **state) {
    (void)state;
    begin_reader(3);
    found(0, 70);
    assert_quiet();
    found(1, 80); /* the first node does not count any more */
    assert_raised(1 << 0, 80);
    found(2, 75);
    assert_raised(1 << 2, 80);
    found(0, 80);
    assert_won(80);
}

/* Only what has it counts: the majority that granted may not be the one that has the fence. */
static void a_reader_counts_only_nodes_that_have_its_fence(void **state) {
    (void)state;
    begin_reader(5);
    found(0, 70);
    found(1, 70);
    found(2, 90);
    assert_raised(1 << 0 | 1 << 1, 90);
    found(0, 90);
    assert_quiet();
    found(1, 120); /* a writer was there meanwhile */
    assert_raised(1 << 0 | 1 << 2, 120);
    found(0, 120);
    found(2, 130); /* more than was asked for: no node but this one has it */
    assert_raised(1 << 0 | 1 << 1, 130);
    found(0, 130);
    found(1, 130);
    assert_won(130);
}

static void a_reader_drops_what_a_voided_node_said(void **state) {
    (void)state;
    begin_reader(3);
    found(0, 70);
    voided = 1 << 0;
    look();
    found(1, 70);
    assert_quiet();
    voided = 0;
    look(); /* it votes again, and is asked again */
    assert_raised(1 << 0, 70);
    found(0, 70);
    assert_won(70);
}

/* Its record is being read: the place counts when it answers once more. */
static void a_reader_asks_a_stale_node_again(void **state) {
    (void)state;
    begin_reader(3);
    found(0, 70);
    stale(1, 70);
    assert_raised(1 << 1, 70);
    found(1, 70);
    assert_won(70);
}

/* The fence of a won or confirmed lock does not change with an answer that comes late. */
static void a_late_answer_does_not_change_a_readers_fence(void **state) {
    (void)state;
    begin_reader(3);
    found(0, 70);
    found(1, 70);
    assert_won(70);
    found(2, 90);
    assert_int_equal(attempt.fence, 70);
}

static void a_reader_is_denied_by_a_majority(void **state) {
    (void)state;
    begin_reader(3);
    found(0, 70);
    deny(1);
    assert_quiet();
    deny(2);
    assert_lost(RL_OUTCOME_HELD);
}

static void a_confirmed_reader_asks_its_voters(void **state) {
    (void)state;
    begin_reader(3);
    terms.confirm = true;
    found(0, 70);
    found(1, 70);
    assert_int_equal(actions.confirm, 1 << 0 | 1 << 1);
    assert_int_equal(actions.fence, 70);
    grant(0);
    grant(1);
    assert_won(70);
}

/* It confirms at once: the deadline may be too late for that. */
static void test_a_confirmed_attempt_does_not_wait_for_steadier_clocks(void **state) {
    (void)state;
    static const struct rl_rates rates = {0x01, {50000}};
    begin_confirmed(3);
    terms.rates = &rates;
    terms.drift_ppm = 10000;
    terms.drift_fixed = 0;
    grant(0);
    assert_int_equal(attempt.state, RL_ATTEMPT_VOTING);
    grant(1);
    assert_int_equal(attempt.state, RL_ATTEMPT_CONFIRMING);
    assert_int_equal(actions.confirm, 0x03);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_confirmed_attempt_does_not_wait_for_steadier_clocks),
        cmocka_unit_test(test_one_round),
        cmocka_unit_test(test_a_proposal_is_above_all_that_was_seen),
        cmocka_unit_test(test_classic_knows_no_fences),
        cmocka_unit_test(test_quorum_is_that_of_the_members),
        cmocka_unit_test(test_stale_where_a_majority_can_do_without),
        cmocka_unit_test(test_stale_then_raised),
        cmocka_unit_test(test_a_raise_goes_above_what_nodes_and_hint_say),
        cmocka_unit_test(test_the_last_proposal_is_the_last),
        cmocka_unit_test(test_start_comes_first),
        cmocka_unit_test(test_grant_of_an_earlier_proposal_is_stale),
        cmocka_unit_test(test_a_node_has_one_request_at_a_time),
        cmocka_unit_test(test_an_answer_to_nothing_is_no_grant),
        cmocka_unit_test(test_a_raise_in_vain_takes_the_node_out),
        cmocka_unit_test(test_held_by_another_is_no_matter_of_fences),
        cmocka_unit_test(test_eight_raises_are_enough),
        cmocka_unit_test(test_all_nonces_changed),
        cmocka_unit_test(test_unready_until_the_deadline),
        cmocka_unit_test(test_who_comes_later_joins_the_proposal),
        cmocka_unit_test(test_nobody_joins_a_proposal_that_is_too_low),
        cmocka_unit_test(test_nothing_is_raised_after_the_deadline),
        cmocka_unit_test(test_validity_counts_from_the_first_request),
        cmocka_unit_test(test_cancel_releases_all_asked),
        cmocka_unit_test(test_a_straggler_decides_nothing),
        cmocka_unit_test(test_voided_nodes_are_not_asked),
        cmocka_unit_test(test_a_voided_grant_is_dropped),
        cmocka_unit_test(test_a_voided_node_is_asked_again),
        cmocka_unit_test(test_what_a_voided_node_is_about_to_say_is_no_grant),
        cmocka_unit_test(test_a_foreign_node_is_not_asked_again),
        cmocka_unit_test(test_what_a_foreign_node_is_about_to_say_is_nothing),
        cmocka_unit_test(test_a_quorum_that_grows_under_way),
        cmocka_unit_test(test_confirmed),
        cmocka_unit_test(test_confirmed_at_the_raised_fence),
        cmocka_unit_test(test_late_votes_confirm_nothing),
        cmocka_unit_test(test_confirm_refused),
        cmocka_unit_test(test_confirm_in_time),
        cmocka_unit_test(test_cancelled_while_confirming),
        cmocka_unit_test(test_a_voided_voter_does_not_confirm),
        cmocka_unit_test(a_reader_takes_the_fence_that_the_majority_has),
        cmocka_unit_test(a_reader_writes_the_highest_fence_back),
        cmocka_unit_test(a_reader_counts_only_nodes_that_have_its_fence),
        cmocka_unit_test(a_reader_drops_what_a_voided_node_said),
        cmocka_unit_test(a_reader_asks_a_stale_node_again),
        cmocka_unit_test(a_late_answer_does_not_change_a_readers_fence),
        cmocka_unit_test(a_reader_is_denied_by_a_majority),
        cmocka_unit_test(a_confirmed_reader_asks_its_voters),
    };
    return cmocka_run_group_tests_name("attempt_guarded", tests, NULL, NULL);
}
