/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What the nodes' records say of the quorum and its members.
 */
#include <stdio.h>
#include <string.h>

#include "client.h"

/* Of the members that have not told who they are, which is not connected say, the URL tells. */
static int node_of(const struct rl_guard *machine, const struct rl_member *member) {
    for (unsigned i = 0; i < machine->nodes; i++)
        if (machine->node[i].id == member->id) return (int)i;
    for (unsigned i = 0; i < machine->nodes; i++)
        if (machine->node[i].id == 0 && strcmp(machine->node[i].url, member->url) == 0) return (int)i;
    return -1;
}

static void id_text(char text[17], uint64_t id) { snprintf(text, 17, "%016llx", (unsigned long long)id); }

/* Where the quorum is not this client's own, for too few nodes carry a record, each record speaks for its node alone. */
static int verdict_by_record(const struct rl_guard_node *node, uint64_t quorum_id, int verdict) {
    if (verdict != REDLOCK_VERDICT_GRANTED || !node->read || !node->stated || node->unfit || node->unreadable)
        return verdict;
    if (node->has_record && node->record.quorum_id != quorum_id) return REDLOCK_VERDICT_FOREIGN;
    bool intact = node->has_record && node->record.standing == RL_RECORD_INTACT &&
                  rl_record_fits(&node->record, node->run_id, node->replid, node->evicted);
    return intact ? REDLOCK_VERDICT_GRANTED : REDLOCK_VERDICT_RECOVERING;
}

static void look_at(struct redlock_client *client, const struct rl_record *record, const struct rl_member *member,
                    struct redlock_member *out) {
    const struct rl_guard *machine = &client->guard->machine;
    *out = (struct redlock_member){.size = sizeof *out, .verdict = REDLOCK_VERDICT_NONE};
    id_text(out->id, member->id);
    snprintf(out->url, sizeof out->url, "%s", member->url);
    out->node = node_of(machine, member);
    if (out->node < 0) return;
    struct net_node_status status;
    unsigned node = (unsigned)out->node;
    net_node(client->net, node, net_now(client->net), &status);
    out->verdict = client_verdict(client, node, status.verdict);
    if (!machine->known && out->verdict == REDLOCK_VERDICT_NO_RECORD)
        out->verdict = verdict_by_record(&machine->node[node], record->quorum_id, status.verdict);
    if (out->verdict != REDLOCK_VERDICT_RECOVERING) return;
    out->recovering_ms = machine->known ? guard_recovering_ms(client->guard, node) : -1;
}

static bool sizes_fit(const struct redlock_quorum *quorum, const struct redlock_member *members, size_t count) {
    if (quorum->size != sizeof *quorum) return false;
    for (size_t i = 0; i < count; i++)
        if (members[i].size != sizeof members[i]) return false;
    return true;
}

/* Where too few nodes carry a record for this client to take the quorum as its own, a record still says what it was: an
 * operator wants to know. NULL: there is none, or they are of two quorums. */
static const struct rl_record *find_record(const struct rl_guard *machine) {
    const struct rl_record *found = NULL;
    if (machine->known) return &machine->quorum;
    for (unsigned i = 0; i < machine->nodes && !machine->other_quorum; i++) {
        const struct rl_guard_node *node = &machine->node[i];
        bool meant = !machine->pinned || node->record.quorum_id == machine->pinned;
        if (!node->up || !node->read || !node->has_record || node->unreadable || !meant) continue;
        if (!found || node->record.epoch > found->epoch) found = &node->record;
    }
    return found;
}

/* This client may have taken the one, for more than half of the nodes are of it; the list is wrong all the same. */
static bool names_two_quorums(const struct rl_guard *machine) {
    const struct rl_guard_node *first = NULL;
    for (unsigned i = 0; i < machine->nodes && !machine->pinned; i++) {
        const struct rl_guard_node *node = &machine->node[i];
        if (!node->up || !node->read || !node->has_record || node->unreadable) continue;
        if (!first) first = node;
        if (node->record.quorum_id != first->record.quorum_id) return true;
    }
    return false;
}

/* The mutex is held. */
static int look_at_all(struct redlock_client *client, struct redlock_quorum *quorum, struct redlock_member *members,
                       size_t count) {
    const struct rl_guard *machine = &client->guard->machine;
    const struct rl_record *record = find_record(machine);
    struct redlock_quorum seen = {.size = sizeof seen, .known = record != NULL};
    if (record) {
        if (count < record->members_count) return REDLOCK_BAD_ARGUMENT;
        id_text(seen.id, record->quorum_id);
        seen.epoch = record->epoch;
        seen.settled = machine->settled;
        seen.ttl_ms_max = record->ttl_max_ms;
        seen.members = record->members_count;
        seen.votes_needed = rl_quorum(record->members_count);
    }
    for (size_t i = 0; i < seen.members; i++) {
        look_at(client, record, &record->members[i], &members[i]);
        seen.intact += members[i].verdict == REDLOCK_VERDICT_GRANTED;
    }
    *quorum = seen;
    if (names_two_quorums(machine)) return REDLOCK_TWO_QUORUMS;
    return seen.known && seen.intact >= seen.votes_needed ? REDLOCK_OK : REDLOCK_NO_QUORUM;
}

int redlock_quorum_look(struct redlock_client *client, struct redlock_quorum *quorum, struct redlock_member *members,
                        size_t count) {
    if (!quorum || (!members && count > 0) || !client->guard || !sizes_fit(quorum, members, count)) return REDLOCK_BAD_ARGUMENT;
    if (client_enter(client) != REDLOCK_OK) return REDLOCK_FORKED;
    gather(client, gather_until(client));
    int result = look_at_all(client, quorum, members, count);
    client_leave_telling(client);
    return result;
}
