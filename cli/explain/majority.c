/* SPDX-License-Identifier: BSD-2-Clause */
#include "majority.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "frame/session.h"
#include "process/message.h"

char *foreign_text(const char *type, char *out, size_t size) {
    static const char *const names[][2] = {{"", "a list, a hash or another structure"},
                                           {"list", "a list"},
                                           {"hash", "a hash"},
                                           {"set", "a set"},
                                           {"zset", "a sorted set"},
                                           {"stream", "a stream"}};
    char what[64], clean[48];
    snprintf(what, sizeof what, "a value of type %s",
             printable(clean, sizeof clean, type, strlen(type)));
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(names[i][0], type) == 0) snprintf(what, sizeof what, "%s", names[i][1]);
    snprintf(out, size, "the key holds %s: not a lock", what);
    return out;
}

bool has_same_token(const struct redlock_view *a, const struct redlock_view *b) {
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
        if (has_same_token(&views[i], &views[candidate]))
            remaining[votes++] = views[i].remaining_ms;
    }
    return votes;
}

const char *majority_name(enum majority_verdict verdict) {
    static const char *const names[] = {[MAJORITY_HELD] = "held",
                                        [MAJORITY_FREE] = "free",
                                        [MAJORITY_SPLIT] = "split",
                                        [MAJORITY_UNKNOWN] = "unknown",
                                        [MAJORITY_FOREIGN] = "foreign"};
    return names[verdict];
}

bool is_answer(const struct redlock_view *view) {
    return view->verdict == REDLOCK_VERDICT_ABSENT || view->verdict == REDLOCK_VERDICT_GRANTED ||
           view->verdict == REDLOCK_VERDICT_WRONGTYPE;
}

