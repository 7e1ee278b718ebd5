/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Steps of the servers' wall clocks, as far as two samples show them.
 */
#include "machine.h"

#include "core/clocks.h"

#define BEGIN INT64_C(1767225600000000)

static struct rl_clocks clocks;
static int64_t wall_us[5];
static rl_ns now;

static void begin(void) {
    rl_clocks_init(&clocks, 5, 10000, 2 * RL_MS);
    now = 1000 * RL_MS;
    for (int i = 0; i < 5; i++) wall_us[i] = BEGIN + i * 1000;
}

/* Each step that can be acted on now, once. */
static rl_mask stepped(void) {
    rl_mask mask = rl_clocks_stepped(&clocks, 3, 60000 * RL_MS, now);
    for (unsigned i = 0; i < 5; i++)
        if (mask & rl_bit(i)) rl_clocks_acted_on(&clocks, i);
    return mask;
}

/* A second later: each server's clock has gone on by it, and `step_us[i]` besides. */
static rl_mask second(const int64_t *step_us) {
    now += 1000 * RL_MS;
    for (unsigned i = 0; i < 5; i++) {
        wall_us[i] += 1000000 + (step_us ? step_us[i] : 0);
        rl_clocks_sample(&clocks, i, &(struct rl_clock_sample){wall_us[i], now, now + RL_MS});
    }
    return stepped();
}

static void test_steady(void **state) {
    (void)state;
    begin();
    for (int i = 0; i < 100; i++) assert_int_equal(second(NULL), 0);
}

static void test_alone(void **state) {
    (void)state;
    begin();
    assert_int_equal(second(NULL), 0);
    assert_int_equal(second((int64_t[]){0, 0, 30000, 0, 0}), 4);
    assert_int_equal(second(NULL), 0);                                 /* once */
    assert_int_equal(second((int64_t[]){5000, 0, -9000000, 0, 0}), 0); /* within drift; back */
    assert_int_equal(second((int64_t[]){INT64_C(1) << 52, 0, 0, 20000, 0}), 9);
}

/* Most of them went forward: it is our own clock that stood still. */
static void test_all_is_none(void **state) {
    (void)state;
    begin();
    assert_int_equal(second(NULL), 0);
    assert_int_equal(second((int64_t[]){60000, 60000, 60000, 0, 0}), 0);
}

/* What happened while it was away says nothing, nor does the first sample. */
static void test_reconnected(void **state) {
    (void)state;
    begin();
    assert_int_equal(second((int64_t[]){90000, 0, 0, 0, 0}), 0); /* the first sample */
    rl_clocks_forget(&clocks, 1);
    assert_int_equal(second((int64_t[]){0, 90000, 0, 0, 0}), 0);
    assert_int_equal(second((int64_t[]){0, 90000, 0, 0, 0}), 2);
}

/* A slow answer hides a step as long as itself, and is no step. */
static void test_slow_answer(void **state) {
    (void)state;
    begin();
    assert_int_equal(second(NULL), 0);
    now += 1000 * RL_MS;
    for (unsigned i = 0; i < 5; i++) {
        rl_ns late = i == 0 ? 300 * RL_MS : RL_MS;
        wall_us[i] += 1000000 + (i == 0 ? 250000 : 0);
        rl_clocks_sample(&clocks, i, &(struct rl_clock_sample){wall_us[i], now, now + late});
    }
    assert_int_equal(stepped(), 0);
}

/* A node that is cut off when another one steps says later, when it is back, that it did not. */
static void test_cut_off(void **state) {
    (void)state;
    begin();
    assert_int_equal(second(NULL), 0);
    for (int i = 0; i < 3; i++) {
        now += 1000 * RL_MS;
        for (unsigned n = 0; n < 3; n++) { /* nodes 3 and 4 are away: two others are not enough */
            wall_us[n] += 1000000 + (i == 0 && n == 0 ? 30000 : 0);
            rl_clocks_sample(&clocks, n, &(struct rl_clock_sample){wall_us[n], now, now + RL_MS});
        }
        wall_us[3] += 1000000;
        wall_us[4] += 1000000;
        assert_int_equal(stepped(), 0);
    }
    now += 100 * RL_MS;
    for (unsigned n = 0; n < 5; n++) wall_us[n] += 100000;
    rl_clocks_sample(&clocks, 3, &(struct rl_clock_sample){wall_us[3], now, now + RL_MS});
    assert_int_equal(stepped(), 1); /* at once, not a period later */
    assert_int_equal(second(NULL), 0);
}

