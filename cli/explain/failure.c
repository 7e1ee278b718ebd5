/* SPDX-License-Identifier: BSD-2-Clause */
#include "failure.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <redlock/admin.h>
#include <redlock/metrics.h>

#include "denials.h"
#include "config/duration.h"
#include "majority.h"
#include "process/exit_codes.h"
#include "process/message.h"
#include "votes.h"

/* A node that granted, or was not needed, is not a cause. */
static void report_nodes(struct session *session, const struct redlock_why_report *why,
                         const char *resource, enum need need, bool speak) {
    struct denials denials = {.asked = false};
    for (size_t i = 0; i < why->nodes; i++) {
        const int verdict = why->node[i].verdict;
        char reason[900], commands[300];
        bool healthy = verdict == REDLOCK_VERDICT_NONE || verdict == REDLOCK_VERDICT_GRANTED;
        if (need != NEED_LOCK) healthy = healthy || verdict == REDLOCK_VERDICT_ABSENT;
        snprintf(reason, sizeof reason, "%s", why->node[i].text);
        const bool refused =
            (verdict == REDLOCK_VERDICT_NOT_SHARED || verdict == REDLOCK_VERDICT_NO_SCRIPTS) &&
            speak &&
            denied_commands(session, &denials, i, need, commands, sizeof commands)[0] != '\0';
        if (refused || (speak && node_denies(session, i, verdict)))
            denied_text(session, &denials, i, need, resource, reason, sizeof reason);
        if ((speak && !healthy) || verdict == REDLOCK_VERDICT_TWICE_LISTED)
            complain("  %s: %s", node_url(session, i), reason);
    }
    if (denials.keys && session->settings->client.prefix == NULL)
        complain("if this user may use only keys with a prefix, set it instead: --prefix TEXT, or "
                 "prefix = TEXT in redlock.conf");
}

/* The TTL comes from the caller; the servers decide how long the quorum allows. The client refused
 * by the ttl_max that it had read until then. If that was an older one, reading again shows the one
 * that another client has meanwhile set. */
static void report_ttl_max(struct session *session) {
    struct redlock_quorum_status quorum = {.size = sizeof quorum};
    struct redlock_member members[REDLOCK_NODES_MAX];
    struct redlock_stats stats;
    char most[64], wanted[64];
    const int64_t ttl_ms = session->settings->ttl_ms;
    redlock_stats_init(&stats);
    redlock_client_stats(session->client, &stats);
    int64_t ttl_max_ms = stats.ttl_max_ms;
    for (size_t i = 0; i < REDLOCK_NODES_MAX; i++) members[i].size = sizeof members[i];
    int result = redlock_quorum_peek(session->client, &quorum, members, REDLOCK_NODES_MAX);
    if ((result == REDLOCK_OK || result == REDLOCK_NO_QUORUM) && quorum.known &&
        quorum.ttl_ms_allowed >= ttl_ms)
        ttl_max_ms = quorum.ttl_ms_allowed;
    duration_text(most, sizeof most, ttl_max_ms);
    duration_text(wanted, sizeof wanted, ttl_ms);
    if (ttl_max_ms >= ttl_ms)
        complain("ttl_max was shorter than --ttl %s by the nodes that answered first; it is %s "
                 "now: run the command again",
                 wanted, most);
    else
        complain("ttl_max is %s, and --ttl %s: give a shorter --ttl, or raise it (redlock quorum "
                 "set-ttl-max)",
                 most, wanted);
}

/* Of the first two nodes that belong to two quorums. */
static void report_quorums(struct session *session) {
    struct redlock_server servers[REDLOCK_NODES_MAX];
    const size_t count = redlock_client_nodes(session->client);
    size_t first = count;
    for (size_t i = 0; i < count; i++) servers[i].size = sizeof servers[i];
    int result = redlock_server_info(session->client, REDLOCK_SERVER_INFO_ALL, servers, count);
    if (result != REDLOCK_OK && result != REDLOCK_NO_QUORUM) return;
    for (size_t i = 0; i < count; i++) {
        if (servers[i].quorum[0] == '\0') continue;
        if (first == count) first = i;
        if (strcmp(servers[i].quorum, servers[first].quorum) == 0) continue;
        complain("%s belongs to quorum %s, %s to quorum %s", node_url(session, first),
                 servers[first].quorum, node_url(session, i), servers[i].quorum);
        return;
    }
}

