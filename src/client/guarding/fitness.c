/* SPDX-License-Identifier: BSD-2-Clause */
#include "fitness.h"

#include <stdio.h>

#include "client/client.h"
#include "guard.h"

#define EVERY (1000 * RL_MS)

static struct net *net_of(const struct fitness *fitness) { return fitness->guard->client->net; }

void fitness_ask(struct fitness *fitness, rl_mask nodes) {
    struct net *net = net_of(fitness);
    rl_ns now = net_now(net);
    for (unsigned i = 0; i < fitness->clocks.nodes; i++) {
        if (fitness->calls[i].busy)
            nodes &= (rl_mask)~rl_bit(i); /* its answer comes first as well */
        if (nodes & rl_bit(i)) fitness->asked[i] = now;
        if (nodes & rl_bit(i)) fitness->stale &= (rl_mask)~rl_bit(i);
    }
    rl_ns due = now + fitness->guard->client->options.connect_timeout_ms * RL_MS;
    if (nodes) (void)net_send(net, nodes, &fitness->request, fitness->calls, due, now);
}

static void on_timer(struct net_timer *timer) {
    struct fitness *fitness = RL_CONTAINER(timer, struct fitness, timer);
    struct net *net = net_of(fitness);
    fitness_ask(fitness, net_ready(net, net_now(net)));
    net_timer_set(net, &fitness->timer, net_now(net) + EVERY);
}

void fitness_start(struct fitness *fitness, struct guard *guard) {
    const struct redlock_client_options *options = &guard->client->options;
    fitness->guard = guard;
    fitness->timer.fire = on_timer;
    fitness->request = (struct net_request){.op = NET_STATE};
    rl_clocks_init(&fitness->clocks, guard->machine.nodes, options->drift_ppm,
                   options->drift_ms * RL_MS);
    for (unsigned i = 0; i < RL_NODES_MAX; i++) {
        fitness->calls[i].owner = fitness;
        fitness->calls[i].tag = CALL_FITNESS;
    }
    net_timer_set(net_of(fitness), &fitness->timer, net_now(net_of(fitness)) + EVERY);
}

void fitness_judge(const struct redlock_client *client, const struct net_state *state, char *why,
                   size_t size) {
    why[0] = '\0';
    if (state->replica)
        snprintf(why, size,
                 "it is a replica: list its master, or take it out of the list of nodes");
    else if (state->may_evict)
        snprintf(why, size,
                 "it may evict locks when memory is short: set maxmemory-policy to noeviction");
    else if (state->replicas > 0 && !client->options.allow_replicas)
        snprintf(
            why, size,
            "it has %u replica%s, and a promoted replica may lack locks: detach them, or allow replicas",
            (unsigned)state->replicas, state->replicas == 1 ? "" : "s");
}

static void take_sample(struct fitness *fitness, unsigned node, int64_t wall_us, rl_ns asked) {
    struct guard *guard = fitness->guard;
    rl_ns now = net_now(net_of(fitness));
    rl_clocks_sample(&fitness->clocks, node, &(struct rl_clock_sample){wall_us, asked, now});
    rl_mask stepped = rl_clocks_stepped(&fitness->clocks, guard->machine.votes_needed,
                                        rl_guard_quarantine(&guard->machine), now);
    for (unsigned i = 0; stepped >> i; i++) {
        if (!(stepped & rl_bit(i))) continue;
        rl_clocks_acted_on(&fitness->clocks, i);
        guard_jumped(guard, i);
    }
}

void fitness_changed(struct fitness *fitness, unsigned node) {
    if (fitness->calls[node].busy) fitness->stale |= rl_bit(node);
}

void fitness_reply(struct net_call *call, const struct net_reply *reply) {
    struct fitness *fitness = call->owner;
    struct guard *guard = fitness->guard;
    const unsigned node = call->node;
    const rl_ns asked = fitness->asked[node]; /* what follows may ask anew */
    if (guard->closing) return;
    if (fitness->stale & rl_bit(node)) {
        fitness->stale &= (rl_mask)~rl_bit(node);
        if (reply->verdict == REDLOCK_VERDICT_GRANTED) fitness_ask(fitness, rl_bit(node));
        return;
    }
    if (reply->verdict == REDLOCK_VERDICT_GRANTED) {
        char why[sizeof guard->node[node].unfit];
        fitness_judge(guard->client, reply->state, why, sizeof why);
        guard_stated(guard, node, reply->state, why);
        take_sample(fitness, node, reply->state->wall_us, asked);
    } else if (reply->verdict == REDLOCK_VERDICT_NOPERM ||
               reply->verdict == REDLOCK_VERDICT_ERROR) {
        guard_stated(guard, node, &(struct net_state){.wall_us = 0},
                     "INFO or TIME is refused: allow this user +info and +time");
    }
}
