/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The scheme's rules exist twice: in the scripts src/node/setnx_*.lua, and here, for reads and for
 * servers without scripts. tests/net/test_setnx.c compares the two on a server. */
#include "net/codec/setnx.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "net/codec/command.h"
#include "net/codec/error_reply.h"

#define SECOND_US INT64_C(1000000)
/* Our locks end, and we take ended locks, this much later: for clocks that differ, and for programs
 * that compare whole seconds. */
#define LEEWAY_US SECOND_US
/* the token outlives the TTL by this much: until the time in the key has passed */
#define OWNER_EXTRA_MS 3000

enum { DIGITS_SECONDS = 10, DIGITS_MS = 13, STAMP_BYTES_MAX = 32 };

/* ---- timestamps ---- */

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

static int64_t unit_of(enum redlock_scheme scheme) {
    return scheme == REDLOCK_SCHEME_SETNX_MS ? 1000 : SECOND_US;
}

/* Of ".25": in microseconds, rounded up. False: something else. */
static bool parse_fraction(const char *at, const char *end, int64_t unit, int64_t *us) {
    if (end - at < 2 || *at != '.') return false;
    bool more = false;
    *us = 0;
    for (at++; at < end && is_digit(*at); at++) {
        unit /= 10;
        *us += (*at - '0') * unit;
        more = more || (unit == 0 && *at != '0');
    }
    *us += more;
    return at == end;
}

bool setnx_parse(struct net_bytes text, int64_t *over_us) {
    if (text.bytes == 0 || text.bytes > STAMP_BYTES_MAX) return false;
    const char *at = text.data, *end = at + text.bytes;
    while (at < end && *at == '0') at++;
    const char *first = at;
    int64_t whole = 0, fraction = 0;
    for (; at < end && is_digit(*at) && at - first <= DIGITS_MS; at++)
        whole = whole * 10 + (*at - '0');
    if (at - first != DIGITS_SECONDS && at - first != DIGITS_MS) return false;
    int64_t unit = at - first == DIGITS_SECONDS ? SECOND_US : 1000;
    if (at < end && !parse_fraction(at, end, unit, &fraction)) return false;
    *over_us = whole * unit + fraction;
    return true;
}

int64_t setnx_stamp_at(enum redlock_scheme scheme, int64_t now_us, int64_t ttl_ms) {
    int64_t unit = unit_of(scheme);
    return (now_us + ttl_ms * 1000 + LEEWAY_US + unit - 1) / unit;
}

/* ---- sending ---- */

unsigned setnx_replies(const struct net_request *request) {
    switch (request->op) {
    case NET_PEEK: return 3;
    case NET_WATCH: return 4;
    case NET_PEEK_VALUE: return 6;
    default: return 1;
    }
}

/* The name of the hash that records the owner; the caller frees it. */
static struct net_bytes name_owner(const struct net_request *request) {
    const size_t prefix = sizeof(NET_KEY_SETNX) - 1;
    assert(request->keys_count == 1);
    char *name = malloc(prefix + request->keys[0].bytes);
    if (!name) return (struct net_bytes){NULL, 0};
    memcpy(name, NET_KEY_SETNX, prefix);
    memcpy(name + prefix, request->keys[0].data, request->keys[0].bytes);
    return (struct net_bytes){name, prefix + request->keys[0].bytes};
}

/* One command; `key`, `a` and `b` may be absent. */
static bool send(struct buffer *out, size_t limit, const char *command, struct net_bytes key,
                 const char *a, const char *b) {
    struct words words;
    words_begin(&words, command);
    if (key.data) words_bytes(&words, key);
    if (a) words_text(&words, a);
    if (b) words_text(&words, b);
    return words_end(&words, out, limit);
}

static const struct net_bytes no_key = {NULL, 0};

static bool send_value(const struct net_request *request, struct buffer *out, size_t limit,
                       size_t most) {
    char last[24];
    snprintf(last, sizeof(last), "%zu", most);
    return send(out, limit, "GETRANGE", request->keys[0], "0", last);
}

static bool send_script(const struct net_request *request, struct net_bytes owner, bool whole,
                        struct buffer *out, size_t limit) {
    const enum node_script script = setnx_script(request);
    struct words words;
    words_script(&words, script, whole, 2);
    words_bytes(&words, request->keys[0]);
    words_bytes(&words, owner);
    words_bytes(&words, request->token);
    if (script != NODE_SETNX_RELEASE) {
        words_number(&words, (uint64_t)request->ttl_ms);
        words_number(&words, (uint64_t)unit_of(request->scheme));
    }
    return words_end(&words, out, limit);
}

enum node_script setnx_script(const struct net_request *request) {
    switch (request->op) {
    case NET_ACQUIRE: return NODE_SETNX_ACQUIRE;
    case NET_EXTEND: return NODE_SETNX_EXTEND;
    case NET_RELEASE: return NODE_SETNX_RELEASE;
    default: return NODE_SCRIPTS_ALL;
    }
}

