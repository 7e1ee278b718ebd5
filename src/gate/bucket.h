/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What a few resources admit, in constant space. What does not fit is not forgotten: the lowest
 * entry goes into the floor, and an unlisted resource must not be below it. So a full bucket may
 * refuse a current holder, but never admits an old one. */
#ifndef GATE_BUCKET_H
#define GATE_BUCKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GATE_WAYS 5 /* resources that a bucket lists */

/* The least fences that are admitted. A reader must not be below the highest writer. A writer must
 * not be below that either, and must be above the highest reader, which may have the fence of the
 * writer before it. */
struct gate_least {
    int64_t writer, reader; /* reader <= writer. 0: every one */
};

/* Two resources with the same print (a hash: once in 2^64) share the higher fences, so this too can
 * only refuse a current holder. */
struct gate_entry {
    uint64_t print;
    struct gate_least least; /* writer 0: free */
};

/* The same layout is used in the file, in the machine's byte order. */
struct gate_bucket {
    uint64_t sum;     /* over all that follows and the gate's salt */
    uint64_t index;   /* a bucket in another's place counts as damage */
    uint64_t version; /* grows with every change in the file */
    struct gate_least floor;
    struct gate_entry entries[GATE_WAYS];
};

/* FNV-1a with a finalizer that spreads it over all 64 bits. Any change of one byte changes the
 * result. */
uint64_t gate_hash(uint64_t salt, const void *data, size_t bytes);

struct gate_least gate_bucket_least(const struct gate_bucket *bucket, uint64_t print);
/* Remembers a fence that is admitted to a writer, or to a reader. False: nothing has changed. */
bool gate_bucket_raise(struct gate_bucket *bucket, uint64_t print, int64_t fence, bool reads);

void gate_bucket_seal(struct gate_bucket *bucket, uint64_t salt);
bool gate_bucket_is_sound(const struct gate_bucket *bucket, uint64_t salt);

#endif
