/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The set as a whole, in any mode.
 */
#include <stdio.h>
#include <string.h>

#include "finding_rules.h"

/* The quorum that a client without a mode meets, or one that chose classic mode. */
static void judge_mode(const struct checkup *checkup, const char *quorum,
                       struct findings *findings) {
    if (checkup->mode_open) {
        WARNING(
            "MODE-OPEN", EVERY_NODE,
            "Set the mode: --mode guarded, REDLOCK_MODE=guarded, or mode = guarded in the configuration file.",
            "The records of quorum %s make clients guarded, and no mode is set: if all records were lost, clients would lock as classic.",
            quorum);
    } else if (!checkup->guarded) {
        WARNING(
            "MIXED-MODE", EVERY_NODE, "Set the mode to guarded, or lock on other nodes.",
            "Mode classic on nodes of the guarded quorum %s: its locks have no fence and no ttl_max, and nodes that lost their data grant them.",
            quorum);
    }
}

/* No record is seen: either these servers never were a quorum, or they have lost everything. Only
 * the configuration may know. */
static void judge_open_mode(const struct checkup *checkup, struct findings *findings) {
    if (!checkup->mode_open || !checkup->guarded_meant || count_served(checkup) == 0) return;
    WARNING(
        "MODE-OPEN", EVERY_NODE,
        "Set the mode: --mode guarded, REDLOCK_MODE=guarded, or mode = guarded in the configuration file.",
        "The configuration file has a ttl-max, so a guarded quorum is meant, but no mode is set, and no node that answers carries a record: clients lock as classic.");
}

/* Nodes of two quorums in one list; and what the mode means on nodes of any quorum. */
static void judge_quorums(const struct checkup *checkup, struct findings *findings) {
    const struct examined *first, *second;
    find_quorums(checkup, &first, &second);
    if (first != NULL) judge_mode(checkup, first->info.quorum, findings);
    if (first == NULL) judge_open_mode(checkup, findings);
    if (second == NULL || checkup->pinned || !checkup->guarded) return;
    ERROR(
        "TWO-QUORUMS", EVERY_NODE,
        "Leave the nodes of one of them out of the list, or name the quorum: --quorum ID.",
        "%.100s belongs to quorum %s, %.100s to quorum %s: which of them grants locks would change with every node that is down.",
        first->status.url, first->info.quorum, second->status.url, second->info.quorum);
}

/* The host in the URL, without user, port and database; "" for a Unix socket, which is this
 * machine. */
static void host_of(const char *url, char *host, size_t size) {
    const char *at = strstr(url, "://");
    host[0] = '\0';
    if (at == NULL || strncmp(url, "unix", 4) == 0) return;
    at += strlen("://");
    if (strchr(at, '@') != NULL) at = strchr(at, '@') + 1;
    size_t length = *at == '[' ? strcspn(at, "]") + 1 : strcspn(at, ":/");
    snprintf(host, size, "%.*s", (int)length, at);
}

static bool is_this_machine(const char *host) {
    return host[0] == '\0' || strcmp(host, "localhost") == 0 || strcmp(host, "[::1]") == 0 ||
           strncmp(host, "127.", 4) == 0;
}

static bool same_host(const char *a, const char *b) {
    return strcmp(a, b) == 0 || (is_this_machine(a) && is_this_machine(b));
}

static void judge_hosts(const struct checkup *checkup, struct findings *findings) {
    char hosts[REDLOCK_NODES_MAX][256];
    for (size_t i = 0; i < checkup->count; i++)
        host_of(checkup->nodes[i].status.url, hosts[i], sizeof hosts[i]);
    for (size_t i = 0; i < checkup->count; i++) {
        size_t together = 0;
        for (size_t j = 0; j < checkup->count; j++) together += same_host(hosts[i], hosts[j]);
        if (together < quorum_of(checkup->count)) continue;
        const char *cure =
            "Spread the nodes over machines that fail independently; use one machine for trials only.";
        if (is_this_machine(hosts[i])) {
            NOTE("ALL-ON-ONE-HOST", i, cure,
                 "A majority of the nodes runs on this machine: when it fails, no lock is left.");
        } else {
            WARNING("ALL-ON-ONE-HOST", i, cure,
                    "A majority of the nodes runs on %.200s: when it fails, no lock is left.",
                    hosts[i]);
        }
    }
}

static void judge_majority(const struct checkup *checkup, struct findings *findings) {
    const size_t served = count_served(checkup);
    if (none_answers(checkup)) {
        ERROR("NO-QUORUM", EVERY_NODE, "Start them, or correct their URLs or the network.",
              "No node answers: no lock can be taken now.");
        return;
    }
    if (served >= quorum_of(checkup->count)) return;
    ERROR("NO-QUORUM", EVERY_NODE, "Bring the nodes up that the findings below name.",
          "%zu of %zu nodes are usable, and a lock needs %zu: no lock can be taken now.", served,
          checkup->count, quorum_of(checkup->count));
}

/* Its guarantee is that of the node which is easiest to mislead. */
static void judge_kinds(const struct checkup *checkup, struct findings *findings) {
    size_t native = 0, known = 0;
    for (size_t i = 0; i < checkup->count; i++) {
        native += is_native(&checkup->nodes[i]);
        known += checkup->nodes[i].info.native >= 0;
    }
    if (native == 0 || native == known) return;
    NOTE("MIXED-QUORUM", EVERY_NODE,
         "Load the module on the others too, one server after the other (" REDLOCK_DOC
         "/guarded.md).",
         "%zu of %zu nodes that answer are native. The guarantee is that of the others: a step of "
         "their wall clocks, a deleted or an evicted key can still free a lock early.",
         native, known);
}

static void judge_count(const struct checkup *checkup, struct findings *findings) {
    const char *cure = "Make a quorum of 3 or 5 independent ones.";
    if (checkup->count < 3 && checkup->guarded) {
        WARNING("FEW-NODES", EVERY_NODE, cure, "%s.", what_few_survive(checkup->count));
    } else if (checkup->count == 1) {
        NOTE("FEW-NODES", EVERY_NODE,
             "For locks that outlive a server, list 3 or 5 independent ones.",
             "There is one node: when it fails, no lock can be taken, and held locks are lost.");
    } else if (checkup->count == 2) {
        WARNING("FEW-NODES", EVERY_NODE, "Add a third node, or remove one.",
                "With two nodes, both are needed: two fail more often than one.");
    } else if (checkup->count % 2 == 0) {
        NOTE("EVEN-NODES", EVERY_NODE, "Add a node, or remove one.",
             "%zu nodes tolerate the loss of %zu, no more than %zu nodes do.", checkup->count,
             checkup->count - quorum_of(checkup->count), checkup->count - 1);
    }
}

void judge_set(const struct checkup *checkup, struct findings *findings) {
    if (checkup->guarded) {
        judge_membership(checkup, findings);
    } else {
        judge_majority(checkup, findings);
    }
    judge_quorums(checkup, findings);
    judge_kinds(checkup, findings);
    judge_count(checkup, findings);
    if (checkup->count > 1) judge_hosts(checkup, findings);
}
