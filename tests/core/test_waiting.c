/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Waiting where nodes tell of changes: when the machine looks, when it contends, and what it makes
 * of hints that are late, lost or false.
 */
#include "machine.h"

static struct rl_terms terms;
static struct rl_retry_rules rules;
static struct rl_acquire acquire;
static struct rl_actions actions;
static rl_mask watched;
static bool behind;

static void step(struct rl_event event, rl_ns now) {
    event.ready = event.settled = rl_all(5);
    event.watched = watched;
    event.behind = behind;
    rl_acquire_step(&acquire, &event, now, &actions);
}

static void tick(rl_ns now) { step((struct rl_event){.type = RL_EVENT_TICK}, now); }
static void wake(unsigned node, rl_ns now) {
    step((struct rl_event){.type = RL_EVENT_WAKE, .node = (uint8_t)node}, now);
}
static void rank(int32_t before, rl_ns now) {
    step((struct rl_event){.type = RL_EVENT_RANK, .rank = before}, now);
}
static void seen_held(unsigned node, rl_ns remaining, rl_ns now) {
    step((struct rl_event){.type = RL_EVENT_WATCHED,
                           .node = (uint8_t)node,
                           .vote = RL_VOTE_GRANTED,
                           .remaining = remaining},
         now);
}
static void seen_free(unsigned node, rl_ns now) {
    step((struct rl_event){.type = RL_EVENT_WATCHED, .node = (uint8_t)node, .vote = RL_VOTE_ABSENT},
         now);
}
static void unseen(unsigned node, rl_ns now) {
    step((struct rl_event){.type = RL_EVENT_WATCHED, .node = (uint8_t)node, .vote = RL_VOTE_FAILED},
         now);
}

static void start(bool crowded, rl_ns deadline) {
    terms = test_terms(5);
    rules = (struct rl_retry_rules){.retries_max = UINT32_MAX,
                                    .deadline = deadline,
                                    .delay_min = 100 * RL_MS,
                                    .delay_max = 200 * RL_MS,
                                    .connect_timeout = 1000 * RL_MS};
    rl_acquire_init(&acquire, &terms, &rules);
    step((struct rl_event){.type = RL_EVENT_START, .seed = 42, .crowded = crowded}, 0);
}

/* Three nodes vote so, and no node has a key of ours. */
static void lose_by(enum rl_vote vote, rl_ns now) {
    for (unsigned node = 0; node < 3; node++)
        step((struct rl_event){.type = RL_EVENT_VOTE, .node = (uint8_t)node, .vote = vote}, now);
    for (unsigned node = 0; node < 5; node++)
        step((struct rl_event){.type = RL_EVENT_UNLOCKED,
                               .node = (uint8_t)node,
                               .vote = RL_VOTE_ABSENT},
             now);
    assert_int_equal(acquire.state, RL_ACQUIRE_SLEEPING);
}

static void lose_and_sleep(rl_ns now) { lose_by(RL_VOTE_DENIED, now); }

/* First in the line, and has seen it held everywhere with so much left. */
static void first_in_line(rl_ns remaining) {
    watched = rl_all(5);
    behind = false;
    start(true, RL_NEVER);
    assert_int_equal(acquire.state, RL_ACQUIRE_SLEEPING);
    assert_true(actions.enter_queue);
    assert_int_equal(actions.watch | actions.acquire, 0); /* first it asks who is before it */
    rank(0, RL_MS);
    assert_int_equal(actions.watch, 0x1f);
    for (unsigned node = 0; node < 5; node++) seen_held(node, remaining, RL_MS + RL_MS / 10);
    assert_int_equal(actions.watch | actions.acquire, 0);
}

#define YOUNG (1000 * RL_MS) /* of a TTL of 1000 ms */
#define OLD (500 * RL_MS)

