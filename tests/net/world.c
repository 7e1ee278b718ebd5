/* SPDX-License-Identifier: BSD-2-Clause */
#include "world.h"

#include <stdio.h>
#include <string.h>

const char *verdict_text(int verdict) {
    switch (verdict) {
#define TEXT(name, value, text)                                                                    \
    case value: return text;
        REDLOCK_VERDICTS(TEXT)
#undef TEXT
    default: return "unknown";
    }
}

static void join_items(struct ask *ask, const struct net_reply *reply) {
    ask->value_bytes = 0;
    for (size_t i = 0; i < reply->items_count; i++) {
        assert_true(ask->value_bytes + reply->items[i].bytes + 1 <= WORLD_VALUE_MAX);
        memcpy(ask->value + ask->value_bytes, reply->items[i].data, reply->items[i].bytes);
        ask->value_bytes += reply->items[i].bytes;
        ask->value[ask->value_bytes++] = ' ';
    }
}

static void on_reply(void *context, struct net_call *call, const struct net_reply *reply) {
    struct world *world = context;
    struct ask *ask = call->owner;
    assert_false(call->busy);
    ask->verdicts[call->node] = reply->verdict;
    ask->done++;
    ask->order[call->node] = ++world->replies;
    ask->lost_before[call->node] = world->losses;
    ask->remaining_ms = reply->remaining_ms;
    ask->value_bytes = reply->value.bytes;
    if (reply->value.bytes > 0) memcpy(ask->value, reply->value.data, reply->value.bytes);
    ask->truncated = reply->truncated;
    ask->items += (unsigned)reply->items_count;
    ask->cursor = reply->cursor;
    ask->fence = reply->fence;
    ask->count = reply->count;
    ask->has_state = reply->state != NULL;
    if (reply->state) ask->reported = *reply->state;
    ask->has_fences = reply->fences != NULL;
    if (reply->fences && ask->fences)
        memcpy(ask->fences, reply->fences, RL_STRIPES * sizeof(*ask->fences));
    if (ask->request.op == NET_RECORD || ask->request.op == NET_SERVER_INFO) join_items(ask, reply);
    if (ask->then) ask_send(world, ask->then, rl_bit(call->node), 1000, 0);
}

static void on_node(void *context, unsigned node) { ((struct world *)context)->reported[node]++; }

static void on_log(void *context, int level, const char *text) {
    struct world *world = context;
    size_t used = strlen(world->log);
    snprintf(world->log + used, sizeof(world->log) - used, "%d %s\n", level, text);
}

static void on_wake(void *context, unsigned node, struct net_bytes key, int rank) {
    struct world *world = context;
    (void)node;
    if (rank < 0)
        world->changes++;
    else
        world->ranks++;
    world->rank = rank;
    snprintf(world->key, sizeof(world->key), "%.*s", (int)key.bytes,
             key.data ? (const char *)key.data : "");
}

static void on_changed(void *context, unsigned node) {
    (void)node;
    ((struct world *)context)->losses++;
}

struct net_options world_options(const char *nodes) {
    return (struct net_options){.nodes = nodes,
                                .connect_timeout = 1000 * RL_MS,
                                .stall_timeout = 5000 * RL_MS,
                                .log_level = REDLOCK_LOG_DEBUG};
}

void world_open(struct world *world, const struct net_options *options) {
    struct net_handlers handlers = {.reply = on_reply,
                                    .node = on_node,
                                    .log = on_log,
                                    .wake = on_wake,
                                    .changed = on_changed,
                                    .context = world};
    struct net_error error = {0};
    memset(world, 0, sizeof(*world));
    if (net_open(&world->net, options, &handlers, &error) != REDLOCK_OK)
        fail_msg("net_open: %s", error.text);
}

void world_open_urls(struct world *world, const char *nodes) {
    struct net_options options = world_options(nodes);
    world_open(world, &options);
}

void world_close(struct world *world) {
    net_close(world->net, false);
    world->net = NULL;
}

