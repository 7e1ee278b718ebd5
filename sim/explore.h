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
    uint64_t first, count;
    unsigned jobs;
    struct plan_wish wish;
    bool hash;  /* print each seed's hash, do not judge */
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

/* Finds a minimal set of actions that still breaks the rule: without any one of them the run is
 * correct. Returns the number of runs that this took. */
size_t shrink(struct player *player, const struct plan *plan, enum check_rule rule,
              struct plan_mask *mask);

/* Prints the command that repeats the run. */
void explore_print_command(uint64_t seed, const struct plan_wish *wish, const char *more,
                           FILE *out);
int explore_exit_of(const struct outcome *outcome);

#endif
