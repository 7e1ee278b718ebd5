/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Locks of the modes classic and auto: the node's answer is the vote. */
#include "lock.h"

static bool keys_valid(struct redlock_lock *lock, struct redlock_error *error) {
    (void)lock, (void)error;
    return true;
}

static void round_carry(struct round *round) { (void)round; }

static void prepare_event(struct redlock_lock *lock, struct rl_event *event) {
    (void)lock, (void)event;
}

static void send_votes(struct redlock_lock *lock, const struct rl_actions *actions, rl_ns now) {
    struct round *round = lock->round;
    lock_send(lock, actions->acquire | actions->repair, &round->acquire, round->calls, now);
    lock_send(lock, actions->extend, &round->extend, round->calls, now);
}

static void won(struct redlock_lock *lock) { (void)lock; }

static void answer(struct round *round, const struct net_call *call,
                   const struct net_reply *reply) {
    struct redlock_lock *lock = round->lock;
    if (lock->round != round || lock->phase == PHASE_FREE) return;
    lock_step(lock, vote_event(lock, call, reply->verdict));
}

static int may_extend(const struct redlock_lock *lock, int64_t ttl_ms) {
    (void)lock, (void)ttl_ms;
    return REDLOCK_OK;
}

static int adopt(struct redlock_lock *lock, int64_t fence) { /* there are no fences */
    (void)lock, (void)fence;
    return REDLOCK_OK;
}

const struct lock_mode classic_locks = {
    .keys_valid = keys_valid,
    .round_carry = round_carry,
    .event = prepare_event,
    .send_votes = send_votes,
    .won = won,
    .answer = answer,
    .may_extend = may_extend,
    .adopt = adopt,
};
