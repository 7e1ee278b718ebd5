/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Faults of nodes: crashes, restarts with old data, replicas that take over, clocks, errors, stops,
 * strangers.
 */
#include <string.h>

#include "nodes.h"
#include "world/steps.h"

#define LAST_SECOND (1000 * RL_MS)

/* ---- restarts and replicas ------------------------------------------------------------------- */

/* Rolls its data back by this time: to each key's last change up to then. What others still know is
 * no longer part of the node, and its writes since then never happened. */
static void go_back(struct server *server, rl_ns span) {
    struct world *world = server->world;
    const rl_ns as_of = world->now - span;
    server->body_changed = true;
    const struct change *last[WORLD_KEYS_MAX] = {NULL};
    for (size_t i = 0; i < server->changes_count && server->changes[i].at <= as_of; i++)
        last[server->changes[i].resource] = &server->changes[i];
    node_flush_all(world->scratch);
    if (world->options.guarded) server_guard_go_back(server, world->scratch, as_of);
    for (unsigned i = 0; i < WORLD_KEYS_MAX; i++) {
        if (!last[i] || last[i]->token == 0) continue;
        struct net_bytes token = token_bytes(&world->tokens, last[i]->token);
        bool ends = last[i]->expires_ms != INT64_MAX;
        (void)node_set(world->scratch, resource_key(i),
                       (struct node_bytes){token.data, token.bytes}, ends ? 1 : 0,
                       ends ? last[i]->expires_ms - 1 : 0);
    }
    readers_go_back(server, world->scratch, as_of);
    (void)node_table_copy(server->keys, world->scratch);
    node_expire_due(server->keys, server_wall_ms(server));
}

void node_crash(struct world *world, unsigned node) {
    struct server *server = &world->server[node];
    if (!server->up) return;
    server->up = false;
    server->paused = false;
    server_write(server, HISTORY_NODE_CRASH, 0);
    struct message *message;
    while ((message = messages_pop(&server->backlog))) {
        world_write_message(world, HISTORY_DROPPED, message);
        message_free(world, message);
    }
    wire_node_died(world, node, false);
}

/* CLOCK_BOOTTIME begins again where the machine was started, not only the server. */
static void reboot(struct server *server) {
    server->boot.since = server->world->now;
    server->boot.shown = BOOT_BEGIN / 60;
}

bool node_is_native(const struct world *world, unsigned node) { return world->server[node].native; }

void node_restart(struct world *world, unsigned node, enum node_keeps keeps) {
    node_restart_as(world, node, keeps, world->server[node].native);
}

void node_restart_as(struct world *world, unsigned node, enum node_keeps keeps, bool native) {
    static const int64_t values[] = {
        [NODE_KEEPS_NOTHING] = 0, [NODE_KEEPS_ALL] = 1, [NODE_LOSES_LAST_SECOND] = 2};
    struct server *server = &world->server[node];
    if (server->up) return;
    server->up = true;
    server->mode = REDLOCK_VERDICT_GRANTED;
    if (keeps == NODE_LOSES_LAST_SECOND) reboot(server);
    server_write(server, HISTORY_NODE_RESTART, values[keeps]);
    native_begin(server, native);
    server_new_process(server);
    if (keeps == NODE_KEEPS_NOTHING) {
        node_flush_all(server->keys);
        memset(server->announced, 0, sizeof(server->announced));
        server_guard_forget(server);
    }
    if (keeps != NODE_KEEPS_ALL) server_forget_waiters(server);
    if (keeps == NODE_LOSES_LAST_SECOND) go_back(server, LAST_SECOND);
    node_expire_due(server->keys, server_wall_ms(server));
    server_await_expiry(server);
    server_guard_check(server);
}

/* Of a native node, its replica has the keys alone. */
static void promote(struct server *server, rl_ns lag) {
    native_begin(server, server->native);
    go_back(server, lag);
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
    messages_drop(world, &server->backlog); /* messages of the old master */
    server_await_expiry(server);
    server_guard_check(server);
}

/* The old master becomes a separate server next to the node, with its connected clients. The log of
 * changes stays with the node, since nothing rolls the old master back. */
