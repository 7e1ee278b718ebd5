/* SPDX-License-Identifier: BSD-2-Clause */
#include "ask.h"

struct gathering {
    struct gathering *next;
    struct waiter waiter;
};

void gatherings_check(struct redlock_client *client) {
    if (!client->gatherings || client_settled(client) != rl_all(client->nodes)) return;
    for (struct gathering *g = client->gatherings; g; g = g->next) waiter_finish(&g->waiter);
}

rl_mask gather(struct redlock_client *client, rl_ns until) {
    client_hurry(client);
    if (client_settled(client) != rl_all(client->nodes) && net_now(client->net) < until) {
        struct gathering gathering = {.next = client->gatherings};
        waiter_init(&gathering.waiter);
        client->gatherings = &gathering;
        schedule_wait_until(&client->schedule, &gathering.waiter, until);
        struct gathering **at = &client->gatherings;
        while (*at != &gathering) at = &(*at)->next;
        *at = gathering.next;
    }
    return net_ready(client->net, net_now(client->net));
}

rl_ns gather_until(struct redlock_client *client) {
    return net_now(client->net) + client->options.connect_timeout_ms * RL_MS;
}

void gather_majority(struct redlock_client *client, unsigned quorum, rl_ns patience) {
    const rl_ns until = gather_until(client);
    rl_ns now = net_now(client->net);
    do {
        gather(client, now + patience < until ? now + patience : until);
        now = net_now(client->net);
    } while (rl_count(client_ready(client, now)) < quorum &&
             client_settled(client) != rl_all(client->nodes) && now < until);
}
