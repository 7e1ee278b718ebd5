/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Who sleeps for whom. One thread at a time, the driver, sleeps in net_wait() without the mutex and
 * works off what it saw with it. A blocked caller drives itself, so that blocking costs no hop to
 * another thread; the other callers sleep, each by itself (waiter.c). The service thread drives
 * only when no caller does, and while callers come and go it waits on a condition variable, so that
 * it is not woken by their replies.
 *
 * A caller is woken for one of two reasons: its wait is over, or the driver left and it is the
 * heir, the one who drives from now on. Nobody is woken while the mutex is held: who is to be woken
 * is put on a list, and that is done when the mutex is given back, for several at once. One whose
 * wait is over goes home with the result and never asks for the mutex.
 *
 * Callers that were answered in one turn of the driver's are mostly back with their next calls
 * within microseconds, and if each of them sent for itself, every node would be written to, and
 * would read and answer, once for each. So they are counted when they are answered, and who comes
 * back before the last of them leaves its request in the buffers and sleeps. The last one flushes
 * for all, and drives. So N threads cost the sockets and the nodes no more than N requests of one
 * event loop; on top of that are N - 1 sleeps and wakings in each turn, which blocking threads
 * cannot do without. One thread by itself is always the last one.
 *
 * Not all come back: they have a lock now, and work to do under it. The first to hold something
 * back is the watch. It sleeps for a short while only, and then flushes and drives. Each time that
 * happens the next turns are flushed at once, twice as many as the time before, until callers are
 * seen to come back together again: so threads that go their own ways are hardly ever delayed.
 *
 * What must hold whenever the mutex is free and a caller sleeps: somebody drives, or an heir is on
 * its way, or something is held back and the watch sleeps no longer than patience() says.
 *
 * With a service thread, callbacks run there alone; without one, in whoever leaves the library.
 */
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <time.h>

#include "client.h"

/* How long after the last caller left the service thread waits before it listens to the sockets
 * itself. */
#define LINGER (5 * RL_MS)
/* So many callbacks hold up what the first of them asked for. */
enum { TOLD_PER_FLUSH = 256 };
/* So long callers that were answered together are waited for, so that their next requests go out
 * together. */
#define PATIENCE (RL_MS * 15 / 100)
#define PATIENCE_EACH (RL_MS * 25 / 1000)
#define PATIENCE_MAX RL_MS
enum { DOUBT_MAX = 256, DOUBT_OF_FEW = 4 };

/* ---- fork ---- */

static atomic_uint generation;
static pthread_once_t fork_once = PTHREAD_ONCE_INIT;

static void forked_child(void) { atomic_fetch_add(&generation, 1); }
static void fork_watch(void) { pthread_atfork(NULL, NULL, forked_child); }

unsigned fork_generation(void) {
    pthread_once(&fork_once, fork_watch);
    return atomic_load(&generation);
}

/* ---- giving the mutex back ---- */

static struct waiter *take_woken(struct redlock_client *client) {
    struct waiter *woken = client->woken;
    client->woken = NULL;
    return woken;
}

/* Whoever is woken wants the mutex soon: it is free by then. */
static void unlock(struct redlock_client *client) {
    struct waiter *woken = take_woken(client);
    pthread_mutex_unlock(&client->mutex);
    waiters_wake(client, woken);
}

static void wake_now(struct redlock_client *client) { waiters_wake(client, take_woken(client)); }

/* ---- sleepers ---- */

void waiter_init(struct waiter *waiter) {
    *waiter = (struct waiter){.result = REDLOCK_OK};
    atomic_init(&waiter->word, 0);
}

static void add_sleeper(struct redlock_client *client, struct waiter *waiter) {
    waiter->next = NULL;
    waiter->at = client->asleep_last;
    *client->asleep_last = waiter;
    client->asleep_last = &waiter->next;
}

static void remove_sleeper(struct redlock_client *client, struct waiter *waiter) {
    *waiter->at = waiter->next;
    if (waiter->next)
        waiter->next->at = waiter->at;
    else
        client->asleep_last = waiter->at;
    waiter->at = NULL;
    waiter_get_up(waiter);
    if (client->watch == waiter) client->watch = NULL;
}

static void wake(struct redlock_client *client, struct waiter *waiter) {
    remove_sleeper(client, waiter);
    waiter->next = client->woken;
    client->woken = waiter;
}

void waiter_finish(struct waiter *waiter) {
    struct redlock_client *client = waiter->client;
    if (waiter->done) return;
    waiter->done = true;
    if (!client) return; /* it does not wait yet */
    client->finishes++;
    if (waiter->at)
        wake(client, waiter);
    else
        client->finished = true;
}

