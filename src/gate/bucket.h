/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The highest fences of a few resources, in constant space. What does not fit is not forgotten: the
 * lowest fence is dropped into the floor, below which no resource that is not listed is admitted.
 * So a full bucket refuses an old holder too many, and never admits one.
 */
#ifndef GATE_BUCKET_H
#define GATE_BUCKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GATE_WAYS 6

/* Two resources with one print share the higher fence: a refusal too many again, once in 2^64. */
struct gate_entry {
    uint64_t print;
    int64_t fence; /* 0: free */
};

/* Also its form in the file, in the byte order of the machine. */
struct gate_bucket {
    uint64_t sum;     /* over all that follows and the gate's salt */
    uint64_t index;   /* a bucket in another's place is damage */
    uint64_t version; /* grows with every change in the file */
    int64_t floor;
    struct gate_entry entries[GATE_WAYS];
};

/* FNV-1a with a finish that spreads it over all 64 bits. Any change of one byte changes it. */
uint64_t gate_hash(uint64_t salt, const void *data, size_t bytes);

/* What a fence must not be below. */
int64_t gate_bucket_least(const struct gate_bucket *bucket, uint64_t print);
/* Remembers an admitted fence. False when it was known already. */
bool gate_bucket_raise(struct gate_bucket *bucket, uint64_t print, int64_t fence);

void gate_bucket_seal(struct gate_bucket *bucket, uint64_t salt);
bool gate_bucket_is_sound(const struct gate_bucket *bucket, uint64_t salt);

#endif
