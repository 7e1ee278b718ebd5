/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Why a lock cannot be had, in words: the part of each node, how a lock was lost, the sentence
 * about all nodes, and the cure. It asks no node. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "abi/sized.h"
#include "client/client.h"
#include "client/guarding/guarding.h"
#include "client/locks/locks.h"

/* All that the words rest on. */
struct known {
    size_t nodes, votes_needed;
    int votes[REDLOCK_NODES_MAX]; /* what each node answered to the try */
    struct redlock_node_status status[REDLOCK_NODES_MAX];
    bool guarded;
    int refusal; /* OK; or why this client takes no lock, whatever the nodes answer */
    int64_t ttl_ms_max;
    struct redlock_lock_options lock; /* zeros: none is meant */
    uint32_t other_slots;
};

static int know(struct redlock_client *client, struct redlock_lock *lock, const int *verdicts,
                struct known *known) {
    *known = (struct known){.nodes = client->nodes};
    if (lock) redlock_verdicts(lock, known->votes, known->nodes);
    if (lock) known->other_slots = redlock_other_slots(lock);
    if (verdicts) memcpy(known->votes, verdicts, known->nodes * sizeof *verdicts);
    for (size_t i = 0; i < known->nodes; i++) {
        redlock_node_status_init(&known->status[i]);
        const int result = redlock_client_node(client, i, &known->status[i]);
        if (result != REDLOCK_OK) return result;
    }
    if (client_enter(client) != REDLOCK_OK) return REDLOCK_FORKED;
    known->guarded = client->guard != NULL;
    known->refusal = client_refusal(client);
    known->votes_needed =
        known->guarded ? guard_votes_needed(client->guard) : rl_quorum(client->nodes);
    if (known->guarded) known->ttl_ms_max = guard_ttl_max_ms(client->guard);
    if (lock) known->lock = *lock_options(lock);
    client_exit(client);
    return REDLOCK_OK;
}

/* ---- one node ---- */

#define V(name) (UINT64_C(1) << REDLOCK_VERDICT_##name)

static bool is_one(int verdict, uint64_t of) { return of >> (verdict & 63) & 1; }

static bool can_vote(int verdict) {
    return is_one(verdict, V(NONE) | V(GRANTED) | V(DENIED) | V(ABSENT) | V(WRONGTYPE) |
                               V(OTHER_SLOTS) | V(STALE));
}

static bool is_listed(int verdict) { return !is_one(verdict, V(NONE) | V(GRANTED)); }

static bool is_read(int connection) {
    return is_one(connection, V(GRANTED) | V(RECOVERING) | V(FOREIGN) | V(UNACCEPTED) |
                                  V(NO_RECORD) | V(UNFIT));
}

/* An attempt asks only connected nodes: for the others, the connection knows the reason. */
static int explaining(int vote, int connection) {
    /* A ready node that had not answered when the others decided has no verdict yet. */
    if (is_one(vote, V(NONE) | V(CONNECTING)) && connection != REDLOCK_VERDICT_GRANTED)
        return connection;
    /* One that needs a correction, or cannot be reached, does not answer by itself. */
    const uint64_t known =
        V(AUTH) | (vote == REDLOCK_VERDICT_DISCONNECTED ? V(TLS)
                   : vote == REDLOCK_VERDICT_TIMEOUT    ? V(NOPERM) | V(REFUSED) | V(NAME) | V(TLS)
                                                        : 0);
    return is_one(connection, known) ? connection : vote;
}

static bool lacks_password(const struct redlock_node_status *status) {
    return strncmp(status->text, NET_NO_PASSWORD, strlen(NET_NO_PASSWORD)) == 0;
}

