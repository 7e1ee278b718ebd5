/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Many seeds, or one of them closely.
 */
#ifndef SIM_EXPLORE_H
#define SIM_EXPLORE_H

#include "play.h"

enum explore_exit {
    EXPLORE_OK = 0,
    EXPLORE_SAFETY = 1, /* a rule was broken */
    EXPLORE_LIVENESS =
        2, /* nobody acquired, or a node was not brought back, although nothing was in the way */
    EXPLORE_CRASH = 3, /* a worker died: an assertion, a signal */
    EXPLORE_USAGE = 64,
    EXPLORE_SYSTEM = 71
};

struct explore_options {
    uint64_t first, count;
    unsigned jobs;
    struct plan_wish wish;
    bool hash;  /* print each seed's hash, judge nothing */
    bool quiet; /* no progress, no summary */
};

int explore_many(const struct explore_options *options);

struct explore_one {
    uint64_t seed;
    struct plan_wish wish;
    const char *only; /* actions that take part; NULL: all */
    bool trace, shrink;
};

int explore_one(const struct explore_one *options);

/* The fewest actions with which the rule is still broken: taking any one of them away mends it.
 * Returns how many runs that took. */
size_t shrink(struct player *player, const struct plan *plan, enum check_rule rule,
              struct plan_mask *mask);

/* How to see it again. */
void explore_print_command(uint64_t seed, const struct plan_wish *wish, const char *more,
                           FILE *out);
int explore_exit_of(const struct outcome *outcome);

#endif
