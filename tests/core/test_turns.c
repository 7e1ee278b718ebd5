/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Waiting where nodes keep queues of their own: when the machine asks, when it contends, and what
 * it makes of notifications that are late, lost or false.
 */
#include "machine.h"

static struct rl_terms terms;
static struct rl_retry_rules rules;
static struct rl_acquire acquire;
static struct rl_actions actions;
static rl_mask keepers;

static void step(struct rl_event event, rl_ns now) {
    event.ready = event.settled = rl_all(5);
    event.watched = event.keepers = keepers;
    rl_acquire_step(&acquire, &event, now, &actions);
}

static void tick(rl_ns now) { step((struct rl_event){.type = RL_EVENT_TICK}, now); }
static void turn(unsigned node, rl_ns now) {
    step((struct rl_event){.type = RL_EVENT_TURN, .node = (uint8_t)node}, now);
}
static void queued(unsigned node, int32_t rank, rl_ns remaining, rl_ns now) {
    step((struct rl_event){.type = RL_EVENT_QUEUED,
                           .node = (uint8_t)node,
                           .vote = RL_VOTE_GRANTED,
                           .rank = rank,
                           .remaining = remaining},
         now);
}
static void may_try(unsigned node, rl_ns now) {
    step((struct rl_event){.type = RL_EVENT_QUEUED, .node = (uint8_t)node, .vote = RL_VOTE_ABSENT},
         now);
}
static void no_place(unsigned node, rl_ns now) {
    step((struct rl_event){.type = RL_EVENT_QUEUED, .node = (uint8_t)node, .vote = RL_VOTE_FAILED},
         now);
}
static void vote(unsigned node, enum rl_vote vote, rl_ns now) {
    step((struct rl_event){.type = RL_EVENT_VOTE, .node = (uint8_t)node, .vote = vote}, now);
}

static void start_polling(rl_ns deadline, rl_ns delay_min) {
    keepers = rl_all(5);
    terms = test_terms(5);
    rules = (struct rl_retry_rules){.retries_max = UINT32_MAX,
                                    .deadline = deadline,
                                    .delay_min = delay_min,
                                    .delay_max = 2 * delay_min,
                                    .connect_timeout = 1000 * RL_MS};
    rl_acquire_init(&acquire, &terms, &rules);
    step((struct rl_event){.type = RL_EVENT_START, .seed = 42}, 0);
    assert_int_equal(actions.acquire, 0x1f);
}

static void start(rl_ns deadline) { start_polling(deadline, 100 * RL_MS); }

static void cleaned(rl_ns now) {
    for (unsigned node = 0; node < 5; node++)
        step((struct rl_event){.type = RL_EVENT_UNLOCKED,
                               .node = (uint8_t)node,
                               .vote = RL_VOTE_ABSENT},
             now);
    assert_int_equal(acquire.state, RL_ACQUIRE_SLEEPING);
}

#define LONG (500 * RL_MS)

/* Denied by all five, each of which keeps a place. */
static void denied_everywhere(rl_ns remaining, rl_ns now) {
    for (unsigned node = 0; node < 5; node++) {
        queued(node, 3, remaining, now);
        vote(node, RL_VOTE_DENIED, now);
    }
    cleaned(now);
}

static void test_a_denial_keeps_our_place_and_nothing_is_asked(void **state) {
    (void)state;
    start(RL_NEVER);
    denied_everywhere(LONG, RL_MS);
    assert_int_equal(actions.queue | actions.watch | actions.acquire, 0);
    assert_false(actions.enter_queue);
    assert_int_equal(acquire.turns.rank, 3);
    assert_in_range(actions.wake_at, 101 * RL_MS, 201 * RL_MS); /* only the poll */
}

static void test_it_asks_where_a_denial_kept_no_place(void **state) {
    (void)state;
    start(RL_NEVER);
    for (unsigned node = 0; node < 5; node++) {
        queued(node, node < 2 ? -1 : 3, LONG, RL_MS);
        vote(node, RL_VOTE_DENIED, RL_MS);
    }
    cleaned(RL_MS);
    assert_int_equal(actions.queue, 0x03);
}

