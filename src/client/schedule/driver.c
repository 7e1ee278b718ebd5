/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Decides which thread sleeps on the sockets. One thread at a time, the driver, sleeps in
 * net_wait() without the mutex, and then processes the events with the mutex. A blocked caller
 * drives itself, so that blocking needs no switch to another thread. The other callers sleep, each
 * on its own (waiter.c). The service thread drives only when no caller does (service.c). While
 * callers come and go it waits on a condition variable, so that their replies do not wake it.
 *
 * A caller is woken for one of two reasons: its wait has ended, or the driver left and the caller
 * is the successor, which drives from now on. No thread is woken while the mutex is held: threads
 * to be woken are put on a list, and are woken together when the mutex is released. A caller whose
 * wait has ended returns with the result and never asks for the mutex.
 *
 * One of these must be true whenever the mutex is free and a caller sleeps: a thread drives; or a
 * successor is on its way; or requests are held back, and the flush leader sleeps no longer than
 * patience() allows (batching.c). */
#include "turn.h"

/* ---- fork ---- */

bool schedule_is_forked(const struct schedule *schedule) { return net_is_forked(schedule->net); }

/* ---- cancellation ---- */

static _Thread_local struct {
    unsigned depth; /* of calls: a callback may call in again */
    int before;
} cancellation;

void cancellation_off(void) {
    if (cancellation.depth++ == 0)
        pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancellation.before);
}

void cancellation_back(void) {
    if (--cancellation.depth == 0) pthread_setcancelstate(cancellation.before, NULL);
}

bool in_a_call(void) { return cancellation.depth > 0; }

/* ---- opening and closing ---- */

void schedule_init(struct schedule *schedule,
                   void (*notify)(struct schedule *schedule, struct notified *notified),
                   void (*end)(struct schedule *schedule)) {
    pthread_condattr_t monotonic;
    *schedule = (struct schedule){.notify = notify, .end = end};
    schedule->asleep_last = &schedule->asleep;
    pthread_mutex_init(&schedule->mutex, NULL);
    pthread_cond_init(&schedule->notified_cond, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&schedule->service_cond, &monotonic);
    pthread_condattr_destroy(&monotonic);
}

void schedule_destroy(struct schedule *schedule) {
    pthread_cond_destroy(&schedule->service_cond);
    pthread_cond_destroy(&schedule->notified_cond);
    pthread_mutex_destroy(&schedule->mutex);
}

/* ---- giving the mutex back ---- */

static struct waiter *take_woken(struct schedule *schedule) {
    struct waiter *woken = schedule->woken;
    schedule->woken = NULL;
    return woken;
}

/* A woken thread needs the mutex soon: by then it is free. */
void schedule_unlock(struct schedule *schedule) {
    if (schedule_is_forked(schedule)) return;
    struct waiter *woken = take_woken(schedule);
    pthread_mutex_unlock(&schedule->mutex);
    waiters_wake(schedule, woken);
}

/* In a child it may be held for ever, by a thread that exists in the parent only. */
void schedule_relock(struct schedule *schedule) {
    if (!schedule_is_forked(schedule)) pthread_mutex_lock(&schedule->mutex);
}

void wake_now(struct schedule *schedule) { waiters_wake(schedule, take_woken(schedule)); }

/* ---- sleepers ---- */

void waiter_init(struct waiter *waiter) {
    *waiter = (struct waiter){.result = REDLOCK_OK};
    atomic_init(&waiter->word, 0);
}

static void remove_sleeper(struct schedule *schedule, struct waiter *waiter) {
    *waiter->at = waiter->next;
    if (waiter->next)
        waiter->next->at = waiter->at;
    else
        schedule->asleep_last = waiter->at;
    waiter->at = NULL;
    waiter_free_slot(waiter);
    if (schedule->flush_leader == waiter) schedule->flush_leader = NULL;
}

static void wake(struct schedule *schedule, struct waiter *waiter) {
    remove_sleeper(schedule, waiter);
    waiter->next = schedule->woken;
    schedule->woken = waiter;
}

void waiter_finish(struct waiter *waiter) {
    struct schedule *schedule = waiter->schedule;
    if (waiter->done) return;
    waiter->done = true;
    if (!schedule) return;
    schedule->finishes++;
    if (waiter->at)
        wake(schedule, waiter);
    else
        schedule->finished = true;
}

