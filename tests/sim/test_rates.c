/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Worlds in which the clocks of all nodes run fast together, each at its own rate, up to what a
 * time service slews. One of them may run wild besides. No two clients hold a lock, in any mode,
 * although keys end earlier than the configured drift covers.
 *
 * TTLs are long enough for two samples: before that a client knows no rate (docs/use/safety.md). A
 * client that was cut off knows none either, so messages are slow, but not lost.
 */
#include "stage.h"

#include <stdio.h>

#include "judges/check.h"
#include "world/random.h"

enum { WORLDS = 300, CLIENTS = 3, END_MS = 60000, EVERY_MS = 300 };

static void draw_options(struct world_options *options, struct random *random) {
    options->nodes = random_chance(random, 500000) ? 3 : 5;
    options->clients = CLIENTS;
    options->link.delay_max = random_between(random, RL_MS, 8 * RL_MS);
    options->link.delay_min = random_between(random, RL_MS / 8, options->link.delay_max);
    options->guarded = options->fenced = random_chance(random, 500000);
    if (options->guarded && random_chance(random, 300000)) options->native = rl_all(options->nodes);
    const int64_t ttl_ms = random_between(random, 6000, 20000);
    options->ttl_ms_max = 2 * ttl_ms;
    for (unsigned i = 0; i < CLIENTS; i++) {
        struct world_client_options *client = &options->client[i];
        if (options->guarded) client->client.mode = REDLOCK_MODE_GUARDED;
        client->lock.ttl_ms = ttl_ms;
        client->lock.renew = random_chance(random, 500000);
        client->lock.lost_margin_ms = 0;
    }
}

/* In some worlds one of them runs wild. */
static void let_clocks_run(struct stage *stage, struct random *random) {
    const unsigned wild = (unsigned)random_between(random, 0, 2 * stage->options.nodes);
    for (unsigned i = 0; i < stage->options.nodes; i++) {
        const int64_t gain =
            i == wild ? random_between(random, 100000, 400000) : random_between(random, 0, 83333);
        node_clock_rate(stage->world, i, (uint32_t)(1000000 + gain));
    }
}

static void act(struct stage *stage, unsigned client, struct random *random) {
    if (actor_believes(stage->world, client, 0)) {
        if (random_chance(random, 50000)) actor_act(stage->world, client, ACTION_RELEASE, 0, 0);
    } else if (actor_idle(stage->world, client, 0)) {
        actor_act(stage->world, client, ACTION_ACQUIRE, 0, random_between(random, 0, 2000));
    }
}

static void check(struct stage *stage, uint64_t seed, unsigned *held) {
    struct check_violation violation;
    const unsigned rules = 1u << CHECK_EXCLUSION | 1u << CHECK_RESURRECTED | 1u << CHECK_LATE_LOSS;
    *held += stage_count(stage, HISTORY_ACQUIRED, ANYBODY, ANYBODY);
    if (check_history(&stage->history, rules, &violation, 1) == 0) return;
    stage_print(stage);
    fail_msg("world %llu: %s: %s", (unsigned long long)seed, check_rule_name(violation.rule),
             violation.text);
}

static void clocks_run_fast_together(void **state) {
    unsigned held = 0;
    (void)state;
    for (uint64_t seed = 1; seed <= WORLDS; seed++) {
        struct stage stage;
        struct random random = random_named(seed, 1);
        stage_open(&stage);
        stage.options.seed = seed;
        stage.options.record_messages = 0;
        draw_options(&stage.options, &random);
        stage_begin(&stage);
        let_clocks_run(&stage, &random);
        const int64_t end_ms = random_between(&random, END_MS / 2, END_MS);
        for (int64_t at = 100; at < END_MS; at += EVERY_MS) {
            stage_run(&stage, at);
            for (unsigned i = 0; i < CLIENTS; i++) act(&stage, i, &random);
            for (unsigned i = 0; i < stage.options.nodes && at - EVERY_MS < end_ms && at >= end_ms;
                 i++)
                node_clock_rate(stage.world, i, 1000000);
        }
        check(&stage, seed, &held);
        stage_close(&stage);
    }
    assert_true(held > 4 * WORLDS);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(clocks_run_fast_together)};
    return cmocka_run_group_tests_name("rates", tests, NULL, NULL);
}
