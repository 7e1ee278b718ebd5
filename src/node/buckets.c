/* SPDX-License-Identifier: BSD-2-Clause */
#include "node/buckets.h"

#include <assert.h>

enum {
    EACH = NODE_CHUNK_BYTES / sizeof(struct item *), /* buckets of a chunk */
    FEWEST = 16,                                     /* a power of 2 */
    SPARSE = 4,        /* so many buckets for each item are too many */
    JOINED_AT_ONCE = 8 /* more than SPARSE, or it never catches up */
};

static struct item **bucket_at(const struct buckets *buckets, uint32_t index) {
    return (struct item **)buckets->chunks.chunk[index / EACH] + index % EACH;
}

/* The highest power of 2 that is not above it. */
static uint32_t power_below(uint32_t number) { return UINT32_C(1) << (31 - __builtin_clz(number)); }

/* Buckets from 0 to count-1, with `power` <= count: a bucket of the first count-power was split, so
 * one more bit of the hash decides there. */
static uint32_t index_of(const struct buckets *buckets, uint32_t hash) {
    uint32_t power = power_below(buckets->count), index = hash & (2 * power - 1);
    return index < buckets->count ? index : index - power;
}

bool buckets_begin(struct buckets *buckets) {
    *buckets = (struct buckets){.count = FEWEST};
    return chunks_add(&buckets->chunks);
}

void buckets_free(struct buckets *buckets) { chunks_free(&buckets->chunks); }

struct item *buckets_first(const struct buckets *buckets, uint32_t hash) {
    return *bucket_at(buckets, index_of(buckets, hash));
}

static void push(struct item **bucket, struct item *item) {
    item->next = *bucket;
    *bucket = item;
}

/* One more bucket takes its items from the one that has had their positions. */
static void split(struct buckets *buckets) {
    uint32_t last = buckets->count;
    if (last == UINT32_C(1) << 31) return;
    if (last / EACH == buckets->chunks.count && !chunks_add(&buckets->chunks)) return;
    struct item **from = bucket_at(buckets, last - power_below(last)),
                **to = bucket_at(buckets, last);
    assert(!*to);
    buckets->count++;
    while (*from) {
        struct item *item = *from;
        if (index_of(buckets, item->hash) != last) {
            from = &item->next;
            continue;
        }
        *from = item->next;
        push(to, item);
    }
}

/* The last bucket gives them back. One chunk more than needed is kept, or a table of just this size
 * would take and give a chunk with every item. */
static void join(struct buckets *buckets) {
    struct item **from = bucket_at(buckets, --buckets->count);
    uint32_t last = buckets->count;
    struct item **to = bucket_at(buckets, last - power_below(last));
    while (*from) {
        struct item *item = *from;
        *from = item->next;
        push(to, item);
    }
    if (buckets->chunks.count > (last + EACH - 1) / EACH + 1) chunks_drop(&buckets->chunks);
}

void buckets_add(struct buckets *buckets, struct item *item, bool may_grow) {
    push(bucket_at(buckets, index_of(buckets, item->hash)), item);
    buckets->items++;
    if (buckets->items > buckets->count && may_grow) split(buckets);
}

static bool is_sparse(const struct buckets *buckets) {
    return buckets->count > FEWEST && buckets->items * SPARSE < buckets->count;
}

void buckets_remove(struct buckets *buckets, struct item *item) {
    struct item **at = bucket_at(buckets, index_of(buckets, item->hash));
    while (*at != item) at = &(*at)->next;
    *at = item->next;
    buckets->items--;
    for (int i = 0; i < JOINED_AT_ONCE && is_sparse(buckets); i++) join(buckets);
}

static uint32_t reversed(uint32_t bits) {
    bits = (bits >> 1 & 0x55555555) | (bits & 0x55555555) << 1;
    bits = (bits >> 2 & 0x33333333) | (bits & 0x33333333) << 2;
    bits = (bits >> 4 & 0x0f0f0f0f) | (bits & 0x0f0f0f0f) << 4;
    bits = (bits >> 8 & 0x00ff00ff) | (bits & 0x00ff00ff) << 8;
    return bits >> 16 | bits << 16;
}

struct item *buckets_scan(const struct buckets *buckets, uint32_t cursor, uint32_t *next) {
    uint32_t index = index_of(buckets, reversed(cursor)), power = power_below(buckets->count);
    bool is_split = index < buckets->count - power;
    /* its positions are those with the same highest bits as `index` reversed; those of the second
     * half of a bucket that was split end where those of the whole bucket did */
    uint32_t range = UINT32_MAX / (is_split ? 2 * power : power) + 1;
    *next = (reversed(index) & ~(range - 1)) + range;
    return *bucket_at(buckets, index);
}
