/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A hash table of things that have their own memory. It grows with what is in it, so that finding,
 * adding and removing one takes as long among a million as among a few.
 */
#ifndef RL_CLIENT_CHAINS_H
#define RL_CLIENT_CHAINS_H

#include <stdbool.h>
#include <stdint.h>

/* What a thing in the table begins with. */
struct chained {
    struct chained *next, **at;
    uint32_t hash;
};

/* All zero: empty. */
struct chains {
    struct chained **chain;
    uint32_t chains; /* a power of two; 0 before the first is added */
    uint32_t count;
    bool walked; /* it must not grow now */
};

/* `least`: so many chains there are in the beginning, a power of two. False: no memory, not
 * added. */
bool chains_add(struct chains *chains, struct chained *thing, uint32_t hash, uint32_t least);
void chains_remove(struct chains *chains, struct chained *thing);
/* Those of one hash; NULL: no more. */
struct chained *chains_first(const struct chains *chains, uint32_t hash);
struct chained *chains_next(const struct chained *thing);
/* `end`: free(), for instance; NULL: the things stay. */
void chains_free(struct chains *chains, void (*end)(void *thing));

#endif
