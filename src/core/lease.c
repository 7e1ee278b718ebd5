/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A lease: renewal, the caller's extension, loss, release. core.h explains the fields. Quotations
 * are from the Redlock page ("Distributed Locks with Redis").
 *
 * A round asks all ready nodes to extend the key. When a majority has done so, the round is proven
 * and the lease is HELD. When a round fails, the lease is UNSURE until a later round is proven or
 * validity ends. A caller may adopt a lock that it knows by its token only: the lease then has no
 * validity (state NONE) until a round is proven. Nobody knows what has happened to that lock: it
 * may have been lost, another client may have held it since, and late SETs may have brought its
 * keys back. So in guarded mode an adoption is a grant of its own, with a new fencing token.
 *
 * Every node gets the key: a lock on the barest majority is one restart away from its loss. A node
 * that could not be asked is given the key when it is ready, and a node that lost it gets it back,
 * as long as the lease holds by our own clock. What was set counts once an extension has found it.
 *
 * Other implementations broke three rules. A lost lock stays lost: no key is set again for it. An
 * extension counts only when a majority has answered inside the validity that it extends.
 * The step checks the time before any event: a process that was stopped past its TTL learns of the
 * loss before it believes a late vote. */
#include "core/core.h"

#include <assert.h>
#include <string.h>

void rl_lease_init(struct rl_lease *lease, struct rl_lease_work *work, const struct rl_terms *terms,
                   const struct rl_lease_rules *rules) {
    assert(terms->nodes >= 1 && terms->nodes <= RL_NODES_MAX && terms->quorum >= 1);
    assert(terms->guarded || terms->quorum == rl_quorum(terms->nodes));
    assert(rules->renew_every >= 0 && rules->hold_max >= 0 && rules->lost_margin >= 0);
    memset(lease, 0, sizeof *lease);
    rl_lease_lend(lease, work, terms, rules);
    lease->drift_ppm = terms->drift_ppm;
    lease->renew_at = RL_NEVER;
}

void rl_lease_lend(struct rl_lease *lease, struct rl_lease_work *work, const struct rl_terms *terms,
                   const struct rl_lease_rules *rules) {
    memset(work, 0, sizeof *work);
    work->terms = terms;
    work->rules = rules;
    lease->work = work;
}

bool rl_lease_rests(const struct rl_lease *lease) {
    return !lease->work ||
           (!lease->round_open && lease->work->want_ttl == 0 && lease->state != RL_LEASE_RELEASING);
}

static const unsigned char allowed[] = {
    [RL_LEASE_NONE] = 1 << RL_LEASE_HELD | 1 << RL_LEASE_LOST | 1 << RL_LEASE_RELEASING,
    [RL_LEASE_HELD] = 1 << RL_LEASE_UNSURE | 1 << RL_LEASE_LOST | 1 << RL_LEASE_RELEASING,
    [RL_LEASE_UNSURE] = 1 << RL_LEASE_HELD | 1 << RL_LEASE_LOST | 1 << RL_LEASE_RELEASING,
    [RL_LEASE_LOST] = 1 << RL_LEASE_RELEASING, /* never back to HELD */
    [RL_LEASE_RELEASING] = 1 << RL_LEASE_RELEASED,
    [RL_LEASE_RELEASED] = 0,
};

bool rl_lease_holds(const struct rl_lease *lease) {
    return lease->state == RL_LEASE_HELD || lease->state == RL_LEASE_UNSURE;
}

/* Adopted, and no round is proven yet. */
static bool unproven(const struct rl_lease *lease) {
    return lease->state == RL_LEASE_NONE && lease->adopted;
}

/* The next proven round brings a new fencing token. */
static bool needs_token(const struct rl_lease *lease) {
    return unproven(lease) && lease->work->terms->guarded;
}

/* The only place where the state changes. */
static void move(struct rl_lease *lease, enum rl_lease_state to, rl_ns now) {
    assert(allowed[lease->state] & 1 << to);
    (void)allowed;
    if (to == RL_LEASE_HELD) assert(lease->validity_end > now);
    if (to == RL_LEASE_HELD && (lease->adopted || lease->state == RL_LEASE_UNSURE))
        assert(lease->round_proven &&
               rl_count(lease->work->round.granted) >= lease->work->round.quorum);
    if (to == RL_LEASE_HELD && needs_token(lease))
        assert(lease->fence > 0 && (lease->work->round.granted & ~lease->work->extended) == 0);
    if (to != RL_LEASE_HELD && to != RL_LEASE_UNSURE)
        assert(!lease->round_open && lease->work->want_ttl == 0);
    (void)now;
    lease->state = (uint8_t)to;
}

rl_ns rl_lease_validity(const struct rl_lease *lease, rl_ns now) {
    return rl_lease_holds(lease) && now < lease->validity_end ? lease->validity_end - now : 0;
}

void rl_lease_void(struct rl_lease *lease, rl_ns now) {
    if (rl_lease_holds(lease) && now < lease->validity_end) lease->validity_end = now;
}

