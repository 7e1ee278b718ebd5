/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The measurement of a stretch of work: cycles, their latencies, and the processor time of this
 * process.
 */
#ifndef BENCH_PROGRAM_BENCH_METER_H
#define BENCH_PROGRAM_BENCH_METER_H

#include <stdbool.h>
#include <stdint.h>

/* 64 buckets for each doubling: a percentile is off by less than 1 %. The range is up to 2^40 ns,
 * about 18 minutes. */
#define HISTOGRAM_BUCKETS 2304

struct histogram {
    uint64_t count;
    int64_t least, most;
    uint32_t buckets[HISTOGRAM_BUCKETS];
};

void histogram_add(struct histogram *histogram, int64_t ns);
void histogram_merge(struct histogram *to, const struct histogram *from);
/* `share` from 0 to 1; 0 when nothing was added. */
double histogram_percentile_ns(const struct histogram *histogram, double share);

/* A meter warms up, is open for a time, and ends. It counts only what happens while it is open. */
struct meter {
    int64_t opens, closes; /* as planned */
    int64_t began, ended;  /* actual times; 0: not yet */
    int64_t cpu_began, cpu_ended;
    int64_t others_began, others_ended; /* of those of meters_watch() */
    struct histogram latency;           /* of each cycle */
};

/* Processor time of others than this process, in nanoseconds; -1: unknown. It is asked when a meter
 * opens and when it ends. NULL: nobody's. */
void meters_watch(int64_t (*others_ns)(void));
void meter_start(struct meter *meter, int64_t open_ns);
/* Call it once a turn. False: the meter has ended, begin no more cycles. */
bool meter_turn(struct meter *meter, int64_t now);
/* Counts a cycle that has ended. */
void meter_cycle(struct meter *meter, int64_t from, int64_t to);
/* ^C: every meter ends at its next turn. Async-signal-safe. */
void meters_interrupt(void);
bool meters_are_interrupted(void);
double meter_rate(const struct meter *meter);
/* Microseconds of user and system time per cycle. */
double meter_cpu_us(const struct meter *meter);

/* Of all threads of this process, or of the children that it has waited for. */
int64_t cpu_ns(int who);

#endif
