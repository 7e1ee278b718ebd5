/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Costs that grow with the number of clients.
 */
#include <string.h>

#include <event2/event.h>

#include "../support/costs.h"
#include "connection/connection.h"
#include "run/parts.h"

/* ---- channels ---- */

struct crowd {
    struct gateway gateway;
    struct gateway_parts parts;
    struct connection *connections;
    size_t count;
};

/* Each second one is a pattern. */
static struct bytes channel_name(size_t client, unsigned number, char *name, size_t size) {
    const int bytes = snprintf(name, size, "__keyspace@0__:app-%zu-%u%s", client, number,
                               number % 2 == 0 ? "*" : "");
    return (struct bytes){name, (size_t)bytes};
}

static void subscribe_all(struct crowd *crowd) {
    char name[64];
    for (size_t i = 0; i < crowd->count; i++) {
        struct connection *one = &crowd->connections[i];
        for (unsigned number = 0; number < CHANNELS_MAX; number++)
            channel_subscribe(one, channel_name(i, number, name, sizeof name), number % 2 == 0);
        assert_int_equal(one->channels, CHANNELS_MAX);
    }
}

static void crowd_open(struct crowd *crowd, size_t count) {
    memset(crowd, 0, sizeof *crowd);
    crowd->count = count;
    crowd->connections = calloc(count, sizeof *crowd->connections);
    assert_non_null(crowd->connections);
    for (size_t i = 0; i < count; i++) {
        crowd->connections[i].gateway = &crowd->gateway;
        crowd->connections[i].fd = -1;
    }
    gateway_join(&crowd->gateway, &crowd->parts);
    crowd->gateway.base = event_base_new();
    assert_true(notifications_open(&crowd->gateway));
}

static void crowd_close(struct crowd *crowd) {
    notifications_close(&crowd->gateway);
    event_base_free(crowd->gateway.base);
    free(crowd->connections);
}

/* The last first. */
static void crowd_leave(struct crowd *crowd) {
    for (size_t i = crowd->count; i-- > 0;) {
        channel_leave_all(&crowd->connections[i]);
        assert_int_equal(crowd->connections[i].channels, 0);
    }
}

static double subscribing(unsigned count) {
    struct crowd crowd;
    crowd_open(&crowd, count);
    const double began = cpu_ms();
    subscribe_all(&crowd);
    const double took = cpu_ms() - began;
    crowd_leave(&crowd);
    crowd_close(&crowd);
    return took;
}

static double disconnecting(unsigned count) {
    struct crowd crowd;
    crowd_open(&crowd, count);
    subscribe_all(&crowd);
    const double began = cpu_ms();
    crowd_leave(&crowd);
    const double took = cpu_ms() - began;
    crowd_close(&crowd);
    return took;
}

/* One name after the other, the last subscribed first. */
static double unsubscribing(unsigned count) {
    struct crowd crowd;
    crowd_open(&crowd, count);
    subscribe_all(&crowd);
    const double began = cpu_ms();
    for (size_t i = count; i-- > 0;) {
        struct connection *one = &crowd.connections[i];
        char name[64];
        for (unsigned number = CHANNELS_MAX; number-- > 0;)
            channel_unsubscribe(one, channel_name(i, number, name, sizeof name), number % 2 == 0);
        assert_int_equal(crowd.connections[i].channels, 0);
    }
    const double took = cpu_ms() - began;
    crowd_close(&crowd);
    return took;
}

static void tell_all(struct crowd *crowd) {
    while (!STAILQ_EMPTY(&crowd->gateway.notifications->queue))
        event_base_loop(crowd->gateway.base, EVLOOP_ONCE);
}