void rl_lease_disown(struct rl_lease *lease) {
    lease->disowned = true;
    lease->renew_at = RL_NEVER;
}

static rl_ns lost_at(const struct rl_lease *lease) {
    return lease->validity_end - lease->work->rules->lost_margin;
}

/* Of a TTL, with the allowance in force. */
static rl_ns drift(const struct rl_lease *lease, rl_ns ttl) {
    return rl_drift_at(lease->work->terms, lease->drift_ppm, ttl);
}

/* With which so many of these nodes' clocks are covered, and all that were before. */
static uint32_t allowance(const struct rl_lease *lease, rl_mask nodes, unsigned quorum) {
    const uint32_t ppm = rl_allowance(lease->work->terms, nodes, quorum);
    return ppm > lease->drift_ppm ? ppm : lease->drift_ppm;
}

/* Clocks were measured to run faster than the allowance covers, and may have done so since the keys
 * were set. */
static void shorten_for_rates(struct rl_lease *lease, rl_ns now) {
    const uint32_t before = lease->drift_ppm;
    lease->drift_ppm = allowance(lease, lease->provers, lease->proven_quorum);
    if (lease->drift_ppm == before) return;
    const rl_ns end = lease->keys_end - drift(lease, lease->keys_ttl);
    if (end < lease->validity_end) lease->validity_end = end;
    if (lease->renew_at != RL_NEVER && lease->renew_at >= lost_at(lease)) lease->renew_at = now;
}

/* The listed nodes that may be members of the quorum. In classic mode all are. */
static rl_mask members(const struct rl_lease *lease, const struct rl_event *event) {
    return rl_all(lease->work->terms->nodes) & (rl_mask)~event->foreign;
}

/* Called when a majority has proven the lease: the release counts these members, too. */
static void note_members(struct rl_lease *lease, const struct rl_event *event) {
    lease->proven_members = members(lease, event);
    lease->proven_quorum = lease->work->terms->quorum;
}

/* An open round ends with the lease, and so does the wait of a caller. */
static void drop_rounds(struct rl_lease *lease, struct rl_actions *actions) {
    bool caller_waits = lease->work->want_ttl != 0 ||
                        (lease->round_open && lease->round_by_caller && !lease->round_proven);
    if (caller_waits) actions->extend_outcome = RL_OUTCOME_LOST;
    lease->round_open = false;
    lease->work->want_ttl = 0;
}

static void lose(struct rl_lease *lease, rl_ns now, struct rl_actions *actions) {
    drop_rounds(lease, actions);
    /* a lease that was never proven cannot be reported as lost */
    if (rl_lease_holds(lease)) actions->notices |= RL_NOTICE_LOST;
    move(lease, RL_LEASE_LOST, now);
}

/* ---- when the next renewal is due --------------------------------------------------------- */

/* The quorum's ttl_max was lowered: renewals have less to gain, and come more often. */
static bool is_cut(const struct rl_lease *lease) {
    return lease->work->terms->ttl_max != 0 &&
           lease->work->terms->ttl > lease->work->terms->ttl_max;
}

static bool renews(const struct rl_lease *lease) {
    return lease->work->rules->renew_every != 0 && !lease->disowned;
}

static rl_ns renew_every(const struct rl_lease *lease) {
    const rl_ns every = lease->work->rules->renew_every;
    if (!is_cut(lease)) return every;
    const rl_ns in_proportion = every / RL_MS * (lease->work->terms->ttl_max / RL_MS) /
                                (lease->work->terms->ttl / RL_MS) * RL_MS;
    return in_proportion > RL_MS ? in_proportion : RL_MS;
}

static void schedule_renewal(struct rl_lease *lease, rl_ns base, rl_ns now) {
    lease->renew_at = RL_NEVER;
    if (!renews(lease) || now >= lost_at(lease)) return;
    lease->renew_at = base + renew_every(lease);
    /* A late answer: not in the same step, which reports one outcome. */
    if (lease->renew_at <= now) lease->renew_at = now + RL_MS;
    /* Little validity was left (a slow win, a shortened last renewal), so the regular interval
     * would end too late. */
    if (lease->renew_at >= lost_at(lease)) lease->renew_at = now + (lost_at(lease) - now) / 2;
}

/* A quarter of the time that is left: several retries fit before the loss. */
static void schedule_retry(struct rl_lease *lease, rl_ns now) {
    if (!renews(lease) || !rl_lease_holds(lease)) return;
    rl_ns pause = (lost_at(lease) - now) / 4;
    if (pause > lease->work->terms->node_timeout) pause = lease->work->terms->node_timeout;
    if (pause < RL_MS) pause = RL_MS;
    lease->renew_at = now + pause;
}

static bool renewals_used_up(const struct rl_lease *lease) {
    return lease->work->rules->renewals_max != 0 &&
           lease->renewals >= lease->work->rules->renewals_max;
}

/* "the maximum number of lock reacquisition attempts should be limited, otherwise one of the
 * liveness properties is violated". Returns the TTL to renew with, shortened so that validity ends
 * within hold_max. 0: no renewal, or nothing to gain. */
