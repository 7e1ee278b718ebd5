/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Native nodes: what does not touch their locks, what ends them, and what others see of them.
 */
#include "stage.h"

#include "net/net.h"

static void open_native(struct stage *stage, bool guarded) {
    if (guarded)
        stage_open_guarded(stage);
    else
        stage_open(stage);
    stage->options.native = rl_all(3);
    stage->options.ttl_ms_max = 10000;
}

static bool is_gone(const struct stage *stage, int node) {
    return stage_find(stage, HISTORY_KEY_LOST, ANYBODY, node, 0) ||
           stage_find(stage, HISTORY_KEY_DELETED, ANYBODY, node, 0) ||
           stage_find(stage, HISTORY_KEY_EXPIRED, ANYBODY, node, 0);
}

static void nothing_reaches_locks_record_and_fences(void **state) {
    struct stage stage;
    (void)state;
    open_native(&stage, true);
    stage_begin_held_by_a(&stage);
    for (unsigned node = 0; node < 3; node++) assert_true(node_is_native(stage.world, node));
    rl_ns end = stage_need(&stage, HISTORY_KEY_SET, ANYBODY, 0, 0)->until;
    node_flush(stage.world, 0);
    node_swap_db(stage.world, 1);
    node_foreign(stage.world, 2, 0, NULL, 0);
    node_delete_record(stage.world, 2);
    stage_run(&stage, 200);
    node_policy(stage.world, 0, true);
    node_evict(stage.world, 0, 0);
    node_clock_step(stage.world, 1, 3600000 * RL_MS);
    node_demote(stage.world, 2, 95 * RL_MS, 20 * RL_MS);
    node_gets_replica(stage.world, 0);
    stage_run(&stage, 300);
    node_promote(stage.world, 2);
    stage_run(&stage, 5000);
    for (int node = 0; node < 3; node++) {
        assert_true(node_is_intact(stage.world, (unsigned)node));
        assert_false(is_gone(&stage, node));
    }
    actor_act(stage.world, B, ACTION_ACQUIRE, 0, 0);
    stage_run(&stage, 5100);
    assert_int_equal(stage_need(&stage, HISTORY_NOT_ACQUIRED, B, ANYBODY, 0)->result, REDLOCK_HELD);
    stage_run(&stage, 12000);
    assert_int_equal(stage_need(&stage, HISTORY_KEY_EXPIRED, ANYBODY, 0, 0)->at, end);
    stage_close(&stage);
}

/* Neither a wall clock that stands still nor one that is set back makes it longer. */
static void locks_end_by_boottime(void **state) {
    struct stage stage;
    (void)state;
    open_native(&stage, true);
    stage_begin_held_by_a(&stage);
    node_clock_rate(stage.world, 0, 0);
    node_clock_step(stage.world, 1, -5000 * RL_MS);
    node_clock_rate(stage.world, 2, 1010000);
    rl_ns until = stage_need(&stage, HISTORY_KEY_SET, ANYBODY, 0, 0)->until;
    stage_run(&stage, 20000);
    for (int node = 0; node < 2; node++)
        assert_int_equal(stage_need(&stage, HISTORY_KEY_EXPIRED, ANYBODY, node, 0)->at, until);
    /* but it drifts */
    assert_in_range(stage_need(&stage, HISTORY_KEY_EXPIRED, ANYBODY, 2, 0)->at, until - 101 * RL_MS,
                    until - 97 * RL_MS);
    stage_close(&stage);
}

/* It runs on while the process is stopped: no lock is longer for that. */
static void locks_end_while_the_node_is_stopped(void **state) {
    struct stage stage;
    (void)state;
    open_native(&stage, true);
    stage_begin_held_by_a(&stage);
    node_pause(stage.world, 0);
    stage_run(&stage, 11000);
    assert_int_equal(stage_count(&stage, HISTORY_KEY_EXPIRED, ANYBODY, 0), 0);
    node_resume(stage.world, 0);
    stage_run(&stage, 11001);
    assert_int_equal(stage_need(&stage, HISTORY_KEY_EXPIRED, ANYBODY, 0, 0)->at, 11000 * RL_MS);
    stage_close(&stage);
}

