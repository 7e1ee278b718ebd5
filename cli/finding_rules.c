/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The rules, each with its reason and its cure. Unknown values are judged by one rule only, which
 * reports that they are unknown.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "boottime.h"
#include "findings.h"

/* Half of a drift allowance of 1 % would be too late to warn; time services slew by at most 500
 * ppm. */
#define DRIFT_ALLOWED_PPM 10000
#define DRIFT_SLEWED_PPM 500
#define OFFSET_MAX (1000 * MS)

#define NOTE(...) findings_add(findings, SEVERITY_NOTE, __VA_ARGS__)
#define WARNING(...) findings_add(findings, SEVERITY_WARNING, __VA_ARGS__)
#define ERROR(...) findings_add(findings, SEVERITY_ERROR, __VA_ARGS__)

static const char replica_cure[] =
    "List independent masters: REPLICAOF NO ONE, if this server is meant to be one.";

/* Guarded mode needs Redis 6.2. */
static bool is_old(const char *version) {
    int major = 0, minor = 0;
    return sscanf(version, "%d.%d", &major, &minor) == 2 &&
           (major < 6 || (major == 6 && minor < 2));
}

static void judge_age(const char *version, bool guarded, size_t i, struct findings *findings) {
    const char *cure =
        "Upgrade to a release that is still maintained: Redis 7.2 or Valkey 7.2, or later.";
    if (!is_old(version)) return;
    if (guarded) {
        ERROR("OLD-VERSION", i, cure, "Redis %s lacks what guarded mode needs: 6.2 has it.",
              version);
    } else {
        WARNING("OLD-VERSION", i, cure,
                "Redis %s gets no security fixes any more, and guarded mode needs 6.2.", version);
    }
}

/* ---- a node that does not answer our commands ---- */

static void judge_absent(const struct examined *node, size_t i, struct findings *findings) {
    const char *text = node->status.text;
    char reason[300], detail[200] = "";
    const bool is_protected = strncmp(text, "protected mode", strlen("protected mode")) == 0;
    if (text[0] != '\0') snprintf(detail, sizeof detail, ": %s", text);
    switch (node->info.verdict) {
    case REDLOCK_VERDICT_UNFIT:
        if (is_old(node->status.version)) {
            judge_age(node->status.version, true, i, findings);
            break;
        }
        ERROR("UNFIT", i, "Correct what the message names; see also " REDLOCK_DOC "/acl.md.",
              "It is not fit to hold these locks%s.", detail);
        break;
    case REDLOCK_VERDICT_NOPERM:
        ERROR("UNFIT", i, "Allow this user what " REDLOCK_DOC "/acl.md lists.",
              "It does not permit what a lock needs%s.", detail);
        break;
    case REDLOCK_VERDICT_TLS:
        ERROR("TLS", i,
              "Correct the scheme of the URL (rediss:// is TLS), the certificate, or --tls-ca-file "
              "and the other TLS options.",
              "No trusted TLS connection to it can be made%s.", detail);
        break;
    case REDLOCK_VERDICT_CLUSTER:
        ERROR(
            "CLUSTER", i, "List servers that do not run in cluster mode (cluster-enabled no).",
            "It runs in cluster mode: keys move between its servers, and its replicas take over without the locks.");
        break;
    case REDLOCK_VERDICT_TWICE_LISTED:
        ERROR("TWICE-LISTED", i, "Take one of the two out of the list of nodes.",
              "It is the same server as another node, so its vote would count twice%s.", detail);
        break;
    case REDLOCK_VERDICT_AUTH:
        if (is_protected) {
            ERROR("PROTECTED-MODE", i,
                  "Set a password (requirepass), or bind the server to a private address (bind).",
                  "It is in protected mode, and refuses clients of other machines.");
            break;
        }
        ERROR("PASSWORD", i, "Correct the password in the node's URL: redis://USER:PASSWORD@HOST.",
              "It refuses this login, so it never votes%s.", detail);
        break;
    case REDLOCK_VERDICT_MASTERDOWN:
        ERROR("IS-REPLICA", i, replica_cure, "It is a replica, and has lost its master.");
        break;
    case REDLOCK_VERDICT_MAXCLIENTS:
        ERROR("MAX-CLIENTS", i,
              "Raise maxclients (CONFIG SET maxclients, and ulimit -n), or close idle clients.",
              "It has too many clients and accepts no more.");
        break;
    case REDLOCK_VERDICT_LOADING:
        WARNING("LOADING", i, "Wait; if it lasts, read the server's log.",
                "It is still loading its data from disk, and cannot vote until that is done.");
        break;
    case REDLOCK_VERDICT_BUSY:
        WARNING("BUSY", i, "Find the script (see its log); SCRIPT KILL ends it.",
                "It is busy with a script and answers no client.");
        break;
    default:
        WARNING("UNREACHABLE", i, "Start it, or correct its URL or the network.",
                "It does not answer, so fewer of the others may fail (%s).",
                reason_text(node->info.verdict, text, reason, sizeof reason));
        break;
    }
}

