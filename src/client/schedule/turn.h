/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The inside of this room: what its files share about one turn of the driver's. The mutex is held
 * where nothing else is said.
 */
#ifndef RL_CLIENT_TURN_H
#define RL_CLIENT_TURN_H

#include "redlock.h"
#include "schedule.h"

/* driver.c */
void drive_once(struct schedule *schedule, enum driver as); /* sleeps without the mutex */
void wake_now(struct schedule *schedule);       /* the threads that wait for the mutex to be free */
void wake_successor(struct schedule *schedule); /* no thread drives: one that sleeps must */
void unlock(struct schedule *schedule);         /* gives the mutex back, then wakes */

/* batching.c */
void push_out(struct schedule *schedule);
rl_ns patience(const struct schedule *schedule);
void not_back_in_time(struct schedule *schedule);
void expect_back(struct schedule *schedule);
bool hold_back(struct schedule *schedule);

/* service.c */
void notify_all(struct schedule *schedule);
void wake_service(struct schedule *schedule);

/* waiter.c: a thread's sleep */
/* Before any thread can know that it sleeps. */
void waiter_lie_down(struct waiter *waiter);
/* It will be woken, or has woken by itself. */
void waiter_get_up(struct waiter *waiter);
/* Without the mutex. False: `span` has passed (RL_NEVER: no end). */
bool waiter_sleep(struct waiter *waiter, rl_ns span);
/* Wakes a list of them, without the mutex. Touches none of them afterwards: they may be gone. */
void waiters_wake(struct schedule *schedule, struct waiter *first);

#endif