static rl_ns renewal_ttl(const struct rl_lease *lease, rl_ns now) {
    rl_ns ttl = lease->work->terms->ttl;
    /* With a shorter TTL the lease goes on; without, it ends. */
    if (is_cut(lease)) ttl = lease->work->terms->ttl_max;
    if (renewals_used_up(lease)) return 0;
    if (lease->work->rules->hold_max == 0) return ttl;
    rl_ns hold_left = lease->began + lease->work->rules->hold_max - now;
    if (ttl - drift(lease, ttl) <= hold_left) return ttl;
    /* After the first shortened renewal only the drift is left to gain. That is worth neither a
     * round nor the alarm if the round fails. */
    if (now + hold_left - lease->validity_end <= drift(lease, lease->work->terms->ttl)) return 0;
    return hold_left - hold_left % RL_MS; /* PEXPIRE takes whole milliseconds */
}

static bool beyond_limits(const struct rl_lease *lease, rl_ns ttl, rl_ns now) {
    if (renewals_used_up(lease)) return true;
    if (lease->work->rules->hold_max == 0) return false;
    return now + ttl - drift(lease, ttl) > lease->began + lease->work->rules->hold_max;
}

/* ---- the announcement --------------------------------------------------------------------- */

/* Observers need it from one node, and it ends with the TTL. So it is repeated with each renewal,
 * and no answer is awaited. It is sent only by a lease that is proven: whoever reads it knows that
 * this token was granted with this fence. */
static void announce(const struct rl_lease *lease, const struct rl_event *event,
                     struct rl_actions *actions) {
    assert(lease->state == RL_LEASE_HELD);
    if (lease->work->terms->announces && lease->work->terms->guarded)
        actions->announce = event->ready & rl_all(lease->work->terms->nodes);
}

/* ---- the fencing token of an adopted lock -------------------------------------------------- */

/* A round that fails although a majority has extended is tried again: some fence was too high. */
#define RAISES_MAX 8

static bool propose(struct rl_lease *lease, const struct rl_event *event) {
    if (!needs_token(lease)) return true;
    const int64_t seen = lease->fence > lease->fence_seen ? lease->fence : lease->fence_seen;
    lease->fence = rl_fence_above(seen, event->fence_hint);
    lease->work->raises++;
    return lease->fence <= RL_FENCE_MAX;
}

/* An extension is not a vote yet. The node is asked to raise its fence strictly, if the key is
 * still ours: then this token is above that of every holder before, and every later one is above
 * it. Only a release by this token or a break deletes the key in between, and either ends the lock.
 */
static bool raises_fence(struct rl_lease *lease, const struct rl_event *event,
                         struct rl_actions *actions) {
    const rl_mask node = rl_bit(event->node);
    if (event->fence > lease->fence_seen && event->fence <= RL_FENCE_MAX)
        lease->fence_seen = event->fence;
    if ((rl_tally_pending(&lease->work->round) & node) == 0) return false;
    if (event->vote != RL_VOTE_STALE && event->vote != RL_VOTE_GRANTED)
        lease->work->extended &= (rl_mask)~node; /* a higher fence would be refused as well */
    if (event->vote != RL_VOTE_GRANTED || (lease->work->extended & node)) return false;
    lease->work->extended |= node;
    actions->raise = node;
    actions->fence = lease->fence;
    return true;
}

/* The keys are ours on a majority, or may be by the answers to come, and only the fences were not
 * raised. */
static bool may_raise_again(const struct rl_lease *lease) {
    const rl_mask extended = lease->work->extended | rl_tally_pending(&lease->work->round);
    return rl_count(extended) >= lease->work->round.quorum && lease->work->raises < RAISES_MAX;
}

/* No node is asked twice at a time. */
static bool raise_is_open(const struct rl_lease *lease) {
    return (rl_tally_pending(&lease->work->round) & lease->work->extended) != 0 ||
           rl_count(lease->work->extended) < lease->work->round.quorum;
}

/* ---- nodes without the key ---------------------------------------------------------------- */

/* The key must last as long as those that prove the lease, after a longer extension, say. */
static rl_ns key_ttl(const struct rl_lease *lease, rl_ns now) {
    const rl_ns left = lease->keys_end - now;
    return lease->round_open && lease->work->round_ttl > left ? lease->work->round_ttl : left;
}

/* Sets the key again. While the lease holds, no other client has a majority: on one node of each
 * majority the key was ours all the time, or that node does not vote yet (classic: it votes at
 * once, and a client that lost its keys there may be one of two holders, whatever it sets now).
 *
 * From one proof to the next this is done on less than a majority, and keys that we set since are
 * no proof by themselves, when the quorum shrinks, say. So if all nodes were without the key at one
 * moment, no later round is won: a break (break.h) rests on that. */
