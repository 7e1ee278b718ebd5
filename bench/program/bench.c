/* SPDX-License-Identifier: BSD-2-Clause
 *
 * bench: the cost of a lock next to the least possible cost, in one run on the same nodes.
 */
#include "bench.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/nearest.h"
#include "process/boottime.h"
#include "process/exit_codes.h"
#include "process/message.h"

enum { TTL_MS_MIN = 2000 };

struct selection {
    struct result results[MEASURES_MAX];
    size_t count;
    int64_t planned_ns, done_ns;
};

/* ---- what to measure ------------------------------------------------------------------------- */

static size_t nodes_of(const struct bench *bench, const struct measure *measure) {
    if (measure->nodes > 0) return measure->nodes;
    return bench->own ? (size_t)bench->settings->count : bench->nodes_listed;
}

/* Fewer nodes than a guarded quorum has members are another quorum. */
static bool can_be_had(const struct bench *bench, const struct measure *measure) {
    if (measure->kind == KIND_NATIVE) return native_can_be_had(bench);
    if (bench->own || measure->nodes == 0) return true;
    return bench->mode == REDLOCK_MODE_CLASSIC && measure->nodes <= bench->nodes_listed;
}

static int unknown(const char *name) {
    struct nearest nearest;
    nearest_init(&nearest, name);
    for (size_t i = 0; i < bench_measures_count; i++)
        nearest_offer(&nearest, bench_measures[i].name);
    if (nearest.best != NULL) {
        complain("--only: '%.40s' is not a measurement; did you mean '%s'?", name, nearest.best);
    } else {
        complain("--only: '%.40s' is not a measurement; 'redlock bench --list' lists them", name);
    }
    return EXIT_USAGE_ERROR;
}

static void add(struct bench *bench, struct selection *selection, const struct measure *measure) {
    struct result *result = &selection->results[selection->count++];
    *result = (struct result){.measure = measure,
                              .nodes = nodes_of(bench, measure),
                              .rounds = measure_rounds(measure, bench->settings),
                              .sides = measure_sides(measure)};
    selection->planned_ns +=
        (int64_t)(result->rounds * result->sides) * measure_ns(measure, bench->settings);
}

static int choose_named(struct bench *bench, struct selection *selection) {
    char *names = strdup(bench->settings->only), *rest = NULL;
    int status = names == NULL ? EXIT_SYSTEM : 0;
    for (char *name = names == NULL ? NULL : strtok_r(names, ",", &rest);
         name != NULL && status == 0; name = strtok_r(NULL, ",", &rest)) {
        const struct measure *measure = measure_named(name);
        if (measure == NULL) {
            status = unknown(name);
        } else if (measure->kind == KIND_NATIVE && !can_be_had(bench, measure)) {
            complain("--only: %s needs servers of its own, without -N, and the module: install it "
                     "(the package redlock-node), or name it by --module FILE",
                     name);
            status = EXIT_USAGE_ERROR;
        } else if (!can_be_had(bench, measure)) {
            complain("--only: %s needs %u nodes, and -N lists %zu%s", name, measure->nodes,
                     bench->nodes_listed,
                     bench->mode == REDLOCK_MODE_GUARDED ? " that are one quorum" : "");
            status = EXIT_USAGE_ERROR;
        } else if (selection->count < MEASURES_MAX) {
            add(bench, selection, measure);
        }
    }
    free(names);
    if (status != 0 || selection->count > 0) return status;
    complain("--only needs a name; 'redlock bench --list' lists them");
    return EXIT_USAGE_ERROR;
}

static int choose(struct bench *bench, struct selection *selection) {
    if (bench->settings->only != NULL) return choose_named(bench, selection);
    for (size_t i = 0; i < bench_measures_count; i++) {
        if (!bench_measures[i].extra && can_be_had(bench, &bench_measures[i]))
            add(bench, selection, &bench_measures[i]);
    }
    return 0;
}

static int list_all(void) {
    for (size_t i = 0; i < bench_measures_count; i++) {
        printf("%-14s %s%s\n", bench_measures[i].name, bench_measures[i].summary,
               bench_measures[i].extra ? " (with --only)" : "");
    }
    return EXIT_OK;
}

/* ---- ^C ------------------------------------------------------------------------------------- */

/* The second ^C ends the process at once; its servers end with it in any case. */
static void on_interrupt(int signal) {
    (void)signal;
    meters_interrupt();
}

/* Not restarted: it ends a sleep. Programs that this one starts do not inherit it. */
static void watch_for_interrupt(void) {
    struct sigaction old, action = {.sa_handler = on_interrupt, .sa_flags = (int)SA_RESETHAND};
    if (sigaction(SIGINT, NULL, &old) == 0 && old.sa_handler == SIG_IGN) return;
    sigaction(SIGINT, &action, NULL);
}

/* ---- measuring ------------------------------------------------------------------------------- */

