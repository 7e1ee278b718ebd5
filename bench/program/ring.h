/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The floor of a hand-over: the least work that processes must do which hold a lock one after the
 * other, and nothing else. They sit in a ring. Each one releases the lock and sends a message to
 * the next on every node; the next one requests the lock when a majority has passed on the message,
 * and holds it when a majority has granted it. It leaves out what a client does beyond that; ring.c
 * marks each such place with "Left out:".
 */
#ifndef BENCH_PROGRAM_BENCH_RING_H
#define BENCH_PROGRAM_BENCH_RING_H

#include <stdint.h>

struct ring;

/* A place in the ring, of the process `number` of `count`. 0, or -1 after a message. */
int ring_open(const char *nodes, unsigned number, unsigned count, int64_t ttl_ms,
              struct ring **ring);
/* Waits for this process's turn, and takes the lock; the first turn of the first process begins at
 * once. 1: it holds the lock. 0: the time is over. -1: a node failed, and a message said so. */
int ring_take(struct ring *ring, int64_t closes);
/* Releases the lock, and sends the message to the next process. 0, or -1 after a message. */
int ring_pass(struct ring *ring);

#endif
