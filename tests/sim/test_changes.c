/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What changes at nodes while guarded clients are connected, and what the nodes announce of it.
 */
#include "stage.h"

#include "net/net.h"

/* Two guarded clients that only look: what is written, the test does. */
static void begin_held_by_a(struct stage *stage) {
    stage_begin_held_by_a(stage);
    for (unsigned node = 0; node < 3; node++) assert_true(node_is_intact(stage->world, node));
}

/* Behind the answers that were sent before, ahead of those that are sent later. */
static void expect_announced(const struct stage *stage, int64_t at_ms, int node, int64_t all) {
    for (int client = A; client <= B; client++) {
        const struct history_record *news = stage_need(stage, HISTORY_ANNOUNCED, client, node, 0);
        assert_in_range(news->at, at_ms * RL_MS, (at_ms + 2) * RL_MS);
        assert_int_equal(news->value, all);
    }
}

static void flush_is_announced_at_once(void **state) {
    struct stage stage;
    (void)state;
    stage_open_guarded(&stage);
    begin_held_by_a(&stage);
    node_flush(stage.world, 1);
    stage_run(&stage, 200);
    expect_announced(&stage, 101, 1, 1);
    assert_int_equal(stage_count(&stage, HISTORY_ANNOUNCED, ANYBODY, ANYBODY), 2);
    assert_false(node_is_intact(stage.world, 1));
    stage_close(&stage);
}

static void unannounced_is_not(void **state) {
    struct stage stage;
    (void)state;
    stage_open_guarded(&stage);
    stage.options.unannounced = rl_bit(1);
    begin_held_by_a(&stage);
    node_flush(stage.world, 1);
    node_flush(stage.world, 2);
    stage_run(&stage, 200);
    assert_int_equal(stage_count(&stage, HISTORY_ANNOUNCED, ANYBODY, 1), 0);
    assert_int_equal(stage_count(&stage, HISTORY_ANNOUNCED, ANYBODY, 2), 2);
    stage_close(&stage);
}

static void round_trip_goes_back(void **state) {
    struct stage stage;
    (void)state;
    stage_open_guarded(&stage);
    begin_held_by_a(&stage);
    node_demote(stage.world, 0, 95 * RL_MS, 20 * RL_MS);
    stage_run(&stage, 115);
    assert_int_equal(stage_count(&stage, HISTORY_KEY_LOST, ANYBODY, 0), 0); /* not yet */
    stage_run(&stage, 150);
    assert_int_equal(stage_need(&stage, HISTORY_KEY_LOST, ANYBODY, 0, 0)->at, 120 * RL_MS);
    expect_announced(&stage, 121, 0, 1);
    node_promote(stage.world, 0);
    assert_false(node_is_intact(stage.world, 0)); /* the record says that it is */
    assert_int_equal(stage_count(&stage, HISTORY_NODE_ELIGIBILITY, ANYBODY, 0), 1);
    assert_int_equal(stage_count(&stage, HISTORY_DISCONNECTED, ANYBODY, 0), 0);
    stage_close(&stage);
}

static void promoted_before_the_resync_loses_nothing(void **state) {
    struct stage stage;
    (void)state;
    stage_open_guarded(&stage);
    begin_held_by_a(&stage);
    node_demote(stage.world, 0, 95 * RL_MS, 50 * RL_MS);
    stage_run(&stage, 120);
    node_promote(stage.world, 0);
    stage_run(&stage, 300);
    assert_int_equal(stage_count(&stage, HISTORY_KEY_LOST, ANYBODY, 0), 0);
    assert_int_equal(stage_count(&stage, HISTORY_ANNOUNCED, ANYBODY, 0), 0);
    assert_int_equal(stage_count(&stage, HISTORY_NODE_ELIGIBILITY, ANYBODY, 0), 0);
    stage_close(&stage);
}

