/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The network: TCP connections between a client and each of its nodes, two at most. Messages on a
 * connection arrive in order or not at all. A cut is silent: messages wait at it, as TCP
 * retransmits, and arrive once the link works again, unless the connection was closed meanwhile.
 */
#include "inside.h"

struct link *link_of(struct world *world, const struct message *message) {
    return &world->links[message->client].link[message->slot];
}

struct link *link_next_of(struct world *world, unsigned client, const struct link *before) {
    struct links *links = &world->links[client];
    for (unsigned slot = before ? before->slot + 1u : 0; slot < 2 * RL_NODES_MAX; slot++)
        if (slot % RL_NODES_MAX < links->slots) return &links->link[slot];
    return NULL;
}

struct link *link_next(struct world *world, const struct link *before) {
    struct link *link = NULL;
    for (unsigned client = before ? before->client : 0; client < world->options.clients; client++) {
        link = link_next_of(world, client, before);
        if (link) break;
        before = NULL;
    }
    return link;
}

/* A node that a client lists twice has two connections with it. */
struct link *link_between(struct world *world, unsigned client, unsigned node,
                          const struct link *before) {
    const struct link *link = before;
    while ((link = link_next_of(world, client, link)))
        if (link->node == node && !link->fresh) return &world->links[client].link[link->slot];
    return NULL;
}

struct message *message_on(struct world *world, const struct link *link, enum message_what what) {
    struct message *message = message_new(world);
    message->what = (uint8_t)what;
    message->client = link->client;
    message->slot = link->slot;
    message->connection = link->connection;
    return message;
}

static rl_ns draw_delay(struct world *world, struct link *link) {
    const struct world_link *how = &world->options.link;
    if (random_chance(&link->random, how->tail_ppm))
        return random_between(&link->random, how->delay_max, how->tail_max);
    return random_between(&link->random, how->delay_min, how->delay_max);
}

/* ---- one direction of a connection ---------------------------------------------------------- */

static void arrive(struct world *world, void *argument, int64_t number);

static void await_first(struct world *world, struct link *link, enum way way) {
    struct channel *channel = &link->channels[way];
    const struct message *first = channel->under_way.head;
    if (channel->awaited || channel->stalled || !first) return;
    channel->awaited = true;
    channel->generation++;
    int64_t number = (int64_t)((uint64_t)channel->generation << 32) | (int64_t)link->client << 8 |
                     (int64_t)link->slot << 2 | (int64_t)way;
    world_at(world, first->arrives_at, arrive, NULL, number);
}

static void put(struct world *world, struct message *message, enum way way, rl_ns delay) {
    struct link *link = link_of(world, message);
    struct channel *channel = &link->channels[way];
    rl_ns at = world->now + delay;
    message->arrives_at = at > channel->last ? at : channel->last;
    channel->last = message->arrives_at;
    messages_push(&channel->under_way, message);
    await_first(world, link, way);
}

static void drop(struct world *world, struct message *message) {
    if (message->part != PART_FIRST) world_write_message(world, HISTORY_DROPPED, message);
    message_free(world, message);
}

static void drop_under_way(struct world *world, struct link *link, enum way way) {
    struct channel *channel = &link->channels[way];
    struct message *message;
    while ((message = messages_pop(&channel->under_way))) drop(world, message);
    channel->awaited = channel->stalled = false;
    channel->generation++;
    channel->last = world->now;
}

/* ---- how connections end --------------------------------------------------------------------- */

/* On the node's side: answers that it has sent still arrive, and then the end of the connection. */
static void close_at_node(struct world *world, struct link *link) {
    if (!link->open) return;
    link->open = false;
    put(world, message_on(world, link, MESSAGE_BYE), WAY_ANSWERS, draw_delay(world, link));
}

void wire_node_died(struct world *world, unsigned node, bool old) {
    for (struct link *link = NULL; (link = link_next(world, link));)
        if (link->node == node && link->old == old) close_at_node(world, link);
}

void wire_node_splits(struct world *world, unsigned node) {
    for (struct link *link = NULL; (link = link_next(world, link));)
        if (link->node == node && link->open) link->old = true;
}

static void close_both_ends(struct world *world, struct link *link) {
    link->open = link->left = false;
    drop_under_way(world, link, WAY_REQUESTS);
    drop_under_way(world, link, WAY_ANSWERS);
}

void wire_reset(struct world *world, struct link *link) {
    link->connection++;
    close_both_ends(world, link);
}

