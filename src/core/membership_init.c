/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Init: records where there are none, or over those of a quorum that has lost its data for good.
 *
 * First every node is written down as recovering: from then on none votes. Then every lock that was
 * held before ends. Then all are made intact, with fences above everything that was found.
 * Interrupted before the last step, it has left nodes that do not vote, and is begun again; within
 * the last step, nodes that are intact and some that are not yet, and the next run installs these.
 */
#include <string.h>

#include "core/membership_inside.h"

#define TRIES 10 /* where others write at the same time */
#define PEEK_EVERY (1000 * RL_MS)

static rl_mask all(const struct rl_membership *m) { return rl_all(m->wish.nodes); }

/* ---- may it begin? --------------------------------------------------------------------------- */

/* Nodes that the init of this very epoch has left recovering, of the servers that it knew. */
static rl_mask left_by_init(const struct rl_membership *m) {
    const struct rl_record *quorum = &m->view.quorum;
    rl_mask nodes = 0;
    for (unsigned i = 0; i < m->wish.nodes; i++) {
        const struct rl_record *record = membership_record_at(m, i);
        if (!record || !membership_is_of_init(record) || record->quorum_id != quorum->quorum_id)
            continue;
        const struct rl_member *member = rl_record_member(quorum, record->node_id);
        if (record->epoch != quorum->epoch || !member || !membership_same_server(m, i)) continue;
        if (strcmp(member->incarnation.run_id, record->run_id) == 0) nodes |= rl_bit(i);
    }
    return nodes;
}

static rl_mask left_by_others(const struct rl_membership *m) {
    rl_mask nodes = 0;
    for (unsigned i = 0; i < m->wish.nodes; i++)
        if (membership_left_by_other(m, i)) nodes |= rl_bit(i);
    return nodes;
}

static bool check_nodes(struct rl_membership *m) {
    for (unsigned i = 0; i < m->wish.nodes; i++) {
        if (m->twice & rl_bit(i)) return membership_refuse(m, RL_PROBLEM_TWICE_LISTED, i);
        if (m->wish.url_too_long & rl_bit(i))
            return membership_refuse(m, RL_PROBLEM_LISTED_URL_TOO_LONG, i);
    }
    if (!membership_check_fit(m, all(m))) return false;
    for (unsigned i = 0; i < m->wish.nodes; i++)
        if (m->view.node[i].unreadable) return membership_refuse(m, RL_PROBLEM_UNREADABLE, i);
    return membership_plan_begin(m);
}

static void begin_anew(struct rl_membership *m);
static void finish(struct rl_membership *m);

void membership_init_looked(struct rl_membership *m) {
    if (!check_nodes(m)) {
        membership_end(m);
        return;
    }
    unsigned intact = rl_count(membership_intact(m));
    bool alive = m->view.known && intact >= m->view.votes_needed;
    if (!alive) {
        begin_anew(m);
        return;
    }
    m->left = left_by_init(m) | left_by_others(m);
    if (m->left) {
        finish(m);
        return;
    }
    struct rl_problem *problem = membership_problem(m, RL_PROBLEM_ALIVE);
    problem->id[0] = m->view.quorum.quorum_id;
    problem->count[0] = intact;
    problem->count[1] = m->view.quorum.members_count;
    membership_end(m);
}

/* ---- in between ------------------------------------------------------------------------------ */

/* Until it is over a record says the longest ttl_max that is known: where we are interrupted, it is
 * all that the next init may find of the quorum that was there. */
static void begin_anew(struct rl_membership *m) {
    const struct rl_membership_plan *plan = &m->plan;
    if (m->wish.never_used && !plan->never_intact) {
        membership_problem(m, RL_PROBLEM_USED_BEFORE)->id[0] = plan->record.quorum_id;
        membership_end(m);
        return;
    }
    membership_plan_records(m);
    /* Where every record is gone, only the operator knows how long the locks of the lost quorum may
     * last. "There is no default for the wait." */
    if (!m->wish.never_used && plan->longest_ttl_max_ms == 0) {
        membership_problem(m, RL_PROBLEM_WAIT_UNKNOWN);
        membership_end(m);
        return;
    }
    membership_report(m, RL_REPORT_WRITING, -1);
    for (unsigned i = 0; i < m->wish.nodes; i++) {
        struct rl_record *to = &m->view.node[i].writing;
        *to = plan->record;
        to->node_id = plan->record.members[i].id;
        to->eligibility = RL_RECORD_RECOVERING;
        to->loss = membership_loss_of_init(to->quorum_id, to->epoch);
        if (plan->longest_ttl_max_ms > to->ttl_max_ms) to->ttl_max_ms = plan->longest_ttl_max_ms;
    }
    membership_write(m, RL_INIT_CLAIM, all(m), false);
}

