/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/clocks.h"

#include <assert.h>
#include <string.h>

void rl_clocks_init(struct rl_clocks *clocks, unsigned nodes, uint32_t drift_ppm, rl_ns drift_fixed) {
    memset(clocks, 0, sizeof *clocks);
    clocks->nodes = nodes;
    clocks->drift_ppm = drift_ppm;
    clocks->drift_fixed = drift_fixed;
}

void rl_clocks_sample(struct rl_clocks *clocks, unsigned node, const struct rl_clock_sample *sample) {
    assert(node < clocks->nodes && sample->answered >= sample->asked);
    clocks->next[node] = *sample;
    clocks->have |= rl_bit(node);
}

void rl_clocks_forget(struct rl_clocks *clocks, unsigned node) {
    clocks->had &= (rl_mask)~rl_bit(node);
    clocks->have &= (rl_mask)~rl_bit(node);
}

/* The longest time that can have passed for us between the server's two looks at its clock, and what drift adds. */
static bool jumped(const struct rl_clocks *clocks, unsigned node) {
    const struct rl_clock_sample *last = &clocks->last[node], *next = &clocks->next[node];
    const struct rl_terms terms = {.drift_ppm = clocks->drift_ppm, .drift_fixed = clocks->drift_fixed};
    if (next->wall_us <= last->wall_us) return false; /* back: keys live longer, which harms nobody's lease */
    int64_t forward_us = next->wall_us - last->wall_us;
    rl_ns passed = next->answered - last->asked;
    if (forward_us > RL_NEVER / 1000) return true;
    return forward_us * 1000 - passed > rl_drift(&terms, passed);
}

rl_mask rl_clocks_round(struct rl_clocks *clocks, unsigned steady_min) {
    rl_mask forward = 0, steady = 0;
    for (unsigned i = 0; i < clocks->nodes; i++) {
        if (!(clocks->had & clocks->have & rl_bit(i))) continue;
        if (jumped(clocks, i)) forward |= rl_bit(i);
        else steady |= rl_bit(i);
    }
    for (unsigned i = 0; i < clocks->nodes; i++)
        if (clocks->have & rl_bit(i)) clocks->last[i] = clocks->next[i];
    clocks->had |= clocks->have;
    clocks->have = 0;
    return rl_count(steady) >= steady_min ? forward : 0;
}
