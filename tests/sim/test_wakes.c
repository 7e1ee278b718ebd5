/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What nodes of the world tell to those who wait: to whom, how often, and what becomes of it when
 * something is wrong.
 */
#include "stage.h"

#include <string.h>

#include "net/net.h"

/* A has the lock from 10 ms on, B waits for it from 100 ms on. */
static void one_waits(struct stage *stage) {
    stage->options.wakes.on = true;
    stage->options.client[B].lock.retry_delay_ms_min = 400;
    stage->options.client[B].lock.retry_delay_ms_max = 500;
    stage_begin(stage);
    actor_act(stage->world, A, ACTION_ACQUIRE, 0, 0);
    stage_run(stage, 100);
    actor_act(stage->world, B, ACTION_ACQUIRE, 0, 5000);
    stage_run(stage, 150);
    assert_int_equal(stage_count(stage, HISTORY_WOKEN, ANYBODY, ANYBODY), 0);
    assert_non_null(stage_message(stage, HISTORY_ANSWERED, NET_WATCH, B, 2, 0));
}

static unsigned acquired_after(const struct stage *stage, rl_ns since) {
    return (unsigned)((stage_need(stage, HISTORY_ACQUIRED, B, ANYBODY, 0)->at - since) / RL_MS);
}

static void a_release_is_reported_once(void **state) {
    struct stage stage;
    (void)state;
    stage_open(&stage);
    one_waits(&stage);
    actor_act(stage.world, A, ACTION_RELEASE, 0, 0);
    stage_run(&stage, 200);
    for (int node = 0; node < 3; node++) {
        const struct history_record *woken = stage_need(&stage, HISTORY_WOKEN, B, node, 0);
        assert_int_equal(woken->until, 151 * RL_MS); /* when it was told */
        assert_int_equal(woken->at, 152 * RL_MS);
        assert_int_equal(woken->resource, 0);
        assert_int_equal(woken->value, -1);
    }
    assert_int_equal(acquired_after(&stage, 150 * RL_MS),
                     4); /* the release, the telling, the try */
    assert_int_equal(stage_count(&stage, HISTORY_WOKEN, A, ANYBODY), 0);
    assert_int_equal(stage_count(&stage, HISTORY_WOKEN, B, ANYBODY),
                     3); /* not of what it did itself */
    actor_act(stage.world, B, ACTION_RELEASE, 0, 0);
    stage_run(&stage, 300);
    assert_int_equal(stage_count(&stage, HISTORY_WOKEN, ANYBODY, ANYBODY),
                     3); /* and nobody looked since */
    stage_close(&stage);
}

static void a_world_that_reports_nothing_is_waited_for_by_polling(void **state) {
    struct stage stage;
    (void)state;
    stage_open(&stage);
    stage_begin(&stage);
    actor_act(stage.world, A, ACTION_ACQUIRE, 0, 0);
    actor_act(stage.world, B, ACTION_ACQUIRE, 0, 5000);
    stage_run(&stage, 150);
    actor_act(stage.world, A, ACTION_RELEASE, 0, 0);
    stage_run(&stage, 1000);
    assert_int_equal(stage_count(&stage, HISTORY_WOKEN, ANYBODY, ANYBODY), 0);
    assert_null(stage_message(&stage, HISTORY_SENT, NET_WAIT_QUEUE_ENTER, B, ANYBODY, 0));
    stage_need(&stage, HISTORY_ACQUIRED, B, ANYBODY, 0);
    stage_close(&stage);
}

static void what_is_lost_is_made_up_for_by_the_poll(void **state) {
    struct stage stage;
    (void)state;
    stage_open(&stage);
    stage.options.wakes.lost_ppm = 1000000;
    one_waits(&stage);
    actor_act(stage.world, A, ACTION_RELEASE, 0, 0);
    stage_run(&stage, 1000);
    assert_int_equal(stage_count(&stage, HISTORY_WAKE_LOST, B, ANYBODY), 3);
    assert_int_equal(stage_count(&stage, HISTORY_WOKEN, B, ANYBODY), 0);
    assert_in_range(acquired_after(&stage, 150 * RL_MS), 5, 510);
    stage_close(&stage);
}

static void what_comes_twice_comes_twice(void **state) {
    struct stage stage;
    (void)state;
    stage_open(&stage);
    stage.options.wakes.twice_ppm = 1000000;
    one_waits(&stage);
    actor_act(stage.world, A, ACTION_RELEASE, 0, 0);
    stage_run(&stage, 200);
    assert_int_equal(stage_count(&stage, HISTORY_WOKEN, B, ANYBODY), 6);
    assert_int_equal(acquired_after(&stage, 150 * RL_MS), 4);
    stage_close(&stage);
}

static void what_is_false_is_looked_into(void **state) {
    struct stage stage;
    (void)state;
    stage_open(&stage);
    one_waits(&stage);
    for (unsigned node = 0; node < 3; node++) hint_false(stage.world, B, node, 0, -1);
    stage_run(&stage, 400);
    assert_int_equal(stage_count(&stage, HISTORY_WOKEN, B, ANYBODY), 3);
    assert_int_equal(stage_count(&stage, HISTORY_ACQUIRED, B, ANYBODY), 0);
    actor_act(stage.world, A, ACTION_RELEASE, 0, 0);
    stage_run(&stage, 1000);
    stage_need(&stage, HISTORY_ACQUIRED, B, ANYBODY, 0);
    stage_close(&stage);
}

