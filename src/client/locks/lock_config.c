/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The options that locks share. Most programs have one lock config, or a few, and up to a hundred
 * thousand locks with it. But a program may also have one for each lock. */
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

/* A win that would be reported as lost at once is not a win. */
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

/* Field by field: the padding between fields is whatever was on the caller's stack. */
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

static struct lock_config *lock_config_new(struct redlock_client *client,
                                           const struct redlock_lock_options *options) {
    struct lock_config *config = calloc(1, sizeof *config);
    if (!config) return NULL;
    config->options = *options;
    config->options.owner = NULL;
    config->options.owner_bytes = 0;
    config->options.on_change = NULL;
    config->options.on_change_context = NULL;
    config->terms = terms_of(client, options);
    return config;
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

static struct lock_config *lock_config_find(struct redlock_client *client,
                                            const struct redlock_lock_options *options) {
    uint32_t hash = hash_of(options);
    for (struct chained *thing = chains_first(&client->locks->lock_configs, hash); thing;
         thing = chains_next(thing)) {
        struct lock_config *config = RL_CONTAINER(thing, struct lock_config, by_options);
        if (same(&config->options, options)) return config;
    }
    struct lock_config *config = lock_config_new(client, options);
    if (config && chains_add(&client->locks->lock_configs, &config->by_options, hash, CHAINS_LEAST))
        return config;
    free(config);
    return NULL;
}

struct lock_config *lock_config_of(struct redlock_client *client,
                                   const struct redlock_lock_options *options) {
    struct lock_config *config = client->locks->lock_config_last;
    if (!config || !same(&config->options, options)) config = lock_config_find(client, options);
    if (!config) return NULL;
    client->locks->lock_config_last = config;
    config->locks++;
    return config;
}

void lock_config_drop(struct redlock_client *client, struct lock_config *config) {
    if (--config->locks > 0) return;
    if (client->locks->lock_config_last == config) client->locks->lock_config_last = NULL;
    chains_remove(&client->locks->lock_configs, &config->by_options);
    free(config);
}
