/* SPDX-License-Identifier: BSD-2-Clause */
#include "automode.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/client.h"

#define EVERY (1000 * RL_MS)

static void ask(struct automode *automode) {
    struct net *net = automode->client->net;
    rl_ns now = net_now(net);
    rl_mask nodes = net_ready(net, now);
    for (unsigned i = 0; i < RL_NODES_MAX; i++)
        if (automode->calls[i].busy) nodes &= (rl_mask)~rl_bit(i);
    rl_ns due = now + automode->client->options.connect_timeout_ms * RL_MS;
    if (nodes) (void)net_send(net, nodes, &automode->request, automode->calls, due, now);
}

static void on_timer(struct net_timer *timer) {
    struct automode *automode = RL_CONTAINER(timer, struct automode, timer);
    struct net *net = automode->client->net;
    if (automode_refuses(automode)) return;
    ask(automode);
    net_timer_set(net, &automode->timer, net_now(net) + EVERY);
}

struct automode *automode_new(struct redlock_client *client) {
    struct automode *automode = calloc(1, sizeof *automode);
    if (!automode) return NULL;
    automode->client = client;
    automode->timer.fire = on_timer;
    automode->request = (struct net_request){.op = NET_SURVEY, .question = NET_ASK_QUORUM};
    for (unsigned i = 0; i < RL_NODES_MAX; i++) {
        automode->calls[i].owner = automode;
        automode->calls[i].tag = CALL_AUTOMODE;
    }
    return automode;
}

void automode_start(struct automode *automode) {
    struct net *net = automode->client->net;
    net_timer_set(net, &automode->timer, net_now(net) + EVERY);
}

void automode_found(struct automode *automode, unsigned node, const char *quorum) {
    if (automode->closing || automode_names(automode, node)) return;
    struct redlock_client *client = automode->client;
    struct net_node_status status;
    net_node(client->net, node, net_now(client->net), &status);
    if (!automode_refuses(automode)) {
        snprintf(automode->quorum, sizeof automode->quorum, "%s", quorum);
        client_log(
            client, REDLOCK_LOG_ERROR,
            "%s belongs to the guarded quorum %s: no lock is taken; choose the mode guarded, or classic by name",
            status.url, quorum);
    }
    automode->found |= rl_bit(node);
    locks_check(client);
}

void automode_reply(struct net_call *call, const struct net_reply *reply) {
    struct automode *automode = call->owner;
    char quorum[17];
    if (automode->closing || reply->verdict != REDLOCK_VERDICT_GRANTED || reply->items_count != 1)
        return;
    size_t bytes =
        reply->items[0].bytes < sizeof quorum - 1 ? reply->items[0].bytes : sizeof quorum - 1;
    for (size_t i = 0; i < bytes; i++) {
        unsigned char byte = ((const unsigned char *)reply->items[0].data)[i];
        quorum[i] = (char)(byte > ' ' && byte < 0x7f ? byte : '?');
    }
    quorum[bytes] = '\0';
    automode_found(automode, call->node, quorum);
}

void automode_status(const struct automode *automode, unsigned node,
                     struct redlock_node_status *status) {
    if (!automode_names(automode, node)) return;
    status->verdict = REDLOCK_VERDICT_GUARDED;
    snprintf(status->text, sizeof status->text,
             "it belongs to the guarded quorum %s: choose the mode guarded, or classic by name",
             automode->quorum);
}