static void test_without_watchers_the_random_delay_decides(void **state) {
    (void)state;
    watched = 0x03;
    start(true, RL_NEVER);
    assert_int_equal(actions.acquire, 0x1f); /* nobody would tell: no use in standing in line */
    lose_and_sleep(RL_MS);
    assert_false(actions.enter_queue);
    assert_int_equal(actions.watch, 0);
    assert_in_range(actions.wake_at, 101 * RL_MS, 201 * RL_MS);
    tick(actions.wake_at);
    assert_int_equal(actions.acquire, 0x1f);
}

static void test_after_a_lost_try_it_asks_for_its_rank(void **state) {
    (void)state;
    watched = rl_all(5);
    start(false, RL_NEVER);
    assert_int_equal(actions.acquire, 0x1f); /* who knows of no crowd tries at once */
    lose_and_sleep(RL_MS);
    assert_true(actions.enter_queue);
    assert_int_equal(actions.watch, 0);
    rank(0, 2 * RL_MS);
    assert_int_equal(actions.watch, 0x1f);
}

static void test_the_first_contends_when_a_majority_has_reported(void **state) {
    (void)state;
    first_in_line(YOUNG);
    wake(0, 5 * RL_MS);
    wake(1, 5 * RL_MS);
    assert_int_equal(actions.acquire | actions.watch, 0);
    wake(1, 5 * RL_MS); /* the same node again is no news */
    assert_int_equal(actions.acquire, 0);
    wake(4, 5 * RL_MS);
    assert_int_equal(actions.acquire, 0x1f);
}

static void test_a_renewal_costs_looks_and_no_try(void **state) {
    (void)state;
    first_in_line(OLD);
    wake(3, 5 * RL_MS);
    assert_int_equal(actions.watch, 0x08); /* released or renewed? One node says it for all */
    for (unsigned node = 0; node < 5; node++) wake(node == 3 ? 4 : node, 5 * RL_MS);
    assert_int_equal(actions.watch | actions.acquire, 0);
    seen_held(3, YOUNG, 6 * RL_MS);
    assert_int_equal(actions.watch, 0x17); /* to be told by them again */
    for (unsigned node = 0; node < 5; node++) {
        if (node != 3) seen_held(node, YOUNG, 6 * RL_MS);
        assert_int_equal(actions.acquire | actions.watch, 0);
    }
    wake(0, 7 * RL_MS);
    wake(1, 7 * RL_MS);
    wake(2, 7 * RL_MS);
    assert_int_equal(actions.acquire, 0x1f);
}

static void test_an_old_lock_that_is_gone_on_one_node_is_released(void **state) {
    (void)state;
    first_in_line(OLD);
    wake(3, 5 * RL_MS);
    wake(0, 5 * RL_MS);
    wake(1, 5 * RL_MS);
    assert_int_equal(actions.acquire, 0);
    seen_free(3, 6 * RL_MS);
    assert_int_equal(actions.acquire,
                     0); /* two of five told, one is seen free: the fourth decides */
    wake(1, 6 * RL_MS);
    assert_int_equal(actions.watch | actions.acquire, 0); /* the reports count: no need to look */
    wake(2, 6 * RL_MS);
    assert_int_equal(actions.acquire, 0x1f);
}

/* Somebody renewed a lock that was just taken, so reports of such a lock are read, too. */
static void test_after_a_try_in_vain_a_young_lock_may_be_renewed(void **state) {
    (void)state;
    first_in_line(YOUNG);
    for (unsigned node = 0; node < 3; node++) wake(node, 5 * RL_MS);
    lose_and_sleep(6 * RL_MS);
    const rl_ns now = actions.wake_at;
    rank(0, now);
    assert_int_equal(actions.watch, 0x1f);
    for (unsigned node = 0; node < 5; node++) seen_held(node, YOUNG, now);
    wake(0, now);
    assert_int_equal(actions.watch, 0x01);
}

static void test_what_is_reported_during_a_look_is_looked_at_again(void **state) {
    (void)state;
    first_in_line(OLD);
    wake(3, 5 * RL_MS);
    wake(3, 5 * RL_MS); /* may be of before that look, or of after it */
    seen_held(3, YOUNG, 6 * RL_MS);
    assert_int_equal(actions.watch, 0x08);
}

