/* SPDX-License-Identifier: BSD-2-Clause */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "floor.h"
#include "process/boottime.h"
#include "process/exit_codes.h"
#include "process/message.h"

/* As long as others: waits of seconds must be seen, and many cycles of each of those in flight. */
enum { CONTENDED_TIMES = 8, CROWDED_TIMES = 4, CROWDED = 1024 };

const struct measure bench_measures[] = {
    {"blocking", KIND_BLOCKING, "acquire and release, one at a time, blocking", 1, 0, 1, false,
     false},
    {"threads-4", KIND_BLOCKING, "blocking, 4 threads on one client; floor: 4 in flight", 4, 0, 1,
     false, false},
    {"threads-16", KIND_BLOCKING, "blocking, 16 threads on one client; floor: 16 in flight", 16, 0,
     1, false, false},
    {"handover-4", KIND_HANDOVER, "the floor itself from 4 blocking threads; floor: 4 in flight", 4,
     0, 1, false, true},
    {"handover-16", KIND_HANDOVER, "the floor itself from 16 blocking threads; floor: 16 in flight",
     16, 0, 1, false, true},
    {"flight-1", KIND_FLIGHT, "event-driven, one at a time", 1, 0, 1, false, true},
    {"flight-16", KIND_FLIGHT, "event-driven, 16 in flight", 16, 0, 1, false, false},
    {"flight-256", KIND_FLIGHT, "event-driven, 256 in flight", 256, 0, 1, false, false},
    {"flight-4096", KIND_FLIGHT, "event-driven, 4096 in flight", 4096, 0, 1, false, false},
    {"gateway", KIND_GATEWAY,
     "one at a time, through redlock serve on a Unix socket; compared with the library", 1, 0, 1,
     false, false},
    {"native-1", KIND_NATIVE, "one at a time, on stock and on native nodes", 1, 0, 1, false, false},
    {"native-256", KIND_NATIVE, "256 in flight, on stock and on native nodes", 256, 0, 1, false,
     false},
    {"start", KIND_START, "redlock --version, next to true(1)", 1, 1, 0, false, false},
    {"start-run", KIND_START, "redlock run x -- true, next to true(1)", 1, 0, 1, false, false},
    {"extend", KIND_BLOCKING, "extensions, one at a time, blocking", 1, 0, 1, true, false},
    {"extend-256", KIND_FLIGHT, "extensions, event-driven, 256 in flight", 256, 0, 1, true, false},
    {"several-8", KIND_BLOCKING, "eight resources in one lock, one at a time, blocking", 1, 0, 8,
     false, false},
    {"several-8-256", KIND_FLIGHT, "eight resources in one lock, 256 in flight", 256, 0, 8, false,
     true},
    {"contended-2", KIND_CONTENDED, "one resource held for 1 ms, 2 waiting processes", 2, 0, 1,
     false, false},
    {"contended-8", KIND_CONTENDED, "one resource held for 1 ms, 8 waiting processes", 8, 0, 1,
     false, false},
    {"contended-32", KIND_CONTENDED, "one resource held for 1 ms, 32 waiting processes", 32, 0, 1,
     false, false},
    {"contended-128", KIND_CONTENDED, "one resource held for 1 ms, 128 waiting processes", 128, 0,
     1, false, false},
    {"held", KIND_HELD, "many locks (--held) held and renewed by one process for half a TTL", 256,
     0, 1, false, false},
    {"distinct", KIND_DISTINCT, "64 in flight over 100 to a million resources, a lock for each", 64,
     0, 1, false, false},
    {"nodes-1", KIND_BLOCKING, "as blocking, on 1 node", 1, 1, 1, false, false},
    {"nodes-1-256", KIND_FLIGHT, "256 in flight, on 1 node", 256, 1, 1, false, true},
    {"nodes-3", KIND_BLOCKING, "as blocking, on 3 nodes", 1, 3, 1, false, false},
    {"nodes-3-256", KIND_FLIGHT, "256 in flight, on 3 nodes", 256, 3, 1, false, true},
    {"nodes-5", KIND_BLOCKING, "as blocking, on 5 nodes", 1, 5, 1, false, true},
    {"nodes-5-256", KIND_FLIGHT, "256 in flight, on 5 nodes", 256, 5, 1, false, true},
    {"nodes-7", KIND_BLOCKING, "as blocking, on 7 nodes", 1, 7, 1, false, false},
    {"nodes-7-256", KIND_FLIGHT, "256 in flight, on 7 nodes", 256, 7, 1, false, true},
};
const size_t bench_measures_count = sizeof bench_measures / sizeof bench_measures[0];

static const unsigned distinct_counts[SIDES_MAX] = {100, 1000, 10000, 100000, 1000000};

const struct measure *measure_named(const char *name) {
    for (size_t i = 0; i < bench_measures_count; i++) {
        if (strcmp(bench_measures[i].name, name) == 0) return &bench_measures[i];
    }
    return NULL;
}

bool measure_has_floor(const struct measure *measure) {
    return measure->kind == KIND_BLOCKING || measure->kind == KIND_FLIGHT ||
           measure->kind == KIND_HANDOVER;
}

bool measure_is_pair(const struct measure *measure) {
    return measure_has_floor(measure) || measure->kind == KIND_GATEWAY ||
           measure->kind == KIND_START;
}

size_t measure_sides(const struct measure *measure) {
    if (measure->kind == KIND_DISTINCT) return SIDES_MAX;
    if (measure->kind == KIND_NATIVE) return NATIVE_SIDES;
    if (measure->kind == KIND_CONTENDED) return 2;
    return measure_is_pair(measure) ? 2 : 1;
}

