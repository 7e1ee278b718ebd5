/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The nodes: what a Redis server does with a request (by src/node/table.h, on the node's wall
 * clock). server_faults.c has their faults. A node executes a request in no time, in the order of
 * arrival over all its connections.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nodes.h"
#include "world/steps.h"

/* The incarnation of its node that a connection ends at. */
static struct server *server_of(struct world *world, const struct link *link) {
    return link->old ? &world->old[link->node] : &world->server[link->node];
}

/* ---- keys ------------------------------------------------------------------------------------ */

/* A key lives through the last millisecond of its TTL. */
static rl_ns end_of_key(const struct server *server, int64_t expires_ms) {
    if (expires_ms >= RL_NEVER / RL_MS - 1) return RL_NEVER;
    return clock_when(&server->clock, (expires_ms + 1) * RL_MS);
}

/* The lock of a native node does not. */
static rl_ns end_of_lock(const struct server *server, int64_t expires_ms) {
    if (expires_ms >= RL_NEVER / RL_MS - 1) return RL_NEVER;
    return clock_when(&server->boot, expires_ms * RL_MS);
}

static void look_for_ended(struct world *world, void *argument, int64_t number);
static void look_for_ended_locks(struct world *world, void *argument, int64_t number);

/* One event, at the earliest end or before it. */
static void await(struct server *server, rl_ns end, rl_ns *event, world_fn *look) {
    if (end >= *event || !server->up || server->paused || server->old) return;
    *event = end < server->world->now ? server->world->now : end;
    world_at(server->world, *event, look, NULL, server->node);
}

void server_await_expiry(struct server *server) {
    readers_look(server);
    await(server, end_of_key(server, node_next_expiry(server->keys)), &server->expiry_at,
          look_for_ended);
    if (server->native)
        await(server, end_of_lock(server, node_next_expiry(server->own)), &server->ends_at,
              look_for_ended_locks);
    world_fn *look;
    rl_ns next = turns_next(server, &look);
    await(server, next, &server->turns_at, look);
}

void server_forget_ends(struct server *server) {
    server->expiry_at = server->ends_at = server->turns_at = RL_NEVER;
}

static void look_for_ended(struct world *world, void *argument, int64_t number) {
    struct server *server = &world->server[number];
    (void)argument;
    if (world->now != server->expiry_at) return;
    server->expiry_at = RL_NEVER;
    if (!server->up || server->paused) return;
    node_expire_due(server->keys, server_wall_ms(server));
    server_await_expiry(server);
}

static void look_for_ended_locks(struct world *world, void *argument, int64_t number) {
    enum { PORTION = 2 }; /* as the module, which must not stop the server for long */
    struct server *server = &world->server[number];
    (void)argument;
    if (world->now != server->ends_at) return;
    server->ends_at = RL_NEVER;
    if (!server->up || server->paused || !server->native) return;
    while (node_expire_some(server->own, server_now_ms(server), PORTION) == PORTION) continue;
    server_await_expiry(server);
}

static void remember_change(struct server *server, unsigned resource, uint32_t token,
                            int64_t expires_ms) {
    if (resource >= WORLD_KEYS_MAX) return; /* nothing rolls the nodes of a fleet back */
    if (server->changes_count == server->changes_capacity)
        server->changes =
            memory_grow(server->changes, &server->changes_capacity, sizeof(server->changes[0]), 64);
    server->changes[server->changes_count++] =
        (struct change){server->world->now, (uint16_t)resource, token, expires_ms};
}

