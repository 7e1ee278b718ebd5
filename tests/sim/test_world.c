/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Time, chance, clocks and the network.
 */
#include "stage.h"

#include <stdlib.h>
#include <string.h>

#include "world/clock.h"
#include "net/net.h"
#include "world/random.h"

/* ---- time ---- */

struct order {
    int64_t numbers[8];
    rl_ns at[8];
    size_t count;
};

static void note(struct world *world, void *argument, int64_t number) {
    struct order *order = argument;
    order->numbers[order->count] = number;
    order->at[order->count++] = world_now(world);
}

static void note_and_plan(struct world *world, void *argument, int64_t number) {
    note(world, argument, number);
    world_at(world, world_now(world), note, argument, number + 1);
    world_at(world, 0, note, argument, number + 2); /* the past is now */
}

static void events_go_by_time_and_then_by_order(void **state) {
    struct stage stage;
    struct order order = {.count = 0};
    (void)state;
    stage_open(&stage);
    stage_begin(&stage);
    rl_ns now = world_now(stage.world);
    world_at(stage.world, now + 30, note, &order, 7);
    world_at(stage.world, now + 10, note_and_plan, &order, 1);
    world_at(stage.world, now + 10, note, &order, 2);
    world_at(stage.world, now + 31, note, &order, 9);
    world_run_until(stage.world, now + 30);
    const int64_t want[] = {1, 2, 2, 3, 7};
    assert_int_equal(order.count, 5);
    for (size_t i = 0; i < 5; i++) {
        assert_int_equal(order.numbers[i], want[i]);
        assert_int_equal(order.at[i], now + (i < 4 ? 10 : 30));
    }
    assert_int_equal(world_now(stage.world), now + 30);
    stage_close(&stage);
}

/* ---- clocks ---- */

static void clocks_never_show_a_time_too_early(void **state) {
    struct random random = random_named(1, 1);
    (void)state;
    for (int i = 0; i < 100000; i++) {
        struct sim_clock clock = {0};
        clock.since = random_between(&random, 0, 1000000000000);
        clock.shown = random_between(&random, 0, 1000000000000000000);
        clock.ppm = (uint32_t)random_between(&random, 1, 3000000);
        rl_ns shown = clock.shown + random_between(&random, 0, 100000000000000);
        rl_ns when = clock_when(&clock, shown);
        assert_true(clock_read(&clock, when) >= shown);
        assert_true(when == clock.since || clock_read(&clock, when - 1) < shown);
    }
}

static void clocks_step_freeze_and_run_false(void **state) {
    struct sim_clock clock = {0, 1000, CLOCK_TRUE};
    (void)state;
    assert_int_equal(clock_read(&clock, 50), 1050);
    clock_set(&clock, 100, -500, 2000000);
    assert_int_equal(clock_read(&clock, 100), 600);
    assert_int_equal(clock_read(&clock, 150), 700);
    assert_int_equal(clock_when(&clock, 701), 151);
    clock_set(&clock, 200, 0, 0);
    assert_int_equal(clock_read(&clock, 1000000), 800);
    assert_int_equal(clock_when(&clock, 800), 200);
    assert_int_equal(clock_when(&clock, 801), RL_NEVER);
    assert_int_equal(clock_when(&clock, RL_NEVER), RL_NEVER);
}

/* A fast client renews earlier in world time, and its validity ends earlier. */
static void client_clock_decides_validity(void **state) {
    struct stage stage;
    (void)state;
    stage_open(&stage);
    stage.options.clients = 1;
    stage.options.client[A].clock_ppm = 2000000;
    stage_begin(&stage);
    actor_act(stage.world, A, ACTION_ACQUIRE, 0, 0);
    stage_run(&stage, 6000);
    const struct history_record *acquired = stage_need(&stage, HISTORY_ACQUIRED, A, ANYBODY, 0);
    assert_int_equal(acquired->at, 12 * RL_MS);
    assert_int_equal(acquired->until, 10 * RL_MS + (10000 - 100 - 2) * RL_MS /
                                                       2); /* TTL - drift, at twice the speed */
    /* LOST comes one second of its own before. */
    assert_int_equal(stage_need(&stage, HISTORY_LOST, A, ANYBODY, 0)->at,
                     acquired->until - 500 * RL_MS);
    stage_close(&stage);
}

/* ---- the same again ---- */

static void play_some(struct stage *stage) {
    stage_begin(stage);
    for (int i = 0; i < 40; i++) {
        unsigned client = (unsigned)i % 3;
        if (actor_idle(stage->world, client, 0))
            actor_act(stage->world, client, ACTION_ACQUIRE, 0, 300);
        else
            actor_act(stage->world, client, ACTION_RELEASE, 0, 0);
        if (i == 10) node_crash(stage->world, 1);
        if (i == 20) node_restart(stage->world, 1, NODE_LOSES_LAST_SECOND);
        stage_run(stage, 10 + 37 * (i + 1));
    }
    world_end(stage->world);
}

