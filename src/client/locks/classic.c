/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Locks of the modes classic and auto: the node's answer is the vote. */
#include "lock.h"

/* A leader without a term is chosen by the name of the mode, and not because no node has a record.
 */
static bool lacks_term(const struct redlock_lock *lock) {
    return lock->config->options.leader && lock->client->options.mode != REDLOCK_MODE_CLASSIC;
}

static void note_no_record(struct redlock_lock *lock, rl_mask nodes) {
    for (unsigned i = 0; i < lock->config->terms.nodes; i++)
        if (nodes & rl_bit(i)) lock_verdicts(lock)[i] = REDLOCK_VERDICT_NO_RECORD;
}

/* Once a record was seen no classic vote is asked for, whatever a lock still waits for. */
static void send_votes(struct redlock_lock *lock, const struct rl_actions *actions, rl_ns now) {
    struct round *round = round_now(lock);
    const bool is_guarded = lock->client->guard != NULL;
    if (is_guarded || lacks_term(lock)) {
        if (!is_guarded) note_no_record(lock, actions->acquire);
        lock->extra->unsent |= actions->acquire | actions->extend;
        return;
    }
    if (slots_of(lock))
        lock_send(lock, actions->acquire, slots_request(lock, actions), round->calls, now);
    const rl_mask plain = slots_of(lock) ? 0 : actions->acquire;
    lock_send(lock, plain | actions->repair, &round->acquire, round->calls, now);
    lock_send(lock, actions->extend | actions->catch_up, &round->extend, round->calls, now);
}

static void answer(struct round *round, const struct net_call *call,
                   const struct net_reply *reply) {
    struct redlock_lock *lock = round->lock;
    if (round_now(lock) != round || lock->phase == PHASE_FREE) return;
    lock_step(lock, classic_vote(lock, call, reply));
}

/* Mode auto may turn guarded before the token is used. */
static int adopt(struct redlock_lock *lock, int64_t fence) {
    struct fenced *fenced = lock_fenced(lock);
    if (fenced) fenced->fence = fence;
    return REDLOCK_OK;
}

const struct lock_mode classic_locks = {.send_votes = send_votes, .answer = answer, .adopt = adopt};
