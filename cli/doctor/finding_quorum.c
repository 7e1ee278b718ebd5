/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Guarded mode: which nodes vote, and whether they are a quorum.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "explain/membership.h"
#include "finding_rules.h"

/* ---- does a node vote? ---- */

/* While a record may be on a node that cannot be asked, an init could give up a quorum that is only
 * out of reach. */
static const char outage_cure[] =
    "First bring up or correct the nodes that the other findings name.";

/* The record of some node is unknown. */
static bool is_outage(const struct checkup *checkup) {
    for (size_t i = 0; i < checkup->count; i++) {
        const struct examined *node = &checkup->nodes[i];
        if (!is_served(node) || node->status.verdict == REDLOCK_VERDICT_UNFIT) return true;
    }
    return false;
}

/* The add that makes this node a member again was interrupted: the others name it, and its own
 * record is of before. */
static bool is_half_added(const struct checkup *checkup, size_t node) {
    const struct membership *membership = &checkup->membership;
    const struct redlock_node_status *status = &checkup->nodes[node].status;
    for (size_t i = 0; i < membership->quorum.members; i++)
        if (is_of_half_added(membership, &membership->members[i], status)) return true;
    return false;
}

/* The add that makes this member one again was interrupted. */
static bool waits_for_add(const struct checkup *checkup, const struct redlock_member *member) {
    for (size_t i = 0; i < checkup->count; i++)
        if (is_of_half_added(&checkup->membership, member, &checkup->nodes[i].status)) return true;
    return false;
}

/* The last of the members that no node of the list is known to be; NULL: there is none. `sure`: a
 * node that does not answer may be a member under another URL, and there are fewer of those. */
static const char *unlisted_member(const struct checkup *checkup, bool *sure) {
    const struct membership *membership = &checkup->membership;
    const char *url = NULL;
    size_t lacking = 0, unplaced = 0;
    for (size_t i = 0; i < checkup->count; i++)
        unplaced += !is_served(&checkup->nodes[i]) && checkup->nodes[i].status.node_id[0] == '\0';
    for (size_t i = 0; i < membership->quorum.members; i++) {
        const struct redlock_member *member = &membership->members[i];
        if (member->node >= 0 || waits_for_add(checkup, member)) continue;
        lacking++;
        url = member->url;
    }
    *sure = lacking > unplaced;
    return url;
}

/* A server that lost its record is known by its URL alone: it may be the member that seems to be
 * unlisted. */
static bool may_be_renamed(const struct checkup *checkup) {
    bool sure;
    return checkup->membership.state <= MEMBERSHIP_DEGRADED &&
           unlisted_member(checkup, &sure) != NULL && sure;
}

/* A node without a record. A quorum whose members are lost cannot add it. */
static const char *recordless_cure(const struct checkup *checkup) {
    switch (checkup->membership.state) {
    case MEMBERSHIP_INTACT:
    case MEMBERSHIP_DEGRADED:
        if (may_be_renamed(checkup))
            return "If it is the member that NOT-LISTED names, list it by that URL: then it comes "
                   "back by itself. If it is a new server, redlock quorum add.";
        return "redlock quorum add makes it a member. Or take it out of the list.";
    case MEMBERSHIP_LOST: return "See NO-QUORUM, and redlock quorum status.";
    case MEMBERSHIP_ABSENT: break;
    }
    const struct examined *first, *second;
    find_quorums(checkup, &first, &second);
    if (is_outage(checkup)) return outage_cure;
    return first != NULL ? "First cure what the other findings name."
                         : "redlock quorum init, once for a new set of servers.";
}

static const char wait_cure[] =
    "Wait: clients bring it back; redlock quorum status --wait returns when all members are intact.";

void judge_eligibility(const struct checkup *checkup, size_t i, struct findings *findings) {
    const struct examined *node = &checkup->nodes[i];
    const char *denied = denied_recovery_cure(checkup, i);
    switch (node->status.verdict) {
    case REDLOCK_VERDICT_UNACCEPTED: break; /* no fault of the node: NO-QUORUM reports it */
    case REDLOCK_VERDICT_GRANTED: break;
    case REDLOCK_VERDICT_RECOVERING:
        WARNING("RECOVERING", i, denied != NULL ? denied : wait_cure,
                "It does not vote, so fewer of the others may fail: %s.", node->status.text);
        break;
    case REDLOCK_VERDICT_FOREIGN:
        if (is_half_added(checkup, i)) {
            ERROR("FOREIGN", i, "Run redlock quorum add with its URL again.",
                  "It does not vote: the add that takes this former member back was interrupted.");
            break;
        }
        ERROR(
            "FOREIGN", i,
            "Take it out of the list: redlock quorum status names the members. To use it here, see FOREIGN in " REDLOCK_DOC
            "/runbook.md.",
            "It is not, or no longer, a member of this quorum, and never votes.");
        break;
    case REDLOCK_VERDICT_NO_RECORD:
        if (node->info.quorum[0] != '\0')
            break; /* the node has a record: NO-QUORUM or TWO-QUORUMS reports the problem */
        ERROR("NO-RECORD", i, recordless_cure(checkup),
              "It carries no record of a quorum, and does not vote.");
        break;
    default:
        if (node->info.role == REDLOCK_ROLE_REPLICA) break; /* unfit for every mode: IS-REPLICA */
        ERROR(
            "UNFIT", i,
            "Correct what the message names; see also the other findings on this node and " REDLOCK_DOC
            "/acl.md.",
            "It does not vote in guarded mode: %s%s%s.", redlock_verdict_text(node->status.verdict),
            node->status.text[0] != '\0' ? ": " : "", node->status.text);
        break;
    }
}

