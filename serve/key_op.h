/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Operations on one key, one at a time. A command, a script or a transaction takes the key, makes
 * its calls one after the other and gives the key back. Clients of other gateways may change the
 * key meanwhile. An effect is therefore bound to the token that this operation has observed. If the
 * key holds another token by then, the operation restarts, because it has changed nothing yet.
 */
#ifndef SERVE_KEY_OP_H
#define SERVE_KEY_OP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include <redlock.h>

#include "script.h"
#include "observation.h"

struct event;
struct gateway;
struct key;
struct key_op;

/* A program decides the next step of an operation: a call, or the end with its result. `answer` is
 * the answer to the last call; NULL: begin, or begin anew. WAITS: the program reports the step
 * later, by key_op_said(). */
typedef enum script_step key_op_program(struct key_op *op, const struct script_value *answer,
                                        struct script_call *call, struct script_value *result);
/* Called at the end; the key has been given back. `result` lives until this returns. */
typedef void key_op_over(struct key_op *op, const struct script_value *result);

struct key_op {
    struct gateway *gateway;
    struct key *key;            /* NULL: the operation has none */
    TAILQ_ENTRY(key_op) queued; /* in the key's queue */
    TAILQ_ENTRY(key_op) ready;
    bool running, is_ready;
    key_op_program *program;
    key_op_over *over;
    struct observation observation; /* what this operation knows of the key; NONE: nothing yet */
    bool watched;                   /* `observation` comes from WATCH; if it no longer holds ... */
    bool changed;                   /* ... this is set, and the operation does not restart */
    unsigned calls, effects, restarts, peeks, tries;
    int64_t since_ns; /* the time it was queued; later, when the current step began */
    struct script_call call;
    struct redlock_lock *lock; /* of the current step, unless it uses the cached one */
    struct redlock_view *views;
    char text[1024]; /* the sentence of an error */
};

/* Operations that may begin, after the function that gave the key back has returned. */
TAILQ_HEAD(key_op_queue, key_op);
struct ops {
    struct event *event;
    struct key_op_queue ready;
};
bool key_ops_open(struct gateway *gateway);
void key_ops_close(struct gateway *gateway);

/* Asks for the key; the operation may end before this returns. *observation is what WATCH observed,
 * or NULL. False: out of memory. */
bool key_op_begin(struct key_op *op, struct gateway *gateway, struct script_bytes key,
                  const struct observation *watched, key_op_program *program, key_op_over *over);
/* Reports the next step of a program that answered WAITS. */
void key_op_said(struct key_op *op, enum script_step step, const struct script_call *call,
                 const struct script_value *result);
/* The result is no longer needed. True: the operation had not begun and is freed; false: it
 * continues to its end. */
bool key_op_abandon(struct key_op *op);

/* ---- step.c: the requests of an operation to the nodes: peek, acquire, extend, release ---- */

/* True: *value is the answer. False: the answer comes later, by key_op_go() or key_op_late(). */
bool step_call(struct key_op *op, const struct script_call *call, struct script_value *value);
/* Frees what the last step needed. */
void step_close(struct key_op *op);

/* ---- for step.c ---- */

/* Continues with the answer to the call. */
void key_op_go(struct key_op *op, const struct script_value *answer);
/* The lock that this operation observed was replaced before the effect. `answer` is for an
 * operation that cannot restart. */
void key_op_late(struct key_op *op, const struct script_value *answer);

#endif
