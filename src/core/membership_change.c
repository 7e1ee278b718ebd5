/* SPDX-License-Identifier: BSD-2-Clause
 *
 * One change of the quorum: a decree of consensus, with the members as acceptors. An acceptor's
 * state is in its record. So a promise or an acceptance is a compare-and-set like every other
 * write. It applies to exactly what was read: no other write came between a promise and the
 * acceptance that relies on it.
 *
 * Quotations are from docs/inside/guarded.md; e is the present epoch. `wanted` is the
 * operator's change. `chosen` is the one that this run completes: an earlier operator's, if one was
 * accepted. */
#include <string.h>

#include "core/membership_inside.h"

#define TRIES_MAX 30 /* of a change, and of its switch to the next epoch */

/* A change of ttl_max is between its two epochs. */
static bool is_pending(const struct rl_membership *m) {
    return rl_record_ttl_pending(&m->view.quorum);
}

static bool is_in_force(const struct rl_membership *m, const struct rl_change *change) {
    if (change->kind == RL_CHANGE_TTL_MAX)
        return !is_pending(m) && m->view.quorum.ttl_max_ms == change->ttl_ms;
    bool member = rl_record_member(&m->view.quorum, change->id) != NULL;
    return member == (change->kind == RL_CHANGE_ADD);
}

static bool adds(const struct rl_membership *m) { return m->wish.kind == RL_MEMBERSHIP_ADD; }

static bool sets_ttl_max(const struct rl_membership *m) {
    return m->wish.kind == RL_MEMBERSHIP_SET_TTL_MAX;
}

/* The next step: the wanted change, or the second half of a change of ttl_max, which goes first
 * whichever operator began it. */
static struct rl_change next_change(const struct rl_membership *m) {
    if (!is_pending(m)) return m->wanted;
    return (struct rl_change){.kind = RL_CHANGE_TTL_MAX, .ttl_ms = m->view.quorum.ttl_next_ms};
}

/* ---- one try --------------------------------------------------------------------------------- */

/* The try failed, or an earlier operator's change is now complete. */
static void try_again(struct rl_membership *m) {
    if (++m->tries == TRIES_MAX) {
        membership_fail(m, RL_PROBLEM_OTHERS_CHANGE, -1);
        return;
    }
    membership_peek_again(m, RL_CHANGE_PEEK, m->tries);
}

/* A step is complete, and it was not the last one. */
static void go_on(struct rl_membership *m) {
    m->tries = m->refused = 0;
    membership_peek(m, RL_CHANGE_PEEK, 0);
}

/* A node that another operator writes to right now looks like one that did not vote. So two
 * refusals for lack of a quorum are not final. */
static void refused(struct rl_membership *m) {
    if (rl_problem_class(m->problem.kind) != RL_CLASS_NO_QUORUM || ++m->refused == 3)
        membership_end(m);
    else
        try_again(m);
}

static bool choose_wanted(struct rl_membership *m) {
    if (m->wanted.kind != RL_CHANGE_NONE) return true;
    m->wanted.kind = adds(m)           ? RL_CHANGE_ADD
                     : sets_ttl_max(m) ? RL_CHANGE_TTL_MAX
                                       : RL_CHANGE_REMOVE;
    m->wanted.id = m->wish.id;
    if (sets_ttl_max(m)) m->wanted.ttl_ms = m->wish.ttl_max_ms;
    if (!adds(m)) return true;
    if (m->wish.url_too_long & rl_bit(m->wish.node))
        return membership_refuse(m, RL_PROBLEM_URL_TOO_LONG, m->wish.node);
    memcpy(m->wanted.url, m->view.node[m->wish.node].url, sizeof m->wanted.url);
    m->wanted.id = membership_random(m);
    return true;
}

/* The accepted change with the highest ballot; false: none was accepted. */
static bool find_accepted(const struct rl_membership *m, rl_mask nodes, struct rl_change *change) {
    uint64_t highest = 0;
    for (unsigned i = 0; i < m->wish.nodes; i++) {
        const struct rl_record *record = &m->view.node[i].record;
        if (!(nodes & rl_bit(i)) || record->accepted_ballot <= highest) continue;
        highest = record->accepted_ballot;
        *change = record->accepted;
    }
    return highest > 0;
}

