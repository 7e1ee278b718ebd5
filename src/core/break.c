/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Ends another client's lock. break.h explains the three steps and what they prove. */
#include "core/break.h"

#include <assert.h>
#include <string.h>

/* As for an acquisition: other clients may raise the same fence at the same time. */
#define RAISES_MAX 8

void rl_break_init(struct rl_break *machine, const struct rl_break_wish *wish) {
    assert(wish->nodes >= 1 && wish->nodes <= RL_NODES_MAX);
    assert(wish->answer_timeout > 0 && wish->patience >= 0);
    memset(machine, 0, sizeof *machine);
    machine->wish = *wish;
}

static const struct {
    const char *name;
    unsigned to;
} states[] = {
    [RL_BREAK_IDLE] = {"idle", 1 << RL_BREAK_READING | 1 << RL_BREAK_OVER},
    [RL_BREAK_READING] = {"reading", 1 << RL_BREAK_RAISING | 1 << RL_BREAK_DELETING |
                                         1 << RL_BREAK_PAUSING | 1 << RL_BREAK_OVER},
    [RL_BREAK_RAISING] = {"raising", 1 << RL_BREAK_RAISING | 1 << RL_BREAK_DELETING |
                                         1 << RL_BREAK_PAUSING | 1 << RL_BREAK_OVER},
    [RL_BREAK_DELETING] = {"deleting",
                           1 << RL_BREAK_DELETING | 1 << RL_BREAK_PAUSING | 1 << RL_BREAK_OVER},
    [RL_BREAK_PAUSING] = {"pausing", 1 << RL_BREAK_PAUSING | 1 << RL_BREAK_RAISING |
                                         1 << RL_BREAK_DELETING | 1 << RL_BREAK_OVER},
    [RL_BREAK_OVER] = {"over", 0},
};

const char *rl_break_state_name(enum rl_break_state state) { return states[state].name; }

const char *rl_break_outcome_name(enum rl_break_outcome outcome) {
    static const char *const names[] = {
        [RL_BREAK_OUTCOME_NONE] = "none",           [RL_BREAK_OUTCOME_BROKEN] = "broken",
        [RL_BREAK_OUTCOME_FREE] = "free",           [RL_BREAK_OUTCOME_CHANGED] = "changed",
        [RL_BREAK_OUTCOME_NO_QUORUM] = "no quorum",
    };
    return names[outcome];
}

/* The nodes that count: see break.h. */
static rl_mask proven(const struct rl_break *machine, const struct rl_break_event *event) {
    return machine->confirmed & machine->raised & event->members & (rl_mask)~event->unread;
}

/* The only place where the state changes. */
static void move(struct rl_break *machine, enum rl_break_state to,
                 const struct rl_break_event *event, rl_ns now) {
    assert(states[machine->state].to & 1u << to);
    if (to == RL_BREAK_DELETING) {
        assert(machine->token != 0);
        assert(rl_count(machine->raised) >= event->quorum); /* no delete without a fence */
    }
    if (to == RL_BREAK_OVER) assert(machine->outcome != RL_BREAK_OUTCOME_NONE);
    if (to == RL_BREAK_OVER && machine->outcome == RL_BREAK_OUTCOME_BROKEN)
        assert(machine->deleted != 0 && rl_count(proven(machine, event)) >= event->quorum);
    machine->state = to;
    machine->since = now;
}

static void end(struct rl_break *machine, enum rl_break_outcome outcome,
                const struct rl_break_event *event, rl_ns now) {
    machine->outcome = outcome;
    machine->pending = 0;
    move(machine, RL_BREAK_OVER, event, now);
}

/* Too few nodes answered. */
static void pause(struct rl_break *machine, const struct rl_break_event *event, rl_ns now) {
    if (now >= machine->give_up_at)
        end(machine, RL_BREAK_OUTCOME_NO_QUORUM, event, now);
    else
        move(machine, RL_BREAK_PAUSING, event, now);
}

/* ---- deleting ------------------------------------------------------------------------------ */

