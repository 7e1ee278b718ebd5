/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A hash table with linear probing. A slot whose number was removed stays in use, so that later
 * slots are still found. It is dropped when the table is half full and is rebuilt. */
#include "net/conn/bag.h"

#include <stdlib.h>

#include "core/mix.h"

enum { BAG_SLOTS_MIN = 64 };

struct bag_slot {
    uint64_t number;
    uint32_t times;
    bool used;
};

/* The number's slot, or the free one for it. NULL: there are no slots. */
static struct bag_slot *slot_of(const struct bag *bag, uint64_t number) {
    if (bag->slots_count == 0) return NULL;
    size_t at = (size_t)rl_scatter(number) & (bag->slots_count - 1);
    while (bag->slots[at].used && bag->slots[at].number != number)
        at = (at + 1) & (bag->slots_count - 1);
    return &bag->slots[at];
}

/* Makes room for twice the present contents, with at most a quarter in use. */
static bool make_anew(struct bag *bag) {
    struct bag fresh = {.slots_count = BAG_SLOTS_MIN};
    size_t there = 0;
    for (size_t i = 0; i < bag->slots_count; i++) there += bag->slots[i].times > 0;
    while (fresh.slots_count < 4 * there) fresh.slots_count *= 2;
    fresh.slots = calloc(fresh.slots_count, sizeof *fresh.slots);
    if (!fresh.slots) return false;
    for (size_t i = 0; i < bag->slots_count; i++)
        if (bag->slots[i].times > 0) *slot_of(&fresh, bag->slots[i].number) = bag->slots[i];
    fresh.used = there;
    free(bag->slots);
    *bag = fresh;
    return true;
}

void bag_add(struct bag *bag, uint64_t number) {
    if (!bag->lacks && 2 * (bag->used + 1) > bag->slots_count) bag->lacks = !make_anew(bag);
    if (bag->lacks) return;
    struct bag_slot *slot = slot_of(bag, number);
    if (!slot->used) bag->used++;
    slot->used = true;
    slot->number = number;
    slot->times++;
}

void bag_remove(struct bag *bag, uint64_t number) {
    struct bag_slot *slot = slot_of(bag, number);
    if (slot && slot->times > 0) slot->times--;
}

uint32_t bag_times(const struct bag *bag, uint64_t number) {
    const struct bag_slot *slot = slot_of(bag, number);
    return slot ? slot->times : 0;
}

void bag_clear(struct bag *bag) {
    free(bag->slots);
    *bag = (struct bag){.slots = NULL};
}
