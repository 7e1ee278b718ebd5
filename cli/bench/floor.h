/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The floor: the least work that any Redlock client must do, with nothing around it. Write a SET to
 * N nodes, read a majority of the replies, write N releases (compare-and-delete), read a majority.
 * What a client does beyond that is left out, and floor.c says so at each place, beginning with
 * "Left out:". What is not left out: the nodes do the same work as for a client; every reply is
 * read, those of stragglers too, and is compared with the one that must come.
 */
#ifndef CLI_BENCH_FLOOR_H
#define CLI_BENCH_FLOOR_H

#include <stddef.h>
#include <stdint.h>

#include "meter.h"

struct floor_work {
    unsigned in_flight; /* cycles under way at the same time, each with keys of its own */
    unsigned resources; /* in one lock; from 2 on acquired by a script, all or nothing */
    int extends; /* 1: locks are taken before, given back afterwards, and a cycle is one extension
                  */
    int threads; /* 1: each cycle is a thread's, which blocks: floor_threads.c (one resource, no
                    extensions) */
    int64_t ttl_ms;
};

struct floor;

/* Connects to redis://[[USER]:PASSWORD@]HOST[:PORT] or unix:///PATH of a list separated by commas.
 * 0, or -1 after a message. */
int floor_open(const char *nodes, struct floor **floor);
/* Runs until the meter is over, then until no reply is owed. 0, or -1 after a message. */
int floor_run(struct floor *floor, const struct floor_work *work, struct meter *meter);
void floor_close(struct floor *floor);

#endif