/* On all nodes, also on those that did not answer before: they may hold the key. */
static void remove_keys(struct rl_break *machine, const struct rl_break_event *event, rl_ns now,
                        struct rl_break_actions *actions) {
    move(machine, RL_BREAK_DELETING, event, now);
    machine->pending = rl_all(machine->wish.nodes);
    machine->was_gone = machine->gone;
    machine->confirmed = machine->deleting = 0;
    actions->round = ++machine->round;
    actions->remove = machine->pending;
    actions->token = machine->token;
}

static void raise_counts_no_more(struct rl_break *machine, rl_mask nodes) {
    if (machine->wish.guarded) machine->raised &= (rl_mask)~nodes;
}

/* A late answer to an earlier round says when the node did not have the token; it confirms
 * nothing. */
static void record_delete(struct rl_break *machine, const struct rl_break_event *event) {
    const rl_mask node = rl_bit(event->node);
    const bool in_round = event->round == machine->round && (machine->pending & node) != 0;
    if (in_round) machine->pending &= (rl_mask)~node;
    if (event->vote == RL_VOTE_GRANTED) machine->deleted |= node;
    if (event->vote == RL_VOTE_GRANTED && in_round) machine->deleting |= node;
    /* It came after the raise, and may have raised its own fence above ours. Without an answer it
     * may have been there, too. */
    if (event->vote == RL_VOTE_GRANTED || (event->vote == RL_VOTE_FAILED && in_round))
        raise_counts_no_more(machine, node);
    if (event->round < machine->first_delete) return; /* from before the raise that counts */
    if (event->vote == RL_VOTE_DENIED && (machine->gone & node) == 0) machine->others |= node;
    if (event->vote != RL_VOTE_GRANTED && event->vote != RL_VOTE_ABSENT &&
        event->vote != RL_VOTE_DENIED)
        return;
    /* GRANTED: it had the token until now, so it was set again since the last answer. */
    bool not_there = in_round && event->vote != RL_VOTE_GRANTED;
    if (not_there && (machine->was_gone & node) != 0) machine->confirmed |= node;
    if ((machine->others & node) == 0) machine->gone |= node;
}

/* Nodes that have confirmed, and whose record is not read yet. */
static rl_mask awaited(const struct rl_break *machine, const struct rl_break_event *event) {
    return machine->confirmed & event->unread;
}

/* The nodes that were silent before are not waited for again. */
static bool is_confirmed(const struct rl_break *machine, const struct rl_break_event *event) {
    return rl_count(proven(machine, event)) >= event->quorum &&
           ((machine->pending | awaited(machine, event)) & machine->was_gone) == 0;
}

/* Called when a round is over. */
static void judge(struct rl_break *machine, const struct rl_break_event *event, rl_ns now,
                  struct rl_break_actions *actions) {
    const unsigned members = rl_count(event->members);
    raise_counts_no_more(machine, machine->pending);
    const bool is_proven = rl_count(proven(machine, event)) >= event->quorum;
    if (is_proven && (machine->deleting == 0 || now >= machine->give_up_at)) {
        /* If nothing was there to delete, the lock had ended by itself. */
        end(machine, machine->deleted ? RL_BREAK_OUTCOME_BROKEN : RL_BREAK_OUTCOME_FREE, event,
            now);
    } else if (members - rl_count(machine->others & event->members) < event->quorum) {
        end(machine, RL_BREAK_OUTCOME_CHANGED, event, now);
    } else if ((now < machine->give_up_at || !machine->confirms) &&
               rl_count(machine->gone & machine->raised & event->members) >= event->quorum) {
        machine->confirms = true;
        remove_keys(machine, event, now, actions);
    } else {
        pause(machine, event, now);
    }
}

/* ---- raising ------------------------------------------------------------------------------- */

static void propose(struct rl_break *machine, const struct rl_break_event *event, rl_ns now,
                    struct rl_break_actions *actions) {
    int64_t seen = machine->fence_seen > machine->fence ? machine->fence_seen : machine->fence;
    int64_t fence = rl_fence_above(seen, event->fence_hint);
    if (fence > RL_FENCE_MAX || machine->raises == RAISES_MAX) {
        end(machine, RL_BREAK_OUTCOME_NO_QUORUM, event, now);
        return;
    }
    if (rl_count(event->voters) < event->quorum) {
        pause(machine, event, now);
        return;
    }
    move(machine, RL_BREAK_RAISING, event, now);
    machine->raised_at = now;
    machine->raises++;
    machine->fence = fence;
    machine->raised = machine->gone = machine->others = 0;
    machine->pending = event->voters;
    actions->round = ++machine->round;
    machine->first_delete = machine->round + 1;
    actions->raise = event->voters;
    actions->fence = fence;
    actions->token = machine->token;
}