/* The lock's key is sound: one that belongs to it is not. */
static bool foreign_own_key(struct session *session, const char *resource, char *out, size_t size) {
    struct redlock_own_key keys[REDLOCK_OWN_KEYS];
    for (size_t node = 0; node < redlock_client_nodes(session->client); node++) {
        if (own_keys_take(session, node, resource, keys) != 0) continue;
        for (size_t i = 0; i < REDLOCK_OWN_KEYS; i++) {
            char name[sizeof keys[i].name * 4];
            if (!keys[i].foreign) continue;
            printable(name, sizeof name, keys[i].name, strlen(keys[i].name));
            snprintf(out, size, "another program wrote %s on %s: %s: delete that key", name,
                     node_url(session, node), own_key_fault(&keys[i]));
            return true;
        }
    }
    return false;
}

char *session_foreign(struct session *session, const char *resource, size_t bytes, char *out,
                      size_t size) {
    char type[40] = "";
    if (redlock_key_type(session->client, resource, bytes, type, sizeof type) != REDLOCK_OK)
        type[0] = '\0';
    if (type[0] == '\0' && foreign_own_key(session, resource, out, size)) return out;
    return foreign_text(type, out, size);
}

/* The first node that holds the key, if the other nodes could not grant the lock to anybody; else
 * `count`. A node that has lost its data has no key and no vote. */
static size_t held_by_few(struct session *session, const struct redlock_view *views, size_t count) {
    size_t holder = count, free_to_vote = 0;
    for (size_t i = count; i-- > 0;) {
        struct redlock_node_status status = {.size = sizeof status};
        const bool votes = redlock_client_node(session->client, i, &status) == REDLOCK_OK &&
                           status.verdict == REDLOCK_VERDICT_GRANTED;
        free_to_vote += votes && views[i].verdict == REDLOCK_VERDICT_ABSENT;
        if (views[i].verdict == REDLOCK_VERDICT_GRANTED) holder = i;
    }
    return free_to_vote < session_votes_needed(session) ? holder : count;
}

static const char *note_holder(struct session *session, const struct redlock_view *view) {
    owner_text(view, session->failed.owner, sizeof session->failed.owner);
    return holder_name(session->failed.owner, is_shared(view), "another client");
}

/* By what the nodes hold now. False: the nodes do not say. */
static bool held_text(struct session *session, const char *resource, char *out, size_t size) {
    struct redlock_view views[REDLOCK_NODES_MAX];
    const size_t count = redlock_client_nodes(session->client);
    char left[64], end[80] = "without an end: the key has no TTL";
    size_t few;
    if (redlock_peek(session->client, resource, strlen(resource), views, REDLOCK_NODES_MAX) !=
        REDLOCK_OK)
        return false;
    const struct majority majority = majority_of(views, count);
    switch (majority.verdict) {
    case MAJORITY_HELD:
        session->failed.remaining_ms = majority.remaining_ms;
        if (majority.remaining_ms >= 0)
            snprintf(end, sizeof end, "%s left",
                     duration_text(left, sizeof left, majority.remaining_ms));
        /* Readers refuse no reader: a client that waits comes first, or readers are not listed. */
        if (session->settings->shared && is_shared(&views[majority.holder]))
            snprintf(out, size, "held by readers, and no other is let in now, %s (%zu of %zu)", end,
                     majority.votes, count);
        else
            snprintf(out, size, "held by %s, %s (%zu of %zu)",
                     note_holder(session, &views[majority.holder]), end, majority.votes, count);
        return true;
    case MAJORITY_FOREIGN:
        session_foreign(session, resource, strlen(resource), out, size);
        return true;
    case MAJORITY_SPLIT:
        snprintf(out, size, "held by another: the nodes hold the tokens of several clients");
        return true;
    case MAJORITY_FREE:
        if ((few = held_by_few(session, views, count)) == count)
            snprintf(out, size, "held by another at the time of the try; it is free now");
        else
            snprintf(
                out, size,
                "held by %s on fewer nodes than a majority, and too few of the others can vote "
                "now: redlock doctor names them",
                note_holder(session, &views[few]));
        return true;
    case MAJORITY_UNKNOWN: break;
    }
    return false;
}