static void live_on(struct server *server, struct server *old) {
    struct node_table *keys = old->keys ? old->keys : server_table_new();
    (void)node_table_copy(keys, server->keys);
    node_table_free(old->own);
    struct node_table *own = server->native ? server_table_of(old, true) : NULL;
    struct queue *queue = old->queue;
    memcpy(queue, server->queue, server->world->names * sizeof(*queue));
    *old = *server;
    old->queue = queue;
    old->old = true;
    old->keys = keys;
    old->own = own;
    old->table = own ? own : keys;
    if (own) (void)node_table_copy(own, server->own);
    old->turns = NULL; /* clients ask the present node for their turn */
    old->paused = false;
    old->replicas = 0;
    old->guard = NULL;
    old->changes = NULL;
    old->places = old->places_log = old->places_then = (struct places){NULL, 0, 0};
    old->guard_count = old->changes_count = old->guard_capacity = old->changes_capacity = 0;
    server->backlog = (struct messages){NULL, NULL};
    steps_members(old);
    wire_node_splits(server->world, server->node);
    server_announce_record(old); /* announcements that the server had not sent yet */
    struct message *message;
    while ((message = messages_pop(&old->backlog))) server_serve(old, message);
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
    server_forget_ends(server);
    server_await_expiry(server);
    server_guard_check(server);
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
    memset(server->announced, 0, sizeof(server->announced));
    node_flush_all(server->keys);
    readers_look(server);
    server_announce(server);
    notify_flushed(server);
    server_guard_flushed(server);
    server_guard_check(server);
}

void node_evict(struct world *world, unsigned node, unsigned resource) {
    struct server *server = &world->server[node];
    if (!server->up || server->replica) return; /* a replica leaves it to its master */
    if (world->options.slots) resource += WORLD_SLOT_FIRST;
    struct history_record record = server_record(server, HISTORY_NODE_EVICT);
    record.resource = (int8_t)resource;
    world_write(world, &record);
    if (node_evict_key(server->keys, resource_key(resource)) && !server->native) {
        server->body_changed = true;
        server->evicted++;
        server->sound = false;
    }
    readers_look(server);
    notify_changed(server, resource, false);
    server_guard_check(server);
}

/* ---- roles, policies, records ---------------------------------------------------------------- */

/* The new replication id is the one that its former replica took when it was promoted. */
static void resync(struct server *server) {
    server->sound = server->sound && server->native;
    server->resyncs++;
    server_new_replid(server);
    go_back(server, server->world->now - server->resync_to);
    server_write(server, HISTORY_NODE_RESYNCED, 0);
    server_announce(server);
    notify_flushed(server);
    server_forget_ends(server);
    server_await_expiry(server);
    server_guard_check(server);
}

static void resync_later(struct world *world, void *argument, int64_t number) {
    struct server *server = &world->server[number & 0xff];
    (void)argument;
    if (server->up && !server->paused && server->replica &&
        server->resyncs == (uint32_t)(number >> 8))
        resync(server);
}

void node_demote(struct world *world, unsigned node, rl_ns lag, rl_ns sync) {
    struct server *server = &world->server[node];
    if (!server->up || server->paused || server->replica) return;
    server_write(server, HISTORY_NODE_DEMOTED, lag);
    server->replica = true;
    server->replicas = 0;
    server->resync_to = world->now - lag;
    if (sync == 0)
        resync(server);
    else
        world_at(world, world->now + sync, resync_later, NULL,
                 (int64_t)server->resyncs << 8 | (int64_t)node);
}

void node_follow(struct world *world, unsigned node) {
    struct server *server = &world->server[node];
    if (!server->up || server->paused || server->replica) return;
    server_write(server, HISTORY_NODE_DEMOTED, 0);
    server->replica = true; /* it keeps its replication id as its second one */
    server->replicas = 0;
    server_new_replid(server);
}

void node_follows_deletion(struct world *world, unsigned node, unsigned resource) {
    struct server *server = &world->server[node];
    if (!server->up || server->paused || !server->replica) return;
    if (!node_evict_key(server->keys, resource_key(resource)))
        return; /* as a loss, which it is for the holder */
    server->body_changed = true;
    server->sound = server->native;
    readers_look(server);
    notify_changed(server, resource, false);
    server_guard_check(server);
}

