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

/* A second later: each server's clock has gone on by it, and `step_us[i]` besides. */
static rl_mask second(const int64_t *step_us) {
    now += 1000 * RL_MS;
    for (unsigned i = 0; i < 5; i++) {
        wall_us[i] += 1000000 + (step_us ? step_us[i] : 0);
        rl_clocks_sample(&clocks, i, &(struct rl_clock_sample){wall_us[i], now, now + RL_MS});
    }
    return rl_clocks_round(&clocks, 3);
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
    assert_int_equal(second(NULL), 0); /* once */
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
    assert_int_equal(second((int64_t[]){90000, 0, 0, 0, 0}), 0);
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
    assert_int_equal(rl_clocks_round(&clocks, 3), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_steady),      cmocka_unit_test(test_alone),       cmocka_unit_test(test_all_is_none),
        cmocka_unit_test(test_reconnected), cmocka_unit_test(test_slow_answer),
    };
    return cmocka_run_group_tests_name("clocks", tests, NULL, NULL);
}
