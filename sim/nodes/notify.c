/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The unrequested messages of nodes: a key has changed (client tracking: of keys that were read,
 * once), and the turn of a waiter is near (the wait queue). These are hints. They may be lost,
 * late, sent twice or false as long as the world lasts: no guarantee depends on them.
 *
 * Announcements are no hints: guarded clients learn on the connection of their requests that the
 * record or all data have changed. Redis does this for a client that asked for CLIENT TRACKING ON
 * BCAST NOLOOP with the record's name as prefix. A flush and a full resynchronisation are announced
 * at once, a change of the record by another client before the server sleeps again: other requests
 * may be answered before that.
 */
#include "nodes.h"

/* The longest delay with which a server announces that a key has expired. */
#define EXPIRY_LATE_MAX (101 * RL_MS)
/* Within this time a server has answered all requests in its sockets. */
#define SOON (RL_MS / 2)
#define COUNTED (100 * RL_MS)

/* ---- delivery ------------------------------------------------------------------------------- */

void notify_record(struct world *world, enum history_kind kind, const struct message *hint) {
    if (!world->options.record_messages) return;
    struct history_record record = world_record(world, kind);
    record.client = (int8_t)hint->client;
    record.node = (int8_t)link_of(world, hint)->node;
    record.resource = (int8_t)hint->hint.resource;
    record.value = hint->hint.rank;
    record.until = hint->hint.notified_at;
    world_write(world, &record);
}

static struct message *hint_new(struct world *world, const struct link *link, int resource,
                                int rank) {
    struct message *hint = message_on(world, link, MESSAGE_HINT);
    hint->hint.rank = rank;
    hint->hint.notified_at = world->now;
    hint->hint.resource = resource;
    return hint;
}

static void notify(struct world *world, struct link *link, int resource, int rank, rl_ns late) {
    const struct world_wakes *how = &world->options.wakes;
    struct random *random = &link->hints_random;
    struct message *hint = hint_new(world, link, resource, rank);
    bool lost = (how->deaf & rl_bit(link->node)) != 0 || random_chance(random, how->lost_ppm);
    if (random_chance(random, how->late_ppm)) late += random_between(random, 0, how->late_max);
    if (lost || link->wakes_lost) {
        notify_record(world, HISTORY_WAKE_LOST, hint);
        message_free(world, hint);
        return;
    }
    wire_notify(world, hint, late);
    if (random_chance(random, how->twice_ppm) || link->wakes_again)
        wire_notify(world, hint_new(world, link, resource, rank), late);
}

/* ---- recipients ----------------------------------------------------------------------------- */

static bool listens(const struct server *server, const struct link *link) {
    return link->node == server->node && link->old == server->old && link->open &&
           link->tracks == link->connection;
}

static struct link *next_listener(const struct server *server, struct link *link) {
    if (!server->world->options.wakes.on) return NULL;
    do link = link_next(server->world, link);
    while (link && !listens(server, link));
    return link;
}

/* One read arms one notification. The client that made the change gets none, although its read is
 * used up as well. */
static void notify_client(struct server *server, unsigned client, unsigned resource, bool expired) {
    struct world *world = server->world;
    const unsigned key = 1u << (resource - world_first_resource(world, client));
    for (struct link *link = NULL; (link = link_next_of(world, client, link));) {
        if (!listens(server, link) || !(link->armed & key)) continue;
        link->armed &= (uint8_t)~key;
        if (link == world->serving) continue;
        rl_ns late = expired ? random_between(&link->hints_random, 0, EXPIRY_LATE_MAX) : 0;
        notify(world, link, (int)resource, -1, late);
    }
}

void notify_changed(struct server *server, unsigned resource, bool expired) {
    struct world *world = server->world;
    for (int i = -1;
         server->up && world->options.wakes.on && (i = world_client_with(world, resource, i)) >= 0;)
        notify_client(server, (unsigned)i, resource, expired);
}

void notify_flushed(struct server *server) {
    server_forget_waiters(server);
    for (struct link *link = NULL; (link = next_listener(server, link));) {
        link->armed = 0;
        notify(server->world, link, -1, -1, 0);
    }
}

void hint_false(struct world *world, unsigned client, unsigned node, unsigned resource, int rank) {
    for (struct link *link = NULL; (link = link_between(world, client, node, link));)
        notify(world, link, (int)resource, rank, 0);
}

void hints_lost(struct world *world, unsigned client, unsigned node) {
    for (struct link *link = NULL; (link = link_between(world, client, node, link));)
        link->wakes_lost = true;
}

void hints_again(struct world *world, unsigned client, unsigned node) {
    for (struct link *link = NULL; (link = link_between(world, client, node, link));)
        link->wakes_again = true;
}

/* ---- the wait queue ------------------------------------------------------------------------- */

