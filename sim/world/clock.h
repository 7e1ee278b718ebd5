/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A clock that runs at its own rate, steps and freezes, and the conversion of its times to world
 * time. It computes with exact integers, the same on every machine. A timer never fires before its
 * own clock shows its time.
 */
#ifndef SIM_CLOCK_H
#define SIM_CLOCK_H

#include "core/core.h"

#define CLOCK_TRUE 1000000u /* parts per million of world time */

struct sim_clock {
    rl_ns since; /* world time */
    rl_ns shown; /* what the clock showed at `since` */
    uint32_t ppm;
};

static inline rl_ns clock_read(const struct sim_clock *clock, rl_ns now) {
    rl_ns run = now - clock->since;
    return clock->shown + run / 1000000 * clock->ppm + run % 1000000 * clock->ppm / 1000000;
}

/* The first world time at which the clock shows `shown` or more, at its present rate; RL_NEVER:
 * never. */
static inline rl_ns clock_when(const struct sim_clock *clock, rl_ns shown) {
    if (shown == RL_NEVER) return RL_NEVER;
    rl_ns left = shown - clock->shown;
    if (left <= 0) return clock->since;
    if (clock->ppm == 0 || left / clock->ppm > (RL_NEVER - clock->since) / 2000000) return RL_NEVER;
    return clock->since + left / clock->ppm * 1000000 +
           (left % clock->ppm * 1000000 + clock->ppm - 1) / clock->ppm;
}

static inline void clock_set(struct sim_clock *clock, rl_ns now, rl_ns step, uint32_t ppm) {
    clock->shown = clock_read(clock, now) + step;
    clock->since = now;
    clock->ppm = ppm;
}

#endif
