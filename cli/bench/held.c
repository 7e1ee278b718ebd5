/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Very many locks, held and renewed by one process: what each takes of memory, and what renewing them takes of the
 * processor.
 */
#include <malloc.h>
#include <math.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "bench.h"
#include "boottime.h"
#include "exit_codes.h"
#include "message.h"

enum { IN_FLIGHT = 256, SETTLE_MS = 500 };

struct held {
    uint64_t renewed, unsure, lost;
};

static void on_change(void *context, struct redlock_lock *lock, enum redlock_change change) {
    struct held *held = context;
    (void)lock;
    if (change == REDLOCK_CHANGE_RENEWED) held->renewed++;
    if (change == REDLOCK_CHANGE_UNSURE) held->unsure++;
    if (change == REDLOCK_CHANGE_LOST) held->lost++;
}

/* What was asked of malloc() and not given back; 0 where another allocator is in its place. */
static double heap_bytes(void) {
    struct mallinfo2 info = mallinfo2();
    return (double)info.uordblks + (double)info.hblkhd;
}

static int make_locks(struct bench *bench, struct redlock_client *client, struct held *held, struct flight_plan *plan) {
    struct redlock_lock_options options;
    library_lock_options(bench, &options);
    options.on_change = on_change;
    options.on_change_context = held;
    for (int64_t wanted = bench->settings->held; plan->locks_count < wanted; plan->locks_count++) {
        int status = library_lock(client, &options, plan->locks_count, 1, &plan->locks[plan->locks_count]);
        if (status != 0) return status;
    }
    return 0;
}

/* Long enough that each is renewed, and some twice. */
static int hold(struct bench *bench, struct redlock_client *client, struct held *held, struct meter *meter,
                struct sample *sample) {
    const uint64_t before = held->renewed;
    meter->began = now_ns();
    meter->cpu_began = cpu_ns(RUSAGE_SELF);
    int status = flight_idle(client, meter->began + bench->settings->ttl_ms * MS / 2);
    meter->cpu_ended = cpu_ns(RUSAGE_SELF);
    meter->ended = now_ns();
    const double renewals = (double)(held->renewed - before), wall = (double)(meter->ended - meter->began),
                 cpu = (double)(meter->cpu_ended - meter->cpu_began);
    sample->figures[FIGURE_RATE] = renewals * 1e9 / wall;
    sample->figures[FIGURE_CPU] = renewals > 0 ? cpu / 1e3 / renewals : NAN;
    sample->figures[FIGURE_SHARE] = 100 * cpu / wall;
    return status;
}

static int take_hold_give(struct bench *bench, struct redlock_client *client, struct flight_plan *plan,
                          struct meter *meter, struct sample *sample) {
    struct held held = {0};
    const double before = heap_bytes();
    int status = make_locks(bench, client, &held, plan);
    plan->work = FLIGHT_TAKE;
    if (status == 0) status = flight_run(client, plan);
    /* At rest: the last nodes' answers to the last of them are in. */
    if (status == 0) status = flight_idle(client, now_ns() + SETTLE_MS * MS);
    const double bytes = heap_bytes() - before;
    sample->figures[FIGURE_BYTES] = bytes > 0 ? bytes / (double)plan->locks_count : NAN;
    if (status == 0) status = hold(bench, client, &held, meter, sample);
    sample->figures[FIGURE_LOST] = (double)held.lost;
    plan->work = FLIGHT_GIVE;
    /* A lost one has nothing to give back. */
    if (status == 0 && held.lost == 0) status = flight_run(client, plan);
    for (unsigned i = 0; i < plan->locks_count; i++) redlock_lock_free(plan->locks[i]);
    return status;
}

int held_run(struct bench *bench, const struct measure *measure, struct meter *meter, struct sample *sample) {
    struct redlock_client *client;
    struct flight_plan plan = {.in_flight = IN_FLIGHT,
                               .locks = calloc((size_t)bench->settings->held, sizeof(struct redlock_lock *))};
    (void)measure;
    if (plan.locks == NULL) return EXIT_SYSTEM;
    int status = library_open(bench, false, &client);
    if (status == 0) {
        status = take_hold_give(bench, client, &plan, meter, sample);
        redlock_client_free(client);
    }
    free(plan.locks);
    return status;
}