/* Told as the second, it comes first when the first has just taken the lock: its own look will
 * tell. */
static void test_what_was_reported_before_a_look_is_no_news_after_it(void **state) {
    (void)state;
    first_in_line(YOUNG);
    rank(1, 2 * RL_MS);
    for (unsigned node = 0; node < 5; node++) wake(node, 3 * RL_MS);
    assert_int_equal(actions.acquire | actions.watch, 0);
    rank(0, 4 * RL_MS);
    assert_int_equal(actions.watch, 0x1f);
    for (unsigned node = 0; node < 5; node++) {
        seen_held(node, YOUNG, 5 * RL_MS);
        assert_int_equal(actions.acquire | actions.watch, 0);
    }
    for (unsigned node = 0; node < 3; node++) wake(node, 6 * RL_MS);
    assert_int_equal(actions.acquire, 0x1f);
}

static void test_an_expiry_is_timed_and_not_waited_for(void **state) {
    (void)state;
    first_in_line(20 * RL_MS);
    rl_ns end = RL_MS + RL_MS / 10 + 20 * RL_MS;
    assert_in_range(actions.wake_at, end + RL_MS, end + 2 * RL_MS);
    rl_ns now = actions.wake_at;
    tick(now);
    assert_int_equal(actions.watch, 0x1f);
    seen_free(0, now);
    seen_free(1, now);
    assert_int_equal(actions.acquire, 0);
    seen_free(2, now);
    assert_int_equal(actions.acquire, 0x1f);
}

static void test_the_second_keeps_watch_and_lets_the_first_go_before(void **state) {
    (void)state;
    watched = rl_all(5);
    start(true, RL_NEVER);
    rank(1, RL_MS);
    assert_int_equal(actions.watch, 0); /* no change wakes it */
    assert_in_range(actions.wake_at, 2 * RL_MS, 51 * RL_MS);
    rl_ns now = actions.wake_at;
    tick(now);
    assert_int_equal(actions.watch, 0x1f);
    assert_true(actions.enter_queue);
    for (unsigned node = 0; node < 3; node++) seen_free(node, now);
    assert_int_equal(actions.acquire, 0); /* perhaps the first is just about to take it */
    assert_int_equal(actions.wake_at, now + RL_MS);
    now += RL_MS;
    tick(now);
    for (unsigned node = 0; node < 3; node++) seen_free(node, now);
    assert_int_equal(actions.acquire, 0x1f); /* it is not */
}

static void test_those_far_behind_only_ask_for_their_rank(void **state) {
    (void)state;
    watched = rl_all(5);
    start(true, RL_NEVER);
    rank(7, RL_MS);
    for (unsigned node = 0; node < 5; node++) wake(node, 2 * RL_MS);
    assert_int_equal(actions.watch | actions.acquire, 0);
    assert_in_range(actions.wake_at, 100 * RL_MS, 200 * RL_MS);
    for (int i = 0; i < 10; i++) {
        tick(actions.wake_at);
        assert_true(actions.enter_queue);
        assert_int_equal(actions.watch | actions.acquire, 0);
    }
    rank(0, 5000 * RL_MS); /* their turn is told */
    assert_int_equal(actions.watch, 0x1f);
}

static void test_a_lost_wake_up_costs_one_poll(void **state) {
    (void)state;
    first_in_line(YOUNG);
    rl_ns now = actions.wake_at;
    assert_in_range(now, 100 * RL_MS, 200 * RL_MS);
    tick(now);
    assert_int_equal(actions.watch, 0x1f);
    for (unsigned node = 0; node < 3; node++) seen_free(node, now);
    assert_int_equal(actions.acquire, 0x1f);
}

