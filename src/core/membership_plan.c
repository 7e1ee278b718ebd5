/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What an init finds on the nodes, whether it may overwrite that, and what it will write. */
#include <string.h>

#include "core/membership_inside.h"

/* ---- what is there? ---- */

static bool is_listed(const struct rl_membership *m, const struct rl_record *record,
                      const struct rl_member *member) {
    for (unsigned i = 0; i < m->wish.nodes; i++) {
        const struct rl_record *at = membership_record_at(m, i);
        if (at && at->quorum_id == record->quorum_id && at->node_id == member->id) return true;
        if (strcmp(m->view.node[i].url, member->url) == 0) return true;
    }
    return false;
}

static const struct rl_member *unlisted_member(const struct rl_membership *m,
                                               const struct rl_record *record, unsigned *count) {
    const struct rl_member *first = NULL;
    *count = 0;
    for (unsigned i = 0; i < record->members_count; i++) {
        if (is_listed(m, record, &record->members[i])) continue;
        if (!first) first = &record->members[i];
        ++*count;
    }
    return first;
}

/* Another init was faster on this node at the same time, and did not finish. All its members are in
 * our list, so its quorum has no majority elsewhere. "init resolves nothing but what an interrupted
 * first init has left." */
uint64_t membership_left_by_other(const struct rl_membership *m, unsigned node) {
    const struct rl_record *record = membership_record_at(m, node), *quorum = &m->view.quorum;
    const struct rl_member *place = eligibility_member_at(&m->view, m->view.node[node].url);
    unsigned count;
    if (!place || !record || m->view.node[node].run_id[0] == '\0') return 0;
    if (record->quorum_id == quorum->quorum_id || !rl_record_of_first_init(record)) return 0;
    for (unsigned i = 0; i < m->wish.nodes; i++) {
        const struct rl_record *other = membership_record_at(m, i);
        if (other && other->quorum_id == quorum->quorum_id && other->node_id == place->id) return 0;
    }
    return unlisted_member(m, record, &count) ? 0 : place->id;
}

static bool is_newest(const struct rl_membership *m, const struct rl_record *record) {
    for (unsigned i = 0; i < m->wish.nodes; i++) {
        const struct rl_record *other = membership_record_at(m, i);
        if (other && other->quorum_id == record->quorum_id && other->epoch > record->epoch)
            return false;
    }
    return true;
}

/* A majority outside our list may be alive, and would not notice this init. */
static bool check_unlisted(struct rl_membership *m) {
    for (unsigned i = 0; i < m->wish.nodes; i++) {
        const struct rl_record *record = membership_record_at(m, i);
        unsigned count;
        if (!record ||
            (!is_newest(m, record) && m->view.node[i].eligibility != RL_ELIGIBILITY_INTACT))
            continue;
        const struct rl_member *first = unlisted_member(m, record, &count);
        /* with an even number, half of them may be a majority without a listed node */
        if (2 * count < record->members_count) continue;
        struct rl_problem *problem = membership_problem(m, RL_PROBLEM_MEMBERS_UNLISTED);
        problem->node = (int)i;
        problem->id[0] = record->quorum_id;
        problem->count[0] = count;
        problem->count[1] = record->members_count;
        memcpy(problem->url, first->url, sizeof problem->url);
        return false;
    }
    return true;
}

/* The operator has pinned the quorum. It takes over what another init left, but no node that votes
 * for another quorum. */
static bool may_take(const struct rl_membership *m, unsigned node) {
    bool votes = m->view.node[node].record.eligibility == RL_RECORD_INTACT;
    return m->wish.pinned && !(votes && membership_same_server(m, node));
}

/* The first init of its quorum was interrupted in its last step: this node is intact, and others
 * are as that init left them, on the same server and with the same data. Those have never voted. If
 * every majority needs one of them, no lock was ever held under this record. */
static bool never_had_majority(const struct rl_membership *m, const struct rl_record *record) {
    unsigned never_voted = 0;
    if (record->epoch != 1) return false;
    for (unsigned i = 0; i < m->wish.nodes; i++) {
        const struct rl_record *other = membership_record_at(m, i);
        if (!other || other->quorum_id != record->quorum_id || !rl_record_of_first_init(other))
            continue;
        const struct rl_member *member = rl_record_member(record, other->node_id);
        if (!member || strcmp(member->incarnation.run_id, other->run_id) != 0) continue;
        never_voted += rl_record_same_members(other, record) && membership_same_server(m, i);
    }
    return record->members_count - never_voted < rl_quorum(record->members_count);
}

