/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What the measurements of costs share. An error ends the program with a message.
 */
#ifndef BENCH_COST_H
#define BENCH_COST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "redlock.h"

int64_t cost_now_ns(void);
void cost_must(int result, const char *what, const char *text);
/* A client of the nodes in REDLOCK_NODES. */
struct redlock_client *cost_client(enum redlock_mode mode, int service_thread);
/* A lock of 30 s that is not renewed. */
struct redlock_lock *cost_lock(struct redlock_client *client, const char *name, bool shared);
/* Sorts the values. */
double cost_median(double *values, size_t count);

#endif
