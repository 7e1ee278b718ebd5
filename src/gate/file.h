/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Buckets in a file that several processes share. An admission is on disk before it is told, and is
 * never taken back by a crash: the changed bucket goes into one of two journal slots, is synced,
 * and only then written in its place.
 *
 *   block 0: header     block 1, 2: journal slots, one bucket each     from block 3: the buckets
 *
 * A slot is written over again two changes later, and the sync in between has made its bucket
 * durable in its place. A torn slot is a change that nobody was told of. A bucket in its place that
 * fails its sum is repaired from a slot, or else is damage, and the gate refuses: nobody knows what
 * it had seen.
 */
#ifndef GATE_FILE_H
#define GATE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bucket.h"

struct gate_file {
    int fd;
    uint64_t salt;
    uint64_t buckets;
    bool broken; /* a sync failed: what the kernel has dropped since cannot be known */
};

/* Opens it, and creates it with that many buckets if it is absent and `create` is true. 0, or -1
 * with errno and what could not be done in *failed; EBADMSG: not a gate's file, cut off or
 * damaged. */
int gate_file_open(struct gate_file *file, const char *path, bool create, uint64_t buckets,
                   const char **failed);
void gate_file_close(struct gate_file *file);

/* An open-file-description lock, for other processes and for other gates of this one. 0, or -1 with
 * errno. */
int gate_file_lock(struct gate_file *file);
void gate_file_unlock(struct gate_file *file);

/* Under the lock; 0, or -1 with errno. A load finishes first what a process that died has begun. */
int gate_file_load(struct gate_file *file, uint64_t index, struct gate_bucket *bucket);
int gate_file_store(struct gate_file *file, struct gate_bucket *bucket);

#endif