/* While requests are held back, the flush leader drives. */
void wake_successor(struct schedule *schedule) {
    if (!schedule->asleep || schedule->successor || schedule->held_back) return;
    schedule->successor = schedule->asleep->successor = true;
    wake(schedule, schedule->asleep);
}

/* ---- waiting ---- */

void take_turn(struct schedule *schedule, const struct net_batch *batch) {
    net_process(schedule->net, batch);
    schedule->held_back = false; /* net_process() has flushed */
    schedule->flush_leader = NULL;
    expect_back(schedule);
}

bool drive_once(struct schedule *schedule, enum driver as) {
    struct net_batch batch;
    schedule->driver = as;
    schedule->driver_until = net_next_timer(schedule->net);
    schedule->finished = false;
    rl_ns until = schedule->driver_until;
    if (as == DRIVER_SERVICE) schedule->service_sleeps = true;
    schedule_unlock(schedule);
    net_wait(schedule->net, until, &batch);
    schedule_relock(schedule);
    if (as == DRIVER_SERVICE) {
        schedule->service_sleeps = false;
        pthread_cond_broadcast(&schedule->notified_cond);
    }
    if (schedule->driver != as) return false;
    if (as == DRIVER_SERVICE && is_for_the_loop(schedule, &batch)) return true;
    take_turn(schedule, &batch);
    return false;
}

/* The driver sleeps too long: it does not know of a timer, or its own wait has ended (by a cancel,
 * for example). */
static void wake_driver(struct schedule *schedule) {
    if (net_next_timer(schedule->net) < schedule->driver_until || schedule->finished)
        net_kick(schedule->net);
    schedule->finished = false;
}

static void hand_over(struct schedule *schedule) {
    schedule->drives++;
    if (schedule->asleep) {
        wake_successor(schedule);
        return;
    }
    if (!schedule->service_runs) return;
    if (schedule->started > 0) listen_for_the_loop(schedule, true);
    if (schedule->service_sleeps || schedule->service_parked || service_is_needed(schedule) ||
        net_next_timer(schedule->net) < schedule->service_until)
        wake_service(schedule);
}

/* Drives until the waiter is done. Without a service thread, callbacks become due here too. */
static void drive_for(struct schedule *schedule, struct waiter *waiter) {
    listen_for_the_loop(schedule, false);
    for (;;) {
        schedule->driver = DRIVER_CALLER; /* so that no other thread takes over meanwhile */
        /* it has callbacks to run */
        while (schedule->service_sleeps && schedule->notify_first && !schedule->queued) {
            wake_now(schedule);
            net_kick(schedule->net);
            pthread_cond_wait(&schedule->notified_cond, &schedule->mutex);
        }
        if (waiter->done || schedule_is_forked(schedule)) break;
        drive_once(schedule, DRIVER_CALLER);
        if (!schedule->service_runs && schedule->notify_first) break;
    }
    schedule->driver = DRIVER_NONE; /* a callback may block and drive itself, */
    if (schedule->service_runs || !schedule->notify_first) return;
    wake_successor(schedule); /* and it may take long */
    notify_all(schedule);
}

/* Sleeps until another thread wakes it, because it is done or the successor. True: it is done, and
 * the mutex was not taken again. */
static bool sleep_until_woken(struct schedule *schedule, struct waiter *waiter) {
    bool leads = schedule->held_back && !schedule->flush_leader;
    rl_ns span = leads ? patience(schedule) : RL_NEVER;
    if (leads) schedule->flush_leader = waiter;
    waiter->next = NULL;
    waiter->at = schedule->asleep_last;
    *schedule->asleep_last = waiter;
    schedule->asleep_last = &waiter->next;
    waiter_take_slot(waiter);
    schedule_unlock(schedule);
    bool woken = waiter_sleep(waiter, span);
    if (woken && !waiter->successor) return true;
    pthread_mutex_lock(&schedule->mutex);
    if (woken) {
        schedule->successor = waiter->successor = false;
        return false;
    }
    if (!waiter->at) { /* it is being woken right now, and must not leave before that is complete */
        schedule_unlock(schedule);
        waiter_sleep(waiter, RL_NEVER);
        pthread_mutex_lock(&schedule->mutex);
        if (waiter->successor) schedule->successor = waiter->successor = false;
        return false;
    }
    leads = schedule->flush_leader == waiter;
    remove_sleeper(schedule, waiter);
    if (leads) {
        not_back_in_time(schedule);
        push_out(schedule);
    }
    return false;
}

