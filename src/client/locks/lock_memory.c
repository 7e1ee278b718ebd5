/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The memory of a lock: what it holds, and where. */
#include <stdlib.h>
#include <string.h>

#include "lock.h"

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

unsigned char *lock_own_token(struct redlock_lock *lock) {
    unsigned char *at = (unsigned char *)(lock->keys + lock->keys_count + lock->shared);
    if (lock->client->lock_layout->fenced) at += lock->keys_count * sizeof lock->stripes[0];
    for (unsigned i = 0; i < lock->keys_count + (unsigned)lock->shared; i++)
        at += lock->keys[i].bytes;
    return at + lock->owner_bytes;
}

/* One allocation: the lock, its keys, their stripes (guarded mode: which fences they raise), their
 * bytes, the owner, the token. */
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
    size_t stripes = client->lock_layout->fenced ? count : 0;
    size_t token = REDLOCK_TOKEN_HEX_BYTES + (options->owner_bytes ? 1 + options->owner_bytes : 0);
    if (options->slots) token += SLOTS_TEXT_BYTES;
    struct redlock_lock *lock =
        calloc(1, sizeof *lock + names * sizeof lock->keys[0] + stripes * sizeof lock->stripes[0] +
                      bytes + options->owner_bytes + token);
    if (!lock) return NULL;
    lock->client = client;
    lock->refs = 1;
    lock->keys_count = (uint8_t)count;
    lock->shared = options->shared != 0;
    lock->stripes = (uint16_t *)(void *)(lock->keys + names);
    unsigned char *at = (unsigned char *)(lock->stripes + stripes);
    for (size_t i = 0; i < count; i++) {
        lock->keys[i] = (struct net_bytes){at, prefix + resources[i].bytes};
        if (prefix) memcpy(at, client->key_prefix, prefix);
        memcpy(at + prefix, resources[i].data, resources[i].bytes);
        at += lock->keys[i].bytes;
    }
    if (lock->shared) at = put_list_name(lock->keys, at);
    lock->owner_bytes = (uint8_t)options->owner_bytes;
    if (options->owner_bytes) memcpy(at, options->owner, options->owner_bytes);
    lock->token = lock_own_token(lock);
    lock->on_change = options->on_change;
    lock->on_change_context = options->on_change_context;
    return lock;
}

void lock_dealloc(struct redlock_lock *lock) {
    /* an adopted token that is too long for the lock's own allocation */
    if (lock->token != lock_own_token(lock)) free(lock->token);
    free(lock->slots);
    free(lock->pair);
    free(lock);
}

void lock_unref(struct redlock_lock *lock) {
    if (--lock->refs > 0) return;
    lock_config_drop(lock->client, lock->config);
    lock_dealloc(lock);
}
