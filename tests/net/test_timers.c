/* SPDX-License-Identifier: BSD-2-Clause
 * Timers come out in order, whatever was armed, moved and disarmed before. */
#include "world.h"

#include <string.h>

#include "net/conn/timers.h"

enum { TIMERS = 500, STEPS = 200000 };

static uint64_t random_state = 1;
static unsigned draw(unsigned below) {
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(random_state >> 33) % below;
}

/* Nothing is later than its parent, and every link has its way back. */
static size_t check(const struct net_timer *parent) {
    size_t count = 0;
    const struct net_timer *before = parent;
    for (const struct net_timer *child = parent->child; child; child = child->next) {
        assert_true(parent->at <= child->at);
        assert_ptr_equal(child->prev, before);
        assert_true(net_timer_is_armed(child));
        count += 1 + check(child);
        before = child;
    }
    return count;
}

static void test_against_a_plain_array(void **state) {
    static struct net_timer timers[TIMERS];
    struct timers heap = {NULL};
    rl_ns expected[TIMERS];
    (void)state;
    for (int i = 0; i < TIMERS; i++) expected[i] = RL_NEVER;
    for (int step = 0; step < STEPS; step++) {
        unsigned i = draw(TIMERS);
        expected[i] = draw(4) == 0 ? RL_NEVER : (rl_ns)draw(1000);
        timers_set(&heap, &timers[i], expected[i]);
        if (draw(3) == 0) {
            rl_ns now = (rl_ns)draw(300);
            struct net_timer *due = timers_due(&heap, now);
            rl_ns earliest = RL_NEVER;
            for (int j = 0; j < TIMERS; j++)
                if (expected[j] < earliest) earliest = expected[j];
            assert_int_equal(due != NULL, earliest <= now);
            if (due) {
                assert_true(due->at == earliest);
                assert_false(net_timer_is_armed(due));
                expected[due - timers] = RL_NEVER;
            }
        }
        if (step % 997 == 0) {
            size_t armed = 0;
            for (int j = 0; j < TIMERS; j++) armed += expected[j] != RL_NEVER;
            assert_int_equal(heap.root ? 1 + check(heap.root) : 0, armed);
        }
    }
}

static void test_never_and_again(void **state) {
    struct net_timer a = {0}, b = {0};
    struct timers heap = {NULL};
    (void)state;
    assert_true(timers_next(&heap) == RL_NEVER);
    timers_set(&heap, &a, RL_NEVER); /* disarming what is not armed */
    timers_set(&heap, &a, 10);
    timers_set(&heap, &a, 10);
    timers_set(&heap, &b, 5);
    assert_true(timers_next(&heap) == 5);
    timers_set(&heap, &b, 20);
    assert_true(timers_next(&heap) == 10);
    assert_null(timers_due(&heap, 9));
    assert_ptr_equal(timers_due(&heap, 30), &a);
    timers_set(&heap, &a, 15); /* armed again, as a handler would */
    assert_ptr_equal(timers_due(&heap, 30), &a);
    assert_ptr_equal(timers_due(&heap, 30), &b);
    assert_null(timers_due(&heap, 30));
}

/* A timer that is put off keeps its place, and comes when it is due all the same: never early,
 * never not at all. */
static void test_put_off(void **state) {
    static struct net_timer timers[TIMERS];
    struct timers heap = {NULL};
    rl_ns expected[TIMERS], now = 0;
    (void)state;
    for (int i = 0; i < TIMERS; i++) expected[i] = RL_NEVER;
    for (int step = 0; step < STEPS; step++) {
        unsigned i = draw(TIMERS);
        expected[i] = draw(8) == 0 ? RL_NEVER : now + (rl_ns)draw(1000);
        timers_move(&heap, &timers[i], expected[i]);
        now += draw(3);
        rl_ns earliest = RL_NEVER;
        for (int j = 0; j < TIMERS; j++)
            if (expected[j] < earliest) earliest = expected[j];
        assert_true(timers_next(&heap) <= earliest);
        struct net_timer *due = timers_due(&heap, now);
        assert_int_equal(due != NULL, earliest <= now);
        if (due) assert_true(expected[due - timers] <= now);
        if (due) expected[due - timers] = RL_NEVER;
    }
    for (int i = 0; i < TIMERS; i++) timers_set(&heap, &timers[i], RL_NEVER);
    assert_null(heap.root); /* whatever was put off: none is left behind */
}

static void test_together(void **state) {
    (void)state;
    assert_int_equal(timers_together(1234, 0), 1234);
    assert_int_equal(timers_together(1200, 100), 1200);
    assert_int_equal(timers_together(1201, 100), 1300);
    assert_int_equal(timers_together(1299, 100), 1300);
    assert_true(timers_together(RL_NEVER, 100) == RL_NEVER);
}

/* All in order makes the root's list as long as it gets. */
static void test_many_in_order(void **state) {
    static struct net_timer many[100000];
    struct timers heap = {NULL};
    (void)state;
    for (int i = 0; i < 100000; i++) timers_set(&heap, &many[i], i);
    for (int i = 0; i < 100000; i++) assert_ptr_equal(timers_due(&heap, 100000), &many[i]);
    assert_null(heap.root);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_a_plain_array),
        cmocka_unit_test(test_never_and_again),
        cmocka_unit_test(test_put_off),
        cmocka_unit_test(test_together),
        cmocka_unit_test(test_many_in_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
