/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Steps of the servers' wall clocks, as far as two samples show them.
 */
#include "machine.h"

#include "core/clocks.h"
#include "core/mix.h"

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

/* ---- how fast a clock runs ---- */

/* For so many seconds, each clock gains so many microseconds in each; answers take 1 ms. */
static void run(int seconds, int64_t gain_us) {
    for (int i = 0; i < seconds; i++)
        second((int64_t[]){gain_us, gain_us, gain_us, gain_us, gain_us});
}

/* Of 1.0833 s that a server's clock shows, 0.0833 are missing on ours: 7.7 % of the TTL. */
static void test_all_run_fast_together(void **state) {
    (void)state;
    begin();
    run(3, 0);
    assert_int_equal(rl_clocks_fast(&clocks, 2), 0);
    run(1, 83333);
    assert_int_equal(stepped(), 0); /* not alone */
    for (unsigned i = 0; i < 5; i++)
        assert_in_range(rl_clocks_fast(&clocks, i), 76924, 76924 + 1000 + 2500);
    run(5, 83333);
    assert_in_range(rl_clocks_fast(&clocks, 2), 76924, 76924 + 1000 + 2500);
}

static void test_what_drift_covers_is_not_fast(void **state) {
    (void)state;
    begin();
    run(200, 10101); /* all that 1 % of drift covers */
    assert_int_equal(rl_clocks_fast(&clocks, 0), 0);
    run(5, 10950); /* the excess adds up slowly */
    assert_in_range(rl_clocks_fast(&clocks, 0), 10832, 10832 + 1000 + 2500);
}

/* It needs the larger allowance for a minute after the last sample that showed it. */
static void test_a_slew_that_ends(void **state) {
    (void)state;
    begin();
    run(1, 0);
    run(30, 83333);
    const uint32_t needed = rl_clocks_fast(&clocks, 1);
    run(60, 0);
    assert_int_equal(rl_clocks_fast(&clocks, 1), needed);
    run(1, 0);
    assert_int_equal(rl_clocks_fast(&clocks, 1), 0);
}

/* One sample with a larger gain than any slew has may be a step, of theirs or of ours. It counts as
 * the fastest slew, and fully only if the next sample shows the same. */
static void test_a_step_is_not_a_rate(void **state) {
    (void)state;
    begin();
    run(3, 0);
    run(1, 3000000);
    assert_int_equal(rl_clocks_fast(&clocks, 4), 125000);
    run(1, 0);
    assert_int_equal(rl_clocks_fast(&clocks, 4), 125000);
    begin();
    run(1, 0);
    run(2, 1000000);
    assert_in_range(rl_clocks_fast(&clocks, 4), 500000, 505000);
}

/* A slow answer says less of the rate, and the larger rate counts. */
static void test_the_margin_is_what_answers_take(void **state) {
    (void)state;
    rl_clocks_init(&clocks, 1, 10000, 2 * RL_MS);
    sample(0, 1000, 0, 20);
    sample(0, 2100, 1000, 1020); /* 1100 ms while between 980 and 1020 of ours passed */
    assert_int_equal(rl_clocks_fast(&clocks, 0), 110000); /* 120 of 1100 are 10.9 % */
    rl_clocks_init(&clocks, 1, 10000, 2 * RL_MS);
    sample(0, 1000, 0, 50);
    sample(0, 2060, 1000, 1050);
    assert_int_equal(rl_clocks_fast(&clocks, 0), 0); /* it may as well be within drift */
    sample(0, 3120, 2000, 2050);
    assert_int_equal(rl_clocks_fast(&clocks, 0), 82500); /* 170 of 2120 are 8.02 % */
}

/* What was measured on an earlier connection counts until samples show that it has ended. */
static void test_a_new_connection_keeps_the_allowance(void **state) {
    (void)state;
    begin();
    run(1, 0);
    run(3, 83333);
    rl_clocks_forget(&clocks, 0);
    assert_int_not_equal(rl_clocks_fast(&clocks, 0), 0);
    run(60, 0);
    assert_int_not_equal(rl_clocks_fast(&clocks, 0), 0);
    run(1, 0);
    assert_int_equal(rl_clocks_fast(&clocks, 0), 0);
}

/* Any rate, answers that take any time, and samples that are missing: as soon as a clock is known
 * to be fast its allowance covers the true rate, and exceeds it by the margin of two answers. A
 * clock within drift is never fast. */