static int obstacle_of(int verdict, int vote, const struct redlock_node_status *status) {
    /* Of a replica: a failover or a backup may be under way. */
    const bool may_pass =
        status->verdict == REDLOCK_VERDICT_UNFIT && strstr(status->text, "replica") != NULL;
    /* A file is about to be replaced, or what gives the password is down. */
    if (status->verdict == REDLOCK_VERDICT_AUTH && lacks_password(status))
        return REDLOCK_OBSTACLE_ERROR;
    /* A permission may be missing for the key alone. */
    if (is_one(vote, V(NOPERM) | V(NOT_SHARED) | V(NO_SCRIPTS))) return REDLOCK_OBSTACLE_SETUP;
    if (is_one(status->verdict, V(TLS) | V(AUTH) | V(NOPERM) | V(CLUSTER) | V(UNFIT)))
        return may_pass ? REDLOCK_OBSTACLE_ERROR : REDLOCK_OBSTACLE_SETUP;
    if (is_one(status->verdict, V(FOREIGN) | V(UNACCEPTED) | V(NO_RECORD)))
        return REDLOCK_OBSTACLE_RECORD;
    if (is_one(verdict, V(TIMEOUT) | V(CONNECTING) | V(REFUSED) | V(DISCONNECTED) | V(NAME)))
        return REDLOCK_OBSTACLE_SILENT;
    return can_vote(verdict) ? REDLOCK_OBSTACLE_NONE : REDLOCK_OBSTACLE_ERROR;
}

/* Where the detail is a server's error, the verdict explains it; elsewhere the detail is a sentence
 * that says all. */
static void reason_text(int verdict, const char *detail, char *out, size_t size) {
    const char *text = redlock_verdict_text(verdict);
    if (detail[0] != '\0' &&
        is_one(verdict, V(NOPERM) | V(OOM) | V(MISCONF) | V(READONLY) | V(LOADING) | V(BUSY) |
                            V(MAXCLIENTS) | V(MASTERDOWN) | V(ERROR)))
        snprintf(out, size, "%s (%s)", text, detail);
    else
        snprintf(out, size, "%s", detail[0] != '\0' ? detail : text);
}

/* The other verdicts have theirs in their text, or none that is always right. */
static const char *node_cure(int verdict, const struct redlock_node_status *status) {
    if (is_one(verdict, V(TIMEOUT) | V(REFUSED) | V(DISCONNECTED) | V(NAME)))
        return "start it, or correct its URL or the network";
    switch (verdict) {
    case REDLOCK_VERDICT_AUTH:
        if (lacks_password(status)) return "correct what gives the password, or wait until it does";
        if (strstr(status->text, "correct the user"))
            return "correct the user, or what gives the password";
        return "correct the password in the node's URL: redis://USER:PASSWORD@HOST";
    case REDLOCK_VERDICT_NOPERM: return "allow this user the keys and commands of acl.md";
    case REDLOCK_VERDICT_TLS:
        return "correct the scheme of the URL (rediss:// is TLS), or the certificates";
    case REDLOCK_VERDICT_CLUSTER:
        return "list servers that do not run in cluster mode (cluster-enabled no)";
    case REDLOCK_VERDICT_TWICE_LISTED: return "take one of the two out of the list of nodes";
    case REDLOCK_VERDICT_OOM: return "raise maxmemory, or move other data elsewhere";
    case REDLOCK_VERDICT_MAXCLIENTS:
        return "raise maxclients (CONFIG SET maxclients, and ulimit -n), or close idle clients";
    case REDLOCK_VERDICT_LOADING: return "wait; if it lasts, read the server's log";
    case REDLOCK_VERDICT_BUSY: return "find the script (see its log); SCRIPT KILL ends it";
    default: return NULL;
    }
}

static void node_part(const struct known *known, size_t node, int result,
                      struct redlock_why_node *part) {
    const struct redlock_node_status *status = &known->status[node];
    int verdict = explaining(known->votes[node], status->verdict);
    /* A majority had refused before it was connected, which says nothing against it. */
    if (verdict == REDLOCK_VERDICT_CONNECTING && result == REDLOCK_HELD)
        verdict = REDLOCK_VERDICT_NONE;
    const bool reported = verdict == status->verdict && verdict != REDLOCK_VERDICT_GRANTED;
    part->verdict = verdict;
    part->obstacle = obstacle_of(verdict, known->votes[node], status);
    part->cure = node_cure(verdict, status);
    reason_text(verdict, reported ? status->text : "", part->text, sizeof part->text);
    /* If too few nodes vote, those that would vote are not asked. */
    if (verdict == REDLOCK_VERDICT_NONE && known->guarded)
        snprintf(part->text, sizeof part->text, "intact");
}