bool setnx_encode(const struct net_request *request, bool whole_script, struct buffer *out,
                  size_t limit) {
    struct net_bytes key = request->keys[0];
    if (request->op == NET_PEEK || request->op == NET_WATCH) {
        if (request->op == NET_WATCH && !send(out, limit, "CLIENT", no_key, "CACHING", "YES"))
            return false;
        /* the value first: of the reads, the server tracks only this one */
        return send_value(request, out, limit, SETNX_STAMP_BYTES - 1) &&
               send(out, limit, "PTTL", key, NULL, NULL) &&
               send(out, limit, "TIME", no_key, NULL, NULL);
    }
    struct net_bytes owner = name_owner(request);
    if (!owner.data) return false;
    bool done;
    if (request->op == NET_PEEK_VALUE)
        /* in one step, and one answer, so that number and token belong together */
        done = send(out, limit, "MULTI", no_key, NULL, NULL) &&
               send(out, limit, "TIME", no_key, NULL, NULL) &&
               send(out, limit, "PTTL", key, NULL, NULL) &&
               send_value(request, out, limit, REDLOCK_TOKEN_BYTES_MAX) &&
               send(out, limit, "HMGET", owner, "value", "token") &&
               send(out, limit, "EXEC", no_key, NULL, NULL);
    else
        done = send_script(request, owner, whole_script, out, limit);
    free((void *)(uintptr_t)owner.data);
    return done;
}

/* ---- answers to reads ---- */

/* TIME's answer, from its array on. */
static bool parse_time(const struct reader *reader, size_t at, int64_t *now_us) {
    return reader_is_strings(reader, at, 2) && time_answer(reader, at, now_us);
}

static int64_t free_from(struct net_bytes value) {
    int64_t over_us;
    return setnx_parse(value, &over_us) ? over_us + LEEWAY_US : 0;
}

/* `remaining_ms` is PTTL's answer. A key with a TTL ends by that; a lock whose time has passed
 * counts as absent. */
static void conclude(struct net_reply *answer, int64_t now_us) {
    answer->verdict = REDLOCK_VERDICT_GRANTED;
    if (answer->remaining_ms == -1 && answer->free_us != 0)
        answer->remaining_ms =
            answer->free_us > now_us ? (answer->free_us - now_us + 999) / 1000 : -2;
    if (answer->remaining_ms == -2) answer->verdict = REDLOCK_VERDICT_ABSENT;
}

static bool answer_peek(unsigned nth, const struct reader *reader, struct net_reply *answer) {
    int64_t now_us;
    answer->verdict = REDLOCK_VERDICT_GRANTED; /* until the last one says otherwise, or one fails */
    switch (nth) {
    case 0:
        answer->free_us = free_from(reader->bytes[0]);
        return reader->slots[0].type == REPLY_STRING;
    case 1:
        answer->remaining_ms = reader->slots[0].integer;
        return reader->slots[0].type == REPLY_INTEGER && answer->remaining_ms >= -2;
    default:
        if (!parse_time(reader, 0, &now_us)) return false;
        conclude(answer, now_us);
        return true;
    }
}

/* EXEC's reply: [TIME, PTTL, value, [value in the hash, token]]. The token is shown if it belongs
 * to the value; else the value itself, which is all that other programs write. */
static bool answer_peek_value(const struct reader *reader, struct net_reply *answer) {
    enum { TIME = 1, PTTL = 4, VALUE = 5, OWNER = 6 };
    const struct reply_slot *slots = reader->slots;
    int64_t now_us;
    if (slots[0].type != REPLY_ARRAY || slots[0].integer != 4 || reader->slots_count <= OWNER)
        return false;
    if (!parse_time(reader, TIME, &now_us) || slots[PTTL].type != REPLY_INTEGER) return false;
    answer->remaining_ms = slots[PTTL].integer;
    if (answer->remaining_ms < -2) return false;
    if (slots[VALUE].type == REPLY_ERROR) {
        answer->verdict = error_reply_verdict(reader->bytes[VALUE]);
        return true;
    }
    if (slots[VALUE].type != REPLY_STRING) return false;
    answer->value = reader->bytes[VALUE];
    answer->free_us = free_from(answer->value);
    conclude(answer, now_us);
    bool owned = reader_is_strings(reader, OWNER, 2) && reader->slots_count == OWNER + 3 &&
                 bytes_equal(reader->bytes[OWNER + 1], answer->value);
    answer_shows(answer, reader->bytes[owned ? OWNER + 2 : VALUE]);
    return true;
}

bool setnx_answer(const struct net_request *request, unsigned nth, const struct reader *reader,
                  struct net_reply *answer) {
    if (request->op == NET_PEEK) return answer_peek(nth, reader, answer);
    if (request->op == NET_WATCH && nth > 0) return answer_peek(nth - 1, reader, answer);
    answer->verdict = REDLOCK_VERDICT_GRANTED;
    if (request->op == NET_WATCH || nth == 0) return reader_is_status(reader, 0, "OK");
    if (nth + 1 < setnx_replies(request)) return reader_is_status(reader, 0, "QUEUED");
    return answer_peek_value(reader, answer);
}

