/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What a connection has of the workers: one script at a time.
 *
 * No more workers compute at a time than the machine can bear. Of the connections that wait, the
 * one goes first whose scripts have taken the least time so far. So what one client's scripts cost
 * is its own delay; others wait for the end of the step that is being computed, at most.
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
    WORKER_NONE /* there are none to be had, or none that are confined */
};

/* All zero: it has never asked. */
struct worker_task {
    struct workers *workers; /* NULL: it has never asked */
    struct worker *worker;   /* the connection's; NULL: none at the moment */
    TAILQ_ENTRY(worker_task) queued;
    bool waits; /* in the queue, with this question: */
    enum wire_kind question;
    struct evbuffer *frame;
    bool running; /* a script is under way, and its worker has its state; else why not: */
    enum worker_failure failure;
    int64_t share_ns, run_ns; /* what its scripts have cost, and this one */
    char *heard_frame;        /* what `message` is in */
    struct wire_message message;
    /* What came of a question. `message` lives until the next one, or task_end(). NULL: `failure`
     * says why. */
    void (*heard)(struct worker_task *task, const struct wire_message *message,
                  enum worker_failure failure);
};

/* Asks for a load or a run, or gives an answer. What comes of it is heard later, never before this
 * returns. False: out of memory; or, for an answer, the worker is gone with the script: `failure`
 * says why. */
bool task_ask(struct worker_task *task, struct workers *workers,
              const struct wire_message *message);
/* The script is over, or nobody wants to know. */
void task_end(struct worker_task *task);
/* The connection is gone. */
void task_close(struct worker_task *task);

/* ---- for workers.c ---- */

/* Lets those compute whose turn it is. */
void tasks_advance(struct workers *workers);
/* Those that wait for a worker of their own hear that there is none. */
void tasks_refuse(struct workers *workers);
/* Its worker has computed, and it has cost so much. */
void task_charge(struct worker_task *task, int64_t cost_ns);
/* Its worker is gone, which was computing for it or not. */
void task_lost(struct worker_task *task, bool computed, enum worker_failure failure);
/* The frame that its worker has sent, which is the task's from now on. False: it does not answer
 * the question. */
bool task_read(struct worker_task *task, char *frame, size_t bytes);
void task_hear(struct worker_task *task);

#endif
