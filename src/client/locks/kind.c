/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What locks made with the same options share: mostly a program has one kind of lock, or a few, and
 * a hundred thousand locks of it. But it may have a kind for each lock, too.
 */
#include <stdlib.h>
#include <string.h>

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
        .guarded = client->lock_mode->fenced,
        .confirm = client->options.confirm != 0,
        .ttl = options->ttl_ms * RL_MS,
        .drift_ppm = client->options.drift_ppm,
        .drift_fixed = client->options.drift_ms * RL_MS,
        .node_timeout = node_timeout(client, options->ttl_ms),
        .validity_min = validity_min(options),
    };
}

enum { OPTIONS = 10 };

/* Field by field: what lies between them is whatever the caller's stack held. */
static void values_of(const struct redlock_lock_options *o, int64_t values[OPTIONS]) {
    const int64_t all[OPTIONS] = {o->ttl_ms,
                                  o->validity_ms_min,
                                  o->renew,
                                  o->renew_interval_ms,
                                  o->hold_ms_max,
                                  o->renew_count_max,
                                  o->lost_margin_ms,
                                  o->retry_count_max,
                                  o->retry_delay_ms_min,
                                  o->retry_delay_ms_max};
    memcpy(values, all, sizeof all);
}

static bool same(const struct redlock_lock_options *a, const struct redlock_lock_options *b) {
    int64_t of_a[OPTIONS], of_b[OPTIONS];
    values_of(a, of_a);
    values_of(b, of_b);
    return memcmp(of_a, of_b, sizeof of_a) == 0;
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

static uint32_t hash_of(const struct redlock_lock_options *options) {
    int64_t values[OPTIONS];
    uint64_t hash = 0;
    values_of(options, values);
    for (size_t i = 0; i < OPTIONS; i++) {
        hash = (hash ^ (uint64_t)values[i]) * 0x9e3779b97f4a7c15u; /* 2^64 by the golden ratio */
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