static void wait_on(struct rl_membership *m) {
    rl_ns left = m->settling.until - m->now;
    if (left <= 0) {
        membership_fences(m, RL_INIT_FLOOR, all(m), true);
        return;
    }
    membership_report(m, RL_REPORT_WAITING, left);
    membership_peek(m, RL_INIT_WAIT, left < PEEK_EVERY ? left : PEEK_EVERY);
}

void membership_init_claimed(struct rl_membership *m) {
    for (unsigned i = 0; i < m->wish.nodes; i++) {
        if (m->written & rl_bit(i)) continue;
        bool denied = m->denied & rl_bit(i);
        membership_refuse(m, denied ? RL_PROBLEM_WRITTEN_NOW : RL_PROBLEM_MUST_BE_REACHABLE, i);
        membership_end(m);
        return;
    }
    membership_remember(m, all(m));
    /* "for servers on which no lock was ever held" nothing has to end. */
    m->settling.until = m->now;
    if (!m->wish.never_used)
        m->settling.until += membership_quarantine(m, m->plan.longest_ttl_max_ms);
    wait_on(m);
}

/* Each node still carries what was written there. One that could not be asked just now is asked
 * again, but at the end all must have been. */
void membership_init_watched(struct rl_membership *m) {
    rl_mask unchanged = membership_unchanged(m, all(m));
    int unheard = membership_unheard(m);
    for (unsigned i = 0; i < m->wish.nodes; i++) {
        if (!m->view.node[i].up || (unchanged & rl_bit(i))) continue;
        const struct rl_record *record = membership_record_at(m, i);
        bool other = record && record->nonce != m->nonces[i];
        membership_refuse(m, other ? RL_PROBLEM_WRITTEN_MEANWHILE : RL_PROBLEM_LOST_WHILE_WAITING,
                          i);
        membership_end(m);
        return;
    }
    if (m->now < m->settling.until || unheard < 0) {
        wait_on(m);
        return;
    }
    membership_refuse(m, RL_PROBLEM_MUST_BE_REACHABLE, (unsigned)unheard);
    membership_end(m);
}

/* ---- the last step --------------------------------------------------------------------------- */

static void raise_floor(struct rl_membership *m, int64_t fence) {
    for (unsigned i = 0; i < RL_STRIPES; i++)
        if (fence > m->view.floor[i]) m->view.floor[i] = fence;
}

static void install(struct rl_membership *m, enum rl_membership_state state, rl_mask nodes,
                    int64_t ttl_max_ms) {
    for (unsigned i = 0; i < m->wish.nodes; i++) {
        struct rl_record *to = &m->view.node[i].writing;
        if (!(nodes & rl_bit(i))) continue;
        *to = m->view.node[i].record;
        to->eligibility = RL_RECORD_INTACT;
        to->loss = 0;
        to->waited_ms = 0;
        to->ttl_max_ms = ttl_max_ms;
    }
    membership_write(m, state, nodes, true);
}

/* An answer may have been lost, not the write: so where some node is not known to have our record,
 * all are read once more. */
static void review(struct rl_membership *m, enum rl_membership_state state) {
    for (unsigned i = 0; i < m->wish.nodes; i++) m->nonces[i] = m->view.node[i].writing.nonce;
    membership_peek(m, state, 0);
}

/* By now the fences that were anywhere lie under the kept name: recovering records took them there.
 * Tokens begin above them, above fence_floor and the wall clock. */
