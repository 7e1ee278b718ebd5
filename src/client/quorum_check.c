/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What is refused: servers that are not fit, and changes that would do harm. Each with its cure.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "quorum.h"

/* ---- is a server fit to hold a record? ---- */

static bool is_old(const char *version) {
    unsigned major = 0, minor = 0;
    return sscanf(version, "%u.%u", &major, &minor) == 2 && (major < 6 || (major == 6 && minor < 2));
}

static int refuse(struct quorum_work *work, unsigned node, const char *why) {
    return quorum_fail(work, REDLOCK_NO_QUORUM, "%s is not fit for guarded mode: %s", work->seat[node].url, why);
}

static int check_server(struct quorum_work *work, unsigned node, const struct redlock_server *server) {
    work->seat[node].verdict = server->verdict;
    if (server->verdict != REDLOCK_VERDICT_GRANTED)
        return quorum_fail_node(work, node, "It must answer for this: run the command again when it does");
    if (server->run_id[0] == '\0')
        return refuse(work, node,
                      "INFO, which tells one server process from the next, is refused; allow the user to use it");
    if (is_old(server->redis_version)) return refuse(work, node, "it is older than Redis 6.2");
    if (server->role == REDLOCK_ROLE_REPLICA)
        return refuse(work, node, "it is a replica of another server; REPLICAOF NO ONE makes it a master");
    if (server->loading == 1)
        return refuse(work, node, "it still reads its data; run the command again when it is done");
    if (server->writes_refused == 1)
        return refuse(work, node, "it refuses writes because its last write to disk failed; free its disk");
    if (server->eviction[0] != '\0' && strcmp(server->eviction, "noeviction") != 0)
        return refuse(work, node, "its maxmemory-policy may throw locks away; CONFIG SET maxmemory-policy noeviction");
    return REDLOCK_OK;
}

int quorum_check_fit(struct quorum_work *work, rl_mask nodes) {
    struct redlock_server *servers = calloc(RL_NODES_MAX, sizeof *servers);
    if (!servers) return quorum_fail(work, REDLOCK_NO_MEMORY, "out of memory");
    for (unsigned i = 0; i < RL_NODES_MAX; i++) servers[i].size = sizeof servers[i];
    int result = redlock_survey(work->client, REDLOCK_SURVEY_ALL, servers, RL_NODES_MAX);
    if (result == REDLOCK_NO_MEMORY)
        quorum_fail(work, result, "out of memory");
    else
        result = REDLOCK_OK; /* whether the ones that matter answered is looked at one by one */
    for (unsigned i = 0; i < work->nodes && result == REDLOCK_OK; i++)
        if (nodes & rl_bit(i)) result = check_server(work, i, &servers[i]);
    free(servers);
    return result;
}

/* ---- may the change be made? ---- */

static int check_intact(struct quorum_work *work, unsigned intact, unsigned members, const char *kind) {
    unsigned needed = rl_quorum(members);
    if (intact >= needed) return REDLOCK_OK;
    for (unsigned i = 0; i < work->nodes; i++)
        if (!work->seat[i].heard)
            return quorum_fail(
                work, REDLOCK_NO_QUORUM,
                "%s now would leave %u of %u members intact, and %u are needed (%s: %s): wait until more have "
                "recovered",
                kind, intact, members, needed, work->seat[i].url, redlock_verdict_text(work->seat[i].verdict));
    return quorum_fail(work, REDLOCK_NO_QUORUM,
                       "%s now would leave %u of %u members intact, and %u are needed: wait until more have recovered",
                       kind, intact, members, needed);
}

