/* SPDX-License-Identifier: BSD-2-Clause */
#include "commands/request.h"

#include <string.h>
#include <strings.h>

#include "state/clock.h"

#define FENCE_MAX INT64_C(9007199254740992) /* 2^53: a fence is below */
#define TTL_MAX FENCE_MAX
#define WAITER_US_MAX (INT64_C(1) << 52) /* as src/node/queue.c */

enum { FIRST_KEY = 2 }; /* behind the command's name and numkeys */

int refuse(struct server_ctx *ctx, const char *error) {
    server.ReplyWithError(ctx, error);
    return SERVER_OK;
}

static bool wrong(const struct words *words, const char *error) {
    server.ReplyWithError(words->ctx, error);
    return false;
}

static bool begin(struct words *words, struct server_ctx *ctx, struct server_string **argv,
                  int argc, enum running running) {
    *words = (struct words){.ctx = ctx, .argv = argv, .count = argc, .next = 1};
    node.ctx = ctx;
    node.running = running;
    node.flags = server.GetContextFlags(ctx);
    node.now_us = boottime_us();
    node.now_ms = node.now_us / 1000;
    node.keys_count = 0;
    if (server.GetSelectedDb(ctx) == node.db) return true;
    return wrong(
        words,
        "ERR redlock: this node keeps its locks in another database (INFO redlock); name that "
        "database in the node's URL, or none");
}

bool may_vote(const struct words *words) {
    /* An append-only file may repeat a script. */
    if (node.flags & SERVER_IS_LOADING)
        return wrong(words, "LOADING redlock: the server loads its data");
    /* Whatever replica-read-only says: a replica's locks may be older than its master's. */
    if (!(node.flags & SERVER_IS_REPLICA)) return true;
    node.counts.refused_replica++;
    return wrong(words, "READONLY redlock: a replica does not vote");
}

bool begin_vote(struct words *words, struct server_ctx *ctx, struct server_string **argv,
                int argc) {
    return begin(words, ctx, argv, argc, RUNS_WRITE) && may_vote(words);
}

bool begin_look(struct words *words, struct server_ctx *ctx, struct server_string **argv,
                int argc) {
    return begin(words, ctx, argv, argc, RUNS_READ);
}

struct node_bytes bytes_of(const struct server_string *string) {
    struct node_bytes bytes;
    bytes.data = server.StringPtrLen(string, &bytes.bytes);
    return bytes;
}

bool is_word(struct node_bytes bytes, const char *word) {
    return bytes.bytes == strlen(word) && strncasecmp(bytes.data, word, bytes.bytes) == 0;
}

static int words_left(const struct words *words) { return words->count - words->next; }

static bool too_few(const struct words *words) {
    server.WrongArity(words->ctx);
    return false;
}

static bool read_name(struct words *words, struct node_bytes *name) {
    if (words_left(words) < 1) return too_few(words);
    *name = bytes_of(words->argv[words->next++]);
    return name->bytes <= NAME_BYTES_MAX ||
           wrong(words, "ERR redlock: a key or a token is longer than 65536 bytes");
}

static bool read_integer(struct words *words, long long *number) {
    return words_left(words) >= 1 &&
           server.StringToLongLong(words->argv[words->next++], number) == SERVER_OK;
}

/* ---- the parts of a request ---- */

bool read_keys(struct words *words, struct request *request, long long least) {
    long long count;
    if (!read_integer(words, &count) || count < least)
        return wrong(words, "ERR redlock: numkeys is not a number of keys");
    if (count > KEYS_MAX) return wrong(words, "ERR redlock: too many keys in one request (1024)");
    if (count > words_left(words))
        return wrong(words, "ERR redlock: numkeys is more than the keys that follow");
    node.names = words->argv + words->next;
    for (request->keys_count = 0; request->keys_count < (size_t)count; request->keys_count++)
        if (!read_name(words, &request->keys[request->keys_count])) return false;
    node.keys = request->keys;
    node.keys_count = request->keys_count;
    return true;
}