void wire_leave(struct world *world, struct link *link) {
    link->connection++;
    drop_under_way(world, link, WAY_ANSWERS);
    link->left = link->channels[WAY_REQUESTS].under_way.head != NULL;
    if (!link->left) close_both_ends(world, link);
}

void wire_end(struct world *world, unsigned client) {
    for (struct link *link = NULL; (link = link_next_of(world, client, link));) {
        wire_reset(world, link);
        drop_under_way(world, link, WAY_HINTS);
    }
}

/* ---- arrival --------------------------------------------------------------------------------- */

static void arrive_at_node(struct world *world, struct link *link, struct message *request) {
    if (request->what == MESSAGE_REQUEST && request->breaks) {
        drop(world, request);
        drop_under_way(world, link, WAY_REQUESTS);
        close_at_node(world, link);
    } else if (request->what == MESSAGE_CONNECT || link->open) {
        world->above->request(world, request);
    } else {
        drop(world, request);
    }
}

static void arrive_at_client(struct world *world, struct link *link, struct message *answer) {
    if (!world->above->alive(world, link->client)) {
        drop(world, answer);
        return;
    }
    if (answer->breaks) {
        world_write_message(world, HISTORY_DROPPED, answer);
        answer->what = MESSAGE_BYE;
        close_both_ends(world, link);
    }
    world->above->answer(world, link->client, answer);
}

static void arrive(struct world *world, void *argument, int64_t number) {
    struct link *link = &world->links[number >> 8 & 0xffff].link[number >> 2 & 0x3f];
    enum way way = (enum way)(number & 3);
    struct channel *channel = &link->channels[way];
    (void)argument;
    if (channel->generation != (uint32_t)((uint64_t)number >> 32)) return;
    channel->awaited = false;
    const bool cut = link->cut & (way == WAY_REQUESTS ? LINK_REQUESTS : LINK_ANSWERS);
    const bool lost =
        cut && world->options.resent_late && channel->under_way.head->what == MESSAGE_CONNECT;
    if (cut && !lost) {
        channel->stalled = true;
        return;
    }
    struct message *message = messages_pop(&channel->under_way);
    await_first(world, link, way);
    if (lost || (link->hole != 0 && message->connection == link->hole))
        drop(world, message);
    else if (way == WAY_REQUESTS)
        arrive_at_node(world, link, message);
    else
        arrive_at_client(world, link, message);
    if (link->left && !link->channels[WAY_REQUESTS].under_way.head) close_both_ends(world, link);
}

/* ---- sending --------------------------------------------------------------------------------- */

static struct link *other_of(struct world *world, const struct link *link) {
    return &world->links[link->client].link[(link->slot + RL_NODES_MAX) % (2 * RL_NODES_MAX)];
}

void wire_connect(struct world *world, struct link *link) {
    wire_reset(world, link);
    if (link->moves_to >= 0) link->node = (unsigned)link->moves_to;
    rl_ns delay = draw_delay(world, link);
    if (link->fresh && !world->options.paths_apart) {
        const rl_ns last = other_of(world, link)->channels[WAY_REQUESTS].last;
        if (world->now + delay < last) delay = last - world->now;
    }
    put(world, message_on(world, link, MESSAGE_CONNECT), WAY_REQUESTS, delay);
}

void wire_send(struct world *world, struct message *request) {
    struct link *link = link_of(world, request);
    request->connection = link->connection;
    bool two =
        request->guarded && request->op == NET_ACQUIRE && request->keys_count == 1 && !link->native;
    /* TCP knows no commands: the first of two may arrive before the second. */
    if (two && random_chance(&link->random, world->options.split_ppm)) {
        struct message *first = message_new(world);
        *first = *request;
        first->part = PART_FIRST;
        request->part = PART_SECOND;
        put(world, first, WAY_REQUESTS, draw_delay(world, link));
    }
    world_write_message(world, HISTORY_SENT, request);
    rl_ns delay = draw_delay(world, link);
    if (link->delay_next > 0) delay = link->delay_next;
    link->delay_next = 0;
    request->breaks = random_chance(&link->random, world->options.link.request_loss_ppm);
    put(world, request, WAY_REQUESTS, delay);
}