/* The mutex is held. False: it was released, and all is done. */
static bool block(struct schedule *schedule, struct waiter *waiter) {
    waiter->schedule = schedule;
    schedule->held_back = !waiter->done && hold_back(schedule);
    if (!schedule->held_back) push_out(schedule);
    while (!waiter->done) {
        if (schedule_is_forked(schedule)) {
            waiter->finished = waiter->wanted;
            waiter->result = REDLOCK_FORKED;
            return false;
        }
        if (schedule->driver != DRIVER_CALLER && !schedule->held_back) {
            if (schedule->driver == DRIVER_SERVICE) net_kick(schedule->net);
            drive_for(schedule, waiter);
            continue;
        }
        /* our requests may have armed a timer */
        if (schedule->driver != DRIVER_NONE) wake_driver(schedule);
        if (sleep_until_woken(schedule, waiter)) return false;
    }
    if (schedule->driver == DRIVER_NONE) hand_over(schedule);
    return true;
}

void schedule_wait(struct schedule *schedule, struct waiter *waiter) {
    if (!block(schedule, waiter)) schedule_relock(schedule);
    wake_now(schedule);
}

struct deadline {
    struct net_timer timer;
    struct waiter *waiter;
};

static void on_deadline(struct net_timer *timer) {
    waiter_finish(RL_CONTAINER(timer, struct deadline, timer)->waiter);
}

void schedule_wait_until(struct schedule *schedule, struct waiter *waiter, rl_ns until) {
    struct deadline deadline = {.timer.fire = on_deadline, .waiter = waiter};
    net_timer_set(schedule->net, &deadline.timer, until);
    schedule_wait(schedule, waiter);
    net_timer_set(schedule->net, &deadline.timer, RL_NEVER);
}

int schedule_await(struct schedule *schedule, struct waiter *waiter) {
    if (block(schedule, waiter)) return schedule_leave_reporting(schedule, waiter->result);
    cancellation_back();
    return waiter->result;
}

/* ---- entering and leaving ---- */

int schedule_enter(struct schedule *schedule) {
    if (schedule_is_forked(schedule)) return REDLOCK_FORKED;
    cancellation_off();
    pthread_mutex_lock(&schedule->mutex);
    return REDLOCK_OK;
}

void schedule_exit(struct schedule *schedule) {
    schedule_unlock(schedule);
    cancellation_back();
}

static bool in_callback(const struct schedule *schedule) {
    return schedule->notifying && pthread_equal(schedule->notifying_thread, pthread_self());
}

void schedule_end(struct schedule *schedule) {
    bool later = false;
    cancellation_off();
    if (!schedule_is_forked(schedule)) {
        pthread_mutex_lock(&schedule->mutex);
        later = in_callback(schedule);
        if (later) schedule->ending = schedule->stopping = true;
        pthread_mutex_unlock(&schedule->mutex);
    }
    if (!later) schedule->end(schedule);
    cancellation_back();
}

void schedule_leave(struct schedule *schedule) {
    if (schedule_is_forked(schedule)) {
        schedule_exit(schedule);
        return;
    }
    const bool nested = in_callback(schedule);
    if (!nested) { /* otherwise notify_all() continues afterwards */
        push_out(schedule);
        /* redlock_process() has work */
        if (!schedule->service_runs && schedule->notify_first) net_kick(schedule->net);
    }
    rl_ns next = net_next_timer(schedule->net);
    if (schedule->started > 0 && schedule->driver != DRIVER_CALLER)
        listen_for_the_loop(schedule, true);
    if (schedule->driver != DRIVER_NONE) {
        wake_driver(schedule);
    } else if (schedule->asleep) {
        wake_successor(schedule);
    } else if (schedule->service_runs &&
               (service_is_needed(schedule) || next < schedule->service_until)) {
        wake_service(schedule);
    }
    const bool ends = schedule->ending && !nested && (schedule->queued || !schedule->service_runs);
    schedule_unlock(schedule);
    if (ends) schedule->end(schedule);
    cancellation_back();
}

int schedule_leave_reporting(struct schedule *schedule, int result) {
    if (!schedule->service_runs) notify_all(schedule);
    if (schedule_is_forked(schedule)) result = REDLOCK_FORKED;
    schedule_leave(schedule);
    return result;
}
