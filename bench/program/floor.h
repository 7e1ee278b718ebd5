/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The floor: the least work that any Redlock client must do, and nothing else. Write a SET to N
 * nodes, read a majority of the replies, write N releases (compare-and-delete), read a majority. It
 * leaves out what a client does beyond that; floor.c marks each such place with "Left out:". It
 * does not leave out the following: the nodes do the same work as for a client; it reads every
 * reply, also late ones, and compares each with the expected reply.
 */
#ifndef BENCH_PROGRAM_BENCH_FLOOR_H
#define BENCH_PROGRAM_BENCH_FLOOR_H

#include <stddef.h>
#include <stdint.h>

#include "meter.h"

struct floor_work {
    unsigned in_flight; /* cycles under way at the same time, each with keys of its own */
    unsigned resources; /* in one lock; two or more are acquired by a script, all or nothing */
    int extends; /* 1: locks are taken before and given back afterwards; a cycle is one extension */
    /* 1: each cycle runs in a thread, which blocks: floor_threads.c (one resource, no extensions)
     */
    int threads;
    int64_t ttl_ms;
};

struct floor;

/* Connects to redis://[[USER]:PASSWORD@]HOST[:PORT] or unix:///PATH of a list separated by commas.
 * 0, or -1 after a message. */
int floor_open(const char *nodes, struct floor **floor);
/* Runs until the meter ends, then until all replies have come. 0, or -1 after a message. */
int floor_run(struct floor *floor, const struct floor_work *work, struct meter *meter);
void floor_close(struct floor *floor);
/* A blocking connection to one URL of such a list, of that length. -1: errno says why. */
int floor_dial(const char *url, size_t length);

#endif
