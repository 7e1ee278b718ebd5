/* SPDX-License-Identifier: BSD-2-Clause
 *
 * One at a time for each key: a command, a script or a transaction takes its turn, makes its calls
 * one after the other and gives the turn back. Others, at other gateways, may change the key
 * meanwhile. So an effect is done to the very token that this turn has seen, and where that is no
 * longer there, the turn begins anew: nothing has been done yet.
 */
#ifndef SERVE_TURN_H
#define SERVE_TURN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include <redlock.h>

#include "script.h"
#include "sight.h"

struct event;
struct gateway;
struct key;
struct turn;

/* What is done: a call, or the end with its result. `answer` is that to the last call; NULL: begin,
 * or begin anew. WAITS: it is said later, by turn_said(). */
typedef enum script_step turn_program(struct turn *turn, const struct script_value *answer,
                                      struct script_call *call, struct script_value *result);
/* The turn is given back already; `result` lives until this returns. */
typedef void turn_over(struct turn *turn, const struct script_value *result);

struct turn {
    struct gateway *gateway;
    struct key *key;          /* NULL: there is none */
    TAILQ_ENTRY(turn) queued; /* in the key's queue */
    TAILQ_ENTRY(turn) ready;
    bool running, is_ready;
    turn_program *program;
    turn_over *over;
    struct sight sight; /* what this turn knows of the key; NONE: nothing yet */
    bool watched;       /* `sight` is what WATCH has seen: where it is no longer so ... */
    bool changed;       /* ... this is set, and nothing is begun anew */
    unsigned calls, effects, restarts, looks, tries;
    int64_t since_ns; /* it is queued, then: the step under way has begun */
    struct script_call call;
    struct redlock_lock *lock; /* of the step under way, unless the kept one serves */
    struct redlock_view *views;
    char text[1024]; /* an error's sentence */
};

/* Turns that may begin, once whoever gave the turn back has returned. */
TAILQ_HEAD(turn_queue, turn);
struct turns {
    struct event *event;
    struct turn_queue ready;
};
bool turns_open(struct gateway *gateway);
void turns_close(struct gateway *gateway);

/* Asks for a turn; it may be over before this returns. *sight is what WATCH has seen, or NULL.
 * False: out of memory. */
bool turn_begin(struct turn *turn, struct gateway *gateway, struct script_bytes key,
                const struct sight *watched, turn_program *program, turn_over *over);
/* What the program that said WAITS wants to be done. */
void turn_said(struct turn *turn, enum script_step step, const struct script_call *call,
               const struct script_value *result);
/* Nobody waits for it any more: true when it had not begun and is forgotten, false when it goes on
 * to its end. */
bool turn_abandon(struct turn *turn);

/* ---- for step.c ---- */

/* Goes on with the answer to the call. */
void turn_go(struct turn *turn, const struct script_value *answer);
/* The lock that this turn has seen was another by the time; `answer` is for a turn that cannot
 * begin anew. */
void turn_late(struct turn *turn, const struct script_value *answer);

#endif
