/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Which slot to settle on. */
#include "core/core.h"

unsigned rl_slots_choice(const struct rl_slots *slots, rl_mask counted, rl_mask silent,
                         unsigned quorum, rl_ns now) {
    unsigned votes[RL_SLOTS_MAX + 1] = {0}, best = 0, given = 0;
    for (unsigned node = 0; node < RL_NODES_MAX; node++) {
        const unsigned slot = slots->at[node];
        if (slot == 0 || !(counted & rl_bit(node))) continue;
        given++;
        /* of two with as many votes the first: no node says more for one than for the other */
        if (++votes[slot] > votes[best]) best = slot;
    }
    const unsigned more = rl_count(silent);
    if (best == 0 || votes[best] >= quorum) return best;
    /* Too few nodes gave any slot: none of them can get a majority by asking again. */
    if (given + (now < slots->settle_at ? more : 0) < quorum) return 0;
    return votes[best] + more < quorum || now >= slots->settle_at ? best : 0;
}

rl_mask rl_slots_elsewhere(const struct rl_slots *slots) {
    rl_mask nodes = 0;
    for (unsigned node = 0; node < RL_NODES_MAX; node++)
        if (slots->at[node] != 0 && slots->at[node] != slots->slot) nodes |= rl_bit(node);
    return nodes;
}
