/* SPDX-License-Identifier: BSD-2-Clause
 *
 * All rules, and those of a server that answers: its settings, its clock, its load.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "finding_rules.h"
#include "process/boottime.h"

/* Half of a drift allowance of 1 % would be too late to warn. ntpd slews by at most 500 ppm, chrony
 * by 83333 unless its maxslewrate says less. */
#define DRIFT_ALLOWED_PPM 10000
#define DRIFT_SLEWED_PPM 500
#define OFFSET_MAX (1000 * MS)

/* ---- settings and load ---- */

static void judge_role(const struct checkup *checkup, size_t i, struct findings *findings) {
    const struct redlock_server *info = &checkup->nodes[i].info;
    const char *replicas = info->replicas == 1 ? "" : "s";
    if (info->role == REDLOCK_ROLE_REPLICA) {
        ERROR("IS-REPLICA", i, REPLICA_CURE,
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
        if (strcmp(info->append_fsync, "no") == 0)
            WARNING(
                "RESTART-FORGETS", i, wait,
                "appendfsync is no: after a power cut the locks of about the last half minute are missing.");
        else
            WARNING(
                "RESTART-FORGETS", i,
                "CONFIG SET no-appendfsync-on-rewrite no, and the same in its configuration file.",
                "no-appendfsync-on-rewrite is yes: nothing is flushed while the server writes a snapshot or a new append-only file, and after a power cut those locks are missing.");
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
        "Run chronyc tracking on the server's machine (here, if all servers differ alike). Once its "
        "System time is below a second, set maxslewrate 500 in chrony.conf (its default is 83333, "
        "which is 8.3 %) and restart chronyd. ntpd slews slowly enough, without steps.";
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
        WARNING(
            "CLOCK-DRIFT", i, service,
            "Its clock changed by %s in %s against ours, faster than ntpd slews, as chrony does by default.",
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

static void judge_scheme(const struct examined *node, size_t i, struct findings *findings) {
    if (node->status.scheme == REDLOCK_SCHEME_SET) return;
    NOTE(
        "OLD-PATTERN", i,
        "Move all clients of these locks to SET NX PX and remove scheme from the URL; until then, see " REDLOCK_DOC
        "/older-ways.md.",
        "It keeps locks in the old way, by SETNX and a timestamp in %s: clocks that differ by more than a second, or a program that deletes an expired lock, give a lock to two clients.",
        node->status.scheme == REDLOCK_SCHEME_SETNX_MS ? "milliseconds" : "seconds");
}

static void judge_node(const struct checkup *checkup, size_t i, struct findings *findings) {
    const struct examined *node = &checkup->nodes[i];
    if (!is_served(node)) {
        judge_absent(node, i, findings);
        return;
    }
    if (checkup->guarded) judge_eligibility(checkup, i, findings);
    if (checkup->guarded) judge_watch(checkup, i, findings);
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
    judge_identity(checkup, i, findings);
    judge_permissions(node, i, findings);
    judge_own_keys(node, i, findings);
    judge_trial(checkup, i, findings);
    judge_scheme(node, i, findings);
}

/* ---- all rules ---- */

/* Stable, so that two runs over the same servers print the same order. */
static void gravest_first(struct findings *findings) {
    for (size_t i = 1; i < findings->count; i++) {
        struct finding moved = findings->list[i];
        size_t at = i;
        for (; at > 0 && findings->list[at - 1].severity > moved.severity; at--)
            findings->list[at] = findings->list[at - 1];
        findings->list[at] = moved;
    }
}

void findings_judge(const struct checkup *checkup, struct findings *findings) {
    *findings = (struct findings){0};
    judge_set(checkup, findings);
    for (size_t i = 0; i < checkup->count; i++) judge_node(checkup, i, findings);
    judge_trial_result(checkup, findings);
    gravest_first(findings);
}
