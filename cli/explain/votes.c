/* SPDX-License-Identifier: BSD-2-Clause */
#include "votes.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include <redlock/admin.h>

#include "majority.h"
#include "process/boottime.h"
#include "process/message.h"

/* How long nodes may lack a record, or have another, while quorum init writes theirs. */
#define RECORDS_SETTLE (1000 * MS)

const char *verdict_name(int verdict) {
    static const struct {
        int value;
        const char *name;
    } names[] = {
#define ROW(symbol, number, text) {number, #symbol},
        REDLOCK_VERDICTS(ROW)
#undef ROW
    };
    static char lower[32];
    const size_t head = strlen("REDLOCK_VERDICT_");
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (names[i].value != verdict) continue;
        snprintf(lower, sizeof lower, "%s", names[i].name + head);
        for (char *at = lower; *at != '\0'; at++) *at = (char)tolower((unsigned char)*at);
        return lower;
    }
    return "unknown";
}

/* Where the detail is a server's error, the verdict explains it; elsewhere the detail is a sentence
 * that says all. */
char *reason_text(int verdict, const char *detail, char *out, size_t size) {
    switch (verdict) {
    case REDLOCK_VERDICT_NOPERM:
    case REDLOCK_VERDICT_OOM:
    case REDLOCK_VERDICT_MISCONF:
    case REDLOCK_VERDICT_READONLY:
    case REDLOCK_VERDICT_LOADING:
    case REDLOCK_VERDICT_BUSY:
    case REDLOCK_VERDICT_MAXCLIENTS:
    case REDLOCK_VERDICT_MASTERDOWN:
    case REDLOCK_VERDICT_ERROR:
        if (detail[0] == '\0') break;
        snprintf(out, size, "%s (%s)", redlock_verdict_text(verdict), detail);
        return out;
    default: break;
    }
    snprintf(out, size, "%s", detail[0] != '\0' ? detail : redlock_verdict_text(verdict));
    return out;
}

/* An attempt asks only connected nodes: for the others, the connection knows the reason. */
int session_verdict(struct session *session, size_t node, int verdict, char *reason, size_t size) {
    struct redlock_node_status status = {.size = sizeof status};
    reason_text(verdict, "", reason, size);
    if (redlock_client_node(session->client, node, &status) != REDLOCK_OK) return verdict;
    bool unasked = verdict == REDLOCK_VERDICT_NONE || verdict == REDLOCK_VERDICT_CONNECTING;
    /* A ready node that had not answered when the others decided has no verdict yet. */
    if (unasked && status.verdict != REDLOCK_VERDICT_GRANTED) verdict = status.verdict;
    /* and one that needs a correction, or cannot be reached, does not answer by itself */
    if (verdict == REDLOCK_VERDICT_TIMEOUT &&
        (status.verdict == REDLOCK_VERDICT_NOPERM || status.verdict == REDLOCK_VERDICT_REFUSED ||
         status.verdict == REDLOCK_VERDICT_NAME || status.verdict == REDLOCK_VERDICT_TLS))
        verdict = status.verdict;
    if (status.verdict == REDLOCK_VERDICT_AUTH ||
        (verdict == REDLOCK_VERDICT_DISCONNECTED && status.verdict == REDLOCK_VERDICT_TLS))
        verdict = status.verdict;
    /* A majority had refused before it was connected, which says nothing against it. */
    if (verdict == REDLOCK_VERDICT_CONNECTING && session->failed.result == REDLOCK_HELD)
        return REDLOCK_VERDICT_NONE;
    /* If too few nodes vote, those that would vote are not asked. */
    if (verdict == REDLOCK_VERDICT_NONE && session_mode(session) == REDLOCK_MODE_GUARDED) {
        snprintf(reason, size, "intact");
        return verdict;
    }
    bool reported = verdict == status.verdict && verdict != REDLOCK_VERDICT_GRANTED;
    reason_text(verdict, reported ? status.text : "", reason, size);
    return verdict;
}

/* Its own detail says it all if it does not vote. */
bool node_denies(struct session *session, size_t node, int verdict) {
    struct redlock_node_status status = {.size = sizeof status};
    return verdict == REDLOCK_VERDICT_NOPERM &&
           redlock_client_node(session->client, node, &status) == REDLOCK_OK &&
           status.verdict == REDLOCK_VERDICT_GRANTED;
}

static bool any_verdict(struct session *session, int verdict) {
    for (size_t i = 0; i < redlock_client_nodes(session->client); i++) {
        struct redlock_node_status status = {.size = sizeof status};
        if (redlock_client_node(session->client, i, &status) == REDLOCK_OK &&
            status.verdict == verdict)
            return true;
    }
    return false;
}

