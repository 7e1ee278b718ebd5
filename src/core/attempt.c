/* SPDX-License-Identifier: BSD-2-Clause
 *
 * One attempt: ask every node that can be asked, all at once, and count. Quotations are from the
 * Redlock page. Fences, proposals and confirming are guarded mode's (docs/inside/guarded.md). */
#include "core/core.h"

#include <assert.h>
#include <string.h>

/* Each raise is a wasted round trip. A client that lost this many races makes room, and comes back
 * after a random delay. */
#define RAISES_MAX 8

void rl_attempt_init(struct rl_attempt *attempt, const struct rl_terms *terms) {
    assert(terms->nodes >= 1 && terms->nodes <= RL_NODES_MAX && terms->quorum >= 1);
    assert(terms->guarded || (terms->quorum == rl_quorum(terms->nodes) && !terms->confirm));
    assert(terms->slots <= RL_SLOTS_MAX);
    assert(terms->ttl > 0 && terms->node_timeout > 0 && terms->node_timeout < terms->ttl);
    memset(attempt, 0, sizeof *attempt);
    attempt->terms = terms;
}

static const unsigned char allowed[] = {
    [RL_ATTEMPT_IDLE] = 1 << RL_ATTEMPT_VOTING | 1 << RL_ATTEMPT_LOST,
    [RL_ATTEMPT_VOTING] = 1 << RL_ATTEMPT_CONFIRMING | 1 << RL_ATTEMPT_WON | 1 << RL_ATTEMPT_LOST,
    [RL_ATTEMPT_CONFIRMING] = 1 << RL_ATTEMPT_WON | 1 << RL_ATTEMPT_LOST,
    [RL_ATTEMPT_WON] = 0,
    [RL_ATTEMPT_LOST] = 0,
};

/* The only place where the state changes. */
static void move(struct rl_attempt *attempt, enum rl_attempt_state to, rl_ns now) {
    const struct rl_terms *terms = attempt->terms;
    assert(allowed[attempt->state] & 1 << to);
    (void)allowed, (void)terms, (void)now;
    switch (to) {
    case RL_ATTEMPT_CONFIRMING:
        assert(terms->confirm && rl_tally_won(&attempt->tally));
        /* only a voter can confirm */
        assert((attempt->confirming.asked & ~attempt->tally.granted) == 0);
        break;
    case RL_ATTEMPT_WON:
        assert(rl_count(attempt->tally.granted) >= attempt->tally.quorum);
        assert(attempt->validity_end > now);
        assert(terms->slots == 0 || attempt->slots.slot != 0);
        if (terms->guarded) assert(attempt->fence >= 1 && attempt->fence <= RL_FENCE_MAX);
        if (terms->confirm)
            assert(attempt->state == RL_ATTEMPT_CONFIRMING && rl_tally_won(&attempt->confirming));
        break;
    case RL_ATTEMPT_LOST:
        assert(attempt->outcome != RL_OUTCOME_NONE && attempt->outcome != RL_OUTCOME_OK);
        break;
    default: break;
    }
    attempt->state = to;
}

static bool under_way(const struct rl_attempt *attempt) {
    return attempt->state == RL_ATTEMPT_VOTING || attempt->state == RL_ATTEMPT_CONFIRMING;
}

static rl_ns deadline_of(const struct rl_attempt *attempt) {
    return attempt->asked_at + attempt->terms->node_timeout;
}

static void lose(struct rl_attempt *attempt, enum rl_outcome outcome, rl_ns now,
                 struct rl_actions *actions) {
    if (outcome == RL_OUTCOME_HELD && attempt->slots.others != 0) outcome = RL_OUTCOME_OTHER_SLOTS;
    attempt->outcome = outcome;
    move(attempt, RL_ATTEMPT_LOST, now);
    /* "it will try to unlock all the instances (even the instances it believed it was not able to
     * lock)": a lost answer may hide a key that was set. */
    actions->release = attempt->tally.asked;
    actions->outcome = outcome;
}

/* ---- winning ------------------------------------------------------------------------------ */

/* "If and only if the client was able to acquire the lock in the majority of the instances, and the
 * total time elapsed to acquire the lock is less than lock validity time, the lock is considered to
 * be acquired." */
