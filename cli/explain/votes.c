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

/* REDLOCK_VERDICT_NO_RECORD: "no_record". */
static const char *symbol_name(const char *symbol, const char *prefix) {
    static char lower[32];
    snprintf(lower, sizeof lower, "%s", symbol + strlen(prefix));
    for (char *at = lower; *at != '\0'; at++) *at = (char)tolower((unsigned char)*at);
    return lower;
}

#define ROW(symbol, number, text)                                                                  \
    case symbol: return symbol_name(#symbol, PREFIX);

const char *verdict_name(int verdict) {
#define PREFIX "REDLOCK_VERDICT_"
    switch (verdict) {
        REDLOCK_VERDICTS(ROW)
    default: return "unknown";
    }
#undef PREFIX
}

const char *result_name(int result) {
#define PREFIX "REDLOCK_"
    switch (result) {
        REDLOCK_RESULTS(ROW)
    default: return "unknown";
    }
#undef PREFIX
}

void session_why(struct session *session, struct redlock_lock *lock, const int *verdicts,
                 int result, struct redlock_why_report *why) {
    redlock_why_report_init(why);
    (void)!redlock_why(session->client, lock, result, verdicts, why);
}

void verdicts_of(struct session *session, const struct redlock_view *views, int *verdicts) {
    for (size_t i = 0; i < redlock_client_nodes(session->client); i++)
        verdicts[i] = views[i].verdict;
}

/* Of no try: what the client knows of the nodes now. */
static struct redlock_why_report why_now(struct session *session, struct redlock_lock *lock) {
    struct redlock_why_report why;
    session_why(session, lock, NULL, REDLOCK_NO_QUORUM, &why);
    return why;
}

char *node_reason(struct session *session, size_t node, int verdict, char *out, size_t size) {
    const struct redlock_why_report why = why_now(session, NULL);
    const bool is_now = why.node[node].verdict == verdict;
    snprintf(out, size, "%s", is_now ? why.node[node].text : redlock_verdict_text(verdict));
    return out;
}

size_t session_loss(struct session *session, struct redlock_lock *lock, const int *verdicts,
                    char *out, size_t size) {
    struct redlock_why_report why;
    const char *lost = "lost: ";
    session_why(session, lock, verdicts, REDLOCK_LOST, &why);
    snprintf(out, size, "%s",
             why.sentence + (strncmp(why.sentence, lost, strlen(lost)) == 0 ? strlen(lost) : 0));
    return why.named;
}

/* Its own detail says it all if it does not vote. */
bool node_denies(struct session *session, size_t node, int verdict) {
    struct redlock_node_status status = {.size = sizeof status};
    return verdict == REDLOCK_VERDICT_NOPERM &&
           redlock_client_node(session->client, node, &status) == REDLOCK_OK &&
           status.verdict == REDLOCK_VERDICT_GRANTED;
}

static bool any_verdict(const struct redlock_why_report *why, int verdict) {
    for (size_t i = 0; i < why->nodes; i++)
        if (why->node[i].verdict == verdict) return true;
    return false;
}

static enum reach reach_of(const struct redlock_why_report *why) {
    return why->silent == why->nodes ? REACH_NONE : why->read < why->nodes ? REACH_SOME : REACH_ALL;
}

enum reach session_reach(struct session *session) {
    const struct redlock_why_report why = why_now(session, NULL);
    return reach_of(&why);
}

enum reach session_reach_of_records(struct session *session) {
    const struct redlock_why_report why = why_now(session, NULL);
    const enum reach reach = reach_of(&why);
    return reach == REACH_ALL && any_verdict(&why, REDLOCK_VERDICT_UNFIT) ? REACH_SOME : reach;
}

void session_drop_nonvoters(struct session *session, struct redlock_view *views) {
    if (session_mode(session) != REDLOCK_MODE_GUARDED) return;
    const struct redlock_why_report why = why_now(session, NULL);
    for (size_t i = 0; i < why.nodes; i++) {
        const int verdict = why.node[i].verdict;
        /* CONNECTING: its record has changed and is being read again, which says nothing. */
        if (is_answer(&views[i]) && verdict != REDLOCK_VERDICT_NONE &&
            verdict != REDLOCK_VERDICT_CONNECTING)
            views[i].verdict = verdict;
    }
}

size_t session_votes_needed(struct session *session) { return why_now(session, NULL).votes_needed; }

bool session_must_be_corrected(struct session *session) {
    return why_now(session, NULL).in_vain == 2;
}

bool session_reads_refused(struct session *session, const int *verdicts) {
    const size_t nodes = redlock_client_nodes(session->client);
    size_t refused = 0;
    for (size_t i = 0; i < nodes; i++) refused += node_denies(session, i, verdicts[i]);
    return refused > 0 && nodes - refused < quorum_of(nodes);
}

bool session_writes_refused(struct session *session, struct redlock_lock *lock) {
    const struct redlock_why_report why = why_now(session, lock);
    return why.votes + why.silent < why.votes_needed;
}

bool session_is_refused(struct session *session) {
    const struct redlock_why_report why = why_now(session, NULL);
    return any_verdict(&why, REDLOCK_VERDICT_AUTH);
}

bool session_shut_out(struct session *session, struct redlock_lock *lock) {
    return why_now(session, lock).in_vain != 0;
}

bool session_waits_in_vain(struct session *session, struct redlock_lock *lock) {
    const int in_vain = why_now(session, lock).in_vain;
    if (in_vain == 0) session->shut_out_since = 0;
    if (in_vain != 1) return in_vain != 0;
    if (session->shut_out_since == 0) session->shut_out_since = now_ns();
    return now_ns() >= session_shut_out_due(session);
}

int64_t session_shut_out_due(const struct session *session) {
    return session->shut_out_since == 0 ? NEVER : session->shut_out_since + RECORDS_SETTLE;
}

static bool all_vote(const struct session *session) {
    const size_t nodes = redlock_client_nodes(session->client);
    struct redlock_node_status status = {.size = sizeof status};
    for (size_t i = 0; i < nodes; i++) {
        if (redlock_client_node(session->client, i, &status) != REDLOCK_OK) return false;
        if (status.verdict != REDLOCK_VERDICT_GRANTED) return false;
    }
    return true;
}

size_t session_warn(struct session *session) {
    if (all_vote(session)) return 0; /* then a report, which is large, has nothing to say */
    const struct redlock_why_report why = why_now(session, NULL);
    char all[1500] = "";
    size_t bad = 0, used = 0;
    for (size_t i = 0; i < why.nodes && used < sizeof all; i++) {
        const struct redlock_why_node *node = &why.node[i];
        if (node->obstacle < REDLOCK_OBSTACLE_RECORD && node->verdict != REDLOCK_VERDICT_UNFIT)
            continue;
        used += (size_t)snprintf(all + used, sizeof all - used, "%s%s: %s", bad++ > 0 ? "; " : "",
                                 node_url(session, i), node->text);
    }
    if (bad > 0)
        complain("warning: %zu of %zu nodes cannot vote until corrected: %s", bad, why.nodes, all);
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
