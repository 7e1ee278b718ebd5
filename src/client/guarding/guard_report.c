/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Texts for a node's status and for the log: why a node does not vote, and the cure. */
#include <stdio.h>

#include "guarding.h"

/* The user may not do what brings the node back: write its record, or read the fences of a node
 * that is intact. "": none of it is known to be denied. */
static void denial_text(const struct guard *guard, unsigned node, char *text, size_t size) {
    const struct guard_denial *write = &guard->node[node].write_denied, *fences = NULL;
    text[0] = '\0';
    for (unsigned i = 0; i < guard->machine.nodes && !fences; i++)
        if (guard->node[i].fences_denied.denied) fences = &guard->node[i].fences_denied;
    const bool recovers = guard->machine.node[node].eligibility == RL_ELIGIBILITY_RECOVERING;
    if (write->denied)
        snprintf(text, size,
                 "its record cannot be written: no permission (ACL): allow this user %s%s",
                 write->command[0] ? "+" : "what redlock doctor names", write->command);
    else if (fences && recovers)
        snprintf(text, size, "cannot read the fences: no permission (ACL): allow this user %s%s",
                 fences->command[0] ? "+" : "what redlock doctor names", fences->command);
}

/* Its record is intact, and until a client recovers the node, the record says nothing else. */
static bool lost_fences_alone(const struct rl_guard_node *node) {
    return node->has_record && node->record.eligibility == RL_RECORD_INTACT &&
           node->record.nonce == node->damaged;
}

static void recovering_text(const struct guard *guard, unsigned node, char *text, size_t size) {
    int64_t left = guard_recovering_ms(guard, node);
    int trouble = guard->node[node].trouble;
    const char *what = lost_fences_alone(&guard->machine.node[node])
                           ? "its fences are missing"
                           : "it lost its lock data (or is new)";
    if (trouble != 0)
        snprintf(text, size, "%s, and its recovery fails: %s", what, redlock_verdict_text(trouble));
    else if (left < 0)
        snprintf(text, size,
                 "%s; it votes again some time after a majority of the quorum is intact", what);
    else
        snprintf(text, size, "%s; it votes again in about %lld s", what,
                 (long long)((left + 999) / 1000));
}

/* An init during an outage would give up a quorum that is only out of reach, or whose records are
 * on servers that are refused. */
static bool all_read(const struct rl_guard *machine) {
    for (unsigned i = 0; i < machine->nodes; i++)
        if (!machine->node[i].up || machine->node[i].eligibility == RL_ELIGIBILITY_REFUSED)
            return false;
    return true;
}

/* Enough members are intact; if no lock can be taken, that is due to the list. */
static bool is_alive(const struct rl_guard *machine) {
    return machine->known && rl_count(rl_guard_intact(machine)) >= machine->votes_needed;
}

/* The quorum that this client found first was replaced (redlock quorum init). */
static bool is_replaced(const struct rl_guard *machine) {
    for (unsigned i = 0; i < machine->nodes; i++)
        if (machine->node[i].has_record &&
            machine->node[i].record.quorum_id == machine->quorum.quorum_id)
            return false;
    return machine->known;
}

bool guard_asks_for_quorum(const struct guard *guard) {
    const struct rl_guard *machine = &guard->machine;
    return machine->known && !machine->decided && 2 * rl_guard_carriers(machine) > machine->nodes;
}

/* The node is intact, and at most half of the list carries its quorum's record. While too few of
 * the members are intact, it may be the last one that is: then members are missing, and the list
 * may be right. */
static void unaccepted_text(const struct guard *guard, char *text, size_t size) {
    const struct rl_guard *machine = &guard->machine;
    const unsigned carriers = rl_guard_carriers(machine);
    if (guard_asks_for_quorum(guard)) {
        snprintf(text, size, "it is intact; another node of the list is still being asked");
        return;
    }
    snprintf(text, size,
             "%u of %u listed nodes %s a record of quorum %016llx, and %u are needed: %s", carriers,
             machine->nodes, carriers == 1 ? "carries" : "carry",
             (unsigned long long)machine->quorum.quorum_id, rl_quorum(machine->nodes),
             !all_read(machine)  ? "start or correct the others (redlock quorum status)"
             : is_alive(machine) ? "list its members alone, or add the others"
                                 : "see redlock quorum status");
}

