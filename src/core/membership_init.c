/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Init writes records where there are none, or over those of a quorum that has lost its data for
 * good.
 *
 * First it sets every record to recovering: from then on no node votes. Then it waits until every
 * earlier lock has ended. Then it makes all records intact, with fences above everything that was
 * found. If it is interrupted before the last step, the nodes do not vote, and init can start
 * again. If it is interrupted in the last step, some nodes are intact and others are not, and the
 * next run installs the others. */
#include <string.h>

#include "core/membership_inside.h"

#define TRIES 10 /* for writes that collide with another writer's */
#define PEEK_EVERY (1000 * RL_MS)

static rl_mask all(const struct rl_membership *m) { return rl_all(m->wish.nodes); }

/* ---- may it begin? --------------------------------------------------------------------------- */

/* Nodes that the init of this epoch left recovering, on the servers that it knew. An init that came
 * too late may have claimed nodes for the epoch that a change of members made meanwhile. Those
 * voted in the epoch before, with another list of members, and clients recover them. */
static rl_mask left_by_init(const struct rl_membership *m) {
    const struct rl_record *quorum = &m->view.quorum;
    rl_mask nodes = 0;
    for (unsigned i = 0; i < m->wish.nodes; i++) {
        const struct rl_record *record = membership_record_at(m, i);
        if (!record || !rl_record_of_init(record) || record->quorum_id != quorum->quorum_id)
            continue;
        const struct rl_member *member = rl_record_member(quorum, record->node_id);
        if (record->epoch != quorum->epoch || !member || !membership_same_server(m, i)) continue;
        if (record->begun != quorum->begun || !rl_record_same_members(record, quorum)) continue;
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

/* A client's guard keeps the time that it waited in the records of nodes that recover, and writes
 * nothing else there while no majority is intact. So a claim with such a time is still in place. */
static bool was_handed_on(const struct rl_record *record) { return record->waited_ms > 0; }

/* A second look, after a write was refused. A client's guard may have written there: it knows
 * nothing of the init, and the init begins again with what it finds. A new claim of another init is
 * different. Each of the two must report the other. */
static bool check_alone(struct rl_membership *m) {
    for (unsigned i = 0; i < m->wish.nodes; i++) {
        const struct rl_record *record = membership_record_at(m, i);
        const struct rl_guard_node *at = &m->view.node[i];
        if (!record || !rl_record_of_init(record) || was_handed_on(record)) continue;
        if (record->nonce != at->expected && record->nonce != at->writing.nonce)
            return membership_refuse(m, RL_PROBLEM_WRITTEN_NOW, i);
    }
    return true;
}

/* A majority is intact, so init is not needed. */
static bool is_alive(const struct rl_membership *m) {
    return m->view.known && rl_count(membership_intact(m)) >= m->view.votes_needed;
}

/* If a majority is intact, there is most likely nothing to do, and a minority may be down. */
static rl_mask must_answer(const struct rl_membership *m) {
    rl_mask up = 0;
    for (unsigned i = 0; i < m->wish.nodes; i++)
        if (m->view.node[i].up) up |= rl_bit(i);
    return is_alive(m) ? up : all(m);
}

static bool check_nodes(struct rl_membership *m) {
    if (m->tries > 0 && !check_alone(m)) return false;
    for (unsigned i = 0; i < m->wish.nodes; i++) {
        if (m->twice & rl_bit(i)) return membership_refuse(m, RL_PROBLEM_TWICE_LISTED, i);
        if (m->wish.url_too_long & rl_bit(i))
            return membership_refuse(m, RL_PROBLEM_LISTED_URL_TOO_LONG, i);
    }
    if (!membership_check_fit(m, must_answer(m))) return false;
    for (unsigned i = 0; i < m->wish.nodes; i++)
        if (m->view.node[i].unreadable) return membership_refuse(m, RL_PROBLEM_UNREADABLE, i);
    return membership_plan_begin(m);
}

static void begin_anew(struct rl_membership *m);
static void take_over(struct rl_membership *m);

void membership_init_read(struct rl_membership *m) {
    if (!check_nodes(m)) {
        membership_end(m);
        return;
    }
    if (!is_alive(m)) {
        begin_anew(m);
        return;
    }
    membership_fences(m, RL_INIT_PROVE, membership_intact(m), false);
}

/* Votes need the fences. A record changes together with the name of its fences, so if a second read
 * still finds that nonce, the fences alone are gone, and the node is not intact. A node that does
 * not answer counts by its record. */
static bool must_read_again(struct rl_membership *m) {
    if (!m->without || m->rereads++ == TRIES) return false;
    for (unsigned i = 0; i < m->wish.nodes; i++)
        if (m->without & rl_bit(i)) m->view.node[i].damaged = m->view.node[i].record.nonce;
    return true;
}

void membership_init_proven(struct rl_membership *m) {
    if (must_read_again(m)) {
        membership_peek(m, RL_INIT_PEEK, 0);
        return;
    }
    m->left = left_by_init(m) | left_by_others(m);
    if (m->left && !membership_check_fit(m, all(m))) {
        membership_end(m);
        return;
    }
    if (m->left) {
        take_over(m);
        return;
    }
    struct rl_problem *problem = membership_problem(m, RL_PROBLEM_ALIVE);
    problem->id[0] = m->view.quorum.quorum_id;
    problem->count[0] = rl_count(membership_intact(m));
    problem->count[1] = m->view.quorum.members_count;
    membership_end(m);
}

/* ---- in between ------------------------------------------------------------------------------ */

/* Until the init ends, a record carries the longest known ttl_max. If this run is interrupted, the
 * next init may find nothing else of the earlier quorum. */
static void begin_anew(struct rl_membership *m) {
    const struct rl_membership_plan *plan = &m->plan;
    if (m->wish.never_used && plan->used) {
        membership_problem(m, RL_PROBLEM_USED_BEFORE)->id[0] = plan->record.quorum_id;
        membership_end(m);
        return;
    }
    membership_plan_records(m);
    /* When every record is gone, only the operator knows how long the locks of the lost quorum may
     * last. "There is no default for the wait." */
    if (!m->wish.never_used && plan->longest_ttl_max_ms == 0) {
        membership_fail(m, RL_PROBLEM_WAIT_UNKNOWN, -1);
        return;
    }
    membership_report(m, RL_REPORT_WRITING, -1);
    for (unsigned i = 0; i < m->wish.nodes; i++) {
        struct rl_record *to = &m->view.node[i].writing;
        *to = plan->record;
        to->node_id = plan->record.members[i].id;
        to->eligibility = RL_RECORD_RECOVERING;
        to->loss = rl_loss_of_init(to->quorum_id, to->epoch);
        if (plan->longest_ttl_max_ms > to->ttl_max_ms)
            to->ttl_max_ms = to->ttl_next_ms = plan->longest_ttl_max_ms;
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

/* -1: there is none. */
static int first_node(const struct rl_membership *m, rl_mask nodes) {
    for (unsigned i = 0; i < m->wish.nodes; i++)
        if (nodes & rl_bit(i)) return (int)i;
    return -1;
}

/* What is there now may name another quorum or ttl_max. */
static void claim_again(struct rl_membership *m, int denied) {
    if (++m->tries == TRIES) {
        membership_fail(m, RL_PROBLEM_WRITTEN_NOW, denied);
        return;
    }
    m->quorum_id = m->wish.quorum_id;
    membership_peek_again(m, RL_INIT_PEEK, m->tries - 1);
}

void membership_init_claimed(struct rl_membership *m) {
    int silent = first_node(m, all(m) & (rl_mask) ~(m->written | m->denied));
    int denied = first_node(m, m->denied);
    if (silent >= 0) {
        membership_fail(m, RL_PROBLEM_MUST_BE_REACHABLE, silent);
        return;
    }
    if (denied >= 0) {
        claim_again(m, denied);
        return;
    }
    membership_remember(m, all(m));
    /* "for servers on which no lock was ever held" there is nothing to wait for. */
    m->settling.until = m->now;
    if (!m->wish.never_used)
        m->settling.until += rl_guard_lease_most(&m->view, m->plan.longest_ttl_max_ms);
    wait_on(m);
}

/* Nodes where a client's guard has written since, and has left the claim of this run in place. */
static rl_mask handed_on(const struct rl_membership *m) {
    const struct rl_record *claim = &m->plan.record;
    rl_mask nodes = 0;
    for (unsigned i = 0; i < m->wish.nodes; i++) {
        const struct rl_record *record = membership_record_at(m, i);
        if (membership_same_server(m, i) && rl_record_of_init(record) && was_handed_on(record) &&
            record->quorum_id == claim->quorum_id && record->epoch == claim->epoch &&
            record->node_id == claim->members[i].id)
            nodes |= rl_bit(i);
    }
    return nodes;
}

/* Each node must still carry the claim. A node that cannot be asked now is asked again, but before
 * the end every node must have answered. */
void membership_init_watched(struct rl_membership *m) {
    rl_mask unchanged = membership_unchanged(m, all(m)) | handed_on(m);
    int unheard = membership_unheard(m);
    for (unsigned i = 0; i < m->wish.nodes; i++) {
        if (!m->view.node[i].up || (unchanged & rl_bit(i))) continue;
        const struct rl_record *record = membership_record_at(m, i);
        bool other = record && record->nonce != m->nonces[i];
        membership_fail(m, other ? RL_PROBLEM_WRITTEN_MEANWHILE : RL_PROBLEM_LOST_WHILE_WAITING,
                        (int)i);
        return;
    }
    if (m->now < m->settling.until || unheard < 0) {
        wait_on(m);
        return;
    }
    membership_fail(m, RL_PROBLEM_MUST_BE_REACHABLE, unheard);
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
        *to = m->view.node[i].record;
        to->eligibility = RL_RECORD_INTACT;
        to->loss = 0;
        to->waited_ms = 0;
        to->ttl_max_ms = to->ttl_next_ms = ttl_max_ms;
    }
    membership_write(m, state, nodes, true);
}

/* An answer may have been lost, and not the write. So where a node is not known to have our record,
 * all nodes are read again. */
static void review(struct rl_membership *m, enum rl_membership_state state) {
    for (unsigned i = 0; i < m->wish.nodes; i++) m->nonces[i] = m->view.node[i].writing.nonce;
    membership_peek(m, state, 0);
}

/* By now all fences are under the kept name: recovering records moved them there. Tokens begin
 * above them, above fence_floor and above the wall clock. */
void membership_init_floored(struct rl_membership *m) {
    for (unsigned i = 0; i < m->wish.nodes; i++) {
        if ((m->reported | m->without) & rl_bit(i)) continue;
        membership_fail(m, RL_PROBLEM_FENCES_UNREAD, (int)i);
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

/* What we wrote to a majority, the floor included, also holds for a node that another client made
 * intact. */
void membership_init_reviewed(struct rl_membership *m) {
    rl_mask written = m->written | membership_unchanged(m, all(m));
    m->left = all(m) & (rl_mask)~written;
    if (!m->left)
        membership_peek(m, RL_INIT_LAST, 0);
    else if (rl_count(written) < rl_quorum(m->wish.nodes))
        fail_left(m);
    else
        take_over(m);
}

/* ---- finishing ------------------------------------------------------------------------------- */

/* A majority is intact, through this run or an earlier one that reached the last step. A node that
 * is not intact yet has never voted in this epoch, so it has forgotten nothing. Every client also
 * recovers such a node. The one that writes first makes the other read again.
 *
 * To the new quorum, nodes where another init was faster are members without their data. */
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

void membership_finish_read(struct rl_membership *m) {
    if (m->tries == TRIES)
        fail_left(m);
    else
        take_over(m);
}