static void test_a_majority_of_turns_is_a_try(void **state) {
    (void)state;
    start(RL_NEVER);
    denied_everywhere(LONG, RL_MS);
    turn(0, 5 * RL_MS);
    turn(0, 5 * RL_MS); /* the same node again is no news */
    turn(4, 5 * RL_MS);
    assert_int_equal(actions.acquire | actions.queue, 0);
    turn(2, 5 * RL_MS);
    assert_int_equal(actions.acquire, 0x1f);
    assert_int_equal(actions.watch | actions.queue, 0);
}

static void test_turns_that_have_ended_do_not_count(void **state) {
    (void)state;
    start(RL_NEVER);
    denied_everywhere(LONG, RL_MS);
    turn(0, 5 * RL_MS);
    turn(1, 5 * RL_MS);
    turn(2, 5 * RL_MS + RL_RESERVED);
    assert_int_equal(actions.acquire, 0);
    assert_int_equal(acquire.turns.ours, 0x04);
    assert_int_equal(acquire.turns.places, 0x1c);
}

static void test_too_few_turns_make_it_ask_the_others(void **state) {
    (void)state;
    start(RL_NEVER);
    denied_everywhere(LONG, RL_MS);
    turn(0, 5 * RL_MS);
    assert_in_range(actions.wake_at, 5 * RL_MS, 9 * RL_MS);
    rl_ns asks_at = actions.wake_at;
    tick(asks_at);
    assert_int_equal(actions.acquire, 0);
    assert_int_equal(actions.queue, 0x1e);
    /* another client has it: the lock has a lot of time left */
    for (unsigned node = 1; node < 5; node++) queued(node, 0, LONG, asks_at);
    assert_int_equal(actions.acquire, 0);
    assert_true(actions.wake_at > 100 * RL_MS);
}

static void test_where_no_waiter_has_a_majority_one_tries(void **state) {
    (void)state;
    start(RL_NEVER);
    denied_everywhere(LONG, RL_MS);
    turn(0, 5 * RL_MS);
    turn(1, 5 * RL_MS);
    rl_ns asks_at = actions.wake_at;
    tick(asks_at);
    assert_int_equal(actions.queue, 0x1c);
    /* reserved for others: that is never for longer than RL_RESERVED */
    for (unsigned node = 2; node < 5; node++) {
        assert_int_equal(actions.acquire, 0);
        queued(node, 1, RL_RESERVED - RL_MS, asks_at + RL_MS / 10);
    }
    assert_int_equal(actions.acquire, 0x1f);
}

static void test_an_answer_that_says_try_counts_as_a_turn(void **state) {
    (void)state;
    start(RL_NEVER);
    denied_everywhere(LONG, RL_MS);
    rl_ns poll_at = actions.wake_at;
    tick(poll_at);
    assert_int_equal(actions.queue, 0x1f);
    may_try(0, poll_at);
    may_try(3, poll_at);
    assert_int_equal(actions.acquire, 0);
    may_try(4, poll_at);
    assert_int_equal(actions.acquire, 0x1f);
}

/* It comes on another connection than the answers, so it may be the newer one of the two. */
static void test_a_turn_outlives_an_answer_that_crossed_it(void **state) {
    (void)state;
    start(RL_NEVER);
    denied_everywhere(LONG, RL_MS);
    rl_ns poll_at = actions.wake_at;
    tick(poll_at);
    turn(0, poll_at);
    queued(0, 0, LONG, poll_at);
    assert_int_equal(acquire.turns.ours, 0x01);
    tick(acquire.turns.poll_at);
    queued(0, 0, LONG, acquire.turns.poll_at - 1);
    assert_int_equal(acquire.turns.ours, 0);
}

/* Turns are used up by a try: else the next release would have a crowd of old ones. */
static void test_a_lost_try_uses_its_turns_up(void **state) {
    (void)state;
    start(RL_NEVER);
    denied_everywhere(LONG, RL_MS);
    for (unsigned node = 0; node < 3; node++) turn(node, 5 * RL_MS);
    assert_int_equal(actions.acquire, 0x1f);
    denied_everywhere(LONG, 6 * RL_MS);
    assert_int_equal(acquire.turns.ours, 0);
    turn(3, 7 * RL_MS);
    assert_int_equal(actions.acquire, 0);
}

