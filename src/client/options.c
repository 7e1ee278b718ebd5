/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Defaults and limits. A value outside its range is refused with a message, never clipped. */
#include <string.h>

#include "abi/sized.h"
#include "client/client.h"
#include "config/client_fields.h"

void redlock_client_options_fill(struct redlock_client_options *options, size_t size) {
    const struct redlock_client_options defaults = {
        .connect_timeout_ms = 1000,
        .stall_timeout_ms = 5000,
        .drift_ppm = 10000,
        .drift_ms = 2,
        .service_thread = 1,
        .log_level = REDLOCK_LOG_WARNING,
        .mode = REDLOCK_MODE_AUTO,
        .recover = 1,
    };
    sized_fill(options, size, &defaults, sizeof defaults);
}

void redlock_lock_options_fill(struct redlock_lock_options *options, size_t size) {
    const struct redlock_lock_options defaults = {
        .ttl_ms = 30000,
        .validity_ms_min = 1,
        .renew = 1,
        .lost_margin_ms = -1,
        .retry_delay_ms_min = 50,
        .retry_delay_ms_max = 250,
    };
    sized_fill(options, size, &defaults, sizeof defaults);
}

static bool in_range(struct redlock_error *error, const char *name, int64_t value, int64_t least,
                     int64_t most) {
    if (value >= least && value <= most) return true;
    return bad_argument(error, "%s is %lld; it must be between %lld and %lld", name,
                        (long long)value, (long long)least, (long long)most);
}

static bool quorum_id_valid(const char *id, struct redlock_error *error) {
    if (!id || is_quorum_id(id)) return true;
    return bad_argument(
        error, "quorum is '%.40s'; an id has 16 hex digits, and redlock quorum status prints it",
        id);
}

bool options_client(struct redlock_client_options *to, const struct redlock_client_options *from,
                    struct redlock_error *error) {
    redlock_client_options_init(to);
    if (from && !sized_take(to, sizeof *to, from, FIRST_CLIENT_OPTIONS))
        return bad_argument(
            error,
            "client options of an unknown size: fill them with redlock_client_options_init()");
    if (!in_range(error, "node_timeout_ms", to->node_timeout_ms, 0, 60000) ||
        !in_range(error, "connect_timeout_ms", to->connect_timeout_ms, 1, 600000) ||
        !in_range(error, "stall_timeout_ms", to->stall_timeout_ms, 10, 600000) ||
        !in_range(error, "drift_ppm", to->drift_ppm, 0, 500000) ||
        !in_range(error, "drift_ms", to->drift_ms, 0, 60000) ||
        !in_range(error, "service_thread", to->service_thread, 0, 1) ||
        !in_range(error, "queue", to->queue, 0, 1) ||
        !in_range(error, "log_level", to->log_level, REDLOCK_LOG_ERROR, REDLOCK_LOG_DEBUG))
        return false;
    if (to->key_prefix && to->key_prefix_bytes == 0) to->key_prefix_bytes = strlen(to->key_prefix);
    if (!to->key_prefix) to->key_prefix_bytes = 0;
    if (to->key_prefix_bytes >= REDLOCK_RESOURCE_BYTES_MAX)
        return bad_argument(error, "the key prefix is longer than %d bytes",
                            REDLOCK_RESOURCE_BYTES_MAX - 1);
    if (!in_range(error, "mode", to->mode, REDLOCK_MODE_CLASSIC, REDLOCK_MODE_AUTO) ||
        !in_range(error, "confirm", to->confirm, 0, 1) ||
        !in_range(error, "recover", to->recover, 0, 1) ||
        !in_range(error, "allow_replicas", to->allow_replicas, 0, 1))
        return false;
    return true;
}

bool options_agree(struct redlock_client_options *to, struct redlock_error *error) {
    if (!quorum_id_valid(to->quorum, error)) return false;
    /* A quorum that is named can only mean guarded mode, unless another is named. */
    if (to->quorum && to->mode == REDLOCK_MODE_AUTO) to->mode = REDLOCK_MODE_GUARDED;
    if (to->confirm && to->mode != REDLOCK_MODE_GUARDED)
        return bad_argument(
            error, "confirm orders fencing tokens, which only guarded mode has: set mode too");
    if (!to->tls_cert_file != !to->tls_key_file)
        return bad_argument(error,
                            "a TLS client certificate needs both tls_cert_file and tls_key_file");
    if (to->queue && !to->service_thread)
        return bad_argument(error,
                            "a queue is filled by the service thread: set service_thread, or "
                            "leave queue out and call redlock_process()");
    if (to->password && to->password_file)
        return bad_argument(error, "the password comes from password_file or from password(): set "
                                   "one of the two");
    if (to->user && !to->password && !to->password_file)
        return bad_argument(error, "user '%.60s' needs a password: set password_file or password()",
                            to->user);
    return true;
}

