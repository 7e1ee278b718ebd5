/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The network: one TCP connection at a time between a client and each of its nodes. Messages on a
 * connection arrive in order or not at all. A cut is silent: messages wait at it, as TCP
 * retransmits, and arrive once the link works again, unless the connection was closed meanwhile.
 */
#include "inside.h"

enum way { WAY_REQUESTS, WAY_ANSWERS, WAY_HINTS };

struct link *link_of(struct world *world, const struct message *message) {
    return &world->actor[message->client].link[message->slot];
}

static struct channel *channel_of(struct link *link, enum way way) {
    if (way == WAY_HINTS) return &link->hints;
    return way == WAY_REQUESTS ? &link->requests : &link->answers;
}

static bool is_cut(const struct link *link, enum way way) {
    return (link->cut & (way == WAY_REQUESTS ? LINK_REQUESTS : LINK_ANSWERS)) != 0;
}

static rl_ns draw_delay(struct world *world, struct link *link) {
    const struct world_link *how = &world->options.link;
    if (random_chance(&link->random, how->tail_ppm))
        return random_between(&link->random, how->delay_max, how->tail_max);
    return random_between(&link->random, how->delay_min, how->delay_max);
}

/* ---- one direction of a connection ---------------------------------------------------------- */

static void arrive(struct world *world, void *argument, int64_t number);

static void await_first(struct world *world, unsigned client, unsigned slot, enum way way) {
    struct link *link = &world->actor[client].link[slot];
    struct channel *channel = channel_of(link, way);
    const struct message *first = channel->under_way.head;
    if (channel->awaited || channel->stalled || !first) return;
    channel->awaited = true;
    channel->generation++;
    int64_t number = (int64_t)channel->generation << 16 | (int64_t)client << 8 |
                     (int64_t)slot << 2 | (int64_t)way;
    world_at(world, first->arrives_at, arrive, NULL, number);
}

static void put(struct world *world, struct message *message, enum way way, rl_ns delay) {
    struct link *link = link_of(world, message);
    struct channel *channel = channel_of(link, way);
    rl_ns at = world->now + delay;
    message->arrives_at = at > channel->last ? at : channel->last;
    channel->last = message->arrives_at;
    messages_push(&channel->under_way, message);
    await_first(world, message->client, message->slot, way);
}

static void drop(struct world *world, struct message *message) {
    if (message->part != PART_FIRST) world_write_message(world, HISTORY_DROPPED, message);
    message_free(world, message);
}

static void drop_under_way(struct world *world, struct link *link, enum way way) {
    struct channel *channel = channel_of(link, way);
    struct message *message;
    while ((message = messages_pop(&channel->under_way))) drop(world, message);
    channel->awaited = channel->stalled = false;
    channel->generation++;
    channel->last = world->now;
}

/* ---- how connections end --------------------------------------------------------------------- */

static void send_bye(struct world *world, unsigned client, unsigned slot) {
    struct link *link = &world->actor[client].link[slot];
    struct message *bye = message_new(world);
    bye->what = MESSAGE_BYE;
    bye->client = (uint8_t)client;
    bye->slot = (uint8_t)slot;
    bye->connection = link->connection;
    put(world, bye, WAY_ANSWERS, draw_delay(world, link));
}

/* On the node's side: answers that it has sent still arrive, and then the end of the connection. */
static void close_at_node(struct world *world, unsigned client, unsigned slot) {
    struct link *link = &world->actor[client].link[slot];
    if (!link->open) return;
    link->open = false;
    send_bye(world, client, slot);
}

void wire_node_died(struct world *world, unsigned node, bool old) {
    for (unsigned client = 0; client < world->options.clients; client++) {
        for (unsigned slot = 0; slot < world->actor[client].slots; slot++) {
            const struct link *link = &world->actor[client].link[slot];
            if (link->node == node && link->old == old) close_at_node(world, client, slot);
        }
    }
}

void wire_node_splits(struct world *world, unsigned node) {
    for (unsigned client = 0; client < world->options.clients; client++) {
        for (unsigned slot = 0; slot < world->actor[client].slots; slot++) {
            struct link *link = &world->actor[client].link[slot];
            if (link->node == node && link->open) link->old = true;
        }
    }
}

void wire_reset(struct world *world, unsigned client, unsigned slot) {
    struct link *link = &world->actor[client].link[slot];
    link->open = false;
    link->connection++;
    drop_under_way(world, link, WAY_REQUESTS);
    drop_under_way(world, link, WAY_ANSWERS);
}