static const struct rl_member *member_of(const struct quorum_work *work, const struct quorum_seat *seat) {
    const struct rl_record *quorum = &work->view.quorum;
    if (!seat->empty && rl_record_member(quorum, seat->record.node_id))
        return rl_record_member(quorum, seat->record.node_id);
    for (unsigned i = 0; i < quorum->members_count; i++) {
        const struct rl_member *member = &quorum->members[i];
        if (strcmp(member->url, seat->url) == 0 || strcmp(member->body.run_id, seat->run_id) == 0) return member;
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
            "%s has a record that this version cannot read: if it is not needed any more, DEL " NET_KEY_RECORD " there",
            seat->url);
    if (!seat->empty && seat->record.quorum_id != quorum->quorum_id)
        return quorum_fail(work, REDLOCK_BAD_ARGUMENT,
                           "%s belongs to quorum %016" PRIx64
                           ": take it out there (redlock quorum remove), or if that quorum "
                           "is gone for good, DEL " NET_KEY_RECORD " there",
                           seat->url, seat->record.quorum_id);
    const struct rl_member *member = member_of(work, seat);
    if (member)
        return quorum_fail(work, REDLOCK_BAD_ARGUMENT, "%s is a member already, as %016" PRIx64 " (%s)", seat->url,
                           member->id, member->url);
    if (quorum->members_count == RL_MEMBERS_MAX)
        return quorum_fail(work, REDLOCK_BAD_ARGUMENT, "the quorum has %u members, and more it cannot have",
                           RL_MEMBERS_MAX);
    if (quorum->members_count == 1)
        return quorum_fail(
            work, REDLOCK_BAD_ARGUMENT,
            "a quorum of one cannot be added to, for there is no majority from which a second node could "
            "recover: list all nodes, DEL " NET_KEY_RECORD " on %s, and redlock quorum init",
            quorum->members[0].url);
    int result = quorum_check_fit(work, rl_bit(node));
    if (result != REDLOCK_OK) return result;
    return check_intact(work, rl_count(rl_guard_intact(&work->view)), quorum->members_count + 1u, "adding a member");
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
                           "%016" PRIx64 " is the last member: a quorum of nobody holds no lock", id);
    for (unsigned i = 0; i < work->nodes; i++)
        if (work->view.node[i].id == id) intact &= (rl_mask)~rl_bit(i);
    return check_intact(work, rl_count(intact), quorum->members_count - 1u, "removing it");
}

int quorum_check_change(struct quorum_work *work, const struct rl_change *change, int node) {
    return change->kind == RL_CHANGE_ADD ? check_add(work, (unsigned)node) : check_remove(work, change->id);
}

/* A majority of the members, and no node of another quorum among them but the one that is to be added. */
int quorum_check_members(struct quorum_work *work, int node) {
    rl_mask intact = rl_guard_intact(&work->view);
    for (unsigned i = 0; i < work->nodes; i++)
        if (work->seat[i].verdict == REDLOCK_VERDICT_TWICE_LISTED)
            return quorum_fail(work, REDLOCK_TWICE_LISTED,
                               "%s is a server that the list has already: leave one of them out", work->seat[i].url);
    if (!work->view.known)
        return quorum_fail(work, REDLOCK_NO_QUORUM, "no node of the list has a record: redlock quorum init makes them");
    for (unsigned i = 0; i < work->nodes; i++) {
        const struct quorum_seat *seat = &work->seat[i];
        if (!seat->heard || seat->empty || seat->unreadable || (int)i == node) continue;
        if (seat->record.quorum_id == work->view.quorum.quorum_id) continue;
        return quorum_fail(work, REDLOCK_BAD_ARGUMENT,
                           "%s belongs to quorum %016" PRIx64 ", others of the list to quorum %016" PRIx64
                           ": leave it out",
                           seat->url, seat->record.quorum_id, work->view.quorum.quorum_id);
    }
    if (rl_count(intact) >= work->view.votes_needed) return REDLOCK_OK;
    for (unsigned i = 0; i < work->nodes; i++)
        if (!work->seat[i].heard)
            return quorum_fail_node(work, i, "A majority of the members must be intact for a change");
    return quorum_fail(
        work, REDLOCK_NO_QUORUM,
        "%u members are intact in the list, and a change needs %u: list all of them, or wait until more have "
        "recovered",
        rl_count(intact), work->view.votes_needed);
}
