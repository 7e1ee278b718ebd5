/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The service thread drives when no caller does, and runs callbacks. They are queued under the
 * mutex, and run outside it by one thread at a time.
 *
 * If callbacks wait for redlock_process(), the program's loop reads the sockets itself while
 * completions are due to it, so that they need no switch to another thread. Its descriptor, the
 * bell, then listens to the sockets as well. The service thread goes on keeping the timers, and so
 * it begins all renewals. When something arrives it leaves that to the loop and lingers, as for a
 * caller. If the loop has not processed by then it stands still: the service thread does all work,
 * at once, until the loop processes again.
 */
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "turn.h"

/* After the last caller left, the service thread waits this long before it listens to the sockets
 * itself, unless there are answers that no caller waits for. */
#define LINGER (5 * RL_MS)

/* After this many callbacks, the requests that they made are flushed. */
enum { NOTIFIED_PER_FLUSH = 256 };

/* The service thread sleeps on its condition variable, or in net_wait(), where only a kick reaches
 * it. A caller that took over drains the kick, often before the thread has seen it. Then the thread
 * sleeps until a time that is outdated. So a caller kicks again when it leaves and no thread drains
 * after it. And it does not sleep while there are callbacks to run (driver.c). */
void wake_service(struct schedule *schedule) {
    if (schedule->service_sleeps)
        net_kick(schedule->net);
    else
        pthread_cond_signal(&schedule->service_cond);
}

void listen_for_the_loop(struct schedule *schedule, bool on) {
    if (!schedule->queued || schedule->listening == on) return;
    schedule->listening = on;
    net_bell_listen(schedule->net, on);
}

bool service_is_needed(const struct schedule *schedule) {
    return schedule->started > 0 && !schedule->looped;
}

/* Timers are the service thread's. */
bool is_for_the_loop(struct schedule *schedule, const struct net_batch *batch) {
    if (!schedule->listening || !schedule->looped || !net_saw_sockets(batch) ||
        net_next_timer(schedule->net) <= net_now(schedule->net))
        return false;
    schedule->looped = schedule->offered != schedule->drives;
    schedule->offered = schedule->drives;
    return schedule->looped;
}

static void linger(struct schedule *schedule) {
    rl_ns now = net_now(schedule->net);
    rl_ns span = LINGER;
    rl_ns next = net_next_timer(schedule->net);
    if (schedule->driver == DRIVER_NONE && next < now + span) span = next > now ? next - now : 0;
    if (span == 0) return;
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    at.tv_nsec += (long)span;
    at.tv_sec += at.tv_nsec / 1000000000;
    at.tv_nsec %= 1000000000;
    schedule->service_until = now + span;
    pthread_cond_timedwait(&schedule->service_cond, &schedule->mutex, &at);
    schedule->service_until = INT64_MIN;
}

static void *serve(void *argument) {
    struct schedule *schedule = argument;
    uint64_t seen = 0;
    pthread_mutex_lock(&schedule->mutex);
    while (!schedule->stopping && !schedule_is_forked(schedule)) {
        if (!schedule->queued) notify_all(schedule);
        wake_now(schedule);
        if (schedule->stopping || schedule_is_forked(schedule)) break;
        if (schedule->driver == DRIVER_CALLER && seen == schedule->drives) {
            schedule->service_parked = true;
            pthread_cond_wait(&schedule->service_cond, &schedule->mutex);
            schedule->service_parked = false;
        } else if (schedule->driver == DRIVER_CALLER ||
                   (seen != schedule->drives && !service_is_needed(schedule) &&
                    net_next_timer(schedule->net) > net_now(schedule->net))) {
            /* a caller drives: this thread would only sleep again afterwards */
            seen = schedule->drives;
            linger(schedule);
        } else {
            if (schedule->started == 0) listen_for_the_loop(schedule, false);
            const bool left = drive_once(schedule, DRIVER_SERVICE);
            if (schedule->driver != DRIVER_SERVICE) continue;
            schedule->driver = DRIVER_NONE;
            wake_successor(schedule);
            if (left) linger(schedule);
        }
    }
    const bool ends = schedule->ending && !schedule->queued && !schedule_is_forked(schedule);
    schedule_unlock(schedule);
    while (schedule->exiting) pause(); /* OpenSSL does something at the end of a thread, too */
    if (ends) {                        /* no other thread waits for this one */
        pthread_detach(pthread_self());
        schedule->service_runs = false;
        schedule->end(schedule);
    }
    return NULL; /* a child that a callback made has no other thread: it ends as by exit(0) */
}

