/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The processes that run clients' scripts. A worker belongs to one connection from its first script
 * on. Whatever a script does to the interpreter, no other client's script runs in that process.
 * Workers are few, so an idle one ends when another connection needs one; a spare is kept ready.
 */
#ifndef SERVE_WORKERS_H
#define SERVE_WORKERS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "spawner.h"
#include "worker.h"

struct event;
struct gateway;
struct worker_task;

/* RUN: the processor time of one script, its compilation included. Typical scripts need about 20
 * us; sanitizers make them slower. STEP: the time that one step may last when other processes take
 * the processor, or when the worker does nothing. */
#ifdef SCRIPT_SANITIZED
#define WORKERS_RUN_MS 100
#else
#define WORKERS_RUN_MS 5
#endif
#define WORKERS_STEP_MS 1000

struct workers_count {
    uint64_t known;   /* runs of known scripts */
    uint64_t runs;    /* runs by a worker */
    uint64_t overdue; /* workers that were ended because a script took too long */
    uint64_t died;    /* workers that ended by themselves */
    uint64_t started;
};

struct workers {
    struct gateway *gateway;
    struct spawner spawner;
    struct event *spawner_ends, *refuses, *retries;
    struct worker slots[SPAWNER_SLOTS];
    uint64_t uses;
    TAILQ_HEAD(worker_queue, worker_task) queue; /* tasks whose question waits */
    unsigned computing, computing_max;
    int64_t share_ns;  /* the cost of the scripts of the connection that was served last */
    unsigned failures; /* failed starts in a row */
    bool complained;
    bool none; /* no worker can be started, permanently */
    struct workers_count count;
};

/* The number of workers that exist now. */
unsigned workers_running(const struct workers *workers);

bool workers_open(struct gateway *gateway);
void workers_close(struct gateway *gateway);

/* ---- for worker.c ---- */

/* Takes a whole frame, from malloc(), and owns it. */
void workers_heard(struct worker *worker, char *frame, size_t bytes);
/* The worker has ended, or has sent an invalid message. */
void workers_lost(struct worker *worker);
void workers_overdue(struct worker *worker);

/* ---- for worker_task.c ---- */

/* Returns a worker that is ready and belongs to no connection. NULL: none. */
struct worker *workers_spare(struct workers *workers);
/* Starts as many as are needed: one for each of `waiting`, and one more. */
void workers_provide(struct workers *workers, unsigned waiting);
/* Ends the worker, whatever it does. Its task, if any, has none from now on. */
void workers_end(struct worker *worker);
/* No worker can be had now. */
bool workers_are_absent(const struct workers *workers);

#endif
