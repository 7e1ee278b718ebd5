/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Which nodes may vote. "A node counts only if all of this holds: its record is of that quorum and
 * epoch, standing intact, written for this run_id; its member's newest incarnation is this run_id."
 * (docs/inside/guarded.md) */
#include "core/eligibility.h"

#include <assert.h>
#include <string.h>

/* The only place where an eligibility changes. Each may follow each other: a record that another
 * client, or we, wrote can show any of them. */
static bool move(struct rl_guard_node *node, enum rl_eligibility to) {
    if (node->eligibility == to) return false;
    if (to == RL_ELIGIBILITY_INTACT) {
        assert(node->up && node->stated && node->read && node->has_record && !node->unfit &&
               !node->distrusted);
        assert(node->record.eligibility == RL_RECORD_INTACT && eligibility_fits(node));
        assert(node->record.nonce != node->damaged);
    }
    node->eligibility = to;
    return true;
}

/* ---- what the records say -------------------------------------------------------------------- */

static bool readable(const struct rl_guard_node *node) {
    return node->up && node->stated && node->read && node->has_record && !node->unreadable &&
           !node->unfit;
}

bool eligibility_fits(const struct rl_guard_node *node) {
    return rl_record_fits(&node->record, node->run_id, node->replid, node->evicted);
}

/* Intact by its own record, which may be of any quorum, behind, or superseded. */
static bool says_intact(const struct rl_guard_node *node) {
    return readable(node) && node->record.eligibility == RL_RECORD_INTACT &&
           node->record.nonce != node->damaged && !node->distrusted && eligibility_fits(node);
}

/* Where no node is intact, a record that cannot vote still defines the quorum. */
static bool is_source(const struct rl_guard_node *node, uint64_t quorum_id, bool intact_only) {
    return (intact_only ? says_intact(node) : readable(node)) &&
           node->record.quorum_id == quorum_id;
}

static unsigned count_of(const struct rl_guard *guard, uint64_t quorum_id, bool intact_only) {
    unsigned count = 0;
    for (unsigned i = 0; i < guard->nodes; i++)
        count += is_source(&guard->node[i], quorum_id, intact_only);
    return count;
}

/* Two different ids among the records mean a mistake in the list. Counting nodes does not help: the
 * majority can change when a node is down. Returns `id`, or where it is 0 the first id read;
 * records a second one. */
static uint64_t first_quorum(struct rl_guard *guard, uint64_t id) {
    guard->other_quorum = 0;
    for (unsigned i = 0; i < guard->nodes; i++) {
        const struct rl_guard_node *node = &guard->node[i];
        if (!readable(node) || node->record.quorum_id == id) continue;
        if (id != 0) guard->other_quorum = node->record.quorum_id;
        if (id == 0) id = node->record.quorum_id;
    }
    return id;
}

/* A client never changes its quorum. It adopts an unpinned one only when more than half of its
 * listed nodes carry the quorum's record. Two clients with one list may reach different nodes, and
 * both must adopt the same quorum. Until then the client only reads. */
static uint64_t choose_quorum(struct rl_guard *guard) {
    if (guard->pinned) return guard->pinned;
    if (guard->decided) return first_quorum(guard, guard->quorum.quorum_id);
    uint64_t id = first_quorum(guard, 0);
    if (id != 0 && guard->quorum.quorum_id != id) {
        guard->known = false;
        guard->quorum.quorum_id = id;
    }
    return guard->other_quorum ? 0 : id;
}

/* The node was read, cannot be read, or is where a member is expected. A node elsewhere that is
 * still unread may have a record of another quorum. Whether the list is refused must not depend on
 * which answer comes first. */
static bool is_no_surprise(const struct rl_guard *guard, const struct rl_guard_node *node) {
    if (node->up && ((node->stated && node->read) || node->unfit)) return true;
    if (guard->unreadable_now & rl_bit((unsigned)(node - guard->node))) return true;
    for (unsigned i = 0; i < guard->quorum.members_count; i++)
        if (strcmp(node->url, guard->quorum.members[i].url) == 0) return true;
    return false;
}