/* A step that nobody can act on is over when every lease of before it is. */
static void test_too_old(void **state) {
    (void)state;
    begin();
    assert_int_equal(second(NULL), 0);
    now += 1000 * RL_MS;
    wall_us[0] += 1030000;
    rl_clocks_sample(&clocks, 0, &(struct rl_clock_sample){wall_us[0], now, now + RL_MS});
    for (unsigned n = 1; n < 5; n++) wall_us[n] += 1000000;
    now += 59000 * RL_MS;
    for (unsigned n = 0; n < 5; n++) wall_us[n] += 59000000;
    assert_int_equal(stepped(), 0);
    now += 2000 * RL_MS;
    for (unsigned n = 0; n < 5; n++) {
        wall_us[n] += 2000000;
        rl_clocks_sample(&clocks, n, &(struct rl_clock_sample){wall_us[n], now, now + RL_MS});
    }
    assert_int_equal(stepped(), 0);
}

/* Drift is granted in parts per million, and its fixed part once: a clock that gains 1.19 % is not
 * within 1 %. */
static void test_small_gains_add_up(void **state) {
    (void)state;
    rl_mask seen = 0;
    begin();
    assert_int_equal(second(NULL), 0);
    for (int i = 0; i < 30; i++) assert_int_equal(second((int64_t[]){9900, 0, 0, 0, 0}), 0);
    for (int i = 0; i < 3; i++) seen |= second((int64_t[]){0, 11900, 0, 0, 0});
    assert_int_equal(seen, 2);
}

/* Our own clock is slow by all that drift allows: a second of it is 1.0101 s of theirs. That does
 * not add up to a step. */
static void test_our_own_is_slow(void **state) {
    (void)state;
    begin();
    for (int i = 0; i < 100; i++) assert_int_equal(second((int64_t[]){10101, 0, 0, 0, 0}), 0);
}

/* ---- to the nanosecond ---- */

#define WALL_US_MAX (RL_NEVER / 2000)

/* Whether the second sample, `span` later, shows a step. */
static bool steps(const int64_t wall[2], rl_ns span, uint32_t drift_ppm, rl_ns drift_fixed) {
    rl_clocks_init(&clocks, 1, drift_ppm, drift_fixed);
    rl_clocks_sample(&clocks, 0, &(struct rl_clock_sample){wall[0], 7, 7});
    rl_clocks_sample(&clocks, 0, &(struct rl_clock_sample){wall[1], 7 + span, 7 + span});
    return rl_clocks_stepped(&clocks, 0, RL_NEVER, 7 + span) == 1;
}

static void check_gain(uint32_t drift_ppm, rl_ns span, rl_ns gain) {
    const int64_t wall[2] = {BEGIN, BEGIN + span / 1000 + 1000000};
    const rl_ns gained = (wall[1] - wall[0]) * 1000 - span;
    assert_false(steps(wall, span, drift_ppm, gained - gain));
    assert_true(steps(wall, span, drift_ppm, gained - gain - 1));
}

/* Our clock is slow by the whole drift: while it shows `span`, theirs gains span * drift / (1 -
 * drift), rounded up. */
static void test_gain_of_a_span(void **state) {
    (void)state;
    check_gain(10000, 0, 0);
    check_gain(10000, 1, 1);
    check_gain(10000, 99, 1);
    check_gain(10000, 100, 2);
    check_gain(10000, 990000, 10000);
    check_gain(10000, 990001, 10001);
    check_gain(10000, 990 * RL_MS, 10 * RL_MS);
    check_gain(0, 12345, 0);
    check_gain(500000, 12345, 12345);
    check_gain(999999, 5, 4999995);
}

/* A server that says anything at all makes no sum overflow. */
static void test_wall_clocks_out_of_range(void **state) {
    (void)state;
    assert_false(steps((int64_t[]){INT64_MIN, 5}, 0, 0, 5000));
    assert_true(steps((int64_t[]){-1, 5}, 0, 0, 4999));
    assert_false(steps((int64_t[]){WALL_US_MAX - 5, WALL_US_MAX + 1}, 0, 0, 5000));
    assert_true(steps((int64_t[]){WALL_US_MAX - 5, INT64_MAX}, 0, 0, 4999));
}

static void sample(unsigned node, int64_t wall_ms, rl_ns asked_ms, rl_ns answered_ms) {
    rl_clocks_sample(
        &clocks, node,
        &(struct rl_clock_sample){wall_ms * 1000, asked_ms * RL_MS, answered_ms * RL_MS});
}

/* The earlier bound and the drift since then allow as much as this sample does, and the bound
 * counts for a later time: less is added to it from now on. */
