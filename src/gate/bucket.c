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

static struct gate_entry *find(struct gate_bucket *bucket, uint64_t print) {
    for (size_t i = 0; i < GATE_WAYS; i++) {
        struct gate_entry *entry = &bucket->entries[i];
        if (entry->fence != 0 && entry->print == print) return entry;
    }
    return NULL;
}

/* A free one has fence 0, so it is the lowest. */
static struct gate_entry *lowest(struct gate_bucket *bucket) {
    struct gate_entry *found = &bucket->entries[0];
    for (size_t i = 1; i < GATE_WAYS; i++) {
        if (bucket->entries[i].fence < found->fence) found = &bucket->entries[i];
    }
    return found;
}

static bool raise_floor(struct gate_bucket *bucket, int64_t fence) {
    if (fence <= bucket->floor) return false;
    bucket->floor = fence;
    return true;
}

int64_t gate_bucket_least(const struct gate_bucket *bucket, uint64_t print) {
    for (size_t i = 0; i < GATE_WAYS; i++) {
        if (bucket->entries[i].fence != 0 && bucket->entries[i].print == print)
            return bucket->entries[i].fence;
    }
    return bucket->floor;
}

bool gate_bucket_raise(struct gate_bucket *bucket, uint64_t print, int64_t fence) {
    assert(fence >= gate_bucket_least(bucket, print));
    struct gate_entry *entry = find(bucket, print);
    if (entry != NULL) {
        if (entry->fence == fence) return false;
        entry->fence = fence;
        return true;
    }
    entry = lowest(bucket);
    /* The floor rises by the least that keeps the promise: to the dropped fence, or to this one if
     * it is lower still.
     */
    if (entry->fence >= fence) return raise_floor(bucket, fence);
    if (entry->fence != 0) raise_floor(bucket, entry->fence);
    *entry = (struct gate_entry){.print = print, .fence = fence};
    return true;
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
