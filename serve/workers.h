/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The processes that run clients' scripts. A worker belongs to one connection from its first script
 * on: whatever a script does to the interpreter, no other client's script runs in that process.
 * There are few, so one that is not needed ends when another connection needs one; a spare is kept
 * ready.
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

/* Processor time of one script, compiling it included; scripts of the field need some 20 us,
 * sanitizers make them slower. And how long one step of it may last where others take the
 * processor, or where the process does nothing. */
#ifdef SCRIPT_SANITIZED
#define WORKERS_RUN_MS 100
#else
#define WORKERS_RUN_MS 5
#endif
#define WORKERS_STEP_MS 1000

struct workers_count {
    uint64_t known;   /* runs of scripts that are known by heart */
    uint64_t runs;    /* by a worker */
    uint64_t overdue; /* workers that were ended since a script took too long */
    uint64_t died;    /* workers that ended by themselves */
    uint64_t started;
};

struct workers {
    struct gateway *gateway;
    struct spawner spawner;
    struct event *spawner_ends, *refuses, *retries;
    struct worker slots[SPAWNER_SLOTS];
    uint64_t uses;
    TAILQ_HEAD(worker_queue, worker_task) queue; /* those whose question waits */
    unsigned computing, computing_max;
    int64_t share_ns;  /* what the scripts have cost of the connection that was served last */
    unsigned failures; /* starts in a row that came to nothing */
    bool complained;
    bool none; /* for good */
    struct workers_count count;
};

/* Those that there are at the moment. */
unsigned workers_running(const struct workers *workers);

bool workers_open(struct gateway *gateway);
void workers_close(struct gateway *gateway);

/* ---- for worker.c ---- */

/* A whole frame, from malloc(), which is ours from now on. */
void workers_heard(struct worker *worker, char *frame, size_t bytes);
/* It has ended, or sends what it should not. */
void workers_lost(struct worker *worker);
void workers_overdue(struct worker *worker);

/* ---- for worker_task.c ---- */

/* Ready, and nobody's. NULL: none. */
struct worker *workers_spare(struct workers *workers);
/* Starts as many as are wanted: one for each of `waiting`, and one more. */
void workers_provide(struct workers *workers, unsigned waiting);
/* Ends it, whatever it does. Its task, if any, has none from now on. */
void workers_end(struct worker *worker);
/* There are none to be had at the moment. */
bool workers_are_absent(const struct workers *workers);

#endif