/* Of a key, or of a lock that is not one. */
static void on_any_change(struct server *server, bool own, enum node_change change,
                          struct node_bytes key, struct node_bytes token, int64_t expires_ms) {
    static const enum history_kind kinds[] = {
        [NODE_CHANGE_SET] = HISTORY_KEY_SET,         [NODE_CHANGE_EXTENDED] = HISTORY_KEY_EXTENDED,
        [NODE_CHANGE_DELETED] = HISTORY_KEY_DELETED, [NODE_CHANGE_EXPIRED] = HISTORY_KEY_EXPIRED,
        [NODE_CHANGE_LOST] = HISTORY_KEY_LOST,
    };
    struct world *world = server->world;
    int resource = resource_of(key.data, key.bytes);
    if (resource >= 0 && change != NODE_CHANGE_LOST)
        notify_changed(server, (unsigned)resource, change == NODE_CHANGE_EXPIRED);
    if (resource < 0 || server->old) return;
    uint32_t number = token_number(&world->tokens, (struct net_bytes){token.data, token.bytes});
    bool there = change == NODE_CHANGE_SET || change == NODE_CHANGE_EXTENDED;
    if (!own) remember_change(server, (unsigned)resource, there ? number : 0, expires_ms);
    const uint32_t owner = readers_hold(token) ? STEPS_MARKER : number;
    steps_key(world, server->node, change, (unsigned)resource, owner, expires_ms);
    steps_body_key(server, change, (unsigned)resource, owner, expires_ms);
    if (own != server->native) return; /* the keys of a native node are not its locks */
    struct history_record record = server_record(server, kinds[change]);
    record.resource = (int8_t)resource;
    record.token = number;
    if (there)
        record.until = own ? end_of_lock(server, expires_ms) : end_of_key(server, expires_ms);
    /* only where operators break locks: who deletes what is a question of its own there */
    const struct link *serving = change == NODE_CHANGE_DELETED ? world->serving : NULL;
    if (serving && (world->links[serving->client].broke >> resource & 1))
        record.client = (int8_t)serving->client;
    world_write(world, &record);
}

static void on_key_change(void *context, enum node_change change, struct node_bytes key,
                          struct node_bytes token, int64_t expires_ms) {
    on_any_change(context, false, change, key, token, expires_ms);
}

static void on_lock_change(void *context, enum node_change change, struct node_bytes key,
                           struct node_bytes token, int64_t expires_ms) {
    on_any_change(context, true, change, key, token, expires_ms);
    native_changed(context, change, key, token, expires_ms);
    if (change == NODE_CHANGE_DELETED || change == NODE_CHANGE_EXPIRED) turns_freed(context, key);
}

/* Servers differ in when a key ends, so these nodes do the worse for each request. */
static struct node_table *new_table(const struct node_options *options) {
    struct node_table *table = node_table_open(options);
    if (!table) abort();
    return table;
}

struct node_table *server_table_of(struct server *server, bool native) {
    return new_table(&(struct node_options){.native = native,
                                            .ends = NODE_ENDS_EITHER,
                                            .on_change = native ? on_lock_change : on_key_change,
                                            .context = server});
}

struct node_table *server_table_new(void) {
    return new_table(&(struct node_options){.ends = NODE_ENDS_EITHER});
}

/* ---- requests -------------------------------------------------------------------------------- */

/* The scripts read before they write, so the error comes only when the script would change
 * something. */
static bool would_change(struct server *server, const struct message *request) {
    const struct node_request what = node_request(server, request);
    size_t ours = 0;
    for (size_t i = 0; i < what.count; i++) {
        struct node_bytes held = node_get(server->table, what.keys[i], what.now_ms);
        ours += held.bytes == what.token.bytes && held.bytes > 0 &&
                memcmp(held.data, what.token.data, held.bytes) == 0;
    }
    return request->op == NET_EXTEND ? ours == what.count : ours > 0;
}