/* This node has no record, or its record does not decide which quorum it is. */
static void no_quorum_text(const struct guard *guard, unsigned node, char *text, size_t size) {
    const struct rl_guard *machine = &guard->machine;
    const struct rl_guard_node *at = &machine->node[node];
    unsigned long long id = at->record.quorum_id;
    if (!at->has_record && !all_read(machine))
        snprintf(text, size, "it carries no record; start or correct the other nodes first");
    else if (!at->has_record && is_alive(machine))
        snprintf(text, size, "it carries no record: redlock quorum add makes it a member");
    else if (!at->has_record && machine->known)
        snprintf(text, size,
                 "it carries no record, and no member has its URL (redlock quorum status)");
    else if (!at->has_record)
        snprintf(text, size, "it carries no record: redlock quorum init or add makes one");
    else if (machine->pinned)
        snprintf(text, size,
                 "it belongs to quorum %016llx, not to %016llx: correct the list, or the quorum",
                 id, (unsigned long long)machine->pinned);
    else
        snprintf(text, size,
                 "it belongs to quorum %016llx, and other nodes of the list to another: correct "
                 "the list, or name one (--quorum)",
                 id);
}

/* One sentence about a node that does not vote, with the cure; "" when there is nothing to
 * report. */
static void guard_text(const struct guard *guard, unsigned node, char *text, size_t size) {
    const struct guard_node *at = &guard->node[node];
    text[0] = '\0';
    if (guard->machine.node[node].eligibility != RL_ELIGIBILITY_INTACT) {
        denial_text(guard, node, text, size);
        if (text[0] != '\0') return;
    }
    switch (guard->machine.node[node].eligibility) {
    case RL_ELIGIBILITY_RECOVERING: recovering_text(guard, node, text, size); break;
    case RL_ELIGIBILITY_BEHIND:
        snprintf(text, size, "it does not have the newest change of the quorum yet");
        break;
    case RL_ELIGIBILITY_FOREIGN:
        snprintf(text, size, "%s",
                 guard_is_being_made(guard, node)
                     ? "quorum init or add is writing its record: it votes when that has ended"
                 : is_replaced(&guard->machine)
                     ? "no node is of the quorum any more that this client found first (redlock "
                       "quorum init replaced it): open the client again"
                     : "its record is not that of a present member of this quorum: redlock quorum "
                       "status names the members, and what to do");
        break;
    case RL_ELIGIBILITY_NO_RECORD: no_quorum_text(guard, node, text, size); break;
    case RL_ELIGIBILITY_REFUSED:
        snprintf(text, size, "%s", at->unfit[0] || !at->fault ? at->unfit : at->fault);
        break;
    case RL_ELIGIBILITY_UNKNOWN:
        if (at->trouble == REDLOCK_VERDICT_NOPERM && at->read_denied.command[0])
            snprintf(text, size, "its record cannot be read: allow this user +%s",
                     at->read_denied.command);
        else if (at->trouble)
            snprintf(text, size, "its record cannot be read: %s",
                     redlock_verdict_text(at->trouble));
        break;
    case RL_ELIGIBILITY_INTACT:
        if (!guard->machine.decided) unaccepted_text(guard, text, size);
        break;
    }
}

void guard_status(const struct redlock_client *client, unsigned node,
                  struct redlock_node_status *status) {
    const struct guard *guard = client->guard;
    uint64_t id = guard->machine.node[node].id;
    bool connected = status->verdict == REDLOCK_VERDICT_GRANTED;
    status->verdict = client_verdict(client, node, status->verdict);
    status->recovering_ms =
        status->verdict == REDLOCK_VERDICT_RECOVERING ? guard_recovering_ms(guard, node) : 0;
    if (connected) guard_text(guard, node, status->text, sizeof status->text);
    if (id != 0)
        snprintf(status->node_id, sizeof status->node_id, "%016llx", (unsigned long long)id);
}