void wire_answer(struct world *world, struct message *answer) {
    struct link *link = link_of(world, answer);
    if (answer->connection != link->connection ||
        (answer->what == MESSAGE_REQUEST && !link->open)) {
        drop(world, answer);
        return;
    }
    rl_ns delay = draw_delay(world, link);
    if (answer->what == MESSAGE_REQUEST) {
        answer->breaks = random_chance(&link->random, world->options.link.reply_loss_ppm) ||
                         link->lose_next_answer;
        link->lose_next_answer = false;
    }
    put(world, answer, WAY_ANSWERS, delay);
}

void wire_notify(struct world *world, struct message *hint, rl_ns late) {
    struct link *link = link_of(world, hint);
    const struct world_link *how = &world->options.link;
    put(world, hint, WAY_HINTS,
        random_between(&link->hints_random, how->delay_min, how->delay_max) + late);
}

void wire_announce(struct world *world, struct link *link, bool all) {
    const struct world_link *how = &world->options.link;
    struct message *announcement = message_on(world, link, MESSAGE_ANNOUNCEMENT);
    announcement->announcement.all = all;
    put(world, announcement, WAY_ANSWERS,
        random_between(&link->announcements_random, how->delay_min, how->delay_max));
}

/* ---- faults --------------------------------------------------------------------------------- */

void link_write(struct world *world, enum history_kind kind, unsigned client, unsigned node,
                int64_t value) {
    struct history_record record = world_record(world, kind);
    record.client = (int8_t)client;
    record.node = (int8_t)node;
    record.value = value;
    world_write(world, &record);
}

void link_cut(struct world *world, unsigned client, unsigned node, enum link_way way) {
    link_write(world, HISTORY_CUT, client, node, way);
    for (struct link *link = NULL; (link = link_next_of(world, client, link));)
        if (link->node == node) {
            if (!link->cut) link->cut_at = world->now;
            link->cut |= (unsigned)way;
        }
}

/* Messages that waited at the cut arrive one delay later, and later messages not before them. */
static void heal_way(struct world *world, struct link *link, enum way way) {
    struct channel *channel = &link->channels[way];
    if (!channel->stalled) return;
    channel->stalled = false;
    rl_ns soonest = world->now + draw_delay(world, link);
    if (world->options.resent_late)
        soonest += random_between(&link->random, 0, world->now - link->cut_at);
    for (struct message *message = channel->under_way.head; message; message = message->next)
        if (message->arrives_at < soonest) message->arrives_at = soonest;
    if (channel->last < soonest) channel->last = soonest;
    await_first(world, link, way);
}

void link_heal(struct world *world, unsigned client, unsigned node) {
    link_write(world, HISTORY_HEALED, client, node, 0);
    for (struct link *link = NULL; (link = link_next_of(world, client, link));) {
        if (link->node != node) continue;
        link->cut = 0;
        heal_way(world, link, WAY_REQUESTS);
        heal_way(world, link, WAY_ANSWERS);
        heal_way(world, link, WAY_HINTS);
    }
}

void wire_heal_all(struct world *world) {
    for (struct link *link = NULL; (link = link_next(world, link));) {
        link->delay_next = 0;
        link->lose_next_answer = false;
        if (link->cut) link_heal(world, link->client, link->node);
    }
}

static void learn_of_break(struct world *world, void *argument, int64_t number) {
    struct link *link = argument;
    if (!world->above->alive(world, link->client) || link->connection != (uint32_t)number) return;
    world->above->answer(world, link->client, message_on(world, link, MESSAGE_BYE));
}

void link_break(struct world *world, unsigned client, unsigned node) {
    for (struct link *link = NULL; (link = link_between(world, client, node, link));) {
        close_both_ends(world, link);
        world_at(world, world->now, learn_of_break, link, link->connection);
    }
}

void link_delay(struct world *world, unsigned client, unsigned node, rl_ns delay) {
    for (struct link *link = NULL; (link = link_between(world, client, node, link));)
        link->delay_next = delay;
}

void link_lose_next_answer(struct world *world, unsigned client, unsigned node) {
    for (struct link *link = NULL; (link = link_between(world, client, node, link));)
        link->lose_next_answer = true;
}

void link_becomes_hole(struct world *world, unsigned client, unsigned node) {
    link_write(world, HISTORY_BLACK_HOLE, client, node, 0);
    for (struct link *link = NULL; (link = link_next_of(world, client, link));)
        if (link->node == node) link->hole = link->connection;
}

void link_moves(struct world *world, unsigned client, unsigned node, unsigned to) {
    for (struct link *link = NULL; (link = link_next_of(world, client, link));)
        if (link->node == node) link->moves_to = (int)to;
}
