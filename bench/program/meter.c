/* SPDX-License-Identifier: BSD-2-Clause */
#include "meter.h"

#include <signal.h>
#include <stddef.h>
#include <sys/resource.h>

#include "process/boottime.h"

#define SUB_BITS 6
#define WARM_UP_MAX (100 * MS)

static unsigned bucket_of(int64_t ns) {
    uint64_t value = ns < 0 ? 0 : (uint64_t)ns;
    if (value < (1U << SUB_BITS)) return (unsigned)value;
    unsigned shift = 63U - (unsigned)__builtin_clzll(value) - SUB_BITS;
    unsigned bucket = (shift << SUB_BITS) + (unsigned)(value >> shift);
    return bucket < HISTOGRAM_BUCKETS ? bucket : HISTOGRAM_BUCKETS - 1;
}

static double middle_of(unsigned bucket) {
    if (bucket < (2U << SUB_BITS)) return (double)bucket;
    unsigned shift = (bucket >> SUB_BITS) - 1;
    uint64_t low = (uint64_t)(bucket - (shift << SUB_BITS)) << shift;
    return (double)low + (double)(UINT64_C(1) << shift) / 2;
}

void histogram_add(struct histogram *histogram, int64_t ns) {
    if (histogram->count == 0 || ns < histogram->least) histogram->least = ns;
    if (ns > histogram->most) histogram->most = ns;
    histogram->count++;
    histogram->buckets[bucket_of(ns)]++;
}

void histogram_merge(struct histogram *to, const struct histogram *from) {
    if (from->count == 0) return;
    if (to->count == 0 || from->least < to->least) to->least = from->least;
    if (from->most > to->most) to->most = from->most;
    to->count += from->count;
    for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++) to->buckets[i] += from->buckets[i];
}

double histogram_percentile_ns(const struct histogram *histogram, double share) {
    if (histogram->count == 0) return 0;
    uint64_t rank = (uint64_t)(share * (double)histogram->count), seen = 0;
    if (rank >= histogram->count) return (double)histogram->most;
    for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++) {
        seen += histogram->buckets[i];
        if (seen <= rank) continue;
        double value = middle_of(i), least = (double)histogram->least,
               most = (double)histogram->most;
        return value < least ? least : value > most ? most : value;
    }
    return (double)histogram->most;
}

int64_t cpu_ns(int who) {
    struct rusage usage;
    getrusage(who, &usage);
    int64_t us = (int64_t)usage.ru_utime.tv_usec + (int64_t)usage.ru_stime.tv_usec;
    return ((int64_t)usage.ru_utime.tv_sec + (int64_t)usage.ru_stime.tv_sec) * 1000 * MS +
           us * 1000;
}

void meter_start(struct meter *meter, int64_t open_ns) {
    int64_t warm_up = open_ns / 5 < WARM_UP_MAX ? open_ns / 5 : WARM_UP_MAX;
    *meter = (struct meter){.opens = now_ns() + warm_up};
    meter->closes = meter->opens + open_ns;
}

static int64_t (*others_ns)(void);

void meters_watch(int64_t (*function)(void)) { others_ns = function; }

static volatile sig_atomic_t interrupted;

void meters_interrupt(void) { interrupted = 1; }
bool meters_are_interrupted(void) { return interrupted != 0; }

bool meter_turn(struct meter *meter, int64_t now) {
    if (meter->ended != 0 || meters_are_interrupted()) return false;
    if (meter->began == 0) {
        if (now < meter->opens) return true;
        meter->began = now;
        meter->cpu_began = cpu_ns(RUSAGE_SELF);
        meter->others_began = others_ns != NULL ? others_ns() : -1;
        return true;
    }
    if (now < meter->closes) return true;
    meter->ended = now;
    meter->cpu_ended = cpu_ns(RUSAGE_SELF);
    meter->others_ended = others_ns != NULL ? others_ns() : -1;
    return false;
}

void meter_cycle(struct meter *meter, int64_t from, int64_t to) {
    if (meter->began == 0 || meter->ended != 0) return;
    histogram_add(&meter->latency, to - from);
}

double meter_rate(const struct meter *meter) {
    if (meter->ended <= meter->began) return 0;
    return (double)meter->latency.count * 1e9 / (double)(meter->ended - meter->began);
}

double meter_cpu_us(const struct meter *meter) {
    if (meter->latency.count == 0) return 0;
    return (double)(meter->cpu_ended - meter->cpu_began) / 1e3 / (double)meter->latency.count;
}