static void set_again(struct rl_lease *lease, rl_mask nodes, const struct rl_event *event,
                      rl_ns now, struct rl_actions *actions) {
    assert(rl_lease_holds(lease) && now < lease->validity_end);
    nodes &= (rl_mask) ~(lease->repaired | event->voided);
    for (unsigned i = 0; nodes >> i; i++) {
        if (!(nodes & rl_bit(i)) || rl_count(lease->set | rl_bit(i)) >= lease->work->terms->quorum)
            continue;
        lease->set |= rl_bit(i);
        lease->repaired |= rl_bit(i);
        lease->asked |= rl_bit(i);
        lease->late &= (rl_mask)~rl_bit(i);
        actions->repair |= rl_bit(i);
    }
    actions->repair_ttl = key_ttl(lease, now);
}

/* When nodes that are behind are asked. In a loop of extensions the next round asks them before. */
static rl_ns behind_until(const struct rl_lease *lease) {
    const rl_ns since = lease->round_t1 > lease->began ? lease->round_t1 : lease->began;
    return since + lease->work->terms->node_timeout / 2;
}

/* An adoption asks a node up to three times: to extend the key, once more after its record was read
 * again, and to raise its fence. */
static rl_ns round_deadline(const struct rl_lease *lease) {
    return lease->round_t1 + (needs_token(lease) ? 3 : 1) * lease->work->terms->node_timeout;
}

static bool lacks_proof(const struct rl_lease *lease) {
    return lease->round_open && !lease->round_proven;
}
/* Too few nodes have answered in time. */
static bool is_overdue(const struct rl_lease *lease, rl_ns now) {
    return lacks_proof(lease) && now >= round_deadline(lease);
}
static bool is_in_time(const struct rl_lease *lease, rl_ns now) {
    return lacks_proof(lease) && !is_overdue(lease, now);
}

/* Nodes that the last proof could not ask. One that may have the key extends it first. */
static void give_to_late(struct rl_lease *lease, const struct rl_event *event, rl_ns now,
                         struct rl_actions *actions) {
    lease->late &= (rl_mask)~event->foreign;
    if (now >= behind_until(lease)) lease->behind = 0;
    if (!rl_lease_holds(lease) || is_in_time(lease, now)) return;
    const rl_mask nodes = lease->late & event->ready & (rl_mask) ~(lease->behind | event->voided);
    if (nodes == 0) return;
    lease->late &= (rl_mask)~nodes;
    lease->repaired &= (rl_mask)~nodes;
    actions->catch_up = nodes & lease->asked;
    set_again(lease, nodes & (rl_mask)~lease->asked, event, now, actions);
}

/* ---- a round of extensions ---------------------------------------------------------------- */

static void become_unsure(struct rl_lease *lease, rl_ns now, struct rl_actions *actions) {
    if (lease->state == RL_LEASE_HELD) {
        move(lease, RL_LEASE_UNSURE, now);
        actions->notices |= RL_NOTICE_UNSURE;
    }
    schedule_retry(lease, now);
}

static void round_failed(struct rl_lease *lease, rl_ns now, struct rl_actions *actions) {
    lease->round_open = false;
    if (lease->round_by_caller) actions->extend_outcome = RL_OUTCOME_NO_QUORUM;
    become_unsure(lease, now, actions);
}

static void open_round(struct rl_lease *lease, const struct rl_event *event, rl_ns ttl,
                       bool by_caller, rl_ns now, struct rl_actions *actions) {
    /* A node that gets the key in this step is not asked: that answer would be counted here. */
    rl_mask can_ask = event->ready & (rl_mask) ~(actions->repair | event->voided);
    rl_tally_open(&lease->work->round, lease->work->terms->nodes, lease->work->terms->quorum,
                  can_ask);
    /* two majorities share a node */
    assert(2 * lease->work->round.quorum > rl_count(lease->work->round.asked));
    lease->round_open = true;
    lease->round_by_caller = by_caller;
    lease->round_proven = false;
    lease->repaired = 0;
    lease->work->extended = 0;
    lease->round_t1 = now;
    lease->work->round_ttl = ttl;
    if (rl_tally_hopeless(&lease->work->round) || !propose(lease, event)) {
        /* nothing is sent, so no node is asked */
        rl_tally_open(&lease->work->round, lease->work->terms->nodes, lease->work->terms->quorum,
                      0);
        round_failed(lease, now, actions);
        return;
    }
    lease->late = rl_all(lease->work->terms->nodes) & (rl_mask)~lease->work->round.asked;
    lease->behind = lease->late & event->busy;
    actions->extend = lease->work->round.asked;
    actions->extend_ttl = ttl;
}

/* "Basically the client, if in the middle of the computation while the lock validity is approaching
 * a low value, may extend the lock by sending a Lua script ... The client should only consider the
 * lock re-acquired if it was able to extend the lock into the majority of instances, and within the
 * validity time." */
