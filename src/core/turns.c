/* SPDX-License-Identifier: BSD-2-Clause
 *
 * How to wait where the nodes themselves know whose turn it is. A node that becomes free reserves
 * the lock for its first waiter, and notifies it. A waiter that a majority of nodes has notified
 * contends: nobody else is admitted there. So no node is read, and only one waiter wakes up.
 *
 * All of it is hints. Nodes may differ in the order of their waiters, a notification may be lost,
 * late or false, and a reservation ends soon. So a waiter that too few nodes have notified asks the
 * others, and contends if the lock is not held. A poll with a random delay backs all of it, and
 * nothing here grants anything. */
#include "core/core.h"
#include "core/mix.h"

#include <assert.h>
#include <string.h>

#define LOSSES_MAX 5

static bool is_our_turn(const struct rl_turns *turns) {
    return rl_count(turns->ours) >= turns->terms->quorum;
}

static bool out_of_reach(const struct rl_turns *turns, rl_mask nodes) {
    return rl_count(nodes) + turns->terms->quorum > turns->terms->nodes;
}

/* By a lock, and not only by a reservation. */
static bool is_held(const struct rl_turns *turns, rl_ns now) {
    rl_mask held = 0;
    for (unsigned node = 0; node < turns->terms->nodes; node++)
        if ((turns->taken & rl_bit(node)) && turns->free_at[node] - now > RL_RESERVED)
            held |= rl_bit(node);
    return out_of_reach(turns, held);
}

/* ---- notes -------------------------------------------------------------------------------- */

static void may_try(struct rl_turns *turns, unsigned node, rl_ns now) {
    turns->ours |= rl_bit(node);
    turns->taken &= (rl_mask)~rl_bit(node);
    turns->ends_at[node] = now + RL_RESERVED;
    turns->rank = 0;
}

static void forget(struct rl_turns *turns, rl_mask nodes) {
    turns->ours &= (rl_mask)~nodes;
    turns->taken &= (rl_mask)~nodes;
    turns->places &= (rl_mask)~nodes;
}

static void note_queued(struct rl_turns *turns, const struct rl_event *event, rl_ns now) {
    const rl_mask node = rl_bit(event->node), asked = turns->asked;
    /* A notification since the question may be newer than the answer: the two use separate
     * connections. */
    const bool notified = (turns->notified & node) != 0;
    turns->asked &= (rl_mask)~node;
    if (event->vote == RL_VOTE_FAILED) {
        forget(turns, node);
    } else {
        turns->places |= node;
        if (event->rank < 0) turns->places &= (rl_mask)~node;
        if (event->vote == RL_VOTE_ABSENT) {
            may_try(turns, event->node, now);
        } else if (!notified) {
            turns->ours &= (rl_mask)~node;
            turns->taken |= node;
            turns->free_at[event->node] = event->remaining < 0 ? RL_NEVER : now + event->remaining;
            if (event->rank >= 0) turns->rank = event->rank;
        }
    }
    if (is_held(turns, now)) turns->losses = 0;
    if (asked == 0 || turns->asked != 0) return;
    turns->rtt = rl_round_trip(turns->rtt, now - turns->asked_at, turns->terms);
}

void rl_turns_note(struct rl_turns *turns, const struct rl_event *event, rl_ns now) {
    if (!turns->active || event->node >= turns->terms->nodes) return;
    switch (event->type) {
    case RL_EVENT_TURN:
        may_try(turns, event->node, now);
        turns->notified |= rl_bit(event->node);
        break;
    case RL_EVENT_QUEUED: note_queued(turns, event, now); break;
    case RL_EVENT_RANK:
        if (event->rank >= 0) turns->rank = event->rank;
        break;
    case RL_EVENT_VOTE: /* a denial that keeps our place was reported as QUEUED before */
        if (event->vote != RL_VOTE_DENIED) forget(turns, rl_bit(event->node));
        break;
    default: break;
    }
}

/* Its votes say more than what was noted before. What a node reports from now on stays. And the
 * questions of the step that begins the try are not sent: to wait for their answers would be to
 * wait for ever, and a later answer would count as a round trip that began with them. */
void rl_turns_try(struct rl_turns *turns) {
    turns->ours = turns->asked = turns->notified = turns->taken = 0;
    turns->try_at = RL_NEVER;
    turns->away_until = 0;
    turns->asks = false;
}

/* ---- acting ------------------------------------------------------------------------------- */

static void ask(struct rl_turns *turns, rl_mask nodes, rl_ns now, struct rl_actions *actions) {
    if (nodes == 0) return;
    if (turns->asked == 0) turns->asked_at = now;
    turns->asked |= nodes;
    turns->notified &= (rl_mask)~nodes;
    turns->taken &= (rl_mask)~nodes;
    actions->queue |= nodes;
}

static void plan_poll(struct rl_turns *turns, rl_ns now) {
    turns->poll_at =
        now + rl_poll_delay(&turns->random, turns->poll_min, turns->poll_max, turns->quiet);
}

/* The fallback for all hints. True: too few nodes have answered the last one, so only a try can
 * show whether the lock is held. */
static bool poll(struct rl_turns *turns, rl_ns now, struct rl_actions *actions) {
    turns->quiet++;
    plan_poll(turns, now);
    if (!out_of_reach(turns, turns->taken)) return true;
    ask(turns, turns->keepers, now, actions);
    return false;
}

/* When enough nodes will be free for a majority, by what they said. A node notifies us of that, but
 * not of a key that another project's client holds. Only the first waiter has a use for it. */