static void test_how_rare_polls_become(void **state) {
    static const struct {
        int delay_ms;
        unsigned quiet;
        int expected_ms, most_ms;
    } rows[] = {{0, 0, 1, 0},          {100, 0, 100, 100},   {100, 1, 200, 200},
                {100, 4, 1600, 1600},  {100, 9, 1600, 1600}, {1000, 1, 2000, 2000},
                {1000, 2, 3000, 3000}, {5000, 3, 5000, 5000}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const rl_ns delay = rows[i].delay_ms * RL_MS;
        uint64_t random = 42;
        assert_int_equal(rl_poll_delay(&random, delay, delay, rows[i].quiet),
                         rows[i].expected_ms * RL_MS);
        assert_int_equal(rl_poll_delay_most(delay, rows[i].quiet), rows[i].most_ms * RL_MS);
    }
}

/* A fleet that waits must not ask how it waits. */
static void test_polls_that_find_nothing_become_rare(void **state) {
    static const int least_ms[] = {100, 200, 400, 800, 1600, 1600, 1600};
    (void)state;
    first_in_line(60000 * RL_MS);
    rl_ns asked = 0;
    for (size_t i = 0; i < sizeof least_ms / sizeof least_ms[0]; i++) {
        const rl_ns most = 2 * least_ms[i] > 3000 ? 3000 : 2 * least_ms[i];
        assert_in_range(acquire.waiting.poll_at - asked, least_ms[i] * RL_MS, most * RL_MS);
        asked = acquire.waiting.poll_at;
        tick(asked);
        assert_int_equal(actions.watch, 0x1f);
        for (unsigned node = 0; node < 5; node++) seen_held(node, 60000 * RL_MS, asked);
    }
}

/* The second watches the first, four times as often as the others poll. A report of the same rank
 * answers such a poll, and does not make the next one come earlier. */
static void test_polls_of_the_second_become_rare(void **state) {
    static const int least_ms[] = {50, 100, 200, 400, 400};
    (void)state;
    watched = rl_all(5);
    start(true, RL_NEVER);
    for (int times = 0; times < 2; times++) {
        rl_ns asked = acquire.waiting.poll_at - 60 * RL_MS;
        rank(1, asked); /* it is news */
        assert_in_range(acquire.waiting.poll_at - asked, 0, 50 * RL_MS);
        for (size_t i = 0; i < sizeof least_ms / sizeof least_ms[0]; i++) {
            asked = acquire.waiting.poll_at;
            tick(asked);
            assert_int_equal(actions.watch, 0x1f);
            for (unsigned node = 0; node < 5; node++) seen_held(node, 90000 * RL_MS, asked);
            rank(1, asked);
            assert_in_range(acquire.waiting.poll_at - asked, least_ms[i] * RL_MS,
                            2 * least_ms[i] * RL_MS);
        }
        rank(2, asked);
    }
}

static void test_where_looks_are_in_vain_a_try_finds_out(void **state) {
    (void)state;
    watched = rl_all(5);
    start(true, RL_NEVER);
    rank(-1, RL_MS); /* no line */
    assert_int_equal(actions.watch, 0x1f);
    for (unsigned node = 0; node < 5; node++) unseen(node, 2 * RL_MS);
    assert_int_equal(actions.acquire, 0);
    tick(actions.wake_at);
    assert_int_equal(actions.acquire, 0x1f);
}

static void test_behind_others_of_the_process_it_does_nothing(void **state) {
    (void)state;
    watched = rl_all(5);
    behind = true;
    start(false, 500 * RL_MS);
    assert_int_equal(acquire.state, RL_ACQUIRE_SLEEPING);
    assert_int_equal(actions.acquire | actions.watch, 0);
    assert_false(actions.enter_queue);
    assert_int_equal(actions.wake_at, 500 * RL_MS);
    wake(0, 10 * RL_MS);
    assert_int_equal(actions.wake_at, 500 * RL_MS);
    behind = false;
    tick(20 * RL_MS);
    assert_true(actions.enter_queue);

    behind = true;
    start(false, 500 * RL_MS);
    tick(500 * RL_MS); /* its last try is its own */
    assert_int_equal(actions.acquire, 0x1f);
    for (unsigned node = 0; node < 3; node++)
        step(
            (struct rl_event){.type = RL_EVENT_VOTE, .node = (uint8_t)node, .vote = RL_VOTE_DENIED},
            501 * RL_MS);
    for (unsigned node = 0; node < 5; node++)
        step((struct rl_event){.type = RL_EVENT_UNLOCKED,
                               .node = (uint8_t)node,
                               .vote = RL_VOTE_ABSENT},
             501 * RL_MS);
    assert_int_equal(acquire.outcome, RL_OUTCOME_HELD);

    start(false, 500 * RL_MS);
    tick(900 * RL_MS); /* stopped meanwhile: it has had its time, and no node has ever said why */
    assert_int_equal(acquire.outcome, RL_OUTCOME_HELD);
    behind = false;
}