/* The eligibility does not change: the node only fails to come back. */
static void report_denial(struct guard *guard, unsigned node) {
    char text[160];
    bool logged = guard->node[node].write_denied.logged;
    denial_text(guard, node, text, sizeof text);
    if (text[0] != '\0' && !logged &&
        guard->machine.node[node].eligibility != RL_ELIGIBILITY_INTACT)
        client_log(guard->client, REDLOCK_LOG_WARNING, "%s: does not recover: %s",
                   client_status(guard->client, node).url, text);
    guard->node[node].write_denied.logged = text[0] != '\0';
}

static void report_node(struct guard *guard, unsigned node) {
    enum rl_eligibility eligibility = guard->machine.node[node].eligibility;
    if (eligibility == RL_ELIGIBILITY_UNKNOWN || eligibility == guard->node[node].logged) return;
    guard->node[node].logged = eligibility;
    char text[160];
    const char *url = client_status(guard->client, node).url;
    guard_text(guard, node, text, sizeof text);
    if (eligibility == RL_ELIGIBILITY_INTACT && guard->machine.decided)
        client_log(guard->client, REDLOCK_LOG_INFO, "%s: intact: it votes", url);
    else
        client_log(guard->client, REDLOCK_LOG_WARNING, "%s: does not vote: %s", url, text);
}

unsigned guard_votes_needed(const struct guard *guard) {
    return guard->machine.votes_needed > 0 ? guard->machine.votes_needed
                                           : rl_quorum(guard->client->nodes);
}

unsigned guard_unlisted(const struct guard *guard, const struct rl_member **first) {
    const struct rl_record *quorum = &guard->machine.quorum;
    const unsigned nodes = guard->machine.nodes;
    unsigned lacking = 0, unplaced = 0;
    *first = NULL;
    for (unsigned i = 0; i < quorum->members_count; i++) {
        unsigned at = 0;
        while (at < nodes && guard->machine.node[at].id != quorum->members[i].id) at++;
        if (at == nodes && lacking++ == 0) *first = &quorum->members[i];
    }
    for (unsigned i = 0; i < nodes; i++) {
        const struct rl_guard_node *node = &guard->machine.node[i];
        unplaced += node->id == 0 && (node->eligibility == RL_ELIGIBILITY_UNKNOWN ||
                                      node->eligibility == RL_ELIGIBILITY_REFUSED);
    }
    return lacking > unplaced ? lacking - unplaced : 0; /* each of these may be one of them */
}

/* An outdated list of nodes works as long as it names a majority. The log warns before it no longer
 * does. */
static void report_list(struct guard *guard) {
    const struct rl_record *quorum = &guard->machine.quorum;
    const struct rl_member *first;
    const unsigned lacking = guard_unlisted(guard, &first);
    if (lacking == guard->logged_lacking && quorum->epoch == guard->logged_epoch) return;
    guard->logged_lacking = lacking;
    guard->logged_epoch = quorum->epoch;
    if (lacking == 0) return;
    bool too_few = quorum->members_count - lacking < guard->machine.votes_needed;
    client_log(guard->client, too_few ? REDLOCK_LOG_ERROR : REDLOCK_LOG_WARNING,
               "the list of nodes lacks %u of the quorum's %u members (%s for one)%s: update it",
               lacking, (unsigned)quorum->members_count, first->url,
               too_few ? ", too many for any lock" : "");
}

/* A lock with a longer TTL learns of it by its renewals alone: they still work. */
static void report_ttl_max(struct guard *guard) {
    const int64_t ttl_ms = rl_record_ttl_allowed(&guard->machine.quorum);
    if (guard->machine.decided && guard->logged_ttl_ms > ttl_ms)
        client_log(guard->client, REDLOCK_LOG_WARNING,
                   "the quorum's ttl_max was lowered from %lld ms to %lld ms: longer locks are "
                   "renewed with that",
                   (long long)guard->logged_ttl_ms, (long long)ttl_ms);
    if (guard->machine.decided) guard->logged_ttl_ms = ttl_ms;
}

/* While nodes are still being asked, the state of one of them may yet turn out. */
void guard_report(struct guard *guard) {
    struct redlock_client *client = guard->client;
    if (client->closing || client_settled(client) != rl_all(client->nodes)) return;
    for (unsigned i = 0; i < guard->machine.nodes; i++) {
        report_node(guard, i);
        report_denial(guard, i);
    }
    if (guard->machine.known) report_list(guard);
    if (guard->machine.known) report_ttl_max(guard);
}
