/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "guarding.h"

struct automode {
    struct poll poll;
    rl_mask found; /* nodes that carried a record; one is enough for the client's whole life */
    char quorum[17];
};

bool automode_open(struct redlock_client *client) {
    client->automode = calloc(1, sizeof *client->automode);
    return client->automode != NULL;
}

void automode_start(struct redlock_client *client) {
    const struct net_request question = {.op = NET_SURVEY, .question = NET_ASK_QUORUM};
    poll_start(&client->automode->poll, client, &question, CALL_AUTOMODE, client->automode,
               poll_ask);
}

static bool carries_record(const struct automode *automode, unsigned node) {
    return (automode->found & rl_bit(node)) != 0;
}

static void found(struct automode *automode, unsigned node, const char *quorum) {
    struct redlock_client *client = automode->poll.client;
    if (client->closing || carries_record(automode, node)) return;
    if (automode->found == 0) {
        struct net_node_status status;
        net_node(client->net, node, net_now(client->net), &status);
        snprintf(automode->quorum, sizeof automode->quorum, "%s", quorum);
        client_log(
            client, REDLOCK_LOG_ERROR,
            "%s belongs to the guarded quorum %s: no lock is taken; choose the mode guarded, or classic by name",
            status.url, quorum);
    }
    automode->found |= rl_bit(node);
    client->voters = 0;
    client->refusal = REDLOCK_GUARDED_NODES;
    net_timer_set(client->net, &automode->poll.timer, RL_NEVER);
    client->voters_changed(client);
}

void automode_node(struct redlock_client *client, unsigned node,
                   const struct net_node_status *status) {
    if (status->connected && status->quorum[0] != '\0')
        found(client->automode, node, status->quorum);
}

void automode_reply(struct net_call *call, const struct net_reply *reply) {
    struct automode *automode = call->owner;
    char quorum[17];
    if (reply->verdict != REDLOCK_VERDICT_GRANTED || reply->items_count != 1) return;
    size_t bytes =
        reply->items[0].bytes < sizeof quorum - 1 ? reply->items[0].bytes : sizeof quorum - 1;
    for (size_t i = 0; i < bytes; i++) {
        unsigned char byte = ((const unsigned char *)reply->items[0].data)[i];
        quorum[i] = (char)(byte > ' ' && byte < 0x7f ? byte : '?');
    }
    quorum[bytes] = '\0';
    found(automode, call->node, quorum);
}

int automode_verdict(const struct redlock_client *client, unsigned node, int verdict) {
    return carries_record(client->automode, node) ? REDLOCK_VERDICT_GUARDED : verdict;
}

void automode_status(const struct redlock_client *client, unsigned node,
                     struct redlock_node_status *status) {
    if (!carries_record(client->automode, node)) return;
    status->verdict = REDLOCK_VERDICT_GUARDED;
    snprintf(status->text, sizeof status->text,
             "it belongs to the guarded quorum %s: choose the mode guarded, or classic by name",
             client->automode->quorum);
}
