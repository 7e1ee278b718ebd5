/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What the guard knows, for the locks that vote: which answers of a node count, which TTL the
 * quorum allows, and which fence comes next. */
#include "guarding.h"

/* A fence above the middle of the range cannot come from a clock (it stands for the year 2112).
 * Only its own stripe goes above it. If the client took it for a clock that is ahead, its locks
 * would carry it to all other stripes, until no tokens are left. */
#define FENCE_OF_NO_CLOCK (REDLOCK_FENCE_MAX / 2)

/* ---- nodes ---- */

bool guard_is_being_made(const struct guard *guard, unsigned node) {
    const struct rl_guard_node *at = &guard->machine.node[node];
    return at->eligibility == RL_ELIGIBILITY_FOREIGN && at->has_record && !at->unreadable &&
           at->record.eligibility == RL_RECORD_RECOVERING &&
           (at->record.quorum_id != guard->machine.quorum.quorum_id ||
            at->record.epoch >= guard->machine.quorum.epoch);
}

int guard_verdict(const struct redlock_client *client, unsigned node, int verdict) {
    const struct guard *guard = client->guard;
    if (verdict != REDLOCK_VERDICT_GRANTED) return verdict;
    switch (guard->machine.node[node].eligibility) {
    case RL_ELIGIBILITY_INTACT:
        if (guard->machine.decided) return REDLOCK_VERDICT_GRANTED;
        return guard_asks_for_quorum(guard) ? REDLOCK_VERDICT_CONNECTING
                                            : REDLOCK_VERDICT_UNACCEPTED;
    case RL_ELIGIBILITY_RECOVERING:
    case RL_ELIGIBILITY_BEHIND: return REDLOCK_VERDICT_RECOVERING;
    case RL_ELIGIBILITY_FOREIGN:
        return guard_is_being_made(guard, node) ? REDLOCK_VERDICT_RECOVERING
                                                : REDLOCK_VERDICT_FOREIGN;
    case RL_ELIGIBILITY_NO_RECORD: return REDLOCK_VERDICT_NO_RECORD;
    case RL_ELIGIBILITY_REFUSED: return REDLOCK_VERDICT_UNFIT;
    case RL_ELIGIBILITY_UNKNOWN: break;
    }
    return guard->node[node].trouble != 0 ? guard->node[node].trouble : REDLOCK_VERDICT_CONNECTING;
}

int64_t guard_recovering_ms(const struct guard *guard, unsigned node) {
    if (guard_is_being_made(guard, node)) return -1;
    if (guard->machine.node[node].eligibility != RL_ELIGIBILITY_RECOVERING) return 0;
    rl_ns left = rl_guard_left(&guard->machine, node, net_now(guard->client->net));
    return left < 0 ? -1 : (left + RL_MS - 1) / RL_MS;
}

bool guard_is_unread(const struct guard *guard, unsigned node) {
    return guard->machine.node[node].up &&
           guard->machine.node[node].eligibility == RL_ELIGIBILITY_UNKNOWN;
}

rl_mask guard_voided_since(const struct guard *guard, rl_ns since) {
    rl_mask nodes = guard->voided;
    for (unsigned i = 0; i < guard->machine.nodes; i++)
        if (guard->node[i].voided_at >= since) nodes |= rl_bit(i);
    return nodes;
}

int64_t guard_ttl_max_ms(const struct guard *guard) {
    return guard->machine.known ? rl_record_ttl_allowed(&guard->machine.quorum) : 0;
}

/* ---- fences ---- */

int64_t guard_fence_hint(struct guard *guard) {
    int64_t wall = net_wall_us(guard->client->net);
    if (wall < 1) wall = 1;
    if (wall > FENCE_OF_NO_CLOCK) wall = FENCE_OF_NO_CLOCK;
    if (wall + guard->fence_ahead <= guard->fence_seen)
        guard->fence_ahead = guard->fence_seen + 1 - wall;
    int64_t hint = wall + guard->fence_ahead;
    if (hint > guard->fence_proposed) return hint;
    return guard->fence_proposed + 1; /* locks of the same microsecond may share a stripe */
}

bool guard_fence_plausible(struct guard *guard, int64_t fence) {
    /* no clock is wrong by so much; most typing errors are larger */
    const int64_t year_us = INT64_C(366) * 86400 * 1000000;
    return fence <= guard_fence_hint(guard) + year_us;
}

void guard_proposed_fence(struct guard *guard, int64_t fence) {
    if (fence > guard->fence_proposed && fence < FENCE_OF_NO_CLOCK) guard->fence_proposed = fence;
}

void guard_saw_fence(struct guard *guard, int64_t fence) {
    if (fence > guard->fence_seen && fence < FENCE_OF_NO_CLOCK) guard->fence_seen = fence;
}
