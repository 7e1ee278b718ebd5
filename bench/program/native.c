/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What native nodes are worth: the library on five of them, next to the floor and the library on as
 * many stock servers. Bench starts both sets of servers itself, and both are guarded quorums. The
 * floor and the classic client use the stock ones too: the records there do not concern them.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "bench.h"
#include "floor.h"
#include "process/sibling.h"
#include "process/exit_codes.h"
#include "process/message.h"

static const struct {
    const char *name;
    bool native;
    int mode; /* enum redlock_mode */
} sides[NATIVE_SIDES] = {
    [NATIVE_FLOOR] = {"floor", false, REDLOCK_MODE_CLASSIC},
    [NATIVE_CLASSIC] = {"classic", false, REDLOCK_MODE_CLASSIC},
    [NATIVE_GUARDED] = {"guarded", false, REDLOCK_MODE_GUARDED},
    [NATIVE_NATIVE] = {"native", true, REDLOCK_MODE_GUARDED},
};

const struct native_ratio native_ratios[NATIVE_RATIOS] = {
    {NATIVE_FLOOR, FIGURE_RATE, "a second"},
    {NATIVE_CLASSIC, FIGURE_RATE, "a second"},
    {NATIVE_CLASSIC, FIGURE_P50, "p50"},
    {NATIVE_CLASSIC, FIGURE_SERVERS, "CPU of a server"},
    {NATIVE_GUARDED, FIGURE_SERVERS, "CPU of a server"},
};

const char *native_side_name(size_t side) { return sides[side].name; }

static bool never(void *context) {
    (void)context;
    return false;
}

static int start(struct bench *bench, struct servers *servers, const char *module) {
    *servers = bench->servers; /* what they have in common; these are not started */
    servers->mode = REDLOCK_MODE_GUARDED;
    servers->count = (size_t)bench->settings->count;
    snprintf(servers->module, sizeof servers->module, "%s", module);
    int length = snprintf(servers->directory, sizeof servers->directory, "%s/quorum-%u",
                          bench->directory, ++bench->quorums);
    if (length < 0 || (size_t)length >= sizeof servers->directory ||
        mkdir(servers->directory, 0700) != 0) {
        complain("cannot make a directory in %s: %s", bench->directory, strerror(errno));
        return EXIT_SYSTEM;
    }
    return servers_start(servers, never, NULL) == 0 ? 0 : EXIT_SYSTEM;
}

bool native_can_be_had(const struct bench *bench) {
    return bench->own && (bench->settings->module != NULL || sibling_has_module());
}

static int find_module(const struct bench *bench, char *path, size_t size) {
    const char *named = bench->settings->module;
    if (named == NULL) return sibling_module(path, size);
    char *found = realpath(named, NULL);
    int length = found != NULL ? snprintf(path, size, "%s", found) : -1;
    free(found);
    if (length >= 0 && (size_t)length < size) return 0;
    complain("--module %s: %s", named, length < 0 ? strerror(errno) : "too long a name");
    return -1;
}

int native_open(struct bench *bench) {
    char module[PATH_MAX];
    if (bench->stock.count > 0) return 0;
    servers_stop(&bench->servers); /* fewer processes next to what is measured */
    bench->servers.count = 0;
    if (find_module(bench, module, sizeof module) != 0) return EXIT_CONFIG;
    int status = start(bench, &bench->stock, "");
    return status != 0 ? status : start(bench, &bench->natives, module);
}

void native_close(struct bench *bench) {
    servers_stop(&bench->stock);
    servers_stop(&bench->natives);
    bench->stock.count = bench->natives.count = 0;
}

/* ---- the servers' processor time ------------------------------------------------------------- */

static const struct servers *watched;

/* Of their main threads, in nanoseconds: the first number of schedstat. */
static int64_t servers_cpu_ns(void) {
    int64_t sum = 0;
    for (size_t i = 0; i < watched->count; i++) {
        char path[64];
        int64_t ns = 0;
        snprintf(path, sizeof path, "/proc/%ld/schedstat", (long)watched->list[i].pid);
        FILE *file = fopen(path, "re");
        if (file == NULL) return -1;
        const bool read = fscanf(file, "%" SCNd64, &ns) == 1;
        fclose(file);
        if (!read) return -1;
        sum += ns;
    }
    return sum;
}

int native_run(struct bench *bench, const struct measure *measure, size_t side, struct meter *meter,
               struct sample *sample) {
    const int mode = bench->mode;
    watched = sides[side].native ? &bench->natives : &bench->stock;
    snprintf(bench->nodes, sizeof bench->nodes, "%s", watched->nodes);
    bench->mode = sides[side].mode;
    meters_watch(servers_cpu_ns);
    int status = side == NATIVE_FLOOR ? measure_floor(bench, measure, false, meter)
                 : measure->in_flight == 1
                     ? library_blocking(bench, measure, meter)
                     : library_flight(bench, measure, measure->in_flight, meter);
    meters_watch(NULL);
    bench->mode = mode;
    if (status == 0 && meter->latency.count > 0 && meter->others_began >= 0 &&
        meter->others_ended >= 0)
        sample->figures[FIGURE_SERVERS] = (double)(meter->others_ended - meter->others_began) /
                                          1e3 / (double)meter->latency.count /
                                          (double)watched->count;
    return status;
}
