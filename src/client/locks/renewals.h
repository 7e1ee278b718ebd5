/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Renewals that are due, and which of them go first. No more are under way at once than the nodes
 * answer in time: a late answer is a renewal that was done in vain. The others wait, and that of
 * the lock that is lost first goes first. While there is room for all, none waits.
 */
#ifndef RL_CLIENT_RENEWALS_H
#define RL_CLIENT_RENEWALS_H

#include <stdbool.h>
#include <stdint.h>

#include "core/core.h"
#include "net/net.h"

struct redlock_lock;

struct renewals {
    struct redlock_lock **due; /* a heap of those that wait: no lock is lost before its parent */
    uint32_t count, room;
    const struct redlock_lock *picked; /* its turn is now */
    unsigned under_way;
    unsigned window,
        threshold;    /* so many may be; to which it grows fast, since above it was once too wide */
    unsigned won;     /* since it grew last */
    rl_ns cut_at;     /* when it was cut last */
    rl_ns busy_since; /* some wait since then, ... */
    uint64_t done_since;    /* ... and so many were renewed meanwhile */
    rl_ns told_at;          /* that they do not keep up; 0: never */
    struct net_timer timer; /* there is room for one that waits */
    bool awake;             /* it is set */
};

void renewals_init(struct renewals *renewals);
void renewals_free(struct renewals *renewals);
/* Before a lease's step: whether a renewal that is due must wait. */
void renewals_event(struct redlock_lock *lock, struct rl_event *event);
/* After it. */
void renewals_stepped(struct redlock_lock *lock, const struct rl_actions *actions, rl_ns now);
/* It is nobody's lease any more. */
void renewals_forget(struct redlock_lock *lock);

#endif
