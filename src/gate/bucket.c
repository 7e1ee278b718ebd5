/* SPDX-License-Identifier: BSD-2-Clause */
#include "bucket.h"

#include <assert.h>

_Static_assert(sizeof(struct gate_bucket) == 128, "no padding: the bytes are summed and stored");

uint64_t gate_hash(uint64_t salt, const void *data, size_t bytes) {
    const unsigned char *byte = data;
    uint64_t hash = UINT64_C(0xcbf29ce484222325) ^ salt;
    for (size_t i = 0; i < bytes; i++) hash = (hash ^ byte[i]) * UINT64_C(0x100000001b3);
    hash = (hash ^ (hash >> 33)) * UINT64_C(0xff51afd7ed558ccd);
    return hash ^ (hash >> 33);
}

int64_t gate_bucket_least(const struct gate_bucket *bucket, uint64_t print) {
    for (size_t i = 0; i < GATE_WAYS; i++) {
        if (bucket->entries[i].fence != 0 && bucket->entries[i].print == print)
            return bucket->entries[i].fence;
    }
    return bucket->floor;
}

bool gate_bucket_raise(struct gate_bucket *bucket, uint64_t print, int64_t fence) {
    struct gate_entry *lowest = &bucket->entries[0]; /* a free one has fence 0 */
    assert(fence >= gate_bucket_least(bucket, print));
    for (size_t i = 0; i < GATE_WAYS; i++) {
        struct gate_entry *entry = &bucket->entries[i];
        if (entry->fence < lowest->fence) lowest = entry;
        if (entry->fence == 0 || entry->print != print) continue;
        bool raised = entry->fence < fence;
        entry->fence = fence;
        return raised;
    }
    /* The floor rises by the least that keeps the promise: to the dropped fence, or to this one if
     * it is lower still. */
    bool listed = lowest->fence < fence;
    int64_t floor = listed ? lowest->fence : fence;
    bool raised = floor > bucket->floor;
    if (raised) bucket->floor = floor;
    if (listed) *lowest = (struct gate_entry){.print = print, .fence = fence};
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
