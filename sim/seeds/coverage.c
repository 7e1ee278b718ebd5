/* SPDX-License-Identifier: BSD-2-Clause */
#include "coverage.h"

#include <string.h>

#include "core/mix.h"
#include "clients/clients.h"

/* ---- a state --------------------------------------------------------------------------------- */

/* How many of each kind of thing, whichever they are. */
struct crowd {
    uint8_t count[256];
};

struct sought {
    struct node_bytes key;
    uint32_t token; /* 0: none */
    struct world *world;
};

static void visit(void *context, const struct node_lock *lock) {
    struct sought *sought = context;
    if (lock->key.bytes != sought->key.bytes ||
        memcmp(lock->key.data, sought->key.data, lock->key.bytes) != 0)
        return;
    sought->token = token_number(&sought->world->tokens,
                                 (struct net_bytes){lock->token.data, lock->token.bytes});
}

static uint32_t token_on(struct server *server, unsigned resource) {
    struct sought sought = {.key = resource_key(resource), .world = server->world};
    uint64_t cursor = 0;
    do cursor = node_scan(server->table, cursor, 64, server_now_ms(server), visit, &sought);
    while (cursor != 0);
    return sought.token;
}

/* Each of these is as many as enum redlock_state. */
static void add_clients(const struct world *world, unsigned resource, struct crowd *crowd) {
    for (unsigned i = 0; i < world->options.clients; i++) {
        const struct actor *actor = &world->actor[i];
        if (actor->crashed) continue;
        const struct redlock_lock *lock = actor->hold[resource].lock;
        if (!lock) continue;
        int state = redlock_lock_state((struct redlock_lock *)(uintptr_t)lock);
        crowd->count[(state << 1 | actor->paused) & 15]++;
    }
}

/* Whose key it is: none, that of a client inside validity, of another client. */
static unsigned whose(const struct world *world, unsigned resource, uint32_t token) {
    if (token == 0) return 0;
    for (unsigned i = 0; i < world->options.clients; i++) {
        const struct actor *actor = &world->actor[i];
        if (!actor->crashed && actor->hold[resource].lock && actor->hold[resource].token == token &&
            redlock_validity_end_ns(actor->hold[resource].lock) != 0)
            return 1;
    }
    return 2;
}

/* What the first client, which recovers nodes, believes of this one: it votes, it does not, or it
 * waits. */
static unsigned believed(const struct world *world, unsigned node) {
    struct redlock_node_status status;
    if (world->actor[0].crashed || !world->actor[0].redlock) return 0;
    redlock_node_status_init(&status);
    if (redlock_client_node(world->actor[0].redlock, node, &status) != REDLOCK_OK) return 0;
    if (status.verdict == REDLOCK_VERDICT_GRANTED) return 1;
    return status.verdict == REDLOCK_VERDICT_RECOVERING ? 2 : 3;
}

static void add_nodes(struct world *world, unsigned resource, struct crowd *crowd) {
    for (unsigned i = 0; i < world->options.nodes; i++) {
        struct server *server = &world->server[i];
        const unsigned runs = !server->up ? 0 : server->paused ? 1 : 2;
        const unsigned key = server->up ? whose(world, resource, token_on(server, resource)) : 0;
        crowd->count[16 + ((runs * 3 + key) * 2 + server->intact) * 4 + believed(world, i)]++;
    }
}

/* ---- the sets -------------------------------------------------------------------------------- */

static void insert(_Atomic uint64_t *set, _Atomic uint64_t *count, uint64_t hash) {
    const uint64_t place = hash >> (64 - COVERAGE_BITS), bit = UINT64_C(1) << (place % 64);
    if (!(atomic_fetch_or(&set[place / 64], bit) & bit)) atomic_fetch_add(count, 1);
}

void coverage_note(struct coverage *coverage, struct world *world, unsigned resource,
                   unsigned what) {
    struct crowd crowd = {{0}};
    if (resource >= world->options.resources) resource = 0; /* a fault may name a slot */
    add_clients(world, resource, &crowd);
    add_nodes(world, resource, &crowd);
    const uint64_t nodes = world->options.nodes; /* a majority is another one */
    uint64_t hash = rl_fnv1a_number(rl_fnv1a(RL_FNV_BASIS, crowd.count, sizeof crowd.count), nodes);
    uint64_t mixed = hash;
    insert(coverage->states, &coverage->states_count, rl_splitmix64(&mixed));
    mixed = hash + what * UINT64_C(0xd6e8feb86659fd93);
    insert(coverage->pairs, &coverage->pairs_count, rl_splitmix64(&mixed));
}
