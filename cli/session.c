/* SPDX-License-Identifier: BSD-2-Clause */
#include "session.h"

#include <ctype.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <redlock/admin.h>
#include <redlock/metrics.h>

#include "boottime.h"
#include "causes.h"
#include "denials.h"
#include "duration.h"
#include "exit_codes.h"
#include "majority.h"
#include "message.h"

static void log_line(void *context, int level, const char *text) {
    struct session *session = context;
    const bool traces = getenv("REDLOCK_TRACE") != NULL && level != REDLOCK_LOG_WARNING;
    if (session->settings->verbose || traces) complain("%s", text);
}

const char *find_nodes(const struct settings *settings) {
    if (settings->nodes != NULL) return settings->nodes;
    if (settings->profile_named && settings->config_nodes != NULL) return settings->config_nodes;
    const char *environment = getenv("REDLOCK_NODES");
    if (environment != NULL && environment[strspn(environment, ", \t\n")] != '\0')
        return environment;
    return settings->config_nodes;
}

/* NULL: not set, or empty. */
static const char *from_environment(const char *name) {
    const char *value = getenv(name);
    return value != NULL && value[0] != '\0' ? value : NULL;
}

/* 0, or -1 after a message. */
static int find_mode(const struct settings *settings, int *mode) {
    const char *environment = from_environment("REDLOCK_MODE");
    *mode = settings->mode;
    if (*mode != MODE_UNSET) return 0;
    *mode = settings->config_mode != MODE_UNSET ? settings->config_mode : REDLOCK_MODE_AUTO;
    if (environment == NULL || (settings->profile_named && settings->config_mode != MODE_UNSET))
        return 0;
    *mode = mode_named(environment);
    if (*mode != MODE_UNSET) return 0;
    complain("REDLOCK_MODE is '%.60s'; it must be auto, classic or guarded", environment);
    return -1;
}

static int find_quorum(const struct settings *settings, const char **quorum) {
    const char *environment = from_environment("REDLOCK_QUORUM");
    *quorum = settings->quorum;
    if (*quorum != NULL) return 0;
    if (settings->profile_named && settings->config_quorum != NULL) environment = NULL;
    *quorum = environment != NULL ? environment : settings->config_quorum;
    if (environment == NULL || is_quorum_id(environment)) return 0;
    complain(
        "REDLOCK_QUORUM is '%.60s', not an id of a quorum (16 hexadecimal digits); redlock quorum status shows it",
        environment);
    return -1;
}

static int find_allow_replicas(const struct settings *settings, int *allow) {
    const char *environment = from_environment("REDLOCK_ALLOW_REPLICAS");
    *allow = settings->allow_replicas;
    if (*allow >= 0) return 0;
    *allow = settings->config_allow_replicas > 0;
    if (environment == NULL || (settings->profile_named && settings->config_allow_replicas >= 0))
        return 0;
    *allow = environment[0] == '1';
    if (strcmp(environment, "0") == 0 || strcmp(environment, "1") == 0) return 0;
    complain("REDLOCK_ALLOW_REPLICAS is '%.60s'; it must be 0 or 1", environment);
    return -1;
}

/* A setting given for one command that has no effect there is a misunderstanding. */
static int check_guarded_only(const struct session *session) {
    const struct settings *settings = session->settings;
    const char *option = settings->confirm              ? "--confirm"
                         : settings->quorum != NULL     ? "--quorum"
                         : settings->allow_replicas > 0 ? "--allow-replicas"
                                                        : NULL;
    if (option == NULL || session->mode == REDLOCK_MODE_GUARDED) return 0;
    complain("%s needs guarded mode: add --mode guarded, or leave it out", option);
    return EXIT_USAGE_ERROR;
}

/* 0, or the exit status after a message. A pinned quorum can only mean guarded mode, unless another
 * is named. */
