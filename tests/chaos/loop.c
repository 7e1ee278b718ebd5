/* SPDX-License-Identifier: BSD-2-Clause
 *
 * All slots of a worker in one event loop: no thread of the library, one descriptor.
 */
#include <poll.h>
#include <stdlib.h>

#include "worker.h"

enum phase {
    PHASE_IDLE,
    PHASE_ACQUIRING,
    PHASE_HOLDING,
    PHASE_DOWNGRADING,
    PHASE_RELEASING,
    PHASE_OVER
};

struct task {
    struct slot *slot;
    enum phase phase;
    int64_t next_ns; /* idle: begin then; holding: leave or downgrade then */
};

static void holds(struct task *task) {
    const struct slot *slot = task->slot;
    task->phase = PHASE_HOLDING;
    task->next_ns = slot->downgrade_ns < slot->leave_ns ? slot->downgrade_ns : slot->leave_ns;
}

static void on_acquired(void *context, struct redlock_lock *lock, int result) {
    struct task *task = context;
    (void)lock;
    if (result == REDLOCK_OK) {
        slot_entered(task->slot);
        holds(task);
        return;
    }
    slot_failed(task->slot, result);
    task->phase = PHASE_OVER;
}

static void on_released(void *context, struct redlock_lock *lock, int result) {
    struct task *task = context;
    (void)lock;
    (void)result;
    task->phase = PHASE_OVER;
}

static void begin(struct task *task) {
    slot_begin(task->slot);
    task->phase = PHASE_ACQUIRING;
    if (redlock_acquire_start(task->slot->lock, slot_wait_ms(task->slot), on_acquired, task) !=
        REDLOCK_OK)
        task->phase = PHASE_OVER;
}

/* Whatever comes of it, the task only reads from here on. */
static void on_downgraded(void *context, struct redlock_lock *lock, int result) {
    (void)lock;
    (void)result;
    holds(context);
}

static void downgrade(struct task *task) {
    slot_downgrades(task->slot);
    task->phase = PHASE_DOWNGRADING;
    if (redlock_downgrade_start(task->slot->lock, on_downgraded, task) != REDLOCK_OK) holds(task);
}

static void leave(struct task *task) {
    slot_leaves(task->slot);
    task->phase = PHASE_RELEASING;
    if (redlock_release_start(task->slot->lock, on_released, task) != REDLOCK_OK)
        task->phase = PHASE_OVER;
}

/* What is due now. A lock that is lost is left at once. */
static void advance(struct task *task, int64_t now_ns) {
    if (task->phase == PHASE_OVER) {
        slot_end(task->slot);
        task->phase = PHASE_IDLE;
        task->next_ns = now_ns + 1000 * (int64_t)slot_random(task->slot, 3000);
    }
    if (task->phase == PHASE_IDLE && now_ns >= task->next_ns && !worker_ended) begin(task);
    if (task->phase != PHASE_HOLDING) return;
    if (worker_ended || now_ns >= task->slot->leave_ns ||
        redlock_validity_ms(task->slot->lock) <= 0)
        leave(task);
    else if (now_ns >= task->slot->downgrade_ns)
        downgrade(task);
}

static int wait_ms(const struct task *tasks, uint32_t count, int64_t now_ns) {
    int64_t least_ns = 20000000;
    for (uint32_t i = 0; i < count; i++) {
        if (tasks[i].phase == PHASE_OVER) return 0;
        if (tasks[i].phase != PHASE_IDLE && tasks[i].phase != PHASE_HOLDING) continue;
        if (tasks[i].next_ns - now_ns < least_ns) least_ns = tasks[i].next_ns - now_ns;
    }
    return least_ns <= 0 ? 0 : (int)(least_ns / 1000000) + 1;
}

static bool all_idle(const struct task *tasks, uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        if (tasks[i].phase != PHASE_IDLE) return false;
    return true;
}

void loop_run(struct worker *worker, struct slot *slots) {
    struct task *tasks = calloc(worker->slots + 1, sizeof *tasks);
    if (!tasks) abort();
    for (uint32_t i = 0; i < worker->slots; i++) tasks[i].slot = &slots[i];
    while (!worker_ended || !all_idle(tasks, worker->slots)) {
        struct pollfd fd = {.fd = redlock_client_fd(worker->client), .events = POLLIN};
        poll(&fd, 1, wait_ms(tasks, worker->slots, chaos_now_ns()));
        if (redlock_process(worker->client) != REDLOCK_OK) abort();
        for (uint32_t i = 0; i < worker->slots; i++) advance(&tasks[i], chaos_now_ns());
    }
    free(tasks);
}
