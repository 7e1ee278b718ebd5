/* SPDX-License-Identifier: BSD-2-Clause */
#include "operator.h"

#include <stdlib.h>

static void end(struct inquiry *inquiry) {
    if (inquiry->waiter) waiter_finish(inquiry->waiter);
    if (inquiry->ended) inquiry->ended(inquiry);
}

static void on_late(struct net_timer *timer) { end(RL_CONTAINER(timer, struct inquiry, timer)); }

void inquiry_init(struct inquiry *inquiry, struct redlock_client *client, struct net_call *calls,
                  size_t count, net_answered_fn *answered) {
    *inquiry = (struct inquiry){.client = client, .refs = 1, .timer.fire = on_late};
    for (size_t i = 0; i < count; i++) {
        calls[i].owner = inquiry;
        calls[i].answered = answered;
    }
}

void inquiry_unref(struct inquiry *inquiry) {
    if (--inquiry->refs == 0) free(inquiry);
}

rl_mask inquiry_send(struct inquiry *inquiry, rl_mask nodes, const struct net_request *request,
                     struct net_call *calls, rl_ns until) {
    struct net *net = inquiry->client->net;
    rl_mask taken = net_send(net, nodes, request, calls, until, net_now(net));
    inquiry->pending += rl_count(taken);
    inquiry->refs += rl_count(taken);
    if (inquiry->pending > 0) net_timer_set(net, &inquiry->timer, until);
    return taken;
}

void inquiry_wait(struct inquiry *inquiry) {
    if (inquiry->pending == 0) return;
    struct waiter waiter;
    waiter_init(&waiter);
    inquiry->waiter = &waiter;
    schedule_wait(&inquiry->client->schedule, &waiter);
    inquiry->waiter = NULL;
    net_timer_set(inquiry->client->net, &inquiry->timer, RL_NEVER);
}

void inquiry_answered(struct inquiry *inquiry, bool decided) {
    inquiry->pending--;
    if (inquiry->pending == 0 || decided) end(inquiry);
    inquiry_unref(inquiry);
}
