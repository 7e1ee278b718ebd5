/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The unrequested messages of nodes: a key has changed (client tracking: of keys that were read,
 * once), and the turn of a waiter is near (the wait queue). All of these are hints. They may be
 * lost, late, sent twice or false as long as the world lasts: no guarantee depends on them.
 */
#include "inside.h"

/* The longest delay with which a server announces that a key has expired. */
#define EXPIRY_LATE_MAX (101 * RL_MS)

/* ---- delivery ------------------------------------------------------------------------------- */

static void record(struct world *world, enum history_kind kind, const struct message *hint) {
    if (!world->options.record_messages) return;
    struct history_record record = world_record(world, kind);
    record.client = (int8_t)hint->client;
    record.node = (int8_t)link_of(world, hint)->node;
    record.resource = (int8_t)(hint->keys_count > 0 ? hint->keys[0] : -1);
    record.value = hint->rank;
    record.until = hint->notified_at;
    world_write(world, &record);
}

void notify_heard(struct world *world, const struct message *hint) {
    record(world, HISTORY_WOKEN, hint);
}

static struct message *hint_new(struct world *world, unsigned client, unsigned slot, int resource,
                                int rank) {
    struct message *hint = message_new(world);
    hint->what = MESSAGE_HINT;
    hint->client = (uint8_t)client;
    hint->slot = (uint8_t)slot;
    hint->rank = rank;
    hint->notified_at = world->now;
    if (resource >= 0) hint->keys[hint->keys_count++] = (uint8_t)resource;
    return hint;
}

static void notify(struct world *world, unsigned client, unsigned slot, int resource, int rank,
                   rl_ns late) {
    const struct world_wakes *how = &world->options.wakes;
    struct link *link = &world->actor[client].link[slot];
    struct random *random = &link->hints_random;
    struct message *hint = hint_new(world, client, slot, resource, rank);
    bool lost = (how->deaf & rl_bit(link->node)) != 0 || random_chance(random, how->lost_ppm);
    if (random_chance(random, how->late_ppm)) late += random_between(random, 0, how->late_max);
    if (lost || link->wakes_lost) {
        record(world, HISTORY_WAKE_LOST, hint);
        message_free(world, hint);
        return;
    }
    wire_notify(world, hint, late);
    if (random_chance(random, how->twice_ppm) || link->wakes_again)
        wire_notify(world, hint_new(world, client, slot, resource, rank), late);
}

/* ---- recipients ----------------------------------------------------------------------------- */

static bool listens(const struct server *server, const struct link *link) {
    return link->node == server->node && link->old == server->old && link->open &&
           link->tracks == link->connection;
}

typedef void listener_fn(struct server *server, unsigned client, unsigned slot, int resource,
                         bool expired);

static void each_listener(struct server *server, listener_fn *fn, int resource, bool expired) {
    struct world *world = server->world;
    for (unsigned client = 0; client < world->options.clients && world->options.wakes.on;
         client++) {
        for (unsigned slot = 0; slot < world->actor[client].slots; slot++)
            if (listens(server, &world->actor[client].link[slot]))
                fn(server, client, slot, resource, expired);
    }
}

/* One read arms one notification. The client that made the change gets none, although its read is
 * used up as well. */
static void notify_of_key(struct server *server, unsigned client, unsigned slot, int resource,
                          bool expired) {
    struct world *world = server->world;
    struct link *link = &world->actor[client].link[slot];
    unsigned key = 1u << resource;
    if (!(link->armed & key)) return;
    link->armed &= (uint8_t)~key;
    if (link == world->serving) return;
    notify(world, client, slot, resource, -1,
           expired ? random_between(&link->hints_random, 0, EXPIRY_LATE_MAX) : 0);
}

static void notify_of_all(struct server *server, unsigned client, unsigned slot, int resource,
                          bool expired) {
    (void)expired;
    server->world->actor[client].link[slot].armed = 0;
    notify(server->world, client, slot, resource, -1, 0);
}

void notify_changed(struct server *server, unsigned resource, bool expired) {
    if (server->up) each_listener(server, notify_of_key, (int)resource, expired);
}