void node_promote(struct world *world, unsigned node) {
    struct server *server = &world->server[node];
    if (!server->up || !server->replica) return;
    server_write(server, HISTORY_NODE_PROMOTED, 0);
    server->replica = false;
    server->resyncs++;
    server_new_replid(server);
    server_guard_check(server);
}

void node_gets_replica(struct world *world, unsigned node) {
    struct server *server = &world->server[node];
    if (!server->up || server->paused || server->replicas > 0) return;
    server_write(server, HISTORY_NODE_REPLICA, 0);
    server->replicas = 1;
    server_new_replid(server);
    server_guard_check(server);
}

void node_policy(struct world *world, unsigned node, bool may_evict) {
    struct server *server = &world->server[node];
    if (!server->up || server->may_evict == may_evict) return;
    server->may_evict = may_evict;
    server_write(server, HISTORY_NODE_POLICY, may_evict);
}

bool node_may_lose(const struct world *world, unsigned node) {
    return world->server[node].may_evict || world->server[node].replica;
}

void node_delete_record(struct world *world, unsigned node) {
    struct server *server = &world->server[node];
    if (!server->up || server->replica || !server_guard_delete(server)) return;
    server_record_changed(server);
    server_guard_check(server);
}

/* ---- clocks, modes, pauses ------------------------------------------------------------------- */

/* The keys now end at other world times. */
static void clock_changed(struct server *server) {
    server_forget_ends(server);
    if (server->up && !server->paused) node_expire_due(server->keys, server_wall_ms(server));
    server_await_expiry(server);
}

void node_note_unseen(struct world *world, unsigned node, bool unseen) {
    server_write(&world->server[node], HISTORY_NODE_UNSEEN, unseen);
}

void node_clock_step(struct world *world, unsigned node, rl_ns step) {
    struct server *server = &world->server[node];
    clock_set(&server->clock, world->now, step, server->clock.ppm);
    server_write(server, HISTORY_NODE_CLOCK, step);
    clock_changed(server);
}

/* CLOCK_BOOTTIME has the oscillator's rate, and what slews the wall clock slews it too, by up to a
 * tenth (adjtimex(2)); but nothing stops it or makes it run wild. */
#define SLEW_PPM 100000

void node_clock_rate(struct world *world, unsigned node, uint32_t ppm) {
    struct server *server = &world->server[node];
    clock_set(&server->clock, world->now, 0, ppm);
    if (ppm >= CLOCK_TRUE - SLEW_PPM && ppm <= CLOCK_TRUE + SLEW_PPM)
        clock_set(&server->boot, world->now, 0, ppm);
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
    while ((message = messages_pop(&server->backlog))) server_serve(server, message);
    server_forget_ends(server);
    server_await_expiry(server);
}

void node_foreign(struct world *world, unsigned node, unsigned resource, const char *token,
                  int64_t ttl_ms) {
    struct server *server = &world->server[node];
    size_t bytes = 0;
    if (!server->up) return;
    if (world->options.slots) resource += WORLD_SLOT_FIRST;
    while (token && token[bytes]) bytes++;
    struct history_record record = server_record(server, HISTORY_KEY_FOREIGN);
    record.resource = (int8_t)resource;
    record.token = token_number(&world->tokens, (struct net_bytes){token, bytes});
    world_write(world, &record);
    if (token)
        (void)node_set(server->keys, resource_key(resource), (struct node_bytes){token, bytes},
                       ttl_ms, server_wall_ms(server));
    else
        (void)node_delete(server->keys, resource_key(resource), server_wall_ms(server));
    server_await_expiry(server);
}

void node_swap_db(struct world *world, unsigned node) {
    struct server *server = &world->server[node];
    if (!server->up || server->replica) return;
    server_write(server, HISTORY_NODE_FLUSH, 1);
    node_flush_all(server->keys);
    readers_look(server);
    server_guard_flushed(server);
    server_guard_check(server);
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