static void round_won(struct rl_lease *lease, const struct rl_event *event, rl_ns now,
                      struct rl_actions *actions) {
    const uint32_t ppm = allowance(lease, lease->work->round.granted, lease->work->round.quorum);
    rl_ns validity_end = lease->round_t1 + lease->work->round_ttl -
                         rl_drift_at(lease->work->terms, ppm, lease->work->round_ttl);
    assert(rl_count(lease->work->round.granted) >= lease->work->round.quorum);
    assert(unproven(lease) || now < lease->validity_end);
    if (unproven(lease) && validity_end <= now) {
        /* a majority extended, but too late to know until when */
        round_failed(lease, now, actions);
        return;
    }
    bool was_proven = !unproven(lease);
    lease->round_proven = true;
    lease->set &= (rl_mask)~lease->work->round.asked; /* elsewhere a SET may be under way */
    lease->gone = 0;
    note_members(lease, event);
    lease->renewals++;
    if (validity_end > lease->validity_end) { /* never shortens */
        lease->validity_end = validity_end;
        lease->drift_ppm = ppm; /* of no other end */
        lease->keys_end = lease->round_t1 + lease->work->round_ttl;
        lease->keys_ttl = lease->work->round_ttl;
        lease->provers = 0; /* judge_round() adds them, late ones too */
    }
    if (lease->state == RL_LEASE_UNSURE) actions->notices |= RL_NOTICE_SURE;
    if (lease->state != RL_LEASE_HELD) move(lease, RL_LEASE_HELD, now);
    if (lease->round_by_caller)
        actions->extend_outcome = RL_OUTCOME_OK;
    else
        actions->notices |= RL_NOTICE_RENEWED;
    /* A caller's short extension must not delay the renewal: it may have gained nothing. */
    if (!lease->round_by_caller || !was_proven || lease->work->round_ttl >= lease->work->terms->ttl)
        schedule_renewal(lease, lease->round_t1, now);
    announce(lease, event, actions);
    set_again(lease, lease->work->round.absent, event, now, actions);
}

/* No later round can win if the key is not ours on these nodes. */
static bool majority_gone(const struct rl_lease *lease, rl_mask not_ours) {
    /* the quorum may have shrunk by a member since the round began */
    unsigned quorum = lease->work->terms->quorum < lease->work->round.quorum
                          ? lease->work->terms->quorum
                          : lease->work->round.quorum;
    return lease->work->terms->nodes - rl_count(not_ours) < quorum;
}

/* The round lacks a majority, and nodes that never had the key may make it one: they get it, and
 * then a new round asks all. Where the key is gone, an operator may have broken the lock. */
static bool regains(struct rl_lease *lease, const struct rl_event *event, rl_ns now,
                    struct rl_actions *actions) {
    struct rl_tally *round = &lease->work->round;
    const rl_mask never = round->absent & (rl_mask)~lease->gone;
    if (!rl_lease_holds(lease) ||
        rl_count(round->granted | never | rl_tally_pending(round)) < round->quorum)
        return false;
    set_again(lease, never, event, now, actions);
    round->absent &= (rl_mask)~actions->repair;
    return !rl_tally_hopeless(round);
}

/* This round is the last one that prolonged the lease. */
static void note_provers(struct rl_lease *lease) {
    if (lease->round_proven && lease->keys_end == lease->round_t1 + lease->work->round_ttl)
        lease->provers |= lease->work->round.granted;
}

/* While the round is open, a majority is not needed at once. */
static bool waits_for_steadier(const struct rl_lease *lease) {
    return (unproven(lease) || round_deadline(lease) < lost_at(lease)) &&
           rl_tally_may_get_steadier(&lease->work->round, lease->work->terms);
}

/* One node of the majority has had the key since the last proof. */
static bool is_proof(const struct rl_lease *lease) {
    return rl_tally_won(&lease->work->round) &&
           (unproven(lease) || (lease->work->round.granted & (rl_mask)~lease->set) != 0);
}

static void judge_round(struct rl_lease *lease, const struct rl_event *event, rl_ns now,
                        struct rl_actions *actions) {
    const rl_mask not_ours = lease->work->round.denied | lease->work->round.absent;
    if (lease->round_proven) {
        /* one that is not ready may have a late extension of ours under way */
        set_again(lease, lease->work->round.absent & event->ready, event, now, actions);
    } else if (is_proof(lease)) {
        if (!waits_for_steadier(lease)) round_won(lease, event, now, actions);
    } else if (majority_gone(lease, not_ours)) {
        /* So many nodes report that the key is not ours that no extension can win. Setting the key
         * again would be a second lock, not this one. */
        lose(lease, now, actions);
    } else if (rl_tally_hopeless(&lease->work->round) && may_raise_again(lease)) {
        if (raise_is_open(lease)) return;
        lease->round_open = false;
        lease->work->want_ttl = lease->work->round_ttl; /* for the next round, in this step */
    } else if (rl_tally_hopeless(&lease->work->round) &&
               !majority_gone(lease, not_ours | rl_tally_pending(&lease->work->round))) {
        /* Else the answers that are still to come may show that the lock is gone: with some nodes
         * out of reach, one report of a missing key already means that this round cannot win. */
        if (!regains(lease, event, now, actions)) round_failed(lease, now, actions);
    } else if (rl_tally_pending(&lease->work->round) == 0) {
        round_failed(lease, now, actions);
    }
    note_provers(lease);
    if (rl_tally_pending(&lease->work->round) == 0) lease->round_open = false;
}

