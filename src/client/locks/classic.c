/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Locks of the modes classic and auto: the node's answer is the vote. */
#include "lock.h"

static void send_votes(struct redlock_lock *lock, const struct rl_actions *actions, rl_ns now) {
    struct round *round = lock->round;
    lock_send(lock, actions->acquire | actions->repair, &round->acquire, round->calls, now);
    lock_send(lock, actions->extend, &round->extend, round->calls, now);
}

static void answer(struct round *round, const struct net_call *call,
                   const struct net_reply *reply) {
    struct redlock_lock *lock = round->lock;
    if (lock->round != round || lock->phase == PHASE_FREE) return;
    lock_step(lock, vote_event(lock, call, reply->verdict));
}

const struct lock_mode classic_locks = {.send_votes = send_votes, .answer = answer};
