/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Counts how often each of some numbers is present, in constant time for each. It allocates memory
 * on use; an empty bag, new (all bits 0) or after bag_clear(), has none. One thread at a time. */
#ifndef RL_NET_BAG_H
#define RL_NET_BAG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct bag_slot;
struct bag {
    struct bag_slot *slots; /* a power of two; fewer than half are in use */
    size_t slots_count, used;
    bool lacks; /* memory was short for some number: nothing is known until bag_clear() */
};

void bag_add(struct bag *bag, uint64_t number);
void bag_remove(struct bag *bag, uint64_t number); /* once; does nothing if the number is absent */
uint32_t bag_times(const struct bag *bag, uint64_t number);
static inline bool bag_is_whole(const struct bag *bag) { return !bag->lacks; }
void bag_clear(struct bag *bag); /* frees its memory */

#endif
