/* SPDX-License-Identifier: BSD-2-Clause */
#include "verdict.h"

#include <stdlib.h>
#include <string.h>

#include "session.h"

static bool same_token(const struct redlock_view *a, const struct redlock_view *b) {
    return a->verdict == REDLOCK_VERDICT_GRANTED && b->verdict == REDLOCK_VERDICT_GRANTED && a->token_bytes == b->token_bytes &&
           a->token_truncated == b->token_truncated && memcmp(a->token, b->token, a->token_bytes) == 0;
}

static int longest_first(const void *a, const void *b) {
    /* No TTL, -1, is the longest of all: as unsigned it compares so. */
    uint64_t x = (uint64_t) * (const int64_t *)a, y = (uint64_t) * (const int64_t *)b;
    return x < y ? 1 : x > y ? -1 : 0;
}

static size_t votes_for(const struct redlock_view *views, size_t count, size_t candidate, int64_t *remaining) {
    size_t votes = 0;
    for (size_t i = 0; i < count; i++) {
        if (same_token(&views[i], &views[candidate])) remaining[votes++] = views[i].remaining_ms;
    }
    return votes;
}

struct majority majority_of(const struct redlock_view *views, size_t count) {
    struct majority majority = {.standing = STANDING_UNKNOWN, .remaining_ms = -1};
    const size_t quorum = quorum_of(count);
    size_t absent = 0;
    for (size_t i = 0; i < count; i++) {
        int verdict = views[i].verdict;
        absent += verdict == REDLOCK_VERDICT_ABSENT;
        majority.answered += verdict == REDLOCK_VERDICT_ABSENT || verdict == REDLOCK_VERDICT_GRANTED ||
                             verdict == REDLOCK_VERDICT_WRONGTYPE;
    }
    for (size_t i = 0; i < count; i++) {
        int64_t remaining[REDLOCK_NODES_MAX];
        size_t votes = views[i].verdict == REDLOCK_VERDICT_GRANTED ? votes_for(views, count, i, remaining) : 0;
        if (votes < quorum) continue;
        qsort(remaining, votes, sizeof remaining[0], longest_first);
        majority.standing = STANDING_HELD;
        majority.holder = i;
        majority.votes = votes;
        majority.remaining_ms = remaining[quorum - 1];
        return majority;
    }
    if (majority.answered >= quorum) majority.standing = absent >= quorum ? STANDING_FREE : STANDING_SPLIT;
    return majority;
}
