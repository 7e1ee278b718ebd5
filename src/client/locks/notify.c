/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Reports to a lock's user: the results of operations, and changes of the lease. */
#include "lock.h"

static struct redlock_lock *lock_of(struct notified *notified) {
    return RL_CONTAINER(notified, struct redlock_lock, notified);
}

static void report_later(struct redlock_lock *lock) {
    if (lock->freed) return;
    lock->refs += schedule_report(&lock->client->schedule, &lock->notified);
}

void op_begin(struct redlock_lock *lock, struct op *op, redlock_done_fn *done, void *context) {
    *op = (struct op){.active = true, .done = done, .context = context};
    lock->client->schedule.started += done != NULL;
}

void op_finish(struct redlock_lock *lock, struct op *op, int result) {
    if (!op || !op->active) return;
    if (op->waiter) { /* its thread does not need to come back here for the result */
        struct waiter *waiter = op->waiter;
        if (op->context) *(int *)op->context = result; /* used by many.c */
        if (result != REDLOCK_OK) waiter->result = result;
        *op = (struct op){0};
        if (++waiter->finished >= waiter->wanted) waiter_finish(waiter);
        return;
    }
    lock->client->schedule.started -= op->done != NULL;
    op->active = false;
    op->stop = NULL;
    op->finished = true;
    op->result = result;
    if (op->done) report_later(lock);
}

void op_cancel(struct redlock_lock *lock, struct op *op) {
    if (!op || !op->done) return;
    const struct op cancelled = *op;
    struct schedule *schedule = &lock->client->schedule;
    schedule->started -= cancelled.active;
    *op = (struct op){0};
    schedule_unlock(schedule);
    cancelled.done(cancelled.context, lock, REDLOCK_CANCELLED);
    schedule_relock(schedule);
}

void lock_notice(struct redlock_lock *lock, unsigned notices) {
    struct redlock_stats *stats = &lock->client->stats;
    stats->lost += (notices & RL_NOTICE_LOST) != 0;
    stats->extensions += (notices & RL_NOTICE_RENEWED) != 0;
    stats->extensions_failed += (notices & RL_NOTICE_UNSURE) != 0;
    lock->notices |= (uint8_t)notices;
    if (lock->notices && lock->config->options.on_change) report_later(lock);
}

/* ---- callbacks ---- */

/* The callback before may have freed the lock, or forked, and this is the child. */
static bool may_call(const struct redlock_lock *lock) {
    return !atomic_load(&lock->freed) && !schedule_is_forked(&lock->client->schedule);
}

/* In the order of the events. */
static void run_changes(struct redlock_lock *lock) {
    static const struct {
        enum rl_notice notice;
        int change;
    } order[] = {{RL_NOTICE_UNSURE, REDLOCK_CHANGE_UNSURE},
                 {RL_NOTICE_SURE, REDLOCK_CHANGE_SURE},
                 {RL_NOTICE_RENEWED, REDLOCK_CHANGE_RENEWED},
                 {RL_NOTICE_LOST, REDLOCK_CHANGE_LOST}};
    const unsigned notices = lock->notices;
    lock->notices = 0;
    redlock_change_fn *on_change = lock->config->options.on_change;
    if (!notices || !on_change) return;
    struct schedule *schedule = &lock->client->schedule;
    schedule_out(schedule, &lock->notified);
    for (size_t i = 0; i < sizeof order / sizeof order[0]; i++) {
        if ((notices & (unsigned)order[i].notice) && may_call(lock))
            on_change(lock->on_change_context, lock, order[i].change);
    }
    schedule_in(schedule);
}

/* A blocked thread fetches its own result. */
static void run_done(struct redlock_lock *lock, struct op *op) {
    if (!op || !op->finished || !op->done || !may_call(lock)) return;
    const struct op ended = *op;
    struct schedule *schedule = &lock->client->schedule;
    *op = (struct op){0};
    extra_rest(lock);
    schedule_out(schedule, &lock->notified);
    ended.done(ended.context, lock, ended.result);
    schedule_in(schedule);
}

void locks_report(struct notified *notified) {
    struct redlock_lock *lock = lock_of(notified);
    struct schedule *schedule = &lock->client->schedule;
    run_changes(lock);
    run_done(lock, lock_extension(lock));
    run_done(lock, lock_op(lock));
    if (!schedule_is_forked(schedule)) lock_unref(lock);
}

void locks_drop_callback(struct notified *notified) { lock_unref(lock_of(notified)); }