static void restart_loses_all(void **state) {
    static const enum node_keeps keeps[] = {NODE_KEEPS_NOTHING, NODE_KEEPS_ALL,
                                            NODE_LOSES_LAST_SECOND};
    struct stage stage;
    (void)state;
    open_native(&stage, true);
    stage_begin_held_by_a(&stage);
    stage_run(&stage, 2000);
    for (int node = 0; node < 3; node++) {
        node_crash(stage.world, (unsigned)node);
        node_restart(stage.world, (unsigned)node, keeps[node]);
        assert_int_equal(stage_need(&stage, HISTORY_KEY_LOST, ANYBODY, node, 0)->at, 2000 * RL_MS);
        assert_false(node_is_intact(stage.world, (unsigned)node));
        assert_true(node_is_native(stage.world, (unsigned)node));
    }
    stage_run(&stage, 3000);
    actor_act(stage.world, B, ACTION_ACQUIRE, 0, 0);
    stage_run(&stage, 4000);
    assert_int_equal(stage_count(&stage, HISTORY_ACQUIRED, B, ANYBODY), 0);
    stage_close(&stage);
}

static void replica_that_takes_over_has_nothing(void **state) {
    struct stage stage;
    (void)state;
    open_native(&stage, true);
    stage_begin_held_by_a(&stage);
    node_failover(stage.world, 0, RL_MS);
    node_split(stage.world, 1, RL_MS);
    for (int node = 0; node < 2; node++) {
        assert_int_equal(stage_count(&stage, HISTORY_KEY_LOST, ANYBODY, node), 1);
        assert_false(node_is_intact(stage.world, (unsigned)node));
    }
    /* The old master, to which A is connected, still has the lock. */
    actor_act(stage.world, A, ACTION_EXTEND, 0, 0);
    stage_run(&stage, 200);
    assert_int_equal(stage_message(&stage, HISTORY_ANSWERED, NET_EXTEND, A, 1, 0)->result,
                     REDLOCK_VERDICT_GRANTED);
    stage_close(&stage);
}

/* A vote does not come in two pieces. */
static void acquisition_is_one_command(void **state) {
    struct stage stage;
    (void)state;
    open_native(&stage, true);
    stage.options.native = rl_bit(0);
    stage.options.split_ppm = 1000000;
    stage.options.link.delay_min = RL_MS / 2;
    stage_begin_held_by_a(&stage);
    rl_ns set = stage_need(&stage, HISTORY_KEY_SET, ANYBODY, 0, 0)->at;
    assert_int_equal(stage_message(&stage, HISTORY_ARRIVED, NET_ACQUIRE, A, 0, 0)->at, set);
    set = stage_need(&stage, HISTORY_KEY_SET, ANYBODY, 1, 0)->at;
    assert_true(stage_message(&stage, HISTORY_ARRIVED, NET_ACQUIRE, A, 1, 0)->at > set);
    stage_close(&stage);
}

/* ---- other projects ---- */

static void strangers_and_we_refuse_each_other(void **state) {
    struct stage stage;
    (void)state;
    open_native(&stage, false);
    stage.options.client[B].stranger = true;
    stage_begin_held_by_a(&stage);
    actor_act(stage.world, B, ACTION_ACQUIRE, 0, 0);
    stage_run(&stage, 200);
    assert_int_equal(stage_need(&stage, HISTORY_NOT_ACQUIRED, B, ANYBODY, 0)->result, REDLOCK_HELD);
    actor_act(stage.world, A, ACTION_RELEASE, 0, 0);
    stage_run(&stage, 300);
    actor_act(stage.world, B, ACTION_ACQUIRE, 0, 0);
    stage_run(&stage, 400);
    stage_need(&stage, HISTORY_ACQUIRED, B, ANYBODY, 0);
    actor_act(stage.world, A, ACTION_ACQUIRE, 0, 0);
    stage_run(&stage, 500);
    assert_int_equal(stage_need(&stage, HISTORY_NOT_ACQUIRED, A, ANYBODY, 0)->result, REDLOCK_HELD);
    actor_act(stage.world, B, ACTION_RELEASE, 0, 0);
    stage_run(&stage, 600);
    actor_act(stage.world, A, ACTION_ACQUIRE, 0, 0);
    stage_run(&stage, 700);
    stage_need(&stage, HISTORY_ACQUIRED, A, ANYBODY, 1);
    stage_close(&stage);
}

/* Where a stranger's DEL has removed the copy, other projects do not see the lock. The next
 * extension makes the copy again. */