void membership_init_floored(struct rl_membership *m) {
    for (unsigned i = 0; i < m->wish.nodes; i++) {
        if ((m->reported | m->without) & rl_bit(i)) continue;
        membership_refuse(m, RL_PROBLEM_FENCES_UNREAD, i);
        membership_end(m);
        return;
    }
    raise_floor(m, m->wish.fence_floor);
    raise_floor(m, m->wall_us);
    install(m, RL_INIT_INSTALL, all(m), m->plan.record.ttl_max_ms);
}

void membership_init_installed(struct rl_membership *m) {
    if (m->written == all(m))
        membership_peek(m, RL_INIT_LAST, 0);
    else
        review(m, RL_INIT_REVIEW);
}

static void fail_left(struct rl_membership *m) {
    for (unsigned i = 0; i < m->wish.nodes; i++) {
        if (!(m->left & rl_bit(i))) continue;
        membership_refuse(m,
                          !m->view.node[i].up            ? RL_PROBLEM_WENT_AWAY
                          : membership_same_server(m, i) ? RL_PROBLEM_WRITTEN_MEANWHILE
                                                         : RL_PROBLEM_LOST_UNFINISHED,
                          i);
        break;
    }
    membership_end(m);
}

/* What a majority was given by us, the floor too, holds for a node that was made intact by another.
 */
void membership_init_reviewed(struct rl_membership *m) {
    rl_mask written = m->written | membership_unchanged(m, all(m));
    m->left = all(m) & (rl_mask)~written;
    if (!m->left)
        membership_peek(m, RL_INIT_LAST, 0);
    else if (rl_count(written) < rl_quorum(m->wish.nodes))
        fail_left(m);
    else
        finish(m);
}

/* ---- finishing ------------------------------------------------------------------------------- */

/* A majority is intact: by a run before this one that came to its last step, or by this one. A node
 * that is not intact yet has never voted in this epoch, so there is nothing that it could have
 * forgotten. Every client brings such a node back as well, and the one that writes first makes the
 * other read again.
 *
 * To the quorum that came about, nodes where another init was faster are members without their
 * data. */
static void take_over(struct rl_membership *m) {
    rl_mask nodes = 0;
    m->left &= (rl_mask)~membership_intact(m);
    for (unsigned i = 0; i < m->wish.nodes; i++) {
        uint64_t id = m->left & rl_bit(i) ? membership_left_by_other(m, i) : 0;
        if (!id) continue;
        membership_claim(m, i, id);
        nodes |= rl_bit(i);
    }
    membership_write(m, RL_FINISH_TAKE, nodes, false);
}

static void finish(struct rl_membership *m) {
    m->tries = 0;
    take_over(m);
}

void membership_finish_taken(struct rl_membership *m) {
    m->left &= (rl_mask)~m->written;
    if (!m->left)
        membership_peek(m, RL_INIT_LAST, 0);
    else if (m->left & (rl_mask)~left_by_init(m))
        fail_left(m);
    else
        membership_fences(m, RL_FINISH_FENCES, membership_intact(m), false);
}

static void finish_again(struct rl_membership *m) {
    membership_peek_again(m, RL_FINISH_PEEK, m->tries++);
}

void membership_finish_fenced(struct rl_membership *m) {
    const struct rl_record *quorum = &m->view.quorum;
    if (rl_count(m->reported) < m->view.votes_needed) {
        finish_again(m);
        return;
    }
    for (unsigned i = 0; i < m->wish.nodes; i++)
        memcpy(m->view.node[i].record.members, quorum->members, sizeof quorum->members);
    install(m, RL_FINISH_INSTALL, m->left, quorum->ttl_max_ms);
}

void membership_finish_installed(struct rl_membership *m) {
    if (m->written == m->left)
        membership_peek(m, RL_INIT_LAST, 0);
    else
        review(m, RL_FINISH_REVIEW);
}

void membership_finish_reviewed(struct rl_membership *m) {
    m->left &= (rl_mask) ~(m->written | membership_unchanged(m, m->left));
    if (m->left)
        finish_again(m);
    else
        membership_peek(m, RL_INIT_LAST, 0);
}

void membership_finish_looked(struct rl_membership *m) {
    if (m->tries == TRIES)
        fail_left(m);
    else
        take_over(m);
}
