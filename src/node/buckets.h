/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A hash table whose items contain their links, by linear hashing (Litwin): it grows by one bucket
 * for each item that is added, and shrinks as items go, so no call moves more than a few items. */
#ifndef RL_NODE_BUCKETS_H
#define RL_NODE_BUCKETS_H

#include <stdint.h>

#include "node/chunks.h"

/* The first member of what is kept here, and in ends.h. */
struct item {
    struct item *next;
    uint32_t hash;
    uint32_t place; /* ends.h */
};

struct buckets {
    struct chunks chunks;
    uint32_t count; /* of buckets */
    size_t items;
};

/* False: no memory. */
bool buckets_begin(struct buckets *buckets);
void buckets_free(struct buckets *buckets); /* not the items */

/* Items whose hashes agree in their low bits: walk `next`, and compare. */
struct item *buckets_first(const struct buckets *buckets, uint32_t hash);
/* item->hash is set. It grows if it may, and if there is memory; it works all the same without. */
void buckets_add(struct buckets *buckets, struct item *item, bool may_grow);
void buckets_remove(struct buckets *buckets, struct item *item);

/* All items of one bucket: the one that holds the position `cursor`, and the position after it; 0:
 * that was the last. Positions are hashes with their bits in reverse: a bucket that is split or
 * joined covers the same positions as before, so none is left out. */
struct item *buckets_scan(const struct buckets *buckets, uint32_t cursor, uint32_t *next);

#endif
