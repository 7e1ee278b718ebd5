/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What befalls nodes and clients.
 */
#include "stage.h"

#include "net/net.h"

static void open_held_by_a(struct stage *stage) {
    stage_open(stage);
    stage_begin(stage);
    actor_act(stage->world, A, ACTION_ACQUIRE, 0, 0);
    stage_run(stage, 20);
    assert_non_null(stage_find(stage, HISTORY_ACQUIRED, A, ANYBODY, 0));
}

/* ---- nodes ---- */

static void restart_empty_loses_the_key(void **state) {
    struct stage stage;
    (void)state;
    open_held_by_a(&stage);
    node_crash(stage.world, 0);
    stage_run(&stage, 100);
    assert_int_equal(stage_need(&stage, HISTORY_DISCONNECTED, A, 0, 0)->at, 21 * RL_MS);
    node_restart(stage.world, 0, NODE_KEEPS_NOTHING);
    assert_int_equal(stage_need(&stage, HISTORY_KEY_LOST, ANYBODY, 0, 0)->at, 100 * RL_MS);
    stage_run(&stage, 2000);
    assert_int_equal(stage_count(&stage, HISTORY_CONNECTED, A, 0), 2);
    stage_close(&stage);
}

static void restart_whole_keeps_the_key_and_its_end(void **state) {
    struct stage stage;
    (void)state;
    open_held_by_a(&stage);
    rl_ns end = stage_need(&stage, HISTORY_KEY_SET, ANYBODY, 0, 0)->until;
    node_crash(stage.world, 0);
    stage_run(&stage, 100);
    node_restart(stage.world, 0, NODE_KEEPS_ALL);
    stage_run(&stage, 12000);
    assert_int_equal(stage_count(&stage, HISTORY_KEY_LOST, ANYBODY, 0), 0);
    assert_int_equal(stage_need(&stage, HISTORY_KEY_EXPIRED, ANYBODY, 0, 0)->at, end);
    stage_close(&stage);
}

/* Set a second and more ago: kept. Deleted within the last second: back. Set within it: gone. */
static void last_second_is_lost(void **state) {
    struct stage stage;
    (void)state;
    open_held_by_a(&stage);
    stage_run(&stage, 1500);
    actor_act(stage.world, A, ACTION_RELEASE, 0, 0);
    stage_run(&stage, 1600);
    actor_act(stage.world, B, ACTION_ACQUIRE, 0, 0);
    stage_run(&stage, 1700);
    uint32_t of_a = stage_need(&stage, HISTORY_ACQUIRED, A, ANYBODY, 0)->token;
    uint32_t of_b = stage_need(&stage, HISTORY_ACQUIRED, B, ANYBODY, 0)->token;
    node_crash(stage.world, 0);
    node_restart(stage.world, 0, NODE_LOSES_LAST_SECOND);
    assert_int_equal(stage_need(&stage, HISTORY_KEY_LOST, ANYBODY, 0, 0)->token, of_b);
    const struct history_record *back = stage_need(&stage, HISTORY_KEY_SET, ANYBODY, 0, 2);
    assert_int_equal(back->token, of_a);
    assert_int_equal(back->until, stage_need(&stage, HISTORY_KEY_SET, ANYBODY, 0, 0)->until);
    stage_close(&stage);
}

static void failover_goes_back_by_its_lag(void **state) {
    struct stage stage;
    (void)state;
    open_held_by_a(&stage);
    stage_run(&stage, 60);
    node_failover(stage.world, 0, 30 * RL_MS); /* what was before is there */
    assert_int_equal(stage_count(&stage, HISTORY_KEY_LOST, ANYBODY, 0), 0);
    node_failover(stage.world, 1, 55 * RL_MS);
    assert_int_equal(stage_count(&stage, HISTORY_KEY_LOST, ANYBODY, 1), 1);
    stage_run(&stage, 2000);
    assert_int_equal(stage_count(&stage, HISTORY_CONNECTED, A, 0), 2);
    stage_close(&stage);
}

static void clock_step_ends_keys(void **state) {
    struct stage stage;
    (void)state;
    open_held_by_a(&stage);
    node_clock_step(stage.world, 0, 10001 * RL_MS);
    assert_int_equal(stage_need(&stage, HISTORY_KEY_EXPIRED, ANYBODY, 0, 0)->at, 20 * RL_MS);
    node_clock_step(stage.world, 1, -5000 * RL_MS);
    node_clock_rate(stage.world, 2, 0);
    stage_run(&stage, 14000);
    assert_int_equal(stage_count(&stage, HISTORY_KEY_EXPIRED, ANYBODY, ANYBODY), 1);
    stage_run(&stage, 15100);
    assert_int_equal(stage_count(&stage, HISTORY_KEY_EXPIRED, ANYBODY, 1), 1);
    stage_run(&stage, 100000);
    assert_int_equal(stage_count(&stage, HISTORY_KEY_EXPIRED, ANYBODY, 2), 0); /* it stands still */
    stage_close(&stage);
}

