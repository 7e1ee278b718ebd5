/* SPDX-License-Identifier: BSD-2-Clause
 *
 * When nodes are asked about what votes rest on.
 */
#include "machine.h"

#include "core/freshness.h"

#define S (1000 * RL_MS)
#define BEGIN (100 * S)

static struct rl_freshness freshness;

static void begin(uint32_t clients) {
    rl_freshness_init(&freshness, 3, clients, 42);
    assert_int_equal(rl_freshness_due(&freshness, 7, 0), 7); /* never asked */
    assert_true(rl_freshness_is_over(&freshness, 7, 0));
    rl_freshness_asked(&freshness, 7, BEGIN);
}

static void expect_interval(rl_ns interval) {
    for (int i = 0; i < 100; i++)
        assert_in_range(rl_freshness_wake_at(&freshness, 7), BEGIN + interval * 3 / 4,
                        BEGIN + interval);
    assert_int_equal(rl_freshness_due(&freshness, 7, BEGIN + interval * 3 / 4 - 1), 0);
    assert_int_equal(rl_freshness_due(&freshness, 7, BEGIN + interval * 3 / 4), 7);
}

static void test_votes_rest_on_the_last_second(void **state) {
    (void)state;
    begin(RL_CLIENTS_MANY);
    rl_freshness_asked(&freshness, 2, BEGIN + 1);
    assert_false(rl_freshness_is_over(&freshness, 7, BEGIN + S - 1));
    assert_false(rl_freshness_is_over(&freshness, 2, BEGIN + S));
    assert_true(rl_freshness_is_over(&freshness, 1, BEGIN + S));
    assert_true(rl_freshness_is_over(&freshness, 2, BEGIN + S + 1));
}

/* Four times a second, by all of them; each at least every 15 s. */
static void test_many_clients_ask_in_turn(void **state) {
    static const struct {
        uint32_t clients;
        rl_ns interval;
    } rows[] = {{0, S},      {1, S},       {7, S},          {8, 2 * S},
                {20, 5 * S}, {60, 15 * S}, {10000, 15 * S}, {RL_CLIENTS_MANY, 15 * S}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        begin(rows[i].clients);
        expect_interval(rows[i].interval);
    }
}

/* A clock that runs fast is measured before the validity that it shortens is over. */
static void test_twice_in_a_ttl(void **state) {
    (void)state;
    begin(RL_CLIENTS_MANY);
    assert_true(rl_freshness_engaged(&freshness, 3600 * S));
    for (int i = 0; i < 2; i++) { /* at the beginning */
        expect_interval(S);
        rl_freshness_asked(&freshness, 7, BEGIN);
    }
    expect_interval(15 * S);
    assert_true(rl_freshness_engaged(&freshness, 10 * S));
    assert_false(rl_freshness_engaged(&freshness, 20 * S));
    expect_interval(5 * S);
    assert_true(rl_freshness_engaged(&freshness, 100 * RL_MS));
    expect_interval(S);
}

static void test_each_node_by_its_own_count(void **state) {
    (void)state;
    begin(40);
    freshness.clients[1] = 0;
    assert_int_equal(rl_freshness_due(&freshness, 7, BEGIN + S), 2);
    assert_int_equal(rl_freshness_due(&freshness, 5, BEGIN + S), 0);
    assert_in_range(rl_freshness_wake_at(&freshness, 7), BEGIN + 3 * S / 4, BEGIN + S);
    assert_in_range(rl_freshness_wake_at(&freshness, 5), BEGIN + 30 * S / 4, BEGIN + 10 * S);
    assert_true(rl_freshness_wake_at(&freshness, 0) == RL_NEVER);
}

/* A thousand clients that were connected at one time do not ask at one time. */
static void test_clients_spread_out(void **state) {
    unsigned first_half = 0;
    (void)state;
    for (unsigned client = 0; client < 1000; client++) {
        rl_freshness_init(&freshness, 1, 1000, client);
        rl_freshness_asked(&freshness, 1, BEGIN);
        first_half += rl_freshness_wake_at(&freshness, 1) < BEGIN + 15 * S * 7 / 8;
    }
    assert_in_range(first_half, 400, 600);
}

/* By the node that counts most: one that has just started does not count all of them yet. */
static void test_all_clients_at_one_time(void **state) {
    (void)state;
    rl_freshness_init(&freshness, 3, 0, 1);
    assert_int_equal(rl_freshness_spread(&freshness), 0);
    freshness.clients[1] = 1000;
    freshness.clients[2] = 10;
    assert_int_equal(rl_freshness_spread(&freshness), 5 * S);
    freshness.clients[2] = RL_CLIENTS_MANY; /* a native node counts none */
    assert_int_equal(rl_freshness_spread(&freshness), 5 * S);
    freshness.clients[0] = 6000;
    assert_int_equal(rl_freshness_spread(&freshness), 30 * S);
    freshness.clients[0] = 100000;
    assert_int_equal(rl_freshness_spread(&freshness), 30 * S);
    rl_freshness_init(&freshness, 3, RL_CLIENTS_MANY, 1);
    assert_int_equal(rl_freshness_spread(&freshness), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_votes_rest_on_the_last_second),
        cmocka_unit_test(test_many_clients_ask_in_turn),
        cmocka_unit_test(test_twice_in_a_ttl),
        cmocka_unit_test(test_each_node_by_its_own_count),
        cmocka_unit_test(test_clients_spread_out),
        cmocka_unit_test(test_all_clients_at_one_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
