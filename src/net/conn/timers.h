/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Timers as a pairing heap whose links are inside the timers. Arming one never needs memory and
 * cannot fail. */
#ifndef RL_NET_TIMERS_H
#define RL_NET_TIMERS_H

#include "net/net.h"

struct timers {
    struct net_timer *root; /* the earliest; NULL: none is armed */
};

/* Arms, moves, or with RL_NEVER disarms. */
void timers_set(struct timers *timers, struct net_timer *timer, rl_ns at);
/* The same, but a timer that is put off (RL_NEVER too) keeps its place until that time has come. */
void timers_move(struct timers *timers, struct net_timer *timer, rl_ns at);
/* `at`, or up to `late` later: equal for all times between the same two multiples of `late`. */
rl_ns timers_together(rl_ns at, rl_ns late);
/* At or before the earliest timer; before it if that timer was put off. */
rl_ns timers_next(const struct timers *timers);
/* Removes and returns the earliest timer due at `now`, or NULL. */
struct net_timer *timers_due(struct timers *timers, rl_ns now);

#endif