static struct history_record *copy_of(const struct history *history) {
    struct history_record *copy = malloc(history->count * sizeof(*copy));
    assert_non_null(copy);
    for (size_t i = 0; i < history->count; i++) copy[i] = history->records[i];
    return copy;
}

static void same_seed_same_world(void **state) {
    struct stage stage;
    (void)state;
    stage_open(&stage);
    stage.options.clients = 3;
    stage.options.link.delay_min = RL_MS / 10;
    stage.options.link.tail_ppm = 100000;
    stage.options.link.tail_max = 60 * RL_MS;
    stage.options.link.reply_loss_ppm = stage.options.link.request_loss_ppm = 20000;
    play_some(&stage);
    size_t count = stage.history.count;
    struct history_record *first = copy_of(&stage.history);
    assert_true(count > 300);
    stage.options.seed = 2;
    play_some(&stage); /* another in between, in the same memory */
    bool differs = stage.history.count != count ||
                   memcmp(first, stage.history.records, count * sizeof(*first)) != 0;
    assert_true(differs);
    stage.options.seed = 1;
    play_some(&stage);
    assert_int_equal(stage.history.count, count);
    for (size_t i = 0; i < count; i++) {
        char was[256], is[256];
        history_print(&first[i], was, sizeof(was));
        history_print(&stage.history.records[i], is, sizeof(is));
        assert_string_equal(is, was);
    }
    free(first);
    stage_close(&stage);
}

/* Leaving messages out of the history changes nothing else in it. */
static void recording_changes_nothing(void **state) {
    struct stage stage;
    (void)state;
    stage_open(&stage);
    stage.options.clients = 3;
    stage.options.record_messages = 1;
    play_some(&stage);
    size_t count = stage.history.count;
    struct history_record *whole = copy_of(&stage.history);
    stage.options.record_messages = 0;
    play_some(&stage);
    assert_true(stage.history.count < count);
    size_t at = 0;
    for (size_t i = 0; i < stage.history.count; i++) {
        const struct history_record *record = &stage.history.records[i];
        while (at < count && (whole[at].kind != record->kind || whole[at].at != record->at ||
                              whole[at].token != record->token))
            at++;
        assert_true(at < count);
        at++;
    }
    assert_int_equal(stage_count(&stage, HISTORY_SENT, ANYBODY, ANYBODY), 0);
    free(whole);
    stage_close(&stage);
}

/* ---- the network ---- */

/* The SET waits at the cut; when the way is whole it arrives, and its release right behind it. */
static void cut_requests_arrive_late_and_in_order(void **state) {
    struct stage stage;
    (void)state;
    stage_open(&stage);
    stage.options.clients = 1;
    stage_begin(&stage);
    for (unsigned node = 0; node < 3; node++) link_cut(stage.world, A, node, LINK_REQUESTS);
    actor_act(stage.world, A, ACTION_ACQUIRE, 0, 0);
    stage_run(&stage, 500);
    assert_int_equal(stage_need(&stage, HISTORY_NOT_ACQUIRED, A, ANYBODY, 0)->result,
                     REDLOCK_NO_QUORUM);
    assert_int_equal(stage_count(&stage, HISTORY_ARRIVED, A, ANYBODY), 0);
    link_heal(stage.world, A, 0);
    stage_run(&stage, 600);
    const struct history_record *set = stage_need(&stage, HISTORY_ARRIVED, A, 0, 0);
    const struct history_record *release = stage_need(&stage, HISTORY_ARRIVED, A, 0, 1);
    assert_int_equal(set->op, NET_ACQUIRE);
    assert_int_equal(set->result, REDLOCK_VERDICT_GRANTED);
    assert_int_equal(set->at, 501 * RL_MS);
    assert_int_equal(release->op, NET_RELEASE);
    assert_int_equal(release->result, REDLOCK_VERDICT_GRANTED);
    assert_int_equal(release->at, 501 * RL_MS);
    assert_int_equal(stage_count(&stage, HISTORY_ARRIVED, A, 1), 0);
    stage_close(&stage);
}

/* Given up after the stall timeout: what has not arrived never does; the kept release comes on the
 * next connection. */
