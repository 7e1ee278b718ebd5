/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Membership, step 5: "when so many members of e have switched that every majority of e includes
 * one, wait ttl_max as above (leases of e end or are extended by e + 1), look that they still carry
 * e + 1 unbroken, read the fences from as many of them, raise them on a majority of e + 1, and mark
 * it settled." */
#include <string.h>

#include "core/membership_inside.h"

#define PAUSE (200 * RL_MS)
#define PEEK_EVERY (1000 * RL_MS)
#define PATIENCE 20 /* tries of short steps ... */
#define ROUNDS 5    /* ... and of steps that include the wait */

/* A change of ttl_max leaves the members as they are. So every majority of this epoch shares a node
 * with every one of the epoch before, and no lease needs to end first
 * (proof/MembershipRevisions.v). One does: "a shorter ttl_max counts when the locks of the longer
 * one have ended". */
static rl_ns wait_for_leases(const struct rl_membership *m) {
    const struct rl_record *quorum = &m->view.quorum;
    bool same_members = m->settling.last.kind == RL_CHANGE_TTL_MAX;
    bool lowers = quorum->ttl_next_ms < quorum->ttl_max_ms;
    return same_members && !lowers ? 0 : rl_guard_quarantine(&m->view);
}

static bool any_settled(const struct rl_membership *m) {
    rl_mask intact = membership_intact(m);
    for (unsigned i = 0; i < m->wish.nodes; i++)
        if ((intact & rl_bit(i)) && m->view.node[i].record.settled) return true;
    return false;
}

/* Another operator has settled the epoch, or has made a later one, which implies it. */
static bool is_over(const struct rl_membership *m) {
    uint32_t epoch = m->view.quorum.epoch;
    return m->view.known &&
           (epoch > m->settling.epoch || (epoch == m->settling.epoch && any_settled(m)));
}

/* ---- witnesses ------------------------------------------------------------------------------- */

/* The record there is of this epoch and of the server that runs there. The node may have been
 * removed from the quorum. */
static bool has_switched(const struct rl_membership *m, unsigned node) {
    const struct rl_record *record = &m->view.node[node].record;
    return membership_same_server(m, node) && record->epoch == m->settling.epoch &&
           record->quorum_id == m->view.quorum.quorum_id;
}

/* The witnesses are the members of the epoch before: the present ones, without an added one. A
 * removed one does not count: the records no longer name its incarnation, so its switched node may
 * be a former one. Every majority of the epoch before must include a witness. That takes half of an
 * even number, a majority of an odd one. Then no majority votes for that epoch any more, and the
 * highest fence of its grants is on a witness. Where the change is unknown, the number suffices for
 * each kind, also if an added node is among them. */
static void find_witnesses(struct rl_membership *m) {
    const struct rl_change *last = &m->settling.last;
    const struct rl_record *quorum = &m->view.quorum;
    bool add = last->kind == RL_CHANGE_ADD, same = last->kind == RL_CHANGE_TTL_MAX;
    unsigned before = quorum->members_count + (add || same ? 0u : 1u) - (add ? 1u : 0u);
    m->settling.needed = before - rl_quorum(before) + 1;
    m->settling.witnesses = 0;
    for (unsigned i = 0; i < m->wish.nodes; i++) {
        const struct rl_guard_node *at = &m->view.node[i];
        if (!has_switched(m, i)) continue;
        uint64_t id = at->record.node_id;
        bool added = add && id == last->id;
        if (added || at->eligibility != RL_ELIGIBILITY_INTACT) continue;
        m->settling.witnesses |= rl_bit(i);
        m->settling.loss[i] = at->record.loss;
    }
}

/* "look that they still carry e + 1 unbroken". A node that cannot be asked now is asked again. A
 * node is out if it has lost its data meanwhile, or another process has its place: each loss has
 * another number, which the record keeps when the node is intact again. */
static bool still_witnesses(struct rl_membership *m) {
    if (is_over(m)) return false;
    for (unsigned i = 0; i < m->wish.nodes; i++) {
        const struct rl_guard_node *at = &m->view.node[i];
        if (!at->up) continue;
        if (!has_switched(m, i) || at->record.loss != m->settling.loss[i])
            m->settling.witnesses &= (rl_mask)~rl_bit(i);
    }
    return rl_count(m->settling.witnesses) >= m->settling.needed;
}

/* ---- rounds ---------------------------------------------------------------------------------- */

static void begin_round(struct rl_membership *m) {
    m->settling.until = m->now + rl_guard_quarantine(&m->view) + PATIENCE * PAUSE;
    m->settling.reported_at = m->now - PEEK_EVERY;
    membership_peek(m, RL_SETTLE_GATHER, 0);
}

void membership_settle(struct rl_membership *m, const struct rl_change *last) {
    m->settling.last = *last;
    m->settling.epoch = m->view.quorum.epoch;
    m->settling.rounds = 0;
    begin_round(m);
}

static void mark(struct rl_membership *m) {
    m->settling.tries = 0;
    membership_peek(m, RL_MARK_PEEK, 0);
}

static void fail_too_few(struct rl_membership *m, rl_mask found, unsigned needed) {
    int unheard = membership_unheard(m);
    if (unheard >= 0) {
        membership_refuse(m, RL_PROBLEM_SETTLERS_UNHEARD, (unsigned)unheard);
    } else {
        struct rl_problem *problem = membership_problem(m, RL_PROBLEM_SETTLERS_TOO_FEW);
        problem->count[0] = rl_count(found);
        problem->count[1] = m->settling.epoch;
        problem->count[2] = needed;
    }
    membership_end(m);
}