int service_start(struct schedule *schedule, bool queued) {
    sigset_t all, before;
    schedule->queued = queued;
    if (queued && !net_make_bell(schedule->net)) return REDLOCK_SYSTEM;
    sigfillset(&all); /* signals belong to the program: our thread handles none */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    schedule->service_runs = true;
    schedule->service_until = INT64_MIN;
    int failed = pthread_create(&schedule->service, NULL, serve, schedule);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failed) schedule->service_runs = false;
    return failed ? REDLOCK_SYSTEM : REDLOCK_OK;
}

void service_stop(struct schedule *schedule) {
    if (!schedule->service_runs) return;
    pthread_mutex_lock(&schedule->mutex);
    schedule->stopping = true;
    net_kick(schedule->net);
    pthread_cond_signal(&schedule->service_cond);
    pthread_mutex_unlock(&schedule->mutex);
    pthread_join(schedule->service, NULL);
    schedule->service_runs = false;
}

/* ---- callbacks ---- */

bool schedule_report(struct schedule *schedule, struct notified *notified) {
    bool added = !notified->next;
    if (added) {
        if (schedule->queued && !schedule->rung && !schedule->in_loop &&
            !schedule->notifying) { /* else they are about to run */
            schedule->rung = true;
            net_ring(schedule->net);
        }
        if (schedule->notify_first)
            schedule->notify_last->next = notified;
        else
            schedule->notify_first = notified;
        schedule->notify_last = notified->next = notified;
    }
    if (schedule->service_runs && !schedule->queued) wake_service(schedule);
    return added;
}

struct notified *schedule_next_reported(struct schedule *schedule) {
    struct notified *notified = schedule->notify_first;
    if (!notified) return NULL;
    schedule->notify_first = notified->next == notified ? NULL : notified->next;
    notified->next = NULL;
    return notified;
}

void schedule_out(struct schedule *schedule, struct notified *notified) {
    schedule->notifying = notified;
    schedule->notifying_thread = pthread_self();
    schedule_unlock(schedule);
}

void schedule_in(struct schedule *schedule) {
    if (schedule_is_forked(schedule)) return;
    pthread_mutex_lock(&schedule->mutex);
    schedule->notifying = NULL;
    pthread_cond_broadcast(&schedule->notified_cond);
}

/* The requests of callbacks go out together: one write for each node, not one for each lock. */
void notify_all(struct schedule *schedule) {
    for (unsigned count = 1; schedule->notify_first && !schedule->notifying; count++) {
        schedule->notify(schedule, schedule_next_reported(schedule));
        if (schedule_is_forked(schedule)) return;
        if (count % NOTIFIED_PER_FLUSH != 0 && schedule->notify_first) continue;
        push_out(schedule);
        if (schedule->driver == DRIVER_NONE) wake_successor(schedule);
    }
}

void schedule_loop(struct schedule *schedule) {
    if (schedule->rung) net_hush(schedule->net);
    schedule->rung = false;
    if (schedule->driver != DRIVER_CALLER) {
        schedule->drives++;
        schedule->looped = schedule->in_loop = true;
        take_turn(schedule, NULL);
        schedule->in_loop = false;
    }
    notify_all(schedule);
}

void schedule_stop_callbacks(struct schedule *schedule, const struct notified *notified) {
    while (schedule->notifying == notified &&
           !pthread_equal(schedule->notifying_thread, pthread_self()))
        pthread_cond_wait(&schedule->notified_cond, &schedule->mutex);
}
