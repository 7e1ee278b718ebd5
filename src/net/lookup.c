/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Resolves a node's host name. getaddrinfo(3) blocks, cannot be interrupted and may hang for
 * minutes, so a connection that gives up does not end the lookup. The lookup belongs to the node,
 * and the node's connection that waits when the answer comes gets it. A lookup that is under way is
 * not started a second time.
 *
 * Each lookup takes a thread. So few are under way at once that when all of them hang there is no
 * majority without their nodes. A name that hangs blocks no node that could help. */
#include <stdio.h>

#include "net/conn.h"

static bool waits(const struct node *node) {
    return node->main.state == CONN_RESOLVING || node->aux.state == CONN_RESOLVING ||
           node->notifier.state == CONN_RESOLVING;
}

bool lookup_begin(struct node *node) {
    struct net *net = node->net;
    unsigned under_way = 0;
    for (unsigned i = 0; i < net->nodes; i++) under_way += net->node[i].job != NULL;
    if (node->job || under_way >= (net->nodes + 1) / 2) return true;
    node->job = resolve_start(node->url.host, node->url.port, net->kick);
    node->asked_at = net_now(net);
    return node->job != NULL;
}

static void take_answer(struct node *node) {
    struct addresses addresses;
    const char *failure = NULL;
    if (!node->job || !resolve_done(node->job, &addresses, &failure)) return;
    /* The connection has given up and pauses. After the pause it would start the same lookup. */
    if (node->main.state == CONN_DOWN && node->main.retry.index != 0) conn_start(&node->main);
    resolve_drop(node->job, false);
    node->job = NULL;
    for (int kind = CONNS_PER_NODE; kind-- > 0;)
        if (node->conns[kind].state == CONN_RESOLVING)
            conn_resolved(&node->conns[kind], &addresses, failure);
}

static void ask(struct node *node) {
    if (!waits(node) || lookup_begin(node)) return;
    for (int kind = CONNS_PER_NODE; kind-- > 0;)
        if (node->conns[kind].state == CONN_RESOLVING)
            conn_fail(&node->conns[kind], REDLOCK_VERDICT_NO_MEMORY, LOOKUP_NO_THREAD);
}

void lookups_pump(struct net *net) {
    if (!net->resolving) return;
    for (unsigned i = 0; i < net->nodes; i++) take_answer(&net->node[i]);
    for (unsigned i = 0; i < net->nodes; i++) ask(&net->node[i]);
    net->resolving = false;
    for (unsigned i = 0; i < net->nodes; i++)
        net->resolving |= net->node[i].job != NULL || waits(&net->node[i]);
}

void lookup_late(const struct node *node, rl_ns now, char *text, size_t size) {
    if (!node->job) {
        snprintf(text, size, "the resolver has not answered for the names of other nodes");
        return;
    }
    rl_ns tenths = (now - node->asked_at) / (100 * RL_MS);
    snprintf(text, size, "the resolver has not answered for %lld.%lld s", (long long)(tenths / 10),
             (long long)(tenths % 10));
}
