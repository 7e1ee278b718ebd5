/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The processes that run clients' scripts. A worker belongs to one connection from its first script
 * on. Whatever a script does to the interpreter, no other client's script runs in that process.
 * Workers are few, so an idle one ends when another connection needs one; a spare is kept ready.
 *
 * The number of workers that compute at the same time is limited to what the machine can bear. Of
 * the waiting connections, the one whose scripts have taken the least time so far goes first. So a
 * client's scripts delay that client. Others wait at most for the end of the step that is being
 * computed.
 */
#ifndef SERVE_WORKERS_H
#define SERVE_WORKERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>
#include <time.h>

#include "script/script_wire.h"
#include "script/spawner.h"

struct evbuffer;
struct event;
struct gateway;
struct worker;
struct workers;

/* RUN: the processor time of one script, its compilation included. Typical scripts need about 20
 * us; sanitizers make them slower. STEP: the time that one step may last when other processes take
 * the processor, or when the worker does nothing. */
#ifdef SCRIPT_SANITIZED
#define WORKERS_RUN_MS 100
#else
#define WORKERS_RUN_MS 5
#endif
#define WORKERS_STEP_MS 1000

enum worker_failure {
    WORKER_WORKED,
    WORKER_DIED,
    WORKER_OVERDUE,
    WORKER_NONE /* no worker can be started, or none that is confined */
};

/* A connection's use of the workers: one script at a time. All zero: it has never asked. */
struct worker_task {
    struct workers *workers; /* NULL: it has never asked */
    struct worker *worker;   /* the connection's; NULL: none now */
    TAILQ_ENTRY(worker_task) queued;
    bool waits; /* in the queue, with this question: */
    enum wire_kind question;
    struct evbuffer *frame;
    bool running; /* a script is under way, and its worker has its state; else the reason: */
    enum worker_failure failure;
    int64_t share_ns, run_ns; /* the cost of its scripts, and of this one */
    char *heard_frame;        /* the bytes that `message` points into */
    struct wire_message message;
    /* Called with the answer to a question. `message` lives until the next one, or task_end().
     * NULL: `failure` holds the reason. */
    void (*heard)(struct worker_task *task, const struct wire_message *message,
                  enum worker_failure failure);
};

enum worker_state {
    WORKER_ABSENT,
    WORKER_STARTING,
    WORKER_WAITS, /* for the gateway */
    WORKER_COMPUTES
};

/* One worker, a process that runs scripts: its channel, and the time for which it has been
 * computing. It computes from the frame that the gateway sends until a whole frame has come back.
 * At any other time it must not send anything. */
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

struct workers_count {
    uint64_t known;   /* runs of known scripts */
    uint64_t runs;    /* runs by a worker */
    uint64_t overdue; /* workers that were ended because a script took too long */
    uint64_t died;    /* workers that ended by themselves */
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

bool workers_open(struct gateway *gateway);
void workers_close(struct gateway *gateway);
/* The number of workers that exist now. */
unsigned workers_running(const struct workers *workers);

/* Asks for a load or a run, or gives an answer. `heard` gets the result later, never before this
 * returns. False: out of memory; or, for an answer, the worker is gone with the script: `failure`
 * holds the reason. */
bool task_ask(struct worker_task *task, struct workers *workers,
              const struct wire_message *message);
/* The script has ended, or its result is no longer needed. */
void task_end(struct worker_task *task);
/* The connection has closed. */
void task_close(struct worker_task *task);

/* ---- worker.c: its channel and its clock, for workers.c ---- */

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

/* ---- workers.c, for worker.c ---- */

/* Takes a whole frame, from malloc(), and owns it. */
void workers_heard(struct worker *worker, char *frame, size_t bytes);
/* The worker has ended, or has sent an invalid message. */
void workers_lost(struct worker *worker);
void workers_overdue(struct worker *worker);

#endif
