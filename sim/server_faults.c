/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Faults of nodes: crashes, restarts with old data, replicas that take over, clocks, errors, stops,
 * strangers.
 */
#include <string.h>

#include "inside.h"

#define LAST_SECOND (1000 * RL_MS)

/* ---- restarts and replicas ------------------------------------------------------------------- */

/* The table at that time: each key's last change up to then. */
static void rebuild(struct server *server, rl_ns as_of) {
    struct world *world = server->world;
    const struct change *last[WORLD_RESOURCES_MAX] = {NULL};
    for (size_t i = 0; i < server->changes_count && server->changes[i].at <= as_of; i++)
        last[server->changes[i].resource] = &server->changes[i];
    node_flush_all(world->scratch);
    if (world->options.guarded) server_guard_go_back(server, world->scratch, as_of);
    for (unsigned i = 0; i < WORLD_RESOURCES_MAX; i++) {
        if (!last[i] || last[i]->token == 0) continue;
        struct net_bytes token = token_bytes(&world->tokens, last[i]->token);
        bool ends = last[i]->expires_ms != INT64_MAX;
        (void)node_set(world->scratch, resource_key(i),
                       (struct node_bytes){token.data, token.bytes}, ends ? 1 : 0,
                       ends ? last[i]->expires_ms - 1 : 0);
    }
}

/* What others still know is no longer part of the node, and its writes since then never happened.
 */
void server_go_back(struct server *server, rl_ns span) {
    rebuild(server, server->world->now - span);
    (void)node_table_copy(server->table, server->world->scratch);
    node_expire_due(server->table, server_wall_ms(server));
}

void node_crash(struct world *world, unsigned node) {
    struct server *server = &world->server[node];
    if (!server->up) return;
    server->up = false;
    server->paused = false;
    server_write(server, HISTORY_NODE_CRASH, 0);
    struct message *message;
    while ((message = messages_pop(&server->pile))) {
        world_write_message(world, HISTORY_DROPPED, message);
        message_free(world, message);
    }
    wire_node_died(world, node, false);
}

void node_restart(struct world *world, unsigned node, enum node_keeps keeps) {
    static const int64_t values[] = {
        [NODE_KEEPS_NOTHING] = 0, [NODE_KEEPS_ALL] = 1, [NODE_LOSES_LAST_SECOND] = 2};
    struct server *server = &world->server[node];
    if (server->up) return;
    server->up = true;
    server->mode = REDLOCK_VERDICT_GRANTED;
    server_new_process(server);
    server_write(server, HISTORY_NODE_RESTART, values[keeps]);
    if (keeps == NODE_KEEPS_NOTHING) {
        node_flush_all(server->table);
        server_guard_forget(server);
    }
    if (keeps != NODE_KEEPS_ALL) server_forget_waiters(server);
    if (keeps == NODE_LOSES_LAST_SECOND) server_go_back(server, LAST_SECOND);
    node_expire_due(server->table, server_wall_ms(server));
    server_await_expiry(server);
    server_guard_peek(server);
}

static void promote(struct server *server, rl_ns lag) {
    server_go_back(server, lag);
    server_forget_waiters(server);
    server_new_process(server);
    server->replicas = 0;
    server->up = true;
    server->paused = false;
    server->mode = REDLOCK_VERDICT_GRANTED;
}

void node_failover(struct world *world, unsigned node, rl_ns lag) {
    struct server *server = &world->server[node];
    server_write(server, HISTORY_NODE_FAILOVER, lag);
    wire_node_died(world, node, false);
    promote(server, lag);
    struct message *message;
    while ((message = messages_pop(&server->pile)))
        message_free(world, message); /* messages of the old master */
    server_await_expiry(server);
    server_guard_peek(server);
}

/* The old master becomes a separate server next to the node, with its connected clients. */
static void live_on(struct server *server, struct server *old) {
    if (!old->table) old->table = server_table_new(NULL, NULL);
    (void)node_table_copy(old->table, server->table);
    memcpy(old->queue, server->queue, sizeof(old->queue));
    old->clock = server->clock;
    old->mode = server->mode;
    old->process = server->process;
    memcpy(old->run_id, server->run_id, sizeof(old->run_id));
    server_state_live_on(server, old);
    old->up = true;
    old->paused = false;
    old->intact = server->intact;
    old->list = server->list;
    wire_node_splits(server->world, server->node);
    server_announce_record(old); /* announcements that the server had not sent yet */
    struct message *message;
    while ((message = messages_pop(&server->pile))) server_serve(old, message);
}

