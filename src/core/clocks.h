/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Detects servers whose wall clock alone moved forward. A server ends keys by its wall clock, so a
 * step forward ends leases early. A step is noticed when the first sample after it arrives. It is
 * kept until the caller has acted on it or it is too old to matter. This does not prevent the loss
 * of a lease that ends between the step and that sample, and is given to another client
 * (docs/use/safety.md, JUMP-FORWARD).
 *
 * Also measures how fast a clock runs. Time services slew clocks by up to some per cent, all of
 * them together when they follow one source, and a fast clock ends keys early as well. */
#ifndef RL_CLOCKS_H
#define RL_CLOCKS_H

#include "core/core.h"

struct rl_clock_sample {
    int64_t wall_us;       /* the server's clock, at some time between the two */
    rl_ns asked, answered; /* by our clock */
};

/* One server's clock, measured by ours. "Ahead" is its wall clock minus our clock. */
struct rl_clock {
    bool sampled;
    /* At `at` it was ahead by at most this much; drift can add to it since then. */
    rl_ns ahead_max, at;
    /* When that was measured: it was ahead by at least so much, and showed this. */
    rl_ns ahead_min;
    int64_t wall_us;
    uint32_t gain_ppm;  /* as the last sample shows it; 0: not more than drift allows for */
    uint32_t fast_ppm;  /* the allowance that it needs; 0: the configured one will do */
    rl_ns fast_at;      /* the last sample that showed it fast */
    rl_ns steady_since; /* a sample taken then, and all samples since, show no step */
    rl_ns asked;        /* the last sample */
    bool stepped;       /* its clock stepped forward between ... */
    /* ... the last sample before the step and the first after it; when they were asked */
    rl_ns step_after, step_before;
};

struct rl_clocks {
    unsigned nodes;
    uint32_t drift_ppm;
    rl_ns drift_fixed; /* allowed once, not again for every sample */
    struct rl_clock clock[RL_NODES_MAX];
};
void rl_clocks_init(struct rl_clocks *clocks, unsigned nodes, uint32_t drift_ppm,
                    rl_ns drift_fixed);
void rl_clocks_sample(struct rl_clocks *clocks, unsigned node,
                      const struct rl_clock_sample *sample);
/* Another server, or another connection, answers there now. The allowance stays until samples show
 * that it is not needed. */
void rl_clocks_forget(struct rl_clocks *clocks, unsigned node);
/* its step needs no further action */
void rl_clocks_acted_on(struct rl_clocks *clocks, unsigned node);
/* The nodes whose clocks stepped within the last `lasts`, each while at least `steady_min` other
 * clocks did not. With fewer steady clocks, our own clock may be the wrong one. A node that was not
 * sampled on both sides of the step does not count yet, and may count later. */
rl_mask rl_clocks_stepped(struct rl_clocks *clocks, unsigned steady_min, rl_ns lasts, rl_ns now);
/* The allowance that this clock needs, in ppm of a TTL, by what was measured; 0: it does not gain
 * more than the configured drift allows for. */
uint32_t rl_clocks_fast(const struct rl_clocks *clocks, unsigned node);

#endif
