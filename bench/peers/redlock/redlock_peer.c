/* SPDX-License-Identifier: BSD-2-Clause
 *
 * redlock as one of the peers: what a program of a user's would do, by the public header and with
 * the defaults, but for the node timeout where the machine is kept busy on purpose (as in `redlock
 * bench`). ../README.md has the protocol.
 * usage: redlock_peer cycles|holds WORKERS WARM_MS OPEN_MS TTL_MS RESOURCE   (nodes from
 * REDLOCK_NODES)
 */
#include <redlock.h>

#include <inttypes.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    CYCLES_NODE_TIMEOUT_MS = 5000,
    READY_MS = 30000,
    WAIT_MS = 20000,
    TURN_MS = 100,
    WORKERS_MAX = 65536
};

struct task {
    bool holds;
    unsigned workers;
    int64_t warm_us, open_us, ttl_ms;
    const char *resource;
    int64_t opens, closes; /* once it runs */
};

struct latencies {
    int64_t *us;
    size_t count, room;
    int64_t failed;
};

static int64_t now_us(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static void fail(const char *what, int result) {
    fprintf(stderr, "redlock_peer: %s: %s\n", what, redlock_result_text(result));
    exit(1);
}

/* ---- what is counted ------------------------------------------------------------------------- */

static void count_cycle(struct latencies *all, const struct task *task, int64_t from, int64_t to) {
    if (to < task->opens || to >= task->closes) return;
    if (all->count == all->room) {
        all->room = all->room == 0 ? 65536 : 2 * all->room;
        all->us = realloc(all->us, all->room * sizeof *all->us);
        if (all->us == NULL) fail("latencies", REDLOCK_NO_MEMORY);
    }
    all->us[all->count++] = to - from;
}

static int earlier(const void *left, const void *right) {
    const int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;
    return (a > b) - (a < b);
}

static int64_t percentile(const struct latencies *all, unsigned percent) {
    return all->count == 0 ? 0 : all->us[(all->count - 1) * percent / 100];
}

static void print_cycles(struct latencies *all, const struct task *task) {
    if (all->count > 0) qsort(all->us, all->count, sizeof *all->us, earlier);
    printf("{\"cycles\": %zu, \"open_us\": %" PRId64 ", \"failed\": %" PRId64
           ", \"p50_us\": %" PRId64 ", \"p99_us\": %" PRId64 ", \"max_us\": %" PRId64 "}\n",
           all->count, task->open_us, all->failed, percentile(all, 50), percentile(all, 99),
           percentile(all, 100));
    free(all->us);
}

/* ---- the library ----------------------------------------------------------------------------- */

static struct redlock_client *open_client(const struct task *task) {
    struct redlock_client_options options;
    struct redlock_client *client;
    struct redlock_error error;
    const char *nodes = getenv("REDLOCK_NODES");
    redlock_client_options_init(&options);
    options.service_thread = task->holds || task->workers == 1;
    if (!task->holds) options.node_timeout_ms = CYCLES_NODE_TIMEOUT_MS;
    if (nodes == NULL || redlock_client_open(nodes, &options, &client, &error) != REDLOCK_OK) {
        fprintf(stderr, "redlock_peer: %s\n",
                nodes == NULL ? "REDLOCK_NODES is not set" : error.text);
        exit(1);
    }
    /* On a machine that 32 of these keep busy while they start, a first try to connect may fail. */
    const int64_t until = now_us() + READY_MS * 1000;
    while (redlock_client_wait_ready(client, READY_MS) != (int)redlock_client_nodes(client)) {
        if (now_us() > until) fail("connecting", REDLOCK_NO_QUORUM);
        nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    }
    return client;
}

static struct redlock_lock *new_lock(struct redlock_client *client, const struct task *task,
                                     const char *resource) {
    struct redlock_lock_options options;
    struct redlock_lock *lock;
    redlock_lock_options_init(&options);
    options.ttl_ms = task->ttl_ms;
    int result = redlock_lock_new(client, resource, strlen(resource), &options, &lock, NULL);
    if (result != REDLOCK_OK) fail("a lock", result);
    return lock;
}

static struct redlock_lock *numbered_lock(struct redlock_client *client, const struct task *task,
                                          unsigned number) {
    char resource[256];
    snprintf(resource, sizeof resource, "%s:%u", task->resource, number);
    return new_lock(client, task, resource);
}

/* ---- one at a time --------------------------------------------------------------------------- */

static void run_one(struct redlock_client *client, const struct task *task) {
    struct latencies all = {0};
    struct redlock_lock *lock = numbered_lock(client, task, 0);
    for (int64_t from = now_us(); from < task->closes;) {
        int result = redlock_acquire(lock, WAIT_MS);
        if (result == REDLOCK_OK) result = redlock_release(lock);
        int64_t to = now_us();
        if (result == REDLOCK_OK) {
            count_cycle(&all, task, from, to);
        } else {
            all.failed++;
        }
        from = to;
    }
    print_cycles(&all, task);
    redlock_lock_free(lock);
}

/* ---- many in flight: one thread and the client's descriptor ---------------------------------- */

struct flight {
    const struct task *task;
    struct latencies all;
    unsigned busy;
};

struct slot {
    struct flight *flight;
    struct redlock_lock *lock;
    int64_t since;
};

static void on_acquired(void *context, struct redlock_lock *lock, int result);

static void begin(struct slot *slot) {
    slot->since = now_us();
    if (slot->since >= slot->flight->task->closes) {
        slot->flight->busy--;
        return;
    }
    int result = redlock_acquire_start(slot->lock, WAIT_MS, on_acquired, slot);
    if (result != REDLOCK_OK) fail("acquiring", result);
}

static void on_released(void *context, struct redlock_lock *lock, int result) {
    struct slot *slot = context;
    (void)lock;
    if (result == REDLOCK_OK) {
        count_cycle(&slot->flight->all, slot->flight->task, slot->since, now_us());
    } else {
        slot->flight->all.failed++;
    }
    begin(slot);
}

static void on_acquired(void *context, struct redlock_lock *lock, int result) {
    struct slot *slot = context;
    if (result == REDLOCK_OK) result = redlock_release_start(lock, on_released, slot);
    if (result == REDLOCK_OK) return;
    slot->flight->all.failed++;
    begin(slot);
}

static void run_flight(struct redlock_client *client, const struct task *task) {
    struct flight flight = {.task = task, .busy = task->workers};
    struct slot *slots = calloc(task->workers, sizeof *slots);
    if (slots == NULL) fail("slots", REDLOCK_NO_MEMORY);
    for (unsigned i = 0; i < task->workers; i++)
        slots[i] = (struct slot){.flight = &flight, .lock = numbered_lock(client, task, i)};
    for (unsigned i = 0; i < task->workers; i++) begin(&slots[i]);
    while (flight.busy > 0) {
        struct pollfd poller = {.fd = redlock_client_fd(client), .events = POLLIN};
        poll(&poller, 1, TURN_MS);
        int result = redlock_process(client);
        if (result != REDLOCK_OK) fail("redlock_process()", result);
    }
    print_cycles(&flight.all, task);
    for (unsigned i = 0; i < task->workers; i++) redlock_lock_free(slots[i].lock);
    free(slots);
}

/* ---- in line for one resource: each worker a process, so one here ---------------------------- */

static void run_holds(struct redlock_client *client, const struct task *task) {
    const struct timespec hold = {.tv_nsec = 1000000};
    struct redlock_lock *lock = new_lock(client, task, task->resource);
    const char *comma = "";
    int64_t asked = now_us();
    fputs("{\"workers\": [[", stdout);
    for (int64_t now = asked; now < task->closes; now = now_us()) {
        if (redlock_acquire(lock, (task->closes - now) / 1000 + 1) != REDLOCK_OK)
            continue; /* it goes on waiting */
        int64_t got = now_us();
        nanosleep(&hold, NULL);
        int64_t gave = now_us();
        redlock_release(lock);
        printf("%s[%" PRId64 ", %" PRId64 ", %" PRId64 "]", comma, asked, got, gave);
        comma = ", ";
        asked = now_us();
    }
    printf("%s[%" PRId64 ", %" PRId64 "]", comma, asked, now_us());
    puts("]]}");
    redlock_lock_free(lock);
}

/* ---------------------------------------------------------------------------------------------- */

static bool parse(int argc, char **argv, struct task *task) {
    if (argc != 7 || (strcmp(argv[1], "cycles") != 0 && strcmp(argv[1], "holds") != 0))
        return false;
    *task = (struct task){.holds = strcmp(argv[1], "holds") == 0,
                          .workers = (unsigned)strtoul(argv[2], NULL, 10),
                          .warm_us = strtoll(argv[3], NULL, 10) * 1000,
                          .open_us = strtoll(argv[4], NULL, 10) * 1000,
                          .ttl_ms = strtoll(argv[5], NULL, 10),
                          .resource = argv[6]};
    return task->workers >= 1 && task->workers <= WORKERS_MAX &&
           (task->workers == 1 || !task->holds);
}

int main(int argc, char **argv) {
    struct task task;
    char line[16];
    if (!parse(argc, argv, &task)) {
        fputs("usage: redlock_peer cycles|holds WORKERS WARM_MS OPEN_MS TTL_MS RESOURCE\n", stderr);
        return 64;
    }
    struct redlock_client *client = open_client(&task);
    printf("{\"version\": \"%s\", \"defaults\": \"no limit of tries, 50 to 250 ms apart; %s\"}\n",
           redlock_version(),
           task.holds ? "node timeout 50 ms" : "node timeout 5 s instead of 50 ms");
    fflush(stdout);
    if (fgets(line, sizeof line, stdin) == NULL) return 1; /* nobody wants it any more */
    task.opens = now_us() + task.warm_us;
    task.closes = task.opens + task.open_us;
    if (task.holds) {
        run_holds(client, &task);
    } else if (task.workers == 1) {
        run_one(client, &task);
    } else {
        run_flight(client, &task);
    }
    redlock_client_free(client);
    return 0;
}