static void test_whoever_does_not_wait_tries_in_any_crowd(void **state) {
    (void)state;
    watched = rl_all(5);
    behind = true;
    start(true, 0);
    assert_int_equal(actions.acquire, 0x1f);
    behind = false;
}

static void test_watchers_that_go_leave_the_random_delay(void **state) {
    (void)state;
    first_in_line(YOUNG);
    watched = 0x03;
    step((struct rl_event){.type = RL_EVENT_NODES}, 10 * RL_MS);
    assert_in_range(actions.wake_at, 110 * RL_MS, 210 * RL_MS);
    tick(actions.wake_at);
    assert_int_equal(actions.acquire, 0x1f);
    lose_and_sleep(300 * RL_MS);
    watched = rl_all(5);
    step((struct rl_event){.type = RL_EVENT_NODES}, 301 * RL_MS);
    assert_true(actions.enter_queue);
}

static void test_after_a_split_it_stays_away_for_longer_each_time(void **state) {
    (void)state;
    rl_ns longest = 0, now = 10 * RL_MS;
    first_in_line(YOUNG);
    for (int i = 0; i < 20; i++) {
        for (unsigned node = 0; node < 3; node++) wake(node, now);
        if (acquire.state == RL_ACQUIRE_SLEEPING)
            for (unsigned node = 0; node < 5; node++)
                if (acquire.state == RL_ACQUIRE_SLEEPING) seen_free(node, now);
        assert_int_equal(acquire.state, RL_ACQUIRE_VOTING);
        lose_and_sleep(now);
        rl_ns away = actions.wake_at - now;
        if (away > longest) longest = away;
        assert_in_range(away, 0, 16 * RL_MS);
        if (away > 0) { /* the first in the queue does so, too */
            rank(0, now);
            assert_int_equal(actions.watch, 0);
            assert_int_equal(actions.wake_at, now + away);
        }
        now = actions.wake_at;
        tick(now);
        assert_int_not_equal(actions.watch, 0);
    }
    assert_true(longest > RL_MS);
}

/* The key is free on all nodes, and three of them cannot vote. */
static void test_where_nodes_cannot_vote_the_random_delay_decides(void **state) {
    (void)state;
    watched = rl_all(5);
    start(false, RL_NEVER);
    lose_by(RL_VOTE_FAILED, RL_MS);
    for (unsigned tries = 1; tries < 4; tries++) {
        const rl_ns at = actions.wake_at, lost = acquire.since;
        assert_in_range(at, lost + 100 * RL_MS, lost + 200 * RL_MS);
        assert_int_equal(actions.watch, 0);
        rank(0, lost + RL_MS);
        wake(0, lost + RL_MS);
        for (unsigned node = 0; node < 5; node++) seen_free(node, lost + RL_MS);
        step((struct rl_event){.type = RL_EVENT_NODES}, lost + RL_MS);
        assert_int_equal(actions.watch | actions.acquire, 0);
        assert_false(actions.enter_queue);
        assert_int_equal(actions.wake_at, at);
        tick(at);
        assert_int_equal(actions.acquire, 0x1f);
        lose_by(RL_VOTE_FAILED, at);
    }
    tick(actions.wake_at);
    lose_and_sleep(actions.wake_at);
    assert_true(actions.enter_queue); /* they vote again */
}

