/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Very many locks, held and renewed by one process: the memory of each lock, and the processor time
 * that renewals take.
 */
#include <malloc.h>
#include <math.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "bench.h"
#include "config/duration.h"
#include "process/boottime.h"
#include "process/exit_codes.h"
#include "process/message.h"

enum { IN_FLIGHT = 256, SETTLE_MS = 500, WATCH_MS = 250, RATE_AFTER_MS = 500 };

static const char taking[] = "taking", holding[] = "holding", giving[] = "giving back";

struct held {
    const struct bench_settings *settings;
    struct redlock_client *client;
    uint64_t renewed, unsure, lost;
    const char *doing;
    int64_t began_ns;        /* of what it is doing */
    uint64_t renewed_before; /* when that began */
    bool warned, given_up;
};

/* Each is renewed after a third of its TTL. */
static double renewals_needed(const struct bench_settings *settings) {
    return (double)settings->held * 3e3 / (double)settings->ttl_ms;
}

static void warn(struct held *held, const char *what, double rate) {
    char text[64];
    const struct bench_settings *settings = held->settings;
    const double locks = (double)settings->held, half = rate / 2; /* room for all else */
    if (held->warned) return;
    held->warned = true;
    complain(
        "held: renewals %s: %.0f locks with a TTL of %s need %.0f renewals a second, and this run makes %.0f; try --ttl %.0fm or --held %.0f",
        what, locks, duration_text(text, sizeof text, settings->ttl_ms), renewals_needed(settings),
        rate, ceil(locks * 3 / half / 60), floor(half * (double)settings->ttl_ms / 3e3));
}

static void begin_doing(struct held *held, const char *doing) {
    held->doing = doing;
    held->began_ns = now_ns();
    held->renewed_before = held->renewed;
}

/* The library knows before any is lost. */
static void report_overload(struct held *held) {
    struct redlock_stats stats = {.size = sizeof stats};
    if (held->warned || redlock_client_stats(held->client, &stats) != REDLOCK_OK) return;
    if (stats.overloads > 0) warn(held, "do not keep up", (double)stats.renewals_done + 1);
}

/* Acquiring a lock costs as much as renewing one, or a little more: so it is known long before
 * locks are lost that renewals cannot keep up. */
static void check_rate(struct held *held, unsigned done) {
    const double seconds = (double)(now_ns() - held->began_ns) / 1e9;
    const double rate = ((double)done + (double)(held->renewed - held->renewed_before)) / seconds;
    report_overload(held);
    if (rate <= 0 || (seconds * 1e3 < RATE_AFTER_MS && held->lost == 0)) return;
    if (held->lost > 0) {
        warn(held, "do not keep up, and locks are lost", rate);
    } else if (held->doing == taking && rate < renewals_needed(held->settings)) {
        warn(held, "will not keep up", rate);
    }
}

static void report_progress(const struct held *held, unsigned done) {
    const long long left_s =
        (held->began_ns + held->settings->ttl_ms * MS / 2 - now_ns()) / (1000 * MS);
    if (held->doing == holding) {
        report_passing("held, %s: %llu renewals, %llu lost; %lld s left", held->doing,
                       (unsigned long long)(held->renewed - held->renewed_before),
                       (unsigned long long)held->lost, left_s > 0 ? left_s : 0);
    } else {
        report_passing("held, %s: %u of %lld locks; %llu renewals, %llu lost", held->doing, done,
                       (long long)held->settings->held, (unsigned long long)held->renewed,
                       (unsigned long long)held->lost);
    }
}

/* If locks are lost before all are acquired, that number cannot be reached. */
static bool watch(void *context, unsigned done) {
    struct held *held = context;
    check_rate(held, done);
    if (held->doing == taking && held->lost > 0) held->given_up = true;
    if (meters_are_interrupted()) held->given_up = true;
    if (!held->settings->quiet) report_progress(held, done);
    return !held->given_up;
}

static void on_change(void *context, struct redlock_lock *lock, int change) {
    struct held *held = context;
    (void)lock;
    if (change == REDLOCK_CHANGE_RENEWED) held->renewed++;
    if (change == REDLOCK_CHANGE_UNSURE) held->unsure++;
    if (change == REDLOCK_CHANGE_LOST) held->lost++;
}