static void note_key(struct rl_lease *lease, const struct rl_event *event, rl_ns now) {
    const rl_mask bit = rl_bit(event->node);
    if (event->vote == RL_VOTE_GRANTED) lease->kept |= bit;
    /* A vote of the acquisition, which came after the win; but it may be for another slot. */
    const bool first = lease->renewals == 0 && !lease->round_open && lease->work->terms->slots == 0;
    if (event->vote == RL_VOTE_GRANTED && first) lease->provers |= bit;
    if (event->vote == RL_VOTE_DENIED && first && now < behind_until(lease)) {
        lease->late |= bit;
        lease->behind |= bit;
    }
    if (event->vote == RL_VOTE_DENIED || event->vote == RL_VOTE_ABSENT) {
        lease->gone |= lease->kept & bit;
        lease->kept &= (rl_mask)~bit;
        lease->provers &= (rl_mask)~bit;
    }
    /* the connection was lost before the answer came */
    if (event->vote == RL_VOTE_FAILED && !(event->ready & bit)) lease->late |= bit;
}

/* A majority can be asked: an open round gives way to a new one. */
static bool may_ask_again(const struct rl_lease *lease, const struct rl_event *event) {
    return rl_count(event->ready & (rl_mask)~event->voided) >= lease->work->terms->quorum;
}

/* The answer to a SET of a round that lacks a majority. It proves nothing, nor do votes that came
 * before it: between the two the key may have been gone from all nodes, by a break or a release
 * elsewhere, and another client may have the lock. So all are asked anew. */
static bool was_regained(struct rl_lease *lease, const struct rl_event *event, rl_ns now,
                         struct rl_actions *actions) {
    const rl_mask bit = rl_bit(event->node);
    if (!lease->round_open || event->vote != RL_VOTE_GRANTED ||
        !(lease->repaired & rl_tally_pending(&lease->work->round) & bit))
        return false;
    assert(!lease->round_proven); /* a proven round asks no node that got its key in it */
    /* the renewal may have begun a while ago */
    const rl_ns ttl = lease->round_by_caller ? lease->work->round_ttl : renewal_ttl(lease, now);
    if (ttl != 0 && may_ask_again(lease, event))
        open_round(lease, event, ttl, lease->round_by_caller, now, actions);
    return true;
}

static void vote(struct rl_lease *lease, const struct rl_event *event, rl_ns now,
                 struct rl_actions *actions) {
    if (event->node >= lease->work->terms->nodes) return;
    if (rl_lease_holds(lease)) note_key(lease, event, now);
    if (was_regained(lease, event, now, actions)) return;
    if (needs_token(lease) && lease->round_open && raises_fence(lease, event, actions)) return;
    if (lease->round_open && rl_tally_vote(&lease->work->round, event->node, event->vote))
        judge_round(lease, event, now, actions);
    else if (event->vote == RL_VOTE_ABSENT && rl_lease_holds(lease) && !lease->round_open)
        set_again(lease, rl_bit(event->node), event, now, actions); /* it was late */
}

/* Guarded. The knowledge of the nodes has changed since they were asked. Votes of nodes that are no
 * longer eligible are dropped. When the quorum grew by a member, a majority of both the old and the
 * new one is needed. */
static void reconsider(struct rl_lease *lease, const struct rl_event *event, rl_ns now,
                       struct rl_actions *actions) {
    if (!lease->work->terms->guarded || !lacks_proof(lease)) return;
    bool grown = lease->work->terms->quorum > lease->work->round.quorum;
    if (grown) lease->work->round.quorum = lease->work->terms->quorum;
    if (rl_tally_void(&lease->work->round, event->voided) || grown)
        judge_round(lease, event, now, actions);
}

/* A renewal whose answers are late is not wasted: they prove the lease from the time at which the
 * round began. Where many clients renew on a node that is slow for a while, none would otherwise
 * ever be renewed, because each would ask again as soon as a late answer has come. */
static bool stays_open(const struct rl_lease *lease) {
    return renews(lease) && !lease->round_by_caller && !is_proof(lease);
}

static void close_late_round(struct rl_lease *lease, const struct rl_event *event, rl_ns now,
                             struct rl_actions *actions) {
    if (!lease->round_open || now < round_deadline(lease)) return;
    if (stays_open(lease)) {
        if (lease->renew_at == RL_NEVER) become_unsure(lease, now, actions);
        return;
    }
    rl_tally_close(&lease->work->round);
    if (!lease->round_proven && is_proof(lease))
        judge_round(lease, event, now, actions);
    else if (!lease->round_proven)
        round_failed(lease, now, actions);
    lease->round_open = false;
}