bool read_key(struct words *words, struct request *request) {
    node.names = words->argv + words->next;
    if (!read_name(words, &request->keys[0])) return false;
    request->keys_count = 1;
    node.keys = request->keys;
    node.keys_count = request->keys_count;
    return true;
}

bool read_token(struct words *words, struct request *request) {
    return read_name(words, &request->token);
}

static const char ttl_is_wrong[] = "ERR redlock: the TTL is not a number of milliseconds above 0";

bool read_ttl(struct words *words, struct request *request) {
    long long ttl_ms;
    if (words_left(words) < 1) return too_few(words);
    if (!read_integer(words, &ttl_ms) || ttl_ms < 1 || ttl_ms >= TTL_MAX)
        return wrong(words, ttl_is_wrong);
    request->ttl_ms = ttl_ms;
    return true;
}

/* The digit plus 1; 0: not a digit. */
static const unsigned char hex[256] = {['0'] = 1, 2,  3,          4,  5,  6,  7,  8,
                                       9,         10, ['a'] = 11, 12, 13, 14, 15, 16};

bool parse_nonce(struct node_bytes digits, uint64_t *nonce) {
    const unsigned char *text = digits.data;
    uint64_t value = 0;
    if (digits.bytes != NONCE_DIGITS) return false;
    for (size_t i = 0; i < NONCE_DIGITS; i++) {
        unsigned digit = hex[text[i]];
        if (digit == 0) return false;
        value = value << 4 | (digit - 1);
    }
    *nonce = value;
    return value != 0;
}

bool parse_number(const char **at, const char *end, int64_t most, int64_t *number) {
    const char *begin = *at;
    int64_t value = 0;
    for (; *at < end && **at >= '0' && **at <= '9'; ++*at) {
        value = 10 * value + (**at - '0');
        if (value > most) return false;
    }
    *number = value;
    return *at > begin;
}

static bool all_differ(const struct request *request) {
    uint64_t seen[NODE_STRIPES / 64] = {0};
    for (size_t i = 0; i < request->stripes_count; i++) {
        uint64_t bit = UINT64_C(1) << request->stripes[i] % 64;
        if (seen[request->stripes[i] / 64] & bit) return false;
        seen[request->stripes[i] / 64] |= bit;
    }
    return true;
}

static bool is_number(const char **at, const char *end, int64_t most, int64_t *number) {
    const char *begin = *at;
    return parse_number(at, end, most, number) && (*begin != '0' || *at == begin + 1);
}

/* "4095,7" */
static bool read_stripes(struct words *words, struct request *request, const char *at,
                         const char *end) {
    request->stripes_count = 0;
    do {
        int64_t stripe;
        if (request->stripes_count == NODE_STRIPES)
            return wrong(words, "ERR redlock: more than 4096 stripes");
        if (!is_number(&at, end, NODE_STRIPES - 1, &stripe) || (at < end && *at != ','))
            return wrong(words, "ERR redlock: a stripe is not a number from 0 to 4095");
        request->stripes[request->stripes_count++] = (uint16_t)stripe;
    } while (at++ < end);
    return true;
}

/* "nonce:fence:stripe,stripe", and there are no more words. */
static bool read_fence_text(struct words *words, struct request *request, const char *at,
                            const char *end) {
    request->fenced = true;
    if (end - at <= NONCE_DIGITS || at[NONCE_DIGITS] != ':' ||
        !parse_nonce((struct node_bytes){at, NONCE_DIGITS}, &request->nonce))
        return wrong(words, "ERR redlock: a nonce is 16 hex digits, and not 0");
    at += NONCE_DIGITS + 1;
    if (!is_number(&at, end, FENCE_MAX - 1, &request->fence) || request->fence < 1 || at == end ||
        *at != ':')
        return wrong(words, "ERR redlock: a fence is a number above 0 and below 2^53");
    return read_stripes(words, request, at + 1, end) && read_end(words);
}

