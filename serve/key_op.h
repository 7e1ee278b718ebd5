/* SPDX-License-Identifier: BSD-2-Clause
 *
 * One at a time for each key: a command, a script or a transaction takes the key, makes its calls
 * one after the other and gives the key back. Others, at other gateways, may change the key
 * meanwhile. So an effect is done to the very token that this operation has seen, and where that is
 * no longer there, the operation begins anew: nothing has been done yet.
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

/* What is done: a call, or the end with its result. `answer` is that to the last call; NULL: begin,
 * or begin anew. WAITS: it is said later, by key_op_said(). */
typedef enum script_step key_op_program(struct key_op *op, const struct script_value *answer,
                                        struct script_call *call, struct script_value *result);
/* The key is given back already; `result` lives until this returns. */
typedef void key_op_over(struct key_op *op, const struct script_value *result);

struct key_op {
    struct gateway *gateway;
    struct key *key;            /* NULL: there is none */
    TAILQ_ENTRY(key_op) queued; /* in the key's queue */
    TAILQ_ENTRY(key_op) ready;
    bool running, is_ready;
    key_op_program *program;
    key_op_over *over;
    struct observation observation; /* what this operation knows of the key; NONE: nothing yet */
    bool watched; /* `observation` is what WATCH has seen: where it is no longer so ... */
    bool changed; /* ... this is set, and nothing is begun anew */
    unsigned calls, effects, restarts, peeks, tries;
    int64_t since_ns; /* it is queued, then: the step under way has begun */
    struct script_call call;
    struct redlock_lock *lock; /* of the step under way, unless the kept one serves */
    struct redlock_view *views;
    char text[1024]; /* an error's sentence */
};

/* Operations that may begin, once whoever gave the key back has returned. */
TAILQ_HEAD(key_op_queue, key_op);
struct ops {
    struct event *event;
    struct key_op_queue ready;
};
bool key_ops_open(struct gateway *gateway);
void key_ops_close(struct gateway *gateway);

/* Asks for the key; it may be over before this returns. *observation is what WATCH has seen, or
 * NULL. False: out of memory. */
bool key_op_begin(struct key_op *op, struct gateway *gateway, struct script_bytes key,
                  const struct observation *watched, key_op_program *program, key_op_over *over);
/* What the program that said WAITS wants to be done. */
void key_op_said(struct key_op *op, enum script_step step, const struct script_call *call,
                 const struct script_value *result);
/* Nobody waits for it any more: true when it had not begun and is forgotten, false when it goes on
 * to its end. */
bool key_op_abandon(struct key_op *op);

/* ---- for step.c ---- */

/* Goes on with the answer to the call. */
void key_op_go(struct key_op *op, const struct script_value *answer);
/* The lock that this operation has seen was another by the time; `answer` is for an operation that
 * cannot begin anew. */
void key_op_late(struct key_op *op, const struct script_value *answer);

#endif