/* The first has had its time since the report, and not only since the second has looked. */
static void test_the_second_counts_from_the_report(void **state) {
    (void)state;
    first_in_line(YOUNG);
    rank(1, 2 * RL_MS);
    for (unsigned node = 0; node < 3; node++) wake(node, 5 * RL_MS);
    wake(3, 5 * RL_MS + 9 * RL_MS / 10);
    tick(6 * RL_MS);
    assert_int_equal(actions.watch, 0x0f);
    for (unsigned node = 0; node < 3; node++) seen_free(node, 6 * RL_MS + RL_MS / 10);
    assert_int_equal(actions.acquire, 0x1f);
}

/* A question of the acquisition before is answered late. This machine asked nothing, so the answer
 * says nothing about how long a question takes: else the next lost try would be followed by a pause
 * as long as the machine's uptime. */
static void test_an_answer_to_nothing_is_no_news(void **state) {
    (void)state;
    const rl_ns uptime = 3600 * 1000 * RL_MS;
    watched = rl_all(5);
    behind = false;
    start(false, RL_NEVER);
    lose_and_sleep(uptime);
    seen_free(0, uptime);
    assert_int_equal(acquire.waiting.free | acquire.waiting.fresh, 0);
    assert_int_equal(acquire.waiting.rtt, 0);
    rank(0, uptime + RL_MS);
    assert_int_equal(actions.watch, 0x1f);
    for (unsigned node = 0; node < 3; node++) seen_free(node, uptime + 2 * RL_MS);
    assert_int_equal(actions.acquire, 0x1f);
    lose_and_sleep(uptime + 3 * RL_MS);
    assert_in_range(acquire.waiting.away_until, uptime, uptime + 10 * RL_MS);
}

/* It was stopped: the others do not wait that long for their turn. */
static void test_a_slow_answer_does_not_make_it_slow(void **state) {
    (void)state;
    watched = rl_all(5);
    behind = false;
    start(true, RL_NEVER);
    rank(0, RL_MS);
    assert_int_equal(actions.watch, 0x1f);
    for (unsigned node = 0; node < 5; node++) seen_held(node, YOUNG, RL_MS + 98 * RL_MS);
    assert_int_equal(acquire.waiting.rtt, terms.node_timeout);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_where_nodes_cannot_vote_the_random_delay_decides),
        cmocka_unit_test(test_without_watchers_the_random_delay_decides),
        cmocka_unit_test(test_after_a_lost_try_it_asks_for_its_rank),
        cmocka_unit_test(test_the_first_contends_when_a_majority_has_reported),
        cmocka_unit_test(test_a_renewal_costs_looks_and_no_try),
        cmocka_unit_test(test_an_old_lock_that_is_gone_on_one_node_is_released),
        cmocka_unit_test(test_after_a_try_in_vain_a_young_lock_may_be_renewed),
        cmocka_unit_test(test_what_is_reported_during_a_look_is_looked_at_again),
        cmocka_unit_test(test_what_was_reported_before_a_look_is_no_news_after_it),
        cmocka_unit_test(test_an_expiry_is_timed_and_not_waited_for),
        cmocka_unit_test(test_the_second_keeps_watch_and_lets_the_first_go_before),
        cmocka_unit_test(test_those_far_behind_only_ask_for_their_rank),
        cmocka_unit_test(test_a_lost_wake_up_costs_one_poll),
        cmocka_unit_test(test_how_rare_polls_become),
        cmocka_unit_test(test_polls_that_find_nothing_become_rare),
        cmocka_unit_test(test_polls_of_the_second_become_rare),
        cmocka_unit_test(test_where_looks_are_in_vain_a_try_finds_out),
        cmocka_unit_test(test_behind_others_of_the_process_it_does_nothing),
        cmocka_unit_test(test_whoever_does_not_wait_tries_in_any_crowd),
        cmocka_unit_test(test_watchers_that_go_leave_the_random_delay),
        cmocka_unit_test(test_after_a_split_it_stays_away_for_longer_each_time),
        cmocka_unit_test(test_the_second_counts_from_the_report),
        cmocka_unit_test(test_an_answer_to_nothing_is_no_news),
        cmocka_unit_test(test_a_slow_answer_does_not_make_it_slow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
