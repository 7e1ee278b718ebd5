/* SPDX-License-Identifier: BSD-2-Clause */
#include "observation.h"

#include <string.h>

static bool same_view(const struct redlock_view *a, const struct redlock_view *b) {
    return a->verdict == b->verdict && a->token_truncated == b->token_truncated &&
           a->token_bytes == b->token_bytes && memcmp(a->token, b->token, a->token_bytes) == 0;
}

/* The number of nodes that hold the same value as this one. */
static size_t agreeing(const struct redlock_view *views, size_t nodes, size_t node) {
    size_t count = 0;
    for (size_t i = 0; i < nodes; i++) count += same_view(&views[i], &views[node]);
    return count;
}

/* For a value that is not one of our locks: its TTL in nanoseconds could overflow. */
#define LONGEST_MS (INT64_C(100) * 365 * 24 * 3600 * 1000)

static int64_t end_of(const struct redlock_view *view, int64_t now_ns) {
    if (view->remaining_ms < 0) return OBSERVED_NEVER_ENDS;
    return now_ns + (view->remaining_ms < LONGEST_MS ? view->remaining_ms : LONGEST_MS) * 1000000;
}

/* The time at which fewer than a quorum of the nodes that agree with `node` hold the key: the end
 * of the quorum-th longest TTL. */
static int64_t majority_end(const struct redlock_view *views, size_t nodes, size_t node,
                            int64_t now_ns) {
    const size_t quorum = nodes / 2 + 1;
    for (size_t i = 0; i < nodes; i++) {
        if (!same_view(&views[i], &views[node])) continue;
        int64_t end = end_of(&views[i], now_ns);
        size_t longer = 0, not_shorter = 0;
        for (size_t j = 0; j < nodes; j++) {
            if (!same_view(&views[j], &views[node])) continue;
            longer += end_of(&views[j], now_ns) > end;
            not_shorter += end_of(&views[j], now_ns) >= end;
        }
        if (longer < quorum && not_shorter >= quorum) return end;
    }
    return now_ns;
}

enum observation_verdict observation_judge(const struct redlock_view *views, size_t nodes,
                                           int64_t now_ns, struct observation *observation) {
    const size_t quorum = nodes / 2 + 1;
    size_t silent = 0, most = 0, which = 0;
    for (size_t i = 0; i < nodes; i++) {
        const int verdict = views[i].verdict;
        const bool holds =
            verdict == REDLOCK_VERDICT_GRANTED || verdict == REDLOCK_VERDICT_WRONGTYPE;
        if (!holds) silent += verdict != REDLOCK_VERDICT_ABSENT;
        if (!holds || agreeing(views, nodes, i) <= most) continue;
        most = agreeing(views, nodes, i);
        which = i;
    }
    if (most < quorum) {
        if (most + silent >= quorum) return OBSERVED_UNKNOWN;
        observation->state = OBSERVED_ABSENT;
        return OBSERVED_DECIDED;
    }
    if (views[which].verdict == REDLOCK_VERDICT_WRONGTYPE) return OBSERVED_FOREIGN;
    if (views[which].token_truncated) return OBSERVED_LONG;
    observation_set(observation, views[which].token, views[which].token_bytes,
                    majority_end(views, nodes, which, now_ns));
    return OBSERVED_DECIDED;
}

void observation_set(struct observation *observation, const void *token, size_t bytes,
                     int64_t ends_ns) {
    observation->state = OBSERVED_LOCK;
    observation->ends_ns = ends_ns;
    observation->token_bytes = bytes;
    memcpy(observation->token, token, bytes);
}

bool observation_same(const struct observation *a, const struct observation *b) {
    if (a->state != b->state) return false;
    return a->state != OBSERVED_LOCK ||
           (a->token_bytes == b->token_bytes && memcmp(a->token, b->token, a->token_bytes) == 0);
}

struct bytes observation_value(const void *token, size_t bytes) {
    const char *text = token;
    size_t head = REDLOCK_TOKEN_HEX_BYTES + 1;
    bool ours = bytes > head && text[REDLOCK_TOKEN_HEX_BYTES] == ':';
    for (size_t i = 0; ours && i < REDLOCK_TOKEN_HEX_BYTES; i++)
        ours = (text[i] >= '0' && text[i] <= '9') || (text[i] >= 'a' && text[i] <= 'f');
    if (!ours) return (struct bytes){text, bytes};
    return (struct bytes){text + head, bytes - head};
}