bool node_is_silent(int verdict) {
    switch (verdict) {
    case REDLOCK_VERDICT_NONE:
    case REDLOCK_VERDICT_TIMEOUT:
    case REDLOCK_VERDICT_CONNECTING:
    case REDLOCK_VERDICT_REFUSED:
    case REDLOCK_VERDICT_DISCONNECTED:
    case REDLOCK_VERDICT_NAME: return true;
    default: return false;
    }
}

enum reach session_reach(struct session *session) {
    const size_t nodes = redlock_client_nodes(session->client);
    size_t silent = 0, known = 0;
    for (size_t i = 0; i < nodes; i++) {
        struct redlock_node_status status = {.size = sizeof status};
        if (redlock_client_node(session->client, i, &status) != REDLOCK_OK) continue;
        silent += node_is_silent(status.verdict);
        known += status.verdict == REDLOCK_VERDICT_GRANTED ||
                 status.verdict == REDLOCK_VERDICT_RECOVERING ||
                 status.verdict == REDLOCK_VERDICT_FOREIGN ||
                 status.verdict == REDLOCK_VERDICT_UNACCEPTED ||
                 status.verdict == REDLOCK_VERDICT_NO_RECORD ||
                 status.verdict == REDLOCK_VERDICT_UNFIT;
    }
    return silent == nodes ? REACH_NONE : known < nodes ? REACH_SOME : REACH_ALL;
}

enum reach session_reach_of_records(struct session *session) {
    const enum reach reach = session_reach(session);
    return reach == REACH_ALL && any_verdict(session, REDLOCK_VERDICT_UNFIT) ? REACH_SOME : reach;
}

/* What brings a vote back that a node does not give. */
enum cure {
    CURE_NONE, /* time may do it: the node may be down, or busy */
    CURE_CORRECTION,
    CURE_REPLICATION, /* the same, but a failover or a backup may be under way */
    /* The same, if it is still so when every node has been asked for its record: until then it is
     * not known which quorum is meant, and which nodes are new. */
    CURE_LIST
};

static enum cure cure_of(const struct redlock_node_status *status) {
    switch (status->verdict) {
    case REDLOCK_VERDICT_TLS:
    case REDLOCK_VERDICT_AUTH:
    case REDLOCK_VERDICT_NOPERM:
    case REDLOCK_VERDICT_CLUSTER: return CURE_CORRECTION;
    case REDLOCK_VERDICT_UNFIT:
        return strstr(status->text, "replica") != NULL ? CURE_REPLICATION : CURE_CORRECTION;
    case REDLOCK_VERDICT_FOREIGN:
    case REDLOCK_VERDICT_UNACCEPTED:
    case REDLOCK_VERDICT_NO_RECORD: return CURE_LIST;
    default: return CURE_NONE;
    }
}

void session_drop_nonvoters(struct session *session, struct redlock_view *views) {
    if (session_mode(session) != REDLOCK_MODE_GUARDED) return;
    for (size_t i = 0; i < redlock_client_nodes(session->client); i++) {
        struct redlock_node_status status = {.size = sizeof status};
        if (!is_answer(&views[i]) || redlock_client_node(session->client, i, &status) != REDLOCK_OK)
            continue;
        /* CONNECTING: its record has changed and is being read again, which says nothing. */
        if (status.verdict != REDLOCK_VERDICT_GRANTED &&
            status.verdict != REDLOCK_VERDICT_CONNECTING)
            views[i].verdict = status.verdict;
    }
}

/* The list may hold more nodes than the quorum has members. */
size_t session_votes_needed(struct session *session) {
    const size_t nodes = redlock_client_nodes(session->client);
    struct redlock_quorum_status quorum = {.size = sizeof quorum};
    struct redlock_member members[REDLOCK_NODES_MAX];
    if (session_mode(session) != REDLOCK_MODE_GUARDED) return quorum_of(nodes);
    for (size_t i = 0; i < REDLOCK_NODES_MAX; i++) members[i].size = sizeof members[i];
    int result = redlock_quorum_peek(session->client, &quorum, members, REDLOCK_NODES_MAX);
    bool known = (result == REDLOCK_OK || result == REDLOCK_NO_QUORUM) && quorum.known;
    return known ? quorum.votes_needed : quorum_of(nodes);
}

/* `votes`: NULL: there are none, only the state of the nodes counts. `by_list`: so do nodes whose
 * records are not of this quorum. */
static bool lacks_majority(struct session *session, const int *votes, bool by_list) {
    const size_t nodes = redlock_client_nodes(session->client);
    size_t bad = 0, unlisted = 0;
    for (size_t i = 0; i < nodes; i++) {
        struct redlock_node_status status = {.size = sizeof status};
        if (redlock_client_node(session->client, i, &status) != REDLOCK_OK) continue;
        const enum cure cure = cure_of(&status);
        /* a permission may be missing for the key alone */
        bad += cure == CURE_CORRECTION ||
               (votes != NULL &&
                (votes[i] == REDLOCK_VERDICT_NOPERM || votes[i] == REDLOCK_VERDICT_NOT_SHARED));
        unlisted += cure == CURE_LIST;
    }
    if (by_list && session_reach(session) == REACH_ALL) bad += unlisted;
    return nodes - bad < quorum_of(nodes) && nodes - bad < session_votes_needed(session);
}