/* Nodes of two quorums cannot form one. The records of an init that did not finish do not count. */
static bool check_one_quorum(struct rl_membership *m) {
    uint64_t meant = m->quorum_id;
    for (unsigned i = 0; i < m->wish.nodes; i++) {
        const struct rl_record *record = membership_record_at(m, i);
        if (!record || rl_record_of_first_init(record)) continue;
        m->plan.never_intact = false;
        m->plan.used |= !never_had_majority(m, record);
        if (!meant) meant = record->quorum_id;
        if (record->quorum_id == meant || may_take(m, i)) continue;
        membership_refuse(m, RL_PROBLEM_TWO_QUORUMS, i);
        m->problem.id[0] = meant;
        return false;
    }
    m->plan.record.quorum_id = meant;
    return true;
}

static uint64_t id_of_any_record(const struct rl_membership *m) {
    for (unsigned i = 0; i < m->wish.nodes; i++)
        if (membership_record_at(m, i)) return m->view.node[i].record.quorum_id;
    return 0;
}

/* From here on all nodes are seen as those of this quorum. */
static bool choose_quorum(struct rl_membership *m) {
    if (!check_one_quorum(m)) return false;
    uint64_t *id = &m->plan.record.quorum_id;
    if (!*id) *id = id_of_any_record(m);
    if (!*id) *id = membership_random(m);
    m->quorum_id = *id;
    membership_judge(m);
    return true;
}

bool membership_plan_begin(struct rl_membership *m) {
    memset(&m->plan, 0, sizeof m->plan);
    m->plan.never_intact = true;
    return choose_quorum(m) && check_unlisted(m);
}

/* ---- what is to be there ---- */

/* "ids kept for nodes whose record is readable". The incarnation's number is above every one that
 * any record has for the member. */
static void plan_member(struct rl_membership *m, unsigned node) {
    struct rl_record *to = &m->plan.record;
    struct rl_member *member = &to->members[node];
    const struct rl_record *own = membership_record_at(m, node);
    bool keep = own && own->quorum_id == to->quorum_id && !rl_record_member(to, own->node_id);
    member->id = keep ? own->node_id : membership_random(m);
    memcpy(member->url, m->view.node[node].url, sizeof member->url);
    for (unsigned i = 0; i < m->wish.nodes; i++) {
        const struct rl_record *record = membership_record_at(m, i);
        bool ours = record && record->quorum_id == to->quorum_id;
        const struct rl_member *reported = ours ? rl_record_member(record, member->id) : NULL;
        if (reported && reported->incarnation.number > member->incarnation.number)
            member->incarnation.number = reported->incarnation.number;
    }
    rl_incarnation_follow(&member->incarnation, m->view.node[node].run_id);
    to->members_count = (uint8_t)(node + 1);
}

/* The longest time that earlier locks may last: "the longest ttl_max known from the option, the
 * configuration or any readable record", of any quorum. */
static int64_t longest_ttl_max(const struct rl_membership *m) {
    int64_t longest = m->wish.ttl_max_ms > m->wish.ttl_max_before_ms ? m->wish.ttl_max_ms
                                                                     : m->wish.ttl_max_before_ms;
    for (unsigned i = 0; i < m->wish.nodes; i++) {
        const struct rl_record *record = membership_record_at(m, i);
        if (record && rl_record_ttl_wait(record) > longest) longest = rl_record_ttl_wait(record);
    }
    return longest;
}

static int64_t ttl_max_of_new(const struct rl_membership *m) {
    if (m->wish.ttl_max_ms > 0) return m->wish.ttl_max_ms;
    return m->plan.longest_ttl_max_ms > 0 ? m->plan.longest_ttl_max_ms : m->wish.ttl_max_ms_default;
}

/* Members that are not listed, or whose record is gone, may know of epochs that no node here knows,
 * and those must not outrank what is written now. The wall clock supplies a number where no record
 * can. If it is wrong, a former member that comes back may stop clients that list it, but it never
 * votes (eligibility.c, is_newer()). */
static uint32_t epoch_after(const struct rl_membership *m, uint32_t seen) {
    int64_t wall_s = m->wall_us / 1000000;
    return wall_s > (int64_t)seen && wall_s < (int64_t)UINT32_MAX ? (uint32_t)wall_s
                                                                  : seen + (seen < UINT32_MAX);
}

void membership_plan_records(struct rl_membership *m) {
    struct rl_record *to = &m->plan.record;
    uint32_t epoch = 0;
    m->plan.longest_ttl_max_ms = longest_ttl_max(m);
    for (unsigned i = 0; i < m->wish.nodes && !m->plan.never_intact; i++) {
        const struct rl_record *record = membership_record_at(m, i);
        if (record && record->epoch > epoch) epoch = record->epoch;
    }
    to->epoch = m->plan.never_intact && !m->wish.pinned ? epoch + 1 : epoch_after(m, epoch);
    to->begun = to->epoch;
    to->settled = true;
    to->ttl_max_ms = to->ttl_next_ms = ttl_max_of_new(m);
    for (unsigned i = 0; i < m->wish.nodes; i++) plan_member(m, i);
}
