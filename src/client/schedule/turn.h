/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The internals of src/client/schedule: what its files share about one turn of the driver. The
 * mutex is held unless a comment says otherwise. */
#ifndef RL_CLIENT_TURN_H
#define RL_CLIENT_TURN_H

#include "redlock.h"
#include "schedule.h"

/* driver.c */
/* Works with what a sleep has seen; NULL: looks itself. */
void take_turn(struct schedule *schedule, const struct net_batch *batch);
/* One turn: sleeps without the mutex, and then works with it. True: it left the work to the
 * program's loop. */
bool drive_once(struct schedule *schedule, enum driver as);
void wake_now(struct schedule *schedule);       /* the threads that wait until the mutex is free */
void wake_successor(struct schedule *schedule); /* no thread drives, so a sleeping one must */

bool in_a_call(void); /* this thread, of any client */

/* batching.c */
void push_out(struct schedule *schedule);
rl_ns patience(const struct schedule *schedule);
void not_back_in_time(struct schedule *schedule);
void expect_back(struct schedule *schedule);
bool hold_back(struct schedule *schedule);

/* service.c */
bool is_for_the_loop(struct schedule *schedule, const struct net_batch *batch);
/* Whether the loop is woken for what arrives. */
void listen_for_the_loop(struct schedule *schedule, bool on);
/* Completions are due, and no caller waits for them. */
bool service_is_needed(const struct schedule *schedule);
void notify_all(struct schedule *schedule);
void wake_service(struct schedule *schedule);

/* waiter.c: a thread's sleep */
/* Call it before another thread can know that this one sleeps. */
void waiter_take_slot(struct waiter *waiter);
/* Another thread will wake it, or it has woken by itself. */
void waiter_free_slot(struct waiter *waiter);
/* Without the mutex. False: `span` has passed (RL_NEVER: no limit). */
bool waiter_sleep(struct waiter *waiter, rl_ns span);
/* Wakes a list of waiters, without the mutex. Does not touch them afterwards: they may be gone. */
void waiters_wake(struct schedule *schedule, struct waiter *first);

#endif