/* A renewal is due, or its retry. */
static void renew(struct rl_lease *lease, const struct rl_event *event, rl_ns now,
                  struct rl_actions *actions) {
    if (is_overdue(lease, now) && !may_ask_again(lease, event)) {
        schedule_retry(lease, now);
        return;
    }
    rl_ns ttl = renewal_ttl(lease, now);
    /* full: too many renewals of this client are under way */
    actions->renewal_waits = event->full && ttl != 0;
    if (actions->renewal_waits) return;
    lease->renew_at = RL_NEVER;
    if (ttl != 0) open_round(lease, event, ttl, false, now, actions);
}

/* One round at a time. A proven round only waits for late answers, as one that is overdue does, and
 * gives way to the next. The caller's round goes first. */
static void next_round(struct rl_lease *lease, const struct rl_event *event, rl_ns now,
                       struct rl_actions *actions) {
    if (is_in_time(lease, now)) return;
    if (lease->work->want_ttl != 0) {
        rl_ns ttl = lease->work->want_ttl;
        lease->work->want_ttl = 0;
        if (beyond_limits(lease, ttl, now))
            actions->extend_outcome = RL_OUTCOME_LIMIT;
        else
            open_round(lease, event, ttl, true, now, actions);
    } else if (rl_lease_holds(lease) && now >= lease->renew_at) {
        renew(lease, event, now, actions);
    }
}

static void want_extension(struct rl_lease *lease, const struct rl_event *event,
                           struct rl_actions *actions) {
    assert(event->ttl > 0 && lease->work->want_ttl == 0);
    assert(!lease->round_open || !lease->round_by_caller || lease->round_proven);
    lease->work->raises = 0;
    if (rl_lease_holds(lease) || unproven(lease))
        lease->work->want_ttl = event->ttl;
    else
        actions->extend_outcome = RL_OUTCOME_LOST;
}

/* ---- release ------------------------------------------------------------------------------ */

/* Whether the key was ours all the time on a majority of one list of members, by the answers so
 * far. OPEN: answers that are still to come may show it. UNCERTAIN: they cannot. */
enum ownership { OPEN, WAS_OURS, NOT_OURS, UNCERTAIN };

static enum ownership by_list(const struct rl_lease *lease, rl_mask list, unsigned quorum) {
    const struct rl_tally *votes = &lease->work->unlocking;
    unsigned deleted = rl_count(votes->granted & list & lease->kept);
    unsigned not_ours = rl_count((votes->denied | votes->absent) & list);
    if (deleted >= quorum) return WAS_OURS;
    if (rl_count(list) - not_ours < quorum) return NOT_OURS;
    const rl_mask pending = rl_tally_pending(votes) & list;
    if (deleted + rl_count(pending & lease->kept) >= quorum) return OPEN;
    /* Where nothing proves the lease, it is worth the wait to know that the key was not ours. */
    const bool proven = lease->proven_members != 0;
    return !proven && rl_count(list) - not_ours - rl_count(pending) < quorum ? OPEN : UNCERTAIN;
}

/* OK: a majority deleted our key, which it has held all the time. LOST: so many nodes did not have
 * it that no majority was ours, whatever the silent nodes hold. Else NO_QUORUM: the silent nodes
 * decide.
 *
 * A majority of which members? A key on a node that is no longer a member says nothing: the present
 * members may have granted the lock to another client. But the lease that runs was proven by the
 * members of that time. When a member was added since, its keys may be too few for a majority of
 * the present members, and still no other client can have the lock. So both lists count while the
 * lease runs, and only the present one afterwards. */
static void count_unlocked(struct rl_lease *lease, const struct rl_event *event, rl_ns now,
                           struct rl_actions *actions) {
    const rl_mask list = members(lease, event);
    const unsigned quorum = lease->work->terms->quorum;
    enum ownership present = by_list(lease, list, quorum), proven = present;
    if (lease->proven_members != 0 &&
        (lease->proven_members != list || lease->proven_quorum != quorum))
        proven = by_list(lease, lease->proven_members, lease->proven_quorum);
    if (present == WAS_OURS || proven == WAS_OURS)
        actions->outcome = RL_OUTCOME_OK;
    else if (present == NOT_OURS && proven == NOT_OURS)
        actions->outcome = RL_OUTCOME_LOST;
    else if (present != OPEN && proven != OPEN)
        actions->outcome = RL_OUTCOME_NO_QUORUM;
    else
        return;
    move(lease, RL_LEASE_RELEASED, now);
}

static void release(struct rl_lease *lease, const struct rl_event *event, rl_ns now,
                    struct rl_actions *actions) {
    if (lease->state == RL_LEASE_RELEASING || lease->state == RL_LEASE_RELEASED) return;
    if (!rl_lease_holds(lease)) lease->proven_members = 0;
    if (lease->state != RL_LEASE_LOST) lease->kept = rl_all(lease->work->terms->nodes);
    drop_rounds(lease, actions);
    move(lease, RL_LEASE_RELEASING, now);
    rl_tally_open(&lease->work->unlocking, lease->work->terms->nodes, lease->work->terms->quorum,
                  lease->asked);
    /* The tally counts a node that is not asked as failed. Here it is certain to have no key of
     * ours. */
    lease->work->unlocking.absent = lease->work->unlocking.failed;
    lease->work->unlocking.failed = 0;
    lease->unlocking_since = now;
    actions->release = lease->asked;
    count_unlocked(lease, event, now, actions);
}