void wire_end(struct world *world, unsigned client, unsigned slot) {
    wire_reset(world, client, slot);
    drop_under_way(world, &world->actor[client].link[slot], WAY_HINTS);
}

/* ---- arrival --------------------------------------------------------------------------------- */

static void arrive_at_node(struct world *world, struct link *link, struct message *request) {
    if (request->what == MESSAGE_REQUEST && request->breaks) {
        unsigned client = request->client, slot = request->slot;
        drop(world, request);
        drop_under_way(world, link, WAY_REQUESTS);
        close_at_node(world, client, slot);
        return;
    }
    bool known = request->what == MESSAGE_CONNECT || link->open;
    if (known)
        server_receive(world, request);
    else
        drop(world, request);
}

static void arrive_at_client(struct world *world, struct link *link, struct message *answer) {
    struct actor *actor = &world->actor[answer->client];
    unsigned client = answer->client;
    if (actor->crashed) {
        drop(world, answer);
        return;
    }
    if (answer->breaks) {
        world_write_message(world, HISTORY_DROPPED, answer);
        answer->what = MESSAGE_BYE;
        link->open = false;
        drop_under_way(world, link, WAY_REQUESTS);
        drop_under_way(world, link, WAY_ANSWERS);
    }
    net_receive(actor->net, answer);
    actor_drive(world, client);
}

static void arrive(struct world *world, void *argument, int64_t number) {
    unsigned client = (unsigned)(number >> 8) & 0xff, slot = (unsigned)(number >> 2) & 0x3f;
    enum way way = (enum way)(number & 3);
    struct link *link = &world->actor[client].link[slot];
    struct channel *channel = channel_of(link, way);
    (void)argument;
    if (channel->generation != (uint32_t)(number >> 16)) return;
    channel->awaited = false;
    if (is_cut(link, way)) {
        channel->stalled = true;
        return;
    }
    struct message *message = messages_pop(&channel->under_way);
    await_first(world, client, slot, way);
    if (way == WAY_REQUESTS)
        arrive_at_node(world, link, message);
    else
        arrive_at_client(world, link, message);
}

/* ---- sending --------------------------------------------------------------------------------- */

void wire_connect(struct world *world, unsigned client, unsigned slot) {
    struct link *link = &world->actor[client].link[slot];
    wire_reset(world, client, slot);
    struct message *connect = message_new(world);
    connect->what = MESSAGE_CONNECT;
    connect->client = (uint8_t)client;
    connect->slot = (uint8_t)slot;
    connect->connection = link->connection;
    put(world, connect, WAY_REQUESTS, draw_delay(world, link));
}

/* TCP knows no commands: the first of two may arrive before the second. */
static void send_in_pieces(struct world *world, struct link *link, struct message *request) {
    struct message *first = message_new(world);
    *first = *request;
    first->next = NULL;
    first->part = PART_FIRST;
    request->part = PART_SECOND;
    put(world, first, WAY_REQUESTS, draw_delay(world, link));
}

