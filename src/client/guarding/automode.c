/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Mode auto: classic, but never on nodes that carry a record. A classic client there would lock
 * without the guarantee that the quorum was made for, only because an option was forgotten. So the
 * question is asked at the start of each connection, and about once a second later, because a
 * quorum may be made while clients are connected. Mode classic needs nothing. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "guarding.h"

struct automode {
    struct poll poll;
    rl_mask found; /* nodes that carried a record; one is enough, for the client's whole life */
    char quorum[17];
};

static bool carries_record(const struct automode *automode, unsigned node) {
    return (automode->found & rl_bit(node)) != 0;
}

static void found(struct automode *automode, unsigned node, const char *quorum) {
    struct redlock_client *client = automode->poll.client;
    if (client->closing || carries_record(automode, node)) return;
    if (automode->found == 0) {
        struct net_node_status status = client_status(client, node);
        snprintf(automode->quorum, sizeof automode->quorum, "%s", quorum);
        client_log(
            client, REDLOCK_LOG_ERROR,
            "%s belongs to the guarded quorum %s: no lock is taken; set the mode to guarded, or to classic explicitly",
            status.url, quorum);
    }
    automode->found |= rl_bit(node);
    client->voters = 0;
    client->refusal = REDLOCK_GUARDED_NODES;
    net_timer_set(client->net, &automode->poll.timer, RL_NEVER);
    client->voters_changed(client);
}

static void came_or_went(struct redlock_client *client, unsigned node,
                         const struct net_node_status *status) {
    if (status->connected && status->quorum[0] != '\0')
        found(client->automode, node, status->quorum);
}

static void on_answer(struct net_call *call, const struct net_reply *reply) {
    struct automode *automode = call->owner;
    char quorum[17];
    if (reply->verdict != REDLOCK_VERDICT_GRANTED || reply->items_count != 1) return;
    copy_text(reply->items[0], quorum, sizeof quorum);
    found(automode, call->node, quorum);
}

static bool start(struct redlock_client *client) {
    const struct net_request question = {.op = NET_SERVER_INFO, .question = NET_ASK_QUORUM};
    struct automode *automode = client->automode = calloc(1, sizeof *automode);
    if (!automode) return false;
    poll_start(&automode->poll, client, &question, on_answer, automode, poll_ask);
    return true;
}

static int verdict_of(const struct redlock_client *client, unsigned node, int verdict) {
    return carries_record(client->automode, node) ? REDLOCK_VERDICT_GUARDED : verdict;
}

static void status_of(const struct redlock_client *client, unsigned node,
                      struct redlock_node_status *status) {
    if (!carries_record(client->automode, node)) return;
    status->verdict = REDLOCK_VERDICT_GUARDED;
    snprintf(
        status->text, sizeof status->text,
        "it belongs to the guarded quorum %s: set the mode to guarded, or to classic explicitly",
        client->automode->quorum);
}

const struct node_mode auto_nodes = {
    .start = start, .node = came_or_went, .verdict = verdict_of, .status = status_of};
const struct node_mode classic_nodes = {.start = NULL};