/* The records of a first init that has not finished do not count. Another init may still take these
 * nodes into its own quorum, and a client never changes the quorum that it has adopted. */
unsigned rl_guard_carriers(const struct rl_guard *guard) {
    unsigned count = 0;
    for (unsigned i = 0; i < guard->nodes; i++) {
        const struct rl_record *record = &guard->node[i].record;
        count += readable(&guard->node[i]) && record->quorum_id == guard->quorum.quorum_id &&
                 !rl_record_of_first_init(record);
    }
    return count;
}

static bool is_decided(const struct rl_guard *guard) {
    if (guard->decided || guard->pinned) return true;
    for (unsigned i = 0; i < guard->nodes; i++)
        if (!is_no_surprise(guard, &guard->node[i])) return false;
    return 2 * rl_guard_carriers(guard) > guard->nodes;
}

/* Counts the nodes that carry the same epoch with the same members. */
static unsigned carriers(const struct rl_guard *guard, const struct rl_record *record,
                         bool intact_only) {
    unsigned count = 0;
    for (unsigned i = 0; i < guard->nodes; i++) {
        const struct rl_record *other = &guard->node[i].record;
        count += is_source(&guard->node[i], record->quorum_id, intact_only) &&
                 other->epoch == record->epoch && rl_record_same_members(other, record);
    }
    return count;
}

/* One epoch has one list of members, because a majority of the previous members decides each
 * change. Only an init that did not see the records of the quorum that it renews can break this.
 * Then the list on more nodes counts. A node with the other list does not vote (of_member());
 * otherwise each list could have a majority. */
static bool is_newer(const struct rl_guard *guard, const struct rl_record *record,
                     const struct rl_record *best, bool intact_only) {
    if (!best) return true;
    if (record->epoch != best->epoch) return record->epoch > best->epoch;
    return !rl_record_same_members(record, best) &&
           carriers(guard, record, intact_only) > carriers(guard, best, intact_only);
}

static const struct rl_record *newest(const struct rl_guard *guard, uint64_t quorum_id,
                                      bool intact_only) {
    const struct rl_record *best = NULL;
    for (unsigned i = 0; i < guard->nodes; i++) {
        const struct rl_guard_node *node = &guard->node[i];
        if (is_source(node, quorum_id, intact_only) &&
            is_newer(guard, &node->record, best, intact_only))
            best = &node->record;
    }
    return best;
}

/* "the largest ttl_max of the intact nodes counts", of those that are members now. For each member,
 * the newest incarnation in any record counts. */
static void merge(struct rl_guard *guard, const struct rl_record *from) {
    /* incarnations from before the last init have a numbering of their own */
    if (from->epoch < guard->quorum.begun) return;
    /* The record is of the newest epoch, has its list, and is a member's. Another node may allow a
     * longer TTL than the members wait. */
    bool ttl_max_counts = from->epoch == guard->quorum.epoch &&
                          rl_record_same_members(from, &guard->quorum) &&
                          rl_record_member(&guard->quorum, from->node_id);
    if (ttl_max_counts && from->ttl_max_ms > guard->quorum.ttl_max_ms)
        guard->quorum.ttl_max_ms = from->ttl_max_ms;
    if (ttl_max_counts && from->ttl_next_ms > guard->quorum.ttl_next_ms)
        guard->quorum.ttl_next_ms = from->ttl_next_ms;
    for (unsigned i = 0; i < guard->quorum.members_count; i++) {
        struct rl_member *member = &guard->quorum.members[i];
        const struct rl_member *reported = rl_record_member(from, member->id);
        if (reported && rl_incarnation_compare(&member->incarnation, &reported->incarnation) < 0)
            member->incarnation = reported->incarnation;
    }
}