void measure_side_name(const struct measure *measure, size_t side, char *out, size_t size) {
    if (measure->kind == KIND_DISTINCT) {
        snprintf(out, size, "%u", distinct_counts[side]);
    } else if (measure->kind == KIND_NATIVE) {
        snprintf(out, size, "%s", native_side_name(side));
    } else if (measure->kind == KIND_GATEWAY) {
        snprintf(out, size, "%s", side == 0 ? "library" : "gateway");
    } else if (measure->kind == KIND_START) {
        snprintf(out, size, "%s", side == 0 ? "true" : "redlock");
    } else if (measure->kind == KIND_HANDOVER) {
        snprintf(out, size, "%s", side == 0 ? "floor" : "threads");
    } else {
        const bool has = measure_has_floor(measure) || measure->kind == KIND_CONTENDED;
        snprintf(out, size, "%s", has && side == 0 ? "floor" : "library");
    }
}

/* Measurements that take long are repeated less often. */
size_t measure_rounds(const struct measure *measure, const struct bench_settings *settings) {
    const size_t pairs = (size_t)settings->pairs;
    if (measure->kind == KIND_HELD) return 1;
    return measure_is_pair(measure) || measure->kind == KIND_NATIVE ? pairs : (pairs + 2) / 3;
}

int64_t measure_ns(const struct measure *measure, const struct bench_settings *settings) {
    const int64_t ns = settings->seconds_ms * MS;
    if (measure->kind == KIND_HELD) return settings->ttl_ms * MS / 2 + settings->held * 100000;
    if (measure->kind == KIND_CONTENDED) return CONTENDED_TIMES * ns;
    return measure->in_flight >= CROWDED ? CROWDED_TIMES * ns : ns;
}

const char *measure_unit(const struct measure *measure) {
    if (measure->kind == KIND_CONTENDED) return "holds";
    if (measure->kind == KIND_HELD) return "renewals";
    if (measure->kind == KIND_START) return "starts";
    return measure->extends ? "extensions" : "cycles";
}

bool figure_applies(const struct measure *measure, enum figure figure) {
    switch (figure) {
    case FIGURE_RATE:
    case FIGURE_CPU: return true;
    case FIGURE_P50:
    case FIGURE_P99:
    case FIGURE_MAX: return measure->kind != KIND_HELD;
    case FIGURE_SERVERS: return measure->kind == KIND_NATIVE;
    case FIGURE_FEWEST:
    case FIGURE_MOST:
    case FIGURE_EVENNESS:
    case FIGURE_SPLITS:
    case FIGURE_QUEUE: return measure->kind == KIND_CONTENDED;
    case FIGURE_BYTES:
    case FIGURE_LOST:
    case FIGURE_SHARE: return measure->kind == KIND_HELD;
    case FIGURES: break;
    }
    return false;
}

int measure_floor(struct bench *bench, const struct measure *measure, bool threads,
                  struct meter *meter) {
    struct floor *floor;
    struct floor_work work = {.in_flight = measure->in_flight,
                              .resources = measure->resources,
                              .extends = measure->extends,
                              .threads = threads,
                              .ttl_ms = bench->settings->ttl_ms};
    if (floor_open(bench->nodes, &floor) != 0) return EXIT_NO_QUORUM;
    int result = floor_run(floor, &work, meter);
    floor_close(floor);
    return result == 0 ? 0 : EXIT_NO_QUORUM;
}

static int run(struct bench *bench, const struct measure *measure, size_t side, struct meter *meter,
               struct sample *sample) {
    if (measure_has_floor(measure) && side == 0) return measure_floor(bench, measure, false, meter);
    switch (measure->kind) {
    case KIND_BLOCKING: return library_blocking(bench, measure, meter);
    case KIND_HANDOVER: return measure_floor(bench, measure, true, meter);
    case KIND_FLIGHT: return library_flight(bench, measure, measure->in_flight, meter);
    case KIND_DISTINCT: return library_flight(bench, measure, distinct_counts[side], meter);
    case KIND_CONTENDED: return contended_run(bench, measure, side == 0, meter, sample);
    case KIND_HELD: return held_run(bench, measure, meter, sample);
    case KIND_NATIVE: return native_run(bench, measure, side, meter, sample);
    case KIND_START: return start_run(bench, measure, side, meter);
    case KIND_GATEWAY:
        return side == 0 ? library_blocking(bench, measure, meter) : gateway_run(bench, meter);
    }
    return EXIT_SYSTEM;
}

int measure_run(struct bench *bench, const struct measure *measure, size_t side,
                struct meter *meter, struct sample *sample) {
    for (enum figure figure = FIGURE_RATE; figure < FIGURES; figure++)
        sample->figures[figure] = NAN;
    *meter = (struct meter){.closes = measure_ns(measure, bench->settings)};
    int status = run(bench, measure, side, meter, sample);
    if (status != 0 || measure->kind == KIND_HELD) return status;
    if (meter->latency.count == 0) {
        if (!meters_are_interrupted())
            complain("%s: no cycle finished in that time; raise --seconds", measure->name);
        return EXIT_SYSTEM;
    }
    sample->figures[FIGURE_P50] = histogram_percentile_ns(&meter->latency, 0.5) / 1e3;
    sample->figures[FIGURE_P99] = histogram_percentile_ns(&meter->latency, 0.99) / 1e3;
    sample->figures[FIGURE_MAX] = (double)meter->latency.most / 1e3;
    if (measure->kind == KIND_CONTENDED) return 0;
    sample->figures[FIGURE_RATE] = meter_rate(meter);
    sample->figures[FIGURE_CPU] = meter_cpu_us(meter);
    return 0;
}
