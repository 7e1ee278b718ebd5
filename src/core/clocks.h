/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Whose wall clock moved forward alone: a server's keys end by it, so a step forward ends leases
 * early. A step is noticed when the first sample after it arrives, and is kept until the caller has
 * acted on it or it is too old to matter. A lease that ends between the step and that sample, and
 * is given to another client, is not among what this prevents (docs/safety.md, JUMP-FORWARD).
 */
#ifndef RL_CLOCKS_H
#define RL_CLOCKS_H

#include "core/core.h"

struct rl_clock_sample {
    int64_t wall_us;       /* the server's, at some moment between the two */
    rl_ns asked, answered; /* ours */
};

/* One server's clock, by our own. "Ahead" is its wall clock less our clock. */
struct rl_clock {
    bool sampled;
    rl_ns ahead_max,
        at; /* at `at` it was ahead by this much at most; since then it may gain by drift */
    rl_ns steady_since;            /* asked then, and since then no sample shows a step */
    rl_ns asked;                   /* the last sample */
    bool stepped;                  /* forward, between ... */
    rl_ns step_after, step_before; /* ... the last sample before it and the first behind it, when
                                      these were asked */
};

struct rl_clocks {
    unsigned nodes;
    uint32_t drift_ppm;
    rl_ns drift_fixed; /* granted once, not anew by every sample */
    struct rl_clock clock[RL_NODES_MAX];
};
void rl_clocks_init(struct rl_clocks *clocks, unsigned nodes, uint32_t drift_ppm,
                    rl_ns drift_fixed);
void rl_clocks_sample(struct rl_clocks *clocks, unsigned node,
                      const struct rl_clock_sample *sample);
void rl_clocks_forget(struct rl_clocks *clocks, unsigned node);   /* another server is there now */
void rl_clocks_acted_on(struct rl_clocks *clocks, unsigned node); /* its step needs nothing more */
/* The nodes whose clocks stepped within the last `lasts`, each while at least `steady_min` others
 * did not: where fewer stand still, it may be our own clock that is wrong. A node that was not
 * sampled on both sides of the step says nothing yet, and may do so later. */
rl_mask rl_clocks_stepped(struct rl_clocks *clocks, unsigned steady_min, rl_ns lasts, rl_ns now);

#endif
