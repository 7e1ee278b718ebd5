/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Asks the servers for their time, about once a second, and notices whose clock moved forward alone (core/clocks.h).
 */
#ifndef RL_CLIENT_CLOCKWATCH_H
#define RL_CLIENT_CLOCKWATCH_H

#include "core/clocks.h"
#include "net/net.h"

struct guard;

struct clockwatch {
    struct guard *guard;
    struct rl_clocks machine;
    struct net_timer timer;
    struct net_request request;
    struct net_call calls[RL_NODES_MAX];
    rl_ns asked[RL_NODES_MAX];
};

void clockwatch_start(struct clockwatch *watch, struct guard *guard);
void clockwatch_forget(struct clockwatch *watch, unsigned node); /* its connection is gone */
void clockwatch_reply(struct net_call *call, const struct net_reply *reply);

#endif