static void what_was_given_up_never_arrives(void **state) {
    struct stage stage;
    (void)state;
    stage_open(&stage);
    stage.options.clients = 1;
    stage.options.client[A].client.stall_timeout_ms = 1000;
    stage_begin(&stage);
    link_cut(stage.world, A, 0, LINK_BOTH);
    actor_act(stage.world, A, ACTION_ACQUIRE, 0, 0);
    stage_run(&stage, 3000);
    const struct history_record *end = stage_need(&stage, HISTORY_DISCONNECTED, A, 0, 0);
    assert_int_equal(end->at, (10 + 50 + 1000) * RL_MS); /* sent, overdue, stalled */
    actor_act(stage.world, A, ACTION_RELEASE, 0, 0);
    link_heal(stage.world, A, 0);
    stage_run(&stage, 6000);
    assert_int_equal(stage_count(&stage, HISTORY_KEY_SET, ANYBODY, 0), 0);
    assert_int_equal(stage_count(&stage, HISTORY_ARRIVED, A, 0), 1);
    assert_int_equal(stage_need(&stage, HISTORY_ARRIVED, A, 0, 0)->op, NET_RELEASE);
    stage_close(&stage);
}

static void cut_answers_leave_the_effect(void **state) {
    struct stage stage;
    (void)state;
    stage_open(&stage);
    stage_begin(&stage);
    link_cut(stage.world, A, 0, LINK_ANSWERS);
    link_cut(stage.world, A, 1, LINK_ANSWERS);
    actor_act(stage.world, A, ACTION_ACQUIRE, 0, 0);
    stage_run(&stage, 200);
    assert_int_equal(stage_count(&stage, HISTORY_KEY_SET, ANYBODY, ANYBODY), 3);
    assert_int_equal(stage_need(&stage, HISTORY_NOT_ACQUIRED, A, ANYBODY, 0)->result,
                     REDLOCK_NO_QUORUM);
    assert_int_equal(stage_count(&stage, HISTORY_ANSWERED, A, 0), 0);
    link_heal(stage.world, A, 0);
    stage_run(&stage, 300);
    assert_int_equal(stage_need(&stage, HISTORY_ANSWERED, A, 0, 0)->at, 201 * RL_MS);
    stage_close(&stage);
}

/* The answer is lost with its connection: the client is told of that, and its release is sent
 * again. */
static void lost_answer_breaks_the_connection(void **state) {
    struct stage stage;
    (void)state;
    stage_open(&stage);
    stage.options.clients = 1;
    stage_begin(&stage);
    actor_act(stage.world, A, ACTION_ACQUIRE, 0, 0);
    stage_run(&stage, 100);
    link_lose_next_answer(stage.world, A, 1);
    link_lose_next_answer(stage.world, A, 2);
    actor_act(stage.world, A, ACTION_RELEASE, 0, 0);
    stage_run(&stage, 400);
    assert_int_equal(stage_count(&stage, HISTORY_DROPPED, A, 1), 1);
    assert_int_equal(stage_count(&stage, HISTORY_KEY_DELETED, ANYBODY, 1), 1);
    const struct history_record *second =
        stage_message(&stage, HISTORY_ANSWERED, NET_RELEASE, A, 1, 0);
    assert_non_null(second);
    assert_int_equal(second->result, REDLOCK_VERDICT_ABSENT);
    /* What it does not find the second time says nothing: it is not LOST. */
    assert_int_equal(stage_need(&stage, HISTORY_RELEASED, A, ANYBODY, 0)->result,
                     REDLOCK_NO_QUORUM);
    stage_close(&stage);
}

static void delay_is_of_one_request(void **state) {
    struct stage stage;
    (void)state;
    stage_open(&stage);
    stage.options.clients = 1;
    stage_begin(&stage);
    link_delay(stage.world, A, 0, 30 * RL_MS);
    actor_act(stage.world, A, ACTION_ACQUIRE, 0, 0);
    stage_run(&stage, 100);
    assert_int_equal(stage_message(&stage, HISTORY_ARRIVED, NET_ACQUIRE, A, 0, 0)->at, 40 * RL_MS);
    actor_act(stage.world, A, ACTION_RELEASE, 0, 0);
    stage_run(&stage, 200);
    assert_int_equal(stage_message(&stage, HISTORY_ARRIVED, NET_RELEASE, A, 0, 0)->at, 101 * RL_MS);
    stage_close(&stage);
}

static void break_is_reported_at_once(void **state) {
    struct stage stage;
    (void)state;
    stage_open(&stage);
    stage.options.clients = 1;
    stage_begin(&stage);
    actor_act(stage.world, A, ACTION_ACQUIRE, 0, 0);
    link_break(stage.world, A, 2);
    stage_run(&stage, 100);
    assert_int_equal(stage_need(&stage, HISTORY_DISCONNECTED, A, 2, 0)->at, 10 * RL_MS);
    assert_int_equal(stage_count(&stage, HISTORY_DROPPED, A, 2), 1);
    assert_int_equal(stage_count(&stage, HISTORY_KEY_SET, ANYBODY, 2), 0);
    assert_int_equal(stage_count(&stage, HISTORY_CONNECTED, A, 2), 2); /* and again */
    stage_close(&stage);
}

