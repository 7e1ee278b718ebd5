/* SPDX-License-Identifier: BSD-2-Clause */
#include "clockwatch.h"

#include "client.h"
#include "guard.h"

#define EVERY (1000 * RL_MS)

static struct net *net_of(const struct clockwatch *watch) { return watch->guard->client->net; }

/* Nobody acts on a clock where a loss could not be mended: with fewer than a majority of others that stand still it may
 * be our own that is wrong. */
static void end_round(struct clockwatch *watch) {
    rl_mask forward = rl_clocks_round(&watch->machine, watch->guard->machine.votes_needed);
    for (unsigned i = 0; forward >> i; i++)
        if (forward & rl_bit(i)) guard_jumped(watch->guard, i);
}

static void ask(struct clockwatch *watch) {
    struct net *net = net_of(watch);
    rl_ns now = net_now(net);
    rl_mask nodes = net_ready(net, now) & watch->guard->intact;
    for (unsigned i = 0; i < watch->machine.nodes; i++) {
        if (watch->calls[i].busy) nodes &= (rl_mask)~rl_bit(i);
        if (nodes & rl_bit(i)) watch->asked[i] = now;
    }
    if (nodes) (void)net_send(net, nodes, &watch->request, watch->calls, now + EVERY, now);
}

static void on_timer(struct net_timer *timer) {
    struct clockwatch *watch = RL_CONTAINER(timer, struct clockwatch, timer);
    end_round(watch);
    ask(watch);
    net_timer_set(net_of(watch), &watch->timer, net_now(net_of(watch)) + EVERY);
}

void clockwatch_start(struct clockwatch *watch, struct guard *guard) {
    const struct redlock_client_options *options = &guard->client->options;
    watch->guard = guard;
    watch->timer.fire = on_timer;
    watch->request = (struct net_request){.op = NET_SURVEY, .question = NET_ASK_TIME};
    rl_clocks_init(&watch->machine, guard->machine.nodes, options->drift_ppm, options->drift_ms * RL_MS);
    for (unsigned i = 0; i < RL_NODES_MAX; i++) {
        watch->calls[i].owner = watch;
        watch->calls[i].tag = CALL_CLOCK;
    }
    net_timer_set(net_of(watch), &watch->timer, net_now(net_of(watch)) + EVERY);
}

void clockwatch_forget(struct clockwatch *watch, unsigned node) { rl_clocks_forget(&watch->machine, node); }

void clockwatch_reply(struct net_call *call, const struct net_reply *reply) {
    struct clockwatch *watch = call->owner;
    int64_t clock_us = reply->verdict == REDLOCK_VERDICT_GRANTED ? survey_clock_us(reply) : -1;
    if (clock_us < 0 || !(watch->guard->intact & rl_bit(call->node))) return;
    rl_clocks_sample(&watch->machine, call->node,
                     &(struct rl_clock_sample){clock_us, watch->asked[call->node], net_now(net_of(watch))});
}