/* ---- how a lock was lost ---- */

/* "HOST:PORT" of a node, or the path of its socket. */
static char *node_name(const struct known *known, size_t node, char *out, size_t size) {
    const char *url = known->status[node].url, *scheme = strstr(url, "://");
    const bool is_path = strncmp(url, "unix:", 5) == 0;
    const char *name = scheme ? scheme + 3 : url;
    size_t length = strcspn(name, is_path ? "?" : "/?");
    for (const char *at; !is_path && (at = memchr(name, '@', length)) != NULL;) {
        length -= (size_t)(at + 1 - name);
        name = at + 1;
    }
    snprintf(out, size, "%.*s", (int)length, name);
    return out;
}

static const char *phrase(bool shared, int verdict, bool one, char *out, size_t size) {
    switch (verdict) {
    case REDLOCK_VERDICT_TIMEOUT: return " timed out";
    case REDLOCK_VERDICT_REFUSED: return " cannot be reached";
    case REDLOCK_VERDICT_DISCONNECTED: return " closed the connection";
    case REDLOCK_VERDICT_CONNECTING: return one ? " is not connected" : " are not connected";
    case REDLOCK_VERDICT_ABSENT:
        if (shared) return one ? " has no place of this reader" : " have no place of this reader";
        return one ? " does not have the key" : " do not have the key";
    case REDLOCK_VERDICT_DENIED: return one ? " has another token" : " have another token";
    case REDLOCK_VERDICT_RECOVERING: return one ? " lost its lock data" : " lost their lock data";
    default:
        snprintf(out, size, ": %s%s", redlock_verdict_text(verdict),
                 verdict == REDLOCK_VERDICT_NOPERM ? ": see redlock doctor, and acl.md" : "");
        return out;
    }
}

/* "all 3 nodes timed out", "db2 and db3 timed out". Returns how many there are. */
static size_t group_text(const struct known *known, size_t first, char *out, size_t size) {
    const int *votes = known->votes, verdict = votes[first];
    size_t all = 0, named = 0, used = 0;
    char name[300], text[120];
    for (size_t i = 0; i < known->nodes; i++) all += votes[i] == verdict;
    if (all == known->nodes && all > 2) {
        snprintf(out, size, "all %zu nodes%s", all,
                 phrase(known->lock.shared, verdict, false, text, sizeof text));
        return all;
    }
    for (size_t i = first; i < known->nodes && used < size; i++) {
        if (votes[i] != verdict) continue;
        const char *join = named == 0 ? "" : named + 1 == all ? " and " : ", ";
        used += (size_t)snprintf(out + used, size - used, "%s%s", join,
                                 node_name(known, i, name, sizeof name));
        named++;
    }
    if (used < size)
        snprintf(out + used, size - used, "%s",
                 phrase(known->lock.shared, verdict, all == 1, text, sizeof text));
    return all;
}

/* The nodes by what they answered, those that count left out. Returns how many it names. */
static size_t causes_text(const struct known *known, char *out, size_t size) {
    size_t total = 0, used = 0;
    out[0] = '\0';
    for (size_t i = 0; i < known->nodes && used + 3 < size; i++) {
        bool is_new = is_listed(known->votes[i]);
        for (size_t j = 0; j < i; j++) is_new = is_new && known->votes[j] != known->votes[i];
        if (!is_new) continue;
        if (total > 0) used += (size_t)snprintf(out + used, size - used, "; ");
        total += group_text(known, i, out + used, size - used);
        used += strlen(out + used);
    }
    return total;
}

/* ---- the nodes together ---- */

/* A majority has another value under this name: no token holds the lock there. */
static bool is_foreign(const struct known *known) {
    size_t foreign = 0;
    for (size_t i = 0; i < known->nodes; i++)
        foreign += known->votes[i] == REDLOCK_VERDICT_WRONGTYPE;
    return foreign >= rl_quorum((unsigned)known->nodes);
}

