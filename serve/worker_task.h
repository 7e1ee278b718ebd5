/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A connection's use of the workers: one script at a time.
 *
 * The number of workers that compute at the same time is limited to what the machine can bear. Of
 * the waiting connections, the one whose scripts have taken the least time so far goes first. So a
 * client's scripts delay that client. Others wait at most for the end of the step that is being
 * computed.
 */
#ifndef SERVE_WORKER_TASK_H
#define SERVE_WORKER_TASK_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "script_wire.h"

struct evbuffer;
struct worker;
struct workers;

enum worker_failure {
    WORKER_WORKED,
    WORKER_DIED,
    WORKER_OVERDUE,
    WORKER_NONE /* no worker can be started, or none that is confined */
};

/* All zero: it has never asked. */
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

/* Asks for a load or a run, or gives an answer. `heard` gets the result later, never before this
 * returns. False: out of memory; or, for an answer, the worker is gone with the script: `failure`
 * holds the reason. */
bool task_ask(struct worker_task *task, struct workers *workers,
              const struct wire_message *message);
/* The script has ended, or its result is no longer needed. */
void task_end(struct worker_task *task);
/* The connection has closed. */
void task_close(struct worker_task *task);

/* ---- for workers.c ---- */

/* Starts the tasks that are due. */
void tasks_advance(struct workers *workers);
/* Reports to the tasks without a worker that none can be had. */
void tasks_refuse(struct workers *workers);
/* Its worker has computed, at this cost. */
void task_charge(struct worker_task *task, int64_t cost_ns);
/* Its worker has ended, while it computed for the task (`computed`) or not. */
void task_lost(struct worker_task *task, bool computed, enum worker_failure failure);
/* Takes the frame that its worker has sent, and owns it. False: it does not answer the question. */
bool task_read(struct worker_task *task, char *frame, size_t bytes);
void task_hear(struct worker_task *task);

#endif