bool session_must_be_corrected(struct session *session) {
    return lacks_majority(session, NULL, false);
}

bool votes_shut_out(struct session *session, const int *verdicts) {
    return lacks_majority(session, verdicts, true);
}

bool session_reads_refused(struct session *session, const int *verdicts) {
    const size_t nodes = redlock_client_nodes(session->client);
    size_t refused = 0;
    for (size_t i = 0; i < nodes; i++) refused += node_denies(session, i, verdicts[i]);
    return refused > 0 && nodes - refused < quorum_of(nodes);
}

bool node_can_vote(int verdict) {
    return verdict == REDLOCK_VERDICT_NONE || verdict == REDLOCK_VERDICT_GRANTED ||
           verdict == REDLOCK_VERDICT_DENIED || verdict == REDLOCK_VERDICT_ABSENT ||
           verdict == REDLOCK_VERDICT_WRONGTYPE || verdict == REDLOCK_VERDICT_OTHER_SLOTS ||
           verdict == REDLOCK_VERDICT_STALE;
}

bool session_writes_refused(struct session *session, struct redlock_lock *lock) {
    int verdicts[REDLOCK_NODES_MAX] = {0};
    const size_t count = redlock_verdicts(lock, verdicts, REDLOCK_NODES_MAX);
    size_t others = 0; /* that vote, or do not answer */
    for (size_t i = 0; i < count; i++) {
        char reason[300];
        const int verdict = session_verdict(session, i, verdicts[i], reason, sizeof reason);
        others += node_can_vote(verdict) || node_is_silent(verdict);
    }
    return others < session_votes_needed(session);
}

bool session_is_refused(struct session *session) {
    return any_verdict(session, REDLOCK_VERDICT_AUTH);
}

bool session_shut_out(struct session *session, struct redlock_lock *lock) {
    int verdicts[REDLOCK_NODES_MAX] = {0};
    if (lock != NULL) redlock_verdicts(lock, verdicts, redlock_client_nodes(session->client));
    return votes_shut_out(session, verdicts);
}

bool session_waits_in_vain(struct session *session, struct redlock_lock *lock) {
    int verdicts[REDLOCK_NODES_MAX] = {0};
    if (lock != NULL) redlock_verdicts(lock, verdicts, redlock_client_nodes(session->client));
    if (!votes_shut_out(session, verdicts)) {
        session->shut_out_since = 0;
        return false;
    }
    if (lacks_majority(session, verdicts, false)) return true;
    if (session->shut_out_since == 0) session->shut_out_since = now_ns();
    return now_ns() >= session_shut_out_due(session);
}

int64_t session_shut_out_due(const struct session *session) {
    return session->shut_out_since == 0 ? NEVER : session->shut_out_since + RECORDS_SETTLE;
}

size_t session_warn(struct session *session) {
    char all[1500] = "", reason[300];
    const size_t count = redlock_client_nodes(session->client);
    size_t bad = 0, used = 0;
    for (size_t i = 0; i < count; i++) {
        struct redlock_node_status status = {.size = sizeof status};
        if (redlock_client_node(session->client, i, &status) != REDLOCK_OK) continue;
        if (cure_of(&status) == CURE_NONE || used >= sizeof all) continue;
        used += (size_t)snprintf(all + used, sizeof all - used, "%s%s: %s", bad++ > 0 ? "; " : "",
                                 status.url,
                                 reason_text(status.verdict, status.text, reason, sizeof reason));
    }
    if (bad > 0)
        complain("warning: %zu of %zu nodes cannot vote until corrected: %s", bad, count, all);
    return bad;
}

void session_warn_classic(struct session *session) {
    struct redlock_server servers[REDLOCK_NODES_MAX];
    const size_t count = redlock_client_nodes(session->client);
    if (session->mode != REDLOCK_MODE_CLASSIC || session->mode_open) return;
    for (size_t i = 0; i < count; i++) servers[i].size = sizeof servers[i];
    const int result =
        redlock_server_info(session->client, REDLOCK_SERVER_INFO_ALL, servers, count);
    if (result != REDLOCK_OK && result != REDLOCK_NO_QUORUM) return;
    for (size_t i = 0; i < count; i++) {
        if (servers[i].quorum[0] == '\0') continue;
        complain("warning: %s belongs to the guarded quorum %s, and mode classic does without what "
                 "that guards: a node that lost its data votes, and there is no fencing token. "
                 "Leave --mode classic out",
                 node_url(session, i), servers[i].quorum);
        return;
    }
}