static void fast_node_ends_keys_early(void **state) {
    struct stage stage;
    (void)state;
    stage_open(&stage);
    stage_begin(&stage);
    node_clock_rate(stage.world, 0, 2000000);
    actor_act(stage.world, A, ACTION_ACQUIRE, 0, 0);
    stage_run(&stage, 20000);
    rl_ns fast = stage_need(&stage, HISTORY_KEY_EXPIRED, ANYBODY, 0, 0)->at;
    rl_ns true_one = stage_need(&stage, HISTORY_KEY_EXPIRED, ANYBODY, 1, 0)->at;
    assert_true(fast > 5010 * RL_MS && fast < 5013 * RL_MS);
    assert_true(true_one > 10010 * RL_MS && true_one < 10013 * RL_MS);
    assert_int_equal(stage_need(&stage, HISTORY_KEY_SET, ANYBODY, 0, 0)->until, fast);
    stage_close(&stage);
}

/* Requests lie in the stopped node's socket: executed when it goes on, although their sender has
 * long given up. */
static void stopped_node_executes_later(void **state) {
    struct stage stage;
    (void)state;
    stage_open(&stage);
    stage.options.clients = 1;
    stage.options.client[A].client.stall_timeout_ms = 500;
    stage_begin(&stage);
    node_pause(stage.world, 0);
    actor_act(stage.world, A, ACTION_ACQUIRE, 0, 0);
    stage_run(&stage, 2000);
    assert_int_equal(stage_count(&stage, HISTORY_DISCONNECTED, A, 0), 1);
    assert_int_equal(stage_count(&stage, HISTORY_ARRIVED, A, 0), 0);
    actor_crash(stage.world, A);
    node_resume(stage.world, 0);
    assert_int_equal(stage_need(&stage, HISTORY_ARRIVED, A, 0, 0)->op, NET_ACQUIRE);
    assert_int_equal(stage_need(&stage, HISTORY_KEY_SET, ANYBODY, 0, 0)->at, 2000 * RL_MS);
    stage_run(&stage, 2100);
    assert_int_equal(stage_count(&stage, HISTORY_ANSWERED, A, 0), 0);
    stage_close(&stage);
}

static int verdict_of_set(struct stage *stage, int mode) {
    stage_open(stage);
    stage_begin(stage);
    node_mode(stage->world, 0, mode);
    actor_act(stage->world, A, ACTION_ACQUIRE, 0, 0);
    stage_run(stage, 30);
    return stage_need(stage, HISTORY_ANSWERED, A, 0, 0)->result;
}

static void modes_refuse_writes(void **state) {
    static const int modes[] = {REDLOCK_VERDICT_READONLY, REDLOCK_VERDICT_OOM,
                                REDLOCK_VERDICT_MISCONF, REDLOCK_VERDICT_LOADING};
    (void)state;
    for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
        struct stage stage;
        assert_int_equal(verdict_of_set(&stage, modes[i]), modes[i]);
        assert_int_equal(stage_count(&stage, HISTORY_KEY_SET, ANYBODY, 0), 0);
        assert_non_null(
            stage_find(&stage, HISTORY_ACQUIRED, A, ANYBODY, 0)); /* by the two others */
        stage_close(&stage);
    }
}

/* READONLY refuses a release where there is something to delete, OOM does not; LOADING lets nobody
 * in. */
static void modes_differ(void **state) {
    struct stage stage;
    (void)state;
    open_held_by_a(&stage);
    node_mode(stage.world, 0, REDLOCK_VERDICT_READONLY);
    node_mode(stage.world, 1, REDLOCK_VERDICT_OOM);
    actor_act(stage.world, A, ACTION_RELEASE, 0, 0);
    stage_run(&stage, 30);
    assert_int_equal(stage_message(&stage, HISTORY_ARRIVED, NET_RELEASE, A, 0, 0)->result,
                     REDLOCK_VERDICT_READONLY);
    assert_int_equal(stage_message(&stage, HISTORY_ARRIVED, NET_RELEASE, A, 1, 0)->result,
                     REDLOCK_VERDICT_GRANTED);
    node_mode(stage.world, 2, REDLOCK_VERDICT_LOADING);
    link_break(stage.world, A, 2);
    stage_run(&stage, 500);
    assert_int_equal(stage_count(&stage, HISTORY_CONNECTED, A, 2), 1);
    node_mode(stage.world, 2, REDLOCK_VERDICT_GRANTED);
    stage_run(&stage, 2000);
    assert_int_equal(stage_count(&stage, HISTORY_CONNECTED, A, 2), 2);
    stage_close(&stage);
}

