/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/clocks.h"

#include <assert.h>
#include <string.h>

/* A kernel slews by at most a tenth (adjtimex(2): ticks of 0.9 to 1.1). What one measurement shows
 * above this is a step, unless the measurement before showed it too. */
#define SLEW_PPM_MAX 125000
/* Measurements differ from one to the next. The allowance grows in steps of this size, since every
 * lease is checked when it grows. */
#define GRAIN_PPM 2500
/* A clock needs the allowance for so long after it was last measured to run fast. */
#define FAST_FOR (60000 * RL_MS)
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

/* Its clock has gained at most `gained` while it showed `shown_us` (rounded up). This part of a TTL
 * must be subtracted, since the TTL is time that the server's clock shows. */
static uint32_t part_of(rl_ns gained, int64_t shown_us) {
    int64_t gained_us = gained / 1000 + 1;
    if (gained_us >= shown_us) return 1000000;
    for (; shown_us > RL_NEVER / 4000000; shown_us /= 2) gained_us = gained_us / 2 + 1;
    int64_t ppm = gained_us * 1000000 / shown_us + 1;
    ppm = (ppm + GRAIN_PPM - 1) / GRAIN_PPM * GRAIN_PPM;
    return ppm < 1000000 ? (uint32_t)ppm : 1000000;
}

static void note_gain(struct rl_clock *clock, uint32_t ppm, rl_ns now) {
    const uint32_t before = clock->gain_ppm, most = before > SLEW_PPM_MAX ? before : SLEW_PPM_MAX;
    clock->gain_ppm = ppm;
    if (ppm > most) ppm = most;
    if (ppm != 0) clock->fast_at = now;
    if (ppm > clock->fast_ppm || now - clock->fast_at > FAST_FOR) clock->fast_ppm = ppm;
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
        *clock = (struct rl_clock){.sampled = true,
                                   .steady_since = sample->asked,
                                   .ahead_max = most,
                                   .at = sample->asked,
                                   .ahead_min = least,
                                   .wall_us = wall_us,
                                   .fast_ppm = clock->fast_ppm,
                                   .fast_at = clock->fast_at};
    } else {
        rl_ns bound = clock->ahead_max + gain(clocks, sample->answered - clock->at);
        bool stepped = least > bound + clocks->drift_fixed;
        if (stepped) { /* acting on the latest step also covers earlier steps */
            clock->stepped = true;
            clock->step_after = clock->asked;
            clock->step_before = clock->steady_since = sample->asked;
        }
        /* The margin: both answers took some time, and the gain may be the larger for it. */
        note_gain(clock, stepped ? part_of(most - clock->ahead_min, wall_us - clock->wall_us) : 0,
                  sample->answered);
        bool anew = stepped || most < bound;
        clock->ahead_max = anew ? most : bound;
        clock->at = anew ? sample->asked : sample->answered;
        if (anew) {
            clock->ahead_min = least;
            clock->wall_us = wall_us;
        }
    }
    clock->asked = sample->asked;
}

void rl_clocks_forget(struct rl_clocks *clocks, unsigned node) {
    assert(node < clocks->nodes);
    struct rl_clock *clock = &clocks->clock[node];
    *clock = (struct rl_clock){.fast_ppm = clock->fast_ppm, .fast_at = clock->fast_at};
}

uint32_t rl_clocks_fast(const struct rl_clocks *clocks, unsigned node) {
    assert(node < clocks->nodes);
    return clocks->clock[node].fast_ppm;
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
