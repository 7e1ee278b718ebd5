/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What guarded mode costs: an acquire and release in guarded mode against one in classic mode, on
 * the same nodes in the same run, in alternating pairs. One at a time: the median latency. Many in
 * flight: cycles a second.
 * usage: redlock up -- guarded_cost [PAIRS [IN_FLIGHT]]   (7 pairs, 256 in flight)
 * The classic client uses the same servers: their records do not concern it.
 */
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "cost.h"

enum { CYCLES = 3000, SPAN_MS = 700, PAIRS_MAX = 99, IN_FLIGHT_MAX = 4096 };

/* ---- one at a time ---- */

static double one_at_a_time_us(enum redlock_mode mode) {
    static double each[CYCLES];
    struct redlock_client *client = cost_client(mode, 1);
    struct redlock_lock *lock = cost_lock(client, "cost", false);
    for (int i = 0; i < CYCLES; i++) {
        int64_t began = cost_now_ns();
        cost_must(redlock_acquire(lock, 1000), "acquire", "");
        cost_must(redlock_release(lock), "release", "");
        each[i] = (double)(cost_now_ns() - began) / 1000;
    }
    redlock_lock_free(lock);
    redlock_client_free(client);
    return cost_median(each, CYCLES);
}

/* ---- many in flight ---- */

static struct {
    uint64_t cycles;
    unsigned under_way;
    bool ending;
} flight;

static void acquired(void *context, struct redlock_lock *lock, int result);

static void released(void *context, struct redlock_lock *lock, int result) {
    cost_must(result, "release", "");
    flight.cycles++;
    if (flight.ending)
        flight.under_way--;
    else
        cost_must(redlock_acquire_start(lock, 1000, acquired, context), "acquire", "");
}

static void acquired(void *context, struct redlock_lock *lock, int result) {
    cost_must(result, "acquire", "");
    cost_must(redlock_release_start(lock, released, context), "release", "");
}

static void turn(struct redlock_client *client) {
    struct pollfd poller = {.fd = redlock_client_fd(client), .events = POLLIN};
    if (poll(&poller, 1, 1000) < 0) exit(1);
    cost_must(redlock_process(client), "process", "");
}

static double cycles_a_second(enum redlock_mode mode, unsigned in_flight) {
    static struct redlock_lock *locks[IN_FLIGHT_MAX];
    struct redlock_client *client = cost_client(mode, 0);
    for (unsigned i = 0; i < in_flight; i++) {
        char name[32];
        snprintf(name, sizeof(name), "cost-%u", i);
        locks[i] = cost_lock(client, name, false);
    }
    flight.cycles = 0;
    flight.under_way = in_flight;
    flight.ending = false;
    int64_t began = cost_now_ns();
    for (unsigned i = 0; i < in_flight; i++)
        cost_must(redlock_acquire_start(locks[i], 1000, acquired, NULL), "acquire", "");
    while (cost_now_ns() - began < (int64_t)SPAN_MS * 1000000) turn(client);
    double rate = (double)flight.cycles * 1e9 / (double)(cost_now_ns() - began);
    flight.ending = true;
    while (flight.under_way > 0) turn(client);
    for (unsigned i = 0; i < in_flight; i++) redlock_lock_free(locks[i]);
    redlock_client_free(client);
    return rate;
}

int main(int argc, char **argv) {
    size_t pairs = argc > 1 ? strtoul(argv[1], NULL, 10) : 7;
    unsigned in_flight = argc > 2 ? (unsigned)strtoul(argv[2], NULL, 10) : 256;
    double latency[PAIRS_MAX], rate[PAIRS_MAX], us[2][PAIRS_MAX], per_second[2][PAIRS_MAX];
    if (pairs < 1 || pairs > PAIRS_MAX || in_flight < 1 || in_flight > IN_FLIGHT_MAX) {
        fputs("usage: guarded_cost [PAIRS [IN_FLIGHT]]\n", stderr);
        return 64;
    }
    for (size_t i = 0; i < pairs; i++) {
        us[0][i] = one_at_a_time_us(REDLOCK_MODE_CLASSIC);
        us[1][i] = one_at_a_time_us(REDLOCK_MODE_GUARDED);
        latency[i] = us[1][i] / us[0][i];
        per_second[0][i] = cycles_a_second(REDLOCK_MODE_CLASSIC, in_flight);
        per_second[1][i] = cycles_a_second(REDLOCK_MODE_GUARDED, in_flight);
        rate[i] = per_second[1][i] / per_second[0][i];
    }
    printf(
        "one at a time, p50 of a cycle: classic %.0f us, guarded %.0f us; ratio %.2f (median of %zu pairs)\n",
        cost_median(us[0], pairs), cost_median(us[1], pairs), cost_median(latency, pairs), pairs);
    printf(
        "%u in flight: classic %.0f cycles/s, guarded %.0f cycles/s; ratio %.2f (median of %zu pairs)\n",
        in_flight, cost_median(per_second[0], pairs), cost_median(per_second[1], pairs),
        cost_median(rate, pairs), pairs);
    return 0;
}