static void test_bound_counts_from_the_answer(void **state) {
    (void)state;
    for (int64_t step_ms = 0; step_ms <= 1; step_ms++) {
        rl_clocks_init(&clocks, 1, 500000, 0); /* it may gain as much as our clock shows */
        sample(0, 1000, 0, 0);                 /* ahead by at most 1000 */
        sample(0, 1010, 0, 10);                /* at 0 by at most 1010, at 10 too */
        sample(0, 1040 + step_ms, 20, 20);
        assert_int_equal(rl_clocks_stepped(&clocks, 0, RL_NEVER, 0), step_ms);
    }
}

/* ---- which other clocks count ---- */

static void begin_at(rl_ns at_ms) {
    rl_clocks_init(&clocks, 5, 0, 0);
    for (unsigned n = 0; n < 5; n++) sample(n, 1000, at_ms, at_ms);
}

static void test_each_other_clock_counts(void **state) {
    (void)state;
    for (unsigned node = 0; node < 5; node++) {
        begin_at(1);
        for (unsigned n = 0; n < 5; n++) sample(n, n == node ? 2000 : 1001, 2, 2);
        assert_int_equal(rl_clocks_stepped(&clocks, 4, RL_NEVER, 2 * RL_MS), rl_bit(node));
        assert_int_equal(rl_clocks_stepped(&clocks, 5, RL_NEVER, 2 * RL_MS), 0);
    }
}

static void test_nodes_that_are_not_there_do_not_count(void **state) {
    (void)state;
    begin_at(1);
    sample(0, 2000, 2, 2);
    clocks.clock[5] = clocks.clock[0];
    for (unsigned n = 1; n < 5; n++) sample(n, 1001, 2, 2);
    clocks.clock[6] = clocks.clock[1];
    clocks.nodes = 5;
    assert_int_equal(rl_clocks_stepped(&clocks, 4, RL_NEVER, 2 * RL_MS), 1);
    clocks.clock[5] = clocks.clock[1];
    assert_int_equal(rl_clocks_stepped(&clocks, 5, RL_NEVER, 2 * RL_MS), 0);
}

/* All at one time, even at 0, which an unsampled clock has in its place. */
static void test_a_clock_does_not_count_for_itself(void **state) {
    (void)state;
    for (rl_ns at_ms = 0; at_ms < 2; at_ms++) {
        rl_clocks_init(&clocks, 3, 0, 0);
        sample(0, 1000, at_ms, at_ms);
        sample(0, 2000, at_ms, at_ms);
        assert_int_equal(rl_clocks_stepped(&clocks, 1, RL_NEVER, at_ms * RL_MS), 0);
        sample(1, 1000, at_ms, at_ms);
        assert_int_equal(rl_clocks_stepped(&clocks, 1, RL_NEVER, at_ms * RL_MS), 1);
        assert_int_equal(rl_clocks_stepped(&clocks, 2, RL_NEVER, at_ms * RL_MS), 0);
    }
}

static void test_a_step_lasts(void **state) {
    (void)state;
    begin_at(1);
    sample(0, 2000, 2, 2);
    for (unsigned n = 1; n < 5; n++) sample(n, 1001, 2, 2);
    assert_int_equal(rl_clocks_stepped(&clocks, 4, 10 * RL_MS, 12 * RL_MS), 1);
    assert_int_equal(rl_clocks_stepped(&clocks, 4, 10 * RL_MS, 12 * RL_MS + 1), 0);
    assert_int_equal(rl_clocks_stepped(&clocks, 4, 10 * RL_MS, 12 * RL_MS), 0); /* it has ended */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_steady),
        cmocka_unit_test(test_alone),
        cmocka_unit_test(test_all_is_none),
        cmocka_unit_test(test_reconnected),
        cmocka_unit_test(test_slow_answer),
        cmocka_unit_test(test_cut_off),
        cmocka_unit_test(test_too_old),
        cmocka_unit_test(test_small_gains_add_up),
        cmocka_unit_test(test_our_own_is_slow),
        cmocka_unit_test(test_gain_of_a_span),
        cmocka_unit_test(test_wall_clocks_out_of_range),
        cmocka_unit_test(test_bound_counts_from_the_answer),
        cmocka_unit_test(test_each_other_clock_counts),
        cmocka_unit_test(test_nodes_that_are_not_there_do_not_count),
        cmocka_unit_test(test_a_clock_does_not_count_for_itself),
        cmocka_unit_test(test_a_step_lasts),
    };
    return cmocka_run_group_tests_name("clocks", tests, NULL, NULL);
}
