/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Decides which thread of a client sleeps on the sockets for all, and which runs callbacks. This
 * room treats the connections as something to wait for, and knows nothing of locks.
 *
 * The mutex protects everything here unless a comment says otherwise. Any thread may call any
 * function. */
#ifndef RL_CLIENT_SCHEDULE_H
#define RL_CLIENT_SCHEDULE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/core.h"
#include "net/net.h"

#define RL_CONTAINER(pointer, type, member) ((type *)((char *)(pointer)-offsetof(type, member)))

struct schedule;

/* A thread that blocks until something is done. It is on that thread's stack. */
struct waiter {
    struct schedule *schedule; /* NULL: it does not wait yet */
    struct waiter *next, **at; /* in the list of sleepers; `at` is NULL outside it */
    bool done;
    bool successor; /* woken to drive */
    int result;     /* of the operation that it waits for; of several: of one that failed */
    size_t finished, wanted; /* of several: done when `wanted` have ended; of one: 0 */
    atomic_uint word;        /* waiter.c: up, asleep or woken, ... */
    rl_ns woken_at;          /* ... and since when; valid once the word is `woken` */
    /* its bit among those that one system call wakes together; 0: it is woken alone */
    unsigned slot;
};

/* waiter.c: the sleeping threads, and whether they yield their processors first. Not under the
 * mutex, except `slots`. */
struct sleepers {
    atomic_uint bell;         /* the futex of the waiters with slots; it counts how often it rang */
    unsigned slots;           /* the slots in use */
    atomic_uint waits, vain;  /* the number of waits; how often yielding failed recently */
    _Atomic rl_ns not_before; /* yielding made a thread late: no thread yields until then */
};

/* An object with callbacks due. */
struct notified {
    struct notified *next; /* NULL: not queued. The last one points to itself */
};

enum driver { DRIVER_NONE, DRIVER_SERVICE, DRIVER_CALLER };

struct schedule {
    pthread_mutex_t mutex;
    struct net *net;              /* the client's; NULL before it is open */
    struct schedule *listed_next; /* exit.c */
    bool listed;
    atomic_bool exiting; /* this process */

    enum driver driver; /* the thread that sleeps in net_wait() for all */
    rl_ns driver_until; /* until when, at the latest */
    bool finished;      /* the driver's own wait has ended, perhaps while it sleeps */
    struct waiter *asleep, **asleep_last; /* blocked callers that do not drive */
    struct waiter *woken; /* no longer in that list; woken when the mutex is released */
    bool successor;       /* one of them was woken to drive, and does not drive yet */
    /* counts turns of callers and of the program's loop, so that the service thread sees activity
     */
    uint64_t drives;

    unsigned finishes;     /* waits that ended in this turn of the driver, ... */
    unsigned returning;    /* ... callers of the last turns that are not back yet, ... */
    unsigned group;        /* ... the size of that group, ... */
    rl_ns returning_since; /* ... and the time of the last of those turns */
    unsigned backoff;      /* how rarely they come back at once; ... */
    unsigned spared;       /* ... for that many turns no request waits for them */
    bool held_back;
    /* Sent requests are not flushed yet: the last caller that comes back flushes them, or ... */
    struct waiter *flush_leader; /* ... this one does, which sleeps only that long */
    struct sleepers sleepers;

    pthread_t service;
    bool service_runs, service_parked, stopping;
    /* Set in a callback: the thread that runs it calls end(), when it has left the library or ends.
     */
    bool ending;
    void (*end)(struct schedule *schedule); /* frees what the schedule belongs to */
    /* Operations whose end a callback reports. No caller waits for their answers. */
    unsigned started;
    /* In net_wait(): as the driver, or not yet out of it since a caller took over. */
    bool service_sleeps;
    rl_ns service_until; /* in a timed sleep on service_cond until then */
    pthread_cond_t service_cond;

