/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/clocks.h"

#include <assert.h>
#include <string.h>

#define WALL_US_MAX (RL_NEVER / 2000) /* no sum overflows; reached in the year 2116 */

void rl_clocks_init(struct rl_clocks *clocks, unsigned nodes, uint32_t drift_ppm,
                    rl_ns drift_fixed) {
    assert(nodes <= RL_NODES_MAX);
    memset(clocks, 0, sizeof *clocks);
    clocks->nodes = nodes;
    clocks->drift_ppm = drift_ppm;
    clocks->drift_fixed = drift_fixed;
}

/* If our clock is slow by the whole drift, it shows `span` while the server's clock gains span / (1
 * - drift). A difference within the bounds that validity allows for must not add up to a step. */
static rl_ns gain(const struct rl_clocks *clocks, rl_ns span) {
    assert(clocks->drift_ppm < 1000000);
    rl_ns rest = 1000000 - clocks->drift_ppm;
    return span / rest * clocks->drift_ppm + (span % rest * clocks->drift_ppm + rest - 1) / rest;
}

/* The server read its clock at some time between asked and answered, so it is ahead by `least` to
 * `most`. An earlier bound stays valid, plus the drift since then. So small gains add up, and a
 * slow answer hides a step only briefly. */
void rl_clocks_sample(struct rl_clocks *clocks, unsigned node,
                      const struct rl_clock_sample *sample) {
    assert(node < clocks->nodes && sample->answered >= sample->asked && sample->asked >= 0);
    struct rl_clock *clock = &clocks->clock[node];
    int64_t wall_us = sample->wall_us < 0             ? 0
                      : sample->wall_us > WALL_US_MAX ? WALL_US_MAX
                                                      : sample->wall_us;
    rl_ns least = wall_us * 1000 - sample->answered, most = wall_us * 1000 - sample->asked;
    if (!clock->sampled) {
        *clock = (struct rl_clock){
            .sampled = true, .steady_since = sample->asked, .ahead_max = most, .at = sample->asked};
    } else {
        rl_ns bound = clock->ahead_max + gain(clocks, sample->answered - clock->at);
        bool stepped = least > bound + clocks->drift_fixed;
        if (stepped) { /* acting on the latest step also covers earlier steps */
            clock->stepped = true;
            clock->step_after = clock->asked;
            clock->step_before = clock->steady_since = sample->asked;
        }
        bool anew = stepped || most < bound;
        clock->ahead_max = anew ? most : bound;
        clock->at = anew ? sample->asked : sample->answered;
    }
    clock->asked = sample->asked;
}

void rl_clocks_forget(struct rl_clocks *clocks, unsigned node) {
    assert(node < clocks->nodes);
    clocks->clock[node] = (struct rl_clock){0};
}

void rl_clocks_acted_on(struct rl_clocks *clocks, unsigned node) {
    assert(node < clocks->nodes);
    clocks->clock[node].stepped = false;
}

rl_mask rl_clocks_stepped(struct rl_clocks *clocks, unsigned steady_min, rl_ns lasts, rl_ns now) {
    rl_mask stepped = 0;
    for (unsigned i = 0; i < clocks->nodes; i++) {
        struct rl_clock *clock = &clocks->clock[i];
        if (clock->stepped && now - clock->step_before > lasts) clock->stepped = false;
        if (!clock->stepped) continue;
        unsigned steady = 0; /* sampled before and after the step, and steady between */
        for (unsigned j = 0; j < clocks->nodes; j++) {
            const struct rl_clock *other = &clocks->clock[j];
            steady += other != clock && other->sampled &&
                      other->steady_since <= clock->step_after &&
                      other->asked >= clock->step_before;
        }
        if (steady >= steady_min) stepped |= rl_bit(i);
    }
    return stepped;
}
