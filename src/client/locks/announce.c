/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A leader announces its term to observers (core/observer.h): it writes the term and its token next
 * to the lock. A plain SET is enough, on stock and on native nodes. One that comes late, from an
 * earlier leader, names that leader's token: it hides the present one on that node until the next
 * renewal, and misleads nobody. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lock.h"

enum { TERM_BYTES = sizeof "9007199254740991 " - 1 };

/* It has copies of all that it sends, and lives until the last node has answered. */
struct announcement {
    unsigned refs;
    struct net_request request;
    struct net_bytes key;
    struct net_call calls[RL_NODES_MAX];
    unsigned char bytes[]; /* the key, the term, the token */
};

static void unref(struct announcement *announcement) {
    if (--announcement->refs == 0) free(announcement);
}

static void on_answer(struct net_call *call, const struct net_reply *reply) {
    (void)reply; /* the next renewal announces it again */
    unref(call->owner);
}

static struct announcement *announcement_new(const struct redlock_lock *lock) {
    const size_t head = sizeof NET_KEY_TERM - 1, key = head + lock->keys[0].bytes;
    struct announcement *announcement =
        calloc(1, sizeof *announcement + key + TERM_BYTES + 1 + lock->token_bytes);
    if (!announcement) return NULL;
    unsigned char *at = announcement->bytes;
    memcpy(at, NET_KEY_TERM, head);
    memcpy(at + head, lock->keys[0].data, lock->keys[0].bytes);
    announcement->key = (struct net_bytes){at, key};
    at += key;
    const int digits = snprintf((char *)at, TERM_BYTES + 1, "%" PRId64 " ", lock->fence);
    memcpy(at + digits, lock->token, lock->token_bytes);
    announcement->request = (struct net_request){
        .op = NET_ANNOUNCE,
        .keys = &announcement->key,
        .keys_count = 1,
        .token = {at, (size_t)digits + lock->token_bytes},
        .ttl_ms = lock->config->options.ttl_ms,
    };
    for (unsigned i = 0; i < RL_NODES_MAX; i++) {
        announcement->calls[i].owner = announcement;
        announcement->calls[i].answered = on_answer;
    }
    announcement->refs = 1;
    return announcement;
}

/* Without memory, observers wait for the next renewal. */
void lock_announce(struct redlock_lock *lock, rl_mask nodes, rl_ns now) {
    if (lock->fence <= 0 || lock->keys_count != 1) return;
    struct announcement *announcement = announcement_new(lock);
    if (!announcement) return;
    const rl_mask taken =
        net_send(lock->client->net, nodes, &announcement->request, announcement->calls,
                 now + lock->config->terms.node_timeout, now);
    announcement->refs += rl_count(taken);
    unref(announcement);
}