/* Where no node is intact, the earlier knowledge stays. */
static void learn_quorum(struct rl_guard *guard) {
    uint64_t id = choose_quorum(guard);
    if (guard->other_quorum && !guard->decided) guard->known = false;
    if (id == 0) return;
    bool intact_only = count_of(guard, id, true) > 0;
    const struct rl_record *record = newest(guard, id, intact_only);
    if (!record || (guard->known && !intact_only)) return;
    guard->quorum = *record;
    guard->known = true;
    guard->decided = is_decided(guard);
    guard->votes_needed = rl_quorum(guard->quorum.members_count);
    for (unsigned i = 0; i < guard->nodes; i++)
        if (is_source(&guard->node[i], id, intact_only)) merge(guard, &guard->node[i].record);
}

/* ---- which member a node is ------------------------------------------------------------------ */

static bool is_taken(const struct rl_guard *guard, uint64_t id) {
    for (unsigned i = 0; i < guard->nodes; i++)
        if (guard->node[i].id == id) return true;
    return false;
}

/* "Clients match nodes by id, never by URL": but an empty node has no id, unless we saw one there
 * before. Its place is the member whose URL is ours. The only place left is not enough: a list may
 * name a server that is to be added, and not yet name some member. Then the server would be
 * registered as that member's incarnation. */
static void place_empty_nodes(struct rl_guard *guard) {
    for (unsigned m = 0; m < guard->quorum.members_count; m++) {
        const struct rl_member *member = &guard->quorum.members[m];
        for (unsigned i = 0; i < guard->nodes && !is_taken(guard, member->id); i++) {
            struct rl_guard_node *node = &guard->node[i];
            bool empty = !node->read || !node->has_record;
            /* Its role before its removal does not count: it was added again. */
            bool placed = node->id != 0 && rl_record_member(&guard->quorum, node->id);
            if (!placed && empty && strcmp(node->url, member->url) == 0) node->id = member->id;
        }
    }
}

const struct rl_member *eligibility_member_at(const struct rl_guard *guard, const char *url) {
    for (unsigned m = 0; m < guard->quorum.members_count; m++)
        if (strcmp(guard->quorum.members[m].url, url) == 0) return &guard->quorum.members[m];
    return NULL;
}

/* A server that was made a replica of another member, or started from its file, has the record of
 * that member. At the URL of a member of its own it is that one, without its data. By the record it
 * would take the other's place whenever it was read first, and leave its own place empty. */
static uint64_t id_of(const struct rl_guard *guard, const struct rl_guard_node *node) {
    const struct rl_member *own = eligibility_member_at(guard, node->url);
    bool copied = own && own->id != node->record.node_id &&
                  rl_record_member(&guard->quorum, node->record.node_id) &&
                  strcmp(node->record.run_id, node->run_id) != 0;
    return copied ? own->id : node->record.node_id;
}

static void place_nodes(struct rl_guard *guard) {
    for (unsigned i = 0; i < guard->nodes; i++) {
        struct rl_guard_node *node = &guard->node[i];
        if (!readable(node)) continue;
        bool ours = guard->known && node->record.quorum_id == guard->quorum.quorum_id;
        node->id = ours ? id_of(guard, node) : 0;
    }
    if (guard->known) place_empty_nodes(guard);
}

/* ---- incarnations ---------------------------------------------------------------------------- */

bool eligibility_is_claimed(const struct rl_guard *guard, const struct rl_guard_node *node) {
    return readable(node) && guard->known && node->record.eligibility == RL_RECORD_RECOVERING &&
           node->record.quorum_id == guard->quorum.quorum_id && node->record.loss != 0 &&
           node->record.epoch >= guard->quorum.begun && eligibility_fits(node) &&
           eligibility_claimed_incarnation(node) != NULL;
}

const struct rl_incarnation *eligibility_claimed_incarnation(const struct rl_guard_node *node) {
    const struct rl_member *member = rl_record_member(&node->record, node->record.node_id);
    return member && strcmp(member->incarnation.run_id, node->run_id) == 0 ? &member->incarnation
                                                                           : NULL;
}

