/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The conditions: a server must be fit, and a change must do no harm. */
#include <string.h>

#include "core/membership_inside.h"

/* ---- is a server fit to hold a record? ---- */

static bool check_node(struct rl_membership *m, unsigned node) {
    const struct rl_guard_node *at = &m->view.node[node];
    if (!at->up) return membership_refuse(m, RL_PROBLEM_MUST_ANSWER, node);
    if (at->run_id[0] == '\0') return membership_refuse(m, RL_PROBLEM_NO_RUN_ID, node);
    if (m->old & rl_bit(node)) return membership_refuse(m, RL_PROBLEM_TOO_OLD, node);
    return at->unfit ? membership_refuse(m, RL_PROBLEM_UNFIT, node) : true;
}

bool membership_check_fit(struct rl_membership *m, rl_mask nodes) {
    for (unsigned i = 0; i < m->wish.nodes; i++)
        if ((nodes & rl_bit(i)) && !check_node(m, i)) return false;
    return true;
}

/* ---- may the change be made? ---- */

/* "the change is refused if it would leave fewer than a majority of e + 1 intact" */
bool membership_check_intact_after(struct rl_membership *m, const struct rl_change *change) {
    bool add = change->kind == RL_CHANGE_ADD, remove = change->kind == RL_CHANGE_REMOVE;
    unsigned members = m->view.quorum.members_count + (add ? 1u : 0u) - (remove ? 1u : 0u);
    rl_mask intact = membership_intact(m);
    for (unsigned i = 0; i < m->wish.nodes; i++)
        if (remove && m->view.node[i].id == change->id) intact &= (rl_mask)~rl_bit(i);
    if (rl_count(intact) >= rl_quorum(members)) return true;
    struct rl_problem *problem = membership_problem(m, RL_PROBLEM_TOO_FEW_AFTER);
    problem->change = *change;
    problem->count[0] = rl_count(intact);
    problem->count[1] = members;
    problem->count[2] = rl_quorum(members);
    problem->node = membership_unheard(m);
    return false;
}

static const struct rl_member *member_of(const struct rl_membership *m,
                                         const struct rl_guard_node *at) {
    const struct rl_record *quorum = &m->view.quorum;
    if (rl_record_member(quorum, at->record.node_id))
        return rl_record_member(quorum, at->record.node_id);
    for (unsigned i = 0; i < quorum->members_count; i++) {
        const struct rl_member *member = &quorum->members[i];
        if (strcmp(member->url, at->url) == 0 ||
            strcmp(member->incarnation.run_id, at->run_id) == 0)
            return member;
    }
    return NULL;
}

static bool refuse_member(struct rl_membership *m, unsigned node, const struct rl_member *member) {
    struct rl_problem *problem = membership_problem(m, RL_PROBLEM_ALREADY_MEMBER);
    problem->node = (int)node;
    problem->id[0] = member->id;
    memcpy(problem->url, member->url, sizeof problem->url);
    return false;
}

static bool check_add(struct rl_membership *m, unsigned node) {
    const struct rl_guard_node *at = &m->view.node[node];
    const struct rl_record *quorum = &m->view.quorum;
    if (!at->up) return membership_refuse(m, RL_PROBLEM_ADDED_UNHEARD, node);
    if (at->unreadable) return membership_refuse(m, RL_PROBLEM_ADDED_UNREADABLE, node);
    if (at->has_record && at->record.quorum_id != quorum->quorum_id) {
        membership_refuse(m, RL_PROBLEM_OF_OTHER_QUORUM, node);
        m->problem.id[0] = at->record.quorum_id;
        return false;
    }
    const struct rl_member *member = member_of(m, at);
    if (member) return refuse_member(m, node, member);
    if (quorum->members_count == RL_MEMBERS_MAX) {
        membership_problem(m, RL_PROBLEM_MEMBERS_FULL);
        return false;
    }
    /* There is no majority from which a second node could recover. */
    if (quorum->members_count == 1) {
        struct rl_problem *problem = membership_problem(m, RL_PROBLEM_QUORUM_OF_ONE);
        memcpy(problem->url, quorum->members[0].url, sizeof problem->url);
        return false;
    }
    return membership_check_fit(m, rl_bit(node));
}

static bool check_remove(struct rl_membership *m, uint64_t id) {
    const struct rl_record *quorum = &m->view.quorum;
    if (!rl_record_member(quorum, id)) {
        struct rl_problem *problem = membership_problem(m, RL_PROBLEM_NOT_A_MEMBER);
        problem->id[0] = id;
        problem->id[1] = quorum->quorum_id;
        return false;
    }
    if (quorum->members_count == 1) {
        membership_problem(m, RL_PROBLEM_LAST_MEMBER)->id[0] = id;
        return false;
    }
    return true;
}

bool membership_check_change(struct rl_membership *m) {
    if (m->wanted.kind == RL_CHANGE_ADD && !check_add(m, m->wish.node)) return false;
    if (m->wanted.kind == RL_CHANGE_REMOVE && !check_remove(m, m->wanted.id)) return false;
    return membership_check_intact_after(m, &m->wanted);
}

/* Nodes of two quorums are a mistake in the list, unless the operator has pinned one of them. */
static bool check_one_quorum(struct rl_membership *m) {
    uint64_t id = m->view.known ? m->view.quorum.quorum_id : 0;
    for (unsigned i = 0; i < m->wish.nodes && !m->wish.pinned; i++) {
        const struct rl_record *record = membership_record_at(m, i);
        bool added = m->wish.kind == RL_MEMBERSHIP_ADD && i == m->wish.node;
        if (!record || added || record->quorum_id == id) continue;
        if (id != 0) {
            membership_refuse(m, RL_PROBLEM_TWO_QUORUMS, i);
            m->problem.id[0] = id;
            return false;
        }
        id = record->quorum_id;
    }
    return true;
}

bool membership_check_members(struct rl_membership *m) {
    unsigned intact = rl_count(membership_intact(m));
    for (unsigned i = 0; i < m->wish.nodes; i++)
        if (m->twice & rl_bit(i)) return membership_refuse(m, RL_PROBLEM_TWICE_LISTED, i);
    if (!check_one_quorum(m)) return false;
    int unheard = membership_unheard(m);
    if (!m->view.known && unheard < 0) {
        membership_problem(m, m->quorum_id ? RL_PROBLEM_NO_RECORD_OF : RL_PROBLEM_NO_RECORD)
            ->id[0] = m->quorum_id;
        return false;
    }
    if (m->view.known && intact >= m->view.votes_needed) return true;
    if (unheard >= 0) return membership_refuse(m, RL_PROBLEM_MAJORITY_UNHEARD, (unsigned)unheard);
    struct rl_problem *problem = membership_problem(m, RL_PROBLEM_TOO_FEW_INTACT);
    problem->count[0] = intact;
    problem->count[1] = m->view.votes_needed;
    return false;
}
