/* SPDX-License-Identifier: BSD-2-Clause */
#include "workers.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <event2/buffer.h>
#include <event2/event.h>

#include "gateway.h"

/* After this many failed starts in a row there are no workers for a while, and scripts are refused
 * at once. */
enum { FAILURES_MAX = 10, RETRY_SECONDS = 1, COMPUTING_MAX = 4 };
/* The cost of starting a replacement for a worker that had to be ended is charged, too. */
#define START_NS (GATEWAY_MS / 2)

static void advance(struct workers *workers);

/* ---- failures ---- */

static void complain(struct workers *workers, const char *why) {
    if (workers->complained) return;
    workers->complained = true;
    workers->gateway->options->say("scripts that it does not know by heart are refused: %s", why);
}

/* No worker can be had now. */
static bool are_absent(const struct workers *workers) {
    return workers->none || workers->failures >= FAILURES_MAX;
}

static void note_failure(struct workers *workers, const char *why) {
    const struct timeval later = {.tv_sec = RETRY_SECONDS};
    if (++workers->failures < FAILURES_MAX) return;
    complain(workers, why);
    event_add(workers->retries, &later);
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
    advance(workers);
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
    if (channel >= 0 && worker_open(worker, channel)) return true;
    note_failure(workers, "redlock-script cannot be started; it belongs next to redlock-serve");
    return false;
}

/* Ends the worker, whatever it does. Its task, if any, has none from now on. */
static void end(struct worker *worker) {
    struct workers *workers = worker->workers;
    if (worker->state == WORKER_COMPUTES && !worker->overtaken) workers->computing--;
    if (worker->task != NULL) worker->task->worker = NULL;
    worker->task = NULL;
    worker_close(worker);
    if (!spawner_end(&workers->spawner, worker->slot)) drop_spawner(workers);
}