static void replica_takes_no_writes(void **state) {
    struct stage stage;
    (void)state;
    stage_open_guarded(&stage);
    stage_begin(&stage);
    node_follow(stage.world, 0);
    actor_act(stage.world, A, ACTION_ACQUIRE, 0, 0);
    stage_run(&stage, 100);
    assert_int_equal(stage_count(&stage, HISTORY_KEY_SET, ANYBODY, 0), 0);
    assert_int_equal(stage_count(&stage, HISTORY_KEY_SET, ANYBODY, ANYBODY), 2);
    node_flush(stage.world, 0);
    node_evict(stage.world, 0, 0);
    assert_int_equal(stage_count(&stage, HISTORY_NODE_FLUSH, ANYBODY, 0), 0);
    assert_int_equal(stage_count(&stage, HISTORY_NODE_EVICT, ANYBODY, 0), 0);
    stage_close(&stage);
}

static void eviction_counts_only_where_a_key_was(void **state) {
    struct stage stage;
    (void)state;
    stage_open_guarded(&stage);
    stage.options.resources = 2;
    begin_held_by_a(&stage);
    node_evict(stage.world, 0, 1);
    assert_true(node_is_intact(stage.world, 0));
    node_evict(stage.world, 0, 0);
    assert_false(node_is_intact(stage.world, 0));
    stage_close(&stage);
}

/* B brings stock node 2 back; what its script writes is announced to A, and to B. */
static void record_is_announced_to_all(void **state) {
    struct stage stage;
    (void)state;
    stage_open_guarded(&stage);
    stage.options.client[B].client.recover = 1;
    begin_held_by_a(&stage);
    node_delete_record(stage.world, 1);
    stage_run(&stage, 130);
    const struct history_record *written =
        stage_message(&stage, HISTORY_ARRIVED, NET_RECORD_WRITE, B, 1, 0);
    assert_non_null(written);
    assert_int_equal(stage_need(&stage, HISTORY_ANNOUNCED, A, 1, 1)->value, 0);
    assert_true(stage_need(&stage, HISTORY_ANNOUNCED, A, 1, 1)->at > written->at);
    assert_true(stage_need(&stage, HISTORY_ANNOUNCED, B, 1, 1)->at > written->at);
    stage_close(&stage);
}

static void policy_is_back_after_a_restart(void **state) {
    struct stage stage;
    (void)state;
    stage_open_guarded(&stage);
    stage_begin(&stage);
    node_policy(stage.world, 0, true);
    assert_true(node_may_lose(stage.world, 0));
    node_crash(stage.world, 0);
    node_restart(stage.world, 0, NODE_KEEPS_ALL);
    assert_false(node_may_lose(stage.world, 0));
    stage_close(&stage);
}

static void quorums_have_their_own_records(void **state) {
    struct stage stage;
    (void)state;
    stage_open_guarded(&stage);
    stage.options.nodes = 6;
    stage.options.others = rl_bit(3) | rl_bit(4) | rl_bit(5);
    stage.options.client[A].nodes = rl_bit(0) | rl_bit(1) | rl_bit(2);
    stage.options.client[B].client.quorum = world_quorum_name(true);
    stage.options.client[B].refused = true;
    stage_begin(&stage);
    actor_act(stage.world, A, ACTION_ACQUIRE, 0, 0);
    stage_run(&stage, 100);
    actor_act(stage.world, B, ACTION_ACQUIRE, 0, 0);
    stage_run(&stage, 200);
    for (int node = 0; node < 3; node++)
        assert_int_equal(stage_need(&stage, HISTORY_VOTE, A, node, 0)->result, 1);
    for (int node = 3; node < 6; node++)
        assert_int_equal(stage_need(&stage, HISTORY_VOTE, B, node, 0)->result, 1);
    assert_int_equal(stage.history.others, 0x38);
    assert_int_equal(stage.history.refused, 1u << B);
    stage_close(&stage);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(flush_is_announced_at_once),
        cmocka_unit_test(unannounced_is_not),
        cmocka_unit_test(round_trip_goes_back),
        cmocka_unit_test(promoted_before_the_resync_loses_nothing),
        cmocka_unit_test(replica_takes_no_writes),
        cmocka_unit_test(eviction_counts_only_where_a_key_was),
        cmocka_unit_test(record_is_announced_to_all),
        cmocka_unit_test(policy_is_back_after_a_restart),
        cmocka_unit_test(quorums_have_their_own_records),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