static int find_guarding(struct session *session) {
    const struct settings *settings = session->settings;
    if (find_mode(settings, &session->mode) != 0) return EXIT_CONFIG;
    if (find_quorum(settings, &session->quorum) != 0) return EXIT_CONFIG;
    if (find_allow_replicas(settings, &session->allow_replicas) != 0) return EXIT_CONFIG;
    if (session->mode == REDLOCK_MODE_AUTO && session->quorum != NULL)
        session->mode = REDLOCK_MODE_GUARDED;
    session->mode_open = session->mode == REDLOCK_MODE_AUTO;
    if (session->mode == REDLOCK_MODE_GUARDED) return 0;
    session->quorum = NULL;
    if (session->mode == REDLOCK_MODE_CLASSIC) session->allow_replicas = 0;
    return check_guarded_only(session);
}

static void client_options(struct session *session, struct redlock_client_options *options) {
    const struct settings *settings = session->settings;
    redlock_client_options_init(options);
    options->service_thread = 0;
    options->node_timeout_ms = settings->node_timeout_ms;
    options->connect_timeout_ms = settings->connect_timeout_ms;
    options->key_prefix = settings->prefix;
    options->tls_ca_file = settings->tls_ca_file;
    options->tls_cert_file = settings->tls_cert_file;
    options->tls_key_file = settings->tls_key_file;
    options->tls_server_name = settings->tls_server_name;
    options->mode = session->mode;
    options->confirm = settings->confirm;
    options->quorum = session->quorum;
    options->allow_replicas = session->allow_replicas;
    options->recover = !settings->only_looks;
    options->log = log_line;
    options->log_context = session;
    options->log_level = settings->verbose ? REDLOCK_LOG_INFO : REDLOCK_LOG_WARNING;
}

int session_open(struct session *session, const struct settings *settings) {
    *session = (struct session){.settings = settings, .nodes = find_nodes(settings)};
    if (session->nodes == NULL) {
        complain(
            "no nodes. Name them with -N redis://HOST:PORT,..., or in REDLOCK_NODES, or by `nodes =` lines in the "
            "file REDLOCK_CONFIG names, or in /etc/redlock.conf. To try it out: redlock up");
        if (settings->profiles != NULL && settings->profile == NULL)
            complain("the file has profiles: %s. Choose one with --profile or REDLOCK_PROFILE",
                     settings->profiles);
        return EXIT_CONFIG;
    }
    int status = find_guarding(session);
    if (status != 0) return status;
    struct redlock_client_options options;
    client_options(session, &options);
    struct redlock_error error;
    int result = redlock_client_open(session->nodes, &options, &session->client, &error);
    if (result == REDLOCK_OK) return 0;
    complain("%s", error.text);
    return result == REDLOCK_NO_MEMORY || result == REDLOCK_SYSTEM ? EXIT_SYSTEM : EXIT_CONFIG;
}

int session_mode(struct session *session) {
    if (session->mode == REDLOCK_MODE_AUTO) session->mode = redlock_client_mode(session->client);
    return session->mode;
}

static void connect_nodes(struct session *session) {
    const int64_t slice_ms = 10, straggler_ms = session->settings->node_timeout_ms > 0
                                                    ? session->settings->node_timeout_ms
                                                    : 50;
    const int count = (int)redlock_client_nodes(session->client),
              quorum = (int)quorum_of((size_t)count);
    const int64_t until = now_ns() + session->settings->connect_timeout_ms * MS;
    int64_t majority_since = NEVER;
    for (int64_t now = now_ns(); now < until; now = now_ns()) {
        int ready = redlock_client_wait_ready(session->client, slice_ms);
        if (ready < 0 || ready == count || now_ns() < now + slice_ms * MS)
            return; /* sooner than asked: all nodes are settled */
        if (ready >= quorum && majority_since == NEVER) majority_since = now;
        if (majority_since != NEVER && now - majority_since >= straggler_ms * MS) return;
    }
}

void session_connect(struct session *session) {
    connect_nodes(session);
    session_mode(session);
}

