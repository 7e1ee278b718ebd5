/* SPDX-License-Identifier: BSD-2-Clause
 *
 * One worker, a process that runs scripts: its channel, and the time for which it has been
 * computing. It computes from the frame that the gateway sends until a whole frame has come back.
 * At any other time it must not send anything.
 */
#ifndef SERVE_WORKER_H
#define SERVE_WORKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "script_wire.h"

struct event;
struct evbuffer;
struct workers;
struct worker_task;

enum worker_state {
    WORKER_ABSENT,
    WORKER_STARTING,
    WORKER_WAITS, /* for the gateway */
    WORKER_COMPUTES
};

struct worker {
    struct workers *workers;
    unsigned slot;
    enum worker_state state;
    struct worker_task *task; /* the task that it works for; NULL: none yet */
    int channel;
    struct event *readable, *writable, *timer;
    struct evbuffer *out;
    char *frame; /* the part of the next frame that has arrived */
    size_t frame_bytes, frame_capacity;
    clockid_t clock;     /* of its processor time */
    int64_t began_ns;    /* while computing: the start, */
    int64_t consumed_ns; /* and its processor time at the start */
    /* while computing: it has taken so long that other tasks no longer wait for its end */
    bool overtaken;
    uint64_t used; /* larger: used later */
};

/* ---- for workers.c ---- */

/* Makes a worker on a channel of spawner_start(), which it owns from now on. False: out of memory.
 */
bool worker_open(struct worker *worker, int channel);
void worker_close(struct worker *worker);
/* Sends a frame and empties the buffer; the worker computes from here on. If the process is gone,
 * its channel reports so soon. */
void worker_send(struct worker *worker, struct evbuffer *frame);
/* The processor time that it has taken since the frame was sent. */
int64_t worker_consumed_ns(const struct worker *worker);
/* Sets the time at which workers_overdue() is called, unless a frame has come. */
void worker_watch(struct worker *worker, int64_t after_ns);

#endif
