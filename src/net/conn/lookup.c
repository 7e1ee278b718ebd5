/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Resolves a node's host name. getaddrinfo(3) blocks, cannot be interrupted and may hang for
 * minutes, so it runs in a thread, and a connection that gives up does not end the lookup. The
 * lookup belongs to the node, and the node's connection that waits when the answer comes gets it. A
 * lookup that is under way is not started a second time.
 *
 * Each lookup takes a thread. So few are under way at once that when all of them hang there is no
 * majority without their nodes. A name that hangs blocks no node that could help.
 *
 * A client that closes leaves the thread to end by itself. */
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "net/conn/background.h"
#include "net/conn/conn.h"

struct lookup {
    struct background background;
    rl_ns began;
    const char *failure; /* a static text; NULL: none */
    struct addresses addresses;
    char *host;
    char port[6];
};

/* ---- the thread ---- */

static int resolve(const char *host, const char *port, int flags, struct addresses *addresses) {
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = flags | AI_NUMERICSERV},
                    *list = NULL;
    int error = getaddrinfo(host, port, &hints, &list);
    addresses->count = 0;
    if (error != 0) return error;
    for (struct addrinfo *each = list; each && addresses->count < ADDRESSES_MAX;
         each = each->ai_next) {
        if (each->ai_addrlen > sizeof(addresses->each[0].at)) continue;
        memcpy(&addresses->each[addresses->count].at, each->ai_addr, each->ai_addrlen);
        addresses->each[addresses->count++].bytes = each->ai_addrlen;
    }
    freeaddrinfo(list);
    return 0;
}

bool lookup_numeric(const char *host, const char *port, struct addresses *addresses) {
    return resolve(host, port, AI_NUMERICHOST, addresses) == 0 && addresses->count > 0;
}

static void free_lookup(struct background *background) {
    struct lookup *lookup = (struct lookup *)background;
    free(lookup->host);
    free(lookup);
}

static void look_up(struct background *background) {
    struct lookup *lookup = (struct lookup *)background;
    int error = resolve(lookup->host, lookup->port, 0, &lookup->addresses);
    if (error != 0)
        lookup->failure = gai_strerror(error);
    else if (lookup->addresses.count == 0)
        lookup->failure = "no address";
}

/* ---- the node's side ---- */

bool lookup_begin(struct node *node) {
    struct net *net = node->net;
    unsigned under_way = 0;
    for (unsigned i = 0; i < net->nodes; i++) under_way += net->node[i].lookup != NULL;
    if (node->lookup || under_way >= (net->nodes + 1) / 2) return true;
    struct lookup *lookup = calloc(1, sizeof(*lookup));
    if (!lookup) return false;
    lookup->background = (struct background){.work = look_up, .free = free_lookup};
    lookup->began = net_now(net);
    lookup->host = strdup(node->url.host);
    memcpy(lookup->port, node->url.port, sizeof(lookup->port));
    if (!lookup->host || !background_start(&lookup->background, net->kick)) {
        free_lookup(&lookup->background);
        return false;
    }
    node->lookup = lookup;
    return true;
}

void lookup_drop(struct node *node, bool forked) {
    struct lookup *lookup = node->lookup;
    node->lookup = NULL;
    if (lookup) background_drop(&lookup->background, false, forked);
}

bool lookup_answers(const struct node *node, struct addresses *addresses, const char **failure) {
    const struct lookup *lookup = node->lookup;
    if (!lookup || !background_is_done(&lookup->background)) return false;
    *addresses = lookup->addresses;
    *failure = lookup->failure;
    return true;
}

void lookup_late(const struct node *node, rl_ns now, char *text, size_t size) {
    if (!node->lookup) {
        snprintf(text, size, "the resolver has not answered for the names of other nodes");
        return;
    }
    rl_ns tenths = (now - node->lookup->began) / (100 * RL_MS);
    snprintf(text, size, "the resolver has not answered for %lld.%lld s", (long long)(tenths / 10),
             (long long)(tenths % 10));
}