bool options_lock(const struct redlock_client *client, struct redlock_lock_options *to,
                  const struct redlock_lock_options *from, struct redlock_error *error) {
    redlock_lock_options_init(to);
    if (from && !sized_take(to, sizeof *to, from, FIRST_LOCK_OPTIONS))
        return bad_argument(
            error, "lock options of an unknown size: fill them with redlock_lock_options_init()");
    const bool is_short = to->hold_ms_max > 0 && to->hold_ms_max < to->ttl_ms;
    const int64_t life_ms = is_short ? to->hold_ms_max : to->ttl_ms;
    if (to->lost_margin_ms == -1) to->lost_margin_ms = life_ms / 10 < 1000 ? life_ms / 10 : 1000;
    if (to->renew_interval_ms == 0) to->renew_interval_ms = to->ttl_ms / 3;
    const int64_t below_ttl_ms = to->ttl_ms > 0 ? to->ttl_ms - 1 : 0;
    if (!in_range(error, "ttl_ms", to->ttl_ms, REDLOCK_TTL_MS_MIN, REDLOCK_TTL_MS_MAX) ||
        !in_range(error, "validity_ms_min", to->validity_ms_min, 0, below_ttl_ms) ||
        !in_range(error, "lost_margin_ms", to->lost_margin_ms, 0, below_ttl_ms) ||
        !in_range(error, "renew", to->renew, 0, 1) ||
        !in_range(error, "renew_interval_ms", to->renew_interval_ms, 1, below_ttl_ms) ||
        !in_range(error, "hold_ms_max", to->hold_ms_max, 0, INT64_C(366) * 86400000) ||
        !in_range(error, "shared", to->shared, 0, 1) ||
        !in_range(error, "retry_delay_ms_max", to->retry_delay_ms_max, 0, REDLOCK_TTL_MS_MAX) ||
        !in_range(error, "slots", to->slots, 0, REDLOCK_SLOTS_MAX) ||
        !in_range(error, "retry_delay_ms_min", to->retry_delay_ms_min, 0, to->retry_delay_ms_max))
        return false;
    if (!in_range(error, "leader", to->leader, 0, 1)) return false;
    if (client->options.node_timeout_ms >= to->ttl_ms)
        return bad_argument(
            error,
            "the node timeout (%lld ms) must be far below the TTL (%lld ms): shorten the node timeout or lengthen the TTL",
            (long long)client->options.node_timeout_ms, (long long)to->ttl_ms);
    int64_t drift_ms = to->ttl_ms * client->options.drift_ppm / 1000000 + client->options.drift_ms;
    int64_t wanted_ms =
        to->validity_ms_min > to->lost_margin_ms ? to->validity_ms_min : to->lost_margin_ms + 1;
    if (drift_ms + wanted_ms >= to->ttl_ms)
        return bad_argument(
            error,
            "a TTL of %lld ms leaves no validity: drift takes %lld ms, and validity_ms_min and lost_margin_ms need %lld ms",
            (long long)to->ttl_ms, (long long)drift_ms, (long long)wanted_ms);
    if (wanted_ms > life_ms)
        return bad_argument(
            error,
            "hold_ms_max (%lld ms) leaves no validity: validity_ms_min and lost_margin_ms need %lld ms",
            (long long)to->hold_ms_max, (long long)wanted_ms);
    if (to->owner && to->owner_bytes == 0) to->owner_bytes = strlen(to->owner);
    if (!to->owner) to->owner_bytes = 0;
    if (to->owner_bytes > REDLOCK_OWNER_BYTES_MAX)
        return bad_argument(error, "the owner has %zu bytes; at most %d are kept in the token",
                            to->owner_bytes, REDLOCK_OWNER_BYTES_MAX);
    return true;
}
