/* SPDX-License-Identifier: BSD-2-Clause
 *
 * An attempt on one of several slots: which slot it settles on, and what it asks and leaves. */
#include "machine.h"

static struct rl_terms terms;
static struct rl_attempt attempt;
static struct rl_actions actions;

static void begin(unsigned nodes, bool guarded) {
    terms = test_terms(nodes);
    terms.slots = 3;
    terms.guarded = guarded;
    rl_attempt_init(&attempt, &terms);
    struct rl_event event = {.type = RL_EVENT_START, .ready = 0xffff, .fence_hint = 100};
    rl_attempt_step(&attempt, &event, 0, &actions);
}

static void say(unsigned node, enum rl_vote vote, unsigned slot) {
    struct rl_event event = {.type = RL_EVENT_VOTE,
                             .node = (uint8_t)node,
                             .vote = vote,
                             .slot = (uint8_t)slot,
                             .ready = 0xffff};
    rl_attempt_step(&attempt, &event, RL_MS, &actions);
}

static void give(unsigned node, unsigned slot) { say(node, RL_VOTE_GRANTED, slot); }

static void deny(unsigned node, unsigned other_slots) {
    struct rl_event event = {.type = RL_EVENT_VOTE,
                             .node = (uint8_t)node,
                             .vote = RL_VOTE_DENIED,
                             .other_slots = (uint8_t)other_slots,
                             .ready = 0xffff};
    rl_attempt_step(&attempt, &event, RL_MS, &actions);
}

static void tick(rl_ns now) {
    struct rl_event event = {.type = RL_EVENT_TICK, .ready = 0xffff};
    rl_attempt_step(&attempt, &event, now, &actions);
}

static void test_one_round_trip(void **state) {
    (void)state;
    begin(3, false);
    assert_int_equal(actions.acquire, 7);
    assert_int_equal(actions.slot, 0);
    give(0, 2);
    assert_int_equal(attempt.state, RL_ATTEMPT_VOTING);
    give(1, 2);
    assert_int_equal(actions.outcome, RL_OUTCOME_OK);
    assert_int_equal(attempt.slots.slot, 2);
    assert_int_equal(attempt.tally.granted, 3);
    /* the third may give another slot */
    assert_int_equal(actions.leave, 4);
    assert_int_equal(actions.acquire | actions.release, 0);
}

/* Three votes for three slots are no majority for any. */
static void test_votes_for_different_slots_do_not_add_up(void **state) {
    (void)state;
    begin(3, false);
    give(0, 1);
    give(1, 2);
    assert_int_equal(attempt.state, RL_ATTEMPT_VOTING);
    assert_int_equal(actions.acquire, 0); /* the third may make a majority */
    give(2, 3);
    assert_int_equal(attempt.state, RL_ATTEMPT_VOTING);
    assert_int_equal(actions.acquire, 6); /* settles on slot 1 and asks the others for it */
    assert_int_equal(actions.slot, 1);
    assert_int_equal(actions.wake_at, 51 * RL_MS); /* a node timeout of its own */
    deny(1, 0);
    give(2, 1);
    assert_int_equal(actions.outcome, RL_OUTCOME_OK);
    assert_int_equal(attempt.tally.granted, 5);
    assert_int_equal(actions.leave, 0); /* no node has anything else of ours */
}

static void test_settles_on_what_most_gave(void **state) {
    (void)state;
    begin(5, false);
    give(0, 1);
    give(1, 3);
    give(2, 3);
    give(3, 2);
    assert_int_equal(actions.acquire, 0); /* slot 3 may still get its majority at once */
    give(4, 2);
    assert_int_equal(actions.slot, 3);
    assert_int_equal(actions.acquire, 0x19);
    give(3, 3);
    assert_int_equal(actions.outcome, RL_OUTCOME_OK);
    assert_int_equal(attempt.slots.slot, 3);
    /* nodes 0 and 4 are asked already, and leave their slots for it */
    assert_int_equal(actions.leave, 0);
}

/* The winner also asks those that gave another slot: the lease is to be on all nodes. */
static void test_asks_the_minority_too(void **state) {
    (void)state;
    begin(3, false);
    give(0, 1);
    give(1, 2);
    give(2, 2);
    assert_int_equal(actions.outcome, RL_OUTCOME_OK);
    assert_int_equal(actions.acquire, 1);
    assert_int_equal(actions.slot, 2);
    assert_int_equal(actions.leave, 0);
}

static void test_a_silent_node_delays_it_for_half_the_timeout(void **state) {
    (void)state;
    begin(5, false);
    give(0, 1);
    give(1, 1);
    give(2, 2);
    give(3, 2);
    assert_int_equal(actions.acquire, 0);
    assert_int_equal(actions.wake_at, 25 * RL_MS);
    tick(25 * RL_MS);
    assert_int_equal(actions.slot, 1);
    assert_int_equal(actions.acquire, 0xc);
    assert_int_equal(actions.wake_at, 75 * RL_MS);
    /* an answer of the first round that comes after it */
    give(4, 3);
    assert_int_equal(actions.acquire, 0x10);
    give(4, 1);
    assert_int_equal(actions.outcome, RL_OUTCOME_OK);
}