/* Nobody drives: one of those who sleep must. While something is held back, the watch sees to
 * that. */
static void wake_heir(struct redlock_client *client) {
    if (!client->asleep || client->heir || client->held_back) return;
    client->heir = client->asleep->heir = true;
    wake(client, client->asleep);
}

/* ---- holding back ---- */

static void push_out(struct redlock_client *client) {
    client->held_back = false;
    client->watch = NULL;
    net_flush(client->net);
}

static rl_ns patience(const struct redlock_client *client) {
    rl_ns span = PATIENCE + client->group * PATIENCE_EACH;
    return span < PATIENCE_MAX ? span : PATIENCE_MAX;
}

/* Who waited did so in vain: the next turns are spared that, and more of them each time. If only
 * few of many were missed, it was worth while, unless it happens again and again. */
static void not_back_in_time(struct redlock_client *client) {
    bool few = client->returning * 4 <= client->group;
    client->returning = 0;
    if (client->group < 2) return;
    client->doubt = few ? client->doubt + 1 : 2 * client->doubt + 1;
    if (client->doubt > DOUBT_MAX) client->doubt = DOUBT_MAX;
    if (!few || client->doubt >= DOUBT_OF_FEW) client->spared = client->doubt;
}

static void expect_back(struct redlock_client *client) {
    if (client->finishes == 0) return;
    rl_ns now = net_now(client->net);
    if (client->returning > 0 && now - client->returning_since > patience(client))
        not_back_in_time(client);
    client->returning += client->finishes;
    client->group = client->returning;
    client->returning_since = now;
    client->finishes = 0;
    if (client->spared > 0) client->spared--;
}

/* A caller is back. True: others will be, and the last one sends for all. */
static bool hold_back(struct redlock_client *client) {
    if (client->returning == 0) return false;
    if (net_now(client->net) - client->returning_since > patience(client)) {
        not_back_in_time(client);
        return false;
    }
    if (--client->returning > 0) return client->spared == 0;
    if (client->group > 1) client->doubt /= 2;
    return false;
}

/* ---- waiting ---- */

static void tell_all(struct redlock_client *client);

/* One turn: sleep without the mutex, work with it. */
static void drive_once(struct redlock_client *client, enum driver as) {
    struct net_batch batch;
    client->driver = as;
    client->driver_until = net_next_timer(client->net);
    client->finished = false;
    rl_ns until = client->driver_until;
    if (as == DRIVER_SERVICE) client->service_sleeps = true;
    unlock(client);
    net_wait(client->net, until, &batch);
    pthread_mutex_lock(&client->mutex);
    if (as == DRIVER_SERVICE) {
        client->service_sleeps = false;
        pthread_cond_broadcast(&client->told_cond);
    }
    if (client->driver != as) return;
    net_process(client->net, &batch);
    client->held_back = false; /* that has flushed */
    client->watch = NULL;
    expect_back(client);
}

/* The driver sleeps too long: for a timer that it does not know of, or although it is done
 * (cancelled, say). */
static void wake_driver(struct redlock_client *client) {
    if (net_next_timer(client->net) < client->driver_until || client->finished)
        net_kick(client->net);
    client->finished = false;
}

/* The service thread is on its condition variable, or in net_wait(), where only a kick reaches it.
 * A caller that took over drains the kick, often before the thread has seen it, and then it sleeps
 * on, until a time that is no longer true. So a caller kicks once more when it leaves and nobody
 * drains after it; and it does not sleep while there are callbacks to run (let_service_out). */
static void wake_service(struct redlock_client *client) {
    if (client->service_sleeps)
        net_kick(client->net);
    else
        pthread_cond_signal(&client->service_cond);
}

static void let_service_out(struct redlock_client *client) {
    client->driver = DRIVER_CALLER; /* nobody else takes over meanwhile */
    while (client->service_sleeps && client->told_first) {
        wake_now(client);
        net_kick(client->net);
        pthread_cond_wait(&client->told_cond, &client->mutex);
    }
}

static void hand_over(struct redlock_client *client) {
    client->drives++;
    if (client->asleep) {
        wake_heir(client);
        return;
    }
    if (!client->service_runs) return;
    if (client->service_sleeps || client->service_parked ||
        net_next_timer(client->net) < client->service_until)
        wake_service(client);
}

