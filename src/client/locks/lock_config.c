/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The options that locks share. Most programs have one lock config, or a few, and up to a hundred
 * thousand locks with it. But a program may also have one for each lock. */
#include <stdlib.h>
#include <string.h>

#include "core/mix.h"
#include "lock.h"

enum { CHAINS_LEAST = 16 };

static rl_ns node_timeout(const struct redlock_client *client, int64_t ttl_ms) {
    if (client->options.node_timeout_ms) return client->options.node_timeout_ms * RL_MS;
    rl_ns timeout = ttl_ms * RL_MS / 20;
    if (timeout > 50 * RL_MS) return 50 * RL_MS;
    return timeout < 5 * RL_MS ? 5 * RL_MS : timeout;
}

/* Clients that renew at one time, since a lost node has come back to all of them, must not do so
 * for ever: each has an interval of its own, up to this part shorter. */
enum { RENEWALS_DIFFER = 16 };

static rl_ns renew_every(const struct redlock_client *client,
                         const struct redlock_lock_options *options) {
    const rl_ns every = options->renew ? options->renew_interval_ms * RL_MS : 0;
    uint32_t random = 0;
    (void)net_random(client->net, &random, sizeof random);
    return every - (rl_ns)((uint64_t)(every / RENEWALS_DIFFER) * random >> 32);
}

static struct lock_config *lock_config_new(struct redlock_client *client,
                                           const struct redlock_lock_options *options) {
    struct lock_config *config = calloc(1, sizeof *config);
    if (!config) return NULL;
    config->mode = client->lock_mode;
    config->options = *options;
    config->options.owner = NULL;
    config->options.owner_bytes = 0;
    config->options.on_change_context = NULL;
    /* A win that would be reported as lost at once is not a win. */
    int64_t validity_ms = options->lost_margin_ms + 1;
    if (validity_ms < options->validity_ms_min) validity_ms = options->validity_ms_min;
    config->terms = (struct rl_terms){
        .nodes = (uint8_t)client->nodes,
        .quorum = (uint8_t)rl_quorum(client->nodes),
        .guarded = config->mode->fenced,
        .slots = (uint8_t)options->slots,
        .confirm = client->options.confirm != 0,
        .shared = options->shared != 0,
        .announces = options->leader != 0,
        .ttl = options->ttl_ms * RL_MS,
        .drift_ppm = client->options.drift_ppm,
        .drift_fixed = client->options.drift_ms * RL_MS,
        .rates = &client->rates,
        .node_timeout = node_timeout(client, options->ttl_ms),
        .validity_min = validity_ms * RL_MS,
    };
    config->rules = (struct rl_lease_rules){
        .renew_every = renew_every(client, options),
        .hold_max = options->hold_ms_max * RL_MS,
        .renewals_max = options->renew_count_max,
        .lost_margin = options->lost_margin_ms * RL_MS,
    };
    return config;
}

static struct lock_config *lock_config_find(struct redlock_client *client,
                                            const struct redlock_lock_options *options,
                                            const int64_t values[LOCK_VALUES]) {
    struct chains *configs = &client->locks->lock_configs;
    uint32_t hash = (uint32_t)rl_fnv1a(RL_FNV_BASIS, values, LOCK_VALUES * sizeof values[0]);
    struct lock_config *config;
    for (struct chained *at = chains_first(configs, hash); at; at = chains_next(at)) {
        config = RL_CONTAINER(at, struct lock_config, by_values);
        if (memcmp(config->values, values, sizeof config->values) == 0) return config;
    }
    config = lock_config_new(client, options);
    if (!config) return NULL;
    memcpy(config->values, values, sizeof config->values);
    if (chains_add(configs, &config->by_values, hash, CHAINS_LEAST)) return config;
    free(config);
    return NULL;
}

struct lock_config *lock_config_of(struct redlock_client *client,
                                   const struct redlock_lock_options *o) {
    /* Field by field: the padding between fields is whatever was on the caller's stack. */
    const int64_t values[LOCK_VALUES] = {o->ttl_ms,
                                         o->validity_ms_min,
                                         o->renew,
                                         o->renew_interval_ms,
                                         o->hold_ms_max,
                                         o->renew_count_max,
                                         o->lost_margin_ms,
                                         o->retry_count_max,
                                         o->retry_delay_ms_min,
                                         o->retry_delay_ms_max,
                                         o->leader,
                                         o->slots,
                                         o->shared,
                                         (int64_t)(intptr_t)o->on_change,
                                         client->lock_mode->fenced};
    struct lock_config *config = client->locks->lock_config_last;
    if (!config || memcmp(config->values, values, sizeof values) != 0)
        config = lock_config_find(client, o, values);
    if (!config) return NULL;
    client->locks->lock_config_last = config;
    config->locks++;
    return config;
}

void lock_config_drop(struct redlock_client *client, struct lock_config *config) {
    if (--config->locks > 0) return;
    if (client->locks->lock_config_last == config) client->locks->lock_config_last = NULL;
    chains_remove(&client->locks->lock_configs, &config->by_values);
    free(config);
}

int lock_config_follow_mode(struct redlock_lock *lock) {
    struct redlock_client *client = lock->client;
    if (lock->config->mode == client->lock_mode) return REDLOCK_OK;
    struct lock_config *config = lock_config_of(client, &lock->config->options);
    if (!config) return REDLOCK_NO_MEMORY;
    lock_config_drop(client, lock->config);
    lock->config = config;
    return REDLOCK_OK;
}