static void others_touch_keys(void **state) {
    struct stage stage;
    (void)state;
    open_held_by_a(&stage);
    node_foreign(stage.world, 0, 0, NULL, 0);
    assert_int_equal(stage_need(&stage, HISTORY_KEY_DELETED, ANYBODY, 0, 0)->token, 1);
    node_foreign(stage.world, 0, 0, "stranger", 500);
    assert_int_equal(stage_need(&stage, HISTORY_KEY_SET, ANYBODY, 0, 1)->token, 2);
    node_evict(stage.world, 1, 0);
    assert_int_equal(stage_count(&stage, HISTORY_KEY_LOST, ANYBODY, 1), 1);
    node_flush(stage.world, 2);
    assert_int_equal(stage_count(&stage, HISTORY_KEY_LOST, ANYBODY, 2), 1);
    stage_close(&stage);
}

/* ---- clients ---- */

/* The answers lie in its sockets; it reads them when it goes on, and finds that they came too
 * late. */
static void paused_client_reads_later(void **state) {
    struct stage stage;
    (void)state;
    stage_open(&stage);
    stage_begin(&stage);
    actor_act(stage.world, A, ACTION_ACQUIRE, 0, 0);
    actor_pause(stage.world, A);
    stage_run(&stage, 20000);
    assert_int_equal(stage_count(&stage, HISTORY_KEY_SET, ANYBODY, ANYBODY), 3);
    assert_int_equal(stage_count(&stage, HISTORY_ANSWERED, A, ANYBODY), 0);
    actor_resume(stage.world, A);
    assert_int_equal(stage_need(&stage, HISTORY_ANSWERED, A, 0, 0)->at, 20000 * RL_MS);
    stage_run(&stage, 20100);
    assert_int_equal(stage_need(&stage, HISTORY_NOT_ACQUIRED, A, ANYBODY, 0)->result,
                     REDLOCK_EXPIRED);
    stage_close(&stage);
}

static void paused_client_does_nothing(void **state) {
    struct stage stage;
    (void)state;
    open_held_by_a(&stage);
    actor_pause(stage.world, A);
    actor_act(stage.world, A, ACTION_RELEASE, 0, 0);
    stage_run(&stage, 50);
    assert_int_equal(stage_count(&stage, HISTORY_RELEASE, A, ANYBODY), 0);
    assert_false(actor_idle(stage.world, A, 0));
    actor_resume(stage.world, A);
    assert_int_equal(stage_need(&stage, HISTORY_RELEASE, A, ANYBODY, 0)->at, 50 * RL_MS);
    stage_run(&stage, 60);
    assert_true(actor_idle(stage.world, A, 0));
    stage_close(&stage);
}

/* Stopped together with its clock: what it believes reaches further than it said. */
static void frozen_client_believes_too_long(void **state) {
    struct stage stage;
    (void)state;
    open_held_by_a(&stage);
    rl_ns until = stage_need(&stage, HISTORY_ACQUIRED, A, ANYBODY, 0)->until;
    actor_freeze(stage.world, A);
    stage_run(&stage, 15020);
    assert_true(actor_believes(stage.world, A, 0));
    actor_resume(stage.world, A);
    assert_int_equal(stage_need(&stage, HISTORY_RENEWED, A, ANYBODY, 0)->until,
                     until + 15000 * RL_MS);
    assert_true(actor_believes(stage.world, A, 0));
    stage_run(&stage, 30000);
    assert_false(actor_believes(stage.world, A, 0));
    stage_close(&stage);
}

