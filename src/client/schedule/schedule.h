/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Who sleeps for whom, among the threads of one client, and who runs callbacks. This room knows the
 * connections as something to wait for, and no lock.
 *
 * Everything here is protected by the mutex unless a comment says otherwise. All functions are for
 * any thread.
 */
#ifndef RL_CLIENT_SCHEDULE_H
#define RL_CLIENT_SCHEDULE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/core.h"
#include "net/net.h"

struct schedule;

/* A thread that blocks until something is done. Lives on that thread's stack. */
struct waiter {
    struct schedule *schedule; /* NULL: it does not wait yet */
    struct waiter *next, **at; /* in the list of sleepers; at is NULL outside it */
    bool done;
    bool successor; /* woken to drive */
    int result;     /* of the operation that it waits for; of several, of one that failed */
    size_t finished, wanted; /* of several: done when so many have ended. Of one: 0 */
    atomic_uint word;        /* waiter.c's: up, asleep or woken, ... */
    rl_ns woken_at;          /* ... and since when: valid once the word says so */
    unsigned slot; /* its bit among those that one call wakes together; 0: it is woken by itself */
};

/* waiter.c's: the threads that sleep, and whether they yield their processors first. Not under the
 * mutex, except `slots`. */
struct sleepers {
    atomic_uint bell;         /* the futex of those with slots: it counts how often it was rung */
    unsigned slots;           /* those taken */
    atomic_uint waits, vain;  /* how many waits there were; how often yielding failed of late */
    atomic_uint rest;         /* after yielding made a thread late: for that long, times this power
                                 of two, no thread yields, ... */
    _Atomic rl_ns not_before; /* ... until then */
};

/* Something with callbacks due. */
struct notified {
    struct notified *next; /* NULL: not queued. The last one's is itself */
};

enum driver { DRIVER_NONE, DRIVER_SERVICE, DRIVER_CALLER };

struct schedule {
    pthread_mutex_t mutex;
    struct net *net; /* the client's; NULL before it is open */
    unsigned fork_generation;

    enum driver driver; /* the thread that sleeps in net_wait() for all */
    rl_ns driver_until; /* until when, at the latest */
    bool finished;      /* the driver's own wait has ended, perhaps while it sleeps */
    struct waiter *asleep, **asleep_last; /* blocked callers that do not drive */
    struct waiter *woken; /* no longer among them; they are woken when the mutex is given back */
    bool successor;       /* one of them was woken to drive, and does not do so yet */
    uint64_t drives;      /* counts callers that drove, so that the service thread sees activity */

    unsigned finishes;     /* waits that ended in this turn of the driver's, ... */
    unsigned returning;    /* ... callers of the last turns that are not back yet, ... */
    unsigned group;        /* ... out of that many, ... */
    rl_ns returning_since; /* ... and when the last of those turns was */
    unsigned backoff;      /* how seldom they come back at once; ... */
    unsigned spared;       /* ... for that many turns no request waits for them */
    bool held_back;        /* what was sent is not flushed: the last one back does that, or ... */
    struct waiter *flush_leader; /* ... this one, which sleeps only that long */
    struct sleepers sleepers;

    pthread_t service;
    bool service_runs, service_parked, stopping;
    bool service_sleeps; /* in net_wait(): as the driver, or not yet out of it since a caller took
                            over */
    rl_ns service_until; /* in a timed sleep on service_cond until then */
    pthread_cond_t service_cond;

    struct notified *notify_first, *notify_last;
    struct notified *notifying; /* its callbacks run now, ... */
    pthread_t notifying_thread; /* ... on this thread */
    pthread_cond_t notified_cond;
    /* Runs one's callbacks, between schedule_out() and schedule_in(). The mutex is held. */
    void (*notify)(struct notified *notified);
};

void schedule_init(struct schedule *schedule, void (*notify)(struct notified *notified));
void schedule_destroy(struct schedule *schedule);         /* not in a child after fork(2) */
bool schedule_is_forked(const struct schedule *schedule); /* without the mutex */

/* ---- driver.c ---- */

int schedule_enter(struct schedule *schedule); /* takes the mutex: OK. FORKED: does not take it */
/* Flushes, wakes the threads that must know, gives the mutex back. */
void schedule_leave(struct schedule *schedule);
/* The same, and runs callbacks if there is no service thread. */
void schedule_leave_reporting(struct schedule *schedule);
void waiter_init(struct waiter *waiter);
void waiter_finish(struct waiter *waiter); /* done; woken when the mutex is given back */
/* Returns when waiter->done, with the mutex held. */
void schedule_wait(struct schedule *schedule, struct waiter *waiter);
/* The same, but gives the mutex back: the result. */
int schedule_await(struct schedule *schedule, struct waiter *waiter);

/* ---- service.c ---- */

/* Callbacks of it are due. With a service thread they run there alone; without one, in a thread
 * that leaves the library. */
void schedule_report(struct schedule *schedule, struct notified *notified);
bool schedule_is_queued(const struct notified *notified);
struct notified *
schedule_next_reported(struct schedule *schedule); /* takes it out; NULL: none is due */
/* No callback of it runs after this, except one that calls this. */
void schedule_hush(struct schedule *schedule, const struct notified *notified);
void schedule_out(struct schedule *schedule, struct notified *notified); /* gives the mutex back */
void schedule_in(struct schedule *schedule);

int service_start(struct schedule *schedule); /* OK, or SYSTEM. Without the mutex */
void service_stop(struct schedule *schedule); /* returns when it has ended. Without the mutex */

#endif
