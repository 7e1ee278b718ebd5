/* SPDX-License-Identifier: BSD-2-Clause
 *
 * chaos_worker -N URLS -l LOG -g REGISTER [options]: see read_options().
 */
#include "worker.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

volatile sig_atomic_t worker_ended;

static void on_term(int number) {
    (void)number;
    worker_ended = 1;
}

_Noreturn void die(const char *what, const char *why) {
    fprintf(stderr, "chaos_worker: %s: %s\n", what, why);
    exit(1);
}

/* ---- blocking ---- */

static void stay(struct slot *slot) {
    for (;;) {
        int64_t left_ns = slot->leave_ns - chaos_now_ns();
        if (worker_ended || left_ns <= 0 || redlock_validity_ms(slot->lock) <= 0) return;
        if (chaos_now_ns() >= slot->downgrade_ns) {
            slot_downgrades(slot);
            (void)!redlock_downgrade(slot->lock); /* only read from here on, whatever it says */
        }
        if (left_ns > 2000000) left_ns = 2000000;
        const struct timespec nap = {0, (long)left_ns};
        nanosleep(&nap, NULL);
    }
}

static void *contend(void *context) {
    struct slot *slot = context;
    while (!worker_ended) {
        slot_begin(slot);
        int result = redlock_acquire(slot->lock, slot_wait_ms(slot));
        if (result == REDLOCK_OK) {
            slot_entered(slot);
            stay(slot);
            slot_leaves(slot);
            redlock_release(slot->lock);
        } else {
            const struct timespec nap = {0, 1000000 + 1000 * (long)slot_random(slot, 5000)};
            slot_failed(slot, result);
            nanosleep(&nap, NULL);
        }
        slot_end(slot);
    }
    return NULL;
}

static void block(struct worker *worker, struct slot *slots) {
    pthread_t *threads = calloc(worker->slots, sizeof *threads);
    if (!threads) die("threads", strerror(errno));
    for (uint32_t i = 0; i < worker->slots; i++)
        if (pthread_create(&threads[i], NULL, contend, &slots[i]) != 0) die("thread", "no more");
    for (uint32_t i = 0; i < worker->slots; i++) pthread_join(threads[i], NULL);
    free(threads);
}

/* ---- beginning ---- */

static void print_log(void *context, int level, const char *text) {
    (void)context;
    fprintf(stderr, "%lld %d %s\n", (long long)chaos_now_ns(), level, text);
}

static void open_client(struct worker *worker, bool loop) {
    struct redlock_client_options options;
    struct redlock_error error = {0};
    redlock_client_options_init(&options);
    options.mode = worker->mode;
    options.recover = 1;
    options.quorum = worker->quorum;
    options.service_thread = !loop;
    options.allow_replicas = worker->allow_replicas;
    options.confirm = worker->confirm;
    options.connect_timeout_ms = 300;
    options.stall_timeout_ms = 1000;
    options.log = print_log;
    if (redlock_client_open(worker->nodes, &options, &worker->client, &error) != REDLOCK_OK)
        die(worker->nodes, error.text);
}

/* -w NAME its owner in tokens; -m MODE; -e event loop; -k SLOTS; -r RESOURCES; -t TTL_MS;
 * -H HOLD_US; -s SEED; -R allow replicas; -C confirm; -q QUORUM; -S PERCENT of the turns that only
 * read, and as many writers become readers; -K SEMAPHORES, a quarter of the turns; -L ELECTIONS,
 * most of the turns; -O observe these. */
static bool read_options(struct worker *worker, int count, char **words) {
    bool loop = false;
    for (int option; (option = getopt(count, words, "N:m:l:g:w:k:r:t:H:s:q:S:K:L:eRCO")) != -1;) {
        switch (option) {
        case 'N': worker->nodes = optarg; break;
        case 'm':
            worker->mode =
                strcmp(optarg, "classic") == 0 ? REDLOCK_MODE_CLASSIC : REDLOCK_MODE_GUARDED;
            break;
        case 'q': worker->quorum = optarg; break;
        case 'l': worker->log_path = optarg; break;
        case 'g': worker->register_path = optarg; break;
        case 'w': snprintf(worker->owner, sizeof worker->owner, "%s", optarg); break;
        case 'k': worker->slots = (uint32_t)atoi(optarg); break;
        case 'r': worker->resources = (uint32_t)atoi(optarg); break;
        case 't': worker->ttl_ms = atoll(optarg); break;
        case 'H': worker->hold_us_max = atoll(optarg); break;
        case 's': worker->seed = (unsigned)atoi(optarg); break;
        case 'e': loop = true; break;
        case 'S': worker->shared_percent = (uint32_t)atoi(optarg); break;
        case 'K': worker->semaphores = (uint32_t)atoi(optarg); break;
        case 'L': worker->elections = (uint32_t)atoi(optarg); break;
        case 'O': worker->observes = 1; break;
        case 'R': worker->allow_replicas = 1; break;
        case 'C': worker->confirm = 1; break;
        default: exit(64);
        }
    }
    if (!worker->nodes || !worker->log_path || !worker->register_path || worker->resources == 0 ||
        worker->resources > CHAOS_SEMAPHORES || worker->semaphores > 16 || worker->elections > 16 ||
        (worker->slots == 0 && !worker->observes))
        exit(64);
    return loop;
}

int main(int count, char **words) {
    struct worker worker = {.mode = REDLOCK_MODE_GUARDED,
                            .owner = "worker",
                            .resources = 16,
                            .slots = 4,
                            .ttl_ms = 1000,
                            .hold_us_max = 2000};
    const struct sigaction term = {.sa_handler = on_term};
    bool loop = read_options(&worker, count, words);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    sigaction(SIGTERM, &term, NULL);
    worker.log = chaos_log_open(worker.log_path);
    worker.cells = chaos_register_open(worker.register_path);
    open_client(&worker, loop);
    struct watch *watches = worker.observes ? watch_begin(&worker) : NULL;
    struct slot *slots = calloc(worker.slots + 1, sizeof *slots);
    if (!slots) die("slots", strerror(errno));
    for (uint32_t i = 0; i < worker.slots; i++)
        slots[i] = (struct slot){.worker = &worker,
                                 .id = i,
                                 .turn = (uint32_t)getpid() << 8, /* unlike those of a past life */
                                 .seed = worker.seed + i * 7919};
    if (loop)
        loop_run(&worker, slots);
    else
        block(&worker, slots);
    free(slots);
    watch_end(watches);
    redlock_client_free(worker.client);
    return 0;
}