/* ---- a node that does ---- */

static void judge_role(const struct checkup *checkup, size_t i, struct findings *findings) {
    const struct redlock_server *info = &checkup->nodes[i].info;
    const char *replicas = info->replicas == 1 ? "" : "s";
    if (info->role == REDLOCK_ROLE_REPLICA) {
        ERROR("IS-REPLICA", i, replica_cure,
              "It is a replica: it accepts no locks itself, and it loses what its master loses.");
    }
    if (info->replicas <= 0) return;
    if (checkup->guarded && checkup->allow_replicas) {
        NOTE("REPLICAS", i,
             "Detach them, or make sure that none is promoted while this server lives.",
             "It has %d replica%s, which is allowed here: a promoted replica lacks the last locks.",
             info->replicas, replicas);
        return;
    }
    const char *cure =
        "Detach its replicas (REPLICAOF NO ONE on each), and let no Sentinel watch it.";
    if (checkup->guarded)
        cure =
            "Detach its replicas (REPLICAOF NO ONE on each), and let no Sentinel watch it; or --allow-replicas.";
    ERROR(
        "REPLICAS", i, cure,
        "It has %d replica%s: replication is asynchronous, so a promoted replica (FAILOVER) lacks the last locks, and grants them again%s.",
        info->replicas, replicas, checkup->guarded ? ". So this server does not vote" : "");
}

static void judge_eviction(const struct redlock_server *info, size_t i, struct findings *findings) {
    const char *cure =
        "CONFIG SET maxmemory-policy noeviction, and the same in its configuration file.";
    bool evicts = info->eviction[0] != '\0' && strcmp(info->eviction, "noeviction") != 0;
    if (evicts && info->memory_bytes_max != 0) {
        ERROR("EVICTION", i, cure,
              "maxmemory-policy is %s: when memory is short it deletes locks that are held.",
              info->eviction);
    } else if (evicts) {
        ERROR(
            "EVICTION", i, cure,
            "maxmemory-policy is %s: as soon as maxmemory is set, it deletes locks that are held.",
            info->eviction);
    }
}

static void judge_memory(const struct redlock_server *info, size_t i, struct findings *findings) {
    if (info->memory_bytes_max <= 0 || info->memory_bytes < 0) return;
    double used = (double)info->memory_bytes / (double)info->memory_bytes_max;
    if (used >= 1) {
        ERROR("MEMORY", i, "Raise maxmemory, or move other data elsewhere.",
              "Its memory is used up (maxmemory): it refuses every new lock.");
    } else if (used > 0.8) {
        WARNING(
            "MEMORY", i, "Raise maxmemory, or move other data elsewhere.",
            "More than 80%% of maxmemory is in use: once it is full, the server refuses locks.");
    }
}

