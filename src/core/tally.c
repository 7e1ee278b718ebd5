/* SPDX-License-Identifier: BSD-2-Clause
 *
 * One round of votes, and the arithmetic on which everything else rests: quorum, drift, and the
 * next fence. */
#include "core/core.h"

#include <assert.h>
#include <string.h>

/* "minus the time ... and minus a few milliseconds to compensate for clock drift between
 * processes." Rounded up, so that validity is rather too short; split, so that 24 hours times any
 * ppm fits 64 bits. */
rl_ns rl_drift_at(const struct rl_terms *terms, uint32_t drift_ppm, rl_ns ttl) {
    const rl_ns million = 1000000;
    rl_ns ppm = (rl_ns)drift_ppm;
    rl_ns whole = ttl / million * ppm;
    rl_ns rest = (ttl % million * ppm + million - 1) / million;
    return whole + rest + terms->drift_fixed;
}

rl_ns rl_drift(const struct rl_terms *terms, rl_ns ttl) {
    return rl_drift_at(terms, terms->drift_ppm, ttl);
}

/* Another client needs a majority too, so it needs one of any `quorum` nodes that have our key. A
 * minority of clocks that run wild therefore needs no allowance. */
uint32_t rl_allowance(const struct rl_terms *terms, rl_mask nodes, unsigned quorum) {
    const struct rl_rates *rates = terms->rates;
    const rl_mask fast = rates ? rates->fast & nodes : 0;
    unsigned covered = rl_count(nodes & (rl_mask)~fast);
    uint32_t allowance = terms->drift_ppm;
    for (rl_mask left = fast; left != 0 && covered < quorum; covered++) {
        unsigned least = (unsigned)__builtin_ctz(left);
        for (unsigned i = least; left >> i; i++)
            if ((left & rl_bit(i)) && rates->ppm[i] < rates->ppm[least]) least = i;
        allowance = rates->ppm[least];
        left &= (rl_mask)~rl_bit(least);
    }
    return allowance;
}

int64_t rl_fence_above(int64_t seen, int64_t hint) {
    return hint > seen && hint <= RL_FENCE_MAX ? hint : seen + 1;
}

/* Every node is in exactly one place: pending, or one of the four answers. (Were one in two places,
 * the sum would be more than the union.) */
static void check(const struct rl_tally *tally) {
    const rl_mask all = rl_all(tally->nodes), pending = rl_tally_pending(tally);
    assert(tally->nodes >= 1 && tally->nodes <= RL_NODES_MAX);
    assert((tally->granted | tally->denied | tally->absent | tally->failed | pending) == all);
    assert(tally->granted + tally->denied + tally->absent + tally->failed + pending == all);
    /* above the node count: more members exist than are listed here, and the round cannot be won */
    assert(tally->quorum >= 1);
    (void)all;
    (void)pending;
}

void rl_tally_open(struct rl_tally *tally, unsigned nodes, unsigned quorum, rl_mask asked) {
    memset(tally, 0, sizeof *tally);
    tally->nodes = (uint8_t)nodes;
    tally->quorum = (uint8_t)quorum;
    tally->asked = asked & rl_all(nodes);
    tally->failed = rl_all(nodes) & (rl_mask)~asked;
    check(tally);
}

rl_mask rl_tally_pending(const struct rl_tally *tally) {
    return tally->asked &
           (rl_mask) ~(tally->granted | tally->denied | tally->absent | tally->failed);
}

bool rl_tally_vote(struct rl_tally *tally, unsigned node, enum rl_vote vote) {
    if (node >= tally->nodes || (rl_tally_pending(tally) & rl_bit(node)) == 0) return false;
    switch (vote) {
    case RL_VOTE_NONE: return false;
    case RL_VOTE_GRANTED: tally->granted |= rl_bit(node); break;
    case RL_VOTE_DENIED: tally->denied |= rl_bit(node); break;
    case RL_VOTE_ABSENT: tally->absent |= rl_bit(node); break;
    case RL_VOTE_FAILED: tally->failed |= rl_bit(node); break;
    case RL_VOTE_STALE:
        tally->failed |= rl_bit(node);
        break; /* an attempt asks again; in other rounds the node has not granted */
    }
    check(tally);
    return true;
}

void rl_tally_close(struct rl_tally *tally) {
    tally->failed |= rl_tally_pending(tally);
    check(tally);
}

bool rl_tally_void(struct rl_tally *tally, rl_mask voided) {
    rl_mask valid = (rl_mask) ~(voided & (rl_mask)~tally->failed & rl_all(tally->nodes));
    if (valid == (rl_mask)~0) return false;
    tally->granted &= valid;
    tally->denied &= valid;
    tally->absent &= valid;
    tally->failed |= (rl_mask)~valid;
    check(tally);
    return true;
}

/* "the majority of the instances (at least N/2+1)", of all N: an unreachable node is a missing
 * vote. In guarded mode the nodes' records give N. */
bool rl_tally_won(const struct rl_tally *tally) {
    return rl_count(tally->granted) >= tally->quorum;
}

rl_ns rl_nth_time(const rl_ns times[RL_NODES_MAX], rl_mask nodes, unsigned nth) {
    rl_ns at = RL_NEVER;
    for (unsigned i = 0; i < RL_NODES_MAX; i++) {
        unsigned until_then = 0;
        if ((nodes & rl_bit(i)) == 0 || times[i] >= at) continue;
        for (unsigned j = 0; j < RL_NODES_MAX; j++)
            until_then += (nodes & rl_bit(j)) != 0 && times[j] <= times[i];
        if (until_then >= nth) at = times[i];
    }
    return at;
}

bool rl_tally_hopeless(const struct rl_tally *tally) {
    return rl_count(tally->granted | rl_tally_pending(tally)) < tally->quorum;
}

bool rl_tally_may_get_steadier(const struct rl_tally *tally, const struct rl_terms *terms) {
    const rl_mask may_grant = tally->granted | rl_tally_pending(tally);
    return rl_tally_won(tally) && rl_allowance(terms, may_grant, tally->quorum) <
                                      rl_allowance(terms, tally->granted, tally->quorum);
}