static void majority(struct rl_attempt *attempt, rl_ns now, struct rl_actions *actions) {
    const struct rl_terms *terms = attempt->terms;
    /* "its validity time is considered to be the initial validity time minus the time elapsed",
     * measured from before the first SET left. */
    uint32_t ppm = rl_allowance(terms, attempt->tally.granted, attempt->tally.quorum);
    rl_ns validity_end = attempt->t1 + terms->ttl - rl_drift_at(terms, ppm, terms->ttl);
    rl_ns left = validity_end - now;
    if (left <= 0 || left < terms->validity_min) {
        lose(attempt, RL_OUTCOME_EXPIRED, now, actions);
        return;
    }
    if (terms->confirm && attempt->state == RL_ATTEMPT_VOTING) {
        /* Between a vote and the end of the count, time may pass that no clock of ours shows. If a
         * majority of the voters then reports that key and fence are still there, no client with a
         * higher fence was before us. */
        if (now >= deadline_of(attempt)) {
            lose(attempt, RL_OUTCOME_EXPIRED, now, actions);
            return;
        }
        rl_tally_open(&attempt->confirming, terms->nodes, attempt->tally.quorum,
                      attempt->tally.granted);
        move(attempt, RL_ATTEMPT_CONFIRMING, now);
        actions->confirm = attempt->confirming.asked;
        actions->fence = attempt->fence;
        return;
    }
    attempt->validity_end = validity_end;
    attempt->drift_ppm = ppm;
    move(attempt, RL_ATTEMPT_WON, now);
    actions->outcome = RL_OUTCOME_OK;
}

/* ---- proposals ---------------------------------------------------------------------------- */

/* Above every fence that was seen, and above our own proposal, which some nodes may have accepted.
 */
static int64_t next_fence(const struct rl_attempt *attempt, const struct rl_event *event) {
    int64_t seen = attempt->fence_seen > attempt->fence ? attempt->fence_seen : attempt->fence;
    return rl_fence_above(seen, event->fence_hint);
}

/* The nodes that may still vote for this proposal. A node that was asked for it and did not raise
 * its fence will not. A node that was not asked yet (its record was being read, or it had not
 * answered the request before) can still be asked, unless the proposal is known to be too low for
 * it. */
static rl_mask may_still_grant(const struct rl_attempt *attempt) {
    rl_mask may = attempt->tally.granted | (attempt->current & attempt->waiting);
    if (attempt->fence_seen < attempt->fence)
        may |= rl_tally_pending(&attempt->tally) & (rl_mask)~attempt->current;
    return may;
}

/* From here on, votes for a lower proposal count for nothing: a token is valid only if a majority
 * granted it. */
static bool propose_anew(struct rl_attempt *attempt, const struct rl_event *event, rl_ns now,
                         struct rl_actions *actions) {
    int64_t fence = next_fence(attempt, event);
    if (fence > RL_FENCE_MAX) {
        lose(attempt, RL_OUTCOME_NO_QUORUM, now, actions);
        return false;
    }
    attempt->raises++;
    attempt->fence = fence;
    attempt->current = 0;
    attempt->tally.granted = 0; /* pending again */
    return true;
}

/* When this proposal can no longer win, the nodes whose key is ours are asked for a higher fence. A
 * node that cannot be asked now is asked later, for the proposal at that time, as long as that one
 * can win. */
static void raise_fences(struct rl_attempt *attempt, const struct rl_event *event, rl_ns now,
                         struct rl_actions *actions) {
    bool out_of_reach = rl_count(may_still_grant(attempt)) < attempt->tally.quorum;
    if (out_of_reach && attempt->raises == RAISES_MAX) {
        lose(attempt, RL_OUTCOME_HELD, now, actions);
        return;
    }
    rl_mask askable = attempt->ours & event->ready &
                      (rl_mask) ~(attempt->waiting | event->voided | attempt->tally.failed);
    if (askable == 0) return;
    if (out_of_reach && !propose_anew(attempt, event, now, actions)) return;
    if (attempt->fence_seen >= attempt->fence) return;
    rl_mask raise = askable & (rl_mask)~attempt->current;
    if (raise == 0) return;
    attempt->current |= raise;
    attempt->waiting |= raise;
    actions->raise = raise;
    actions->fence = attempt->fence;
}

/* ---- slots -------------------------------------------------------------------------------- */

static rl_mask node_bit(const struct rl_attempt *attempt, const struct rl_event *event) {
    return event->node < attempt->terms->nodes ? rl_bit(event->node) : 0;
}

/* A vote is for one slot. Votes for different slots are never counted together: two clients could
 * then each count a majority. */
