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
#include <stdint.h>

enum chaos_kind {
    CHAOS_GRANT = 1,    /* at: the caller knew; end: of validity; fence; asked: the call began */
    CHAOS_EXTENDED = 2, /* end: of validity now */
    CHAOS_LOST = 3,     /* reported lost */
    CHAOS_LEAVE = 4,    /* before the release is sent; end: of validity then */
    CHAOS_REFUSED = 5,  /* by the register. end: of validity before the write; asked: its fence */
    CHAOS_TICK = 6,     /* a command under `redlock run` was alive */
    CHAOS_RESULT = 7    /* an acquisition that failed; end: its result, where it changed */
};

/* Times are nanoseconds of CLOCK_BOOTTIME. */
struct chaos_record {
    int64_t at_ns, end_ns, fence, asked_ns;
    uint32_t kind, resource, slot, turn;
};

struct chaos_cell {
    _Atomic int64_t fence;
    _Atomic int64_t writes, refusals;
};

#define CHAOS_CELLS 1024

int64_t chaos_now_ns(void);
/* Ends the program if the log cannot be opened or written. */
int chaos_log_open(const char *path);
void chaos_log_write(int log, const struct chaos_record *record);

/* The register, a file that all workers map. */
struct chaos_cell *chaos_register_open(const char *path);
/* Admits a fence unless the cell has seen a higher one, which is returned then; 0: admitted. */
int64_t chaos_register_write(struct chaos_cell *cell, int64_t fence);

#endif