/* Two entries for one server: the library refuses it. */
static void twice_listed_is_refused(void **state) {
    struct stage stage;
    (void)state;
    stage_open(&stage);
    stage.options.clients = 1;
    stage.options.client[A].twice_listed = 1;
    stage_begin(&stage);
    actor_act(stage.world, A, ACTION_ACQUIRE, 0, 1000);
    stage_run(&stage, 500);
    assert_int_equal(stage_need(&stage, HISTORY_NOT_ACQUIRED, A, ANYBODY, 0)->result,
                     REDLOCK_TWICE_LISTED);
    stage_close(&stage);
}

/* ---- several locks ---- */

static const struct history_record *of_resource(const struct stage *stage, enum history_kind kind,
                                                int resource) {
    for (unsigned i = 0;; i++) {
        const struct history_record *record = stage_need(stage, kind, A, ANYBODY, i);
        if (record->resource == resource) return record;
    }
}

static void several_in_one_call_have_outcomes_of_their_own(void **state) {
    struct stage stage;
    (void)state;
    stage_open(&stage);
    stage.options.resources = 3;
    stage_begin(&stage);
    actor_act(stage.world, B, ACTION_ACQUIRE, 1, 0);
    stage_run(&stage, 50);
    actor_act(stage.world, A, ACTION_ACQUIRE_MANY, 0x7, 0);
    stage_run(&stage, 100);
    assert_int_equal(of_resource(&stage, HISTORY_ACQUIRED, 0)->at, 52 * RL_MS);
    assert_int_equal(of_resource(&stage, HISTORY_ACQUIRED, 2)->at, 52 * RL_MS);
    assert_int_equal(of_resource(&stage, HISTORY_NOT_ACQUIRED, 1)->result, REDLOCK_HELD);
    actor_act(stage.world, A, ACTION_RELEASE_MANY, 0x7, 0);
    stage_run(&stage, 200);
    assert_int_equal(of_resource(&stage, HISTORY_RELEASED, 0)->result, REDLOCK_OK);
    assert_int_equal(of_resource(&stage, HISTORY_RELEASED, 2)->result, REDLOCK_OK);
    assert_int_equal(stage_count(&stage, HISTORY_RELEASED, A, ANYBODY),
                     2); /* the one that it never had is left out */
    assert_true(actor_believes(stage.world, B, 1));
    stage_close(&stage);
}

/* Two that were taken at different times are renewed at the same time, and not before it was
 * theirs. */
static void renewals_wait_for_each_other(void **state) {
    struct stage stage;
    (void)state;
    stage_open(&stage);
    stage.options.resources = 2;
    stage.options.together = true;
    stage.options.client[A].lock.renew = 1;
    stage_begin(&stage);
    actor_act(stage.world, A, ACTION_ACQUIRE, 0, 0);
    stage_run(&stage, 12);
    actor_act(stage.world, A, ACTION_ACQUIRE, 1, 0);
    stage_run(&stage, 4000);
    rl_ns first = of_resource(&stage, HISTORY_RENEWED, 0)->at,
          second = of_resource(&stage, HISTORY_RENEWED, 1)->at;
    assert_int_equal(first, second);
    /* a third of the TTL, or up to a sixteenth less */
    assert_in_range(second, (12 + 3125) * RL_MS, (12 + 3333 + 25) * RL_MS);
    stage_close(&stage);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(events_go_by_time_and_then_by_order),
        cmocka_unit_test(clocks_never_show_a_time_too_early),
        cmocka_unit_test(clocks_step_freeze_and_run_false),
        cmocka_unit_test(client_clock_decides_validity),
        cmocka_unit_test(same_seed_same_world),
        cmocka_unit_test(recording_changes_nothing),
        cmocka_unit_test(cut_requests_arrive_late_and_in_order),
        cmocka_unit_test(what_was_given_up_never_arrives),
        cmocka_unit_test(cut_answers_leave_the_effect),
        cmocka_unit_test(lost_answer_breaks_the_connection),
        cmocka_unit_test(delay_is_of_one_request),
        cmocka_unit_test(break_is_reported_at_once),
        cmocka_unit_test(twice_listed_is_refused),
        cmocka_unit_test(several_in_one_call_have_outcomes_of_their_own),
        cmocka_unit_test(renewals_wait_for_each_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