void node_split(struct world *world, unsigned node, rl_ns lag) {
    struct server *server = &world->server[node];
    if (!server->up) {
        node_failover(world, node, lag);
        return;
    }
    node_old_ends(world, node);
    server_write(server, HISTORY_NODE_SPLIT, lag);
    live_on(server, &world->old[node]);
    promote(server, lag);
    server->expiry_at = RL_NEVER;
    server_await_expiry(server);
    server_guard_peek(server);
}

void node_old_ends(struct world *world, unsigned node) {
    struct server *old = &world->old[node];
    if (!old->up) return;
    old->up = false;
    server_write(old, HISTORY_NODE_OLD_ENDS, 0);
    wire_node_died(world, node, true);
}

void node_flush(struct world *world, unsigned node) {
    struct server *server = &world->server[node];
    if (!server->up || server->replica) return; /* a replica refuses it */
    server_write(server, HISTORY_NODE_FLUSH, 0);
    node_flush_all(server->table);
    server_announce(server);
    notify_flushed(server);
    server_guard_flushed(server);
    server_guard_peek(server);
}

void node_evict(struct world *world, unsigned node, unsigned resource) {
    struct server *server = &world->server[node];
    if (!server->up || server->replica) return; /* a replica leaves it to its master */
    struct history_record record = server_record(server, HISTORY_NODE_EVICT);
    record.resource = (int8_t)resource;
    world_write(world, &record);
    if (node_evict_key(server->table, resource_key(resource))) {
        server->evicted++;
        server->sound = false;
    }
    notify_changed(server, resource, false);
    server_guard_peek(server);
}

/* ---- clocks, modes, pauses ------------------------------------------------------------------- */

/* The keys now end at other world times. */
static void clock_changed(struct server *server) {
    server->expiry_at = RL_NEVER;
    if (server->up && !server->paused) node_expire_due(server->table, server_wall_ms(server));
    server_await_expiry(server);
}

void node_clock_step(struct world *world, unsigned node, rl_ns step) {
    struct server *server = &world->server[node];
    clock_set(&server->clock, world->now, step, server->clock.ppm);
    server_write(server, HISTORY_NODE_CLOCK, step);
    clock_changed(server);
}

void node_clock_rate(struct world *world, unsigned node, uint32_t ppm) {
    struct server *server = &world->server[node];
    clock_set(&server->clock, world->now, 0, ppm);
    server_write(server, HISTORY_NODE_RATE, ppm);
    clock_changed(server);
}

void node_mode(struct world *world, unsigned node, int verdict) {
    struct history_record record = server_record(&world->server[node], HISTORY_NODE_MODE);
    record.result = (int16_t)verdict;
    world_write(world, &record);
    world->server[node].mode = verdict;
}

void node_pause(struct world *world, unsigned node) {
    struct server *server = &world->server[node];
    if (!server->up || server->paused) return;
    server->paused = true;
    server_write(server, HISTORY_NODE_PAUSE, 0);
}

void node_resume(struct world *world, unsigned node) {
    struct server *server = &world->server[node];
    if (!server->paused) return;
    server->paused = false;
    server_write(server, HISTORY_NODE_RESUME, 0);
    server_announce_record(server);
    struct message *message;
    while ((message = messages_pop(&server->pile))) server_serve(server, message);
    server->expiry_at = RL_NEVER;
    server_await_expiry(server);
}

void node_foreign(struct world *world, unsigned node, unsigned resource, const char *token,
                  int64_t ttl_ms) {
    struct server *server = &world->server[node];
    size_t bytes = 0;
    if (!server->up) return;
    while (token && token[bytes]) bytes++;
    struct history_record record = server_record(server, HISTORY_KEY_FOREIGN);
    record.resource = (int8_t)resource;
    record.token = token_number(&world->tokens, (struct net_bytes){token, bytes});
    world_write(world, &record);
    if (token)
        (void)node_set(server->table, resource_key(resource), (struct node_bytes){token, bytes},
                       ttl_ms, server_wall_ms(server));
    else
        (void)node_delete(server->table, resource_key(resource), server_wall_ms(server));
    server_await_expiry(server);
}
/* ---- the end of faults ----------------------------------------------------------------------- */

void servers_heal(struct world *world) {
    for (unsigned i = 0; i < world->options.nodes; i++) {
        struct server *server = &world->server[i];
        node_old_ends(world, i);
        if (!server->up) node_restart(world, i, NODE_KEEPS_ALL);
        if (server->paused) node_resume(world, i);
        if (server->mode != REDLOCK_VERDICT_GRANTED) node_mode(world, i, REDLOCK_VERDICT_GRANTED);
        node_promote(world, i);
        node_policy(world, i, (world->options.may_evict & rl_bit(i)) != 0);
        if (server->clock.ppm != CLOCK_TRUE) node_clock_rate(world, i, CLOCK_TRUE);
    }
}
