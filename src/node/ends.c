/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Four children for each slot: half the levels of a binary heap, and the four are neighbours. */
#include "node/ends.h"

#include <assert.h>

struct slot {
    int64_t time;
    struct item *item;
};

enum { CHILDREN = 4, EACH = NODE_CHUNK_BYTES / sizeof(struct slot) };

static struct slot *slot_at(const struct ends *ends, size_t place) {
    return (struct slot *)ends->chunks.chunk[place / EACH] + place % EACH;
}

static void put(struct ends *ends, size_t place, struct slot slot) {
    *slot_at(ends, place) = slot;
    slot.item->place = (uint32_t)place;
}

static void rise(struct ends *ends, size_t place, struct slot slot) {
    while (place > 0) {
        size_t parent = (place - 1) / CHILDREN;
        struct slot above = *slot_at(ends, parent);
        if (above.time <= slot.time) break;
        put(ends, place, above);
        place = parent;
    }
    put(ends, place, slot);
}

static void sink(struct ends *ends, size_t place, struct slot slot) {
    for (;;) {
        size_t first = place * CHILDREN + 1, earliest = first;
        if (first >= ends->count) break;
        size_t end = first + CHILDREN < ends->count ? first + CHILDREN : ends->count;
        for (size_t child = first + 1; child < end; child++)
            if (slot_at(ends, child)->time < slot_at(ends, earliest)->time) earliest = child;
        struct slot below = *slot_at(ends, earliest);
        if (below.time >= slot.time) break;
        put(ends, place, below);
        place = earliest;
    }
    put(ends, place, slot);
}

static size_t chunks_wanted(const struct ends *ends, size_t more) {
    size_t wanted = (ends->count + more + EACH - 1) / EACH;
    return wanted > ends->chunks.count ? wanted - ends->chunks.count : 0;
}

bool ends_reserve(struct ends *ends, size_t more) {
    if (more > UINT32_MAX - ends->count) return false;
    for (size_t chunks = chunks_wanted(ends, more); chunks > 0; chunks--)
        if (!chunks_add(&ends->chunks)) return false;
    return true;
}

size_t ends_bytes_more(const struct ends *ends, size_t more) {
    return chunks_bytes_more(&ends->chunks, chunks_wanted(ends, more));
}

void ends_add(struct ends *ends, struct item *item, int64_t time) {
    assert(chunks_wanted(ends, 1) == 0);
    rise(ends, ends->count++, (struct slot){time, item});
}

void ends_move(struct ends *ends, struct item *item, int64_t time) {
    struct slot slot = {time, item};
    if (time < ends_time(ends, item))
        rise(ends, item->place, slot);
    else
        sink(ends, item->place, slot);
}

void ends_remove(struct ends *ends, struct item *item) {
    size_t place = item->place;
    assert(slot_at(ends, place)->item == item);
    struct slot last = *slot_at(ends, --ends->count);
    if (last.item != item) {
        last.item->place = (uint32_t)place;
        ends_move(ends, last.item, last.time);
    }
    /* One more than needed is kept: see buckets.c. */
    if (ends->chunks.count > (ends->count + EACH - 1) / EACH + 1) chunks_drop(&ends->chunks);
}

int64_t ends_time(const struct ends *ends, const struct item *item) {
    return slot_at(ends, item->place)->time;
}

struct item *ends_first(const struct ends *ends) {
    return ends->count ? slot_at(ends, 0)->item : NULL;
}

int64_t ends_next(const struct ends *ends) {
    return ends->count ? slot_at(ends, 0)->time : INT64_MAX;
}

void ends_free(struct ends *ends) {
    chunks_free(&ends->chunks);
    ends->count = 0;
}
