/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The library's side, as a program would use it: the defaults, except the node timeout. On a
 * machine that is busy on purpose, a late answer should make a slow cycle, not a failed one.
 */
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "bench.h"
#include "process/boottime.h"
#include "process/exit_codes.h"
#include "process/message.h"

enum { NODE_TIMEOUT_MS = 5000, CONNECT_MS = 5000, WAIT_MS = 20000 };

int library_failed(const char *what, int result) {
    complain("%s: %s", what, redlock_result_text(result));
    return result == REDLOCK_NO_QUORUM ? EXIT_NO_QUORUM : EXIT_SYSTEM;
}

int64_t library_node_timeout_ms(const struct bench *bench) {
    const int64_t most_ms = bench->settings->ttl_ms / 2; /* it must be below the TTL */
    return NODE_TIMEOUT_MS < most_ms ? NODE_TIMEOUT_MS : most_ms;
}

int library_open(struct bench *bench, bool service_thread, struct redlock_client **client) {
    struct redlock_client_options options;
    struct redlock_error error;
    redlock_client_options_init(&options);
    options.mode = bench->mode;
    options.service_thread = service_thread;
    options.node_timeout_ms = library_node_timeout_ms(bench);
    int result = redlock_client_open(bench->nodes, &options, client, &error);
    if (result != REDLOCK_OK) {
        complain("%s", error.text);
        return EXIT_CONFIG;
    }
    int ready = redlock_client_wait_ready(*client, CONNECT_MS);
    if (ready == (int)redlock_client_nodes(*client)) return 0;
    /* With fewer it would be another measurement. */
    complain("only %d of %zu nodes are ready; 'redlock doctor -N ...' shows why",
             ready < 0 ? 0 : ready, redlock_client_nodes(*client));
    redlock_client_free(*client);
    return EXIT_NO_QUORUM;
}

void library_lock_options(const struct bench *bench, struct redlock_lock_options *options) {
    redlock_lock_options_init(options);
    options->ttl_ms = bench->settings->ttl_ms;
}

/* The same names as the floor's. */
int library_lock(struct redlock_client *client, const struct redlock_lock_options *options,
                 unsigned number, unsigned resources, struct redlock_lock **lock) {
    char names[REDLOCK_RESOURCES_MAX][64];
    struct redlock_bytes all[REDLOCK_RESOURCES_MAX];
    struct redlock_error error;
    for (unsigned i = 0; i < resources; i++) {
        snprintf(names[i], sizeof names[i], "redlock-bench:%ld:%u", (long)getpid(), number);
        size_t used = strlen(names[i]);
        if (resources > 1) snprintf(names[i] + used, sizeof names[i] - used, ":%u", i);
        all[i] = (struct redlock_bytes){names[i], strlen(names[i])};
    }
    int result = resources == 1
                     ? redlock_lock_new(client, names[0], all[0].bytes, options, lock, &error)
                     : redlock_lock_new_multi(client, all, resources, options, lock, &error);
    if (result == REDLOCK_OK) return 0;
    complain("%s", error.text);
    return EXIT_SYSTEM;
}

/* ---- blocking, from one thread or more ------------------------------------------------------- */

struct worker {
    pthread_t thread;
    struct redlock_lock *lock;
    bool extends;
    int64_t opens, closes;
    struct meter meter; /* its own: nothing is shared while it runs */
    const char *what;
    int result;
};

static int cycle(struct worker *worker) {
    worker->what = worker->extends ? "extending" : "acquiring";
    int result =
        worker->extends ? redlock_extend(worker->lock, 0) : redlock_acquire(worker->lock, WAIT_MS);
    if (result != REDLOCK_OK || worker->extends) return result;
    worker->what = "releasing";
    return redlock_release(worker->lock);
}

static void *work(void *context) {
    struct worker *worker = context;
    int64_t from = now_ns();
    while (worker->result == REDLOCK_OK && from < worker->closes && !meters_are_interrupted()) {
        worker->result = cycle(worker);
        int64_t to = now_ns();
        worker->meter.began = to >= worker->opens && to < worker->closes;
        if (worker->result == REDLOCK_OK) meter_cycle(&worker->meter, from, to);
        from = to;
    }
    return NULL;
}

static void sleep_until(int64_t at) {
    for (int64_t now; (now = now_ns()) < at && !meters_are_interrupted();)
        pause_ms(at - now < 500 * MS ? (int)((at - now) / MS) + 1 : 500);
}

static int run_workers(struct worker *workers, unsigned count, struct meter *meter) {
    unsigned started = 0;
    int status = 0;
    meter_start(meter, meter->closes - meter->opens);
    for (; started < count; started++) {
        workers[started].opens = meter->opens;
        workers[started].closes = meter->closes;
        if (pthread_create(&workers[started].thread, NULL, work, &workers[started]) != 0) break;
    }
    if (started < count) {
        complain("cannot start a thread");
        status = EXIT_SYSTEM;
    }
    sleep_until(meter->opens);
    meter_turn(meter, now_ns());
    sleep_until(meter->closes);
    meter_turn(meter, now_ns());
    for (unsigned i = 0; i < started; i++) {
        pthread_join(workers[i].thread, NULL);
        if (workers[i].result != REDLOCK_OK && status == 0)
            status = library_failed(workers[i].what, workers[i].result);
        histogram_merge(&meter->latency, &workers[i].meter.latency);
    }
    return status;
}

int library_blocking(struct bench *bench, const struct measure *measure, struct meter *meter) {
    static struct worker workers[THREADS_MAX];
    struct redlock_client *client;
    struct redlock_lock_options options;
    unsigned made = 0;
    int status = library_open(bench, true, &client);
    if (status != 0) return status;
    library_lock_options(bench, &options);
    options.renew = !measure->extends; /* an extension would meet a renewal under way */
    for (; made < measure->in_flight && status == 0; made++) {
        workers[made] = (struct worker){.extends = measure->extends};
        status = library_lock(client, &options, made, measure->resources, &workers[made].lock);
        if (status != 0) break;
        /* Before the measurement: nodes may still be busy with the rest of the previous run. */
        int result = measure->extends ? redlock_acquire(workers[made].lock, WAIT_MS) : REDLOCK_OK;
        if (result != REDLOCK_OK) status = library_failed("acquiring", result);
    }
    if (status == 0) status = run_workers(workers, made, meter);
    for (unsigned i = 0; i < made; i++) redlock_lock_free(workers[i].lock);
    redlock_client_free(client);
    return status;
}