bool eligibility_newest_incarnation(const struct rl_guard *guard, uint64_t id,
                                    struct rl_incarnation *incarnation) {
    const struct rl_member *member = rl_record_member(&guard->quorum, id);
    if (!member) return false;
    *incarnation = member->incarnation;
    for (unsigned i = 0; i < guard->nodes; i++) {
        const struct rl_guard_node *node = &guard->node[i];
        if (node->id != id || !eligibility_is_claimed(guard, node)) continue;
        const struct rl_incarnation *claimed = eligibility_claimed_incarnation(node);
        if (rl_incarnation_compare(incarnation, claimed) < 0) *incarnation = *claimed;
    }
    return true;
}

bool eligibility_is_superseded(const struct rl_guard *guard, const struct rl_guard_node *node) {
    const struct rl_member *member = rl_record_member(&guard->quorum, node->id);
    if (!member) return false;
    bool same_server = strcmp(member->incarnation.run_id, node->run_id) == 0;
    if (eligibility_is_claimed(guard, node))
        return !same_server && rl_incarnation_compare(eligibility_claimed_incarnation(node),
                                                      &member->incarnation) < 0;
    /* It was the incarnation and is not any longer, even when its record has gone since. A new
     * server would have another run_id. */
    return (says_intact(node) || node->was_incarnation) && !same_server;
}

bool eligibility_has_registered(const struct rl_guard_node *other,
                                const struct rl_guard_node *node) {
    if (other == node || other->eligibility != RL_ELIGIBILITY_INTACT) return false;
    const struct rl_member *member = rl_record_member(&other->record, node->id);
    const struct rl_incarnation *claimed = eligibility_claimed_incarnation(node);
    /* It may have been registered under a higher number before it lost its data again. It is the
     * newest in any case. */
    return member && member->incarnation.number >= claimed->number &&
           strcmp(member->incarnation.run_id, claimed->run_id) == 0;
}

bool eligibility_is_registered(const struct rl_guard *guard, const struct rl_guard_node *node) {
    unsigned count = 0;
    for (unsigned i = 0; i < guard->nodes; i++)
        count += eligibility_has_registered(&guard->node[i], node);
    return count >= guard->votes_needed;
}

/* ---- eligibilities --------------------------------------------------------------------------- */

/* One member, one vote. If two nodes claim the same member, the one that the records name counts,
 * else the first. */
bool eligibility_is_double(const struct rl_guard *guard, const struct rl_guard_node *node) {
    const struct rl_member *member = rl_record_member(&guard->quorum, node->id);
    bool named = member && strcmp(member->incarnation.run_id, node->run_id) == 0;
    for (unsigned i = 0; i < guard->nodes; i++) {
        const struct rl_guard_node *other = &guard->node[i];
        if (other == node || other->id != node->id || !other->up || !other->read) continue;
        bool other_named = member && strcmp(member->incarnation.run_id, other->run_id) == 0;
        if (other_named != named ? other_named : other < node) return true;
    }
    return false;
}

static enum rl_eligibility of_member(const struct rl_guard *guard,
                                     const struct rl_guard_node *node) {
    if (eligibility_is_double(guard, node)) return RL_ELIGIBILITY_FOREIGN;
    if (!says_intact(node)) return RL_ELIGIBILITY_RECOVERING;
    if (eligibility_is_superseded(guard, node)) return RL_ELIGIBILITY_FOREIGN;
    /* An init writes every member anew. This node is a former incarnation that still runs, and
     * another server has its place. */
    if (node->record.epoch < guard->quorum.begun) return RL_ELIGIBILITY_FOREIGN;
    if (node->record.epoch == guard->quorum.epoch &&
        !rl_record_same_members(&node->record, &guard->quorum))
        return RL_ELIGIBILITY_FOREIGN;
    return node->record.epoch < guard->quorum.epoch ? RL_ELIGIBILITY_BEHIND : RL_ELIGIBILITY_INTACT;
}