/* Who has left hears it all the same; and the next who waits is not disturbed by it. */
static void what_is_late_comes_to_one_who_has_left(void **state) {
    struct stage stage;
    (void)state;
    stage_open(&stage);
    stage.options.wakes.late_ppm = 1000000;
    stage.options.wakes.late_max = 900 * RL_MS;
    one_waits(&stage);
    actor_act(stage.world, A, ACTION_RELEASE, 0, 0);
    actor_act(stage.world, B, ACTION_CANCEL, 0, 0);
    stage_run(&stage, 1100);
    assert_int_equal(stage_need(&stage, HISTORY_NOT_ACQUIRED, B, ANYBODY, 0)->result,
                     REDLOCK_CANCELLED);
    assert_int_equal(stage_count(&stage, HISTORY_WOKEN, B, ANYBODY), 3);
    assert_true(stage_need(&stage, HISTORY_WOKEN, B, ANYBODY, 2)->at >
                stage_need(&stage, HISTORY_NOT_ACQUIRED, B, ANYBODY, 0)->at);
    assert_int_equal(stage_count(&stage, HISTORY_ACQUIRED, B, ANYBODY), 0);
    stage_close(&stage);
}

/* What the old process had told is on its way; the new one knows nothing of who waits until it is
 * asked again. */
static void a_node_that_restarted_is_asked_anew(void **state) {
    struct stage stage;
    (void)state;
    stage_open(&stage);
    stage.options.wakes.late_ppm = 1000000;
    stage.options.wakes.late_max = 300 * RL_MS;
    one_waits(&stage);
    hint_false(stage.world, B, 0, 0, -1);
    node_crash(stage.world, 0);
    stage_run(&stage, 160);
    node_restart(stage.world, 0, NODE_KEEPS_ALL);
    stage_run(&stage, 900); /* connected, and looked at once more */
    assert_int_equal(stage_count(&stage, HISTORY_WOKEN, B, 0), 1);
    actor_act(stage.world, A, ACTION_RELEASE, 0, 0);
    stage_run(&stage, 1300);
    assert_int_equal(stage_count(&stage, HISTORY_WOKEN, B, 0), 2);
    stage_close(&stage);
}

static void a_flush_is_reported_to_all(void **state) {
    struct stage stage;
    (void)state;
    stage_open(&stage);
    one_waits(&stage);
    node_flush(stage.world, 1);
    stage_run(&stage, 200);
    const struct history_record *woken = stage_need(&stage, HISTORY_WOKEN, B, 1, 0);
    assert_int_equal(woken->resource, -1);
    assert_int_equal(stage_count(&stage, HISTORY_WOKEN, B, ANYBODY), 1);
    stage_close(&stage);
}

/* Servers say late that a key has ended; who waits has read when it will. */
static void an_expiry_is_reported_late_and_known_in_time(void **state) {
    struct stage stage;
    (void)state;
    stage_open(&stage);
    stage.options.client[A].lock.ttl_ms = stage.options.client[B].lock.ttl_ms = 1000;
    one_waits(&stage);
    stage_run(&stage, 1200);
    const struct history_record *ended = stage_need(&stage, HISTORY_KEY_EXPIRED, ANYBODY, 0, 0);
    assert_in_range(acquired_after(&stage, ended->at), 0, 20);
    for (unsigned i = 0; i < stage_count(&stage, HISTORY_WOKEN, B, ANYBODY); i++) {
        const struct history_record *woken = stage_need(&stage, HISTORY_WOKEN, B, ANYBODY, i);
        assert_in_range(woken->at - ended->at, 0, 104 * RL_MS);
    }
    stage_close(&stage);
}

/* The second is told that it is the first now, by the one node that keeps the line. */
static void the_next_in_line_is_called(void **state) {
    struct stage stage;
    (void)state;
    stage_open(&stage);
    stage.options.clients = 3;
    one_waits(&stage);
    actor_act(stage.world, C, ACTION_ACQUIRE, 0, 5000);
    stage_run(&stage, 200);
    actor_act(stage.world, B, ACTION_CANCEL, 0, 0);
    stage_run(&stage, 210);
    assert_int_equal(stage_count(&stage, HISTORY_WOKEN, C, ANYBODY), 1);
    assert_int_equal(stage_need(&stage, HISTORY_WOKEN, C, ANYBODY, 0)->value, 0);
    stage_close(&stage);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_release_is_reported_once),
        cmocka_unit_test(a_world_that_reports_nothing_is_waited_for_by_polling),
        cmocka_unit_test(what_is_lost_is_made_up_for_by_the_poll),
        cmocka_unit_test(what_comes_twice_comes_twice),
        cmocka_unit_test(what_is_false_is_looked_into),
        cmocka_unit_test(what_is_late_comes_to_one_who_has_left),
        cmocka_unit_test(a_node_that_restarted_is_asked_anew),
        cmocka_unit_test(a_flush_is_reported_to_all),
        cmocka_unit_test(an_expiry_is_reported_late_and_known_in_time),
        cmocka_unit_test(the_next_in_line_is_called),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