/* What is on disk of a native node's locks are the keys of the mirror. */
static void judge_persistence(const struct examined *node, size_t i, struct findings *findings) {
    const struct redlock_server *info = &node->info;
    const char *wait =
        "After each restart keep it down for the longest TTL in use; or appendonly yes with appendfsync always.";
    if (info->native == 1 && info->mirror == 0) {
        WARNING(
            "RESTART-FORGETS", i,
            "Use guarded mode (redlock quorum init); or after each restart keep it down for the longest TTL in use.",
            "Its locks are in memory alone (mirror no): after a restart it has none, and votes for locks that others hold.");
        return;
    }
    switch (remains_after_restart(info)) {
    case REMAINS_NOTHING:
        WARNING(
            "RESTART-FORGETS", i, wait,
            "Nothing is written to disk: after a restart it is empty, and votes for locks that others hold.");
        break;
    case REMAINS_SNAPSHOT:
        WARNING(
            "RESTART-FORGETS", i, wait,
            "Snapshots only (save): a restart restores the last snapshot, and it votes for locks taken since.");
        break;
    case REMAINS_MOST:
        WARNING(
            "RESTART-FORGETS", i, wait,
            "appendfsync is no: after a power cut the locks of about the last half minute are missing.");
        break;
    case REMAINS_LAST_SECOND:
        NOTE(
            "RESTART-LAST-SECOND", i, wait,
            "appendfsync is everysec: after a power cut the locks of the last second are missing, and it votes for "
            "them.");
        break;
    case REMAINS_UNKNOWN:
    case REMAINS_ALL: break;
    }
}

static void judge_disk(const struct redlock_server *info, size_t i, struct findings *findings) {
    if (info->writes_refused == 1) {
        ERROR("MISCONF", i,
              "Read its log; make room on its disk, or correct the permissions of its directory.",
              "Its last write to disk failed, so it refuses locks until one succeeds.");
    }
    if (info->replicas_lacking == 1) {
        ERROR("NO-REPLICAS", i, "Connect its replicas, or set min-replicas-to-write to 0.",
              "min-replicas-to-write is set, and no replica is near enough, so it refuses locks.");
    }
    if (info->loading == 1) {
        WARNING("LOADING", i, "Wait; if it lasts, read the server's log.",
                "It is still loading its data from disk, and cannot vote until that is done.");
    }
}

static void judge_door(const struct checkup *checkup, size_t i, struct findings *findings) {
    const struct examined *node = &checkup->nodes[i];
    if (!open_to_the_world(node)) return;
    WARNING(
        "NO-PASSWORD", i,
        "Set a password (requirepass, or an ACL user as in " REDLOCK_DOC
        "/acl.md), or bind it to a private address; and "
        "protected-mode "
        "yes.",
        "It listens on %s, requires no password%s and has no protected mode: any client that reaches it can delete every lock.",
        node->info.bind[0] != '\0' ? node->info.bind : "every address",
        checkup->tls_certificate ? " (a client certificate, perhaps)" : "");
}

static void judge_load(const struct checkup *checkup, size_t i, struct findings *findings) {
    const struct examined *node = &checkup->nodes[i];
    const int64_t timeout = checkup->node_timeout_ms * MS, median = node->ping_median_ns;
    const char *cure =
        "Move it nearer, or raise --node-timeout (and the TTL with it); SLOWLOG and LATENCY show the server's share.";
    if (median > timeout) {
        ERROR("SLOW", i, cure,
              "Its answers take longer than the node timeout of %" PRId64
              " ms: its votes come too late.",
              checkup->node_timeout_ms);
    } else if (median > timeout / 2) {
        WARNING("SLOW", i, cure,
                "Its answers take more than half the node timeout of %" PRId64
                " ms: under load its votes come too late.",
                checkup->node_timeout_ms);
    }
    const struct redlock_server *info = &node->info;
    if (info->clients < 0 || info->clients_max <= 0 || info->clients * 5 <= info->clients_max * 4)
        return;
    WARNING("MAX-CLIENTS", i,
            "Raise maxclients (CONFIG SET maxclients, and ulimit -n), or close idle clients.",
            "More than 80%% of its %" PRId64
            " connections are taken: once all are, it refuses new clients.",
            info->clients_max);
}

/* ---- clocks ---- */

