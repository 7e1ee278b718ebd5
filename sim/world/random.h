/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Sequences of random numbers, each with its own name (client 2, the link from client 0 to node 3).
 * An action that is removed from a run does not change the draws of the others: a shrunk run stays
 * similar to the one that failed.
 */
#ifndef SIM_RANDOM_H
#define SIM_RANDOM_H

#include <stdbool.h>
#include <stdint.h>

#include "core/mix.h"

struct random {
    uint64_t state;
};

static inline uint64_t random_next(struct random *random) { return rl_splitmix64(&random->state); }

static inline struct random random_named(uint64_t seed, uint64_t name) {
    struct random mix = {seed};
    struct random named = {random_next(&mix) ^ name * UINT64_C(0xd6e8feb86659fd93)};
    named.state = random_next(&named);
    return named;
}

/* Uniform, both ends included. */
static inline int64_t random_between(struct random *random, int64_t low, int64_t high) {
    if (high <= low) return low;
    return low + (int64_t)(random_next(random) % ((uint64_t)(high - low) + 1));
}

static inline bool random_chance(struct random *random, uint32_t ppm) {
    return ppm > 0 && random_next(random) % 1000000 < ppm;
}

#endif