static void record_slot(struct rl_attempt *attempt, const struct rl_event *event) {
    struct rl_slots *slots = &attempt->slots;
    const rl_mask node = node_bit(attempt, event);
    if ((attempt->waiting & node) == 0 || event->vote == RL_VOTE_NONE) return;
    attempt->waiting &= (rl_mask)~node;
    if (event->vote != RL_VOTE_GRANTED && event->vote != RL_VOTE_STALE) {
        slots->at[event->node] = 0;
        attempt->ours &= (rl_mask)~node;
        if (event->other_slots != 0) {
            slots->others |= node;
            slots->other_slots = event->other_slots;
        }
        rl_tally_vote(&attempt->tally, event->node, event->vote);
        return;
    }
    const bool grants = event->vote == RL_VOTE_GRANTED && (attempt->current & node) != 0;
    /* after a raise, which names no slot: that of the key that we asked about */
    if (event->slot != 0) slots->at[event->node] = event->slot;
    assert(slots->at[event->node] <= attempt->terms->slots);
    if (slots->slot == 0) {
        if (grants) slots->voted |= node;
    } else if (slots->at[event->node] != slots->slot) {
        attempt->current &= (rl_mask)~node;
    } else {
        attempt->ours |= node;
        if (grants) rl_tally_vote(&attempt->tally, event->node, RL_VOTE_GRANTED);
    }
}

static void settle(struct rl_attempt *attempt, bool late, rl_ns now) {
    struct rl_slots *slots = &attempt->slots;
    struct rl_tally *tally = &attempt->tally;
    const rl_mask counted = tally->asked & (rl_mask)~tally->failed;
    if (slots->slot != 0) return;
    unsigned slot = rl_slots_choice(slots, counted, attempt->waiting & counted, tally->quorum, now);
    if (slot == 0) return;
    slots->slot = (uint8_t)slot;
    for (unsigned node = 0; node < RL_NODES_MAX; node++) {
        if (slots->at[node] != slot || !(counted & rl_bit(node))) continue;
        attempt->ours |= rl_bit(node);
        if (slots->voted & rl_bit(node)) rl_tally_vote(tally, node, RL_VOTE_GRANTED);
    }
    attempt->current &= (rl_mask)~rl_slots_elsewhere(slots);
    if (!late) attempt->asked_at = now;
}

/* Nodes that gave another slot are asked for the one that counts. Each takes it, if it is free
 * there, and leaves the other in one step, so the number of slots that our token carries is on that
 * node the whole time. */
static void ask_for_slot(struct rl_attempt *attempt, const struct rl_event *event,
                         struct rl_actions *actions) {
    struct rl_slots *slots = &attempt->slots;
    if (slots->slot == 0) return;
    rl_mask ask = rl_slots_elsewhere(slots) & event->ready &
                  (rl_mask) ~(attempt->waiting | event->voided | attempt->tally.failed);
    if (ask == 0) return;
    for (unsigned node = 0; node < RL_NODES_MAX; node++)
        if (ask & rl_bit(node)) slots->at[node] = 0;
    slots->asked |= ask;
    attempt->waiting |= ask;
    attempt->current |= ask;
    actions->acquire = ask;
    actions->slot = slots->slot;
    actions->fence = attempt->fence;
}

/* What a node gave, or may still give, besides the slot that was won. */
static void leave_slots(struct rl_attempt *attempt, struct rl_actions *actions) {
    const struct rl_tally *tally = &attempt->tally;
    actions->slot = attempt->slots.slot;
    actions->leave =
        tally->asked & (rl_mask) ~(tally->granted | tally->denied | attempt->slots.asked);
}

/* ---- readers ------------------------------------------------------------------------------ */

/* A reader raises nothing of its own: its token is the highest fence that it was told of, so it is
 * at least that of every writer before it, since two majorities share a node. A node counts when
 * its fence is as high: so every writer after it goes higher. Where it is lower, it is written
 * back. */
static void recount_readers(struct rl_attempt *attempt) {
    struct rl_tally *tally = &attempt->tally;
    rl_mask out = tally->denied | tally->absent | tally->failed;
    tally->granted = 0;
    for (unsigned i = 0; i < attempt->terms->nodes; i++)
        if ((attempt->ours & (rl_mask)~out & rl_bit(i)) && attempt->found[i] >= attempt->fence)
            tally->granted |= rl_bit(i);
}

/* An answer to a reader's request. STALE: the node has listed us, but its record is being read. */
static void record_reader(struct rl_attempt *attempt, const struct rl_event *event) {
    rl_mask node = event->node < attempt->terms->nodes ? rl_bit(event->node) : 0;
    if ((attempt->waiting & node) == 0 || event->vote == RL_VOTE_NONE) return;
    attempt->waiting &= (rl_mask)~node;
    if (event->vote != RL_VOTE_GRANTED && event->vote != RL_VOTE_STALE) {
        attempt->ours &= (rl_mask)~node;
        rl_tally_vote(&attempt->tally, event->node, event->vote);
        return;
    }
    attempt->ours |= node;
    /* `current` has the nodes whose answers still count: see drop_voided(). */
    bool counts = event->vote == RL_VOTE_GRANTED && (attempt->current & node) != 0;
    attempt->found[event->node] = counts ? event->fence : 0;
    /* A majority has the fence already when it is confirmed: a higher one came after it. */
    if (attempt->state == RL_ATTEMPT_VOTING && event->fence > attempt->fence &&
        event->fence <= RL_FENCE_MAX)
        attempt->fence = event->fence;
    recount_readers(attempt);
}