/* Of a step that deletes. */
static bool is_raised(enum rl_vote vote) {
    return vote == RL_VOTE_GRANTED || vote == RL_VOTE_ABSENT || vote == RL_VOTE_DENIED;
}

static void record_raise(struct rl_break *machine, const struct rl_break_event *event) {
    const rl_mask node = rl_bit(event->node);
    if (event->fence > machine->fence_seen && event->fence <= RL_FENCE_MAX)
        machine->fence_seen = event->fence;
    if (event->vote == RL_VOTE_GRANTED) machine->deleted |= node; /* also if it is late */
    if (machine->state != RL_BREAK_RAISING) return;
    if (event->round != machine->round || (machine->pending & node) == 0) return;
    machine->pending &= (rl_mask)~node;
    if (!is_raised(event->vote)) return;
    machine->raised |= node;
    if (event->vote == RL_VOTE_DENIED)
        machine->others |= node;
    else
        machine->gone |= node;
}

static void count_raises(struct rl_break *machine, const struct rl_break_event *event, bool late,
                         rl_ns now, struct rl_break_actions *actions) {
    /* The deletes count only on nodes that have raised: so all of them are waited for. */
    if (machine->pending != 0 && !late) return;
    if (rl_count(machine->raised & event->members) >= event->quorum)
        remove_keys(machine, event, now, actions);
    else if (machine->fence_seen >= machine->fence)
        propose(machine, event, now, actions);
    else
        pause(machine, event, now);
}

/* ---- reading ------------------------------------------------------------------------------- */

static void read_keys(struct rl_break *machine, const struct rl_break_event *event, rl_ns now,
                      struct rl_break_actions *actions) {
    if (rl_count(event->ready & event->members) < event->quorum) {
        end(machine, RL_BREAK_OUTCOME_NO_QUORUM, event, now);
        return;
    }
    move(machine, RL_BREAK_READING, event, now);
    machine->pending = event->ready;
    actions->round = ++machine->round;
    actions->read = event->ready;
}

static void record_read(struct rl_break *machine, const struct rl_break_event *event) {
    const rl_mask node = rl_bit(event->node);
    if (event->round != machine->round || (machine->pending & node) == 0) return;
    machine->pending &= (rl_mask)~node;
    if (event->vote == RL_VOTE_GRANTED) machine->holder[event->node] = event->token;
    if (event->vote == RL_VOTE_GRANTED || event->vote == RL_VOTE_ABSENT) machine->answered |= node;
}

static unsigned nodes_of(const struct rl_break *machine, rl_mask members, uint8_t token) {
    unsigned count = 0;
    for (unsigned i = 0; i < machine->wish.nodes; i++)
        count += (machine->answered & members & rl_bit(i)) != 0 && machine->holder[i] == token;
    return count;
}

/* The token that most nodes have. `twin`: another one is on as many. 0: no node has a key. */
static uint8_t most_common(const struct rl_break *machine, rl_mask members, bool *twin) {
    uint8_t best = 0;
    unsigned most = 0;
    *twin = false;
    for (unsigned i = 0; i < machine->wish.nodes; i++) {
        const uint8_t token = machine->holder[i];
        const unsigned count = token == 0 ? 0 : nodes_of(machine, members, token);
        if (count > most) *twin = false;
        if (count == most && token != best) *twin = true;
        if (count <= most) continue;
        most = count;
        best = token;
    }
    return best;
}