void session_live_until(struct session *session, int64_t until_ns) {
    struct pollfd client = {.fd = redlock_client_fd(session->client), .events = POLLIN};
    for (int64_t now = now_ns(); now < until_ns; now = now_ns()) {
        int64_t ms = (until_ns - now + MS - 1) / MS;
        poll(&client, 1, ms > 60000 ? 60000 : (int)ms);
        redlock_process(session->client);
    }
}

void session_close(struct session *session) {
    redlock_client_free(session->client);
    session->client = NULL;
}

int resource_check(const struct settings *settings, const char *resource) {
    size_t bytes = strlen(resource),
           prefix = settings->prefix != NULL ? strlen(settings->prefix) : 0;
    if (bytes == 0) {
        complain("the resource is empty; give the lock a name");
        return EXIT_USAGE_ERROR;
    }
    if (prefix + bytes > REDLOCK_RESOURCE_BYTES_MAX) {
        complain(
            "the resource is too long: %zu bytes with its prefix, at most %d; use a digest of it",
            prefix + bytes, REDLOCK_RESOURCE_BYTES_MAX);
        return EXIT_USAGE_ERROR;
    }
    return 0;
}

int session_lock(struct session *session, const char *resource, lock_options_fn *change,
                 void *context, struct redlock_lock **lock) {
    struct redlock_lock_options options;
    redlock_lock_options_init(&options);
    options.ttl_ms = session->settings->ttl_ms;
    options.shared = session->settings->shared;
    options.retry_delay_ms_min = session->settings->retry_delay_ms_min;
    options.retry_delay_ms_max = session->settings->retry_delay_ms_max;
    if (change != NULL) change(context, &options);
    struct redlock_error error;
    int result =
        redlock_lock_new(session->client, resource, strlen(resource), &options, lock, &error);
    if (result == REDLOCK_OK) return 0;
    complain("%s", error.text);
    return result == REDLOCK_BAD_ARGUMENT ? EXIT_USAGE_ERROR : EXIT_SYSTEM;
}