static void write_back(struct rl_attempt *attempt, const struct rl_event *event,
                       struct rl_actions *actions) {
    rl_mask askable = attempt->ours & event->ready &
                      (rl_mask) ~(attempt->waiting | event->voided | attempt->tally.failed |
                                  attempt->tally.granted);
    if (askable == 0 || attempt->raises == RAISES_MAX) return;
    attempt->raises++;
    attempt->current |= askable;
    attempt->waiting |= askable;
    actions->raise = askable;
    actions->fence = attempt->fence;
}

/* ---- counting ----------------------------------------------------------------------------- */

/* With `late`, it asks no more nodes. */
static void count(struct rl_attempt *attempt, const struct rl_event *event, bool late, rl_ns now,
                  struct rl_actions *actions) {
    struct rl_tally *tally =
        attempt->state == RL_ATTEMPT_VOTING ? &attempt->tally : &attempt->confirming;
    /* The quorum grew by a member during the attempt, and a vote may be from before or after that.
     * So a majority of both is needed. */
    if (attempt->terms->quorum > tally->quorum) tally->quorum = attempt->terms->quorum;
    const bool slots = attempt->terms->slots != 0;
    if (slots && attempt->state == RL_ATTEMPT_VOTING) settle(attempt, late, now);
    /* "If the client failed to acquire the lock for some reason": does another client hold it, or
     * is that unknown? */
    bool enough_could_vote = tally->nodes - rl_count(tally->failed) >= tally->quorum;
    /* Until the deadline, when it would be too late to confirm. */
    bool waits = attempt->state == RL_ATTEMPT_VOTING && !attempt->terms->confirm &&
                 rl_tally_may_get_steadier(tally, attempt->terms);
    if (rl_tally_won(tally) && !waits)
        majority(attempt, now, actions);
    else if (rl_tally_hopeless(tally))
        lose(attempt, enough_could_vote ? RL_OUTCOME_HELD : RL_OUTCOME_NO_QUORUM, now, actions);
    else if (attempt->state == RL_ATTEMPT_VOTING && attempt->terms->guarded && !late &&
             (!slots || attempt->slots.slot != 0)) {
        if (attempt->terms->shared)
            write_back(attempt, event, actions);
        else
            raise_fences(attempt, event, now, actions);
    }
    if (!slots) return;
    const bool won = attempt->state == RL_ATTEMPT_WON;
    if (won || (attempt->state == RL_ATTEMPT_VOTING && !late))
        ask_for_slot(attempt, event, actions);
    if (won) leave_slots(attempt, actions);
}

/* An answer to a SET or a raise. A node with our key and a fence that is too low stays pending: it
 * can still grant. A grant holds for the fence that was asked for. If that is no longer the
 * proposal, it counts as stale. */
static void record_guarded(struct rl_attempt *attempt, const struct rl_event *event) {
    rl_mask node = node_bit(attempt, event);
    if ((attempt->waiting & node) == 0 || event->vote == RL_VOTE_NONE) return;
    attempt->waiting &= (rl_mask)~node;
    bool granted = event->vote == RL_VOTE_GRANTED;
    if (granted || event->vote == RL_VOTE_STALE) {
        attempt->ours |= node;
        if (!granted || (attempt->current & node) == 0) return;
    } else {
        attempt->ours &= (rl_mask)~node;
    }
    rl_tally_vote(&attempt->tally, event->node, event->vote);
}

/* "What a node granted earlier in the same round is dropped": the node must be asked again, once it
 * may vote again. An answer still under way belongs to the outdated knowledge, and is not a grant
 * either. But a superseded incarnation is out for the whole attempt: otherwise its vote could be
 * counted together with the vote of a node that knows the newer incarnation. */
static void drop_voided(struct rl_attempt *attempt, const struct rl_event *event) {
    rl_mask voided = event->voided | event->foreign;
    attempt->tally.granted &= (rl_mask)~voided;
    attempt->slots.voted &= (rl_mask)~voided;
    for (unsigned i = 0; i < attempt->terms->nodes; i++)
        if (voided & rl_bit(i)) attempt->found[i] = 0;
    attempt->current &= (rl_mask) ~(voided & attempt->waiting);
    rl_tally_void(&attempt->tally, event->foreign);
    if (attempt->state == RL_ATTEMPT_CONFIRMING) rl_tally_void(&attempt->confirming, voided);
}

