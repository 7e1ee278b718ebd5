/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What a server reports about itself in addition to its record (role, replication id, eviction),
 * what changes that, and what it announces to guarded clients on the connection of their requests.
 * Redis does this for a client that asked for CLIENT TRACKING ON BCAST NOLOOP with the record's
 * name as prefix. A flush and a full resynchronisation are announced at once, a change of the
 * record by another client before the server sleeps again: other requests may be answered before
 * that.
 */
#include <stdio.h>
#include <string.h>

#include "inside.h"

/* within this time the server has answered all requests in its sockets */
#define SOON (RL_MS / 2)

/* ---- replication ids ------------------------------------------------------------------------- */

static void new_replid(struct server *server) {
    struct random random =
        random_named(server->world->options.seed, 20000 + ++server->world->replids);
    for (int i = 0; i < 40; i += 8)
        snprintf(server->replid + i, 9, "%08x", (unsigned)(random_next(&random) >> 32));
}

static void lose_data(struct server *server) {
    server->sound = false;
    server->resyncs++;
}

void server_state_begin(struct server *server) {
    const struct world *world = server->world;
    rl_mask node = rl_bit(server->node);
    server->may_evict = (world->options.may_evict & node) != 0;
    server->announcements_random = random_named(world->options.seed, 30000 + server->node);
    server->replicas = (world->options.replicas & node) != 0;
    server->record_changed = false;
    server->replica = false;
}

/* With its configuration file: settings made at run time are lost. */
void server_state_new_process(struct server *server) {
    new_replid(server);
    lose_data(server);
    server->may_evict = (server->world->options.may_evict & rl_bit(server->node)) != 0;
    server->evicted = 0;
    server->replica = server->record_changed = false;
}

void server_state_live_on(const struct server *server, struct server *old) {
    memcpy(old->replid, server->replid, sizeof(old->replid));
    old->sound = server->sound;
    old->replica = server->replica;
    old->replicas = 0;
    old->may_evict = server->may_evict;
    old->evicted = server->evicted;
    old->record_changed = server->record_changed;
    old->changer = server->changer;
    old->changer_connection = server->changer_connection;
    old->announcements_random = server->announcements_random;
}

/* ---- announcements --------------------------------------------------------------------------- */

static bool listens(const struct server *server, const struct link *link) {
    return link->node == server->node && link->old == server->old && link->open && link->announces;
}

void server_announce(struct server *server) {
    struct world *world = server->world;
    for (struct link *link = NULL; world->options.guarded && (link = link_next(world, link));)
        if (listens(server, link)) wire_announce(world, link, true);
}

/* The client that changed the record knows the change. When several clients change it within one
 * turn of the server, only the first one gets no announcement, as in Redis: it learns the others'
 * changes from its next vote. */
void server_announce_record(struct server *server) {
    struct world *world = server->world;
    if (!server->up || !server->record_changed) return;
    server->record_changed = false;
    for (struct link *link = NULL; (link = link_next(world, link));) {
        bool changed_it = link == server->changer && link->connection == server->changer_connection;
        if (listens(server, link) && !changed_it) wire_announce(world, link, false);
    }
}

static void before_sleep(struct world *world, void *argument, int64_t number) {
    struct server *server =
        number < RL_NODES_MAX ? &world->server[number] : &world->old[number - RL_NODES_MAX];
    (void)argument;
    if (!server->paused) server_announce_record(server);
}

void server_record_changed(struct server *server) {
    struct world *world = server->world;
    if (server->record_changed) return;
    server->record_changed = true;
    server->changer = world->serving;
    server->changer_connection = world->serving ? world->serving->connection : 0;
    rl_ns soon = random_between(&server->announcements_random, 0, 1) ? SOON : SOON / 32;
    world_at(world, world->now + random_between(&server->announcements_random, 0, soon),
             before_sleep, NULL, server->node + (server->old ? RL_NODES_MAX : 0));
}

/* ---- requests -------------------------------------------------------------------------------- */

void server_state_serve(struct server *server, struct message *request) {
    struct net_state state = {
        .wall_us = clock_read(&server->clock, server->world->now) / 1000,
        .replica = server_mode(server) == REDLOCK_VERDICT_READONLY,
        .replicas = server->replicas,
        .may_evict = server->may_evict,
        .evicted = server->evicted,
    };
    memcpy(state.replid, server->replid, sizeof(state.replid));
    request->verdict = REDLOCK_VERDICT_GRANTED;
    request->body = body_new(server->world);
    body_add(request->body, &state, sizeof(state));
}

/* ---- faults -------------------------------------------------------------------------------- */

/* The new replication id is the one that its former replica took when it was promoted. */
static void resync(struct server *server) {
    lose_data(server);
    new_replid(server);
    server_go_back(server, server->world->now - server->resync_to);
    server_write(server, HISTORY_NODE_RESYNCED, 0);
    server_announce(server);
    notify_flushed(server);
    server->expiry_at = RL_NEVER;
    server_await_expiry(server);
    server_guard_peek(server);
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
    new_replid(server);
}

void node_follows_deletion(struct world *world, unsigned node, unsigned resource) {
    struct server *server = &world->server[node];
    if (!server->up || server->paused || !server->replica) return;
    if (!node_evict_key(server->table, resource_key(resource)))
        return; /* as a loss, which it is for the holder */
    server->sound = false;
    notify_changed(server, resource, false);
    server_guard_peek(server);
}

void node_promote(struct world *world, unsigned node) {
    struct server *server = &world->server[node];
    if (!server->up || !server->replica) return;
    server_write(server, HISTORY_NODE_PROMOTED, 0);
    server->replica = false;
    server->resyncs++;
    new_replid(server);
    server_guard_peek(server);
}

void node_gets_replica(struct world *world, unsigned node) {
    struct server *server = &world->server[node];
    if (!server->up || server->paused || server->replicas > 0) return;
    server_write(server, HISTORY_NODE_REPLICA, 0);
    server->replicas = 1;
    new_replid(server);
    server_guard_peek(server);
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
    const struct node_bytes name = {NET_KEY_RECORD, sizeof(NET_KEY_RECORD) - 1};
    struct server *server = &world->server[node];
    if (!server->up || server->replica || !node_delete(server->table, name, server_wall_ms(server)))
        return;
    server_guard_deleted(server);
    server_record_changed(server);
    server_guard_peek(server);
}