/* What is read is no vote: in guarded mode, too, any majority of the list is enough. */
static void too_few_readable_text(const struct redlock_why_report *why, enum need need, char *out,
                                  size_t size) {
    size_t read = 0;
    for (size_t i = 0; i < why->nodes; i++)
        read += why->node[i].verdict == REDLOCK_VERDICT_GRANTED ||
                why->node[i].verdict == REDLOCK_VERDICT_ABSENT ||
                why->node[i].verdict == REDLOCK_VERDICT_WRONGTYPE;
    snprintf(out, size, "no quorum: %zu of %zu nodes let this user %s, %zu needed", read,
             why->nodes, need == NEED_LIST ? "list the names" : "see what they hold",
             quorum_of(why->nodes));
}

/* A slot whose key never ends, or holds something else than a lock, never becomes free. The first
 * of them is named. */
static void slots_text(struct session *session, const char *resource, char *out, size_t size) {
    struct redlock_view views[REDLOCK_NODES_MAX];
    const size_t nodes = redlock_client_nodes(session->client);
    int used = snprintf(out, size, "held by others: none of its %" PRId64 " slots is free",
                        session->settings->slots);
    for (unsigned slot = 1; slot <= session->settings->slots; slot++) {
        char *name = slot_name(resource, slot), what[120] = "", shown[200];
        if (name == NULL || redlock_peek(session->client, name, strlen(name), views,
                                         REDLOCK_NODES_MAX) != REDLOCK_OK) {
            free(name);
            return;
        }
        const struct majority majority = majority_of(views, nodes);
        if (majority.verdict == MAJORITY_FOREIGN)
            session_foreign(session, name, strlen(name), what, sizeof what);
        else if (majority.verdict == MAJORITY_HELD && majority.remaining_ms < 0)
            snprintf(what, sizeof what, "the key has no TTL, so it never ends");
        printable(shown, sizeof shown, name, strlen(name));
        free(name);
        if (what[0] == '\0') continue;
        snprintf(out + used, size - (size_t)used, "; '%s': %s", shown, what);
        return;
    }
}

/* A majority has another value under this name: no token holds the lock there. */
static bool is_foreign(const struct redlock_why_report *why) {
    size_t foreign = 0;
    for (size_t i = 0; i < why->nodes; i++)
        foreign += why->node[i].verdict == REDLOCK_VERDICT_WRONGTYPE;
    return foreign >= quorum_of(why->nodes);
}

/* The head line of a failure. True: it says all, and the nodes need no lines of their own. */
static bool describe(struct session *session, const struct redlock_why_report *why,
                     uint32_t other_slots, const char *resource, enum need need, bool unseen) {
    char *out = session->failed.reason;
    const size_t size = sizeof session->failed.reason;
    const struct settings *settings = session->settings;
    session->failed.result = why->result;
    session->failed.owner[0] = '\0';
    session->failed.remaining_ms = -1;
    snprintf(out, size, "%.*s", (int)why->head_bytes, why->sentence);
    if (why->result == REDLOCK_OTHER_SLOTS)
        snprintf(out, size,
                 "its slots are held by clients that use --slots %" PRIu32
                 ", and this one uses --slots %" PRId64
                 ": give the same number; it can change when no slot is held",
                 other_slots, settings->slots);
    if (why->result == REDLOCK_HELD && settings->slots > 0) {
        slots_text(session, resource, out, size);
        return true;
    }
    if (why->result == REDLOCK_HELD && (!settings->quiet || settings->json))
        return held_text(session, resource, out, size);
    if (why->result == REDLOCK_NO_QUORUM && unseen) too_few_readable_text(why, need, out, size);
    /* The nodes can be asked for the type of the key. */
    if (why->result == REDLOCK_LOST && is_foreign(why))
        session_foreign(session, resource, strlen(resource), out, size);
    return false;
}

/* A record that is being read may decide, so it is waited for. */
static void explain(struct session *session, struct redlock_lock *lock, const int *verdicts,
                    int result, struct redlock_why_report *why) {
    struct redlock_quorum_status quorum = {.size = sizeof quorum};
    if ((result == REDLOCK_NO_QUORUM || result == REDLOCK_EXPIRED) &&
        session_mode(session) == REDLOCK_MODE_GUARDED)
        (void)!redlock_quorum_peek(session->client, &quorum, NULL, 0);
    session_why(session, lock, verdicts, result, why);
}

