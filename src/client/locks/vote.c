/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What a node's answer is worth as a vote, by the mode of the lock. Before this, the codec has made
 * a verdict of the reply (net/codec/answer.c); after it, the machines count (core/tally.c). */
#include "client/ask/ask.h"
#include "client/guarding/guarding.h"
#include "lock.h"

/* In classic mode no answer is stale; guarded_vote() tells such answers apart. */
enum rl_vote lock_vote_of(int verdict) {
    if (verdict == REDLOCK_VERDICT_OTHER_SLOTS) return RL_VOTE_DENIED;
    return verdict == REDLOCK_VERDICT_STALE ? RL_VOTE_FAILED : vote_of(verdict);
}

void verdicts_close(struct redlock_lock *lock, rl_mask silent) {
    uint8_t *verdicts = lock_verdicts(lock);
    for (unsigned i = 0; silent >> i; i++) {
        if (verdicts[i] == REDLOCK_VERDICT_NONE && (silent & rl_bit(i)))
            verdicts[i] = REDLOCK_VERDICT_TIMEOUT;
    }
}

/* The verdicts are those of the last round. For a lost attempt, a vote that arrives during the
 * cleaning is reported, unless the node was late already. */
static struct rl_event vote_by(struct redlock_lock *lock, const struct net_call *call, int verdict,
                               const struct net_reply *reply) {
    bool lost = lock->phase == PHASE_ACQUIRING &&
                lock->extra->acquisition->machine.attempt.state == RL_ATTEMPT_LOST;
    bool reported = lost && lock_verdicts(lock)[call->node] != REDLOCK_VERDICT_NONE;
    if (lock->phase != PHASE_RELEASING && !reported)
        lock_verdicts(lock)[call->node] = (uint8_t)verdict;
    const bool chooses = call->request->op == NET_ACQUIRE_SLOT;
    return (struct rl_event){.type = RL_EVENT_VOTE,
                             .node = call->node,
                             .vote = lock_vote_of(verdict),
                             .slot = chooses ? reply->slot : 0,
                             .other_slots = chooses ? reply->slots : 0};
}

struct rl_event classic_vote(struct redlock_lock *lock, const struct net_call *call,
                             const struct net_reply *reply) {
    return vote_by(lock, call, reply->verdict, reply);
}

/* A vote after a push proves nothing: the node's data may have gone back to an earlier state, under
 * the same record. The key is ours there, by the answer. Whether that counts is asked again after
 * the record was read. */
static int believed(const struct redlock_lock *lock, const struct net_call *call, int verdict) {
    bool votes = call->request->nonces != NULL;
    if (!votes || verdict != REDLOCK_VERDICT_GRANTED ||
        !guard_is_unread(lock->client->guard, call->node))
        return verdict;
    enum net_op op = call->request->op;
    bool sets = op == NET_ACQUIRE || op == NET_ACQUIRE_SLOT || op == NET_RAISE || op == NET_SHARE;
    return sets ? REDLOCK_VERDICT_STALE : REDLOCK_VERDICT_RECOVERING;
}

struct rl_event guarded_vote(struct redlock_lock *lock, const struct net_call *call,
                             const struct net_reply *reply, int *counted) {
    const enum net_op op = call->request->op;
    const int verdict = believed(lock, call, reply->verdict);
    struct rl_event event = vote_by(lock, call, verdict, reply);
    if (op == NET_SHARE) event.fence = reply->fence;
    if (verdict == REDLOCK_VERDICT_STALE) {
        event.vote = RL_VOTE_STALE;
        event.fence = reply->fence;
    }
    /* Listed, but for an adopted lock only the proposal itself counts. Readers may share it. */
    if (op == NET_SHARE && lock_adopts(lock) && event.vote == RL_VOTE_GRANTED &&
        reply->fence > call->request->fence)
        event.vote = RL_VOTE_STALE;
    /* the key is there, as at the last answer */
    if (verdict == REDLOCK_VERDICT_RECOVERING && op == NET_RAISE) event.vote = RL_VOTE_STALE;
    if (call_extends(call) && lock_adopts(lock) && verdict == REDLOCK_VERDICT_GRANTED)
        lock_verdicts(lock)[call->node] = REDLOCK_VERDICT_NONE; /* until it has raised the fence */
    *counted = verdict;
    return event;
}