/* The change that made the present epoch: "Which change made epoch e + 1 stays readable there, as
 * `accepted` with ballot 0." NONE: no record names it. */
static struct rl_change find_last(const struct rl_membership *m) {
    rl_mask intact = membership_intact(m);
    for (unsigned i = 0; i < m->wish.nodes; i++) {
        const struct rl_record *record = &m->view.node[i].record;
        if (!(intact & rl_bit(i)) || record->accepted_ballot != 0 ||
            record->accepted.kind == RL_CHANGE_NONE)
            continue;
        return record->accepted;
    }
    return (struct rl_change){.kind = RL_CHANGE_NONE};
}

static void settle_begun(struct rl_membership *m) {
    /* only a change of ttl_max makes an epoch that is between two */
    const struct rl_change last = is_pending(m) ? next_change(m) : find_last(m);
    m->settling.begun = true;
    membership_settle(m, &last);
}

/* Above every ballot that was seen. The lower bits keep two operators apart; the compare-and-set
 * alone would as well. */
static uint64_t next_ballot(struct rl_membership *m) {
    uint64_t highest = 0;
    for (unsigned i = 0; i < m->wish.nodes; i++) {
        const struct rl_record *record = membership_record_at(m, i);
        if (!record) continue;
        if (record->ballot > highest) highest = record->ballot;
        if (record->accepted_ballot > highest) highest = record->accepted_ballot;
    }
    return ((highest >> 16) + 1) << 16 | (membership_random(m) & 0xffff);
}

/* "Promise: a ballot above all seen, on a majority of e" */
static void promise(struct rl_membership *m) {
    m->ballot = next_ballot(m);
    m->epoch = m->view.quorum.epoch;
    for (unsigned i = 0; i < m->wish.nodes; i++) {
        m->view.node[i].writing = m->view.node[i].record;
        m->view.node[i].writing.ballot = m->ballot;
    }
    membership_write(m, RL_CHANGE_PROMISE, membership_intact(m), false);
}

/* A server that was a member before: only this run gives it its new place. */
static bool lacks_claim(const struct rl_membership *m, unsigned node) {
    const struct rl_record *record = membership_record_at(m, node), *quorum = &m->view.quorum;
    if (!record || record->quorum_id != quorum->quorum_id) return false;
    if (rl_record_member(quorum, record->node_id)) return false;
    return eligibility_member_at(&m->view, m->view.node[node].url) != NULL;
}

/* An added node begins as one that lost its data. An agent that finds it empty writes the same
 * record, but finds its place by URL. */
static void claim_added(struct rl_membership *m, enum rl_membership_state state,
                        const struct rl_change *change) {
    const struct rl_record *quorum = &m->view.quorum;
    rl_mask nodes = 0;
    for (unsigned i = 0; i < m->wish.nodes && change->kind == RL_CHANGE_ADD; i++) {
        const struct rl_guard_node *at = &m->view.node[i];
        const struct rl_record *record = membership_record_at(m, i);
        if (strcmp(at->url, change->url) != 0 || !at->up || at->unreadable || at->run_id[0] == '\0')
            continue;
        if (record && record->quorum_id != quorum->quorum_id) continue;
        if (!rl_record_member(quorum, change->id)) continue;
        if (record && rl_record_member(quorum, record->node_id)) continue;
        membership_claim(m, i, change->id);
        nodes |= rl_bit(i);
    }
    membership_write(m, state, nodes, false);
}

static void claim_again(struct rl_membership *m) {
    const struct rl_guard_node *at = &m->view.node[m->wish.node];
    struct rl_change change = {.kind = RL_CHANGE_ADD,
                               .id = eligibility_member_at(&m->view, at->url)->id};
    memcpy(change.url, at->url, sizeof change.url);
    claim_added(m, RL_ADDED_CLAIM, &change);
}

void membership_added_read(struct rl_membership *m) {
    unsigned node = m->wish.node;
    const struct rl_record *record = membership_record_at(m, node);
    if (lacks_claim(m, node)) {
        claim_again(m);
        return;
    }
    membership_problem(m, RL_PROBLEM_NONE);
    if (record && record->quorum_id != m->view.quorum.quorum_id) {
        membership_refuse(m, RL_PROBLEM_TAKEN_ELSEWHERE, node);
        m->problem.id[0] = record->quorum_id;
    }
    membership_end(m);
}