void world_turn(struct world *world, rl_ns until) {
    world->turns++;
    struct net_batch batch;
    rl_ns timer = net_next_timer(world->net);
    net_wait(world->net, timer < until ? timer : until, &batch);
    net_process(world->net, &batch);
}

void world_until(struct world *world, bool (*so)(struct world *, void *), void *context,
                 const char *what) {
    rl_ns end = net_now(world->net) + 5000 * RL_MS;
    while (!so(world, context)) {
        if (net_now(world->net) >= end)
            fail_msg("waited in vain until %s; log:\n%s", what, world->log);
        world_turn(world, end);
    }
}

void world_for(struct world *world, int64_t ms) {
    rl_ns end = net_now(world->net) + ms * RL_MS;
    while (net_now(world->net) < end) world_turn(world, end);
}

static bool is_ready(struct world *world, void *context) {
    rl_mask nodes = *(rl_mask *)context;
    return (net_ready(world->net, net_now(world->net)) & nodes) == nodes;
}

void world_until_ready(struct world *world, rl_mask nodes) {
    world_until(world, is_ready, &nodes, "the nodes are ready");
}

struct net_node_status world_node(struct world *world, unsigned node) {
    struct net_node_status status;
    net_node(world->net, node, net_now(world->net), &status);
    return status;
}

static bool has_verdict(struct world *world, void *context) {
    const int *wanted = context;
    return world_node(world, (unsigned)wanted[0]).verdict == wanted[1];
}

void world_until_verdict(struct world *world, unsigned node, int verdict) {
    int wanted[2] = {(int)node, verdict};
    world_until(world, has_verdict, wanted, verdict_text(verdict));
}

struct done_context {
    struct ask *ask;
    unsigned count;
};
static bool is_done(struct world *world, void *context) {
    (void)world;
    const struct done_context *wanted = context;
    return wanted->ask->done >= wanted->count;
}

void world_until_done(struct world *world, struct ask *ask, unsigned count) {
    struct done_context wanted = {ask, count};
    world_until(world, is_done, &wanted, "the calls are done");
}

void ask_init(struct ask *ask, enum net_op op, const char *keys, const char *token,
              int64_t ttl_ms) {
    size_t count = 0;
    memset(ask, 0, sizeof(*ask));
    while (*keys) {
        size_t bytes = strcspn(keys, " ");
        ask->keys[count++] = (struct net_bytes){keys, bytes};
        keys += bytes + strspn(keys + bytes, " ");
    }
    ask->request = (struct net_request){.op = op,
                                        .keys = ask->keys,
                                        .keys_count = count,
                                        .token = {token, strlen(token)},
                                        .ttl_ms = ttl_ms,
                                        .tells_holder = true};
    for (unsigned i = 0; i < RL_NODES_MAX; i++) ask->calls[i].owner = ask;
}

void ask_guard(struct ask *ask, const uint64_t *nonces, int64_t fence, const uint16_t *stripes,
               size_t count) {
    ask->request.nonces = nonces;
    ask->request.fence = fence;
    ask->request.stripes = stripes;
    ask->request.stripes_count = count;
}

rl_mask ask_send(struct world *world, struct ask *ask, rl_mask nodes, int64_t due_ms,
                 int64_t keep_ms) {
    rl_ns now = net_now(world->net);
    rl_mask taken = net_send(world->net, nodes, &ask->request, ask->calls, now + due_ms * RL_MS,
                             now + keep_ms * RL_MS);
    net_flush(world->net);
    return taken;
}

int ask_and_wait(struct world *world, struct ask *ask) {
    unsigned done = ask->done;
    assert_int_equal(ask_send(world, ask, 1, 1000, 5000), 1);
    world_until_done(world, ask, done + 1);
    return ask->verdicts[0];
}

int ask_one(struct world *world, enum net_op op, const char *keys, const char *token,
            int64_t ttl_ms) {
    struct ask ask;
    ask_init(&ask, op, keys, token, ttl_ms);
    return ask_and_wait(world, &ask);
}