static void test_lost_when_the_slot_is_taken(void **state) {
    (void)state;
    begin(3, false);
    give(0, 1);
    give(1, 2);
    give(2, 3);
    deny(1, 0);
    deny(2, 0);
    assert_int_equal(actions.outcome, RL_OUTCOME_HELD);
    assert_int_equal(actions.release, 7);
}

static void test_too_few_slots_are_no_reason_to_ask_again(void **state) {
    (void)state;
    begin(3, false);
    give(0, 1);
    deny(1, 0);
    assert_int_equal(actions.acquire, 0);
    deny(2, 0);
    assert_int_equal(actions.outcome, RL_OUTCOME_HELD);
    assert_int_equal(actions.acquire, 0);
    assert_int_equal(actions.release, 7);
}

static void test_another_number(void **state) {
    (void)state;
    begin(3, false);
    deny(0, 5);
    assert_int_equal(attempt.state, RL_ATTEMPT_VOTING);
    deny(1, 5);
    assert_int_equal(actions.outcome, RL_OUTCOME_OTHER_SLOTS);
    assert_int_equal(attempt.slots.other_slots, 5);
    begin(3, false);
    deny(0, 5);
    give(1, 1);
    give(2, 1);
    assert_int_equal(actions.outcome, RL_OUTCOME_OK); /* what one node keeps holds up nobody */
}

/* A number that a majority holds ends the acquisition; one on a single node does not. */
static void test_another_number_ends_the_acquisition(void **state) {
    struct rl_acquire acquire;
    const struct rl_retry_rules rules = {
        .retries_max = UINT32_MAX, .deadline = RL_NEVER, .delay_max = RL_MS};
    (void)state;
    for (unsigned others = 1; others <= 2; others++) {
        terms = test_terms(3);
        terms.slots = 3;
        rl_acquire_init(&acquire, &terms, &rules);
        struct rl_event event = {.type = RL_EVENT_START, .ready = 7, .settled = 7};
        rl_acquire_step(&acquire, &event, 0, &actions);
        for (uint8_t node = 0; node < 3; node++) {
            event.type = RL_EVENT_VOTE;
            event.node = node;
            event.vote = RL_VOTE_DENIED;
            event.other_slots = node < others ? 5 : 0;
            rl_acquire_step(&acquire, &event, RL_MS, &actions);
            assert_int_equal(actions.peek, 0);
        }
        for (uint8_t node = 0; node < 3; node++) {
            event.type = RL_EVENT_UNLOCKED;
            event.node = node;
            event.vote = RL_VOTE_ABSENT;
            rl_acquire_step(&acquire, &event, RL_MS, &actions);
        }
        assert_int_equal(acquire.state, others == 2 ? RL_ACQUIRE_OVER : RL_ACQUIRE_SLEEPING);
        if (others == 2) assert_int_equal(actions.outcome, RL_OUTCOME_OTHER_SLOTS);
    }
}

/* Guarded: a slot whose fence was not raised counts for the choice and not for the majority. */
static void test_raises_the_fence_of_the_slot(void **state) {
    (void)state;
    begin(3, true);
    assert_int_equal(actions.fence, 100);
    say(0, RL_VOTE_STALE, 2);
    give(1, 2);
    assert_int_equal(attempt.slots.slot, 2);
    assert_int_equal(attempt.state, RL_ATTEMPT_VOTING);
    give(2, 1);
    assert_int_equal(actions.acquire, 4);
    assert_int_equal(actions.slot, 2);
    give(2, 2);
    assert_int_equal(actions.outcome, RL_OUTCOME_OK);
    assert_int_equal(attempt.fence, 100);
    assert_int_equal(attempt.tally.granted, 6);

    begin(3, true);
    say(0, RL_VOTE_STALE, 2);
    say(1, RL_VOTE_STALE, 2);
    assert_int_equal(actions.raise, 3);
    assert_int_equal(actions.fence, 101);
    say(2, RL_VOTE_STALE, 2);
    assert_int_equal(actions.raise, 4);
    assert_int_equal(actions.fence, 101);
    give(0, 0); /* the answer to a raise names no slot */
    give(1, 0);
    assert_int_equal(actions.outcome, RL_OUTCOME_OK);
    assert_int_equal(attempt.fence, 101);
}

/* A node that has become ineligible before it was settled does not count. */
static void test_voided(void **state) {
    (void)state;
    begin(3, true);
    give(0, 2);
    struct rl_event event = {.type = RL_EVENT_NODES, .ready = 7, .voided = 1, .foreign = 1};
    rl_attempt_step(&attempt, &event, RL_MS, &actions);
    event = (struct rl_event){.type = RL_EVENT_VOTE,
                              .node = 1,
                              .vote = RL_VOTE_GRANTED,
                              .slot = 2,
                              .ready = 7,
                              .voided = 1,
                              .foreign = 1};
    rl_attempt_step(&attempt, &event, RL_MS, &actions);
    assert_int_equal(attempt.state, RL_ATTEMPT_VOTING);
    event.node = 2;
    rl_attempt_step(&attempt, &event, RL_MS, &actions);
    assert_int_equal(actions.outcome, RL_OUTCOME_OK);
    assert_int_equal(attempt.tally.granted, 6);
}