/* That nobody waits for; and one that somebody does, who has left and missed it. */
static double publishing(unsigned count) {
    static const char other[] = "another-key", waited[] = "app-3-4";
    struct crowd crowd;
    crowd_open(&crowd, count);
    subscribe_all(&crowd);
    const double began = cpu_ms();
    for (int i = 0; i < 500; i++)
        notify(&crowd.gateway, (struct bytes){other, sizeof other - 1}, "del");
    tell_all(&crowd);
    const double took = cpu_ms() - began;
    for (size_t i = 0; i < count; i++) assert_false(crowd.connections[i].missed);
    notify(&crowd.gateway, (struct bytes){waited, sizeof waited - 1}, "del");
    tell_all(&crowd);
    for (size_t i = 0; i < count; i++) assert_int_equal(crowd.connections[i].missed, i == 3);
    crowd_leave(&crowd);
    crowd_close(&crowd);
    return took;
}

static void test_subscribing(void **state) {
    (void)state;
    assert_cost_grows_with("subscribing", subscribing, 128);
}

static void test_unsubscribing(void **state) {
    (void)state;
    assert_cost_grows_with("unsubscribing", unsubscribing, 128);
}

static void test_disconnecting(void **state) {
    (void)state;
    assert_cost_grows_with("disconnecting", disconnecting, 128);
}

static void test_publishing(void **state) {
    (void)state;
    assert_cost_of_more("publishing", publishing, 32, 8); /* hardly any growth: a search tree */
    ;
}

/* ---- idle connections ---- */

static double sweeping(unsigned count) {
    struct crowd crowd;
    crowd_open(&crowd, count);
    assert_true(connections_open(&crowd.gateway));
    for (size_t i = 0; i < count; i++) {
        crowd.connections[i].next = crowd.gateway.connections;
        crowd.gateway.connections = &crowd.connections[i];
    }
    const double began = cpu_ms();
    for (int i = 0; i < 20000; i++) connections_sweep(&crowd.gateway);
    const double took = cpu_ms() - began;
    crowd.gateway.connections = NULL;
    connections_close(&crowd.gateway);
    crowd_close(&crowd);
    return took;
}

static void test_sweeping(void **state) {
    (void)state;
    assert_cost_of_more("sweeping", sweeping, 128, 8); /* no growth */
}

/* ---- turns ---- */

static enum program_step waits(struct key_op *op, const struct answer *answer,
                               struct key_call *call, struct answer *result) {
    (void)op, (void)answer, (void)call, (void)result;
    return PROGRAM_WAITS;
}

static size_t ops_over;

static void is_over(struct key_op *op, const struct answer *result) {
    (void)op, (void)result;
    ops_over++;
}

/* All want one key; the first has its turn, and the others leave, the last first. */
static double abandoning(unsigned count) {
    static const struct answer nil = {.kind = ANSWER_NIL};
    struct gateway *gateway = calloc(1, sizeof *gateway);
    struct key_op *ops = calloc(count, sizeof *ops);
    assert_true(gateway != NULL && ops != NULL);
    struct gateway_parts parts = {0};
    gateway_join(gateway, &parts);
    gateway->base = event_base_new();
    assert_true(key_ops_open(gateway));
    ops_over = 0;
    for (size_t i = 0; i < count; i++)
        assert_true(key_op_begin(&ops[i], gateway, (struct bytes){"key", 3}, waits, is_over));
    const double began = cpu_ms();
    for (size_t i = count - 1; i > 0; i--) assert_true(key_op_abandon(&ops[i]));
    const double took = cpu_ms() - began;
    assert_false(key_op_abandon(&ops[0]));
    key_op_said(&ops[0], PROGRAM_ENDS, NULL, &nil);
    assert_int_equal(ops_over, 1);
    assert_null(gateway->keys->tree);
    key_ops_close(gateway);
    event_base_free(gateway->base);
    free(ops);
    free(gateway);
    return took;
}

static void test_abandoning(void **state) {
    (void)state;
    assert_cost_grows_with("abandoning", abandoning, 1000);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_subscribing),   cmocka_unit_test(test_unsubscribing),
        cmocka_unit_test(test_disconnecting), cmocka_unit_test(test_publishing),
        cmocka_unit_test(test_sweeping),      cmocka_unit_test(test_abandoning)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
