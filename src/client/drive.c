/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Who sleeps for whom. One thread at a time, the driver, sleeps in net_wait() without the mutex and
 * works off what it saw with it. A blocked caller drives itself, so that blocking costs no hop to
 * another thread; the service thread drives only when no caller does, and while callers come and go
 * it waits on a condition variable, so that it is not woken by their replies.
 *
 * With a service thread, callbacks run there alone; without one, in whoever leaves the library.
 */
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <time.h>

#include "client.h"

/* How long after the last caller left the service thread waits before it listens to the sockets itself. */
#define LINGER (5 * RL_MS)
/* So many callbacks hold up what the first of them asked for. */
enum { TOLD_PER_FLUSH = 256 };

/* ---- fork ---- */

static atomic_uint generation;
static pthread_once_t fork_once = PTHREAD_ONCE_INIT;

static void forked_child(void) { atomic_fetch_add(&generation, 1); }
static void fork_watch(void) { pthread_atfork(NULL, NULL, forked_child); }

unsigned fork_generation(void) {
    pthread_once(&fork_once, fork_watch);
    return atomic_load(&generation);
}

/* ---- waiting ---- */

static void tell_all(struct redlock_client *client);

void waiter_init(struct waiter *waiter) {
    waiter->next = NULL;
    waiter->done = false;
    pthread_cond_init(&waiter->cond, NULL);
}

void waiter_finish(struct waiter *waiter) {
    waiter->done = true;
    pthread_cond_signal(&waiter->cond);
}

void waiter_destroy(struct waiter *waiter) { pthread_cond_destroy(&waiter->cond); }

static void queue_waiter(struct redlock_client *client, struct waiter *waiter) {
    struct waiter **at = &client->waiters;
    while (*at) at = &(*at)->next;
    waiter->next = NULL;
    *at = waiter;
}

static void unqueue_waiter(struct redlock_client *client, struct waiter *waiter) {
    struct waiter **at = &client->waiters;
    while (*at != waiter) at = &(*at)->next;
    *at = waiter->next;
}

/* One turn: sleep without the mutex, work with it. */
static void drive_once(struct redlock_client *client, enum driver as) {
    struct net_batch batch;
    client->driver = as;
    client->driver_until = net_next_timer(client->net);
    client->finished = false;
    rl_ns until = client->driver_until;
    if (as == DRIVER_SERVICE) client->service_sleeps = true;
    pthread_mutex_unlock(&client->mutex);
    net_wait(client->net, until, &batch);
    pthread_mutex_lock(&client->mutex);
    if (as == DRIVER_SERVICE) {
        client->service_sleeps = false;
        pthread_cond_broadcast(&client->told_cond);
    }
    if (client->driver == as) net_process(client->net, &batch);
}

/* The driver sleeps too long: for a timer that it does not know of, or although it is done (cancelled, say). */
static void wake_driver(struct redlock_client *client) {
    if (net_next_timer(client->net) < client->driver_until || client->finished) net_kick(client->net);
    client->finished = false;
}

/* The service thread is on its condition variable, or in net_wait(), where only a kick reaches it. A caller that took
 * over drains the kick, often before the thread has seen it, and then it sleeps on, until a time that is no longer
 * true. So a caller kicks once more when it leaves and nobody drains after it; and it does not sleep while there are
 * callbacks to run (let_service_out). */
static void wake_service(struct redlock_client *client) {
    if (client->service_sleeps) net_kick(client->net);
    else pthread_cond_signal(&client->service_cond);
}

static void let_service_out(struct redlock_client *client) {
    client->driver = DRIVER_CALLER; /* nobody else takes over meanwhile */
    while (client->service_sleeps && client->told_first) {
        net_kick(client->net);
        pthread_cond_wait(&client->told_cond, &client->mutex);
    }
}

static void hand_over(struct redlock_client *client) {
    client->drives++;
    if (client->waiters) {
        pthread_cond_signal(&client->waiters->cond);
        return;
    }
    if (!client->service_runs) return;
    if (client->service_sleeps || client->service_parked || net_next_timer(client->net) < client->service_until)
        wake_service(client);
}

/* Drives until the waiter is done. Without a service thread, callbacks fall due here too. */
static void drive_for(struct redlock_client *client, struct waiter *waiter) {
    for (;;) {
        let_service_out(client);
        if (waiter->done) break;
        drive_once(client, DRIVER_CALLER);
        if (client->service_runs || !client->told_first) continue;
        client->driver = DRIVER_NONE; /* a callback may block and drive itself */
        tell_all(client);
    }
    client->driver = DRIVER_NONE;
}

void client_wait(struct redlock_client *client, struct waiter *waiter) {
    net_flush(client->net);
    queue_waiter(client, waiter);
    while (!waiter->done) {
        if (client->driver == DRIVER_CALLER) {
            wake_driver(client); /* our sends may have armed a timer */
            pthread_cond_wait(&waiter->cond, &client->mutex);
            continue;
        }
        if (client->driver == DRIVER_SERVICE) net_kick(client->net);
        drive_for(client, waiter);
    }
    unqueue_waiter(client, waiter);
    /* Whoever handed over may have woken us although we were done: pass it on. */
    if (client->driver == DRIVER_NONE) hand_over(client);
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
    static const enum redlock_change order[] = {REDLOCK_CHANGE_UNSURE, REDLOCK_CHANGE_SURE, REDLOCK_CHANGE_RENEWED,
                                                REDLOCK_CHANGE_LOST};
    unsigned changes = lock->changes;
    lock->changes = 0;
    void *context[2] = {NULL, NULL};
    int result[2] = {0, 0};
    redlock_done_fn *done[2] = {take_done(&lock->extension, &context[0], &result[0]),
                                take_done(&lock->op, &context[1], &result[1])};
    client->telling = lock;
    client->telling_thread = pthread_self();
    pthread_mutex_unlock(&client->mutex);
    for (size_t i = 0; i < sizeof order / sizeof order[0]; i++) {
        if ((changes & (1u << order[i])) && lock->options.on_change && !atomic_load(&lock->freed))
            lock->options.on_change(lock->options.on_change_context, lock, order[i]);
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
        if (told % TOLD_PER_FLUSH == 0 || !client->told_first) net_flush(client->net);
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
        net_flush(client->net);
        if (!client->service_runs && client->told_first) net_kick(client->net); /* redlock_process() has work */
    }
    rl_ns next = net_next_timer(client->net);
    if (client->driver != DRIVER_NONE) {
        wake_driver(client);
    } else if (client->service_runs && next < client->service_until) {
        pthread_cond_signal(&client->service_cond);
    }
    pthread_mutex_unlock(&client->mutex);
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
        if (client->stopping) break;
        if (client->driver == DRIVER_CALLER && seen == client->drives) {
            client->service_parked = true;
            pthread_cond_wait(&client->service_cond, &client->mutex);
            client->service_parked = false;
        } else if (client->driver == DRIVER_CALLER ||
                   (seen != client->drives && net_next_timer(client->net) > net_now(client->net))) {
            seen = client->drives; /* beside a caller nobody drives: it would sleep on although it is done */
            linger(client);
        } else {
            drive_once(client, DRIVER_SERVICE);
            if (client->driver == DRIVER_SERVICE) client->driver = DRIVER_NONE;
        }
    }
    pthread_mutex_unlock(&client->mutex);
    return NULL;
}

int service_start(struct redlock_client *client) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are the program's: none is handled on our thread */
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