const char *node_url(struct session *session, size_t node) {
    struct redlock_node_status status = {.size = sizeof status};
    if (redlock_client_node(session->client, node, &status) != REDLOCK_OK) return "?";
    return status.url;
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
    /* and one that needs a correction does not answer by itself */
    if (verdict == REDLOCK_VERDICT_TIMEOUT && status.verdict == REDLOCK_VERDICT_NOPERM)
        verdict = status.verdict;
    if (status.verdict == REDLOCK_VERDICT_AUTH) verdict = status.verdict;
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
static bool is_denied(struct session *session, size_t node, int verdict) {
    struct redlock_node_status status = {.size = sizeof status};
    return verdict == REDLOCK_VERDICT_NOPERM &&
           redlock_client_node(session->client, node, &status) == REDLOCK_OK &&
           status.verdict == REDLOCK_VERDICT_GRANTED;
}

/* A node that granted, or was not needed, is not a cause. */
static void report_nodes(struct session *session, const int *verdicts, size_t count, enum need need,
                         bool speak) {
    struct denials denials = {.asked = false};
    for (size_t i = 0; i < count; i++) {
        char reason[300];
        int verdict = session_verdict(session, i, verdicts[i], reason, sizeof reason);
        bool healthy = verdict == REDLOCK_VERDICT_NONE || verdict == REDLOCK_VERDICT_GRANTED;
        if (need != NEED_LOCK) healthy = healthy || verdict == REDLOCK_VERDICT_ABSENT;
        if (speak && is_denied(session, i, verdict))
            denied_text(session, &denials, i, need, reason, sizeof reason);
        if ((speak && !healthy) || verdict == REDLOCK_VERDICT_TWICE_LISTED)
            complain("  %s: %s", node_url(session, i), reason);
    }
}

/* The TTL comes from the caller, wherever it is set; the servers decide how long the quorum allows.
 */
/* The client refused by the ttl_max that it had read until then. If that was an older one, reading
 * again shows the one that another client has meanwhile set. */
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

static bool any_verdict(struct session *session, int verdict) {
    for (size_t i = 0; i < redlock_client_nodes(session->client); i++) {
        struct redlock_node_status status = {.size = sizeof status};
        if (redlock_client_node(session->client, i, &status) == REDLOCK_OK &&
            status.verdict == verdict)
            return true;
    }
    return false;
}

static bool names_two_quorums(struct session *session) {
    struct redlock_quorum_status quorum = {.size = sizeof quorum};
    struct redlock_member members[REDLOCK_NODES_MAX];
    for (size_t i = 0; i < REDLOCK_NODES_MAX; i++) members[i].size = sizeof members[i];
    return redlock_quorum_peek(session->client, &quorum, members, REDLOCK_NODES_MAX) ==
           REDLOCK_TWO_QUORUMS;
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

/* Too few nodes may vote because the configuration is wrong, which waiting does not cure. */
static int cause_of(struct session *session, int result) {
    if (result != REDLOCK_NO_QUORUM && result != REDLOCK_EXPIRED) return result;
    if (session_mode(session) == REDLOCK_MODE_GUARDED && names_two_quorums(session))
        return REDLOCK_TWO_QUORUMS;
    return result;
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

/* `votes`: NULL: there are none, only the state of the nodes counts. */
static bool is_shut_out(struct session *session, const int *votes) {
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
    if (session_reach(session) == REACH_ALL) bad += unlisted;
    return nodes - bad < quorum_of(nodes) && nodes - bad < session_votes_needed(session);
}

bool session_reads_refused(struct session *session, const int *verdicts) {
    const size_t nodes = redlock_client_nodes(session->client);
    size_t refused = 0;
    for (size_t i = 0; i < nodes; i++) refused += is_denied(session, i, verdicts[i]);
    return refused > 0 && nodes - refused < quorum_of(nodes);
}

char *session_foreign(struct session *session, const char *resource, size_t bytes, char *out,
                      size_t size) {
    char type[40] = "";
    if (redlock_key_type(session->client, resource, bytes, type, sizeof type) != REDLOCK_OK)
        type[0] = '\0';
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

static const char *owner_of(struct session *session, const struct redlock_view *view) {
    owner_text(view, session->failed.owner, sizeof session->failed.owner);
    return session->failed.owner[0] != '\0' ? session->failed.owner
           : is_shared(view)                ? "readers"
                                            : "another client";
}

/* By what the nodes hold now. False: the nodes do not say. */
static bool holder_text(struct session *session, const char *resource, char *out, size_t size) {
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
        snprintf(out, size, "held by %s, %s (%zu of %zu)",
                 owner_of(session, &views[majority.holder]), end, majority.votes, count);
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
                owner_of(session, &views[few]));
        return true;
    case MAJORITY_UNKNOWN: break;
    }
    return false;
}

static bool can_vote(int verdict) {
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
        others += can_vote(verdict) || node_is_silent(verdict);
    }
    return others < session_votes_needed(session);
}

static void no_quorum_text(struct session *session, const int *verdicts, size_t count, char *out,
                           size_t size) {
    size_t votes = 0, silent = 0, granted = 0;
    const size_t needed = session_votes_needed(session);
    for (size_t i = 0; i < count; i++) {
        char reason[300];
        int verdict = session_verdict(session, i, verdicts[i], reason, sizeof reason);
        const bool can = can_vote(verdict);
        votes += can;
        granted += verdict == REDLOCK_VERDICT_GRANTED;
        silent += !can && node_is_silent(verdict);
    }
    if (votes >= needed) {
        snprintf(out, size, "no quorum: %zu of %zu nodes agree, %zu needed", granted, count,
                 needed);
    } else {
        snprintf(out, size, "no quorum: %zu of %zu nodes %s, %zu needed", votes, count,
                 votes + silent == count ? "answered" : "can vote", needed);
    }
}

/* What is read is no vote: in guarded mode, too, any majority of the list is enough. */
static void too_few_readable_text(struct session *session, const int *verdicts, size_t count,
                                  enum need need, char *out, size_t size) {
    size_t read = 0;
    for (size_t i = 0; i < count; i++) {
        char reason[300];
        const int verdict = session_verdict(session, i, verdicts[i], reason, sizeof reason);
        read += verdict == REDLOCK_VERDICT_GRANTED || verdict == REDLOCK_VERDICT_ABSENT ||
                verdict == REDLOCK_VERDICT_WRONGTYPE;
    }
    snprintf(out, size, "no quorum: %zu of %zu nodes let this user %s, %zu needed", read, count,
             need == NEED_LIST ? "list the names" : "see what they hold", quorum_of(count));
}

/* A majority has another value under this name: no token holds the lock there. */
static bool is_foreign(const int *verdicts, size_t count) {
    size_t foreign = 0;
    for (size_t i = 0; i < count; i++) foreign += verdicts[i] == REDLOCK_VERDICT_WRONGTYPE;
    return foreign >= quorum_of(count);
}

/* The head line of a failure. True: it says all, and the nodes need no lines of their own. */
static bool describe(struct session *session, const int *verdicts, size_t count,
                     const char *resource, enum need need, int result) {
    char *out = session->failed.reason, causes[600];
    const size_t size = sizeof session->failed.reason;
    const struct settings *settings = session->settings;
    session->failed.result = result;
    session->failed.owner[0] = '\0';
    session->failed.remaining_ms = -1;
    snprintf(out, size, "%s", redlock_result_text(result));
    if (result == REDLOCK_OTHER_SLOTS)
        snprintf(out, size,
                 "its slots are held by clients that use --slots %u, and this one uses --slots "
                 "%" PRId64 ": give the same number; it can change when no slot is held",
                 session->other_slots, settings->slots);
    if (result == REDLOCK_HELD && settings->slots > 0) {
        snprintf(out, size, "held by others: none of its %" PRId64 " slots is free",
                 settings->slots);
        return true;
    }
    if (result == REDLOCK_HELD && (!settings->quiet || settings->json))
        return holder_text(session, resource, out, size);
    if (result == REDLOCK_NO_QUORUM && need != NEED_LOCK &&
        session_reads_refused(session, verdicts))
        too_few_readable_text(session, verdicts, count, need, out, size);
    else if (result == REDLOCK_NO_QUORUM)
        no_quorum_text(session, verdicts, count, out, size);
    if (result == REDLOCK_LOST && is_foreign(verdicts, count))
        session_foreign(session, resource, strlen(resource), out, size);
    else if (result == REDLOCK_LOST &&
             causes_text(session, verdicts, count, causes, sizeof causes) > 0)
        snprintf(out, size, "lost: %s", causes);
    return false;
}

static int failure(struct session *session, const int *verdicts, size_t count, const char *resource,
                   enum need need, int result) {
    char name[200];
    result = cause_of(session, result);
    if (result == REDLOCK_NO_QUORUM && is_foreign(verdicts, count)) result = REDLOCK_LOST;
    const struct settings *settings = session->settings;
    const bool lacks_votes = result == REDLOCK_NO_QUORUM || result == REDLOCK_EXPIRED,
               unseen =
                   lacks_votes && need != NEED_LOCK && session_reads_refused(session, verdicts),
               shut_out = lacks_votes && is_shut_out(session, need == NEED_LOCK ? verdicts : NULL),
               speak = !settings->quiet || shut_out || unseen ||
                       (result != REDLOCK_HELD && !lacks_votes),
               described = describe(session, verdicts, count, resource, need, result);
    printable(name, sizeof name, resource, strlen(resource));
    if (speak) complain("%s: %s", name, session->failed.reason);
    if (shut_out) complain("no lock can be taken until this is corrected; waiting is no cure");
    switch (result) {
    case REDLOCK_HELD:
        report_nodes(session, verdicts, count, need, speak && (!described || settings->verbose));
        return (int)settings->conflict_exit_code;
    case REDLOCK_NO_QUORUM:
    case REDLOCK_EXPIRED:
        report_nodes(session, verdicts, count, need, speak);
        return shut_out || unseen ? EXIT_CONFIG : EXIT_NO_QUORUM;
    case REDLOCK_TWICE_LISTED:
        report_nodes(session, verdicts, count, need, false);
        return EXIT_CONFIG;
    case REDLOCK_TWO_QUORUMS:
        report_quorums(session);
        complain(
            "leave the nodes of one of them out of the list, or name the quorum that is meant: --quorum ID");
        return EXIT_CONFIG;
    case REDLOCK_GUARDED_NODES:
        report_nodes(session, verdicts, count, need, true);
        complain("remove scheme= from the node's URL, or lock elsewhere");
        return EXIT_CONFIG;
    case REDLOCK_OTHER_SLOTS: return EXIT_CONFIG;
    case REDLOCK_NO_SLOTS:
    case REDLOCK_NO_SHARED:
        complain("%s need a newer module on native nodes; redlock doctor shows the version of each",
                 result == REDLOCK_NO_SLOTS ? "slots" : "shared locks");
        return EXIT_CONFIG;
    case REDLOCK_LOST:
    case REDLOCK_LIMIT: return EXIT_LOST;
    case REDLOCK_BAD_ARGUMENT: return EXIT_USAGE_ERROR;
    case REDLOCK_TTL_MAX_EXCEEDED: report_ttl_max(session); return EXIT_USAGE_ERROR;
    case REDLOCK_CONFLICT: return EXIT_HELD;
    default: return EXIT_SYSTEM;
    }
}

int session_check(struct session *session, const char *resource) {
    int result = cause_of(session, REDLOCK_NO_QUORUM);
    return result == REDLOCK_NO_QUORUM ? 0 : session_failure(session, NULL, resource, result);
}

int session_failure(struct session *session, struct redlock_lock *lock, const char *resource,
                    int result) {
    int verdicts[REDLOCK_NODES_MAX] = {0};
    size_t count = redlock_client_nodes(session->client);
    if (lock != NULL) redlock_verdicts(lock, verdicts, count);
    if (lock != NULL) session->other_slots = redlock_other_slots(lock);
    return failure(session, verdicts, count, resource, NEED_LOCK, result);
}

int session_unseen(struct session *session, const struct redlock_view *views, const char *resource,
                   int result) {
    int verdicts[REDLOCK_NODES_MAX] = {0};
    size_t count = redlock_client_nodes(session->client);
    for (size_t i = 0; i < count; i++) verdicts[i] = views[i].verdict;
    return failure(session, verdicts, count, resource, NEED_READ, result);
}

int session_unlisted(struct session *session, const int *verdicts, enum need need, int result) {
    return failure(session, verdicts, redlock_client_nodes(session->client), "the list of locks",
                   need, result);
}

bool session_is_refused(struct session *session) {
    return any_verdict(session, REDLOCK_VERDICT_AUTH);
}

bool session_shut_out(struct session *session, struct redlock_lock *lock) {
    int verdicts[REDLOCK_NODES_MAX] = {0};
    if (lock != NULL) redlock_verdicts(lock, verdicts, redlock_client_nodes(session->client));
    return is_shut_out(session, verdicts);
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

char *slot_name(const char *resource, unsigned slot) {
    char *name = NULL;
    if (slot == 0) return strdup(resource);
    return asprintf(&name, "%s:slot:%u", resource, slot) < 0 ? NULL : name;
}

void default_owner(const struct settings *settings, char *out, size_t size) {
    char host[65] = "";
    if (settings->owner != NULL) {
        snprintf(out, size, "%s", settings->owner);
        return;
    }
    if (gethostname(host, sizeof host - 1) != 0 || host[0] == '\0')
        snprintf(host, sizeof host, "localhost");
    snprintf(out, size, "%s:%ld", host, (long)getpid());
}