static void close_late_release(struct rl_lease *lease, const struct rl_event *event, rl_ns now,
                               struct rl_actions *actions) {
    if (lease->state != RL_LEASE_RELEASING ||
        now < lease->unlocking_since + lease->work->terms->node_timeout)
        return;
    rl_tally_close(&lease->work->unlocking);
    count_unlocked(lease, event, now, actions);
    assert(lease->state == RL_LEASE_RELEASED);
}

/* ---- the step ----------------------------------------------------------------------------- */

struct rl_event rl_lease_start(const struct rl_attempt *won) {
    return (struct rl_event){.type = RL_EVENT_START,
                             .validity_end = won->validity_end,
                             .drift_ppm = won->drift_ppm,
                             .asked = won->tally.asked,
                             .granted = won->tally.granted,
                             .denied = won->tally.denied};
}

static void start(struct rl_lease *lease, const struct rl_event *event, rl_ns now,
                  struct rl_actions *actions) {
    lease->began = now;
    lease->asked = event->asked & rl_all(lease->work->terms->nodes);
    lease->kept = event->granted & lease->asked;
    lease->set = lease->asked & (rl_mask)~lease->kept;
    lease->late = rl_all(lease->work->terms->nodes) & (rl_mask)~lease->asked;
    if (lease->work->terms->slots == 0) lease->behind = event->denied;
    lease->late |= lease->behind;
    lease->adopted = event->validity_end == 0; /* the caller knows no validity */
    lease->fence_seen = event->fence;
    if (lease->adopted) return; /* this proves nothing: the state is NONE until an extension does */
    lease->validity_end = event->validity_end;
    if (event->drift_ppm > lease->drift_ppm) lease->drift_ppm = event->drift_ppm;
    lease->keys_ttl = lease->work->terms->ttl;
    lease->keys_end = event->validity_end + drift(lease, lease->keys_ttl);
    lease->provers = lease->kept;
    if (lease->work->rules->hold_max != 0 &&
        now + lease->work->rules->hold_max < lease->validity_end)
        lease->validity_end = now + lease->work->rules->hold_max;
    if (now >= lease->validity_end) {
        actions->notices |= RL_NOTICE_LOST;
        move(lease, RL_LEASE_LOST, now);
        return;
    }
    note_members(lease, event);
    move(lease, RL_LEASE_HELD, now);
    schedule_renewal(lease, now, now);
    announce(lease, event, actions);
}

static rl_ns wake_at(const struct rl_lease *lease, rl_ns now, bool renewal_waits) {
    if (lease->state == RL_LEASE_RELEASING)
        return lease->unlocking_since + lease->work->terms->node_timeout;
    rl_ns at = RL_NEVER;
    if (rl_lease_holds(lease)) at = lost_at(lease);
    /* a late vote may come before the step that finds the round overdue */
    const bool noted = is_overdue(lease, now) && lease->renew_at != RL_NEVER;
    if (lease->round_open && !noted && round_deadline(lease) < at) at = round_deadline(lease);
    const bool waits = rl_lease_holds(lease) && (lease->late & lease->behind) != 0;
    if (waits && behind_until(lease) < at) at = behind_until(lease);
    bool may_renew = rl_lease_holds(lease) && !renewal_waits && !is_in_time(lease, now);
    if (may_renew && lease->renew_at < at) at = lease->renew_at;
    return at;
}

void rl_lease_step(struct rl_lease *lease, const struct rl_event *event, rl_ns now,
                   struct rl_actions *actions) {
    memset(actions, 0, sizeof *actions);
    if (event->type == RL_EVENT_START && lease->state == RL_LEASE_NONE)
        start(lease, event, now, actions);
    if (rl_lease_holds(lease)) shorten_for_rates(lease, now);
    if (rl_lease_holds(lease) && now >= lost_at(lease)) lose(lease, now, actions);

    reconsider(lease, event, now, actions);
    switch (event->type) {
    case RL_EVENT_VOTE: vote(lease, event, now, actions); break;
    case RL_EVENT_UNLOCKED:
        if (lease->state == RL_LEASE_RELEASING &&
            rl_tally_vote(&lease->work->unlocking, event->node, event->vote))
            count_unlocked(lease, event, now, actions);
        break;
    case RL_EVENT_EXTEND: want_extension(lease, event, actions); break;
    case RL_EVENT_RELEASE: release(lease, event, now, actions); break;
    default: break;
    }
    /* Answers that wait in the sockets are read before any node counts as late. */
    if (event->type != RL_EVENT_VOTE) close_late_round(lease, event, now, actions);
    if (event->type != RL_EVENT_UNLOCKED) close_late_release(lease, event, now, actions);
    if (rl_lease_holds(lease) || unproven(lease)) next_round(lease, event, now, actions);
    give_to_late(lease, event, now, actions);
    actions->wake_at = wake_at(lease, now, actions->renewal_waits);
}
