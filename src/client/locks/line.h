/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Those of one client that wait for the same key stand in a line: the first one contends, for all
 * of them. On the nodes the client has one place in the key's line of all clients. See
 * docs/waiting.md.
 */
#ifndef RL_CLIENT_LINE_H
#define RL_CLIENT_LINE_H

#include <stdint.h>

#include "core/core.h"
#include "net/net.h"

struct line;
struct lines;
struct redlock_lock;

/* Of an acquisition. */
struct place {
    struct line *line; /* where it waits; NULL: it does not */
    struct redlock_lock *next, **at;
    rl_ns since;
};

/* Before an acquisition starts: whether it goes behind others, of this process or of the others. */
void line_begin(struct redlock_lock *lock, bool may_wait, struct rl_event *start);
/* Of each of its events. */
void line_event(struct redlock_lock *lock, struct rl_event *event);
/* After each of its steps. */
void line_carry_out(struct redlock_lock *lock, const struct rl_actions *actions, rl_ns now);
/* It waits no longer. */
void line_leave(struct redlock_lock *lock);
/* Nodes are about to get a release: who waits here is not told of it by them. */
void line_released(struct redlock_lock *lock, rl_mask nodes);

void lines_free(struct lines *lines); /* NULL: nothing */

#endif
