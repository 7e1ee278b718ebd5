/* SPDX-License-Identifier: BSD-2-Clause
 *
 * One attempt: ask every node that can be asked, at once, and count. Quotations are from the Redlock page.
 */
#include "core/core.h"

#include <assert.h>
#include <string.h>

void rl_attempt_init(struct rl_attempt *attempt, const struct rl_terms *terms) {
    assert(terms->nodes >= 1 && terms->nodes <= RL_NODES_MAX);
    assert(terms->ttl > 0 && terms->node_timeout > 0 && terms->node_timeout < terms->ttl);
    memset(attempt, 0, sizeof *attempt);
    attempt->terms = terms;
}

static const unsigned char allowed[] = {
    [RL_ATTEMPT_IDLE] = 1 << RL_ATTEMPT_VOTING | 1 << RL_ATTEMPT_LOST,
    [RL_ATTEMPT_VOTING] = 1 << RL_ATTEMPT_WON | 1 << RL_ATTEMPT_LOST,
    [RL_ATTEMPT_WON] = 0,
    [RL_ATTEMPT_LOST] = 0,
};

/* The only place where the state changes. */
static void move(struct rl_attempt *attempt, enum rl_attempt_state to, rl_ns now) {
    assert(allowed[attempt->state] & 1 << to);
    (void)allowed;
    if (to == RL_ATTEMPT_WON) {
        assert(rl_count(attempt->tally.granted) >= rl_quorum(attempt->terms->nodes));
        assert(attempt->validity_end > now);
    }
    if (to == RL_ATTEMPT_LOST) assert(attempt->outcome != RL_OUTCOME_NONE && attempt->outcome != RL_OUTCOME_OK);
    (void)now;
    attempt->state = to;
}

static void lose(struct rl_attempt *attempt, enum rl_outcome outcome, rl_ns now, struct rl_actions *actions) {
    attempt->outcome = outcome;
    move(attempt, RL_ATTEMPT_LOST, now);
    /* "it will try to unlock all the instances (even the instances it believed it was not able to lock)":
     * a lost answer may hide a key that was set. */
    actions->release = attempt->tally.asked;
    actions->outcome = outcome;
}

/* "If the client failed to acquire the lock for some reason": is another in the way, or can we not know? */
static enum rl_outcome why_hopeless(const struct rl_tally *tally) {
    unsigned could_vote = tally->nodes - rl_count(tally->failed);
    return could_vote < rl_quorum(tally->nodes) ? RL_OUTCOME_NO_QUORUM : RL_OUTCOME_HELD;
}

/* "If and only if the client was able to acquire the lock in the majority of the instances, and the total time
 * elapsed to acquire the lock is less than lock validity time, the lock is considered to be acquired." */
static void count(struct rl_attempt *attempt, rl_ns now, struct rl_actions *actions) {
    const struct rl_terms *terms = attempt->terms;
    if (rl_tally_won(&attempt->tally)) {
        /* "its validity time is considered to be the initial validity time minus the time elapsed",
         * measured from before the first SET left. */
        rl_ns validity_end = attempt->t1 + terms->ttl - rl_drift(terms, terms->ttl);
        rl_ns left = validity_end - now;
        if (left <= 0 || left < terms->validity_min) {
            lose(attempt, RL_OUTCOME_EXPIRED, now, actions);
            return;
        }
        attempt->validity_end = validity_end;
        move(attempt, RL_ATTEMPT_WON, now);
        actions->outcome = RL_OUTCOME_OK;
        return;
    }
    if (rl_tally_hopeless(&attempt->tally)) lose(attempt, why_hopeless(&attempt->tally), now, actions);
}

static void start(struct rl_attempt *attempt, const struct rl_event *event, rl_ns now, struct rl_actions *actions) {
    unsigned nodes = attempt->terms->nodes;
    /* "It gets the current time", before anything is sent. */
    attempt->t1 = now;
    rl_tally_open(&attempt->tally, nodes, event->ready);
    if (rl_tally_hopeless(&attempt->tally)) {
        /* Too few can be asked: a SET now could only leave keys behind and be in another's way. */
        rl_tally_open(&attempt->tally, nodes, 0);
        lose(attempt, RL_OUTCOME_NO_QUORUM, now, actions);
        return;
    }
    move(attempt, RL_ATTEMPT_VOTING, now);
    /* "the client should try to send the SET commands to the N instances at the same time using multiplexing" */
    actions->fresh_token = true;
    actions->acquire = attempt->tally.asked;
}

void rl_attempt_step(struct rl_attempt *attempt, const struct rl_event *event, rl_ns now, struct rl_actions *actions) {
    memset(actions, 0, sizeof *actions);
    actions->wake_at = RL_NEVER;

    if (attempt->state == RL_ATTEMPT_IDLE && event->type == RL_EVENT_START) start(attempt, event, now, actions);

    if (event->type == RL_EVENT_VOTE && attempt->state != RL_ATTEMPT_IDLE) {
        /* After the end a straggler is recorded for the report, and decides nothing. */
        bool counted = rl_tally_vote(&attempt->tally, event->node, event->vote);
        if (counted && attempt->state == RL_ATTEMPT_VOTING) count(attempt, now, actions);
    }
    if (attempt->state != RL_ATTEMPT_VOTING) return;

    if (event->type == RL_EVENT_CANCEL) {
        lose(attempt, RL_OUTCOME_CANCELLED, now, actions);
        return;
    }
    /* "This prevents the client from remaining blocked for a long time trying to talk with a Redis node which is
     * down". Not on a VOTE: if we come late ourselves, the answers that lie in the sockets are read first. */
    rl_ns deadline = attempt->t1 + attempt->terms->node_timeout;
    if (now >= deadline && event->type != RL_EVENT_VOTE) {
        rl_tally_close(&attempt->tally);
        count(attempt, now, actions);
        assert(attempt->state == RL_ATTEMPT_LOST);
        return;
    }
    actions->wake_at = deadline;
}
