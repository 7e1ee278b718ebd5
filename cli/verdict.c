/* SPDX-License-Identifier: BSD-2-Clause */
#include "verdict.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "duration.h"
#include "membership.h"
#include "message.h"

static bool same_token(const struct redlock_view *a, const struct redlock_view *b) {
    return a->verdict == REDLOCK_VERDICT_GRANTED && b->verdict == REDLOCK_VERDICT_GRANTED &&
           a->token_bytes == b->token_bytes && a->token_truncated == b->token_truncated &&
           memcmp(a->token, b->token, a->token_bytes) == 0;
}

static int longest_first(const void *a, const void *b) {
    /* No TTL, -1, is the longest of all: as unsigned it compares so. */
    uint64_t x = (uint64_t) * (const int64_t *)a, y = (uint64_t) * (const int64_t *)b;
    return x < y ? 1 : x > y ? -1 : 0;
}

static size_t votes_for(const struct redlock_view *views, size_t count, size_t candidate,
                        int64_t *remaining) {
    size_t votes = 0;
    for (size_t i = 0; i < count; i++) {
        if (same_token(&views[i], &views[candidate])) remaining[votes++] = views[i].remaining_ms;
    }
    return votes;
}

struct majority majority_of(const struct redlock_view *views, size_t count) {
    struct majority majority = {.verdict = MAJORITY_UNKNOWN, .remaining_ms = -1};
    const size_t quorum = quorum_of(count);
    size_t absent = 0, foreign = 0;
    for (size_t i = 0; i < count; i++) {
        int verdict = views[i].verdict;
        absent += verdict == REDLOCK_VERDICT_ABSENT;
        foreign += verdict == REDLOCK_VERDICT_WRONGTYPE;
        majority.answered += verdict == REDLOCK_VERDICT_ABSENT ||
                             verdict == REDLOCK_VERDICT_GRANTED ||
                             verdict == REDLOCK_VERDICT_WRONGTYPE;
    }
    for (size_t i = 0; i < count; i++) {
        int64_t remaining[REDLOCK_NODES_MAX];
        size_t votes =
            views[i].verdict == REDLOCK_VERDICT_GRANTED ? votes_for(views, count, i, remaining) : 0;
        if (votes < quorum) continue;
        qsort(remaining, votes, sizeof remaining[0], longest_first);
        majority.verdict = MAJORITY_HELD;
        majority.holder = i;
        majority.votes = votes;
        majority.remaining_ms = remaining[quorum - 1];
        return majority;
    }
    if (majority.answered >= quorum) majority.verdict = MAJORITY_SPLIT;
    if (absent >= quorum) majority.verdict = MAJORITY_FREE;
    if (foreign >= quorum) majority.verdict = MAJORITY_FOREIGN;
    return majority;
}

static bool is_ours(const struct redlock_view *view) {
    if (view->token_bytes < REDLOCK_TOKEN_HEX_BYTES) return false;
    for (size_t i = 0; i < REDLOCK_TOKEN_HEX_BYTES; i++) {
        if (!isxdigit(view->token[i])) return false;
    }
    return view->token_bytes == REDLOCK_TOKEN_HEX_BYTES ||
           view->token[REDLOCK_TOKEN_HEX_BYTES] == ':';
}

char *owner_text(const struct redlock_view *view, char *out, size_t size) {
    const size_t head = REDLOCK_TOKEN_HEX_BYTES + 1;
    if (!is_ours(view) || view->token_bytes <= head) return printable(out, size, "", 0);
    return printable(out, size, view->token + head, view->token_bytes - head);
}

/* Readable keys do not prove that nodes vote: in guarded mode their records do. */
static bool report_no_quorum(struct session *session, struct redlock_lock *lock,
                             const char *resource) {
    struct membership membership;
    if (session_mode(session) != REDLOCK_MODE_GUARDED || membership_peek(session, &membership) != 0)
        return false;
    if (membership.state <= MEMBERSHIP_DEGRADED ||
        redlock_lock_state(lock) != REDLOCK_STATE_ACQUIRING)
        return false;
    session_failure(session, NULL, resource, REDLOCK_NO_QUORUM);
    complain("waiting for a majority that votes; --wait sets a limit");
    return true;
}

bool report_waiting(struct session *session, struct redlock_lock *lock, const char *resource) {
    if (report_no_quorum(session, lock, resource)) return true;
    struct redlock_view views[REDLOCK_NODES_MAX];
    int result =
        redlock_peek(session->client, resource, strlen(resource), views, REDLOCK_NODES_MAX);
    struct majority majority = majority_of(views, redlock_client_nodes(session->client));
    /* The peek took time, and the lock may have been acquired meanwhile. */
    if (redlock_lock_state(lock) != REDLOCK_STATE_ACQUIRING) return false;
    if (result == REDLOCK_NO_QUORUM) {
        session_unseen(session, views, resource, result);
        complain("waiting for a majority to answer; --wait sets a limit");
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
             owner[0] != '\0' ? owner : "another",
             majority.remaining_ms < 0 ? "ever"
                                       : duration_text(left, sizeof left, majority.remaining_ms));
    return true;
}
