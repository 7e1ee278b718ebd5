/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Histograms of durations. Two buckets for each power of two: a bucket is found with a few
 * instructions, takes no memory of its own, and its bounds are at most a half apart. */
#include <assert.h>

#include "client/client.h"

/* Bounds are 2^k and 1.5 * 2^k microseconds, from k = 4 on. */
enum { US = 1000, LEAST = 4, LAST = REDLOCK_HISTOGRAM_BUCKETS - 1 };

/* An upper bound belongs to its bucket, as in Prometheus. So the duration is taken as 1 ns less,
 * and then rounded down. */
static unsigned bucket_of(rl_ns duration) {
    if (duration <= US << LEAST) return 0;
    uint64_t us = (uint64_t)(duration - 1) / US;
    unsigned power = 63 - (unsigned)__builtin_clzll(us);
    unsigned half = us >> (power - 1) & 1;
    unsigned bucket = 2 * (power - LEAST) + half + 1;
    return bucket < LAST ? bucket : LAST;
}

void histogram_add(struct redlock_histogram *histogram, rl_ns duration) {
    assert(duration >= 0);
    histogram->sum_ns += (uint64_t)duration;
    histogram->buckets[bucket_of(duration)]++;
}

void histogram_count(struct redlock_histogram *histogram) {
    histogram->count = 0;
    for (size_t i = 0; i < REDLOCK_HISTOGRAM_BUCKETS; i++)
        histogram->count += histogram->buckets[i];
}

int64_t redlock_histogram_bound_ns(size_t bucket) {
    if (bucket >= LAST) return INT64_MAX;
    int64_t power = (int64_t)US << (LEAST + bucket / 2);
    return bucket % 2 ? power + power / 2 : power;
}

void redlock_histogram_merge(struct redlock_histogram *histogram,
                             const struct redlock_histogram *more) {
    histogram->count += more->count;
    histogram->sum_ns += more->sum_ns;
    for (size_t i = 0; i < REDLOCK_HISTOGRAM_BUCKETS; i++)
        histogram->buckets[i] += more->buckets[i];
}
