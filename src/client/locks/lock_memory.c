/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The memory of a lock: what it holds, and where. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "lock.h"

/* ---- what a lock needs only at times ---- */

const struct extra nothing_extra = {0};

struct extra *extra_take(struct redlock_lock *lock, bool release) {
    struct locks *locks = lock->client->locks;
    if (lock->extra) return lock->extra != &locks->spare ? lock->extra : NULL;
    struct extra *extra = pool_take(&locks->extras, sizeof *extra, release ? 0 : 1);
    if (!extra) return NULL;
    *extra = nothing_extra;
    lock->extra = extra;
    return extra;
}

/* Without memory no request is sent either: what the step begins has failed when the step ends. */
struct extra *extra_of_step(struct redlock_lock *lock) {
    struct extra *spare = &lock->client->locks->spare;
    if (lock->extra || extra_take(lock, lock->phase == PHASE_RELEASING)) return lock->extra;
    *spare = nothing_extra;
    lock->extra = spare;
    return spare;
}

static bool is_at_work(const struct redlock_lock *lock) {
    return lock->phase != PHASE_FREE && lock->phase != PHASE_ACQUIRING &&
           !rl_lease_rests(&lock->lease);
}

void extra_rest(struct redlock_lock *lock) {
    const struct extra *extra = lock->extra;
    if (!extra || extra->round || extra->acquisition || op_is_busy(&extra->op) ||
        op_is_busy(&extra->extension) || extra->late.lock || extra->slots || extra->pair ||
        extra->token || extra->parked_at || is_at_work(lock))
        return;
    /* no tally is left: nodes that were silent in the last round have not answered in time */
    if (lock->lease.work && lock->phase == PHASE_LEASED)
        verdicts_close(lock, lock->lease.work->round.failed);
    struct locks *locks = lock->client->locks;
    if (lock->extra != &locks->spare) pool_give(&locks->extras, lock->extra);
    lock->extra = NULL;
    lock->lease.work = NULL;
}

/* The name under which the readers of the first key are listed. Returns its end. */
static unsigned char *put_list_name(struct net_bytes keys[2], unsigned char *at) {
    const size_t prefix = sizeof NET_KEY_SHARED - 1;
    keys[1] = (struct net_bytes){at, prefix + keys[0].bytes};
    memcpy(at, NET_KEY_SHARED, prefix);
    memcpy(at + prefix, keys[0].data, keys[0].bytes);
    return at + keys[1].bytes;
}

struct net_bytes *lock_pair_new(struct net_bytes key) {
    struct net_bytes *pair = malloc(2 * sizeof *pair + sizeof NET_KEY_SHARED + key.bytes);
    if (!pair) return NULL;
    pair[0] = key; /* the lock's own bytes */
    (void)put_list_name(pair, (unsigned char *)(pair + 2));
    return pair;
}

/* One allocation: the lock, its keys, what only guarded mode needs, the verdicts, the keys' bytes,
 * the owner, the token. */
struct redlock_lock *lock_alloc(struct redlock_client *client,
                                const struct redlock_bytes *resources, size_t count,
                                const struct redlock_lock_options *options) {
    size_t prefix = client->options.key_prefix_bytes, bytes = 0;
    for (size_t i = 0; i < count; i++) bytes += prefix + resources[i].bytes;
    size_t names = count;
    if (options->shared) {
        names++;
        bytes += sizeof NET_KEY_SHARED - 1 + bytes;
    }
    size_t token = REDLOCK_TOKEN_HEX_BYTES + (options->owner_bytes ? 1 + options->owner_bytes : 0);
    if (options->slots) token += SLOTS_TEXT_BYTES;
    struct redlock_lock *lock =
        calloc(1, sizeof *lock + names * sizeof lock->keys[0] + fenced_bytes(client, count) +
                      client->nodes + bytes + options->owner_bytes + token);
    if (!lock) return NULL;
    lock->client = client;
    lock->refs = 1;
    lock->keys_count = (uint8_t)count;
    lock->shared = options->shared != 0;
    unsigned char *at = lock_verdicts(lock) + client->nodes;
    for (size_t i = 0; i < count; i++) {
        lock->keys[i] = (struct net_bytes){at, prefix + resources[i].bytes};
        if (prefix) memcpy(at, client->key_prefix, prefix);
        memcpy(at + prefix, resources[i].data, resources[i].bytes);
        at += lock->keys[i].bytes;
    }
    if (lock->shared) at = put_list_name(lock->keys, at);
    lock->owner_bytes = (uint8_t)options->owner_bytes;
    if (options->owner_bytes) memcpy(at, options->owner, options->owner_bytes);
    lock->on_change_context = options->on_change_context;
    return lock;
}

void lock_dealloc(struct redlock_lock *lock) {
    if (lock->extra) {
        free(lock->extra->token);
        free(lock->extra->slots);
        free(lock->extra->pair);
    }
    free(lock->extra);
    free(lock);
}

void lock_unref(struct redlock_lock *lock) {
    if (--lock->refs > 0) return;
    lock_config_drop(lock->client, lock->config);
    lock_dealloc(lock);
}