/* ---- without scripts ---- */

bool setnx_send_checks(const struct net_request *request, struct buffer *out, size_t limit) {
    struct net_bytes owner = name_owner(request);
    if (!owner.data) return false;
    struct words words;
    words_begin(&words, "WATCH");
    words_bytes(&words, request->keys[0]);
    words_bytes(&words, owner);
    bool done = words_end(&words, out, limit) &&
                send(out, limit, "PTTL", request->keys[0], NULL, NULL) &&
                send_value(request, out, limit, SETNX_STAMP_BYTES - 1) &&
                send(out, limit, "HMGET", owner, "value", "token") &&
                send(out, limit, "TIME", no_key, NULL, NULL);
    free((void *)(uintptr_t)owner.data);
    return done;
}

static struct net_bytes value_of(const struct setnx_seen *seen) {
    return (struct net_bytes){seen->value, seen->value_bytes};
}

bool setnx_take_check(const struct net_request *request, unsigned nth, const struct reader *reader,
                      struct setnx_seen *seen) {
    const struct reply_slot *slots = reader->slots;
    const struct net_bytes *text = &reader->bytes[0];
    switch (nth) {
    case 0: return reader_is_status(reader, 0, "OK");
    case 1: seen->left_ms = slots[0].integer; return slots[0].type == REPLY_INTEGER;
    case 2:
        if (slots[0].type != REPLY_STRING || text->bytes > sizeof(seen->value)) return false;
        seen->value_bytes = text->bytes;
        if (text->bytes > 0) memcpy(seen->value, text->data, text->bytes);
        return true;
    case 3:
        if (slots[0].type != REPLY_ARRAY || slots[0].integer != 2 || reader->slots_count != 3)
            return false;
        seen->ours = reader_is_strings(reader, 0, 2) && bytes_equal(text[1], value_of(seen)) &&
                     bytes_equal(text[2], request->token);
        return true;
    default: return parse_time(reader, 0, &seen->now_us);
    }
}

int setnx_judge(const struct net_request *request, const struct setnx_seen *seen, int failure,
                bool *change) {
    bool acquire = request->op == NET_ACQUIRE;
    int64_t over;
    if (!setnx_parse(value_of(seen), &over)) over = INT64_MAX - LEEWAY_US;
    *change = false;
    /* for an acquisition a key of another type simply exists */
    if (acquire && failure == REDLOCK_VERDICT_WRONGTYPE && seen->left_ms != -2)
        return REDLOCK_VERDICT_DENIED;
    if (failure != REDLOCK_VERDICT_NONE) return failure;
    if (acquire) {
        bool ended = seen->left_ms == -1 && seen->now_us >= over + LEEWAY_US;
        *change = seen->left_ms == -2 || ended;
        return *change ? REDLOCK_VERDICT_GRANTED : REDLOCK_VERDICT_DENIED;
    }
    if (seen->left_ms == -2) return REDLOCK_VERDICT_ABSENT;
    if (!seen->ours) return REDLOCK_VERDICT_DENIED;
    if (seen->now_us >= over) return REDLOCK_VERDICT_ABSENT;
    int64_t later =
        setnx_stamp_at(request->scheme, seen->now_us, request->ttl_ms) * unit_of(request->scheme);
    *change = request->op == NET_RELEASE || later > over; /* never shortens */
    return REDLOCK_VERDICT_GRANTED;
}

unsigned setnx_send_changes(const struct net_request *request, const struct setnx_seen *seen,
                            struct buffer *out, size_t limit) {
    struct net_bytes owner = name_owner(request);
    if (!owner.data) return 0;
    bool done, release = request->op == NET_RELEASE;
    struct words words;
    if (release) {
        words_begin(&words, "DEL");
        words_bytes(&words, request->keys[0]);
        words_bytes(&words, owner);
        done = words_end(&words, out, limit);
    } else {
        char stamp[24], extra[24];
        snprintf(stamp, sizeof(stamp), "%lld",
                 (long long)setnx_stamp_at(request->scheme, seen->now_us, request->ttl_ms));
        snprintf(extra, sizeof(extra), "%lld", (long long)request->ttl_ms + OWNER_EXTRA_MS);
        words_begin(&words, "HMSET");
        words_bytes(&words, owner);
        words_text(&words, "value");
        words_text(&words, stamp);
        words_text(&words, "token");
        words_bytes(&words, request->token);
        done = words_end(&words, out, limit) && send(out, limit, "PEXPIRE", owner, extra, NULL) &&
               send(out, limit, "SET", request->keys[0], stamp, NULL);
    }
    free((void *)(uintptr_t)owner.data);
    return !done ? 0 : release ? 1 : SETNX_CHANGES_MAX;
}