static void judge_rate(const struct examined *node, size_t i, struct findings *findings) {
    const char *service =
        "Run a time service that slews (chrony, or ntpd without steps) on the server's machine.";
    int64_t change = llabs(node->change_ns) - node->change_error_ns;
    char seconds[2][32];
    if (!node->change_known || node->change_over_ns <= 0) return;
    int64_t ppm = (int64_t)((double)change * 1e6 / (double)node->change_over_ns);
    snprintf(seconds[0], sizeof seconds[0], "%+.3f s", (double)node->change_ns / 1e9);
    snprintf(seconds[1], sizeof seconds[1], "%.1f s", (double)node->change_over_ns / 1e9);
    if (ppm > DRIFT_ALLOWED_PPM) {
        ERROR(
            "CLOCK-DRIFT", i, service,
            "Its clock changed by %s in %s against ours, more than the 1 %% that locks allow for: they end too %s.",
            seconds[0], seconds[1], node->change_ns > 0 ? "early there" : "late there");
    } else if (ppm > DRIFT_SLEWED_PPM) {
        WARNING("CLOCK-DRIFT", i, service,
                "Its clock changed by %s in %s against ours, more than a time service's slewing.",
                seconds[0], seconds[1]);
    }
}

/* A clock that stands still or jumps has no rate. */
static void judge_clock(const struct examined *node, size_t i, struct findings *findings) {
    if (node->frozen_over_ns > 0) {
        ERROR(
            "CLOCK-FROZEN", i,
            "Restart the server. If its clock stands still again, see CLOCK-FROZEN in " REDLOCK_DOC
            "/runbook.md.",
            "Its clock has not moved in %.1f s: the locks that it holds never end there by themselves.",
            (double)node->frozen_over_ns / 1e9);
    } else if (node->jump_ns != 0) {
        ERROR(
            "CLOCK-JUMPS", i,
            "Let the time service slew; if nothing sets the clock, see CLOCK-JUMPS in " REDLOCK_DOC
            "/runbook.md.",
            "Its clock jumped by %+.3f s while doctor watched: a jump forward ends the locks that it holds, and one back prolongs them.",
            (double)node->jump_ns / 1e9);
    } else {
        judge_rate(node, i, findings);
    }
    if (!node->offset_known || llabs(node->offset_ns) - node->offset_error_ns <= OFFSET_MAX) return;
    char seconds[32];
    snprintf(seconds, sizeof seconds, "%+.1f s", (double)node->offset_ns / 1e9);
    WARNING(
        "CLOCK-OFFSET", i,
        "Run a time service that slews (chrony, or ntpd without steps) there; where all nodes differ alike, here.",
        "Its clock is %s off this machine's; this does not affect locks until a step corrects the clock, which ends or prolongs every lock it holds.",
        seconds);
}

/* ---- native nodes ---- */

static bool is_native(const struct examined *node) { return node->info.native == 1; }

/* What may free a lock before its end on a stock server: eviction, and its wall clock. */
static void judge_ends(const struct examined *node, size_t i, struct findings *findings) {
    judge_eviction(&node->info, i, findings);
    judge_clock(node, i, findings);
}

/* A native node keeps its locks outside the keyspace, and ends them by another clock: the same
 * findings are information there. */
static void note_ends(const struct examined *node, size_t i, struct findings *findings) {
    struct findings stock = {0};
    judge_ends(node, i, &stock);
    for (size_t k = 0; k < stock.count; k++)
        NOTE(stock.list[k].name, i,
             "Nothing needs to be done for the locks; the server's other data may need it.",
             "It does not reach the locks of a native node. A stock server: %s", stock.list[k].why);
}

static void judge_mirror(const struct examined *node, size_t i, struct findings *findings) {
    if (!is_native(node) || node->info.mirror != 0) return;
    NOTE("NO-MIRROR", i,
         "Load the module with mirror yes, if other programs lock by SET NX on these servers.",
         "Its locks are in the module alone (mirror no): a program that does not know the module "
         "takes the same lock, and redlock does not see that program's.");
}