void notify_flushed(struct server *server) {
    server_forget_waiters(server);
    each_listener(server, notify_of_all, -1, false);
}

/* A false hint, to the client that has just asked. */
static void notify_falsely(struct world *world, const struct message *request) {
    struct link *link = link_of(world, request);
    struct random *random = &link->hints_random;
    if (!random_chance(random, world->options.wakes.false_ppm)) return;
    int resource = (int)random_between(random, -1, world->options.resources - 1);
    int rank = resource < 0 ? -1 : (int)random_between(random, -1, 3);
    notify(world, request->client, request->slot, resource, rank, 0);
}

void hint_false(struct world *world, unsigned client, unsigned node, unsigned resource, int rank) {
    for (unsigned slot = 0; slot < world->actor[client].slots; slot++)
        if (world->actor[client].link[slot].node == node)
            notify(world, client, slot, (int)resource, rank, 0);
}

static void set_faults(struct world *world, unsigned client, unsigned node, bool lost, bool again) {
    for (unsigned slot = 0; slot < world->actor[client].slots; slot++) {
        struct link *link = &world->actor[client].link[slot];
        if (link->node != node) continue;
        link->wakes_lost = link->wakes_lost || lost;
        link->wakes_again = link->wakes_again || again;
    }
}

void hints_lost(struct world *world, unsigned client, unsigned node) {
    set_faults(world, client, node, true, false);
}
void hints_again(struct world *world, unsigned client, unsigned node) {
    set_faults(world, client, node, false, true);
}

/* ---- the wait queue ------------------------------------------------------------------------- */

void server_forget_waiters(struct server *server) {
    for (unsigned i = 0; i < WORLD_RESOURCES_MAX; i++) server->queue[i].count = 0;
}

static void publish(struct server *server, int resource, const struct queue_notice *notice) {
    struct world *world = server->world;
    unsigned client = notice->place.address >> 8, slot = notice->place.address & 0xff;
    const struct actor *actor = &world->actor[client];
    if (!listens(server, &actor->link[slot]) ||
        net_waiter_number(actor->net) != notice->place.waiter)
        return;
    notify(world, client, slot, resource, notice->rank, 0);
}

static void wait_op(struct server *server, struct message *request) {
    const struct queue_request what = {
        .waiter = request->waiter,
        .address = (uint16_t)(request->client << 8 | request->slot),
        .lease_ms = request->op == NET_WAIT_QUEUE_ENTER ? request->ttl_ms : 0,
        .age_us = request->age_us > 0 ? request->age_us : 0,
        .passes = request->passes,
    };
    struct queue_news news;
    int64_t now_us = clock_read(&server->clock, server->world->now) / 1000;
    request->count =
        queue_ask(&server->queue[request->keys[0]], &what, now_us, RL_WAITING_ARMED, &news);
    request->verdict = request->count < 0 ? REDLOCK_VERDICT_OOM : REDLOCK_VERDICT_GRANTED;
    for (unsigned i = 0; i < news.count; i++) publish(server, request->keys[0], &news.notices[i]);
}

/* ---- requests -------------------------------------------------------------------------------- */

void notify_serve(struct server *server, struct message *request) {
    struct link *link = link_of(server->world, request);
    if (request->op == NET_WATCH) {
        server_read(server, request);
        bool tracked = link->tracks == link->connection && request->connection == link->connection;
        if (tracked) link->armed |= (uint8_t)(1u << request->keys[0]);
    } else {
        wait_op(server, request);
    }
    if (listens(server, link)) notify_falsely(server->world, request);
}

/* Whether it notifies; pending notifications of an earlier connection are dropped. */
void notify_track(struct server *server, struct message *request) {
    struct link *link = link_of(server->world, request);
    request->verdict =
        (int16_t)(server_refuses_all(server) ? server->mode : REDLOCK_VERDICT_GRANTED);
    if (request->verdict == REDLOCK_VERDICT_GRANTED && request->connection == link->connection) {
        link->tracks = link->connection;
        link->armed = 0;
    }
    wire_answer(server->world, request);
}
