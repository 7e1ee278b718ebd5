/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Waits until every node is connected, or is known to have failed. */
#include "guarding.h"

struct gathering {
    struct gathering *next;
    struct waiter waiter;
    struct net_timer timer;
};

static void gathering_late(struct net_timer *timer) {
    waiter_finish(&RL_CONTAINER(timer, struct gathering, timer)->waiter);
}

void gatherings_check(struct redlock_client *client) {
    if (!client->gatherings || client_settled(client) != rl_all(client->nodes)) return;
    for (struct gathering *g = client->gatherings; g; g = g->next) waiter_finish(&g->waiter);
}

rl_mask gather(struct redlock_client *client, rl_ns until) {
    if (client_settled(client) != rl_all(client->nodes) && net_now(client->net) < until) {
        struct gathering gathering = {.next = client->gatherings,
                                      .timer = {.fire = gathering_late}};
        waiter_init(&gathering.waiter);
        client->gatherings = &gathering;
        net_timer_set(client->net, &gathering.timer, until);
        client_wait(client, &gathering.waiter);
        net_timer_set(client->net, &gathering.timer, RL_NEVER);
        struct gathering **at = &client->gatherings;
        while (*at != &gathering) at = &(*at)->next;
        *at = gathering.next;
    }
    return net_ready(client->net, net_now(client->net));
}

rl_ns gather_until(struct redlock_client *client) {
    return net_now(client->net) + client->options.connect_timeout_ms * RL_MS;
}

int redlock_client_wait_ready(struct redlock_client *client, int64_t wait_ms) {
    if (wait_ms < 0 || wait_ms > REDLOCK_TTL_MS_MAX) return REDLOCK_BAD_ARGUMENT;
    if (client_enter(client) != REDLOCK_OK) return REDLOCK_FORKED;
    gather(client, net_now(client->net) + wait_ms * RL_MS);
    int ready = (int)rl_count(client_ready(client, net_now(client->net)));
    client_leave_notifying(client);
    return ready;
}