static bool lacks_majority(const struct known *known, size_t bad) {
    const size_t left = known->nodes - bad;
    return left < rl_quorum((unsigned)known->nodes) && left < known->votes_needed;
}

/* What the last try of a cancelled acquisition met, as far as its answers say. */
static int cancelled_try(const struct known *known) {
    size_t denied = 0, others = 0;
    for (size_t i = 0; i < known->nodes; i++) {
        const int verdict = explaining(known->votes[i], known->status[i].verdict);
        denied += verdict == REDLOCK_VERDICT_DENIED;
        others += !is_one(verdict, V(NONE) | V(GRANTED) | V(DENIED));
    }
    if (lacks_majority(known, denied)) return REDLOCK_HELD;
    return lacks_majority(known, denied + others) ? REDLOCK_NO_QUORUM : REDLOCK_CANCELLED;
}

/* Too few nodes may vote because the configuration is wrong, or another program has the key: that
 * is nearer than what the try met. */
static int nearest(const struct known *known, int result) {
    if (result == REDLOCK_CANCELLED) result = cancelled_try(known);
    const bool lacks_votes = result == REDLOCK_NO_QUORUM || result == REDLOCK_EXPIRED;
    if (lacks_votes && known->refusal == REDLOCK_TWO_QUORUMS) return REDLOCK_TWO_QUORUMS;
    return result == REDLOCK_NO_QUORUM && is_foreign(known) ? REDLOCK_LOST : result;
}

static void count_nodes(const struct known *known, struct redlock_why_report *why) {
    size_t setup = 0, records = 0;
    why->nodes = known->nodes;
    why->votes_needed = known->votes_needed;
    for (size_t i = 0; i < known->nodes; i++) {
        const struct redlock_why_node *node = &why->node[i];
        why->votes += can_vote(node->verdict);
        why->silent += node->obstacle == REDLOCK_OBSTACLE_SILENT;
        why->read += is_read(known->status[i].verdict);
        setup += node->obstacle == REDLOCK_OBSTACLE_SETUP;
        records += node->obstacle == REDLOCK_OBSTACLE_RECORD;
    }
    /* Until all are read it is not known which quorum is meant, and which nodes are new. */
    why->in_vain = lacks_majority(known, setup)                                        ? 2
                   : why->read == why->nodes && lacks_majority(known, setup + records) ? 1
                                                                                       : 0;
}

/* ---- in words ---- */

static void no_quorum_text(const struct redlock_why_report *why, char *out, size_t size) {
    size_t granted = 0;
    for (size_t i = 0; i < why->nodes; i++)
        granted += why->node[i].verdict == REDLOCK_VERDICT_GRANTED;
    if (granted >= why->votes_needed) /* they answered, and differ in what they hold */
        snprintf(out, size, "no quorum: no holder has %zu of %zu nodes", why->votes_needed,
                 why->nodes);
    else if (why->votes >= why->votes_needed)
        snprintf(out, size, "no quorum: %zu of %zu nodes agree, %zu needed", granted, why->nodes,
                 why->votes_needed);
    else
        snprintf(out, size, "no quorum: %zu of %zu nodes %s, %zu needed", why->votes, why->nodes,
                 why->votes + why->silent == why->nodes ? "answered" : "can vote",
                 why->votes_needed);
}

static void head_text(const struct known *known, struct redlock_why_report *why) {
    char causes[600];
    const size_t size = sizeof why->sentence;
    snprintf(why->sentence, size, "%s", redlock_result_text(why->result));
    switch (why->result) {
    case REDLOCK_NO_QUORUM: no_quorum_text(why, why->sentence, size); break;
    case REDLOCK_LOST:
        why->named = causes_text(known, causes, sizeof causes);
        if (is_foreign(known))
            snprintf(why->sentence, size,
                     "the key holds a list, a hash or another structure: not a lock");
        else if (why->named > 0)
            snprintf(why->sentence, size, "lost: %s", causes);
        break;
    case REDLOCK_OTHER_SLOTS:
        if (known->other_slots > 0)
            snprintf(why->sentence, size,
                     "its slots are held by clients that use %" PRIu32
                     " slots, and this one uses %" PRIu32,
                     known->other_slots, known->lock.slots);
        break;
    default: break;
    }
    why->head_bytes = strlen(why->sentence);
}

