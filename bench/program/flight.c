/* SPDX-License-Identifier: BSD-2-Clause */
#include <poll.h>
#include <stdlib.h>

#include "bench.h"
#include "process/boottime.h"
#include "process/exit_codes.h"
#include "process/message.h"

enum { WAIT_MS = 20000, TURN_MS = 250 };

static const char *const names[] = {[FLIGHT_CYCLES] = "a cycle",
                                    [FLIGHT_EXTENSIONS] = "extending",
                                    [FLIGHT_TAKE] = "acquiring",
                                    [FLIGHT_GIVE] = "releasing"};

struct flight;

/* One of the operations in flight. It uses the locks slot, slot + in_flight, and so on: no two ever
 * use the same lock. */
struct slot {
    struct flight *flight;
    unsigned at;
    int64_t since;
};

struct flight {
    const struct flight_plan *plan;
    struct slot *slots;
    unsigned busy, done;
    bool ending;
    const char *what; /* failed */
    int result;
};

static void on_acquired(void *context, struct redlock_lock *lock, int result);
static void on_done(void *context, struct redlock_lock *lock, int result);

static void stop(struct flight *flight, const char *what, int result) {
    flight->busy--;
    if (result == REDLOCK_OK || flight->result != REDLOCK_OK) return;
    flight->what = what;
    flight->result = result;
    flight->ending = true;
}

/* Whether there is another lock for it. */
static bool next(struct slot *slot) {
    const struct flight_plan *plan = slot->flight->plan;
    const unsigned first = (unsigned)(slot - slot->flight->slots);
    const bool once = plan->work == FLIGHT_TAKE || plan->work == FLIGHT_GIVE;
    slot->at += plan->in_flight;
    if (slot->at < plan->locks_count) return true;
    slot->at = first;
    return !once;
}

static int start(struct slot *slot) {
    struct redlock_lock *lock = slot->flight->plan->locks[slot->at];
    switch (slot->flight->plan->work) {
    case FLIGHT_CYCLES: return redlock_acquire_start(lock, WAIT_MS, on_acquired, slot);
    case FLIGHT_TAKE: return redlock_acquire_start(lock, WAIT_MS, on_done, slot);
    case FLIGHT_EXTENSIONS: return redlock_extend_start(lock, 0, on_done, slot);
    case FLIGHT_GIVE: return redlock_release_start(lock, on_done, slot);
    }
    return REDLOCK_BAD_ARGUMENT;
}

static bool is_counted_as_missed(struct flight *flight, int result) {
    struct flight_misses *misses = flight->plan->misses;
    if (misses == NULL || (result != REDLOCK_LOST && result != REDLOCK_NO_QUORUM)) return false;
    misses->lost += result == REDLOCK_LOST;
    misses->unanswered += result == REDLOCK_NO_QUORUM;
    return true;
}

static void begin(struct slot *slot) {
    struct flight *flight = slot->flight;
    int result = start(slot);
    while (is_counted_as_missed(flight, result)) {
        flight->done++;
        if (flight->ending || !next(slot)) {
            stop(flight, "", REDLOCK_OK);
            return;
        }
        result = start(slot);
    }
    if (result != REDLOCK_OK) stop(flight, names[flight->plan->work], result);
}

static void on_acquired(void *context, struct redlock_lock *lock, int result) {
    struct slot *slot = context;
    if (result == REDLOCK_OK) result = redlock_release_start(lock, on_done, slot);
    if (result != REDLOCK_OK) stop(slot->flight, "acquiring", result);
}

static void watch(struct flight *flight, int64_t *again_at) {
    const struct flight_plan *plan = flight->plan;
    if (plan->watch == NULL || now_ns() < *again_at) return;
    if (!plan->watch(plan->context, flight->done)) flight->ending = true;
    *again_at = now_ns() + TURN_MS * MS;
}

