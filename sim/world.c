/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The simulated world (see world.h): its options, its beginning and end, its time, its history.
 */
#include "world.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "inside.h"
#include "steps.h"

static struct world *current; /* net_open() has no argument for the world */

struct world *world_current(void) {
    return current;
}

/* ---- options --------------------------------------------------------------------------------- */

void world_options_init(struct world_options *options) {
    *options = (struct world_options){
        .seed = 1,
        .nodes = 5,
        .clients = 2,
        .resources = 1,
        .link = {.delay_min = RL_MS / 2, .delay_max = RL_MS * 3 / 2},
        .record_messages = 1,
    };
    for (unsigned i = 0; i < WORLD_CLIENTS_MAX; i++) {
        struct world_client_options *client = &options->client[i];
        redlock_client_options_init(&client->client);
        redlock_lock_options_init(&client->lock);
        client->client.service_thread = 0; /* a thread would make runs differ */
        client->client.mode = REDLOCK_MODE_CLASSIC;
        client->lock.ttl_ms = 10000;
        client->lock.renew = 0;
        client->clock_ppm = CLOCK_TRUE;
        client->twice_listed = -1;
    }
}

/* ---- beginning and end ---------------------------------------------------------------------- */

struct world *world_new(void) {
    struct world *world = memory_new(sizeof(*world));
    for (unsigned i = 0; i < RL_NODES_MAX; i++) {
        world->server[i].world = world->old[i].world = world;
        world->server[i].node = world->old[i].node = i;
        world->old[i].old = true;
        snprintf(world->server[i].url, sizeof(world->server[i].url), "redis://n%u", i + 1);
    }
    return world;
}

void world_free(struct world *world) {
    if (!world) return;
    if (world->running) world_end(world);
    servers_free(world);
    free(world->events.heap);
    messages_free(world);
    for (unsigned i = 0; i < WORLD_CLIENTS_MAX; i++) free(world->actor[i].actions);
    free(world->updates);
    if (current == world) current = NULL;
    free(world);
}

void world_begin(struct world *world, const struct world_options *options,
                 struct history *history) {
    assert(!world->running && options->nodes >= 1 && options->nodes <= RL_NODES_MAX);
    assert(options->clients <= WORLD_CLIENTS_MAX && options->resources <= WORLD_RESOURCES_MAX);
    world->options = *options;
    world->history = history;
    history_clear(history);
    history->clients = options->clients;
    history->nodes = options->nodes;
    history->resources = options->resources;
    history->others = options->others;
    history->refused = history->guarded = 0;
    for (unsigned i = 0; i < options->clients; i++) {
        const struct world_client_options *client = &options->client[i];
        if (client->refused) history->refused |= UINT32_C(1) << i;
        if (client->client.mode == REDLOCK_MODE_GUARDED) history->guarded |= UINT32_C(1) << i;
    }
    world->now = 0;
    world->events.count = 0;
    world->events.sequence = 0;
    messages_begin(world);
    world->updates_count = 0;
    memset(world->reg, 0, sizeof(world->reg));
    world->reports = (struct world_reports){NULL, NULL, NULL};
    memset(world->asked, 0, sizeof(world->asked));
    world->lists_count = 0;
    current = world;
    world->running = true;
    memset(world->steps_keys, 0, sizeof(world->steps_keys));
    world->steps_changed = 0;
    world->bodies_count = 0;
    world->options.steps = NULL; /* only now does the run begin */
    servers_begin(world);
    actors_begin(world);
    world->options.steps = options->steps;
    steps_begin(world);
}

void world_end(struct world *world) {
    if (!world->running) return;
    struct history_record record = world_record(world, HISTORY_END);
    world_write(world, &record);
    steps_end(world);
    actors_end(world);
    world->running = false;
}

