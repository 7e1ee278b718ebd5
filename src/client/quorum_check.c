/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What is refused: servers that are not fit, and changes that would do harm. Each with its cure.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "quorum.h"

/* ---- is a server fit to hold a record? ---- */

static bool is_old(const char *version) {
    unsigned major = 0, minor = 0;
    return sscanf(version, "%u.%u", &major, &minor) == 2 &&
           (major < 6 || (major == 6 && minor < 2));
}

static bool node_is_old(struct quorum_work *work, unsigned node) {
    struct redlock_node_status status = {.size = sizeof status};
    return redlock_client_node(work->client, node, &status) == REDLOCK_OK && is_old(status.version);
}

static int refuse(struct quorum_work *work, unsigned node, const char *why) {
    return quorum_fail(work, REDLOCK_NO_QUORUM, "%s is not fit for guarded mode: %s",
                       work->seat[node].url, why);
}

static int check_node(struct quorum_work *work, unsigned node) {
    const struct quorum_seat *seat = &work->seat[node];
    char why[FITNESS_TEXT_BYTES];
    if (!seat->heard)
        return quorum_fail_node(work, node,
                                "It must answer for this: run the command again when it does");
    if (seat->run_id[0] == '\0')
        return refuse(
            work, node,
            "INFO, which tells one server process from the next, is refused; allow the user to use it");
    if (node_is_old(work, node)) return refuse(work, node, "it is older than Redis 6.2");
    fitness_judge(work->client, &seat->state, why, sizeof why);
    return why[0] == '\0' ? REDLOCK_OK : refuse(work, node, why);
}

int quorum_check_fit(struct quorum_work *work, rl_mask nodes) {
    int result = REDLOCK_OK;
    for (unsigned i = 0; i < work->nodes && result == REDLOCK_OK; i++)
        if (nodes & rl_bit(i)) result = check_node(work, i);
    return result;
}

/* ---- may the change be made? ---- */

static int check_intact(struct quorum_work *work, unsigned intact, unsigned members,
                        const char *kind) {
    unsigned needed = rl_quorum(members);
    if (intact >= needed) return REDLOCK_OK;
    for (unsigned i = 0; i < work->nodes; i++)
        if (!work->seat[i].heard)
            return quorum_fail(
                work, REDLOCK_NO_QUORUM,
                "%s now would leave %u of %u members intact, and %u are needed (%s: %s): wait until more have "
                "recovered",
                kind, intact, members, needed, work->seat[i].url,
                redlock_verdict_text(work->seat[i].verdict));
    return quorum_fail(
        work, REDLOCK_NO_QUORUM,
        "%s now would leave %u of %u members intact, and %u are needed: wait until more have recovered",
        kind, intact, members, needed);
}

static const struct rl_member *member_of(const struct quorum_work *work,
                                         const struct quorum_seat *seat) {
    const struct rl_record *quorum = &work->view.quorum;
    if (!seat->empty && rl_record_member(quorum, seat->record.node_id))
        return rl_record_member(quorum, seat->record.node_id);
    for (unsigned i = 0; i < quorum->members_count; i++) {
        const struct rl_member *member = &quorum->members[i];
        if (strcmp(member->url, seat->url) == 0 || strcmp(member->body.run_id, seat->run_id) == 0)
            return member;
    }
    return NULL;
}

static int check_add(struct quorum_work *work, unsigned node) {
    const struct quorum_seat *seat = &work->seat[node];
    const struct rl_record *quorum = &work->view.quorum;
    if (!seat->heard) return quorum_fail_node(work, node, "Only a node that answers can be added");
    if (seat->unreadable)
        return quorum_fail(
            work, REDLOCK_BAD_ARGUMENT,
            "%s has a record that this version cannot read: if it is not needed any more, DEL " NET_KEY_RECORD
            " there",
            seat->url);
    if (!seat->empty && seat->record.quorum_id != quorum->quorum_id)
        return quorum_fail(work, REDLOCK_BAD_ARGUMENT,
                           "%s belongs to quorum %016" PRIx64
                           ": take it out there (redlock quorum remove), or if that quorum "
                           "is gone for good, DEL " NET_KEY_RECORD " there",
                           seat->url, seat->record.quorum_id);
    const struct rl_member *member = member_of(work, seat);
    if (member)
        return quorum_fail(work, REDLOCK_BAD_ARGUMENT,
                           "%s is a member already, as %016" PRIx64 " (%s)", seat->url, member->id,
                           member->url);
    if (quorum->members_count == RL_MEMBERS_MAX)
        return quorum_fail(work, REDLOCK_BAD_ARGUMENT,
                           "the quorum has %u members, and more it cannot have", RL_MEMBERS_MAX);
    if (quorum->members_count == 1)
        return quorum_fail(
            work, REDLOCK_BAD_ARGUMENT,
            "a quorum of one cannot be added to, for there is no majority from which a second node could "
            "recover: list all nodes, DEL " NET_KEY_RECORD " on %s, and redlock quorum init",
            quorum->members[0].url);
    int result = quorum_check_fit(work, rl_bit(node));
    if (result != REDLOCK_OK) return result;
    return check_intact(work, rl_count(rl_guard_intact(&work->view)), quorum->members_count + 1u,
                        "adding a member");
}