static rl_ns ask_at(const struct rl_turns *turns) {
    rl_ns end = RL_NEVER;
    if (turns->asked != 0 || turns->rank > 0 || !out_of_reach(turns, turns->taken)) return end;
    for (unsigned node = 0; node < turns->terms->nodes; node++) {
        if (!(turns->taken & rl_bit(node)) || turns->free_at[node] >= end) continue;
        rl_mask taken = 0;
        for (unsigned other = 0; other < turns->terms->nodes; other++)
            if (turns->free_at[other] > turns->free_at[node]) taken |= rl_bit(other);
        if (!out_of_reach(turns, taken & turns->taken)) end = turns->free_at[node];
    }
    return end == RL_NEVER ? end : end + rl_round_trip_step(turns->rtt);
}

/* A reservation ends soon, and with it our place. The next poll asks for another. */
static void drop_ended(struct rl_turns *turns, rl_ns now) {
    for (unsigned node = 0; node < turns->terms->nodes; node++)
        if ((turns->ours & rl_bit(node)) && now >= turns->ends_at[node])
            forget(turns, rl_bit(node));
}

/* Only some nodes say that it is our turn. Mostly the others follow at once. Or they say it to
 * another waiter, that came at about the same time; mostly it has the lock by now. Or several
 * waiters have some nodes each, and none a majority: then one must try. */
static bool settle(struct rl_turns *turns, rl_ns now, struct rl_actions *actions) {
    if (!turns->asks) {
        if (now < turns->try_at) return false;
        turns->asks = true;
        turns->try_at = now + rl_round_trip_step(turns->rtt);
        ask(turns, turns->keepers & (rl_mask)~turns->ours, now, actions);
        return false;
    }
    if (turns->asked != 0 && now < turns->try_at) return false;
    turns->asks = false;
    turns->try_at = RL_NEVER;
    return turns->ours != 0 && !is_held(turns, now);
}

static void await_others(struct rl_turns *turns, rl_ns now) {
    const rl_ns step = rl_round_trip_step(turns->rtt), most = (rl_ns)1 << turns->losses;
    turns->try_at = now + step + rl_draw_between(&turns->random, 0, most * step);
}

/* A lost try has ended, and its time away too. Another client has the lock, or several have some
 * nodes each. In the second case each tries again after a random time, which grows. */
static void come_back(struct rl_turns *turns, rl_ns now, struct rl_actions *actions) {
    turns->away_until = 0;
    rl_turns_enter(turns, now, actions);
    if (is_our_turn(turns))
        turns->try_at = now;
    else if (!is_held(turns, now))
        await_others(turns, now);
}

bool rl_turns_step(struct rl_turns *turns, const struct rl_event *event, rl_ns now,
                   struct rl_actions *actions) {
    assert(turns->active);
    const rl_mask before = turns->keepers;
    turns->keepers = event->keepers & rl_all(turns->terms->nodes);
    forget(turns, (rl_mask)~turns->keepers);
    turns->asked &= turns->keepers;
    drop_ended(turns, now);
    if (now < turns->away_until) return false;
    if (turns->away_until != 0) come_back(turns, now, actions);
    if (is_our_turn(turns)) return true;
    if (now >= turns->poll_at && poll(turns, now, actions)) return true;
    const rl_mask fresh = event->type == RL_EVENT_NODES ? turns->keepers : turns->keepers & ~before;
    ask(turns, fresh & (rl_mask) ~(turns->places | turns->asked), now, actions);
    if (now >= ask_at(turns)) ask(turns, turns->keepers, now, actions);
    if (turns->try_at == RL_NEVER && event->type == RL_EVENT_TURN) await_others(turns, now);
    return turns->try_at != RL_NEVER && settle(turns, now, actions);
}

void rl_turns_begin(struct rl_turns *turns, const struct rl_terms *terms, rl_ns poll_min,
                    rl_ns poll_max, uint64_t random, rl_mask keepers, rl_ns now) {
    memset(turns, 0, sizeof *turns);
    turns->terms = terms;
    turns->active = true;
    turns->rank = -1;
    turns->random = random;
    turns->poll_min = poll_min;
    turns->poll_max = poll_max;
    turns->try_at = RL_NEVER;
    turns->keepers = keepers & rl_all(terms->nodes);
    plan_poll(turns, now);
}

void rl_turns_enter(struct rl_turns *turns, rl_ns now, struct rl_actions *actions) {
    ask(turns, turns->keepers & (rl_mask) ~(turns->places | turns->asked), now, actions);
}

/* Nodes may differ in the order of two waiters for as long as both wait: each then gets the nodes
 * where it comes first, and the other's notifications are outdated. So after a second split the
 * client stays away for a random time, which grows, and asks no node: a node that is asked reserves
 * the lock. It polls at the latest, as in all that it waits for. */
void rl_turns_resume(struct rl_turns *turns, rl_mask granted, rl_ns now,
                     struct rl_actions *actions) {
    if (turns->losses < LOSSES_MAX) turns->losses++;
    turns->quiet = 0;
    turns->splits = granted == 0 ? 0 : turns->splits < LOSSES_MAX ? turns->splits + 1 : LOSSES_MAX;
    plan_poll(turns, now);
    if (turns->splits < 2) {
        come_back(turns, now, actions);
        return;
    }
    const rl_ns most = (rl_ns)1 << turns->splits;
    turns->away_until =
        now + 1 + rl_draw_between(&turns->random, 0, most * rl_round_trip_step(turns->rtt));
    if (turns->away_until > turns->poll_at) turns->away_until = turns->poll_at;
}

rl_ns rl_turns_wake_at(const struct rl_turns *turns) {
    if (turns->away_until != 0) return turns->away_until;
    const rl_ns at = turns->try_at < turns->poll_at ? turns->try_at : turns->poll_at,
                ask = ask_at(turns);
    return ask < at ? ask : at;
}