struct majority majority_of(const struct redlock_view *views, size_t count) {
    struct majority majority = {.verdict = MAJORITY_UNKNOWN, .remaining_ms = -1};
    const size_t quorum = quorum_of(count);
    size_t absent = 0, foreign = 0;
    for (size_t i = 0; i < count; i++) {
        int verdict = views[i].verdict;
        absent += verdict == REDLOCK_VERDICT_ABSENT;
        foreign += verdict == REDLOCK_VERDICT_WRONGTYPE;
        majority.answered += is_answer(&views[i]);
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

static int largest_first(const void *a, const void *b) {
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x > y ? -1 : x < y;
}

int64_t readers_total(const struct redlock_readers_view *counts, size_t count) {
    int64_t numbers[REDLOCK_NODES_MAX];
    const size_t quorum = quorum_of(count);
    size_t known = 0;
    for (size_t i = 0; i < count; i++)
        if (counts[i].verdict == REDLOCK_VERDICT_GRANTED) numbers[known++] = counts[i].readers;
    if (known < quorum) return -1;
    qsort(numbers, known, sizeof numbers[0], largest_first);
    return numbers[quorum - 1];
}

char *readers_text(int64_t count, char *out, size_t size) {
    if (count < 0)
        snprintf(out, size, "readers");
    else
        snprintf(out, size, "%" PRId64 " reader%s", count, count == 1 ? "" : "s");
    return out;
}

int compare_bytes(const void *a, size_t a_bytes, const void *b, size_t b_bytes) {
    const int order = memcmp(a, b, a_bytes < b_bytes ? a_bytes : b_bytes);
    return order != 0 ? order : a_bytes < b_bytes ? -1 : a_bytes > b_bytes;
}

/* Where the owner's ':' is in one of our tokens, or would be: after the digits, and after '/' and
 * the number of slots of a slot's token. */
static size_t token_head(const struct redlock_view *view) {
    size_t head = REDLOCK_TOKEN_HEX_BYTES;
    if (view->token_bytes <= head + 1 || view->token[head] != '/' ||
        !isdigit(view->token[head + 1]))
        return head;
    head += 2;
    return head < view->token_bytes && isdigit(view->token[head]) ? head + 1 : head;
}

/* Whether a value has the form of our tokens: 40 hex digits, then perhaps '/' and a number of
 * slots, then perhaps ':' and an owner. */
static bool is_ours(const struct redlock_view *view) {
    if (view->token_bytes < REDLOCK_TOKEN_HEX_BYTES) return false;
    for (size_t i = 0; i < REDLOCK_TOKEN_HEX_BYTES; i++) {
        if (!isxdigit(view->token[i])) return false;
    }
    const size_t head = token_head(view);
    return view->token_bytes == head || view->token[head] == ':';
}

bool is_shared(const struct redlock_view *view) {
    const size_t bytes = sizeof REDLOCK_SHARED_MARKER - 1;
    return view->verdict == REDLOCK_VERDICT_GRANTED && view->token_bytes == bytes &&
           memcmp(view->token, REDLOCK_SHARED_MARKER, bytes) == 0;
}

const unsigned char *owner_of(const struct redlock_view *view, size_t *bytes) {
    const size_t head = token_head(view) + 1;
    *bytes = is_ours(view) && view->token_bytes > head ? view->token_bytes - head : 0;
    return *bytes > 0 ? view->token + head : NULL;
}

char *owner_text(const struct redlock_view *view, char *out, size_t size) {
    size_t bytes;
    const unsigned char *owner = owner_of(view, &bytes);
    return printable(out, size, owner, bytes);
}

/* A token proves ownership of a lock: it is never printed whole unless the user asks, and of a
 * short one less than half. */
size_t token_shown(const struct redlock_view *view) {
    const size_t half = view->token_bytes / 2;
    return half < TOKEN_SHOWN_MAX ? half : TOKEN_SHOWN_MAX;
}

char *token_text(const struct redlock_view *view, bool whole, char *out, size_t size) {
    printable(out, size, view->token, whole ? view->token_bytes : token_shown(view));
    size_t used = strlen(out);
    if (!whole || view->token_truncated) snprintf(out + used, size - used, "…");
    return out;
}

char *holder_text(const struct redlock_view *view, bool whole, char *out, size_t size) {
    char owner[REDLOCK_TOKEN_BYTES_MAX * 4], token[REDLOCK_TOKEN_BYTES_MAX * 4 + 8];
    owner_text(view, owner, sizeof owner);
    token_text(view, whole, token, sizeof token);
    snprintf(out, size, "%s%stoken %s", owner, owner[0] != '\0' ? ", " : "", token);
    return out;
}

const char *holder_name(const char *owner, bool shared, const char *another) {
    return owner[0] != '\0' ? owner : shared ? "readers" : another;
}

enum alphabet { HEX, ALPHANUMERIC, BASE64, UUID };

static bool belongs(unsigned char byte, size_t at, enum alphabet alphabet) {
    const bool dash = at == 8 || at == 13 || at == 18 || at == 23;
    switch (alphabet) {
    case HEX: return isxdigit(byte) != 0;
    case ALPHANUMERIC: return isalnum(byte) != 0;
    case UUID: return dash ? byte == '-' : isxdigit(byte) != 0;
    case BASE64: return isalnum(byte) != 0 || (byte != 0 && strchr("+/-_=", byte) != NULL);
    }
    return false;
}

bool is_token(const struct redlock_view *view) {
    static const struct {
        size_t bytes;
        enum alphabet alphabet;
    } forms[] = {
        {22, ALPHANUMERIC}, /* redlock-py */
        {24, BASE64},       /* redsync: 16 bytes */
        {28, BASE64},       /* 20 bytes */
        {32, HEX},          /* node-redlock, pottery */
        {36, UUID},         /* redlock-rb, aioredlock, RedLock.net */
        {40, HEX},          /* 20 bytes, as in the Redis documentation */
        {64, HEX},
    };
    if (is_ours(view) || is_shared(view)) return true;
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        size_t fit = 0;
        if (view->token_bytes != forms[i].bytes || view->token_truncated) continue;
        while (fit < view->token_bytes && belongs(view->token[fit], fit, forms[i].alphabet)) fit++;
        if (fit == view->token_bytes) return true;
    }
    return false;
}