static bool names_nodes(int result, int verdict) {
    switch (result) {
    case REDLOCK_NO_QUORUM:
    case REDLOCK_EXPIRED:
    case REDLOCK_GUARDED_NODES:
    case REDLOCK_TWO_QUORUMS: return is_listed(verdict);
    case REDLOCK_TWICE_LISTED: return verdict == REDLOCK_VERDICT_TWICE_LISTED;
    default: return false;
    }
}

/* " (URL: why; URL: why)" */
static void list_nodes(const struct known *known, struct redlock_why_report *why) {
    size_t used = why->head_bytes;
    const size_t size = sizeof why->sentence;
    for (size_t i = 0; i < why->nodes && used < size; i++) {
        if (!names_nodes(why->result, why->node[i].verdict)) continue;
        used += (size_t)snprintf(why->sentence + used, size - used, "%s%s: %s",
                                 why->named++ > 0 ? "; " : " (", known->status[i].url,
                                 why->node[i].text);
    }
    if (used > why->head_bytes && used < size) snprintf(why->sentence + used, size - used, ")");
}

/* NULL: the nodes' cures are those of the result. */
static const char *result_cure(int result) {
    switch (result) {
    case REDLOCK_OTHER_SLOTS: return "use the same number; it can change when no slot is held";
    case REDLOCK_TWO_QUORUMS:
        return "leave the nodes of one of them out of the list, or name the quorum that is meant; "
               "if these are the traces of two inits at the same time: run redlock quorum init "
               "once more";
    case REDLOCK_GUARDED_NODES: return "remove scheme= from the node's URL, or lock elsewhere";
    case REDLOCK_NO_SLOTS:
        return "slots need a newer module on native nodes; redlock doctor shows the version of "
               "each";
    case REDLOCK_NO_SHARED:
        return "shared locks need a newer module on native nodes; redlock doctor shows the version "
               "of each";
    default: return NULL;
    }
}

/* "db2:6379: start it, or correct its URL or the network; ..." */
static void cure_text(const struct known *known, struct redlock_why_report *why) {
    char name[300];
    const size_t size = sizeof why->cure;
    const char *cure = result_cure(why->result);
    if (cure) snprintf(why->cure, size, "%s", cure);
    if (why->result == REDLOCK_TTL_MAX_EXCEEDED && known->ttl_ms_max > 0)
        snprintf(why->cure, size,
                 "use a TTL of at most %" PRId64 " ms, or raise it: redlock quorum set-ttl-max",
                 known->ttl_ms_max);
    for (size_t i = 0, used = 0; !cure && i < why->nodes && used < size; i++) {
        const struct redlock_why_node *node = &why->node[i];
        if (!node->cure || !names_nodes(why->result, node->verdict)) continue;
        used += (size_t)snprintf(why->cure + used, size - used, "%s%s: %s", used > 0 ? "; " : "",
                                 node_name(known, i, name, sizeof name), node->cure);
    }
}

int redlock_why(struct redlock_client *client, struct redlock_lock *lock, int result,
                const int *verdicts, struct redlock_why_report *out) {
    if (!client || !out || out->size < FIRST_WHY || (lock && lock_client(lock) != client))
        return REDLOCK_BAD_ARGUMENT;
    struct known known;
    struct redlock_why_report why = {0};
    const int failed = know(client, lock, verdicts, &known);
    if (failed != REDLOCK_OK) return failed;
    why.result = nearest(&known, result);
    for (size_t i = 0; i < known.nodes; i++) node_part(&known, i, why.result, &why.node[i]);
    count_nodes(&known, &why);
    head_text(&known, &why);
    list_nodes(&known, &why);
    cure_text(&known, &why);
    sized_fill(out, out->size, &why, sizeof why);
    return REDLOCK_OK;
}