void judge_watch(const struct checkup *checkup, size_t i, struct findings *findings) {
    const struct examined *node = &checkup->nodes[i];
    const char *denied = denied_recovery_cure(checkup, i),
               *wait = denied != NULL ? denied : wait_cure;
    const int stale = node->info.stale > 0 ? node->info.stale : 0;
    if ((stale & REDLOCK_STALE_EVICTED) != 0) {
        WARNING(
            "EVICTED", i, wait,
            "It has evicted keys since its record was written, perhaps locks: it does not vote until it has recovered.");
    }
    if ((stale & REDLOCK_STALE_REPLICATION) != 0) {
        WARNING(
            "REPLICATION-ID", i, wait,
            "Its replication id differs from the one in its record: it was a replica meanwhile, or got one, and its data may be older. It does not vote until clients have recovered it.");
    }
    if (node->info.announces != 0) return;
    WARNING(
        "UNANNOUNCED", i,
        "Allow this user +client|tracking (" REDLOCK_DOC "/acl.md); a proxy must pass RESP3 on.",
        "It does not announce the loss of its data on the connection that carries votes: a demotion and promotion is "
        "noticed up to a second late, and until then two clients can hold a lock.");
}

/* ---- the quorum ---- */

/* No quorum is found. */
static void judge_absent_quorum(const struct checkup *checkup, struct findings *findings) {
    const struct examined *first, *second;
    find_quorums(checkup, &first, &second);
    if (second != NULL && !checkup->pinned) return; /* TWO-QUORUMS reports it */
    if (none_answers(checkup)) {
        ERROR("NO-QUORUM", EVERY_NODE, "Start them, or correct their URLs or the network.",
              "No node answers: no lock can be taken now.");
    } else if (first != NULL && is_outage(checkup)) {
        ERROR("NO-QUORUM", EVERY_NODE, outage_cure,
              "No node with a record of the quorum can be used: no lock can be taken now.");
    } else if (first != NULL && !checkup->pinned) {
        ERROR("NO-QUORUM", EVERY_NODE, "First cure what the other findings name.",
              "The nodes carry records of quorum %s, but no client can use them: no lock can be "
              "taken now.",
              first->info.quorum);
    } else if (first != NULL) {
        ERROR("NO-QUORUM", EVERY_NODE,
              "Correct the list of nodes, or the quorum's id (--quorum, REDLOCK_QUORUM).",
              "The nodes carry records, but none of the quorum that is named: no lock can be "
              "taken.");
    } else if (is_outage(checkup)) {
        ERROR(
            "NO-QUORUM", EVERY_NODE, outage_cure,
            "%zu of %zu nodes can be asked, and no record is found there: no lock can be taken now.",
            count_served(checkup), checkup->count);
    } else {
        ERROR("NO-QUORUM", EVERY_NODE, "redlock quorum init, once for a new set of servers.",
              "No node that answers carries a record: no lock can be taken in guarded mode.");
    }
}

void judge_membership(const struct checkup *checkup, struct findings *findings) {
    const struct membership *membership = &checkup->membership;
    const struct redlock_quorum_status *quorum = &membership->quorum;
    bool sure;
    const char *unlisted = unlisted_member(checkup, &sure);
    const bool outage = is_outage(checkup);
    if (membership->state == MEMBERSHIP_LOST) {
        ERROR(
            "NO-QUORUM", EVERY_NODE,
            outage
                ? outage_cure
                : "Bring the members back; if the data of a majority is lost for good, redlock quorum init.",
            "Of %zu members %zu must be intact for a lock, and %zu are: no lock can be taken now.",
            quorum->members, quorum->votes_needed, quorum->intact);
    }
    if (membership->unaccepted[0] != '\0') {
        ERROR(
            "NO-QUORUM", EVERY_NODE,
            outage
                ? outage_cure
                : "List the members alone: redlock quorum status names them. Or redlock quorum add the others.",
            "No client with this list takes a lock: at most half of the nodes carry a record of quorum %s.",
            quorum->id);
    }
    if (membership->state == MEMBERSHIP_ABSENT) judge_absent_quorum(checkup, findings);
    if (unlisted != NULL) {
        WARNING("NOT-LISTED", EVERY_NODE,
                "Give every client all members: redlock quorum status names them.",
                sure ? "The member %.200s is not in the list of nodes, so its vote is missing."
                     : "The member %.200s is not in the list of nodes by this URL, so its vote is "
                       "missing, unless a node that does not answer is the same server.",
                unlisted);
    }
    if (membership->state > MEMBERSHIP_DEGRADED || quorum->settled) return;
    char command[400];
    unfinished_text(membership, command, sizeof command);
    WARNING("NOT-SETTLED", EVERY_NODE,
            "Run that redlock quorum command again. Any other add, remove, replace or set-ttl-max "
            "finishes it, too.",
            "The last change was interrupted%s%s%s: the next one finishes it first.",
            command[0] != '\0' ? " (" : "", command, command[0] != '\0' ? ")" : "");
}
