/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What was tried: a lock of doctor's own, and further connections to each address.
 */
#include <stdio.h>
#include <string.h>

#include "explain/votes.h"
#include "finding_rules.h"

static const char *const done[TRIAL_STEPS] = {"taken",    "extended", "waited for",
                                              "released", "shared",   "taken as a slot"};

static const char other_words[] =
    "Remove its rename-command from the configuration. If it is a proxy or an emulator, list the "
    "servers themselves.";

/* What the server reports about itself explains it better. */
static bool is_reported_elsewhere(int verdict) {
    switch (verdict) {
    case REDLOCK_VERDICT_NOPERM:
    case REDLOCK_VERDICT_DENIED:
    case REDLOCK_VERDICT_ABSENT:
    case REDLOCK_VERDICT_WRONGTYPE:
    case REDLOCK_VERDICT_PROTOCOL:
    case REDLOCK_VERDICT_ERROR: return false;
    default: return true;
    }
}

static const char *lock_cure(const struct examined *node) {
    return node->status.uses_transactions && node->info.scripts == REDLOCK_SCRIPTS_DENIED
               ? "Allow this user +eval and +evalsha, or all that transactions need: " REDLOCK_DOC
                 "/acl.md."
               : "Allow this user the commands named: " REDLOCK_DOC "/acl.md lists them all.";
}

/* True: the step failed there, and a finding reports it. */
static bool judge_step(const struct examined *node, size_t i, enum trial_step step,
                       struct findings *findings) {
    const struct tried *tried = &node->tried;
    const int verdict = tried->verdict[step];
    if (tried->denied[step][0] != '\0') {
        if (has_word(node->info.denied, tried->denied[step])) return true; /* by UNFIT */
        ERROR("UNFIT", i, lock_cure(node),
              "A lock of doctor's own could not be %s there: no permission (ACL) for +%s.",
              done[step], tried->denied[step]);
        return true;
    }
    if (tried->unknown[step][0] != '\0') {
        ERROR("UNFIT", i, other_words,
              "A lock of doctor's own could not be %s there: the server does not know %s.",
              done[step], tried->unknown[step]);
        return true;
    }
    if (is_reported_elsewhere(verdict)) return false;
    if (verdict == REDLOCK_VERDICT_NOPERM) {
        NOTE("UNTRIED", i,
             "Run doctor with the prefix of the locks (--prefix), as the user that takes them.",
             "This user may not use the key of doctor's own lock, so it was not tried whether it "
             "may take, extend and release others.");
    } else if (verdict == REDLOCK_VERDICT_ABSENT || verdict == REDLOCK_VERDICT_DENIED) {
        ERROR("UNFIT", i,
              "List each server itself, and end the programs that delete or expire keys there.",
              "A lock of doctor's own could not be %s there, because its key had gone at once: the "
              "address leads to several servers, or other programs delete keys.",
              done[step]);
    } else {
        ERROR("UNFIT", i, "Read the server's log; list a Redis or Valkey server itself.",
              "A lock of doctor's own could not be %s there: %s.", done[step],
              redlock_verdict_text(verdict));
    }
    return true;
}

/* Only some programs need them. */
static void judge_feature(const struct examined *node, size_t i, enum trial_step step,
                          const char *what, struct findings *findings) {
    const struct tried *tried = &node->tried;
    const int verdict = tried->verdict[step];
    const char *cure = "Nothing, if no program uses them. Else see " REDLOCK_DOC "/acl.md.";
    if (tried->denied[step][0] != '\0')
        NOTE("FEATURES", i, cure, "%s: no permission (ACL) for +%s.", what, tried->denied[step]);
    else if (verdict == REDLOCK_VERDICT_NOPERM)
        NOTE("FEATURES", i, cure, "%s: no permission (ACL).", what);
    else if (verdict == REDLOCK_VERDICT_NOT_SHARED || verdict == REDLOCK_VERDICT_NO_SCRIPTS)
        NOTE("FEATURES", i, "Nothing, if no program uses them. Else as for SCRIPTS-REFUSED.",
             "%s: %s.", what,
             node->info.scripts == REDLOCK_SCRIPTS_NO_ENGINE ? "it has no Lua engine"
                                                             : "it refuses scripts");
}

void judge_trial(const struct checkup *checkup, size_t i, struct findings *findings) {
    const struct examined *node = &checkup->nodes[i];
    if (!checkup->tried) return;
    if (judge_step(node, i, TRIAL_TAKE, findings) || judge_step(node, i, TRIAL_EXTEND, findings) ||
        judge_step(node, i, TRIAL_RELEASE, findings))
        return;
    judge_feature(node, i, TRIAL_WAIT, "Waiters poll it, and it does not keep their order",
                  findings);
    judge_feature(node, i, TRIAL_SHARE, "It refuses shared locks", findings);
    judge_feature(node, i, TRIAL_SLOT, "It refuses locks with slots", findings);
}

/* Whatever it was: what cannot be tried is not fit. */
void judge_trial_result(const struct checkup *checkup, struct findings *findings) {
    if (!checkup->tried || checkup->trial_result == REDLOCK_OK || findings->errors > 0) return;
    for (size_t k = 0; k < findings->count; k++)
        if (strcmp(findings->list[k].name, "UNTRIED") == 0) return;
    ERROR("UNFIT", EVERY_NODE, "See the other findings; run doctor again, with -v.",
          "A lock of doctor's own was not taken, extended and released by a majority: %s.",
          redlock_result_text(checkup->trial_result));
}

void judge_identity(const struct checkup *checkup, size_t i, struct findings *findings) {
    const struct examined *node = &checkup->nodes[i];
    if (node->other_run_id[0] != '\0') {
        ERROR("SEVERAL-SERVERS", i,
              "List each server by an address of its own, without a load balancer or a name with "
              "several addresses.",
              "The address leads to several servers at a time (run_id %.8s... and %.8s...): each "
              "client may lock on another one, and two hold a lock.",
              node->info.run_id, node->other_run_id);
    } else if (node->info.run_id[0] == '\0') {
        const bool denied =
            (node->info.refused & ~node->info.unknown & REDLOCK_SERVER_INFO_NO_INFO) != 0;
        ERROR("NO-IDENTITY", i,
              denied ? "Allow this user +info."
                     : "List the Redis or Valkey server itself; remove a rename-command of INFO "
                       "from its configuration.",
              "It does not say which server it is (INFO shows no run_id): one server may be listed "
              "twice, or the address lead to several, and two clients hold a lock.");
    }
}