static enum rl_eligibility of_node(const struct rl_guard *guard, const struct rl_guard_node *node) {
    if (!node->up) return RL_ELIGIBILITY_UNKNOWN;
    if (node->unfit) return RL_ELIGIBILITY_REFUSED;
    if (!node->read || !node->stated) return RL_ELIGIBILITY_UNKNOWN;
    if (node->unreadable) return RL_ELIGIBILITY_REFUSED;
    if (!guard->known) return RL_ELIGIBILITY_NO_RECORD;
    if (node->has_record && node->record.quorum_id != guard->quorum.quorum_id)
        return RL_ELIGIBILITY_FOREIGN;
    if (node->id != 0 && rl_record_member(&guard->quorum, node->id)) return of_member(guard, node);
    return node->has_record ? RL_ELIGIBILITY_FOREIGN : RL_ELIGIBILITY_NO_RECORD;
}

static rl_mask with_eligibility(const struct rl_guard *guard, enum rl_eligibility eligibility) {
    rl_mask mask = 0;
    for (unsigned i = 0; i < guard->nodes; i++)
        if (guard->node[i].eligibility == eligibility) mask |= rl_bit(i);
    return mask;
}

rl_mask rl_guard_intact(const struct rl_guard *guard) {
    return with_eligibility(guard, RL_ELIGIBILITY_INTACT);
}

rl_mask rl_guard_voters(const struct rl_guard *guard) {
    return guard->decided ? rl_guard_intact(guard) : 0;
}

/* Whether a node is a member does not depend on its own record, so it is known even while that
 * record is being read again. */
static bool is_outside(const struct rl_guard *guard, const struct rl_guard_node *node) {
    return guard->known && node->id != 0 && !rl_record_member(&guard->quorum, node->id);
}

rl_mask rl_guard_foreign(const struct rl_guard *guard) {
    rl_mask mask = with_eligibility(guard, RL_ELIGIBILITY_FOREIGN);
    for (unsigned i = 0; i < guard->nodes; i++)
        if (is_outside(guard, &guard->node[i])) mask |= rl_bit(i);
    return mask;
}

/* Votes are collected over some time. A vote from a superseded incarnation, from an earlier epoch
 * or from a node that is no longer a member must not be counted together with one given under newer
 * knowledge. */
rl_mask rl_guard_voided(const struct rl_guard *guard) {
    rl_mask unknown = with_eligibility(guard, RL_ELIGIBILITY_UNKNOWN);
    rl_mask ineligible = rl_all(guard->nodes) & (rl_mask) ~(rl_guard_intact(guard) | unknown);
    return ineligible | rl_guard_foreign(guard);
}

bool eligibility_judge(struct rl_guard *guard) {
    unsigned votes_needed = guard->votes_needed;
    uint64_t id = guard->quorum.quorum_id;
    uint32_t epoch = guard->quorum.epoch;
    bool decided = guard->decided;
    uint64_t other = guard->other_quorum;
    int64_t ttl_max_ms = guard->quorum.ttl_max_ms, ttl_next_ms = guard->quorum.ttl_next_ms;
    learn_quorum(guard);
    place_nodes(guard);
    bool changed = votes_needed != guard->votes_needed || id != guard->quorum.quorum_id ||
                   epoch != guard->quorum.epoch || ttl_max_ms != guard->quorum.ttl_max_ms ||
                   ttl_next_ms != guard->quorum.ttl_next_ms || decided != guard->decided ||
                   other != guard->other_quorum;
    unsigned settled = 0;
    for (unsigned i = 0; i < guard->nodes; i++) {
        struct rl_guard_node *node = &guard->node[i];
        if (move(node, of_node(guard, node))) changed = true;
        if (node->eligibility == RL_ELIGIBILITY_INTACT) node->was_incarnation = true;
        settled += node->eligibility == RL_ELIGIBILITY_INTACT && node->record.settled;
    }
    guard->settled = settled >= guard->votes_needed;
    assert(guard->votes_needed >= 1);
    return changed;
}