/* A node denied the try, and reserved the lock for us after that: the holder's release was late. */
static void test_turns_during_a_try_count_after_it(void **state) {
    (void)state;
    start(RL_NEVER);
    denied_everywhere(LONG, RL_MS);
    for (unsigned node = 0; node < 3; node++) turn(node, 5 * RL_MS);
    for (unsigned node = 0; node < 5; node++) {
        turn(node, 6 * RL_MS);
        queued(node, 0, LONG, 6 * RL_MS);
        if (acquire.state == RL_ACQUIRE_VOTING) vote(node, RL_VOTE_DENIED, 6 * RL_MS);
    }
    cleaned(6 * RL_MS);
    assert_int_equal(actions.wake_at, 6 * RL_MS);
    tick(6 * RL_MS);
    assert_int_equal(actions.acquire, 0x1f);
}

static void test_a_lost_turn_costs_one_poll(void **state) {
    (void)state;
    start(RL_NEVER);
    denied_everywhere(LONG, RL_MS);
    assert_in_range(actions.wake_at, 101 * RL_MS, 201 * RL_MS);
    tick(actions.wake_at);
    assert_int_equal(actions.queue, 0x1f);
    assert_in_range(actions.wake_at, 301 * RL_MS, 601 * RL_MS); /* the next is rarer */
}

static void test_where_nodes_do_not_answer_a_try_finds_out(void **state) {
    (void)state;
    start(RL_NEVER);
    denied_everywhere(LONG, RL_MS);
    tick(actions.wake_at);
    for (unsigned node = 0; node < 4; node++) no_place(node, actions.wake_at - 1);
    assert_int_equal(actions.acquire, 0);
    tick(actions.wake_at);
    assert_int_equal(actions.acquire, 0x1f);
}

static void test_a_node_that_comes_back_is_asked_for_a_place(void **state) {
    (void)state;
    start(RL_NEVER);
    denied_everywhere(LONG, RL_MS);
    keepers = 0x0f;
    tick(2 * RL_MS);
    assert_int_equal(actions.queue, 0);
    keepers = 0x1f;
    step((struct rl_event){.type = RL_EVENT_NODES}, 3 * RL_MS);
    assert_int_equal(actions.queue, 0x10);
}

static void test_with_too_few_keepers_one_node_keeps_the_queue(void **state) {
    (void)state;
    start(RL_NEVER);
    denied_everywhere(LONG, RL_MS);
    struct rl_event event = {.type = RL_EVENT_NODES, .ready = 0x1f, .settled = 0x1f};
    event.watched = 0x1f;
    event.keepers = 0x03;
    rl_acquire_step(&acquire, &event, 2 * RL_MS, &actions);
    assert_true(actions.enter_queue);
    assert_int_equal(actions.queue, 0);
    assert_false(acquire.turns.active);
    event.watched = 0;
    rl_acquire_step(&acquire, &event, 3 * RL_MS, &actions);
    assert_false(acquire.waiting.active);
    assert_in_range(actions.wake_at, 103 * RL_MS, 203 * RL_MS);
}

/* False turns, as often as somebody sends them: each costs a share of a try, never a storm. */
static void test_after_a_split_it_stays_away_for_longer_each_time(void **state) {
    (void)state;
    rl_ns longest = 0, now = 10 * RL_MS;
    start(RL_NEVER);
    denied_everywhere(RL_RESERVED / 2, RL_MS);
    for (int i = 0; i < 20; i++) {
        turn(0, now);
        rl_ns away = actions.wake_at - now;
        if (away > longest) longest = away;
        assert_in_range(away, 0, 33 * 2 * RL_MS);
        now = actions.wake_at;
        turn(0, now);
        if (acquire.state == RL_ACQUIRE_SLEEPING) tick(now);
        for (unsigned node = 1; node < 5 && acquire.state == RL_ACQUIRE_SLEEPING; node++)
            queued(node, 1, RL_RESERVED / 2, now);
        assert_int_equal(acquire.state, RL_ACQUIRE_VOTING);
        denied_everywhere(RL_RESERVED / 2, now);
        now += RL_MS;
    }
    assert_true(longest > 4 * RL_MS);
}