/* Its kernel still sends what it had written; nobody releases anything. */
static void crashed_client_leaves_its_keys(void **state) {
    struct stage stage;
    (void)state;
    stage_open(&stage);
    stage_begin(&stage);
    actor_act(stage.world, A, ACTION_ACQUIRE, 0, 0);
    actor_crash(stage.world, A);
    actor_act(stage.world, A, ACTION_ACQUIRE, 0, 0);
    stage_run(&stage, 500);
    assert_false(actor_alive(stage.world, A));
    assert_int_equal(stage_count(&stage, HISTORY_KEY_SET, ANYBODY, ANYBODY), 3);
    assert_int_equal(stage_count(&stage, HISTORY_ACQUIRE, A, ANYBODY), 1);
    assert_int_equal(stage_count(&stage, HISTORY_ACQUIRED, A, ANYBODY), 0);
    stage_run(&stage, 20000);
    assert_int_equal(stage_count(&stage, HISTORY_KEY_EXPIRED, ANYBODY, ANYBODY), 3);
    assert_int_equal(stage_count(&stage, HISTORY_SENT, A, ANYBODY), 3);
    stage_close(&stage);
}

/* ---- the register ---- */

static void updates_read_think_and_write(void **state) {
    struct stage stage;
    (void)state;
    open_held_by_a(&stage);
    actor_update(stage.world, A, 0, 100 * RL_MS, 50 * RL_MS);
    actor_update(stage.world, A, 0, 1, 0); /* one at a time: left out */
    stage_run(&stage, 130);
    actor_act(stage.world, A, ACTION_RELEASE, 0, 0); /* waits for the write that is on its way */
    stage_run(&stage, 200);
    assert_int_equal(stage_need(&stage, HISTORY_READ, A, ANYBODY, 0)->at, 20 * RL_MS);
    const struct history_record *write = stage_need(&stage, HISTORY_WRITE, A, ANYBODY, 0);
    assert_int_equal(write->at, 170 * RL_MS);
    assert_int_equal(write->value, 1);
    assert_int_equal(stage_count(&stage, HISTORY_READ, A, ANYBODY), 1);
    assert_int_equal(stage_need(&stage, HISTORY_RELEASE, A, ANYBODY, 0)->at, 170 * RL_MS);
    stage_close(&stage);
}

static void careful_program_does_not_write_past_validity(void **state) {
    struct stage stage;
    (void)state;
    open_held_by_a(&stage);
    actor_update(stage.world, A, 0, 1000 * RL_MS, 0);
    actor_pause(stage.world, A);
    stage_run(&stage, 12000);
    actor_resume(stage.world, A);
    stage_run(&stage, 13000);
    assert_int_equal(stage_count(&stage, HISTORY_WRITE, A, ANYBODY), 0);
    stage_close(&stage);
}

/* ---- the end of faults ---- */

static void healing_ends_every_fault(void **state) {
    struct stage stage;
    (void)state;
    stage_open(&stage);
    stage_begin(&stage);
    node_crash(stage.world, 0);
    node_pause(stage.world, 1);
    node_mode(stage.world, 2, REDLOCK_VERDICT_READONLY);
    link_cut(stage.world, A, 2, LINK_BOTH);
    actor_pause(stage.world, B);
    stage_run(&stage, 200);
    world_heal(stage.world);
    stage_run(&stage, 3000);
    actor_act(stage.world, B, ACTION_ACQUIRE, 0, 0);
    stage_run(&stage, 3100);
    assert_int_equal(stage_count(&stage, HISTORY_KEY_SET, ANYBODY, ANYBODY), 3);
    assert_non_null(stage_find(&stage, HISTORY_ACQUIRED, B, ANYBODY, 0));
    assert_int_equal(stage_need(&stage, HISTORY_FAULTS_END, ANYBODY, ANYBODY, 0)->at, 200 * RL_MS);
    stage_close(&stage);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(restart_empty_loses_the_key),
        cmocka_unit_test(restart_whole_keeps_the_key_and_its_end),
        cmocka_unit_test(last_second_is_lost),
        cmocka_unit_test(failover_goes_back_by_its_lag),
        cmocka_unit_test(clock_step_ends_keys),
        cmocka_unit_test(fast_node_ends_keys_early),
        cmocka_unit_test(stopped_node_executes_later),
        cmocka_unit_test(modes_refuse_writes),
        cmocka_unit_test(modes_differ),
        cmocka_unit_test(others_touch_keys),
        cmocka_unit_test(paused_client_reads_later),
        cmocka_unit_test(paused_client_does_nothing),
        cmocka_unit_test(frozen_client_believes_too_long),
        cmocka_unit_test(crashed_client_leaves_its_keys),
        cmocka_unit_test(updates_read_think_and_write),
        cmocka_unit_test(careful_program_does_not_write_past_validity),
        cmocka_unit_test(healing_ends_every_fault),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