static bool check_next(struct rl_membership *m) {
    const struct rl_change next = next_change(m);
    return is_pending(m) ? membership_check_intact_after(m, &next) : membership_check_change(m);
}

void membership_change_read(struct rl_membership *m) {
    if (!choose_wanted(m)) {
        membership_end(m);
        return;
    }
    if (!membership_check_members(m)) {
        refused(m);
        return;
    }
    /* This comes before settling, because settling may need this member. Its data counts for
     * nothing. */
    if (adds(m) && !m->claimed && lacks_claim(m, m->wish.node)) {
        m->claimed = true;
        claim_again(m);
        return;
    }
    /* "Finish what is begun: if the epoch is not settled, settle it" */
    if (!m->view.settled) {
        settle_begun(m);
        return;
    }
    /* another operator found it, or there is nothing to do */
    if (m->claimed || ((m->made || sets_ttl_max(m)) && is_in_force(m, &m->wanted))) {
        membership_ok(m);
        return;
    }
    if (!find_accepted(m, membership_intact(m), &m->chosen) && !check_next(m)) {
        membership_end(m);
        return;
    }
    membership_report(m, RL_REPORT_ASKING, -1);
    promise(m);
}

/* ---- the decree ------------------------------------------------------------------------------ */

/* Promises or acceptances: "read once more: unchanged, all stood at one moment". Otherwise an
 * acceptor that lost our write may have promised another ballot, and a later ballot might find
 * changes of both operators accepted. The read includes the other nodes, for the next check. */
void membership_change_written(struct rl_membership *m) {
    membership_remember(m, m->written);
    membership_peek(m, m->state == RL_CHANGE_PROMISE ? RL_CHANGE_PROMISED : RL_CHANGE_ACCEPTED, 0);
}

/* Members may have lost their data since the decree began. Those of e could still agree, while too
 * few of e + 1 remain, for good. "A promise does no harm"; "what is accepted is never taken
 * back". */
static bool check_once_more(struct rl_membership *m) {
    return membership_check_members(m) && check_next(m);
}

/* Accepts only where the promise of this ballot is still the newest record. An acceptor that lost
 * and regained its state since then does not count. */
static void accept(struct rl_membership *m) {
    for (unsigned i = 0; i < m->wish.nodes; i++) {
        struct rl_record *to = &m->view.node[i].writing;
        *to = m->view.node[i].record;
        to->accepted_ballot = m->ballot;
        to->accepted = m->chosen;
    }
    membership_write(m, RL_CHANGE_ACCEPT, m->held, false);
}

void membership_change_promised(struct rl_membership *m) {
    m->held = membership_unchanged(m, m->held);
    if (m->view.quorum.epoch != m->epoch || rl_count(m->held) < m->view.votes_needed) {
        try_again(m);
        return;
    }
    /* "If one of them has accepted a change, that change is finished instead." */
    if (find_accepted(m, m->held, &m->chosen)) {
        /* "It cannot be taken back, but it can wait." With too few intact members it would end a
         * quorum that works. */
        if (!membership_check_intact_after(m, &m->chosen)) {
            refused(m);
            return;
        }
        m->overtaken = !is_pending(m);
    } else {
        if (!check_once_more(m)) {
            refused(m);
            return;
        }
        m->chosen = next_change(m);
        if (rl_change_same(&m->chosen, &m->wanted)) m->made = true;
    }
    accept(m);
}

/* "Then accept the change on a majority of e, and look once more that their nonces are the ones of
 * these writes." */
void membership_change_accepted(struct rl_membership *m) {
    m->held = membership_unchanged(m, m->held);
    if (m->view.quorum.epoch != m->epoch || rl_count(m->held) < m->view.votes_needed) {
        try_again(m);
        return;
    }
    m->switches = 0;
    membership_report(m, RL_REPORT_SWITCHING, -1);
    membership_peek(m, RL_SWITCH_PEEK, 0);
}

/* ---- the switch ------------------------------------------------------------------------------ */

/* The record of the next epoch names the change that made it, for the operator that settles it. */
static bool next_record(struct rl_record *record, const struct rl_change *change) {
    if (!rl_record_change(record, change)) return false;
    record->accepted = *change;
    return true;
}