void wire_send(struct world *world, struct message *request) {
    struct link *link = link_of(world, request);
    request->connection = link->connection;
    bool two = request->guarded && request->op == NET_ACQUIRE && request->keys_count == 1;
    if (two && random_chance(&link->random, world->options.split_ppm))
        send_in_pieces(world, link, request);
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

void wire_announce(struct world *world, unsigned client, unsigned slot, bool all) {
    struct link *link = &world->actor[client].link[slot];
    const struct world_link *how = &world->options.link;
    struct message *announcement = message_new(world);
    announcement->what = MESSAGE_ANNOUNCEMENT;
    announcement->all = all;
    announcement->client = (uint8_t)client;
    announcement->slot = (uint8_t)slot;
    announcement->connection = link->connection;
    put(world, announcement, WAY_ANSWERS,
        random_between(&link->announcements_random, how->delay_min, how->delay_max));
}

static bool is_prompt(const struct channel *channel, rl_ns now) {
    return !channel->stalled && channel->last <= now + 300 * RL_MS;
}

bool node_is_in_touch(const struct world *world, unsigned node) {
    const struct server *server = &world->server[node];
    if (!server->up || server->paused || server->mode != REDLOCK_VERDICT_GRANTED) return false;
    for (unsigned client = 0; client < world->options.clients; client++) {
        const struct actor *actor = &world->actor[client];
        for (unsigned slot = 0; slot < actor->slots && !actor->crashed; slot++) {
            const struct link *link = &actor->link[slot];
            if (link->node != node) continue;
            if (actor->paused || link->cut || link->old || link->delay_next > 0) return false;
            if (!is_prompt(&link->requests, world->now) || !is_prompt(&link->answers, world->now))
                return false;
        }
    }
    return true;
}

/* ---- faults --------------------------------------------------------------------------------- */

static void record_link(struct world *world, enum history_kind kind, unsigned client, unsigned node,
                        int64_t value) {
    struct history_record record = world_record(world, kind);
    record.client = (int8_t)client;
    record.node = (int8_t)node;
    record.value = value;
    world_write(world, &record);
}

typedef void link_fn(struct world *world, unsigned client, unsigned slot, int64_t number);

/* A node that a client lists twice has two connections with it. */
static void each_link(struct world *world, unsigned client, unsigned node, link_fn *fn,
                      int64_t number) {
    for (unsigned slot = 0; slot < world->actor[client].slots; slot++)
        if (world->actor[client].link[slot].node == node) fn(world, client, slot, number);
}

static void cut_one(struct world *world, unsigned client, unsigned slot, int64_t way) {
    world->actor[client].link[slot].cut |= (unsigned)way;
}

void link_cut(struct world *world, unsigned client, unsigned node, enum link_way way) {
    record_link(world, HISTORY_CUT, client, node, way);
    each_link(world, client, node, cut_one, way);
}

/* Messages that waited at the cut arrive one delay later, and later messages not before them. */
static void heal_way(struct world *world, unsigned client, unsigned slot, enum way way) {
    struct link *link = &world->actor[client].link[slot];
    struct channel *channel = channel_of(link, way);
    if (!channel->stalled) return;
    channel->stalled = false;
    rl_ns soonest = world->now + draw_delay(world, link);
    for (struct message *message = channel->under_way.head; message; message = message->next)
        if (message->arrives_at < soonest) message->arrives_at = soonest;
    if (channel->last < soonest) channel->last = soonest;
    await_first(world, client, slot, way);
}

static void heal_one(struct world *world, unsigned client, unsigned slot, int64_t number) {
    (void)number;
    world->actor[client].link[slot].cut = 0;
    heal_way(world, client, slot, WAY_REQUESTS);
    heal_way(world, client, slot, WAY_ANSWERS);
    heal_way(world, client, slot, WAY_HINTS);
}

void link_heal(struct world *world, unsigned client, unsigned node) {
    record_link(world, HISTORY_HEALED, client, node, 0);
    each_link(world, client, node, heal_one, 0);
}

void wire_heal_all(struct world *world) {
    for (unsigned client = 0; client < world->options.clients; client++) {
        for (unsigned slot = 0; slot < world->actor[client].slots; slot++) {
            struct link *link = &world->actor[client].link[slot];
            link->delay_next = 0;
            link->lose_next_answer = false;
            if (link->cut) link_heal(world, client, link->node);
        }
    }
}

static void learn_of_break(struct world *world, void *argument, int64_t number) {
    unsigned client = (unsigned)(number >> 8) & 0xff, slot = (unsigned)number & 0xff;
    struct actor *actor = &world->actor[client];
    (void)argument;
    if (actor->crashed || actor->link[slot].connection != (uint32_t)(number >> 16)) return;
    struct message *bye = message_new(world);
    bye->what = MESSAGE_BYE;
    bye->client = (uint8_t)client;
    bye->slot = (uint8_t)slot;
    bye->connection = actor->link[slot].connection;
    net_receive(actor->net, bye);
    actor_drive(world, client);
}

static void break_one(struct world *world, unsigned client, unsigned slot, int64_t number) {
    struct link *link = &world->actor[client].link[slot];
    (void)number;
    link->open = false;
    drop_under_way(world, link, WAY_REQUESTS);
    drop_under_way(world, link, WAY_ANSWERS);
    int64_t which = (int64_t)link->connection << 16 | (int64_t)client << 8 | (int64_t)slot;
    world_at(world, world->now, learn_of_break, NULL, which);
}

void link_break(struct world *world, unsigned client, unsigned node) {
    each_link(world, client, node, break_one, 0);
}

static void delay_one(struct world *world, unsigned client, unsigned slot, int64_t delay) {
    world->actor[client].link[slot].delay_next = delay;
}

void link_delay(struct world *world, unsigned client, unsigned node, rl_ns delay) {
    each_link(world, client, node, delay_one, delay);
}

static void lose_one(struct world *world, unsigned client, unsigned slot, int64_t number) {
    (void)number;
    world->actor[client].link[slot].lose_next_answer = true;
}

void link_lose_next_answer(struct world *world, unsigned client, unsigned node) {
    each_link(world, client, node, lose_one, 0);
}
