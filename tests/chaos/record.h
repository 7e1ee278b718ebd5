/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What workers write down for the judge, and the register that outlives the servers. A log is a
 * file of fixed-size records, each written by one write(2), so that SIGKILL leaves whole records.
 * judge.py reads the same layout.
 */
#ifndef CHAOS_RECORD_H
#define CHAOS_RECORD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum chaos_kind {
    CHAOS_GRANT = 1,     /* at: the caller knew; end: of validity; fence; asked: the call began */
    CHAOS_EXTENDED = 2,  /* end: of validity now */
    CHAOS_LOST = 3,      /* reported lost */
    CHAOS_LEAVE = 4,     /* before the release is sent; end: of validity then */
    CHAOS_REFUSED = 5,   /* by the register. end: of validity before the write; asked: its fence */
    CHAOS_TICK = 6,      /* a command under `redlock run` was alive */
    CHAOS_RESULT = 7,    /* an acquisition that failed; end: its result, where it changed */
    CHAOS_SHARED = 8,    /* as GRANT, of a shared lock */
    CHAOS_DOWNGRADE = 9, /* a writer is about to become a reader: from here on it only reads */
    CHAOS_OBSERVED = 10  /* an observer's report. end: sure until then; fence: the term; asked: the
                            leader's id, by chaos_id() */
};

/* The resource of a record: up to CHAOS_SEMAPHORES the lock "r7", then slots: slot k of the
 * semaphore "s3" is CHAOS_SEMAPHORES + 16 * 3 + k; from CHAOS_ELECTIONS on the election "l1".
 * Semaphore n has 2 + n % 3 slots. */
enum { CHAOS_SEMAPHORES = 512, CHAOS_ELECTIONS = 768, CHAOS_SLOTS_STEP = 16 };

/* Times are nanoseconds of CLOCK_BOOTTIME. */
struct chaos_record {
    int64_t at_ns, end_ns, fence, asked_ns;
    uint32_t kind, resource, slot, turn;
};

/* The gate of docs/use/fencing.md: the highest fence of a writer, and that of a reader. */
struct chaos_cell {
    _Atomic int64_t fence, read_fence;
    _Atomic int64_t writes, refusals;
};

#define CHAOS_CELLS 1024

int64_t chaos_now_ns(void);
/* Ends the program if the log cannot be opened or written. */
int chaos_log_open(const char *path);
void chaos_log_write(int log, const struct chaos_record *record);

/* The register, a file that all workers map. */
struct chaos_cell *chaos_register_open(const char *path);
/* Admits a fence, or returns the one because of which it does not; 0: admitted. A writer needs at
 * least the highest of a writer, and more than that of a reader; a reader the first of both. */
int64_t chaos_register_write(struct chaos_cell *cell, int64_t fence);
int64_t chaos_register_read(struct chaos_cell *cell, int64_t fence);
/* Of a leader's id: FNV-1a, without the sign. */
int64_t chaos_id(const void *bytes, size_t count);

#endif