/* ---- permissions ---- */

static bool has_word(const char *words, const char *word) {
    const size_t length = strlen(word);
    for (const char *at = words; (at = strstr(at, word)) != NULL; at += length)
        if ((at == words || at[-1] == ' ') && (at[length] == ' ' || at[length] == '\0'))
            return true;
    return false;
}

/* A user that may neither take nor end a lock is doctor's own: nothing is wrong with it. */
static bool only_examines(const char *denied) {
    return (has_word(denied, "set") && has_word(denied, "del") && has_word(denied, "pexpire")) ||
           (has_word(denied, "redlock.lock") && has_word(denied, "redlock.unlock") &&
            has_word(denied, "redlock.extend"));
}

/* "zrange hset" as "+zrange +hset". With transactions a key is read by GETRANGE. */
static void judge_denied(const struct examined *node, size_t i, struct findings *findings) {
    char commands[256] = "", denied[sizeof node->info.denied], *rest = NULL;
    size_t used = 0;
    snprintf(denied, sizeof denied, "%s", node->info.denied);
    for (char *one = strtok_r(denied, " ", &rest); one != NULL && used < sizeof commands;
         one = strtok_r(NULL, " ", &rest)) {
        if (node->status.uses_transactions && strcmp(one, "get") == 0) continue;
        used += (size_t)snprintf(commands + used, sizeof commands - used, "%s+%s",
                                 used > 0 ? " " : "", one);
    }
    if (commands[0] == '\0') return;
    if (only_examines(node->info.denied)) {
        NOTE("UNKNOWN", i, "Run doctor as the user that takes the locks, too.",
             "This user may not take locks, so it was not examined whether another one may.");
        return;
    }
    ERROR("UNFIT", i, "Allow this user the commands named: " REDLOCK_DOC "/acl.md lists them all.",
          "It does not permit what a lock needs, so locks are refused or lost, or it does not "
          "recover: no permission (ACL) for %s.",
          commands);
}

static void judge_permissions(const struct examined *node, size_t i, struct findings *findings) {
    judge_denied(node, i, findings);
    if (node->status.uses_transactions) {
        NOTE("SCRIPTS-REFUSED", i, "Allow eval and evalsha, as in " REDLOCK_DOC "/acl.md.",
             "It refuses scripts: releases and renewals use transactions, with more round trips.");
    }
    if (node->info.refused == 0) return;
    char what[48] = "";
    static const char *const names[] = {"TIME", "INFO", "CONFIG GET"};
    for (size_t bit = 0; bit < 3; bit++) {
        if ((node->info.refused & (1 << bit)) == 0) continue;
        snprintf(what + strlen(what), sizeof what - strlen(what), "%s%s",
                 what[0] != '\0' ? ", " : "", names[bit]);
    }
    NOTE(
        "UNKNOWN", i,
        "Allow this user +time +info +config|get, or run doctor as a user that has them.",
        "It refuses %s: what the table shows as ? could not be examined, and may hide any of the other findings.",
        what);
}

/* ---- guarded mode: does it vote? ---- */

/* While a record may be on a node that cannot be asked, an init could give up a quorum that is only
 * out of reach. */
static const char outage_cure[] =
    "First bring up or correct the nodes that the other findings name.";

static size_t count_served(const struct checkup *checkup) {
    size_t served = 0;
    for (size_t i = 0; i < checkup->count; i++) served += is_served(&checkup->nodes[i]);
    return served;
}

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

/* A node that does not answer may be a member under another URL. */
static const char *unlisted_member(const struct checkup *checkup) {
    const struct membership *membership = &checkup->membership;
    const char *url = NULL;
    size_t lacking = 0, unplaced = 0;
    for (size_t i = 0; i < checkup->count; i++) {
        unplaced += is_half_added(checkup, i);
        unplaced += !is_served(&checkup->nodes[i]) && checkup->nodes[i].status.node_id[0] == '\0';
    }
    for (size_t i = 0; i < membership->quorum.members; i++) {
        if (membership->members[i].node >= 0) continue;
        lacking++;
        url = membership->members[i].url;
    }
    return lacking > unplaced ? url : NULL;
}