/* Another witness was lost, or too few nodes take the fences: start from the beginning. */
static void next_round(struct rl_membership *m) {
    rl_mask intact = membership_intact(m);
    if (++m->settling.rounds < ROUNDS)
        begin_round(m);
    else if (rl_count(intact) < m->view.votes_needed)
        fail_too_few(m, intact, m->view.votes_needed);
    else
        membership_fail(m, RL_PROBLEM_NOT_SETTLED, -1);
}

/* Pauses within the wait, at most until its end. */
static void wait_on(struct rl_membership *m) {
    rl_ns left = m->settling.until - m->now;
    if (left > 0) membership_report(m, RL_REPORT_SETTLING, left);
    membership_peek(m, RL_SETTLE_WAIT, left < PEEK_EVERY ? left : PEEK_EVERY);
}

/* "when so many members of e have switched". Where the change is unknown, an added node counts once
 * it has recovered. */
void membership_settle_gathered(struct rl_membership *m) {
    if (is_over(m)) {
        mark(m);
        return;
    }
    find_witnesses(m);
    if (rl_count(m->settling.witnesses) >= m->settling.needed) {
        m->settling.until = m->now + wait_for_leases(m);
        wait_on(m);
        return;
    }
    if (m->now >= m->settling.until) {
        fail_too_few(m, m->settling.witnesses, m->settling.needed);
        return;
    }
    if (m->now - m->settling.reported_at >= PEEK_EVERY) {
        membership_report(m, RL_REPORT_GATHERING, -1);
        m->settling.reported_at = m->now;
    }
    membership_peek(m, RL_SETTLE_GATHER, PAUSE);
}

/* "wait ttl_max as above (leases of e end or are extended by e + 1)" */
void membership_settle_waited(struct rl_membership *m) {
    if (is_over(m)) {
        mark(m);
    } else if (!still_witnesses(m)) {
        next_round(m);
    } else if (m->now < m->settling.until) {
        wait_on(m);
    } else {
        memset(m->view.floor, 0, sizeof m->view.floor);
        m->settling.tries = 0;
        membership_peek(m, RL_SETTLE_PEEK, 0);
    }
}

/* "read the fences from as many of them": of the witnesses that can be read now, all in one
 * pass. Earlier results came from records that may have changed since. */
void membership_settle_read(struct rl_membership *m) {
    rl_mask heard = 0;
    if (!still_witnesses(m)) {
        next_round(m);
        return;
    }
    for (unsigned i = 0; i < m->wish.nodes; i++)
        if (m->view.node[i].up) heard |= rl_bit(i);
    membership_fences(m, RL_SETTLE_FENCES, m->settling.witnesses & heard, false);
}

/* ---- raising and marking: on every intact node, and again after another writer's change -------
 */

void membership_settle_fenced(struct rl_membership *m) {
    if (rl_count(m->reported) >= m->settling.needed) {
        m->settling.tries = 0;
        m->settling.done = 0;
        membership_peek(m, RL_RAISE_PEEK, 0);
    } else if (++m->settling.tries == PATIENCE) {
        next_round(m);
    } else {
        membership_peek_again(m, RL_SETTLE_PEEK, m->settling.tries - 1);
    }
}

static void raise_again(struct rl_membership *m) {
    if (++m->settling.tries == PATIENCE)
        next_round(m);
    else
        membership_peek_again(m, RL_RAISE_PEEK, m->settling.tries);
}

/* "raise them on a majority of e + 1" */
void membership_raise_read(struct rl_membership *m) {
    if (m->view.quorum.epoch > m->settling.epoch) {
        mark(m);
        return;
    }
    /* no node with the newer record can be reached */
    if (m->view.quorum.epoch < m->settling.epoch) {
        raise_again(m);
        return;
    }
    /* A node that was written to since may have lost its raised fences. */
    m->settling.done = membership_unchanged(m, m->settling.done);
    rl_mask nodes = membership_intact(m) & (rl_mask)~m->settling.done;
    for (unsigned i = 0; i < m->wish.nodes; i++) m->view.node[i].writing = m->view.node[i].record;
    membership_write(m, RL_RAISE_WRITE, nodes, true);
}

/* False: not on a majority yet. */
static bool is_done(struct rl_membership *m) {
    m->settling.done |= m->written;
    m->settling.done &= membership_intact(m);
    membership_remember(m, m->settling.done);
    return rl_count(m->settling.done) >= m->view.votes_needed;
}

void membership_raise_written(struct rl_membership *m) {
    if (is_done(m))
        mark(m);
    else
        raise_again(m);
}

static void mark_again(struct rl_membership *m) {
    if (++m->settling.tries == PATIENCE)
        membership_fail(m, RL_PROBLEM_NOT_MARKED, -1);
    else
        membership_peek_again(m, RL_MARK_PEEK, m->settling.tries);
}

/* "and mark it settled" */
void membership_mark_read(struct rl_membership *m) {
    if (m->view.quorum.epoch > m->settling.epoch) {
        membership_settled(m);
        return;
    }
    if (m->view.quorum.epoch < m->settling.epoch) {
        mark_again(m);
        return;
    }
    rl_mask nodes = membership_intact(m);
    m->settling.done = 0;
    for (unsigned i = 0; i < m->wish.nodes; i++) {
        struct rl_guard_node *at = &m->view.node[i];
        if (at->record.settled) m->settling.done |= rl_bit(i);
        at->writing = at->record;
        at->writing.settled = true;
    }
    membership_write(m, RL_MARK_WRITE, nodes & (rl_mask)~m->settling.done, false);
}

void membership_mark_written(struct rl_membership *m) {
    if (is_done(m))
        membership_settled(m);
    else
        mark_again(m);
}
