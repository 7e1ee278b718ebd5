/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The simulated world (see world.h): its time, its history.
 */
#include "world.h"

#include "inside.h"
#include "steps.h"

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

/* ---- the clients ------------------------------------------------------------------------------
 */

const struct world_client_options *world_client_options(const struct world *world,
                                                        unsigned client) {
    return &world->options.client[client % WORLD_CLIENTS_MAX];
}

unsigned world_first_resource(const struct world *world, unsigned client) {
    const uint32_t alone = world->options.alone, hot = world->options.hot;
    if (world->names == WORLD_KEYS_MAX) return 0;
    return WORLD_KEYS_MAX + (client < alone ? client : alone + (client - alone) % hot);
}

int world_client_with(const struct world *world, unsigned resource, int before) {
    const uint32_t alone = world->options.alone, hot = world->options.hot;
    const unsigned number = resource - WORLD_KEYS_MAX;
    unsigned next = (unsigned)(before + 1);
    if (world->names > WORLD_KEYS_MAX) {
        if (number < alone && before >= 0) return -1;
        next = before < 0 ? number : (unsigned)before + hot;
    }
    return next < world->options.clients ? (int)next : -1;
}

/* ---- the history ----------------------------------------------------------------------------- */

struct history_record world_record(const struct world *world, enum history_kind kind) {
    return (struct history_record){
        .at = world->now, .kind = (uint8_t)kind, .client = -1, .node = -1, .resource = -1};
}

void world_write(struct world *world, const struct history_record *record) {
    history_add(world->history, record);
    world->above->record(world, record);
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
    record.value = message->fencing.fence;
    record.message = message->number;
    world_write(world, &record);
}