/* "every node gets the record of e + 1". One node that has it is enough for all that follows: any
 * client that reads it updates the other nodes. Until then the change can wait. This process may
 * have been stopped since it accepted, and members may have lost their data. */
void membership_switch_read(struct rl_membership *m) {
    rl_mask nodes = 0;
    if (m->view.known && m->view.quorum.epoch == m->epoch &&
        !membership_check_intact_after(m, &m->chosen)) {
        refused(m);
        return;
    }
    for (unsigned i = 0; i < m->wish.nodes; i++) {
        struct rl_guard_node *at = &m->view.node[i];
        if (at->eligibility != RL_ELIGIBILITY_INTACT && at->eligibility != RL_ELIGIBILITY_BEHIND)
            continue;
        at->writing = at->record;
        if (at->record.epoch == m->epoch && next_record(&at->writing, &m->chosen))
            nodes |= rl_bit(i);
    }
    membership_write(m, RL_SWITCH_WRITE, nodes, false);
}

void membership_switch_written(struct rl_membership *m) { membership_peek(m, RL_SWITCH_SEEN, 0); }

/* The decree is in force, or it cannot be written to any node. By now other clients may have
 * continued from it. */
static void switch_ended(struct rl_membership *m) {
    if (!m->view.known || m->view.quorum.epoch <= m->epoch) {
        membership_problem(m, RL_PROBLEM_NOT_SWITCHED)->change = m->chosen;
        membership_end(m);
    } else if (m->view.quorum.settled) {
        m->settling.begun = false;
        membership_settled(m);
    } else {
        m->settling.begun = false;
        membership_settle(m, &m->chosen);
    }
}

static void switch_again(struct rl_membership *m) {
    if (++m->switches == TRIES_MAX)
        switch_ended(m);
    else
        membership_peek_again(m, RL_SWITCH_PEEK, m->switches);
}

void membership_switch_seen(struct rl_membership *m) {
    if (!m->view.known || m->view.quorum.epoch <= m->epoch)
        switch_again(m);
    else
        claim_added(m, RL_SWITCH_CLAIM, &m->chosen);
}

void membership_switch_claimed(struct rl_membership *m) {
    if (rl_count(membership_intact(m)) >= m->view.votes_needed)
        switch_ended(m);
    else
        switch_again(m);
}

void membership_added_claimed(struct rl_membership *m) { membership_peek(m, RL_ADDED_SEEN, 0); }

void membership_added_seen(struct rl_membership *m) {
    if (lacks_claim(m, m->wish.node)) {
        membership_fail(m, RL_PROBLEM_CLAIM_UNKNOWN, (int)m->wish.node);
    } else if (!m->view.settled) {
        try_again(m);
    } else {
        membership_ok(m);
    }
}

/* ---- the end --------------------------------------------------------------------------------- */

/* A change that another operator began is now complete. It may be the wanted one. */
static void settled_begun(struct rl_membership *m) {
    if (is_pending(m))
        go_on(m);
    else if (!rl_change_same(&m->settling.last, &m->wanted))
        try_again(m);
    else if (adds(m))
        membership_peek(m, RL_ADDED_PEEK, 0);
    else
        membership_ok(m);
}

void membership_settled(struct rl_membership *m) {
    if (m->settling.begun) {
        settled_begun(m);
    } else if (!rl_change_same(&m->chosen, &m->wanted) && (is_pending(m) || !m->overtaken)) {
        go_on(m); /* half of another operator's change of ttl_max */
    } else if (!rl_change_same(&m->chosen, &m->wanted)) {
        membership_problem(m, RL_PROBLEM_CAME_SECOND)->change = m->chosen;
        membership_end(m);
    } else if (sets_ttl_max(m) && is_pending(m) && m->view.quorum.ttl_next_ms == m->wanted.ttl_ms) {
        go_on(m); /* the first half */
    } else if (!is_in_force(m, &m->chosen)) {
        membership_problem(m, RL_PROBLEM_UNDONE)->change = m->chosen;
        membership_end(m);
    } else if (adds(m)) {
        membership_added_read(m);
    } else {
        membership_ok(m);
    }
}
