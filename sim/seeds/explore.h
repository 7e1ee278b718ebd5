/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Explores many seeds, or one seed in detail.
 */
#ifndef SIM_EXPLORE_H
#define SIM_EXPLORE_H

#include "play.h"

enum explore_exit {
    EXPLORE_OK = 0,
    EXPLORE_SAFETY = 1, /* a rule was broken */
    EXPLORE_LIVENESS =
        2, /* no client acquired, or a node did not recover, although no fault prevented it */
    EXPLORE_CRASH = 3, /* a worker process died: an assertion, a signal */
    EXPLORE_USAGE = 64,
    EXPLORE_SYSTEM = 71
};

struct explore_options {
    struct plan_wish wish;
    uint64_t first, count; /* many seeds */
    unsigned jobs;
    bool hash;        /* print each seed's hash, do not judge */
    bool steps;       /* print each seed's steps (steps.h), do not judge */
    bool quiet;       /* no progress, no summary */
    bool coverage;    /* and say how many states were reached */
    uint64_t seed;    /* one seed */
    const char *only; /* actions that take part; NULL: all */
    bool trace, shrink;
};
int explore_many(const struct explore_options *options);
int explore_one(const struct explore_options *options);

/* Finds a minimal set of actions that still breaks the rule: without any one of them the run is
 * correct. Returns the number of runs that this took. */
size_t shrink(struct player *player, const struct plan *plan, enum check_rule rule,
              struct plan_mask *mask);

int explore_exit_of(const struct outcome *outcome);

#endif
