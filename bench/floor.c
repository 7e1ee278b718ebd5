/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The floor by itself: the least work that any Redlock client must do (program/floor.h says what
 * that is).
 * usage: redlock up --mode classic -- floor [IN_FLIGHT [SECONDS]]   (1 in flight, 2 s)
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "program/floor.h"
#include "process/boottime.h"

enum { IN_FLIGHT_MAX = 65536 };

static void print_result(const struct floor_work *work, const struct meter *meter) {
    printf(
        "%u in flight: %.0f cycles/s; p50 %.1f us, p99 %.1f us, longest %.1f us; %.2f us of CPU a cycle\n",
        work->in_flight, meter_rate(meter), histogram_percentile_ns(&meter->latency, 0.5) / 1e3,
        histogram_percentile_ns(&meter->latency, 0.99) / 1e3, (double)meter->latency.most / 1e3,
        meter_cpu_us(meter));
}

int main(int argc, char **argv) {
    static struct meter meter;
    struct floor *floor = NULL;
    struct floor_work work = {.in_flight = 1, .resources = 1, .ttl_ms = 30000};
    const char *nodes = getenv("REDLOCK_NODES");
    double seconds = argc > 2 ? strtod(argv[2], NULL) : 2;
    if (argc > 1) work.in_flight = (unsigned)strtoul(argv[1], NULL, 10);
    if (nodes == NULL || argc > 3 || work.in_flight < 1 || work.in_flight > IN_FLIGHT_MAX ||
        !(seconds > 0)) {
        fputs("usage: redlock up --mode classic -- floor [IN_FLIGHT [SECONDS]]\n", stderr);
        return 64;
    }
    if (floor_open(nodes, &floor) != 0) return 69;
    meter_start(&meter, (int64_t)(seconds * 1e9));
    int result = floor_run(floor, &work, &meter);
    floor_close(floor);
    if (result != 0) return 69;
    print_result(&work, &meter);
    return 0;
}