/* A worker in this state that belongs to no connection; NULL: none. */
static struct worker *find(struct workers *workers, enum worker_state state) {
    for (unsigned i = 0; i < SPAWNER_SLOTS; i++) {
        struct worker *worker = &workers->slots[i];
        if (worker->state == state && worker->task == NULL) return worker;
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

unsigned workers_running(const struct workers *workers) {
    unsigned count = 0;
    for (unsigned i = 0; i < SPAWNER_SLOTS; i++) count += workers->slots[i].state != WORKER_ABSENT;
    return count;
}

/* Starts as many as are needed: one for each of `waiting`, and one more. */
static void provide(struct workers *workers, unsigned waiting) {
    unsigned have = 0;
    for (unsigned i = 0; i < SPAWNER_SLOTS; i++)
        have += workers->slots[i].state != WORKER_ABSENT && workers->slots[i].task == NULL;
    while (have < waiting + 1 && !are_absent(workers)) {
        struct worker *place = find(workers, WORKER_ABSENT);
        if (place == NULL && have < waiting && (place = idle(workers)) != NULL) end(place);
        if (place == NULL) return;
        if (start(workers, place)) have++;
    }
}

/* ---- the queue of tasks ---- */

static void leave_queue(struct worker_task *task) {
    if (!task->waits) return;
    TAILQ_REMOVE(&task->workers->queue, task, queued);
    task->waits = false;
}

/* Of the tasks that can be served now, the one whose scripts have cost the least; the first of
 * several. */
static struct worker_task *choose(struct workers *workers) {
    const bool spare = find(workers, WORKER_WAITS) != NULL;
    struct worker_task *task, *chosen = NULL;
    TAILQ_FOREACH(task, &workers->queue, queued) {
        if (task->worker == NULL && !spare) continue;
        if (chosen == NULL || task->share_ns < chosen->share_ns) chosen = task;
    }
    return chosen;
}

static void serve(struct workers *workers, struct worker_task *task) {
    struct worker *worker = task->worker != NULL ? task->worker : find(workers, WORKER_WAITS);
    leave_queue(task);
    task->worker = worker;
    worker->task = task;
    worker->used = ++workers->uses;
    if (task->share_ns > workers->share_ns) workers->share_ns = task->share_ns;
    workers->computing++;
    worker_send(worker, task->frame);
    worker_watch(worker, WORKERS_RUN_MS * GATEWAY_MS);
}

static unsigned count_waiting(const struct workers *workers) {
    const struct worker_task *task;
    unsigned waiting = 0;
    TAILQ_FOREACH(task, &workers->queue, queued) waiting += task->worker == NULL;
    return waiting;
}

/* Starts the tasks that are due. */
static void advance(struct workers *workers) {
    struct worker_task *task;
    while (workers->computing < workers->computing_max && (task = choose(workers)) != NULL)
        serve(workers, task);
    const unsigned waiting = count_waiting(workers);
    provide(workers, waiting);
    if (waiting > 0 && are_absent(workers)) event_active(workers->refuses, 0, 0);
}

static void on_retry(evutil_socket_t fd, short what, void *context) {
    struct workers *workers = context;
    (void)fd;
    (void)what;
    workers->failures = FAILURES_MAX - 1;
    advance(workers);
}

/* Tasks without a worker hear that none can be had. One that asks again meanwhile queues behind
 * those that are counted here. */
static void on_refuse(evutil_socket_t fd, short what, void *context) {
    struct workers *workers = context;
    (void)fd;
    (void)what;
    if (!are_absent(workers)) return;
    for (unsigned waiting = count_waiting(workers); waiting > 0; waiting--) {
        struct worker_task *task = TAILQ_FIRST(&workers->queue);
        while (task != NULL && task->worker != NULL) task = TAILQ_NEXT(task, queued);
        if (task == NULL) return;
        leave_queue(task);
        task->heard(task, NULL, WORKER_NONE);
    }
}

/* ---- a question ---- */

static bool write_frame(struct worker_task *task, const struct wire_message *message) {
    const size_t bytes = wire_bytes(message);
    struct evbuffer_iovec room;
    if (bytes > WIRE_HEAD_BYTES + WIRE_BODY_BYTES_MAX) return false;
    if (task->frame == NULL) task->frame = evbuffer_new();
    if (task->frame == NULL ||
        evbuffer_reserve_space(task->frame, (ev_ssize_t)bytes, &room, 1) != 1)
        return false;
    wire_write(message, room.iov_base);
    room.iov_len = bytes;
    return evbuffer_commit_space(task->frame, &room, 1) == 0;
}

static void forget_heard(struct worker_task *task) {
    free(task->heard_frame);
    task->heard_frame = NULL;
}

bool task_ask(struct worker_task *task, struct workers *workers,
              const struct wire_message *message) {
    const bool begins = message->kind != WIRE_ANSWER;
    assert(!task->waits);
    if (!begins && !task->running) return false;
    const bool written = write_frame(task, message);
    forget_heard(task);
    task->failure = WORKER_DIED;
    if (!written) return false;
    if (begins) task->run_ns = 0;
    task->workers = workers;
    task->question = message->kind;
    task->running = true;
    /* A late task has no claim to the time that others had before. */
    if (task->share_ns < workers->share_ns) task->share_ns = workers->share_ns;
    task->waits = true;
    TAILQ_INSERT_TAIL(&workers->queue, task, queued);
    advance(workers);
    return true;
}

void task_end(struct worker_task *task) {
    forget_heard(task);
    task->running = false;
}

void task_close(struct worker_task *task) {
    struct workers *workers = task->workers;
    task_end(task);
    leave_queue(task);
    if (task->frame != NULL) evbuffer_free(task->frame);
    task->frame = NULL;
    if (task->worker == NULL) return;
    end(task->worker);
    if (!TAILQ_EMPTY(&workers->queue)) advance(workers);
}

/* ---- messages of workers ---- */

/* Scripts of clients do not run in an unconfined process, unless the options allow it. */
static bool is_confined(struct workers *workers, const struct wire_message *ready) {
    const struct serve_options *options = workers->gateway->options;
    char why[256];
    if (ready->limited && ready->filtered) return true;
    const bool runs = options->scripts == SERVE_SCRIPTS_UNCONFINED;
    snprintf(why, sizeof why, "this system cannot confine the process that runs them (%s: %s)%s",
             ready->limited ? "seccomp" : "setrlimit", strerror(ready->error),
             runs ? "" : "; see --scripts");
    if (!runs) {
        complain(workers, why);
        workers->none = true;
        return false;
    }
    if (!workers->complained) options->say("scripts run anyway: %s", why);
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

static void charge(struct worker_task *task, int64_t cost_ns) {
    task->share_ns += cost_ns;
    task->run_ns += cost_ns;
}

static void lose(struct worker *worker, enum worker_failure failure) {
    struct workers *workers = worker->workers;
    struct worker_task *task = worker->task;
    const bool computed = worker->state == WORKER_COMPUTES;
    if (worker->state == WORKER_STARTING)
        note_failure(workers, "redlock-script ends again and again");
    end(worker);
    /* A request that has no state there can begin in any worker. */
    if (task != NULL && task->running && (!task->waits || task->question == WIRE_ANSWER)) {
        const bool is_awaited = computed || task->waits;
        leave_queue(task);
        if (task->frame != NULL) evbuffer_drain(task->frame, evbuffer_get_length(task->frame));
        task->running = false;
        task->failure = failure;
        if (is_awaited) task->heard(task, NULL, failure);
    }
    advance(workers);
}

static void end_overdue(struct worker *worker) {
    worker->workers->count.overdue++;
    lose(worker, WORKER_OVERDUE);
}

static bool answers_question(const struct worker_task *task) {
    const enum wire_kind kind = task->message.kind;
    if (task->question == WIRE_LOAD) return kind == WIRE_LOADED || kind == WIRE_REFUSED;
    return kind == WIRE_CALL || kind == WIRE_END;
}

void workers_heard(struct worker *worker, char *frame, size_t bytes) {
    struct workers *workers = worker->workers;
    struct worker_task *task = worker->task;
    if (worker->state == WORKER_STARTING) {
        hear_ready(worker, frame, bytes);
        free(frame);
        advance(workers);
        return;
    }
    if (!wire_read(frame, bytes, &task->message, NULL) || !answers_question(task)) {
        free(frame);
        workers_lost(worker);
        return;
    }
    task->heard_frame = frame;
    charge(task, worker_consumed_ns(worker));
    const bool goes_on = task->message.kind == WIRE_CALL;
    if (goes_on && task->run_ns >= WORKERS_RUN_MS * GATEWAY_MS) {
        end_overdue(worker);
        return;
    }
    if (!worker->overtaken) workers->computing--;
    worker->state = WORKER_WAITS;
    task->running = goes_on;
    task->heard(task, &task->message, WORKER_WORKED);
    advance(workers);
}

void workers_lost(struct worker *worker) {
    struct worker_task *task = worker->task;
    worker->workers->count.died++;
    if (worker->state == WORKER_COMPUTES)
        charge(task, gateway_now_ns() - worker->began_ns + START_NS);
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
        charge(worker->task, elapsed_ns + START_NS);
        end_overdue(worker);
        return;
    }
    worker_watch(worker, left_ns < GATEWAY_MS ? GATEWAY_MS : left_ns);
    if (worker->overtaken) return;
    worker->overtaken = true;
    workers->computing--;
    advance(workers);
}

/* ---- the beginning and the end ---- */

bool workers_open(struct gateway *gateway) {
    struct workers *workers = &gateway->workers;
    workers->gateway = gateway;
    workers->none = gateway->options->scripts == SERVE_SCRIPTS_KNOWN;
    spawner_init(&workers->spawner);
    const long processors = sysconf(_SC_NPROCESSORS_ONLN);
    workers->computing_max = processors > 2 * COMPUTING_MAX ? COMPUTING_MAX
                             : processors < 2               ? 1
                                                            : (unsigned)processors / 2;
    TAILQ_INIT(&workers->queue);
    for (unsigned i = 0; i < SPAWNER_SLOTS; i++) {
        workers->slots[i].workers = workers;
        workers->slots[i].slot = i;
    }
    workers->refuses = event_new(gateway->base, -1, 0, on_refuse, workers);
    workers->retries = event_new(gateway->base, -1, 0, on_retry, workers);
    if (workers->refuses == NULL || workers->retries == NULL) return false;
    provide(workers, 0);
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
