/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Whose wall clock moved forward alone: a server's keys end by it, so a step forward ends leases early. What this catches
 * is what happened between two samples of a server that was connected at both; a lease that was lost and given to another
 * before the second sample is not among it (docs/safety.md, JUMP-FORWARD).
 */
#ifndef RL_CLOCKS_H
#define RL_CLOCKS_H

#include "core/core.h"

struct rl_clock_sample {
    int64_t wall_us;        /* the server's, at some moment between the two */
    rl_ns asked, answered;  /* ours */
};

struct rl_clocks {
    unsigned nodes;
    uint32_t drift_ppm;
    rl_ns drift_fixed;
    rl_mask had, have;      /* sampled in the round before, in this one */
    struct rl_clock_sample last[RL_NODES_MAX], next[RL_NODES_MAX];
};
void rl_clocks_init(struct rl_clocks *clocks, unsigned nodes, uint32_t drift_ppm, rl_ns drift_fixed);
void rl_clocks_sample(struct rl_clocks *clocks, unsigned node, const struct rl_clock_sample *sample);
void rl_clocks_forget(struct rl_clocks *clocks, unsigned node); /* not connected any more */
/* Ends the round. The nodes that went forward by more than drift allows, if at least `steady_min` others did not: where
 * fewer stand still, it may be our clock that is wrong, and then nobody is told of. */
rl_mask rl_clocks_round(struct rl_clocks *clocks, unsigned steady_min);

#endif
