/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A hash table of items that have their own memory. It grows with its contents, so finding, adding
 * and removing an item takes as long among a million as among a few. */
#ifndef RL_CLIENT_CHAINS_H
#define RL_CLIENT_CHAINS_H

#include <stdbool.h>
#include <stdint.h>

/* An item begins with this. */
struct chained {
    struct chained *next, **at;
    uint32_t hash;
};

/* All zero: empty. */
struct chains {
    struct chained **chain;
    uint32_t chains; /* a power of two; 0 before the first item is added */
    uint32_t count;
    bool walked; /* it must not grow now */
};

/* `least`: the number of chains at the start, a power of two. False: no memory, not added. */
bool chains_add(struct chains *chains, struct chained *thing, uint32_t hash, uint32_t least);
void chains_remove(struct chains *chains, struct chained *thing);
/* The items with one hash; NULL: no more. */
struct chained *chains_first(const struct chains *chains, uint32_t hash);
struct chained *chains_next(const struct chained *thing);
/* `end`: free(), for instance; NULL: the items stay. */
void chains_free(struct chains *chains, void (*end)(void *thing));

#endif