/* Two nodes grant the try, the others deny it. By the time the keys are deleted, three notify. */
static void split(rl_ns now) {
    vote(0, RL_VOTE_GRANTED, now);
    vote(1, RL_VOTE_GRANTED, now);
    for (unsigned node = 2; node < 5; node++) {
        queued(node, 0, RL_RESERVED / 2, now);
        vote(node, RL_VOTE_DENIED, now);
    }
    for (unsigned node = 2; node < 5; node++) turn(node, now);
    for (unsigned node = 0; node < 5; node++)
        step((struct rl_event){.type = RL_EVENT_UNLOCKED,
                               .node = (uint8_t)node,
                               .vote = node < 2 ? RL_VOTE_GRANTED : RL_VOTE_ABSENT},
             now);
    assert_int_equal(acquire.state, RL_ACQUIRE_SLEEPING);
}

/* Two waiters that the nodes order differently: each has the turn of some nodes, again and again.
 */
static void test_after_a_second_split_it_tries_later_although_it_is_its_turn(void **state) {
    (void)state;
    rl_ns longest = 0, now = RL_MS;
    start(RL_NEVER);
    split(now);
    assert_int_equal(actions.queue, 0x03);
    assert_int_equal(actions.wake_at, now);
    tick(now);
    assert_int_equal(actions.acquire, 0x1f);
    for (int i = 0; i < 20; i++) {
        split(now);
        assert_int_equal(actions.queue | actions.acquire, 0); /* to ask is to take a turn */
        const rl_ns until = actions.wake_at, away = until - now;
        if (away > longest) longest = away;
        assert_in_range(away, 1, 32 * 2 * RL_MS + 1);
        turn(0, now);
        tick(until - 1);
        assert_int_equal(actions.queue | actions.acquire, 0);
        assert_int_equal(actions.wake_at, until);
        tick(until);
        assert_int_equal(actions.acquire, 0x1f);
        now = until;
    }
    assert_true(longest > 8 * RL_MS);
    denied_everywhere(LONG, now); /* another client has the lock, so it was not a split */
    for (unsigned node = 2; node < 5; node++) turn(node, now);
    assert_int_equal(actions.acquire, 0x1f);
    split(now);
    assert_int_equal(actions.wake_at, now);
}

/* As it comes back, it would ask the two nodes that kept no place; but it tries at once. The nodes
 * that are asked after that have answered within a millisecond. */
static void test_a_try_replaces_the_questions_of_its_step(void **state) {
    (void)state;
    rl_ns now = RL_MS;
    start(RL_NEVER);
    split(now);
    tick(now);
    split(now);
    now = actions.wake_at;
    tick(now);
    assert_int_equal(actions.acquire, 0x1f);
    assert_int_equal(actions.queue, 0);
    denied_everywhere(LONG, now);
    now = actions.wake_at;
    tick(now);
    assert_int_equal(actions.queue, 0x1f);
    for (unsigned node = 0; node < 5; node++) queued(node, 1, LONG, now + RL_MS);
    assert_int_equal(acquire.turns.rtt, RL_MS);
}

/* However slow the nodes were. */
static void test_it_stays_away_no_longer_than_until_its_poll(void **state) {
    (void)state;
    rl_ns longest = 0;
    for (int i = 0; i < 20; i++) {
        start(RL_NEVER);
        split(RL_MS);
        tick(RL_MS);
        acquire.turns.rtt = (1 + i) * 1000 * RL_MS;
        split(RL_MS);
        const rl_ns away = actions.wake_at - RL_MS;
        assert_in_range(away, 1, 200 * RL_MS);
        if (away > longest) longest = away;
    }
    assert_true(longest >= 100 * RL_MS);
}

static void test_the_last_try_is_at_the_deadline(void **state) {
    (void)state;
    start(50 * RL_MS);
    denied_everywhere(LONG, RL_MS);
    assert_int_equal(actions.wake_at, 50 * RL_MS);
    tick(50 * RL_MS);
    assert_int_equal(actions.acquire, 0x1f);
}

/* A node does not notify it of a key that another project's client holds. */
static void test_the_first_asks_when_the_lock_should_have_ended(void **state) {
    static const int32_t ranks[] = {0, 1};
    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        const rl_ns end = 321 * RL_MS, step = RL_MS;
        start_polling(RL_NEVER, 1000 * RL_MS);
        for (unsigned node = 0; node < 5; node++) { /* the third that ends makes a majority */
            queued(node, ranks[i], (rl_ns)(300 + 10 * node) * RL_MS, RL_MS);
            vote(node, RL_VOTE_DENIED, RL_MS);
        }
        cleaned(RL_MS);
        if (ranks[i] == 1) { /* the first will have it by then */
            assert_true(actions.wake_at > 1000 * RL_MS);
            continue;
        }
        assert_int_equal(actions.wake_at, end + step);
        tick(end + step - 1);
        assert_int_equal(actions.queue | actions.acquire, 0);
        tick(end + step);
        assert_int_equal(actions.queue, 0x1f);
        assert_true(actions.wake_at > 1000 * RL_MS); /* once */
    }
}

