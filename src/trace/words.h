/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The words of golden traces: an event of a machine, and what the machine did, as lines for people.
 * tests/core compares them with its files. With REDLOCK_TRACE=1 a client logs the same words. */
#ifndef RL_TRACE_WORDS_H
#define RL_TRACE_WORDS_H

#include <stddef.h>

#include "core/core.h"

struct text {
    char data[65536];
    size_t used;
    bool cut; /* something did not fit and was left out */
};
void text_add(struct text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
void text_ms(struct text *text, rl_ns at); /* "0.4ms": at most three decimals, no trailing zeros */
void text_nodes(struct text *text, rl_mask mask); /* "node1..3,5" */

/* What the actions do not show. */
struct trace_context {
    unsigned tries;
    bool guarded;
    rl_ns validity; /* of a lease, after the step */
    rl_ns left;     /* until its validity ends; below 0: since it ended */
};

/* "start", "node2 granted", "extend 20000ms". */
void trace_event(struct text *text, const struct rl_event *event);
/* A line for each request, and for each notice. */
void trace_actions(struct text *text, const struct rl_actions *actions,
                   const struct trace_context *context);
void trace_validity(struct text *text, const struct trace_context *context); /* ends the line */
/* ".. voting, wake at 51ms"; RL_NEVER: no time. */
void trace_state(struct text *text, const char *state, rl_ns wake_at);

#endif