static void test_any_rate(void **state) {
    (void)state;
    uint64_t random = 7;
    for (int round = 0; round < 20000; round++) {
        const int64_t gain_ppm = rl_draw_between(&random, -83333, 83333);
        const rl_ns slowest = rl_draw_between(&random, 1, 30) * RL_MS;
        const int64_t needed = gain_ppm * 1000000 / (1000000 + gain_ppm);
        rl_ns at = 0;
        rl_clocks_init(&clocks, 1, 10000, 2 * RL_MS);
        for (int i = 0; i < 8; i++) {
            const rl_ns asked = at, read = asked + rl_draw_between(&random, 0, slowest / 2);
            const rl_ns answered = read + rl_draw_between(&random, 0, slowest / 2);
            const int64_t shown_us = read / 1000 + read / 1000 * gain_ppm / 1000000;
            rl_clocks_sample(&clocks, 0,
                             &(struct rl_clock_sample){BEGIN + shown_us, asked, answered});
            at += rl_draw_between(&random, 1, 3) * 1000 * RL_MS;
            const int64_t allowed = rl_clocks_fast(&clocks, 0);
            if (needed <= 10000) assert_int_equal(allowed, 0);
            if (i > 0 && needed > 10000 + 2 * (2000 + slowest / 1000)) assert_true(allowed > 0);
            if (allowed == 0) continue;
            assert_true(allowed >= needed);
            const int64_t margin = 2500 + 2 * (slowest / 1000) + 10;
            assert_true(allowed <= (needed + margin < 125000 ? needed + margin : 125000));
        }
    }
}

static void test_any_gain_gives_an_allowance(void **state) {
    (void)state;
    for (int i = 0; i < 63; i++) {
        const int64_t gain_us = INT64_C(1) << i;
        rl_clocks_init(&clocks, 1, 0, 0);
        sample(0, 0, 0, 0);
        for (int n = 1; n <= 2; n++)
            rl_clocks_sample(&clocks, 0,
                             &(struct rl_clock_sample){n * (gain_us / 4) + n, n * 1000, n * 1000});
        assert_in_range(rl_clocks_fast(&clocks, 0), i < 3 ? 0 : 1, 1000000);
    }
}

/* The allowance for a clock that has gained `gained_us` while it showed `shown_us`, twice: what
 * two measurements show counts as a rate, not as a step. */
static uint32_t fast_after(int64_t gained_us, int64_t shown_us) {
    const rl_ns took = (shown_us - gained_us + 1) * 1000; /* the 1: it is rounded up */
    rl_clocks_init(&clocks, 1, 0, 0);
    for (int n = 0; n <= 2; n++)
        rl_clocks_sample(&clocks, 0, &(struct rl_clock_sample){n * shown_us, n * took, n * took});
    return rl_clocks_fast(&clocks, 0);
}

static void test_the_allowance_is_rounded_up(void **state) {
    (void)state;
    assert_int_equal(fast_after(2499, 1000000), 2500);
    assert_int_equal(fast_after(2500, 1000000), 5000);
    assert_int_equal(fast_after(999999, 1000000), 1000000);
    assert_int_equal(fast_after(997499999, 1000000000), 997500);
    const int64_t long_us = RL_NEVER / 4000000; /* no product overflows until then */
    assert_int_equal(fast_after(5764607523, long_us), 2500);
    assert_int_equal(fast_after(5764607520, long_us + 1), 2500);
    assert_int_equal(fast_after(5764607522, long_us + 1), 5000);
}

static void test_one_measurement_shows_no_more_than_a_slew(void **state) {
    (void)state;
    rl_clocks_init(&clocks, 1, 0, 0);
    sample(0, 0, 0, 0);
    sample(0, 1000, 800, 800);
    assert_int_equal(rl_clocks_fast(&clocks, 0), 125000);
    rl_clocks_init(&clocks, 1, 0, 0);
    sample(0, 0, 0, 0);
    sample(0, 1000, 999, 999);
    assert_int_equal(rl_clocks_fast(&clocks, 0), 2500);
    sample(0, 2000, 1799, 1799);
    assert_int_equal(rl_clocks_fast(&clocks, 0), 125000);
    /* It needs that for a minute, and no longer. */
    sample(0, 2000, 61799, 61799);
    assert_int_equal(rl_clocks_fast(&clocks, 0), 125000);
    const rl_ns over = 61799 * RL_MS + 1;
    rl_clocks_sample(&clocks, 0, &(struct rl_clock_sample){2000000, over, over});
    assert_int_equal(rl_clocks_fast(&clocks, 0), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_allowance_is_rounded_up),
        cmocka_unit_test(test_one_measurement_shows_no_more_than_a_slew),
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
        cmocka_unit_test(test_all_run_fast_together),
        cmocka_unit_test(test_what_drift_covers_is_not_fast),
        cmocka_unit_test(test_a_slew_that_ends),
        cmocka_unit_test(test_a_step_is_not_a_rate),
        cmocka_unit_test(test_the_margin_is_what_answers_take),
        cmocka_unit_test(test_a_new_connection_keeps_the_allowance),
        cmocka_unit_test(test_any_rate),
        cmocka_unit_test(test_any_gain_gives_an_allowance),
    };
    return cmocka_run_group_tests_name("clocks", tests, NULL, NULL);
}
