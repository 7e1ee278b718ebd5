/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A leader announces its term to observers (core/observer.h): it writes the term and its token next
 * to the lock. A plain SET is enough, on stock and on native nodes. One that comes late, from an
 * earlier leader, names that leader's token: it hides the present one on that node until the next
 * renewal, and misleads nobody. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "client/ask/ask.h"
#include "lock.h"

enum { TERM_BYTES = sizeof "9007199254740991 " - 1 };

/* The next renewal announces it again. */
static bool ignore(struct question *question, unsigned node, const struct net_reply *reply) {
    (void)question, (void)node, (void)reply;
    return false;
}

/* Without memory, observers wait for the next renewal. */
void lock_announce(struct redlock_lock *lock, rl_mask nodes, rl_ns now) {
    const struct net_bytes head = {NET_KEY_TERM, sizeof NET_KEY_TERM - 1}, key = lock->keys[0];
    const int64_t fence = lock_fence(lock);
    if (fence <= 0 || lock->keys_count != 1) return;
    struct ask *ask = ask_new(lock->client, sizeof *ask, 1,
                              head.bytes + key.bytes + TERM_BYTES + 1 + lock->token_bytes, ignore);
    if (!ask) return;
    struct question *question = ask->questions;
    question->keys[0] = (struct net_bytes){ask_copy(ask, head).data, head.bytes + key.bytes};
    ask_copy(ask, key);
    char *text = ask_room(ask, TERM_BYTES + 1 + lock->token_bytes);
    const size_t digits = (size_t)snprintf(text, TERM_BYTES + 1, "%" PRId64 " ", fence);
    memcpy(text + digits, token_of(lock), lock->token_bytes);
    question->request = (struct net_request){.op = NET_ANNOUNCE,
                                             .keys = question->keys,
                                             .keys_count = 1,
                                             .token = {text, digits + lock->token_bytes},
                                             .ttl_ms = lock->config->options.ttl_ms};
    ask_send(question, nodes, &question->request, now + lock->config->terms.node_timeout);
    ask_unref(ask);
}
