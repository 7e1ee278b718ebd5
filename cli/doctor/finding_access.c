/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A node that does not answer, one that is too old, and what a node does not permit this user.
 */
#include <stdio.h>
#include <string.h>

#include "finding_rules.h"

/* ---- a node that does not answer our commands ---- */

static const char server_cure[] =
    "List the Redis or Valkey server itself; for a TLS port, write rediss:// in the URL.";

/* The words of a connection that ends in the middle of the handshake. */
static bool hangs_up(const struct examined *node) {
    return node->info.verdict == REDLOCK_VERDICT_DISCONNECTED &&
           (strstr(node->status.text, " before its answer to ") != NULL ||
            strstr(node->status.text, " before its first answer, to ") != NULL);
}

/* Nothing answers there, or no server that we know. */
static void judge_silent(const struct examined *node, size_t i, struct findings *findings) {
    const int verdict = node->info.verdict;
    const char *reason = node->why.text;
    if (verdict == REDLOCK_VERDICT_PROTOCOL || verdict == REDLOCK_VERDICT_ERROR)
        ERROR("NOT-A-SERVER", i, server_cure,
              "It answers, but not as a Redis or Valkey server does (%s): a proxy, an emulator or "
              "another program.",
              reason);
    else if (hangs_up(node))
        WARNING("NOT-A-SERVER", i, server_cure,
                "It accepts connections and closes them without an answer (%s): a proxy that does "
                "not pass the command on, another program, or a server that fails.",
                reason);
    else
        WARNING("UNREACHABLE", i, "Start it, or correct its URL or the network.",
                "It does not answer, so fewer of the others may fail (%s).", reason);
}

/* Too old for guarded mode, which needs Redis 6.2. */
static bool is_old(const char *version) {
    int major = 0, minor = 0;
    return sscanf(version, "%d.%d", &major, &minor) == 2 &&
           (major < 6 || (major == 6 && minor < 2));
}

void judge_age(const char *version, bool guarded, size_t i, struct findings *findings) {
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

void judge_absent(const struct examined *node, size_t i, struct findings *findings) {
    const char *text = node->status.text;
    char detail[200] = "";
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
            "CLUSTER", i, node->cure,
            "It runs in cluster mode: keys move between its servers, and its replicas take over without the locks.");
        break;
    case REDLOCK_VERDICT_TWICE_LISTED:
        ERROR("TWICE-LISTED", i, node->cure,
              "It is the same server as another node, so its vote would count twice%s.", detail);
        break;
    case REDLOCK_VERDICT_AUTH:
        if (is_protected) {
            ERROR("PROTECTED-MODE", i,
                  "Set a password (requirepass), or bind the server to a private address (bind).",
                  "It is in protected mode, and refuses clients of other machines.");
            break;
        }
        ERROR("PASSWORD", i, node->cure, "It refuses this login, so it never votes%s.", detail);
        break;
    case REDLOCK_VERDICT_MASTERDOWN:
        ERROR("IS-REPLICA", i, REPLICA_CURE, "It is a replica, and has lost its master.");
        break;
    case REDLOCK_VERDICT_MAXCLIENTS:
        ERROR("MAX-CLIENTS", i, node->cure, "It has too many clients and accepts no more.");
        break;
    case REDLOCK_VERDICT_LOADING:
        WARNING("LOADING", i, node->cure,
                "It is still loading its data from disk, and cannot vote until that is done.");
        break;
    case REDLOCK_VERDICT_BUSY:
        WARNING("BUSY", i, node->cure, "It is busy with a script and answers no client.");
        break;
    default: judge_silent(node, i, findings); break;
    }
}

/* ---- permissions ---- */

static bool lacks_any(const struct examined *node, const char *const *commands) {
    if (!is_served(node) || only_examines(node->info.denied)) return false;
    for (; *commands != NULL; commands++)
        if (has_word(node->info.denied, *commands)) return true;
    return false;
}

/* A client writes the record of the node, with the fences that it has read on the others. Other
 * users may be able to: but each client must, so waiting is no cure. */
const char *denied_recovery_cure(const struct checkup *checkup, size_t i) {
    static const char *const own[] = {"get",
                                      "exists",
                                      "zadd",
                                      "hget",
                                      "hset",
                                      "hgetall",
                                      "rename",
                                      "zcard",
                                      "redlock.state",
                                      "redlock.record",
                                      "redlock.recordwrite",
                                      NULL},
                             *const others[] = {"zrange", "zcard", "redlock.fences", NULL};
    bool lacks = lacks_any(&checkup->nodes[i], own);
    for (size_t j = 0; j < checkup->count; j++)
        lacks = lacks || lacks_any(&checkup->nodes[j], others);
    return lacks ? "Allow this user the commands that UNFIT names; then clients bring it back."
                 : NULL;
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

/* "TIME, INFO": those of the bits. */
static char *refused_text(int bits, char *out, size_t size) {
    static const char *const names[] = {"TIME", "INFO", "CONFIG GET"};
    out[0] = '\0';
    for (size_t bit = 0; bit < 3; bit++) {
        if ((bits & (1 << bit)) == 0) continue;
        snprintf(out + strlen(out), size - strlen(out), "%s%s", out[0] != '\0' ? ", " : "",
                 names[bit]);
    }
    return out;
}

static void judge_unasked(const struct examined *node, size_t i, struct findings *findings) {
    const int unknown = node->info.unknown, refused = node->info.refused & ~unknown;
    char what[48];
    if (unknown != 0)
        NOTE("UNKNOWN", i,
             "No permission helps: the commands are renamed or disabled, or no Redis or Valkey "
             "server answers. Examine by hand what the table shows as ?.",
             "It does not know %s: what the table shows as ? could not be examined, and may hide "
             "any of the other findings.",
             refused_text(unknown, what, sizeof what));
    if (refused != 0)
        NOTE("UNKNOWN", i,
             "Allow this user +time +info +config|get, or run doctor as a user that has them.",
             "It refuses %s: what the table shows as ? could not be examined, and may hide any of "
             "the other findings.",
             refused_text(refused, what, sizeof what));
}

void judge_permissions(const struct examined *node, size_t i, struct findings *findings) {
    judge_denied(node, i, findings);
    if (node->status.uses_transactions) {
        static const char *const cures[] = {
            [REDLOCK_SCRIPTS_RUN] = "Allow eval and evalsha, as in " REDLOCK_DOC "/acl.md.",
            [REDLOCK_SCRIPTS_DENIED] = "Allow eval and evalsha, as in " REDLOCK_DOC "/acl.md.",
            [REDLOCK_SCRIPTS_UNKNOWN] =
                "Remove the rename-command of EVAL and EVALSHA from its configuration; no "
                "permission helps.",
            [REDLOCK_SCRIPTS_NO_ENGINE] =
                "Load the server's module for Lua, which its build or package left out; no "
                "permission helps."};
        NOTE("SCRIPTS-REFUSED", i, cures[node->info.scripts],
             "It %s: releases and renewals use transactions, with more round trips.",
             node->info.scripts == REDLOCK_SCRIPTS_UNKNOWN     ? "does not know EVAL or EVALSHA"
             : node->info.scripts == REDLOCK_SCRIPTS_NO_ENGINE ? "has no Lua engine"
                                                               : "refuses scripts");
    }
    judge_unasked(node, i, findings);
}
