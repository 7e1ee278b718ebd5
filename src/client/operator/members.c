/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What the nodes' records say of the quorum and its members. */
#include <stdio.h>
#include <string.h>

#include "abi/sized.h"
#include "client/guarding/guarding.h"

/* For members that have not reported their identity (not connected, for example), the URL
 * identifies the node. */
static int node_of(const struct rl_guard *machine, const struct rl_member *member) {
    for (unsigned i = 0; i < machine->nodes; i++)
        if (machine->node[i].id == member->id) return (int)i;
    for (unsigned i = 0; i < machine->nodes; i++)
        if (machine->node[i].id == 0 && strcmp(machine->node[i].url, member->url) == 0)
            return (int)i;
    return -1;
}

static void id_text(char text[17], uint64_t id) {
    snprintf(text, 17, "%016llx", (unsigned long long)id);
}

static void peek_at(struct redlock_client *client, const struct rl_member *member,
                    struct redlock_member *out) {
    *out = (struct redlock_member){.verdict = REDLOCK_VERDICT_NONE};
    id_text(out->id, member->id);
    snprintf(out->url, sizeof out->url, "%s", member->url);
    out->node = node_of(&client->guard->machine, member);
    if (out->node < 0) return;
    struct net_node_status status;
    unsigned node = (unsigned)out->node;
    net_node(client->net, node, net_now(client->net), &status);
    out->verdict = client_verdict(client, node, status.verdict);
    if (client->guard->machine.node[node].eligibility == RL_ELIGIBILITY_INTACT)
        out->verdict = REDLOCK_VERDICT_GRANTED;
    if (out->verdict == REDLOCK_VERDICT_RECOVERING)
        out->recovering_ms = guard_recovering_ms(client->guard, node);
}

/* This client may have adopted one of them, because more than half of the nodes carry it. The list
 * is still wrong. */
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
static int peek_at_all(struct redlock_client *client, struct redlock_quorum_status *quorum,
                       struct redlock_member *members, size_t count) {
    const struct rl_guard *machine = &client->guard->machine;
    const struct rl_record *record = &machine->quorum;
    struct redlock_quorum_status seen = {.known = machine->known};
    if (machine->known) {
        if (count < record->members_count) return REDLOCK_BAD_ARGUMENT;
        id_text(seen.id, record->quorum_id);
        seen.epoch = record->epoch;
        seen.settled = machine->settled;
        seen.ttl_ms_max = record->ttl_max_ms;
        seen.members = record->members_count;
        seen.votes_needed = machine->votes_needed;
    }
    for (size_t i = 0; i < seen.members; i++) {
        struct redlock_member member;
        peek_at(client, &record->members[i], &member);
        sized_fill(sized_element(members, i), members->size, &member, sizeof member);
        seen.intact += member.verdict == REDLOCK_VERDICT_GRANTED;
    }
    sized_fill(quorum, quorum->size, &seen, sizeof seen);
    if (names_two_quorums(machine)) return REDLOCK_TWO_QUORUMS;
    return machine->decided && seen.intact >= seen.votes_needed ? REDLOCK_OK : REDLOCK_NO_QUORUM;
}

int redlock_quorum_peek(struct redlock_client *client, struct redlock_quorum_status *quorum,
                        struct redlock_member *members, size_t count) {
    if (!quorum || (!members && count > 0) || !client->guard) return REDLOCK_BAD_ARGUMENT;
    if (quorum->size < FIRST_QUORUM || !sized_array_fits(members, count, FIRST_MEMBER))
        return REDLOCK_BAD_ARGUMENT;
    if (client_enter(client) != REDLOCK_OK) return REDLOCK_FORKED;
    gather(client, gather_until(client));
    int result = peek_at_all(client, quorum, members, count);
    client_leave_notifying(client);
    return result;
}