/* Which slot it settles on, before and after the time at which silent nodes are not waited for. */
static void test_choice(void **state) {
    enum { AT = 5 };
    static const struct {
        uint8_t at[8];
        rl_mask counted, silent;
        unsigned quorum, before, after;
    } cases[] = {
        {{2}, 0x1, 0, 1, 2, 2},                       /* one node is a majority */
        {{1, 1, 0, 0, 0}, 0x1f, 0x1c, 3, 0, 0},       /* silent nodes give no slot */
        {{3, 3, 0, 0}, 0xf, 0xc, 3, 0, 0},            /* not by their number either */
        {{1, 1, 2, 0, 0}, 0x1f, 0x18, 3, 0, 1},       /* three gave one: some slot may win */
        {{3, 3, 3}, 0x3, 0, 3, 0, 0},                 /* the third does not count any more */
        {{1, 2, 2, 1, 1}, 0x1e, 0, 3, 2, 2},          /* the first does not either */
        {{1, 2, 3, 1, 0, 0, 0}, 0x1f, 0x10, 4, 1, 1}, /* slot 1 cannot win with one more */
        {{1, 2, 3, 1, 0, 0, 0}, 0x3f, 0x30, 4, 0, 1}, /* with two more it can */
        {{0, 0, 0}, 0x7, 0x7, 2, 0, 0},               /* nobody has answered */
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct rl_slots slots = {.settle_at = AT};
        memcpy(slots.at, cases[i].at, sizeof(cases[i].at));
        for (rl_ns now = AT - 1; now <= AT + 1; now++)
            assert_int_equal(
                rl_slots_choice(&slots, cases[i].counted, cases[i].silent, cases[i].quorum, now),
                now < AT ? cases[i].before : cases[i].after);
    }
}

/* Random answers: a win always has a majority for its one slot, and every node that may hold
 * another one of ours is asked or told to leave it. */
static void test_walk(void **state) {
    uint64_t random = 1;
    unsigned won = 0, twice = 0;
    (void)state;
    for (unsigned run = 0; run < 200000; run++) {
        unsigned nodes = 1 + run % 7, holds[RL_NODES_MAX] = {0};
        begin(nodes, false);
        bool asked_again = false;
        rl_mask waits = rl_all(nodes), settled = 0;
        for (unsigned steps = 0; attempt.state == RL_ATTEMPT_VOTING && waits; steps++) {
            random = random * UINT64_C(6364136223846793005) + 1442695040888963407u;
            unsigned node = (unsigned)(random >> 33) % nodes, what = (unsigned)(random >> 50) % 8;
            if (!(waits & rl_bit(node))) continue;
            waits &= (rl_mask)~rl_bit(node);
            if (what == 7) {
                holds[node] = 0;
                say(node, RL_VOTE_FAILED, 0);
            } else if (what == 6) {
                holds[node] = 0;
                deny(node, 0);
            } else {
                unsigned slot = settled & rl_bit(node) ? attempt.slots.slot : 1 + what / 2;
                holds[node] = slot;
                give(node, slot);
            }
            if (actions.acquire && attempt.state == RL_ATTEMPT_VOTING) asked_again = true;
            settled |= actions.acquire;
            waits |= actions.acquire;
        }
        if (attempt.state != RL_ATTEMPT_WON) continue;
        won++;
        twice += asked_again;
        unsigned of_slot = 0;
        for (unsigned node = 0; node < nodes; node++) {
            if (holds[node] == attempt.slots.slot) of_slot++;
            bool elsewhere = holds[node] != 0 && holds[node] != attempt.slots.slot;
            rl_mask left = actions.leave | actions.acquire | waits;
            if (elsewhere) assert_true(left & rl_bit(node));
            if ((waits & rl_bit(node)) && !(settled & rl_bit(node)))
                assert_true(actions.leave & rl_bit(node));
        }
        assert_true(of_slot >= rl_quorum(nodes));
    }
    assert_true(won > 10000);
    assert_true(twice > 1000);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_round_trip),
        cmocka_unit_test(test_votes_for_different_slots_do_not_add_up),
        cmocka_unit_test(test_settles_on_what_most_gave),
        cmocka_unit_test(test_asks_the_minority_too),
        cmocka_unit_test(test_a_silent_node_delays_it_for_half_the_timeout),
        cmocka_unit_test(test_lost_when_the_slot_is_taken),
        cmocka_unit_test(test_too_few_slots_are_no_reason_to_ask_again),
        cmocka_unit_test(test_another_number),
        cmocka_unit_test(test_another_number_ends_the_acquisition),
        cmocka_unit_test(test_raises_the_fence_of_the_slot),
        cmocka_unit_test(test_voided),
        cmocka_unit_test(test_choice),
        cmocka_unit_test(test_walk),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