/* GRANTED: executes it. An OOM server still deletes and sets ends, and raises no fence. */
static int refusal(struct server *server, const struct message *request) {
    int mode = server_mode(server);
    if (mode == REDLOCK_VERDICT_GRANTED || server_refuses_all(server)) return mode;
    bool out_of_memory = mode == REDLOCK_VERDICT_OOM;
    /* A command of the module is refused by its flags, before it reads anything. */
    if (server->native && !request->stranger && !out_of_memory && net_op_is_write(request->op))
        return mode;
    if (server->native && !request->stranger && net_op_is_write(request->op) &&
        !net_op_is(request->op, NET_OP_GROWS))
        return REDLOCK_VERDICT_GRANTED;
    if (net_op_is(request->op, NET_OP_GROWS | (out_of_memory ? 0 : NET_OP_CHANGES))) return mode;
    if (!net_op_is_write(request->op)) return REDLOCK_VERDICT_GRANTED;
    /* Of these, an extension of a reader's place needs memory: its list is a sorted set. */
    if (request->op == NET_SHARE_EXTEND || request->op == NET_SHARE_RELEASE) {
        const bool passes = out_of_memory && request->op == NET_SHARE_RELEASE;
        return !passes && readers_would_change(server, request) ? mode : REDLOCK_VERDICT_GRANTED;
    }
    if (out_of_memory && !request->guarded) return REDLOCK_VERDICT_GRANTED;
    return would_change(server, request) ? mode : REDLOCK_VERDICT_GRANTED;
}

void server_acquire_slot(struct server *server, struct message *request) {
    struct net_bytes token = token_bytes(&server->world->tokens, request->token);
    const bool own = server->native && !request->stranger;
    struct node_slot_request what = {.names = server_slot_names(),
                                     .count = request->slots.count,
                                     .order = request->slots.order,
                                     .order_count = request->slots.order_count,
                                     .token = {token.data, token.bytes},
                                     .ttl_ms = request->ttl_ms,
                                     .nonce = request->fencing.nonce,
                                     .fence = request->fencing.fence,
                                     .stripes = request->guarded ? request->fencing.stripes : NULL};
    struct node_slot_answer answer =
        own ? turns_acquire_slot(server, request, &what)
            : node_acquire_slot(server->keys, &what, server_wall_ms(server));
    request->verdict = verdict_of(answer.answer);
    if (answer.other_count != 0) request->verdict = REDLOCK_VERDICT_OTHER_SLOTS;
    request->reply.slot = (uint8_t)answer.slot;
    request->reply.other_slots = (uint8_t)answer.other_count;
    if (answer.answer == NODE_DENIED && answer.other_count == 0)
        request->reply.remaining_ms = answer.remaining_ms;
    if (answer.slot != 0) request->keys[0] = (uint16_t)(WORLD_SLOT_FIRST + answer.slot - 1);
    server_await_expiry(server);
}

/* Commands and scripts on plain keys: on a stock node, or of another project. */
static enum node_answer write_keys(struct server *server, const struct message *request) {
    struct node_request what = node_request(server, request);
    struct node_table *table = server->keys;
    what.now_ms = server_wall_ms(server);
    if (request->op == NET_ACQUIRE)
        return node_acquire(table, what.keys, what.count, what.token, request->ttl_ms, what.now_ms);
    if (request->op == NET_EXTEND)
        return node_extend(table, what.keys, what.count, what.token, request->ttl_ms, what.now_ms);
    return node_release(table, what.keys, what.count, what.token, what.now_ms);
}

static enum node_answer write_locks(struct server *server, struct message *request) {
    const struct node_request what = node_request(server, request);
    struct node_table *table = server->own;
    if (request->op == NET_RELEASE) return native_release(server, &what);
    if (request->op == NET_ACQUIRE) return turns_acquire(server, request, &what, NULL);
    native_adopt(server, &what, request->ttl_ms);
    enum node_answer answer =
        node_extend(table, what.keys, what.count, what.token, request->ttl_ms, what.now_ms);
    if (answer == NODE_GRANTED) native_copy(server, &what);
    return answer;
}

void server_write_op(struct server *server, struct message *request) {
    bool own = server->native && !request->stranger;
    if (request->op == NET_ACQUIRE_SLOT) {
        server_acquire_slot(server, request);
        return;
    }
    if (net_op_is(request->op, NET_OP_READERS)) {
        readers_serve(server, request);
        return;
    }
    request->verdict = verdict_of(own ? write_locks(server, request) : write_keys(server, request));
    if (own && request->op == NET_ACQUIRE && request->verdict == REDLOCK_VERDICT_DENIED)
        native_deny(server, request);
    server_await_expiry(server);
}