static void report_progress(const struct bench *bench, const struct selection *selection,
                            const struct result *result, size_t round, size_t side) {
    char name[32];
    if (bench->settings->quiet) return;
    measure_side_name(result->measure, side, name, sizeof name);
    report_passing("%s, %s, round %zu of %zu; about %lld s left", result->measure->name, name,
                   round + 1, result->rounds,
                   (long long)((selection->planned_ns - selection->done_ns) * 6 / 5 / (1000 * MS)) +
                       1);
}

/* Every second round runs in reverse order, so that the first side has no advantage. */
static int run_rounds(struct bench *bench, struct selection *selection, struct result *result) {
    static struct meter meter; /* large */
    for (size_t i = 0; i < result->sides; i++) {
        result->latency[i] = calloc(1, sizeof *result->latency[i]);
        if (result->latency[i] == NULL) return EXIT_SYSTEM;
    }
    const size_t rounds = result->rounds;
    for (size_t round = 0; round < rounds; round++) {
        result->rounds = round; /* that are complete */
        for (size_t i = 0; i < result->sides; i++) {
            const size_t side = round % 2 == 0 ? i : result->sides - 1 - i;
            report_progress(bench, selection, result, round, side);
            int status =
                measure_run(bench, result->measure, side, &meter, &result->samples[side][round]);
            /* What ^C has cut short fails or is too short: it does not count. */
            if (meters_are_interrupted()) return 0;
            if (status != 0) return status;
            histogram_merge(result->latency[side], &meter.latency);
            selection->done_ns += measure_ns(result->measure, bench->settings);
        }
    }
    result->rounds = rounds;
    return 0;
}

static int run_all(struct bench *bench, struct selection *selection) {
    for (size_t i = 0; i < selection->count; i++) {
        struct result *result = &selection->results[i];
        const bool native = result->measure->kind == KIND_NATIVE;
        if (!native && bench->stock.count > 0) native_close(bench);
        int status = native ? native_open(bench) : bench_nodes_use(bench, result->nodes);
        if (status == 0 && !meters_are_interrupted()) status = run_rounds(bench, selection, result);
        if (meters_are_interrupted()) {
            const bool counts = status == 0 && result->rounds > 0 && result->latency[0] != NULL;
            end_passing();
            complain("interrupted: %zu of %zu measurements are complete%s", i, selection->count,
                     counts ? ", and the next one in part" : "");
            selection->count = i + counts;
            return 0;
        }
        if (status != 0) return status;
    }
    end_passing();
    return 0;
}

/* ---- results ----------------------------------------------------------------------------------
 */

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static struct spread spread_of(double *values, size_t count) {
    qsort(values, count, sizeof values[0], compare);
    double median =
        count % 2 == 1 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
    return (struct spread){median, values[0], values[count - 1]};
}

struct spread result_spread(const struct result *result, size_t side, enum figure figure) {
    double values[PAIRS_MAX];
    for (size_t i = 0; i < result->rounds; i++)
        values[i] = result->samples[side][i].figures[figure];
    return spread_of(values, result->rounds);
}

struct spread result_ratio(const struct result *result, size_t side, size_t over,
                           enum figure figure) {
    double values[PAIRS_MAX];
    for (size_t i = 0; i < result->rounds; i++) {
        values[i] =
            result->samples[side][i].figures[figure] / result->samples[over][i].figures[figure];
    }
    return spread_of(values, result->rounds);
}

static int measure_and_report(struct bench *bench) {
    static struct selection selection; /* large */
    int status = choose(bench, &selection);
    if (status == 0 && bench->settings->plot != NULL) status = plot_try(bench->settings->plot);
    watch_for_interrupt();
    if (status == 0) status = run_all(bench, &selection);
    if (status == 0 && (selection.count > 0 || !meters_are_interrupted())) {
        if (bench->settings->json) {
            report_json(bench, selection.results, selection.count);
        } else {
            report_print(bench, selection.results, selection.count);
        }
        fflush(stdout);
        if (bench->settings->plot != NULL)
            status = plot_write(bench->settings->plot, selection.results, selection.count);
    }
    for (size_t i = 0; i < MEASURES_MAX; i++) {
        for (size_t side = 0; side < SIDES_MAX; side++) free(selection.results[i].latency[side]);
    }
    return status == 0 && meters_are_interrupted() ? EXIT_BY_SIGNAL + SIGINT : status;
}

int bench_main(const struct bench_settings *settings, int argc, char **argv) {
    static struct bench bench; /* large */
    if (argc > 0) {
        complain("bench takes no operands, but got '%.60s'; name measurements with --only",
                 argv[0]);
        return EXIT_USAGE_ERROR;
    }
    if (settings->list) return list_all();
    if (settings->ttl_ms < TTL_MS_MIN) {
        complain(
            "--ttl: bench needs at least %ds: a lock that ends during a measurement distorts it",
            TTL_MS_MIN / 1000);
        return EXIT_USAGE_ERROR;
    }
    bench = (struct bench){.settings = settings, .mode = settings->mode};
    int status = bench_nodes_open(&bench);
    if (status == 0) status = measure_and_report(&bench);
    bench_nodes_close(&bench);
    return status;
}
