/* SPDX-License-Identifier: BSD-2-Clause How often each of some numbers is there, in constant time
 * for each. It takes memory when it is used, and none when it is empty from the start (all bits 0)
 * or bag_clear(). One thread at a time. */
#ifndef RL_NET_BAG_H
#define RL_NET_BAG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct bag_slot;
struct bag {
    struct bag_slot *slots; /* a power of two of them; fewer than half are used */
    size_t slots_count, used;
    bool lacks; /* there was no memory for some number, so nothing is known until bag_clear() */
};

void bag_add(struct bag *bag, uint64_t number);
void bag_remove(struct bag *bag, uint64_t number); /* once; nothing where it is not there */
uint32_t bag_times(const struct bag *bag, uint64_t number);
static inline bool bag_is_whole(const struct bag *bag) { return !bag->lacks; }
void bag_clear(struct bag *bag); /* gives its memory back */

#endif