static int64_t pttl_of(struct server *server, struct node_bytes key) {
    if (server->native) return native_pttl(server, key);
    return node_pttl(server->keys, key, server_wall_ms(server));
}

/* PTTL of the key that ends last; PEEK_VALUE has only one key, and returns its value too. */
void server_read(struct server *server, struct message *request) {
    request->reply.remaining_ms = -2;
    for (unsigned i = 0; i < request->keys_count; i++) {
        int64_t left = pttl_of(server, resource_key(request->keys[i]));
        bool later =
            left == -1 || (request->reply.remaining_ms != -1 && left > request->reply.remaining_ms);
        if (i == 0 || later == (request->slots.count == 0)) request->reply.remaining_ms = left;
    }
    request->verdict =
        request->reply.remaining_ms == -2 ? REDLOCK_VERDICT_ABSENT : REDLOCK_VERDICT_GRANTED;
    if (request->op != NET_PEEK_VALUE || request->reply.remaining_ms == -2) return;
    struct node_bytes key = resource_key(request->keys[0]),
                      value = server->native ? native_get(server, key)
                                             : node_get(server->keys, key, server_wall_ms(server));
    request->reply.value =
        token_number(&server->world->tokens, (struct net_bytes){value.data, value.bytes});
}

static void scan(struct server *server, struct message *request) {
    for (unsigned i = 0; i < server->world->options.resources; i++)
        if (pttl_of(server, resource_key(i)) != -2) request->reply.present |= (uint8_t)(1u << i);
    request->verdict = REDLOCK_VERDICT_GRANTED;
}

static void look_at_queue(struct server *server, struct message *request) {
    int64_t now_us = clock_read(&server->clock, server->world->now) / 1000;
    request->reply.count =
        queue_peek(&server->queue[request->keys[0]], now_us, &request->reply.age_us);
    request->verdict = REDLOCK_VERDICT_GRANTED;
}

static void execute(struct server *server, struct message *request) {
    const int refused = refusal(server, request);
    const enum net_subject subject = net_op_subject(request->op);
    request->reply.remaining_ms = -2;
    server->world->serving = link_of(server->world, request);
    if (refused != REDLOCK_VERDICT_GRANTED)
        request->verdict = (int16_t)refused;
    else if (request->guarded || subject == NET_OF_SERVER || subject == NET_OF_RECORD)
        server_guard_serve(server, request);
    else if (subject == NET_OF_WAITERS)
        notify_serve(server, request);
    else if (subject == NET_OF_LOCKS)
        server_write_op(server, request);
    else if (subject == NET_OF_OBSERVERS)
        announced_serve(server, request);
    else if (request->op == NET_SCAN)
        scan(server, request);
    else if (request->op == NET_WAIT_QUEUE_PEEK)
        look_at_queue(server, request);
    else if (request->op == NET_READERS)
        readers_count(server, request);
    else
        server_read(server, request);
    server->world->serving = NULL;
    steps_served(server, request);
    steps_read(server, request);
    if (request->part != PART_FIRST) world_write_message(server->world, HISTORY_ARRIVED, request);
}

static void shake_hands(struct server *server, struct message *connect) {
    struct link *link = link_of(server->world, connect);
    if (connect->connection !=
        link->connection) { /* the client closed it while the request was in the socket */
        message_free(server->world, connect);
        return;
    }
    connect->verdict = REDLOCK_VERDICT_GRANTED;
    connect->welcome.process = server->process;
    connect->welcome.native = link->native = server->native;
    link->old = server->old;
    if (!server->up)
        connect->verdict = REDLOCK_VERDICT_REFUSED;
    else if (server_refuses_all(server))
        connect->verdict = (int16_t)server->mode;
    link->open = connect->verdict == REDLOCK_VERDICT_GRANTED;
    if (server->world->options.guarded) connect->welcome.quorum = server_guard_quorum(server);
    link->guarded = link->guarded || (link->asks_quorum && connect->welcome.quorum != 0);
    link->announces =
        link->guarded && (server->world->options.unannounced & rl_bit(server->node)) == 0;
    wire_answer(server->world, connect);
}

