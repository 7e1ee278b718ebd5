/* SPDX-License-Identifier: BSD-2-Clause */
#include "events.h"

#include <stdlib.h>

#include "memory.h"

void events_clear(struct events *events) {
    events->count = 0;
    events->sequence = 0;
}

void events_free(struct events *events) {
    free(events->heap);
    *events = (struct events){0};
}

static bool sooner(const struct event *a, const struct event *b) {
    return a->at != b->at ? a->at < b->at : a->sequence < b->sequence;
}

void events_add(struct events *events, rl_ns at, world_fn *fn, void *argument, int64_t number) {
    struct event event = {at, events->sequence++, fn, argument, number};
    if (events->count == events->capacity)
        events->heap = memory_grow(events->heap, &events->capacity, sizeof(events->heap[0]), 256);
    size_t at_index = events->count++;
    while (at_index > 0) {
        size_t parent = (at_index - 1) / 2;
        if (!sooner(&event, &events->heap[parent])) break;
        events->heap[at_index] = events->heap[parent];
        at_index = parent;
    }
    events->heap[at_index] = event;
}

bool events_take(struct events *events, rl_ns until, struct event *event) {
    if (events->count == 0 || events->heap[0].at > until) return false;
    *event = events->heap[0];
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
    return true;
}