static int failure(struct session *session, struct redlock_lock *lock, const int *verdicts,
                   const char *resource, enum need need, int result) {
    char name[200];
    struct redlock_why_report why;
    const struct settings *settings = session->settings;
    explain(session, lock, verdicts, result, &why);
    result = why.result;
    const bool lacks_votes = result == REDLOCK_NO_QUORUM || result == REDLOCK_EXPIRED,
               unseen =
                   lacks_votes && need != NEED_LOCK && session_reads_refused(session, verdicts),
               shut_out = lacks_votes &&
                          (need == NEED_LOCK ? why.in_vain != 0 : session_shut_out(session, NULL)),
               speak = !settings->quiet || result != REDLOCK_HELD,
               described = describe(session, &why, lock != NULL ? redlock_other_slots(lock) : 0,
                                    resource, need, unseen);
    printable(name, sizeof name, resource, strlen(resource));
    if (speak) complain("%s: %s", name, session->failed.reason);
    if (shut_out) complain("no lock can be taken until this is corrected; waiting is no cure");
    switch (result) {
    case REDLOCK_HELD:
        report_nodes(session, &why, resource, need, speak && (!described || settings->verbose));
        return (int)settings->conflict_exit_code;
    case REDLOCK_NO_QUORUM:
    case REDLOCK_EXPIRED:
        report_nodes(session, &why, resource, need, speak);
        return shut_out || unseen ? EXIT_CONFIG : EXIT_NO_QUORUM;
    case REDLOCK_TWICE_LISTED:
        report_nodes(session, &why, resource, need, false);
        return EXIT_CONFIG;
    case REDLOCK_TWO_QUORUMS:
        report_quorums(session);
        complain(
            "leave the nodes of one of them out of the list, or name the quorum that is meant: --quorum ID; "
            "if these are the traces of two inits at the same time: run redlock quorum init once more");
        return EXIT_CONFIG;
    case REDLOCK_GUARDED_NODES:
        report_nodes(session, &why, resource, need, true);
        complain("%s", why.cure);
        return EXIT_CONFIG;
    case REDLOCK_OTHER_SLOTS: return EXIT_CONFIG;
    case REDLOCK_NO_SLOTS:
    case REDLOCK_NO_SHARED: complain("%s", why.cure); return EXIT_CONFIG;
    case REDLOCK_LOST:
    case REDLOCK_LIMIT: return EXIT_LOST;
    case REDLOCK_BAD_ARGUMENT: return EXIT_USAGE_ERROR;
    case REDLOCK_TTL_MAX_EXCEEDED: report_ttl_max(session); return EXIT_USAGE_ERROR;
    case REDLOCK_CONFLICT: return EXIT_HELD;
    default: return EXIT_SYSTEM;
    }
}

int session_check(struct session *session, const char *resource) {
    struct redlock_why_report why;
    explain(session, NULL, NULL, REDLOCK_NO_QUORUM, &why);
    return why.result == REDLOCK_NO_QUORUM ? 0
                                           : session_failure(session, NULL, resource, why.result);
}

int session_failure(struct session *session, struct redlock_lock *lock, const char *resource,
                    int result) {
    return failure(session, lock, NULL, resource, NEED_LOCK, result);
}

const char *session_wait_is_over(struct session *session, const char *reason) {
    session->failed.result = REDLOCK_HELD;
    session->failed.owner[0] = '\0';
    session->failed.remaining_ms = -1;
    snprintf(session->failed.reason, sizeof session->failed.reason, "%s", reason);
    return session->failed.reason;
}

int session_unseen(struct session *session, const struct redlock_view *views, const char *resource,
                   int result) {
    int verdicts[REDLOCK_NODES_MAX];
    verdicts_of(session, views, verdicts);
    return failure(session, NULL, verdicts, resource, NEED_READ, result);
}

int session_unlisted(struct session *session, const int *verdicts, enum need need, int result) {
    return failure(session, NULL, verdicts, "the list of locks", need, result);
}
