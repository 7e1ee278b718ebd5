/* SPDX-License-Identifier: BSD-2-Clause */
#include "workers.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <event2/event.h>

#include "gateway.h"
#include "worker_task.h"

/* After this many failed starts in a row there are no workers for a while, and scripts are refused
 * at once. */
enum { FAILURES_MAX = 10, RETRY_MS = 1000, COMPUTING_MAX = 4 };
/* The cost of starting a replacement for a worker that had to be ended is charged, too. */
#define START_NS (GATEWAY_MS / 2)

/* ---- failures ---- */

static void complain(struct workers *workers, const char *why) {
    if (workers->complained) return;
    workers->complained = true;
    workers->gateway->options->say("scripts that it does not know by heart are refused: %s", why);
}

bool workers_are_absent(const struct workers *workers) {
    return workers->none || workers->failures >= FAILURES_MAX;
}

static void note_failure(struct workers *workers, const char *why) {
    const struct timeval later = {.tv_sec = RETRY_MS / 1000, .tv_usec = RETRY_MS % 1000 * 1000};
    if (++workers->failures < FAILURES_MAX) return;
    complain(workers, why);
    event_add(workers->retries, &later);
}

static void on_retry(evutil_socket_t fd, short what, void *context) {
    struct workers *workers = context;
    (void)fd;
    (void)what;
    workers->failures = FAILURES_MAX - 1;
    tasks_advance(workers);
}

static void on_refuse(evutil_socket_t fd, short what, void *context) {
    struct workers *workers = context;
    (void)fd;
    (void)what;
    if (workers_are_absent(workers)) tasks_refuse(workers);
}

/* ---- the spawner ---- */

static void drop_spawner(struct workers *workers) {
    if (workers->spawner_ends != NULL) event_free(workers->spawner_ends);
    workers->spawner_ends = NULL;
    spawner_close(&workers->spawner); /* the workers' channels end now, too */
}

/* The channel carries nothing but its end. */
static void on_spawner(evutil_socket_t fd, short what, void *context) {
    struct workers *workers = context;
    (void)fd;
    (void)what;
    drop_spawner(workers);
    tasks_advance(workers);
}

static bool need_spawner(struct workers *workers) {
    if (workers->spawner.pid != 0) return true;
    if (!spawner_open(&workers->spawner)) return false;
    workers->spawner_ends =
        event_new(workers->gateway->base, workers->spawner.channel, EV_READ, on_spawner, workers);
    if (workers->spawner_ends != NULL && event_add(workers->spawner_ends, NULL) == 0) return true;
    drop_spawner(workers);
    return false;
}

/* ---- workers ---- */

static bool start(struct workers *workers, struct worker *worker) {
    const int channel = need_spawner(workers) ? spawner_start(&workers->spawner, worker->slot) : -1;
    if (channel >= 0 && worker_open(worker, channel)) {
        workers->count.started++;
        return true;
    }
    note_failure(workers, "redlock-script cannot be started; it belongs next to redlock-serve");
    return false;
}

void workers_end(struct worker *worker) {
    struct workers *workers = worker->workers;
    if (worker->state == WORKER_COMPUTES && !worker->overtaken) workers->computing--;
    if (worker->task != NULL) worker->task->worker = NULL;
    worker->task = NULL;
    worker_close(worker);
    if (!spawner_end(&workers->spawner, worker->slot)) drop_spawner(workers);
}

struct worker *workers_spare(struct workers *workers) {
    for (unsigned i = 0; i < SPAWNER_SLOTS; i++) {
        struct worker *worker = &workers->slots[i];
        if (worker->state == WORKER_WAITS && worker->task == NULL) return worker;
    }
    return NULL;
}

/* Of the workers that wait for their connection's next script, the one unused for longest. */
static struct worker *idle(struct workers *workers) {
    struct worker *found = NULL;
    for (unsigned i = 0; i < SPAWNER_SLOTS; i++) {
        struct worker *worker = &workers->slots[i];
        const struct worker_task *task = worker->task;
        if (worker->state != WORKER_WAITS || task == NULL || task->running) continue;
        if (found == NULL || worker->used < found->used) found = worker;
    }
    return found;
}

static struct worker *absent(struct workers *workers) {
    for (unsigned i = 0; i < SPAWNER_SLOTS; i++) {
        if (workers->slots[i].state == WORKER_ABSENT) return &workers->slots[i];
    }
    return NULL;
}

unsigned workers_running(const struct workers *workers) {
    unsigned count = 0;
    for (unsigned i = 0; i < SPAWNER_SLOTS; i++) count += workers->slots[i].state != WORKER_ABSENT;
    return count;
}

static unsigned count_unowned(const struct workers *workers) {
    unsigned count = 0;
    for (unsigned i = 0; i < SPAWNER_SLOTS; i++) {
        const struct worker *worker = &workers->slots[i];
        count += worker->state != WORKER_ABSENT && worker->task == NULL;
    }
    return count;
}

void workers_provide(struct workers *workers, unsigned waiting) {
    for (unsigned have = count_unowned(workers);
         have < waiting + 1 && !workers_are_absent(workers);) {
        struct worker *place = absent(workers);
        if (place == NULL && have < waiting && (place = idle(workers)) != NULL) workers_end(place);
        if (place == NULL) return;
        if (start(workers, place)) have++;
    }
}

/* ---- messages of workers ---- */