void server_serve(struct server *server, struct message *request) {
    if (request->what == MESSAGE_CONNECT) {
        shake_hands(server, request);
        return;
    }
    if (request->what == MESSAGE_TRACK) {
        notify_track(server, request);
        return;
    }
    execute(server, request);
    if (request->part == PART_FIRST) /* the client takes both answers as one */
        message_free(server->world, request);
    else
        wire_answer(server->world, request);
}

/* A new connection reaches the present incarnation of the node. */
void server_receive(struct world *world, struct message *request) {
    const struct link *link = link_of(world, request);
    struct server *server =
        request->what == MESSAGE_CONNECT ? &world->server[link->node] : server_of(world, link);
    server->received += server->up && request->part != PART_FIRST;
    if (server->up && server->paused)
        messages_push(&server->backlog, request);
    else
        server_serve(server, request);
}

uint64_t node_received(const struct world *world, unsigned node) {
    return world->server[node].received;
}

/* ---- beginning and end ----------------------------------------------------------------------- */

static void make_room(struct world *world) {
    if (world->names <= world->names_room) return;
    world->names_room = world->names;
    for (unsigned i = 0; i < RL_NODES_MAX; i++) {
        free(world->server[i].queue);
        free(world->old[i].queue);
        world->server[i].queue = memory_new(world->names * sizeof(struct queue));
        world->old[i].queue = memory_new(world->names * sizeof(struct queue));
    }
}

void servers_begin(struct world *world) {
    make_room(world);
    if (!world->scratch) world->scratch = server_table_new();
    world->processes = world->waiters = world->replids = 0;
    world->serving = NULL;
    for (unsigned i = 0; i < world->options.nodes; i++) {
        struct server *server = &world->server[i];
        struct random random = random_named(world->options.seed, 100 + i);
        if (!server->keys) server->keys = server_table_of(server, false);
        server->table = server->keys;
        server->up = false; /* the keys of the last run are not recorded */
        server->paused = false;
        server->mode = REDLOCK_VERDICT_GRANTED;
        server->backlog = (struct messages){NULL, NULL};
        server->received = 0;
        server->counted = 0;
        server->changes_count = 0;
        readers_begin(server);
        server_forget_ends(server);
        server_forget_waiters(server);
        memset(server->announced, 0, sizeof(server->announced));
        rl_ns wall = WALL_BEGIN + random_between(&random, -WALL_SPREAD, WALL_SPREAD);
        server->clock = (struct sim_clock){0, wall, CLOCK_TRUE};
        server->boot = (struct sim_clock){0, BOOT_BEGIN + (rl_ns)i * 1000 * RL_MS, CLOCK_TRUE};
        size_t before = world->history->count;
        native_begin(server, false);
        node_flush_all(server->keys);
        world->history->count = before;
        server->changes_count = 0;
        server->up = true;
        native_begin(server, (world->options.native & rl_bit(i)) != 0);
        server->announcements_random = random_named(world->options.seed, 30000 + i);
        server->replicas = (world->options.replicas & rl_bit(i)) != 0;
        server_new_process(server);
        world->old[i].up = world->old[i].paused = false;
    }
    tokens_clear(&world->tokens); /* the tokens of the flushed keys */
    if (world->options.guarded) server_guard_begin(world);
}

void servers_free(struct world *world) {
    for (unsigned i = 0; i < RL_NODES_MAX; i++) {
        node_table_free(world->server[i].keys);
        node_table_free(world->server[i].own);
        node_table_free(world->old[i].keys);
        node_table_free(world->old[i].own);
        node_queue_free(world->server[i].turns);
        free(world->server[i].changes);
        free(world->server[i].queue);
        free(world->old[i].queue);
        readers_free(&world->server[i]);
        free(world->server[i].guard);
    }
    node_table_free(world->scratch);
}
