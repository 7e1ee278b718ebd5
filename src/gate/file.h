/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Buckets in a file that several processes share. An admission is on disk before it is reported,
 * and a crash never takes it back: the changed bucket goes into one of two journal slots, is
 * synced, and only then is written in its place.
 *
 *   block 0: header     block 1, 2: journal slots, one bucket each     from block 3: the buckets
 *
 * A slot is used again two changes later. The sync in between has made its bucket durable in its
 * place. A torn slot is a change that was never reported. A bucket in its place with a wrong sum is
 * repaired from a slot. If no slot has it, it is damaged, and the gate refuses, because the fences
 * that it had seen are unknown.
 */
#ifndef GATE_FILE_H
#define GATE_FILE_H

#include <stdbool.h>
#include <stdint.h>

#include "bucket.h"

struct gate_file {
    int fd;
    uint64_t salt;
    uint64_t buckets;
    bool broken; /* a sync failed: it is unknown which writes the kernel has dropped since */
};

/* Opens the file. If it is absent and `create` is true, creates it with that many buckets. 0, or -1
 * with errno and the failed step in *failed; EBADMSG: not a gate's file, cut off or damaged. */
int gate_file_open(struct gate_file *file, const char *path, bool create, uint64_t buckets,
                   const char **failed);
void gate_file_close(struct gate_file *file);

/* An open-file-description lock, against other processes and other gates of this one. 0, or -1 with
 * errno. */
int gate_file_lock(struct gate_file *file);
void gate_file_unlock(struct gate_file *file);

/* Under the lock; 0, or -1 with errno. A load first completes what a process that died has
 * begun. */
int gate_file_load(struct gate_file *file, uint64_t index, struct gate_bucket *bucket);
int gate_file_store(struct gate_file *file, struct gate_bucket *bucket);

#endif