/* A server that lost its record is known by its URL alone: it may be the member that seems to be
 * unlisted. */
static bool may_be_renamed(const struct checkup *checkup) {
    return checkup->membership.state <= MEMBERSHIP_DEGRADED && unlisted_member(checkup) != NULL;
}

/* The first two nodes with records of different quorums; NULL where there is none. */
static void find_quorums(const struct checkup *checkup, const struct examined **first,
                         const struct examined **second) {
    *first = *second = NULL;
    for (size_t i = 0; i < checkup->count; i++) {
        const struct examined *node = &checkup->nodes[i];
        if (!is_served(node) || node->info.quorum[0] == '\0') continue;
        if (*first == NULL) *first = node;
        if (*second == NULL && strcmp(node->info.quorum, (*first)->info.quorum) != 0)
            *second = node;
    }
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

static void judge_eligibility(const struct checkup *checkup, size_t i, struct findings *findings) {
    const struct examined *node = &checkup->nodes[i];
    switch (node->status.verdict) {
    case REDLOCK_VERDICT_UNACCEPTED: break; /* no fault of the node: NO-QUORUM reports it */
    case REDLOCK_VERDICT_GRANTED: break;
    case REDLOCK_VERDICT_RECOVERING:
        WARNING(
            "RECOVERING", i,
            "Wait: clients bring it back; redlock quorum status --wait returns when all members are intact.",
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

/* What a vote depends on, in addition to the record. */
static void judge_watch(const struct examined *node, size_t i, struct findings *findings) {
    const char *wait =
        "Wait: clients bring it back; redlock quorum status --wait returns when all members are intact.";
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

static void judge_scheme(const struct examined *node, size_t i, struct findings *findings) {
    if (node->status.scheme == REDLOCK_SCHEME_SET) return;
    NOTE(
        "OLD-PATTERN", i,
        "Move all clients of these locks to SET NX PX and remove scheme from the URL; until then, see " REDLOCK_DOC
        "/older-ways.md.",
        "It keeps locks in the old way, by SETNX and a timestamp in %s: clocks that differ by more than a second, or a program that deletes an expired lock, give a lock to two clients.",
        node->status.scheme == REDLOCK_SCHEME_SETNX_MS ? "milliseconds" : "seconds");
}

void judge_node(const struct checkup *checkup, size_t i, struct findings *findings) {
    const struct examined *node = &checkup->nodes[i];
    if (!is_served(node)) {
        judge_absent(node, i, findings);
        return;
    }
    if (checkup->guarded) judge_eligibility(checkup, i, findings);
    if (checkup->guarded) judge_watch(node, i, findings);
    judge_role(checkup, i, findings);
    judge_memory(&node->info, i, findings);
    if (!checkup->guarded) judge_persistence(node, i, findings);
    judge_disk(&node->info, i, findings);
    judge_door(checkup, i, findings);
    judge_load(checkup, i, findings);
    if (is_native(node))
        note_ends(node, i, findings);
    else
        judge_ends(node, i, findings);
    judge_mirror(node, i, findings);
    judge_age(node->info.redis_version, checkup->guarded, i, findings);
    judge_permissions(node, i, findings);
    judge_scheme(node, i, findings);
}

/* ---- the set as a whole ---- */

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

static bool none_answers(const struct checkup *checkup) {
    for (size_t i = 0; i < checkup->count; i++)
        if (!node_is_silent(checkup->nodes[i].info.verdict)) return false;
    return true;
}

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

/* The records decide which of the nodes is a member; a majority of answering nodes is not enough
 * there. */
static void judge_membership(const struct checkup *checkup, struct findings *findings) {
    const struct membership *membership = &checkup->membership;
    const struct redlock_quorum_status *quorum = &membership->quorum;
    const char *unlisted = unlisted_member(checkup);
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
                "The member %.200s is not in the list of nodes, so its vote is missing.", unlisted);
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
