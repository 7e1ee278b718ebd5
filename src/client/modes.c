/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The modes: where the client does one thing or another by its mode, it does so by these tables.
 */
#include "client/guarding/guarding.h"
#include "client/locks/locks.h"

static bool needs_nothing(struct redlock_client *client) {
    (void)client;
    return true;
}

static void nothing(struct redlock_client *client) { (void)client; }

static void no_news(struct redlock_client *client, unsigned node,
                    const struct net_node_status *status) {
    (void)client, (void)node, (void)status;
}

static void no_change(struct redlock_client *client, unsigned node) { (void)client, (void)node; }

static int as_the_net_says(const struct redlock_client *client, unsigned node, int verdict) {
    (void)client, (void)node;
    return verdict;
}

static void no_status(const struct redlock_client *client, unsigned node,
                      struct redlock_node_status *status) {
    (void)client, (void)node, (void)status;
}

static bool any_keys(struct redlock_lock *lock, struct redlock_error *error) {
    (void)lock, (void)error;
    return true;
}

static void no_fences(struct round *round) { (void)round; }

static void no_hints(struct redlock_lock *lock, struct rl_event *event) { (void)lock, (void)event; }

static void no_fence(struct redlock_lock *lock) { (void)lock; }

static int may_always(const struct redlock_lock *lock, int64_t ttl_ms) {
    (void)lock, (void)ttl_ms;
    return REDLOCK_OK;
}

static int without_fence(struct redlock_lock *lock, int64_t fence) {
    (void)lock, (void)fence;
    return REDLOCK_OK;
}

#define CLASSIC_LOCKS                                                                              \
    .keys_valid = any_keys, .round_carry = no_fences, .event = no_hints,                           \
    .send_votes = classic_send_votes, .won = no_fence, .answer = classic_answer,                   \
    .may_extend = may_always, .adopt = without_fence

const struct mode mode_classic = {
    .open = needs_nothing,
    .start = nothing,
    .node = no_news,
    .changed = no_change,
    .verdict = as_the_net_says,
    .status = no_status,
    .leave = nothing,
    CLASSIC_LOCKS,
};

const struct mode mode_auto = {
    .asks_quorum = true,
    .open = automode_open,
    .start = automode_start,
    .node = automode_node,
    .changed = no_change,
    .verdict = automode_verdict,
    .status = automode_status,
    .leave = nothing,
    CLASSIC_LOCKS,
};

const struct mode mode_guarded = {
    .guarded = true,
    .open = guard_open,
    .start = guard_start,
    .node = guard_node,
    .changed = guard_changed,
    .verdict = guard_verdict,
    .status = guard_status,
    .leave = guard_leave,
    .round_bytes = FENCED_ROUND_BYTES,
    .round_bytes_each = FENCED_ROUND_BYTES_EACH,
    .keys_valid = fenced_keys_valid,
    .round_carry = fenced_round_carry,
    .event = fenced_event,
    .send_votes = fenced_send_votes,
    .won = fenced_won,
    .answer = fenced_answer,
    .may_extend = fenced_may_extend,
    .adopt = fenced_adopt,
};