void world_heal(struct world *world) {
    servers_heal(world);
    wire_heal_all(world);
    world->options.link.tail_ppm = 0;
    world->options.link.request_loss_ppm = world->options.link.reply_loss_ppm = 0;
    /* A clock that is slightly fast or slow stays so: that is not a fault, since drift allows for
     * it. */
    for (unsigned i = 0; i < world->options.clients; i++) actor_resume(world, i);
    struct history_record record = world_record(world, HISTORY_FAULTS_END);
    world_write(world, &record);
}

/* ---- time -------------------------------------------------------------------------------- */

rl_ns world_now(const struct world *world) { return world->now; }
uint64_t world_messages(const struct world *world) { return world->messages_count; }

static bool sooner(const struct event *a, const struct event *b) {
    return a->at != b->at ? a->at < b->at : a->sequence < b->sequence;
}

void world_at(struct world *world, rl_ns at, world_fn *fn, void *argument, int64_t number) {
    struct events *events = &world->events;
    struct event event = {at > world->now ? at : world->now, events->sequence++, fn, argument,
                          number};
    if (events->count == events->capacity)
        events->heap = memory_grow(events->heap, &events->capacity, sizeof(events->heap[0]), 256);
    size_t hole = events->count++;
    while (hole > 0) {
        size_t parent = (hole - 1) / 2;
        if (!sooner(&event, &events->heap[parent])) break;
        events->heap[hole] = events->heap[parent];
        hole = parent;
    }
    events->heap[hole] = event;
}

/* The heap is not empty. */
static struct event take_first(struct events *events) {
    const struct event first = events->heap[0];
    struct event last = events->heap[--events->count];
    size_t hole = 0;
    for (;;) {
        size_t child = 2 * hole + 1;
        if (child >= events->count) break;
        if (child + 1 < events->count && sooner(&events->heap[child + 1], &events->heap[child]))
            child++;
        if (!sooner(&events->heap[child], &last)) break;
        events->heap[hole] = events->heap[child];
        hole = child;
    }
    events->heap[hole] = last;
    return first;
}

void world_run_until(struct world *world, rl_ns until) {
    while (world->events.count > 0 && world->events.heap[0].at <= until) {
        struct event event = take_first(&world->events);
        world->now = event.at;
        event.fn(world, event.argument, event.number);
    }
    if (until > world->now) world->now = until;
}

void world_report_to(struct world *world, void *owner, const struct world_reports *reports) {
    world->owner = owner;
    world->reports = *reports;
}
void *world_owner(const struct world *world) { return world->owner; }

/* ---- the history ----------------------------------------------------------------------------- */

struct history_record world_record(const struct world *world, enum history_kind kind) {
    return (struct history_record){
        .at = world->now, .kind = (uint8_t)kind, .client = -1, .node = -1, .resource = -1};
}

void world_write(struct world *world, const struct history_record *record) {
    history_add(world->history, record);
    steps_record(world, record);
}

/* A request for any slot, or for a reader's place, is there for what it asks for. */
static uint8_t op_in_history(uint8_t op) {
    switch ((enum net_op)op) {
    case NET_ACQUIRE_SLOT:
    case NET_SHARE: return NET_ACQUIRE;
    case NET_SHARE_EXTEND: return NET_EXTEND;
    case NET_SHARE_RELEASE: return NET_RELEASE;
    default: return op;
    }
}

void world_write_message(struct world *world, enum history_kind kind,
                         const struct message *message) {
    steps_message(world, kind, message);
    if (!world->options.record_messages || message->what != MESSAGE_REQUEST) return;
    struct history_record record = world_record(world, kind);
    record.client = (int8_t)message->client;
    record.node = (int8_t)link_of(world, message)->node;
    record.resource = (int8_t)(message->keys_count > 0 ? message->keys[0] : -1);
    record.op = op_in_history(message->op);
    record.result = kind == HISTORY_SENT || kind == HISTORY_DROPPED ? 0 : message->verdict;
    record.token = message->token;
    record.value = message->fence;
    record.message = message->number;
    world_write(world, &record);
}