static void copy_is_made_again(void **state) {
    struct stage stage;
    (void)state;
    open_native(&stage, false);
    stage.options.client[B].stranger = true;
    stage_begin_held_by_a(&stage);
    for (unsigned node = 0; node < 3; node++) node_foreign(stage.world, node, 0, NULL, 0);
    actor_act(stage.world, A, ACTION_EXTEND, 0, 0);
    stage_run(&stage, 200);
    actor_act(stage.world, B, ACTION_ACQUIRE, 0, 0);
    stage_run(&stage, 300);
    assert_int_equal(stage_need(&stage, HISTORY_NOT_ACQUIRED, B, ANYBODY, 0)->result, REDLOCK_HELD);
    for (unsigned node = 0; node < 3; node++) node_flush(stage.world, node);
    actor_act(stage.world, B, ACTION_ACQUIRE, 0, 0);
    stage_run(&stage, 400);
    stage_need(&stage, HISTORY_ACQUIRED, B, ANYBODY, 0); /* documented */
    /* An extension leaves the stranger's key alone, and so does the end of the lock. */
    actor_act(stage.world, A, ACTION_EXTEND, 0, 0);
    stage_run(&stage, 500);
    actor_act(stage.world, A, ACTION_RELEASE, 0, 0);
    stage_run(&stage, 600);
    actor_act(stage.world, A, ACTION_ACQUIRE, 0, 0);
    stage_run(&stage, 700);
    assert_int_equal(stage_need(&stage, HISTORY_NOT_ACQUIRED, A, ANYBODY, 0)->result, REDLOCK_HELD);
    stage_close(&stage);
}

/* ---- upgrades ---- */

/* One node after the other, with its data. The lock of before is a key without a lock then: it
 * refuses others, its holder extends and releases it. */
static void locks_of_before_the_upgrade(void **state) {
    struct stage stage;
    (void)state;
    open_native(&stage, false);
    stage.options.native = 0;
    stage_begin(&stage);
    actor_act(stage.world, A, ACTION_ACQUIRE, 0, 0);
    stage_run(&stage, 100);
    for (unsigned node = 0; node < 3; node++) {
        node_crash(stage.world, node);
        node_restart_as(stage.world, node, NODE_KEEPS_ALL, true);
        assert_int_equal(stage_need(&stage, HISTORY_NODE_NATIVE, ANYBODY, (int)node, 0)->value, 1);
    }
    stage_run(&stage, 3000);
    actor_act(stage.world, B, ACTION_ACQUIRE, 0, 0);
    stage_run(&stage, 3100);
    assert_int_equal(stage_need(&stage, HISTORY_NOT_ACQUIRED, B, ANYBODY, 0)->result, REDLOCK_HELD);
    actor_act(stage.world, A, ACTION_EXTEND, 0, 0);
    stage_run(&stage, 3200);
    assert_int_equal(stage_need(&stage, HISTORY_EXTENDED, A, ANYBODY, 0)->result, REDLOCK_OK);
    node_foreign(stage.world, 0, 0, NULL, 0); /* it is a lock now, and no longer that key */
    actor_act(stage.world, A, ACTION_EXTEND, 0, 0);
    stage_run(&stage, 3300);
    assert_int_equal(stage_message(&stage, HISTORY_ANSWERED, NET_EXTEND, A, 0, 1)->result,
                     REDLOCK_VERDICT_GRANTED);
    actor_act(stage.world, A, ACTION_RELEASE, 0, 0);
    stage_run(&stage, 3400);
    actor_act(stage.world, B, ACTION_ACQUIRE, 0, 0);
    stage_run(&stage, 3500);
    stage_need(&stage, HISTORY_ACQUIRED, B, ANYBODY, 0);
    stage_close(&stage);
}

/* Guarded: the record and the fences of before are not the native node's. And back again. */
static void upgraded_node_recovers(void **state) {
    struct stage stage;
    (void)state;
    open_native(&stage, true);
    stage.options.native = 0;
    stage.options.client[A].client.recover = 1;
    stage_begin(&stage);
    stage_run(&stage, 100);
    for (int kind = 1; kind >= 0; kind--) {
        node_crash(stage.world, 0);
        node_restart_as(stage.world, 0, NODE_KEEPS_ALL, kind);
        assert_false(node_is_intact(stage.world, 0));
        assert_int_equal(node_is_native(stage.world, 0), kind);
        stage_run(&stage, kind ? 30000 : 60000);
        assert_true(node_is_intact(stage.world, 0));
    }
    stage_close(&stage);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_reaches_locks_record_and_fences),
        cmocka_unit_test(locks_end_by_boottime),
        cmocka_unit_test(locks_end_while_the_node_is_stopped),
        cmocka_unit_test(restart_loses_all),
        cmocka_unit_test(replica_that_takes_over_has_nothing),
        cmocka_unit_test(acquisition_is_one_command),
        cmocka_unit_test(strangers_and_we_refuse_each_other),
        cmocka_unit_test(copy_is_made_again),
        cmocka_unit_test(locks_of_before_the_upgrade),
        cmocka_unit_test(upgraded_node_recovers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
