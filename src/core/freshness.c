/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/freshness.h"

#include <assert.h>

#include "core/mix.h"

#define FRESH_FOR (1000 * RL_MS)
#define EVERY_MOST (15000 * RL_MS)
#define ASKED_PER_SECOND 4 /* each node, by all clients */
#define ASKS_FIRST 2       /* two samples of a clock show its rate */
#define EARLIER_PART 4     /* asked up to this part of the interval earlier, each time anew */
#define SPREAD_EACH (5 * RL_MS)
#define SPREAD_MOST (30000 * RL_MS)

void rl_freshness_init(struct rl_freshness *freshness, unsigned nodes, uint32_t clients,
                       uint64_t random) {
    assert(nodes <= RL_NODES_MAX);
    *freshness = (struct rl_freshness){.nodes = nodes, .ttl_least = RL_NEVER, .random = random};
    for (unsigned i = 0; i < nodes; i++) {
        freshness->asked[i] = -EVERY_MOST;
        freshness->clients[i] = clients;
    }
}

void rl_freshness_asked(struct rl_freshness *freshness, rl_mask nodes, rl_ns now) {
    for (unsigned i = 0; i < freshness->nodes; i++) {
        if (!(nodes & rl_bit(i))) continue;
        freshness->asked[i] = now;
        if (freshness->asks[i] > 0) freshness->asks[i]--;
    }
}

void rl_freshness_connected(struct rl_freshness *freshness, unsigned node) {
    assert(node < freshness->nodes);
    freshness->asks[node] = ASKS_FIRST;
}

bool rl_freshness_engaged(struct rl_freshness *freshness, rl_ns ttl) {
    if (ttl >= freshness->ttl_least) return false;
    for (unsigned i = 0; freshness->ttl_least == RL_NEVER && i < freshness->nodes; i++)
        freshness->asks[i] = ASKS_FIRST;
    freshness->ttl_least = ttl;
    return true;
}

bool rl_freshness_is_over(const struct rl_freshness *freshness, rl_mask votes, rl_ns now) {
    for (unsigned i = 0; i < freshness->nodes; i++)
        if ((votes & rl_bit(i)) && now - freshness->asked[i] >= FRESH_FOR) return true;
    return false;
}

static rl_ns every(const struct rl_freshness *freshness, unsigned node) {
    const rl_ns share = freshness->clients[node] / ASKED_PER_SECOND * FRESH_FOR;
    rl_ns every = share < EVERY_MOST ? share : EVERY_MOST;
    if (freshness->asks[node] > 0) return FRESH_FOR;
    if (freshness->ttl_least / 2 < every) every = freshness->ttl_least / 2;
    return every > FRESH_FOR ? every : FRESH_FOR;
}

rl_mask rl_freshness_due(const struct rl_freshness *freshness, rl_mask nodes, rl_ns now) {
    rl_mask due = 0;
    for (unsigned i = 0; i < freshness->nodes; i++) {
        const rl_ns interval = every(freshness, i);
        if (now - freshness->asked[i] >= interval - interval / EARLIER_PART) due |= rl_bit(i);
    }
    return nodes & due;
}

rl_ns rl_freshness_wake_at(struct rl_freshness *freshness, rl_mask nodes) {
    rl_ns wake_at = RL_NEVER;
    for (unsigned i = 0; i < freshness->nodes; i++) {
        if (!(nodes & rl_bit(i))) continue;
        const rl_ns interval = every(freshness, i);
        const rl_ns earlier = rl_draw_between(&freshness->random, 0, interval / EARLIER_PART);
        const rl_ns at = freshness->asked[i] + interval - earlier;
        if (at < wake_at) wake_at = at;
    }
    return wake_at;
}

rl_ns rl_freshness_spread(const struct rl_freshness *freshness) {
    uint32_t most = 0;
    for (unsigned i = 0; i < freshness->nodes; i++) {
        const uint32_t clients = freshness->clients[i];
        if (clients != RL_CLIENTS_MANY && clients > most) most = clients;
    }
    return most < SPREAD_MOST / SPREAD_EACH ? most * SPREAD_EACH : SPREAD_MOST;
}