void server_forget_waiters(struct server *server) {
    for (unsigned i = 0; i < server->world->names; i++) server->queue[i].count = 0;
}

static void publish(struct server *server, int resource, const struct queue_notice *notice) {
    struct world *world = server->world;
    struct links *links = &world->links[notice->place.address >> 8];
    struct link *link = &links->link[notice->place.address & 0xff];
    if (listens(server, link) && links->waiter == notice->place.waiter)
        notify(world, link, resource, notice->rank, 0);
}

void notify_waiter(struct server *server, uint32_t waiter, int resource, int rank) {
    struct world *world = server->world;
    for (int i = -1; world->options.wakes.on && resource >= 0 &&
                     (i = world_client_with(world, (unsigned)resource, i)) >= 0;) {
        if (world->links[i].waiter != waiter) continue;
        for (struct link *link = NULL; (link = link_next_of(world, (unsigned)i, link));)
            if (listens(server, link)) notify(world, link, resource, rank, 0);
    }
}

static void wait_op(struct server *server, struct message *request) {
    const struct queue_request what = {
        .waiter = request->waiting.waiter,
        .address = (uint32_t)request->client << 8 | request->slot,
        .lease_ms = request->op == NET_WAIT_QUEUE_ENTER ? request->ttl_ms : 0,
        .age_us = request->waiting.age_us > 0 ? request->waiting.age_us : 0,
        .passes = request->waiting.passes,
    };
    struct queue_news news;
    int64_t now_us = clock_read(&server->clock, server->world->now) / 1000;
    request->reply.count =
        queue_ask(&server->queue[request->keys[0]], &what, now_us, RL_WAITING_ARMED, &news);
    request->verdict = request->reply.count < 0 ? REDLOCK_VERDICT_OOM : REDLOCK_VERDICT_GRANTED;
    for (unsigned i = 0; i < news.count; i++) publish(server, request->keys[0], &news.notices[i]);
}

/* ---- requests -------------------------------------------------------------------------------- */

void notify_serve(struct server *server, struct message *request) {
    struct link *link = link_of(server->world, request);
    if (request->op == NET_WATCH) {
        server_read(server, request);
        bool tracked = link->tracks == link->connection && request->connection == link->connection;
        for (unsigned i = 0; tracked && i < request->keys_count; i++)
            link->armed |= (uint8_t)(1u << (request->keys[i] -
                                            world_first_resource(server->world, request->client)));
    } else if (request->op == NET_TURN_WAIT || request->op == NET_TURN_LEAVE) {
        turns_serve(server, request);
    } else {
        wait_op(server, request);
    }
    /* A false hint, to the client that has just asked. */
    struct random *random = &link->hints_random;
    const struct world_options *options = &server->world->options;
    if (!listens(server, link) || !random_chance(random, options->wakes.false_ppm)) return;
    int resource = (int)random_between(random, -1, options->resources - 1);
    if (resource >= 0 && options->slots) resource += WORLD_SLOT_FIRST;
    const int lowest = server->native ? NET_WAKE_TURN : -1;
    int rank = resource < 0 ? -1 : (int)random_between(random, lowest, 3);
    notify(server->world, link, resource, rank, 0);
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

/* ---- announcements ----------------------------------------------------------------------------
 */

static bool is_announced_to(const struct server *server, const struct link *link) {
    return link->node == server->node && link->old == server->old && link->open && link->announces;
}

/* Of a fleet, the count is up to COUNTED old: there are many to count. */
uint32_t server_clients(struct server *server) {
    const struct world *world = server->world;
    const bool fleet = world->names > WORLD_KEYS_MAX;
    if (fleet && server->counted && world->now < server->counted_at + COUNTED)
        return server->counted;
    uint32_t count = world->options.clients_elsewhere;
    for (struct link *link = NULL; (link = link_next(server->world, link));)
        count += is_announced_to(server, link);
    server->counted = count;
    server->counted_at = world->now;
    return count;
}

void server_announce(struct server *server) {
    struct world *world = server->world;
    for (struct link *link = NULL; world->options.guarded && (link = link_next(world, link));)
        if (is_announced_to(server, link)) wire_announce(world, link, true);
}

/* A stock server announces a change also to the client whose script made it: NOLOOP holds for plain
 * commands. A native node does not. When several clients change its record within one turn of the
 * server, only the first one gets no announcement: it learns the others' changes from its next
 * vote. */
void server_announce_record(struct server *server) {
    struct world *world = server->world;
    if (!server->up || !server->record_changed) return;
    server->record_changed = false;
    for (struct link *link = NULL; (link = link_next(world, link));) {
        const bool changed_it = server->native && link == server->changer &&
                                link->connection == server->changer_connection;
        if (is_announced_to(server, link) && !changed_it) wire_announce(world, link, false);
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