/* A late answer, after the end, is recorded for the report and decides nothing. */
static void record(struct rl_attempt *attempt, const struct rl_event *event) {
    if (event->fence > attempt->fence_seen)
        attempt->fence_seen = event->fence < RL_FENCE_MAX ? event->fence : RL_FENCE_MAX;
    bool confirms = event->node < attempt->terms->nodes &&
                    (rl_tally_pending(&attempt->confirming) & rl_bit(event->node)) != 0;
    if (confirms) /* key or fence have changed: this is a plain denial */
        rl_tally_vote(&attempt->confirming, event->node,
                      event->vote == RL_VOTE_STALE ? RL_VOTE_DENIED : event->vote);
    else if (attempt->terms->guarded && attempt->terms->shared)
        record_reader(attempt, event);
    else if (attempt->terms->slots)
        record_slot(attempt, event);
    else if (attempt->terms->guarded)
        record_guarded(attempt, event);
    else
        rl_tally_vote(&attempt->tally, event->node, event->vote);
}

/* ---- the step ----------------------------------------------------------------------------- */

static void start(struct rl_attempt *attempt, const struct rl_event *event, rl_ns now,
                  struct rl_actions *actions) {
    const struct rl_terms *terms = attempt->terms;
    /* "It gets the current time", before anything is sent. */
    attempt->t1 = attempt->asked_at = now;
    attempt->slots.settle_at = now + terms->node_timeout / 2;
    rl_tally_open(&attempt->tally, terms->nodes, terms->quorum,
                  event->ready & (rl_mask)~event->voided);
    /* a reader asks for no more than that there is one */
    int64_t fence = !terms->guarded ? 0 : terms->shared ? 1 : next_fence(attempt, event);
    if (rl_tally_hopeless(&attempt->tally) || fence > RL_FENCE_MAX) {
        /* Too few nodes can be asked. A SET now could only leave keys behind and block another
         * client. */
        rl_tally_open(&attempt->tally, terms->nodes, terms->quorum, 0);
        lose(attempt, RL_OUTCOME_NO_QUORUM, now, actions);
        return;
    }
    /* Any two majorities of the eligible nodes share a node. Mutual exclusion rests on this fact
     * alone. */
    assert(2 * attempt->tally.quorum > rl_count(attempt->tally.asked));
    attempt->fence = fence;
    attempt->current = attempt->waiting = attempt->tally.asked;
    move(attempt, RL_ATTEMPT_VOTING, now);
    /* "the client should try to send the SET commands to the N instances at the same time using
     * multiplexing" */
    actions->fresh_token = true;
    actions->acquire = attempt->tally.asked;
    actions->fence = fence;
}

void rl_attempt_step(struct rl_attempt *attempt, const struct rl_event *event, rl_ns now,
                     struct rl_actions *actions) {
    memset(actions, 0, sizeof *actions);
    actions->wake_at = RL_NEVER;

    if (attempt->state == RL_ATTEMPT_IDLE && event->type == RL_EVENT_START)
        start(attempt, event, now, actions);
    if (under_way(attempt) && (event->voided | event->foreign) != 0) drop_voided(attempt, event);
    if (attempt->state != RL_ATTEMPT_IDLE && event->type == RL_EVENT_VOTE) record(attempt, event);
    if (!under_way(attempt)) return;

    if (event->type == RL_EVENT_CANCEL) {
        lose(attempt, RL_OUTCOME_CANCELLED, now, actions);
        return;
    }
    /* "This prevents the client from remaining blocked for a long time trying to talk with a Redis
     * node which is down". Not on a VOTE: if this process is late itself, it first reads the
     * answers that wait in the sockets. */
    const rl_ns deadline = deadline_of(attempt);
    if (now >= deadline && event->type != RL_EVENT_VOTE) {
        rl_tally_close(&attempt->tally);
        if (attempt->state == RL_ATTEMPT_CONFIRMING) rl_tally_close(&attempt->confirming);
        count(attempt, event, true, now, actions);
        assert(!under_way(attempt));
        return;
    }
    count(attempt, event, now >= deadline, now, actions);
    if (!under_way(attempt)) return;
    actions->wake_at = deadline_of(attempt);
    const bool chooses = attempt->terms->slots != 0 && attempt->slots.slot == 0;
    if (chooses && now < attempt->slots.settle_at) actions->wake_at = attempt->slots.settle_at;
}
