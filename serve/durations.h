/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A histogram of durations, in buckets that Prometheus reads.
 */
#ifndef SERVE_DURATIONS_H
#define SERVE_DURATIONS_H

#include <stdint.h>

#define DURATIONS_BUCKETS 16

struct evbuffer;

struct durations {
    /* each bucket counts alone; the last holds all longer ones */
    uint64_t counts[DURATIONS_BUCKETS + 1];
    int64_t sum_ns;
};

void durations_add(struct durations *durations, int64_t ns);
/* Writes its lines; `labels` is "" or `name="value"`. */
void durations_write(const struct durations *durations, const char *name, const char *labels,
                     struct evbuffer *out);

#endif