/* A lock is held if a majority has its token. Nodes that did not answer may have it, too. */
static void find_holder(struct rl_break *machine, const struct rl_break_event *event, rl_ns now,
                        struct rl_break_actions *actions) {
    bool twin;
    /* a node that lost its data reports no key, and still blocks other clients */
    const rl_mask counted =
        event->members & (machine->wish.guarded ? event->voters : event->members);
    const unsigned answered = rl_count(machine->answered & counted);
    const uint8_t token = most_common(machine, counted, &twin);
    const unsigned has_it = token == 0 ? 0 : nodes_of(machine, counted, token);
    const bool free = answered - has_it >= event->quorum;
    if (answered < event->quorum || (twin && !free)) {
        end(machine, RL_BREAK_OUTCOME_NO_QUORUM, event, now);
    } else if (free) {
        end(machine, RL_BREAK_OUTCOME_FREE, event, now);
    } else if (machine->wish.named && token != RL_BREAK_WISHED) {
        end(machine, RL_BREAK_OUTCOME_CHANGED, event, now);
    } else {
        machine->token = token;
        machine->give_up_at = now + machine->wish.patience;
        if (machine->wish.guarded) {
            propose(machine, event, now, actions);
        } else {
            machine->raised = rl_all(machine->wish.nodes); /* classic locks have no fences */
            remove_keys(machine, event, now, actions);
        }
    }
}

/* ---- the step ------------------------------------------------------------------------------ */

static rl_ns pause_of(const struct rl_break *machine) { return machine->wish.answer_timeout / 8; }

static void advance(struct rl_break *machine, const struct rl_break_event *event, rl_ns now,
                    struct rl_break_actions *actions) {
    const bool late = now >= machine->since + machine->wish.answer_timeout;
    const bool ended = machine->pending == 0 || late;
    switch (machine->state) {
    case RL_BREAK_READING:
        if (ended) find_holder(machine, event, now, actions);
        break;
    case RL_BREAK_RAISING: count_raises(machine, event, late, now, actions); break;
    case RL_BREAK_DELETING:
        if (late || is_confirmed(machine, event) ||
            (machine->pending | awaited(machine, event)) == 0)
            judge(machine, event, now, actions);
        break;
    case RL_BREAK_PAUSING:
        if (now < machine->since + pause_of(machine)) break;
        machine->raises = 0;
        /* The nodes that raised the fence may not be the ones that answer now, or may have lost
         * it. */
        if (machine->wish.guarded)
            propose(machine, event, now, actions);
        else
            remove_keys(machine, event, now, actions);
        break;
    case RL_BREAK_IDLE:
    case RL_BREAK_OVER: break;
    }
}

static void note(struct rl_break *machine, const struct rl_break_event *event) {
    machine->unread = event->unread;
    /* A node that is not eligible, or was not since the raise, may have lost the fence, and with it
     * the key of a client with a lower one. */
    if (machine->wish.guarded) machine->raised &= (rl_mask)~event->voided;
    if (event->node >= machine->wish.nodes) return;
    if (machine->state == RL_BREAK_READING && event->type == RL_BREAK_READ)
        record_read(machine, event);
    if (event->type == RL_BREAK_RAISED) record_raise(machine, event);
    if (event->type == RL_BREAK_DELETED) record_delete(machine, event);
    /* the node answered as one that no longer counts */
    if (machine->wish.guarded) machine->raised &= (rl_mask)~event->voided;
}

void rl_break_step(struct rl_break *machine, const struct rl_break_event *event, rl_ns now,
                   struct rl_break_actions *actions) {
    memset(actions, 0, sizeof *actions);
    actions->wake_at = RL_NEVER;
    assert(event->quorum >= 1);
    if (machine->state != RL_BREAK_OVER) note(machine, event);
    if (machine->state == RL_BREAK_IDLE && event->type == RL_BREAK_BEGIN)
        read_keys(machine, event, now, actions);
    else
        advance(machine, event, now, actions);
    actions->over = machine->state == RL_BREAK_OVER;
    if (machine->state == RL_BREAK_PAUSING)
        actions->wake_at = machine->since + pause_of(machine);
    else if (!actions->over && machine->state != RL_BREAK_IDLE)
        actions->wake_at = machine->since + machine->wish.answer_timeout;
}

rl_mask rl_break_silent(const struct rl_break *machine, rl_mask members) {
    return members & (rl_mask) ~((machine->confirmed & ~machine->unread) | machine->others);
}