    bool queued; /* callbacks wait for redlock_process() */
    bool rung;   /* ... and the bell has rung for them */
    /* The program's loop (service.c): it is woken for what arrives; it has processed since the
     * service thread last did so; it is at work. */
    bool listening, looped, in_loop;
    uint64_t offered; /* `drives`, when something arrived that was left to the loop */
    struct notified *notify_first, *notify_last;
    struct notified *notifying; /* its callbacks run now, ... */
    pthread_t notifying_thread; /* ... on this thread */
    pthread_cond_t notified_cond;
    /* Runs the callbacks of one object, between schedule_out() and schedule_in(). The mutex is
     * held. */
    void (*notify)(struct schedule *schedule, struct notified *notified);
};

/* ---- exit.c ---- */

/* At exit(3), the connections are abandoned: what a child after fork(2) gets, all get. Without the
 * mutex. */
void schedule_watch_exit(struct schedule *schedule);
void schedule_unwatch_exit(struct schedule *schedule); /* also if it is not watched */

/* ---- driver.c ---- */

void schedule_init(struct schedule *schedule,
                   void (*notify)(struct schedule *schedule, struct notified *notified),
                   void (*end)(struct schedule *schedule));
void schedule_destroy(struct schedule *schedule); /* not in a child after fork(2) */

/* Without the mutex. A callback may fork, and the child return from it: in the child this room
 * neither takes nor releases the mutex, every wait ends with FORKED, and no callback runs. */
bool schedule_is_forked(const struct schedule *schedule);

/* A call of the user's lasts from schedule_enter() to one of those that leave. Meanwhile its thread
 * cannot be cancelled: it may hold the mutex, or drive for all. */
int schedule_enter(struct schedule *schedule); /* OK: has taken the mutex. FORKED: has not */
/* Nothing uses it any more: calls end() now, or, in a callback, when that is possible. Without the
 * mutex. */
void schedule_end(struct schedule *schedule);
/* Flushes, wakes the threads that must react, releases the mutex. */
void schedule_leave(struct schedule *schedule);
/* Releases the mutex, and no more: for calls that sent nothing and changed no timer. */
void schedule_exit(struct schedule *schedule);
/* In the middle of a call: releases the mutex, and takes it again. */
void schedule_unlock(struct schedule *schedule);
void schedule_relock(struct schedule *schedule);
/* For calls that do not enter: no cancellation of this thread, until as many calls of the second.
 */
void cancellation_off(void);
void cancellation_back(void);
/* Like schedule_leave(), but also runs callbacks if there is no service thread. Returns `result`;
 * FORKED in a child that a callback has made. */
int schedule_leave_reporting(struct schedule *schedule, int result);
void waiter_init(struct waiter *waiter);
/* done; the thread is woken when the mutex is released */
void waiter_finish(struct waiter *waiter);
/* Returns when waiter->done, with the mutex held. */
void schedule_wait(struct schedule *schedule, struct waiter *waiter);
/* Or at that time. */
void schedule_wait_until(struct schedule *schedule, struct waiter *waiter, rl_ns until);
/* As schedule_wait(), but releases the mutex; returns the result. */
int schedule_await(struct schedule *schedule, struct waiter *waiter);

/* ---- service.c ---- */

/* Callbacks of it are due. With a service thread only that thread runs them, or, if they are
 * queued, redlock_process(); without one, a thread that leaves the library does. False: it was
 * listed already. */
bool schedule_report(struct schedule *schedule, struct notified *notified);
/* removes it from the queue; NULL: none is due */
struct notified *schedule_next_reported(struct schedule *schedule);
/* None of its callbacks runs after this, except one that calls this itself. */
void schedule_stop_callbacks(struct schedule *schedule, const struct notified *notified);
void schedule_out(struct schedule *schedule, struct notified *notified); /* releases the mutex */
void schedule_in(struct schedule *schedule);

/* OK, or SYSTEM. Without the mutex. `queued`: that thread runs no callbacks. */
int service_start(struct schedule *schedule, bool queued);
/* A turn of the program's loop: does what is due, and runs the callbacks that wait. */
void schedule_loop(struct schedule *schedule);
/* returns when the thread has ended; without the mutex */
void service_stop(struct schedule *schedule);

#endif