static void on_done(void *context, struct redlock_lock *lock, int result) {
    struct slot *slot = context;
    struct flight *flight = slot->flight;
    (void)lock;
    if (is_counted_as_missed(flight, result)) result = REDLOCK_OK;
    if (result != REDLOCK_OK) {
        stop(flight, names[flight->plan->work], result);
        return;
    }
    flight->done++;
    int64_t now = now_ns();
    if (flight->plan->meter != NULL) meter_cycle(flight->plan->meter, slot->since, now);
    slot->since = now;
    if (flight->ending || !next(slot)) {
        stop(flight, "", REDLOCK_OK);
    } else {
        begin(slot);
    }
}

static int turn(struct redlock_client *client, int64_t until) {
    struct pollfd poller = {.fd = redlock_client_fd(client), .events = POLLIN};
    int64_t left_ms = (until - now_ns()) / MS;
    poll(&poller, 1, left_ms < 0 ? 0 : left_ms < TURN_MS ? (int)left_ms + 1 : TURN_MS);
    return redlock_process(client);
}

int flight_run(struct redlock_client *client, const struct flight_plan *plan) {
    struct flight flight = {.plan = plan, .slots = calloc(plan->in_flight, sizeof(struct slot))};
    if (flight.slots == NULL) return EXIT_SYSTEM;
    unsigned slots = plan->in_flight < plan->locks_count ? plan->in_flight : plan->locks_count;
    if (plan->meter != NULL) meter_start(plan->meter, plan->meter->closes - plan->meter->opens);
    flight.busy = slots;
    for (unsigned i = 0; i < slots; i++) {
        flight.slots[i] = (struct slot){.flight = &flight, .at = i, .since = now_ns()};
        begin(&flight.slots[i]);
    }
    int driven = REDLOCK_OK;
    int64_t watch_at = 0;
    while (flight.busy > 0 && driven == REDLOCK_OK) {
        driven = turn(client, NEVER);
        watch(&flight, &watch_at);
        if (plan->meter != NULL && !meter_turn(plan->meter, now_ns())) flight.ending = true;
    }
    free(flight.slots);
    if (driven != REDLOCK_OK) return library_failed("redlock_process()", driven);
    return flight.result == REDLOCK_OK ? 0 : library_failed(flight.what, flight.result);
}

int flight_idle(struct redlock_client *client, int64_t until) {
    int result = REDLOCK_OK;
    while (result == REDLOCK_OK && now_ns() < until) result = turn(client, until);
    return result == REDLOCK_OK ? 0 : library_failed("redlock_process()", result);
}

static int fly(struct redlock_client *client, const struct measure *measure,
               struct flight_plan *plan, struct meter *meter) {
    int status = 0;
    if (measure->extends) {
        plan->work = FLIGHT_TAKE;
        status = flight_run(client, plan);
    }
    plan->work = measure->extends ? FLIGHT_EXTENSIONS : FLIGHT_CYCLES;
    plan->meter = meter;
    if (status == 0) status = flight_run(client, plan);
    plan->meter = NULL;
    plan->work = FLIGHT_GIVE;
    return status == 0 && measure->extends ? flight_run(client, plan) : status;
}

int library_flight(struct bench *bench, const struct measure *measure, unsigned locks_count,
                   struct meter *meter) {
    struct redlock_client *client;
    struct redlock_lock_options options;
    struct flight_plan plan = {.locks = calloc(locks_count, sizeof(struct redlock_lock *)),
                               .in_flight = measure->in_flight};
    if (plan.locks == NULL) return EXIT_SYSTEM;
    int status = library_open(bench, false, &client);
    if (status == 0) {
        library_lock_options(bench, &options);
        options.renew = !measure->extends;
        while (plan.locks_count < locks_count && status == 0) {
            status = library_lock(client, &options, plan.locks_count, measure->resources,
                                  &plan.locks[plan.locks_count]);
            if (status == 0) plan.locks_count++;
        }
        if (status == 0) status = fly(client, measure, &plan, meter);
        for (unsigned i = 0; i < plan.locks_count; i++) redlock_lock_free(plan.locks[i]);
        redlock_client_free(client);
    }
    free(plan.locks);
    return status;
}
