/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The queue of future events, ordered by (time, order of calls). It is never ordered by an address:
 * runs would differ between machines.
 */
#ifndef SIM_EVENTS_H
#define SIM_EVENTS_H

#include "world.h"

struct event {
    rl_ns at;
    uint64_t sequence;
    world_fn *fn;
    void *argument;
    int64_t number;
};

struct events {
    struct event *heap;
    size_t count, capacity;
    uint64_t sequence;
};

void events_clear(struct events *events); /* keeps the memory */
void events_free(struct events *events);
/* Aborts when memory is out: a run with a missing event proves nothing. */
void events_add(struct events *events, rl_ns at, world_fn *fn, void *argument, int64_t number);
/* False: no event is due up to `until`. */
bool events_take(struct events *events, rl_ns until, struct event *event);

#endif
