/* SPDX-License-Identifier: BSD-2-Clause */
#include "guarding.h"

#define EVERY (1000 * RL_MS)

static void on_timer(struct net_timer *timer) {
    struct poll *poll = RL_CONTAINER(timer, struct poll, timer);
    struct net *net = poll->client->net;
    poll->resting = poll->rests && poll->client->engaged == 0;
    if (poll->resting) return;
    poll->ask(poll, net_ready(net, net_now(net)));
    poll_begin(poll);
}

void poll_begin(struct poll *poll) {
    struct net *net = poll->client->net;
    net_timer_set(net, &poll->timer, net_now(net) + EVERY);
}

void poll_wake(struct poll *poll) {
    if (!poll->resting) return;
    poll->resting = false;
    poll_begin(poll);
}

void poll_init(struct poll *poll, struct redlock_client *client, const struct net_request *request,
               net_answered_fn *answered, void *owner,
               rl_mask (*ask)(struct poll *poll, rl_mask nodes)) {
    *poll =
        (struct poll){.client = client, .ask = ask, .timer.fire = on_timer, .request = *request};
    for (unsigned i = 0; i < RL_NODES_MAX; i++) {
        poll->calls[i].owner = owner;
        poll->calls[i].answered = answered;
    }
}

rl_mask poll_ask(struct poll *poll, rl_mask nodes) {
    struct net *net = poll->client->net;
    rl_ns now = net_now(net), due = now + poll->client->options.connect_timeout_ms * RL_MS;
    nodes &= (rl_mask)~client_busy(poll->client, poll->calls); /* their answers come first anyway */
    if (nodes) (void)net_send(net, nodes, &poll->request, poll->calls, due, now);
    return nodes;
}
