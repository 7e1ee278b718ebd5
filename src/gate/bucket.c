/* SPDX-License-Identifier: BSD-2-Clause */
#include "bucket.h"

#include <assert.h>

_Static_assert(sizeof(struct gate_bucket) == 160, "no padding: the bytes are summed and stored");

uint64_t gate_hash(uint64_t salt, const void *data, size_t bytes) {
    const unsigned char *byte = data;
    uint64_t hash = UINT64_C(0xcbf29ce484222325) ^ salt;
    for (size_t i = 0; i < bytes; i++) hash = (hash ^ byte[i]) * UINT64_C(0x100000001b3);
    hash = (hash ^ (hash >> 33)) * UINT64_C(0xff51afd7ed558ccd);
    return hash ^ (hash >> 33);
}

/* GATE_WAYS: it is not listed. */
static size_t find(const struct gate_bucket *bucket, uint64_t print) {
    size_t i = 0;
    while (i < GATE_WAYS &&
           (bucket->entries[i].least.writer == 0 || bucket->entries[i].print != print))
        i++;
    return i;
}

struct gate_least gate_bucket_least(const struct gate_bucket *bucket, uint64_t print) {
    const size_t i = find(bucket, print);
    return i < GATE_WAYS ? bucket->entries[i].least : bucket->floor;
}

/* False: it was as high already. */
static bool rise(struct gate_least *least, struct gate_least to) {
    const bool changes = to.writer > least->writer || to.reader > least->reader;
    if (to.writer > least->writer) least->writer = to.writer;
    if (to.reader > least->reader) least->reader = to.reader;
    return changes;
}

bool gate_bucket_raise(struct gate_bucket *bucket, uint64_t print, int64_t fence, bool reads) {
    struct gate_least least = gate_bucket_least(bucket, print);
    assert(fence >= (reads ? least.reader : least.writer));
    (void)rise(&least,
               reads ? (struct gate_least){fence + 1, 0} : (struct gate_least){fence, fence});
    const size_t listed_at = find(bucket, print);
    if (listed_at < GATE_WAYS) return rise(&bucket->entries[listed_at].least, least);
    struct gate_entry *lowest = &bucket->entries[0]; /* a free one has 0 */
    for (size_t i = 1; i < GATE_WAYS; i++)
        if (bucket->entries[i].least.writer < lowest->least.writer) lowest = &bucket->entries[i];
    /* The floor rises by the least that keeps the promise: to the dropped entry, or to this one if
     * it is lower still. */
    const bool listed = lowest->least.writer < least.writer;
    const bool raised = rise(&bucket->floor, listed ? lowest->least : least);
    if (listed) *lowest = (struct gate_entry){.print = print, .least = least};
    return listed || raised;
}

static uint64_t sum_of(const struct gate_bucket *bucket, uint64_t salt) {
    const size_t skipped = sizeof bucket->sum;
    return gate_hash(salt, (const unsigned char *)bucket + skipped, sizeof *bucket - skipped);
}

void gate_bucket_seal(struct gate_bucket *bucket, uint64_t salt) {
    bucket->sum = sum_of(bucket, salt);
}

bool gate_bucket_is_sound(const struct gate_bucket *bucket, uint64_t salt) {
    return bucket->sum == sum_of(bucket, salt);
}
