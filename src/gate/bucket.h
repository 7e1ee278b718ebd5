/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The highest fences of a few resources, in constant space. A fence that does not fit is not
 * forgotten: the lowest fence goes into the floor, and an unlisted resource must not be below it.
 * So a full bucket may refuse a current holder, but never admits an old one. */
#ifndef GATE_BUCKET_H
#define GATE_BUCKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GATE_WAYS 6 /* resources that a bucket lists */

/* Two resources with the same print (a hash: once in 2^64) share the higher fence, so this too can
 * only refuse a current holder. */
struct gate_entry {
    uint64_t print;
    int64_t fence; /* 0: free */
};

/* The same layout is used in the file, in the machine's byte order. */
struct gate_bucket {
    uint64_t sum;     /* over all that follows and the gate's salt */
    uint64_t index;   /* a bucket in another's place counts as damage */
    uint64_t version; /* grows with every change in the file */
    int64_t floor;
    struct gate_entry entries[GATE_WAYS];
};

/* FNV-1a with a finalizer that spreads it over all 64 bits. Any change of one byte changes the
 * result. */
uint64_t gate_hash(uint64_t salt, const void *data, size_t bytes);

/* The least fence that can be admitted. */
int64_t gate_bucket_least(const struct gate_bucket *bucket, uint64_t print);
/* Remembers an admitted fence. False: it was known already. */
bool gate_bucket_raise(struct gate_bucket *bucket, uint64_t print, int64_t fence);

void gate_bucket_seal(struct gate_bucket *bucket, uint64_t salt);
bool gate_bucket_is_sound(const struct gate_bucket *bucket, uint64_t salt);

#endif
