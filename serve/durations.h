/* SPDX-License-Identifier: BSD-2-Clause
 *
 * How long things took, counted in buckets as Prometheus reads them.
 */
#ifndef SERVE_DURATIONS_H
#define SERVE_DURATIONS_H

#include <stdint.h>

#define DURATIONS_BUCKETS 16

struct evbuffer;

struct durations {
    uint64_t counts[DURATIONS_BUCKETS +
                    1]; /* each bucket by itself; the last is what is longer than all */
    int64_t sum_ns;
};

void durations_add(struct durations *durations, int64_t ns);
/* Its lines; `labels` is "" or `name="value"`. */
void durations_write(const struct durations *durations, const char *name, const char *labels,
                     struct evbuffer *out);

#endif