#define NOT_CONFINED "this system cannot confine the process that runs them (seccomp)"

/* Scripts of clients do not run in an unconfined process, unless the options allow it. */
static bool is_confined(struct workers *workers, const struct wire_message *ready) {
    const struct serve_options *options = workers->gateway->options;
    if (ready->limited && ready->filtered) return true;
    if (options->scripts != SERVE_SCRIPTS_UNCONFINED) {
        complain(workers, NOT_CONFINED "; see --scripts");
        workers->none = true;
        return false;
    }
    if (!workers->complained) options->say("scripts run anyway: " NOT_CONFINED);
    workers->complained = true;
    return true;
}

static void hear_ready(struct worker *worker, const char *frame, size_t bytes) {
    struct workers *workers = worker->workers;
    struct wire_message message;
    if (!wire_read(frame, bytes, &message, NULL) || message.kind != WIRE_READY ||
        !is_confined(workers, &message) ||
        clock_getcpuclockid((pid_t)message.pid, &worker->clock) != 0) {
        workers_lost(worker);
        return;
    }
    workers->failures = 0;
    worker->state = WORKER_WAITS;
}

static void end_computing(struct worker *worker) {
    if (!worker->overtaken) worker->workers->computing--;
    worker->state = WORKER_WAITS;
}

/* The worker asks to continue after it has taken too long. */
static bool is_over(const struct worker_task *task) {
    return task->message.kind == WIRE_CALL && task->run_ns >= WORKERS_RUN_MS * GATEWAY_MS;
}

static void lose(struct worker *worker, enum worker_failure failure) {
    struct workers *workers = worker->workers;
    struct worker_task *task = worker->task;
    const bool computed = worker->state == WORKER_COMPUTES;
    if (worker->state == WORKER_STARTING)
        note_failure(workers, "redlock-script ends again and again");
    workers_end(worker);
    if (task != NULL) task_lost(task, computed, failure);
    tasks_advance(workers);
}

static void end_overdue(struct worker *worker) {
    worker->workers->count.overdue++;
    lose(worker, WORKER_OVERDUE);
}

void workers_heard(struct worker *worker, char *frame, size_t bytes) {
    struct workers *workers = worker->workers;
    struct worker_task *task = worker->task;
    if (worker->state == WORKER_STARTING) {
        hear_ready(worker, frame, bytes);
        free(frame);
    } else if (!task_read(task, frame, bytes)) {
        free(frame);
        workers_lost(worker);
    } else {
        task_charge(task, worker_consumed_ns(worker));
        if (is_over(task)) {
            end_overdue(worker);
            return;
        }
        end_computing(worker);
        task_hear(task);
    }
    tasks_advance(workers);
}

void workers_lost(struct worker *worker) {
    struct worker_task *task = worker->task;
    worker->workers->count.died++;
    if (worker->state == WORKER_COMPUTES)
        task_charge(task, gateway_now_ns() - worker->began_ns + START_NS);
    lose(worker, WORKER_DIED);
}

/* Its wall-clock time is only a hint, since other processes may have the processor: its own
 * processor time counts. Meanwhile the next worker may compute as well. */
void workers_overdue(struct worker *worker) {
    struct workers *workers = worker->workers;
    const int64_t left_ns =
        WORKERS_RUN_MS * GATEWAY_MS - worker->task->run_ns - worker_consumed_ns(worker);
    const int64_t elapsed_ns = gateway_now_ns() - worker->began_ns;
    if (left_ns <= 0 || elapsed_ns >= WORKERS_STEP_MS * GATEWAY_MS) {
        task_charge(worker->task, elapsed_ns + START_NS);
        end_overdue(worker);
        return;
    }
    worker_watch(worker, left_ns < GATEWAY_MS ? GATEWAY_MS : left_ns);
    if (worker->overtaken) return;
    worker->overtaken = true;
    workers->computing--;
    tasks_advance(workers);
}

/* ---- the beginning and the end ---- */

static unsigned processors(void) {
    const long count = sysconf(_SC_NPROCESSORS_ONLN);
    return count > 2 * COMPUTING_MAX ? COMPUTING_MAX : count < 2 ? 1 : (unsigned)count / 2;
}

bool workers_open(struct gateway *gateway) {
    struct workers *workers = &gateway->workers;
    workers->gateway = gateway;
    workers->none = gateway->options->scripts == SERVE_SCRIPTS_KNOWN;
    spawner_init(&workers->spawner);
    workers->computing_max = processors();
    TAILQ_INIT(&workers->queue);
    for (unsigned i = 0; i < SPAWNER_SLOTS; i++) {
        workers->slots[i].workers = workers;
        workers->slots[i].slot = i;
    }
    workers->refuses = event_new(gateway->base, -1, 0, on_refuse, workers);
    workers->retries = event_new(gateway->base, -1, 0, on_retry, workers);
    if (workers->refuses == NULL || workers->retries == NULL) return false;
    workers_provide(workers, 0);
    return true;
}

void workers_close(struct gateway *gateway) {
    struct workers *workers = &gateway->workers;
    if (workers->gateway == NULL) return;
    for (unsigned i = 0; i < SPAWNER_SLOTS; i++) worker_close(&workers->slots[i]);
    drop_spawner(workers);
    spawner_free(&workers->spawner);
    if (workers->refuses != NULL) event_free(workers->refuses);
    if (workers->retries != NULL) event_free(workers->retries);
}