static int check_remove(struct quorum_work *work, uint64_t id) {
    const struct rl_record *quorum = &work->view.quorum;
    rl_mask intact = rl_guard_intact(&work->view);
    if (!rl_record_member(quorum, id))
        return quorum_fail(work, REDLOCK_BAD_ARGUMENT,
                           "%016" PRIx64 " is no member of quorum %016" PRIx64
                           ": redlock quorum status lists the members",
                           id, quorum->quorum_id);
    if (quorum->members_count == 1)
        return quorum_fail(work, REDLOCK_BAD_ARGUMENT,
                           "%016" PRIx64 " is the last member: a quorum of nobody holds no lock",
                           id);
    for (unsigned i = 0; i < work->nodes; i++)
        if (work->view.node[i].id == id) intact &= (rl_mask)~rl_bit(i);
    return check_intact(work, rl_count(intact), quorum->members_count - 1u, "removing it");
}

int quorum_check_change(struct quorum_work *work, const struct rl_change *change, int node) {
    return change->kind == RL_CHANGE_ADD ? check_add(work, (unsigned)node)
                                         : check_remove(work, change->id);
}

static const char *url_of_quorum(const struct quorum_work *work, uint64_t id) {
    for (unsigned i = 0; i < work->nodes; i++) {
        const struct rl_record *record = quorum_record_at(work, i);
        if (record && record->quorum_id == id) return work->seat[i].url;
    }
    return NULL;
}

int quorum_fail_other(struct quorum_work *work, unsigned node, uint64_t meant) {
    const uint64_t id = work->seat[node].record.quorum_id;
    const char *url = url_of_quorum(work, meant);
    return quorum_fail(
        work, REDLOCK_TWO_QUORUMS,
        "%s belongs to quorum %016" PRIx64 ", %s to quorum %016" PRIx64
        ": leave out the nodes of one of them, or name the quorum that is meant (--quorum); where %016" PRIx64
        " is gone for good, DEL " NET_KEY_RECORD " on its nodes",
        work->seat[node].url, id, url ? url : "this client", meant, id);
}

/* Nodes of two quorums are a mistake in the list, unless the operator has said which is meant. */
static int check_one_quorum(struct quorum_work *work, int node) {
    uint64_t id = work->view.known ? work->view.quorum.quorum_id : 0;
    for (unsigned i = 0; i < work->nodes && !work->pinned; i++) {
        const struct rl_record *record = quorum_record_at(work, i);
        if (!record || (int)i == node || record->quorum_id == id) continue;
        if (id != 0) return quorum_fail_other(work, i, id);
        id = record->quorum_id;
    }
    return REDLOCK_OK;
}

static int fail_unknown(struct quorum_work *work) {
    if (!work->quorum_id)
        return quorum_fail(work, REDLOCK_NO_QUORUM,
                           "no node of the list has a record: redlock quorum init makes them");
    return quorum_fail(
        work, REDLOCK_NO_QUORUM,
        "no node of the list has a record of quorum %016" PRIx64
        ": correct the list, or the quorum that is named; redlock quorum init makes records",
        work->quorum_id);
}

/* A majority of the members, and no node of another quorum among them but the one that is to be
 * added. */
int quorum_check_members(struct quorum_work *work, int node) {
    rl_mask intact = rl_guard_intact(&work->view);
    for (unsigned i = 0; i < work->nodes; i++)
        if (work->seat[i].verdict == REDLOCK_VERDICT_TWICE_LISTED)
            return quorum_fail(work, REDLOCK_TWICE_LISTED,
                               "%s is a server that the list has already: leave one of them out",
                               work->seat[i].url);
    int result = check_one_quorum(work, node);
    if (result != REDLOCK_OK) return result;
    if (!work->view.known) return fail_unknown(work);
    if (rl_count(intact) >= work->view.votes_needed) return REDLOCK_OK;
    for (unsigned i = 0; i < work->nodes; i++)
        if (!work->seat[i].heard)
            return quorum_fail_node(work, i,
                                    "A majority of the members must be intact for a change");
    return quorum_fail(
        work, REDLOCK_NO_QUORUM,
        "%u members are intact in the list, and a change needs %u: list all of them, or wait until more have "
        "recovered",
        rl_count(intact), work->view.votes_needed);
}