/* Drives until the waiter is done. Without a service thread, callbacks fall due here too. */
static void drive_for(struct redlock_client *client, struct waiter *waiter) {
    for (;;) {
        let_service_out(client);
        if (waiter->done) break;
        drive_once(client, DRIVER_CALLER);
        if (!client->service_runs && client->told_first) break;
    }
    client->driver = DRIVER_NONE; /* a callback may block and drive itself, */
    if (client->service_runs || !client->told_first) return;
    wake_heir(client); /* and it may take long */
    tell_all(client);
}

/* Sleeps until somebody wakes it: then it is done, or the heir. True: it is done, and the mutex was
 * not taken again. */
static bool sleep_beside(struct redlock_client *client, struct waiter *waiter) {
    bool watch = client->held_back && !client->watch;
    rl_ns span = watch ? patience(client) : RL_NEVER;
    if (watch) client->watch = waiter;
    add_sleeper(client, waiter);
    waiter_lie_down(waiter);
    unlock(client);
    bool woken = waiter_sleep(waiter, span);
    if (woken && !waiter->heir) return true;
    pthread_mutex_lock(&client->mutex);
    if (woken) {
        client->heir = waiter->heir = false;
        return false;
    }
    if (!waiter->at) { /* no longer: it is being woken just now, and must not go before that is over
                        */
        unlock(client);
        waiter_sleep(waiter, RL_NEVER);
        pthread_mutex_lock(&client->mutex);
        if (waiter->heir) client->heir = waiter->heir = false;
        return false;
    }
    watch = client->watch == waiter;
    remove_sleeper(client, waiter);
    if (watch) {
        not_back_in_time(client);
        push_out(client);
    }
    return false;
}

/* The mutex is held. False: it was given back, and all is done. */
static bool block(struct redlock_client *client, struct waiter *waiter) {
    waiter->client = client;
    client->held_back = !waiter->done && hold_back(client);
    if (!client->held_back) push_out(client);
    while (!waiter->done) {
        if (client->driver != DRIVER_CALLER && !client->held_back) {
            if (client->driver == DRIVER_SERVICE) net_kick(client->net);
            drive_for(client, waiter);
            continue;
        }
        if (client->driver != DRIVER_NONE)
            wake_driver(client); /* our sends may have armed a timer */
        if (sleep_beside(client, waiter)) return false;
    }
    if (client->driver == DRIVER_NONE) hand_over(client);
    return true;
}

void client_wait(struct redlock_client *client, struct waiter *waiter) {
    if (!block(client, waiter)) pthread_mutex_lock(&client->mutex);
    wake_now(client);
}

int client_await(struct redlock_client *client, struct waiter *waiter) {
    if (block(client, waiter)) client_leave_telling(client);
    return waiter->result;
}

/* ---- callbacks ---- */

void client_tell(struct redlock_client *client, struct redlock_lock *lock) {
    if (lock->freed) return;
    if (!lock->told_queued) {
        lock->told_queued = true;
        lock->told_next = NULL;
        *client->told_last = lock;
        client->told_last = &lock->told_next;
        lock->refs++;
    }
    if (client->service_runs) wake_service(client);
}

static struct redlock_lock *next_told(struct redlock_client *client) {
    struct redlock_lock *lock = client->told_first;
    client->told_first = lock->told_next;
    if (!client->told_first) client->told_last = &client->told_first;
    lock->told_queued = false;
    return lock;
}

static redlock_done_fn *take_done(struct op *op, void **context, int *result) {
    if (!op->finished || !op->done) return NULL; /* a blocked thread fetches its own */
    redlock_done_fn *done = op->done;
    *context = op->context;
    *result = op->result;
    *op = (struct op){0};
    return done;
}

/* Runs one lock's callbacks outside the mutex, in the order in which the things happened. */
static void tell(struct redlock_client *client, struct redlock_lock *lock) {
    static const int order[] = {REDLOCK_CHANGE_UNSURE, REDLOCK_CHANGE_SURE, REDLOCK_CHANGE_RENEWED,
                                REDLOCK_CHANGE_LOST};
    unsigned changes = lock->changes;
    lock->changes = 0;
    void *context[2] = {NULL, NULL};
    int result[2] = {0, 0};
    redlock_done_fn *done[2] = {take_done(&lock->extension, &context[0], &result[0]),
                                take_done(&lock->op, &context[1], &result[1])};
    client->telling = lock;
    client->telling_thread = pthread_self();
    unlock(client);
    for (size_t i = 0; i < sizeof order / sizeof order[0]; i++) {
        if ((changes & (1u << order[i])) && lock->on_change && !atomic_load(&lock->freed))
            lock->on_change(lock->on_change_context, lock, order[i]);
    }
    for (int i = 0; i < 2; i++) {
        if (done[i] && !atomic_load(&lock->freed)) done[i](context[i], lock, result[i]);
    }
    pthread_mutex_lock(&client->mutex);
    client->telling = NULL;
    pthread_cond_broadcast(&client->told_cond);
}