/* The stripes of several keys at once; the table wants each named once. */
static bool read_claim(struct words *words, struct request *request, const char *at,
                       const char *end) {
    return read_fence_text(words, request, at, end) &&
           (request->stripes_count == 1 || all_differ(request) ||
            wrong(words, "ERR redlock: a stripe is named twice"));
}

bool read_fence(struct words *words, struct request *request) {
    static const char name[] = "FENCE=";
    enum { NAME = sizeof name - 1 };
    if (words_left(words) < 1) return too_few(words);
    struct node_bytes text = bytes_of(words->argv[words->next++]);
    const char *at = text.data, *end = at + text.bytes;
    if (text.bytes < NAME || memcmp(at, name, NAME) != 0) return wrong(words, "ERR syntax error");
    return read_claim(words, request, at + NAME, end);
}

typedef bool read_text_fn(struct words *words, struct request *request, const char *at,
                          const char *end);
static bool read_ttl_then(struct words *words, struct request *request, read_text_fn *read_rest) {
    if (words_left(words) < 1) return too_few(words);
    struct node_bytes text = bytes_of(words->argv[words->next++]);
    const char *at = text.data, *end = at + text.bytes;
    if (!is_number(&at, end, TTL_MAX - 1, &request->ttl_ms) || request->ttl_ms < 1 ||
        (at < end && *at != ':'))
        return wrong(words, ttl_is_wrong);
    request->fenced = false;
    return at < end ? read_rest(words, request, at + 1, end) : read_end(words);
}

bool read_ttl_and_fence(struct words *words, struct request *request) {
    return read_ttl_then(words, request, read_claim);
}

bool read_ttl_and_stripes(struct words *words, struct request *request) {
    return read_ttl_then(words, request, read_fence_text);
}

bool read_fence_if_any(struct words *words, struct request *request) {
    request->fenced = false;
    return words_left(words) == 0 || read_fence(words, request);
}

bool read_waiter(struct words *words, struct node_waiter *waiter) {
    long long said_us, waited_us, remember_us;
    if (words_left(words) < 4) return too_few(words);
    if (!read_name(words, &waiter->name)) return false;
    if (waiter->name.bytes < 1 || waiter->name.bytes > WAITER_BYTES_MAX)
        return wrong(words, "ERR redlock: a waiter's name has 1 to 128 bytes");
    if (!read_integer(words, &said_us) || !read_integer(words, &waited_us) ||
        !read_integer(words, &remember_us) || said_us < 0 || said_us > WAITER_US_MAX ||
        waited_us < 0 || waited_us > WAITER_US_MAX || remember_us < 1 ||
        remember_us > WAITER_US_MAX)
        return wrong(words, "ERR redlock: a waiter's times are not numbers of microseconds");
    waiter->since_us = node_queue_since(node.queue, said_us, realtime_us(), node.now_us);
    waiter->waited_us = waited_us;
    waiter->remember_us = remember_us;
    waiter->reads = false;
    return true;
}

bool read_waiter_if_any(struct words *words, struct request *request) {
    enum { WORDS = 5 };
    request->waiter = (struct node_waiter){.name = {"", 0}};
    if (words_left(words) < WORDS ||
        !is_word(bytes_of(words->argv[words->count - WORDS]), "WAITER"))
        return true;
    struct words last = *words;
    last.next = words->count - WORDS + 1;
    words->count -= WORDS;
    return read_waiter(&last, &request->waiter);
}

bool read_end(struct words *words) { return words_left(words) == 0 || too_few(words); }

int key_positions(struct server_ctx *ctx, struct server_string **argv, int argc) {
    long long count;
    if (argc < FIRST_KEY || server.StringToLongLong(argv[FIRST_KEY - 1], &count) != SERVER_OK)
        return SERVER_OK;
    for (long long i = 0; i < count && i < argc - FIRST_KEY; i++)
        server.KeyAtPos(ctx, FIRST_KEY + (int)i);
    return SERVER_OK;
}
