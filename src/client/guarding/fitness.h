/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Is a node fit to vote? Asked ahead of each reading of its record, and about once a second for as
 * long as it is connected: an operator may switch eviction on, make it a replica or give it one at
 * any time, and its wall clock may step.
 */
#ifndef RL_CLIENT_FITNESS_H
#define RL_CLIENT_FITNESS_H

#include "core/clocks.h"
#include "net/net.h"

struct guard;
struct redlock_client;

struct fitness {
    struct guard *guard;
    struct rl_clocks clocks;
    struct net_timer timer;
    struct net_request request;
    struct net_call calls[RL_NODES_MAX];
    rl_ns asked[RL_NODES_MAX];
    rl_mask stale; /* asked before a push: a part of the answer may be from before it */
};

void fitness_start(struct fitness *fitness, struct guard *guard);
void fitness_ask(struct fitness *fitness,
                 rl_mask nodes); /* once more, in front of what is sent next */
void fitness_changed(struct fitness *fitness,
                     unsigned node); /* the server has pushed that its data may be others */
void fitness_reply(struct net_call *call, const struct net_reply *reply);
#define FITNESS_TEXT_BYTES 120
/* Why it may not vote; "" when it may. */
void fitness_judge(const struct redlock_client *client, const struct net_state *state, char *why,
                   size_t size);

#endif