/* What callbacks ask for goes out together: one write for each node, not one for each lock. */
static void tell_all(struct redlock_client *client) {
    for (unsigned told = 1; client->told_first && !client->telling; told++) {
        struct redlock_lock *lock = next_told(client);
        if (!lock->freed) tell(client, lock);
        lock_unref(lock);
        if (told % TOLD_PER_FLUSH != 0 && client->told_first) continue;
        push_out(client);
        if (client->driver == DRIVER_NONE) wake_heir(client);
    }
}

void client_untell(struct redlock_client *client) {
    while (client->told_first) lock_unref(next_told(client));
}

void client_hush(struct redlock_client *client, struct redlock_lock *lock) {
    while (client->telling == lock && !pthread_equal(client->telling_thread, pthread_self()))
        pthread_cond_wait(&client->told_cond, &client->mutex);
}

/* ---- entering and leaving ---- */

int client_enter(struct redlock_client *client) {
    if (client->fork_generation != fork_generation()) return REDLOCK_FORKED;
    pthread_mutex_lock(&client->mutex);
    return REDLOCK_OK;
}

void client_leave(struct redlock_client *client) {
    bool in_callback = client->telling && pthread_equal(client->telling_thread, pthread_self());
    if (!in_callback) { /* else tell_all() goes on behind it */
        push_out(client);
        if (!client->service_runs && client->told_first)
            net_kick(client->net); /* redlock_process() has work */
    }
    rl_ns next = net_next_timer(client->net);
    if (client->driver != DRIVER_NONE) {
        wake_driver(client);
    } else if (client->asleep) {
        wake_heir(client);
    } else if (client->service_runs && next < client->service_until) {
        pthread_cond_signal(&client->service_cond);
    }
    unlock(client);
}

void client_leave_telling(struct redlock_client *client) {
    if (!client->service_runs) tell_all(client);
    client_leave(client);
}

/* ---- the service thread ---- */

static void linger(struct redlock_client *client) {
    rl_ns now = net_now(client->net);
    rl_ns span = LINGER;
    rl_ns next = net_next_timer(client->net);
    if (client->driver == DRIVER_NONE && next < now + span) span = next > now ? next - now : 0;
    if (span == 0) return;
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    at.tv_nsec += (long)span;
    at.tv_sec += at.tv_nsec / 1000000000;
    at.tv_nsec %= 1000000000;
    client->service_until = now + span;
    pthread_cond_timedwait(&client->service_cond, &client->mutex, &at);
    client->service_until = INT64_MIN;
}

static void *serve(void *argument) {
    struct redlock_client *client = argument;
    uint64_t seen = 0;
    pthread_mutex_lock(&client->mutex);
    while (!client->stopping) {
        tell_all(client);
        wake_now(client);
        if (client->stopping) break;
        if (client->driver == DRIVER_CALLER && seen == client->drives) {
            client->service_parked = true;
            pthread_cond_wait(&client->service_cond, &client->mutex);
            client->service_parked = false;
        } else if (client->driver == DRIVER_CALLER ||
                   (seen != client->drives && net_next_timer(client->net) > net_now(client->net))) {
            seen = client->drives; /* beside a caller nobody drives: it would sleep on although it
                                      is done */
            linger(client);
        } else {
            drive_once(client, DRIVER_SERVICE);
            if (client->driver != DRIVER_SERVICE) continue;
            client->driver = DRIVER_NONE;
            wake_heir(client);
        }
    }
    pthread_mutex_unlock(&client->mutex);
    return NULL;
}

int service_start(struct redlock_client *client) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all,
                    &before); /* signals are the program's: none is handled on our thread */
    client->service_runs = true;
    client->service_until = INT64_MIN;
    int failed = pthread_create(&client->service, NULL, serve, client);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failed) client->service_runs = false;
    return failed ? REDLOCK_SYSTEM : REDLOCK_OK;
}

void service_stop(struct redlock_client *client) {
    if (!client->service_runs) return;
    pthread_mutex_lock(&client->mutex);
    client->stopping = true;
    net_kick(client->net);
    pthread_cond_signal(&client->service_cond);
    pthread_mutex_unlock(&client->mutex);
    pthread_join(client->service, NULL);
    client->service_runs = false;
}
