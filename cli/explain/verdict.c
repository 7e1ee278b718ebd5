/* SPDX-License-Identifier: BSD-2-Clause */
#include "verdict.h"

#include <string.h>

#include "failure.h"
#include "frame/duration.h"
#include "majority.h"
#include "membership.h"
#include "process/message.h"
#include "votes.h"

static bool still_waits(struct redlock_lock *lock) {
    return lock == NULL || redlock_lock_state(lock) == REDLOCK_STATE_ACQUIRING;
}

/* Readable keys do not prove that nodes vote: in guarded mode their records do. */
static bool report_no_quorum(struct session *session, struct redlock_lock *lock,
                             const char *resource, const char *limit) {
    struct membership membership;
    if (session_mode(session) != REDLOCK_MODE_GUARDED || membership_peek(session, &membership) != 0)
        return false;
    const bool votes = membership.state <= MEMBERSHIP_DEGRADED && membership.unaccepted[0] == '\0';
    if (votes || !still_waits(lock)) return false;
    session_failure(session, NULL, resource, REDLOCK_NO_QUORUM);
    complain("waiting for a majority that votes%s", limit);
    return true;
}

/* Such nodes show who holds the lock, and give it to nobody. */
static bool report_refused(struct session *session, struct redlock_lock *lock, const char *resource,
                           const char *limit) {
    if (lock == NULL || !still_waits(lock) || !session_writes_refused(session, lock)) return false;
    session_failure(session, lock, resource, REDLOCK_NO_QUORUM);
    complain("waiting for a majority that takes writes%s", limit);
    return true;
}

bool report_waiting(struct session *session, struct redlock_lock *lock, const char *resource,
                    const char *limit) {
    if (report_no_quorum(session, lock, resource, limit)) return true;
    if (report_refused(session, lock, resource, limit)) return true;
    struct redlock_view views[REDLOCK_NODES_MAX];
    int result =
        redlock_peek(session->client, resource, strlen(resource), views, REDLOCK_NODES_MAX);
    struct majority majority = majority_of(views, redlock_client_nodes(session->client));
    /* The peek took time, and the lock may have been acquired meanwhile. */
    if (!still_waits(lock)) return false;
    if (result == REDLOCK_NO_QUORUM) {
        session_unseen(session, views, resource, result);
        int verdicts[REDLOCK_NODES_MAX];
        for (size_t i = 0; i < redlock_client_nodes(session->client); i++)
            verdicts[i] = views[i].verdict;
        if (session_reads_refused(session, verdicts))
            complain("waiting for the lock all the same; its holder cannot be shown");
        else
            complain("waiting for a majority to answer%s", limit);
        return true;
    }
    if (result == REDLOCK_OK && majority.verdict == MAJORITY_FOREIGN) {
        char what[120];
        complain("waiting for '%.100s': %s. Delete the key, or choose another name", resource,
                 session_foreign(session, resource, strlen(resource), what, sizeof what));
        return true;
    }
    if (result == REDLOCK_OK && majority.verdict == MAJORITY_HELD && majority.remaining_ms < 0) {
        complain("waiting for '%.100s': its key has no TTL, so it never ends. Delete the key, or "
                 "choose another name",
                 resource);
        return true;
    }
    if (!session->settings->verbose) return false;
    if (result != REDLOCK_OK || majority.verdict != MAJORITY_HELD) {
        complain("waiting for '%.100s'", resource);
        return true;
    }
    char owner[256], left[64];
    owner_text(&views[majority.holder], owner, sizeof owner);
    complain("waiting for '%.100s': held by %s, for %s more unless renewed", resource,
             owner[0] != '\0'                     ? owner
             : is_shared(&views[majority.holder]) ? "readers"
                                                  : "another",
             duration_text(left, sizeof left, majority.remaining_ms));
    return true;
}
