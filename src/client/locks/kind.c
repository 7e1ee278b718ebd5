/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What locks made with the same options share: mostly a program has one kind of lock, or a few, and
 * a hundred thousand locks of it. But it may have a kind for each lock, too.
 */
#include <stdlib.h>

#include "lock.h"

enum { CHAINS_LEAST = 16 };

static rl_ns node_timeout(const struct redlock_client *client, int64_t ttl_ms) {
    if (client->options.node_timeout_ms) return client->options.node_timeout_ms * RL_MS;
    rl_ns timeout = ttl_ms * RL_MS / 20;
    if (timeout > 50 * RL_MS) return 50 * RL_MS;
    return timeout < 5 * RL_MS ? 5 * RL_MS : timeout;
}

/* A win that would be told lost in the same breath is no win. */
static rl_ns validity_min(const struct redlock_lock_options *options) {
    int64_t ms = options->lost_margin_ms + 1;
    return (options->validity_ms_min > ms ? options->validity_ms_min : ms) * RL_MS;
}

static struct rl_terms terms_of(const struct redlock_client *client,
                                const struct redlock_lock_options *options) {
    return (struct rl_terms){
        .nodes = (uint8_t)client->nodes,
        .quorum = (uint8_t)rl_quorum(client->nodes),
        .guarded = client->mode->guarded,
        .confirm = client->options.confirm != 0,
        .ttl = options->ttl_ms * RL_MS,
        .drift_ppm = client->options.drift_ppm,
        .drift_fixed = client->options.drift_ms * RL_MS,
        .node_timeout = node_timeout(client, options->ttl_ms),
        .validity_min = validity_min(options),
    };
}

/* Field by field: what lies between them is whatever the caller's stack held. */
static bool same(const struct redlock_lock_options *a, const struct redlock_lock_options *b) {
    return a->ttl_ms == b->ttl_ms && a->validity_ms_min == b->validity_ms_min &&
           a->renew == b->renew && a->renew_interval_ms == b->renew_interval_ms &&
           a->hold_ms_max == b->hold_ms_max && a->renew_count_max == b->renew_count_max &&
           a->lost_margin_ms == b->lost_margin_ms && a->retry_count_max == b->retry_count_max &&
           a->retry_delay_ms_min == b->retry_delay_ms_min &&
           a->retry_delay_ms_max == b->retry_delay_ms_max;
}

static struct kind *kind_new(struct redlock_client *client,
                             const struct redlock_lock_options *options) {
    struct kind *kind = calloc(1, sizeof *kind);
    if (!kind) return NULL;
    kind->options = *options;
    kind->options.owner = NULL;
    kind->options.owner_bytes = 0;
    kind->options.on_change = NULL;
    kind->options.on_change_context = NULL;
    kind->terms = terms_of(client, options);
    return kind;
}

static uint32_t hash_of(const struct redlock_lock_options *o) {
    const uint64_t values[] = {(uint64_t)o->ttl_ms,
                               (uint64_t)o->validity_ms_min,
                               (uint64_t)o->renew,
                               (uint64_t)o->renew_interval_ms,
                               (uint64_t)o->hold_ms_max,
                               (uint64_t)o->renew_count_max,
                               (uint64_t)o->lost_margin_ms,
                               (uint64_t)o->retry_count_max,
                               (uint64_t)o->retry_delay_ms_min,
                               (uint64_t)o->retry_delay_ms_max};
    uint64_t hash = 0;
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        hash = (hash ^ values[i]) * 0x9e3779b97f4a7c15u; /* 2^64 by the golden ratio */
        hash ^= hash >> 32;
    }
    return (uint32_t)hash;
}

static struct kind *kind_in(struct redlock_client *client,
                            const struct redlock_lock_options *options) {
    uint32_t hash = hash_of(options);
    for (struct chained *thing = chains_first(&client->locks->kinds, hash); thing;
         thing = chains_next(thing)) {
        struct kind *kind = RL_CONTAINER(thing, struct kind, by_options);
        if (same(&kind->options, options)) return kind;
    }
    struct kind *kind = kind_new(client, options);
    if (kind && chains_add(&client->locks->kinds, &kind->by_options, hash, CHAINS_LEAST))
        return kind;
    free(kind);
    return NULL;
}

struct kind *kind_of(struct redlock_client *client, const struct redlock_lock_options *options) {
    struct kind *kind = client->locks->kind_last;
    if (!kind || !same(&kind->options, options)) kind = kind_in(client, options);
    if (!kind) return NULL;
    client->locks->kind_last = kind;
    kind->locks++;
    return kind;
}

void kind_drop(struct redlock_client *client, struct kind *kind) {
    if (--kind->locks > 0) return;
    if (client->locks->kind_last == kind) client->locks->kind_last = NULL;
    chains_remove(&client->locks->kinds, &kind->by_options);
    free(kind);
}

void kinds_free(struct locks *locks) {
    for (uint32_t i = 0; i < locks->kinds.chains; i++) {
        for (struct chained *thing = locks->kinds.chain[i], *next; thing; thing = next) {
            next = thing->next;
            free(RL_CONTAINER(thing, struct kind, by_options));
        }
    }
    chains_free(&locks->kinds);
}
