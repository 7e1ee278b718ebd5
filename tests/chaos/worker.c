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

static _Noreturn void die(const char *what, const char *why) {
    fprintf(stderr, "chaos_worker: %s: %s\n", what, why);
    exit(1);
}

uint32_t slot_random(struct slot *slot, uint32_t below) {
    return below == 0 ? 0 : (uint32_t)rand_r(&slot->seed) % below;
}

static void note(const struct slot *slot, enum chaos_kind kind, uint32_t resource, int64_t at_ns,
                 int64_t end_ns, int64_t fence, int64_t asked_ns) {
    const struct chaos_record record = {.at_ns = at_ns,
                                        .end_ns = end_ns,
                                        .fence = fence,
                                        .asked_ns = asked_ns,
                                        .kind = (uint32_t)kind,
                                        .resource = resource,
                                        .slot = slot->id,
                                        .turn = slot->turn};
    chaos_log_write(slot->worker->log, &record);
}

/* The end of validity is read before the time: an end that is later than true would accuse the
 * library of what it did not do. */
static void on_change(void *context, struct redlock_lock *lock, int change) {
    const struct slot *slot = context;
    int64_t end_ns = redlock_validity_end_ns(lock);
    if (change == REDLOCK_CHANGE_LOST) {
        for (uint32_t i = 0; i < slot->count; i++)
            note(slot, CHAOS_LOST, slot->resources[i], chaos_now_ns(), 0, 0, 0);
    } else if (end_ns > 0) {
        for (uint32_t i = 0; i < slot->count; i++)
            note(slot, CHAOS_EXTENDED, slot->resources[i], chaos_now_ns(), end_ns, 0, 0);
    }
}

/* ---- a turn ---- */

/* A few resources are hot, so that holders have rivals; the others bring the numbers. */
static uint32_t draw_resource(struct slot *slot) {
    uint32_t all = slot->worker->resources, hot = all / 8 + 1;
    return slot_random(slot, 10) < 3 ? slot_random(slot, hot) : slot_random(slot, all);
}

void slot_begin(struct slot *slot) {
    struct worker *worker = slot->worker;
    struct redlock_lock_options options;
    struct redlock_error error = {0};
    struct redlock_bytes names[2];
    char text[2][16];
    slot->turn++;
    slot->count = slot_random(slot, 32) == 0 && worker->resources > 1 ? 2 : 1;
    slot->resources[0] = draw_resource(slot);
    slot->resources[1] = (slot->resources[0] + 1) % worker->resources;
    for (uint32_t i = 0; i < slot->count; i++) {
        snprintf(text[i], sizeof text[i], "r%u", slot->resources[i]);
        names[i] = (struct redlock_bytes){text[i], strlen(text[i])};
    }
    redlock_lock_options_init(&options);
    options.ttl_ms = worker->ttl_ms;
    options.owner = worker->owner;
    options.retry_delay_ms_min = 5;
    options.retry_delay_ms_max = 40;
    options.on_change = on_change;
    options.on_change_context = slot;
    slot->lock = NULL;
    if (redlock_lock_new_multi(worker->client, names, slot->count, &options, &slot->lock, &error) !=
        REDLOCK_OK)
        die(text[0], error.text);
    slot->asked_ns = chaos_now_ns();
}

int64_t slot_wait_ms(struct slot *slot) {
    static const int64_t waits[] = {0, 0, 30, 100, 300};
    return waits[slot_random(slot, 5)];
}

static void write_register(const struct slot *slot) {
    int64_t end_ns = redlock_validity_end_ns(slot->lock), fence = redlock_fence(slot->lock);
    if (fence <= 0 || chaos_now_ns() >= end_ns) return;
    for (uint32_t i = 0; i < slot->count; i++) {
        uint32_t resource = slot->resources[i];
        int64_t higher = chaos_register_write(&slot->worker->cells[resource], fence);
        if (higher) note(slot, CHAOS_REFUSED, resource, chaos_now_ns(), end_ns, fence, higher);
    }
}

void slot_entered(struct slot *slot) {
    int64_t end_ns = redlock_validity_end_ns(slot->lock), fence = redlock_fence(slot->lock);
    int64_t at_ns = chaos_now_ns(), hold_us = slot->worker->hold_us_max;
    uint32_t kind = slot_random(slot, 1000);
    for (uint32_t i = 0; i < slot->count; i++)
        note(slot, CHAOS_GRANT, slot->resources[i], at_ns, end_ns, fence, slot->asked_ns);
    write_register(slot);
    /* Most turns are short; some last until the lock was renewed, or until it is lost. */
    if (kind >= 996) hold_us = slot->worker->ttl_ms * 2000;
    if (kind < 996 && kind >= 976) hold_us = slot->worker->ttl_ms * 200;
    slot->leave_ns = at_ns + 1000 * (int64_t)slot_random(slot, (uint32_t)hold_us + 1);
    slot->last_result = REDLOCK_OK;
}

void slot_leaves(struct slot *slot) {
    write_register(slot);
    int64_t end_ns = redlock_validity_end_ns(slot->lock), fence = redlock_fence(slot->lock);
    int64_t at_ns = chaos_now_ns();
    for (uint32_t i = 0; i < slot->count; i++)
        note(slot, CHAOS_LEAVE, slot->resources[i], at_ns, end_ns, fence, 0);
}

void slot_failed(struct slot *slot, int result) {
    if (result != slot->last_result)
        note(slot, CHAOS_RESULT, slot->resources[0], chaos_now_ns(), result, 0, slot->asked_ns);
    slot->last_result = result;
}

void slot_end(struct slot *slot) {
    redlock_lock_free(slot->lock);
    slot->lock = NULL;
}

/* ---- blocking ---- */

static void stay(const struct slot *slot) {
    for (;;) {
        int64_t left_ns = slot->leave_ns - chaos_now_ns();
        if (worker_ended || left_ns <= 0 || redlock_validity_ms(slot->lock) <= 0) return;
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
 * -H HOLD_US; -s SEED; -R allow replicas; -C confirm; -q QUORUM. */
static bool read_options(struct worker *worker, int count, char **words) {
    bool loop = false;
    for (int option; (option = getopt(count, words, "N:m:l:g:w:k:r:t:H:s:q:eRC")) != -1;) {
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
        case 'R': worker->allow_replicas = 1; break;
        case 'C': worker->confirm = 1; break;
        default: exit(64);
        }
    }
    if (!worker->nodes || !worker->log_path || !worker->register_path || worker->slots == 0 ||
        worker->resources == 0 || worker->resources > CHAOS_CELLS)
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
    struct slot *slots = calloc(worker.slots, sizeof *slots);
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
    redlock_client_free(worker.client);
    return 0;
}
