/* SPDX-License-Identifier: BSD-2-Clause
 *
 * One worker, a process that runs scripts: its channel, and how long it has been computing. It
 * computes from the frame that it is sent until a whole frame has come back; at any other time
 * nothing may come from it.
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
    WORKER_WAITS, /* for us */
    WORKER_COMPUTES
};

struct worker {
    struct workers *workers;
    unsigned slot;
    enum worker_state state;
    struct worker_task *task; /* whose it is; NULL: nobody's yet */
    int channel;
    struct event *readable, *writable, *timer;
    struct evbuffer *out;
    char *frame; /* what has come of the next one */
    size_t frame_bytes, frame_capacity;
    clockid_t clock;     /* of its processor time */
    int64_t began_ns;    /* computing: when, */
    int64_t consumed_ns; /* and what its processor time was */
    bool overtaken; /* computing: it has been at it for so long that others do not wait for its end
                     */
    uint64_t used;  /* larger: later */
};

/* ---- for workers.c ---- */

/* On a channel that spawner_start() made, which it takes over. False: out of memory. */
bool worker_open(struct worker *worker, int channel);
void worker_close(struct worker *worker);
/* Sends a frame, which is emptied. From here on it computes. If it is gone, its channel says so
 * soon. */
void worker_send(struct worker *worker, struct evbuffer *frame);
/* Processor time that it has taken since the frame was sent. */
int64_t worker_consumed_ns(const struct worker *worker);
/* workers_overdue() is called then, unless a frame has come. */
void worker_watch(struct worker *worker, int64_t after_ns);

#endif
