/* SPDX-License-Identifier: BSD-2-Clause */
#include "worker_task.h"

#include <assert.h>
#include <stdlib.h>

#include <event2/buffer.h>
#include <event2/event.h>

#include "gateway.h"
#include "workers.h"

/* ---- the queue ---- */

static void leave_queue(struct worker_task *task) {
    if (!task->waits) return;
    TAILQ_REMOVE(&task->workers->queue, task, queued);
    task->waits = false;
}

/* Of the tasks that can be served now, the one whose scripts have cost the least; the first of
 * several. */
static struct worker_task *choose(struct workers *workers) {
    const bool spare = workers_spare(workers) != NULL;
    struct worker_task *task, *chosen = NULL;
    TAILQ_FOREACH(task, &workers->queue, queued) {
        if (task->worker == NULL && !spare) continue;
        if (chosen == NULL || task->share_ns < chosen->share_ns) chosen = task;
    }
    return chosen;
}

static void serve(struct workers *workers, struct worker_task *task) {
    struct worker *worker = task->worker != NULL ? task->worker : workers_spare(workers);
    leave_queue(task);
    task->worker = worker;
    worker->task = task;
    worker->used = ++workers->uses;
    if (task->share_ns > workers->share_ns) workers->share_ns = task->share_ns;
    workers->computing++;
    worker_send(worker, task->frame);
    worker_watch(worker, WORKERS_RUN_MS * GATEWAY_MS);
}

void tasks_advance(struct workers *workers) {
    struct worker_task *task;
    unsigned waiting = 0;
    while (workers->computing < workers->computing_max && (task = choose(workers)) != NULL)
        serve(workers, task);
    TAILQ_FOREACH(task, &workers->queue, queued) waiting += task->worker == NULL;
    workers_provide(workers, waiting);
    if (waiting > 0 && workers_are_absent(workers)) event_active(workers->refuses, 0, 0);
}

static struct worker_task *first_without(struct workers *workers) {
    struct worker_task *task;
    TAILQ_FOREACH(task, &workers->queue, queued) {
        if (task->worker == NULL) return task;
    }
    return NULL;
}

/* A task that asks again meanwhile queues behind those that are counted here. */
void tasks_refuse(struct workers *workers) {
    struct worker_task *task;
    unsigned waiting = 0;
    TAILQ_FOREACH(task, &workers->queue, queued) waiting += task->worker == NULL;
    for (; waiting > 0 && (task = first_without(workers)) != NULL; waiting--) {
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
    tasks_advance(workers);
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
    workers_end(task->worker);
    if (!TAILQ_EMPTY(&workers->queue)) tasks_advance(workers);
}

/* ---- the answer ---- */

void task_charge(struct worker_task *task, int64_t cost_ns) {
    task->share_ns += cost_ns;
    task->run_ns += cost_ns;
}

void task_lost(struct worker_task *task, bool computed, enum worker_failure failure) {
    const bool had_state = task->running && !(task->waits && task->question != WIRE_ANSWER);
    if (!had_state) return; /* its next request can begin in any worker */
    const bool waited = task->waits;
    leave_queue(task);
    if (task->frame != NULL) evbuffer_drain(task->frame, evbuffer_get_length(task->frame));
    task->running = false;
    task->failure = failure;
    if (computed || waited) task->heard(task, NULL, failure);
}

static bool fits(const struct worker_task *task, enum wire_kind kind) {
    if (task->question == WIRE_LOAD) return kind == WIRE_LOADED || kind == WIRE_REFUSED;
    return kind == WIRE_CALL || kind == WIRE_END;
}

bool task_read(struct worker_task *task, char *frame, size_t bytes) {
    if (!wire_read(frame, bytes, &task->message, NULL) || !fits(task, task->message.kind))
        return false;
    task->heard_frame = frame;
    return true;
}

void task_hear(struct worker_task *task) {
    task->running = task->message.kind == WIRE_CALL;
    task->heard(task, &task->message, WORKER_WORKED);
}
