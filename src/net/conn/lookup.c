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
 * The node and the thread share the lookup, and the last one to release it frees it. A client that
 * closes leaves the thread to end by itself. */
#include <netdb.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "net/conn/conn.h"

struct lookup {
    atomic_int holders;
    atomic_bool done;
    pthread_mutex_t mutex; /* of kick_fd */
    int kick_fd;           /* the net's; -1: dropped */
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

static void free_lookup(struct lookup *lookup) {
    pthread_mutex_destroy(&lookup->mutex);
    free(lookup->host);
    free(lookup);
}

static void let_go(struct lookup *lookup) {
    if (atomic_fetch_sub_explicit(&lookup->holders, 1, memory_order_acq_rel) == 1)
        free_lookup(lookup);
}

static void *run(void *argument) {
    struct lookup *lookup = argument;
    uint64_t one = 1;
    int error = resolve(lookup->host, lookup->port, 0, &lookup->addresses);
    if (error != 0)
        lookup->failure = gai_strerror(error);
    else if (lookup->addresses.count == 0)
        lookup->failure = "no address";
    atomic_store_explicit(&lookup->done, true, memory_order_release);
    pthread_mutex_lock(&lookup->mutex);
    ssize_t written = lookup->kick_fd < 0 ? 0 : write(lookup->kick_fd, &one, sizeof(one));
    (void)written; /* fails only when the counter is full: then it is readable already */
    pthread_mutex_unlock(&lookup->mutex);
    let_go(lookup);
    return NULL;
}

/* The thread must not take signals of the host program: all are blocked while it is created, and it
 * inherits that. */
static int start_thread(struct lookup *lookup) {
    sigset_t all, before;
    pthread_attr_t attributes;
    pthread_t thread;
    if (pthread_attr_init(&attributes) != 0) return -1;
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&thread, &attributes, run, lookup);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return error;
}

/* ---- the node's side ---- */

bool lookup_begin(struct node *node) {
    struct net *net = node->net;
    unsigned under_way = 0;
    for (unsigned i = 0; i < net->nodes; i++) under_way += net->node[i].lookup != NULL;
    if (node->lookup || under_way >= (net->nodes + 1) / 2) return true;
    struct lookup *lookup = calloc(1, sizeof(*lookup));
    if (!lookup) return false;
    lookup->kick_fd = net->kick;
    lookup->began = net_now(net);
    lookup->host = strdup(node->url.host);
    memcpy(lookup->port, node->url.port, sizeof(lookup->port));
    atomic_init(&lookup->holders, 2);
    pthread_mutex_init(&lookup->mutex, NULL);
    if (!lookup->host || start_thread(lookup) != 0) {
        free_lookup(lookup);
        return false;
    }
    node->lookup = lookup;
    return true;
}

void lookup_drop(struct node *node, bool forked) {
    struct lookup *lookup = node->lookup;
    node->lookup = NULL;
    if (!lookup) return;
    if (forked) { /* the thread may have held the mutex at the fork */
        free(lookup->host);
        free(lookup);
        return;
    }
    pthread_mutex_lock(&lookup->mutex);
    lookup->kick_fd = -1;
    pthread_mutex_unlock(&lookup->mutex);
    let_go(lookup);
}

bool lookup_answers(const struct node *node, struct addresses *addresses, const char **failure) {
    const struct lookup *lookup = node->lookup;
    if (!lookup || !atomic_load_explicit(&lookup->done, memory_order_acquire)) return false;
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