/* Where a lock has no end, or an unknown one, only the poll asks; where it ends now, all do soon.
 */
static void test_a_lock_without_an_end_and_one_that_ends_now(void **state) {
    (void)state;
    start_polling(RL_NEVER, 1000 * RL_MS);
    for (unsigned node = 0; node < 5; node++) {
        queued(node, 0, -1, RL_MS);
        vote(node, RL_VOTE_DENIED, RL_MS);
    }
    cleaned(RL_MS);
    assert_int_equal(actions.queue, 0);
    assert_true(actions.wake_at > 1000 * RL_MS);
    start_polling(RL_NEVER, 1000 * RL_MS);
    for (unsigned node = 0; node < 5; node++) {
        queued(node, 0, 0, RL_MS);
        vote(node, RL_VOTE_DENIED, RL_MS);
    }
    cleaned(RL_MS);
    assert_int_equal(actions.wake_at, 2 * RL_MS);
}

static void test_the_rank_is_the_last_that_a_node_said(void **state) {
    (void)state;
    start(RL_NEVER);
    assert_int_equal(acquire.turns.rank, -1);
    denied_everywhere(LONG, RL_MS);
    static const int32_t said[] = {2, -1, 0}, known[] = {2, 2, 0};
    for (unsigned i = 0; i < 3; i++) {
        step((struct rl_event){.type = RL_EVENT_RANK, .node = 1, .rank = said[i]}, 2 * RL_MS);
        assert_int_equal(acquire.turns.rank, known[i]);
    }
}

/* Of a list that has become shorter, for example. */
static void test_a_node_that_is_not_of_the_list_has_no_turns(void **state) {
    (void)state;
    start(RL_NEVER);
    denied_everywhere(LONG, RL_MS);
    turn(5, 5 * RL_MS);
    turn(6, 5 * RL_MS);
    assert_int_equal(acquire.turns.rank, 3);
    turn(0, 5 * RL_MS);
    assert_int_equal(actions.acquire, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_denial_keeps_our_place_and_nothing_is_asked),
        cmocka_unit_test(test_a_lock_without_an_end_and_one_that_ends_now),
        cmocka_unit_test(test_the_rank_is_the_last_that_a_node_said),
        cmocka_unit_test(test_a_node_that_is_not_of_the_list_has_no_turns),
        cmocka_unit_test(test_it_asks_where_a_denial_kept_no_place),
        cmocka_unit_test(test_a_majority_of_turns_is_a_try),
        cmocka_unit_test(test_turns_that_have_ended_do_not_count),
        cmocka_unit_test(test_too_few_turns_make_it_ask_the_others),
        cmocka_unit_test(test_where_no_waiter_has_a_majority_one_tries),
        cmocka_unit_test(test_an_answer_that_says_try_counts_as_a_turn),
        cmocka_unit_test(test_a_turn_outlives_an_answer_that_crossed_it),
        cmocka_unit_test(test_a_lost_try_uses_its_turns_up),
        cmocka_unit_test(test_turns_during_a_try_count_after_it),
        cmocka_unit_test(test_a_lost_turn_costs_one_poll),
        cmocka_unit_test(test_where_nodes_do_not_answer_a_try_finds_out),
        cmocka_unit_test(test_a_node_that_comes_back_is_asked_for_a_place),
        cmocka_unit_test(test_with_too_few_keepers_one_node_keeps_the_queue),
        cmocka_unit_test(test_after_a_split_it_stays_away_for_longer_each_time),
        cmocka_unit_test(test_after_a_second_split_it_tries_later_although_it_is_its_turn),
        cmocka_unit_test(test_a_try_replaces_the_questions_of_its_step),
        cmocka_unit_test(test_it_stays_away_no_longer_than_until_its_poll),
        cmocka_unit_test(test_the_last_try_is_at_the_deadline),
        cmocka_unit_test(test_the_first_asks_when_the_lock_should_have_ended),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