/* The bytes from malloc() that were not freed; 0 if another allocator replaces it, or the C library
 * does not count them. */
static double heap_bytes(void) {
#ifdef __GLIBC__
    struct mallinfo2 info = mallinfo2();
    return (double)info.uordblks + (double)info.hblkhd;
#else
    return 0;
#endif
}

static int make_locks(struct bench *bench, struct redlock_client *client, struct held *held,
                      struct flight_plan *plan) {
    struct redlock_lock_options options;
    library_lock_options(bench, &options);
    options.on_change = on_change;
    options.on_change_context = held;
    for (int64_t wanted = bench->settings->held; plan->locks_count < wanted; plan->locks_count++) {
        options.ttl_ms = bench->settings->ttl_ms + plan->locks_count % bench->settings->ttls;
        int status =
            library_lock(client, &options, plan->locks_count, 1, &plan->locks[plan->locks_count]);
        if (status != 0) return status;
    }
    return 0;
}

static int idle(struct redlock_client *client, struct held *held, int64_t until) {
    int status = 0;
    for (int64_t now = now_ns(); status == 0 && now < until && !meters_are_interrupted();
         now = now_ns()) {
        status = flight_idle(client, now + WATCH_MS * MS < until ? now + WATCH_MS * MS : until);
        watch(held, 0);
    }
    return status;
}

/* Long enough that each is renewed, and some twice. */
static int hold(struct bench *bench, struct redlock_client *client, struct held *held,
                struct meter *meter, struct sample *sample) {
    const uint64_t before = held->renewed;
    begin_doing(held, holding);
    meter->began = now_ns();
    meter->cpu_began = cpu_ns(RUSAGE_SELF);
    int status = idle(client, held, meter->began + bench->settings->ttl_ms * MS / 2);
    meter->cpu_ended = cpu_ns(RUSAGE_SELF);
    meter->ended = now_ns();
    const double renewals = (double)(held->renewed - before),
                 wall = (double)(meter->ended - meter->began),
                 cpu = (double)(meter->cpu_ended - meter->cpu_began);
    sample->figures[FIGURE_RATE] = renewals * 1e9 / wall;
    sample->figures[FIGURE_CPU] = renewals > 0 ? cpu / 1e3 / renewals : NAN;
    sample->figures[FIGURE_SHARE] = 100 * cpu / wall;
    return status;
}

static int take_hold_give(struct bench *bench, struct redlock_client *client,
                          struct flight_plan *plan, struct meter *meter, struct sample *sample) {
    struct held held = {.settings = bench->settings, .client = client};
    struct flight_misses misses = {0};
    const double before = heap_bytes();
    int status = make_locks(bench, client, &held, plan);
    plan->work = FLIGHT_TAKE;
    plan->watch = watch;
    plan->context = &held;
    begin_doing(&held, taking);
    if (status == 0) status = flight_run(client, plan);
    if (status == 0 && meters_are_interrupted()) status = EXIT_SYSTEM;
    if (status == 0 && held.given_up) {
        complain("held: stopped: locks are lost before %lld are taken",
                 (long long)bench->settings->held);
        status = EXIT_LOST;
    }
    /* At rest: the last nodes' answers to the last of them are in. */
    if (status == 0) status = flight_idle(client, now_ns() + SETTLE_MS * MS);
    const double bytes = heap_bytes() - before;
    sample->figures[FIGURE_BYTES] = bytes > 0 ? bytes / (double)plan->locks_count : NAN;
    if (status == 0) status = hold(bench, client, &held, meter, sample);
    plan->work = FLIGHT_GIVE;
    plan->misses = &misses;
    begin_doing(&held, giving);
    if (status == 0) status = flight_run(client, plan);
    sample->figures[FIGURE_LOST] = fmax((double)held.lost, (double)misses.lost);
    if (misses.unanswered > 0) {
        complain("held: too few nodes answered in time when %u locks were released",
                 misses.unanswered);
    }
    for (unsigned i = 0; i < plan->locks_count; i++) redlock_lock_free(plan->locks[i]);
    return status;
}

int held_run(struct bench *bench, const struct measure *measure, struct meter *meter,
             struct sample *sample) {
    struct redlock_client *client;
    struct flight_plan plan = {
        .in_flight = IN_FLIGHT,
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
