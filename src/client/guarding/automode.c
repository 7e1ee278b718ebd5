/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Mode auto: the nodes say which mode applies. The client is classic while no node shows a record.
 * One record makes it guarded, for its whole life: a record that is gone later proves nothing. The
 * question is asked at the start of each connection, and later as poll.c does, because a quorum may
 * be made while clients are connected. */
#include <stdlib.h>

#include "guarding.h"

struct automode {
    struct poll poll;
    struct guard *guard; /* memory for the guard, so that turning guarded cannot fail */
};

/* A key with a timestamp in it has no fencing token, so such a client can only refuse. */
static void refuse(struct redlock_client *client, const char *url, const char *quorum) {
    client_log(client, REDLOCK_LOG_ERROR,
               "%s belongs to the guarded quorum %s, and scheme=setnx has no guarded mode: no lock "
               "is taken",
               url, quorum);
    client->voters = 0;
    client->refusal = REDLOCK_GUARDED_NODES;
    client->voters_changed(client);
}

static void found(struct redlock_client *client, unsigned node, const char *quorum) {
    struct automode *automode = client->automode;
    struct net_node_status status = client_status(client, node);
    if (client->closing || client->guard || client->refusal != REDLOCK_OK) return;
    poll_stop(&automode->poll);
    if (client->scheme != REDLOCK_SCHEME_SET) {
        refuse(client, status.url, quorum);
        return;
    }
    client_log(client, REDLOCK_LOG_INFO,
               "%s belongs to the guarded quorum %s: this client is guarded from now on",
               status.url, quorum);
    struct guard *guard = automode->guard;
    automode->guard = NULL;
    client->node_mode = &guarded_nodes;
    guard_begin(client, guard);
    net_become_guarded(client->net);
    client->turned_guarded(client);
    for (unsigned i = 0; i < client->nodes; i++) {
        status = client_status(client, i);
        client->node_mode->node(client, i, &status);
    }
    client->voters_changed(client);
}

static void came_or_went(struct redlock_client *client, unsigned node,
                         const struct net_node_status *status) {
    rates_node(client, node, status);
    if (status->quorum[0] != '\0') found(client, node, status->quorum);
}

static void on_answer(struct net_call *call, const struct net_reply *reply) {
    struct redlock_client *client = call->owner;
    char quorum[17];
    /* The permission was taken away. Votes that rest on the absence of a record end with it. */
    if (reply->verdict == REDLOCK_VERDICT_NOPERM)
        net_reconnect(client->net, call->node, REDLOCK_VERDICT_NOPERM, NET_QUORUM_UNREADABLE);
    if (reply->verdict != REDLOCK_VERDICT_GRANTED || reply->items_count != 1) return;
    copy_text(reply->items[0], quorum, sizeof quorum);
    found(client, call->node, quorum);
}

static bool start(struct redlock_client *client) {
    const struct net_request question = {.op = NET_SERVER_INFO, .question = NET_ASK_QUORUM};
    struct automode *automode = client->automode = calloc(1, sizeof *automode);
    if (!automode) return false;
    automode->guard = calloc(1, sizeof *automode->guard);
    if (!automode->guard) return false;
    poll_init(&automode->poll, client, &question, on_answer, client, RL_CLIENTS_MANY);
    poll_begin(&automode->poll);
    return true;
}

void automode_free(struct redlock_client *client) {
    if (client->automode) free(client->automode->guard);
    free(client->automode);
}

const struct node_mode auto_nodes = {.start = start, .node = came_or_went};
const struct node_mode classic_nodes = {.node = rates_node};
