/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What a number of seeds has reached: the states in which something happened to the world, and the
 * pairs of a state and what happened in it. A state is what the protocol distinguishes, whichever
 * client or node it is: what each client does with the lock, and for each node whether it runs and
 * is intact, whose key it holds, and what the client that recovers nodes believes of it.
 */
#ifndef SIM_COVERAGE_H
#define SIM_COVERAGE_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

struct world;

enum { COVERAGE_BITS = 24 };

/* Two sets of hashes. Workers share it. With n of 2^24 places in use, about one in 2^24/n new
 * members is not counted. */
struct coverage {
    _Atomic uint64_t states[(1 << COVERAGE_BITS) / 64], pairs[(1 << COVERAGE_BITS) / 64];
    _Atomic uint64_t states_count, pairs_count;
};

/* `what` is about to happen in a world that runs; it concerns this resource. */
void coverage_note(struct coverage *coverage, struct world *world, unsigned resource,
                   unsigned what);

#endif
