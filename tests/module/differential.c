/* SPDX-License-Identifier: BSD-2-Clause
 *
 * One sequence of random requests to three nodes: the scripts of src/node on a stock server, the
 * native table of src/node in C, and the module in a server. The test holds the clocks of all
 * three. After each request every answer is compared, and at the end of a sequence the record and
 * all fences.
 *
 * In the first part the keys have stripes of their own, and no request comes in the millisecond of
 * an end: then all three must agree. In the second part keys share stripes and requests come at any
 * time: there stock nodes have other rules, and the module is compared with the table alone.
 *
 * usage: differential MODULE STEPCLOCK BOOTCLOCK [--seed S] [--requests N] [--mirror yes|no]
 *        [--skew-ms M]   every other clock step takes the module M further: it must be noticed
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "core/mix.h"
#include "node/scripts.h"
#include "node/table.h"
#include "servers.h"

enum { SEQUENCE = 400, KEYS = 6, TOKENS = 3, NONCES = 3, KEYS_AT_ONCE = 3, WORDS_MAX = 40 };

struct node {
    struct server server;
    redisContext *connection;
    volatile int64_t *clock_us;
};

static struct {
    struct node stock, native;
    struct node_table *twin;
    int64_t now_ms, begin_ms, skew_ms;
    bool skewed, shared_stripes, slow; /* slow: only long TTLs, for the mirror */
    uint64_t random;
    char keys[KEYS][24];
    uint16_t stripes[KEYS];
    unsigned long compared[3];
} test;

static uint64_t draw(uint64_t limit) {
    uint64_t z = test.random += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (z ^ (z >> 31)) % limit;
}

static _Noreturn void die(const char *what, const char *why) {
    fprintf(stderr, "differential: %s: %s\n", what, why ? why : "?");
    abort();
}

/* ---- the nodes ---- */

static volatile int64_t *make_clock(const char *variable, char path[32]) {
    snprintf(path, 32, "/tmp/redlock-clock-XXXXXX");
    int fd = mkstemp(path);
    if (fd < 0 || ftruncate(fd, sizeof(int64_t)) != 0) die("clock", path);
    void *map = mmap(NULL, sizeof(int64_t), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED) die("clock", path);
    close(fd);
    setenv(variable, path, 1);
    return map;
}

static redisReply *ask(struct node *node, const char *format, ...) {
    va_list args;
    va_start(args, format);
    redisReply *reply = redisvCommand(node->connection, format, args);
    va_end(args);
    if (!reply) die(format, node->connection->errstr);
    return reply;
}

static void start(struct node *node, const char *clock, const char *variable, int64_t at_us,
                  const char *const *arguments) {
    char path[32];
    node->clock_us = make_clock(variable, path);
    *node->clock_us = at_us;
    setenv("LD_PRELOAD", clock, 1);
    server_start(&node->server, arguments);
    unsetenv("LD_PRELOAD");
    node->connection = redisConnect("127.0.0.1", node->server.port);
    if (!node->connection || node->connection->err) die("connect", NULL);
    freeReplyObject(ask(node, "REDLOCK.STATE")); /* it has read its clock now */
    unlink(path);
}

static void set_clocks(int64_t now_ms) {
    test.now_ms = now_ms;
    test.skewed = !test.skewed;
    *test.stock.clock_us = 1700000000000000 + (now_ms - test.begin_ms) * 1000;
    *test.native.clock_us = (now_ms + (test.skewed ? test.skew_ms : 0)) * 1000;
}

/* ---- requests ---- */

enum op {
    ACQUIRE,
    EXTEND,
    RELEASE,
    RAISE,
    CONFIRM,
    BREAK,
    PTTL,
    GET,
    WRITE,
    SHARE,
    SHARE_EXTEND,
    UNSHARE,
    READERS,
    STEP,
    OPS
};
static const char *const op_names[OPS] = {"acquire",      "extend",  "release", "raise", "confirm",
                                          "break",        "pttl",    "get",     "write", "share",
                                          "share extend", "unshare", "readers", "step"};

static bool is_of_readers(enum op op) { return op >= SHARE && op <= READERS; }

struct request {
    enum op op;
    unsigned count, key[KEYS_AT_ONCE], token, nonce, expected;
    bool fenced, keep, was_kept, floors;
    int64_t ttl_ms, fence, step_ms;
};

struct text {
    size_t used;
    char text[4096];
};

static void say(struct text *to, const char *format, ...) {
    va_list args;
    va_start(args, format);
    int bytes = vsnprintf(to->text + to->used, sizeof to->text - to->used, format, args);
    va_end(args);
    if (bytes < 0 || to->used + (size_t)bytes >= sizeof to->text) die("answer", "too long");
    to->used += (size_t)bytes;
}

/* The last one is of a break, or of a release by hand: all readers lose their places. */
static const char *const tokens[TOKENS + 1] = {"0123456789012345678901234567890123456789",
                                               "0123456789", "x", NODE_SHARED_MARKER};
static const uint64_t nonces[NONCES] = {0xb, 0xc0ffee0000000000, UINT64_MAX};

static void nonce_text(unsigned number, char digits[17]) {
    snprintf(digits, 17, "%016" PRIx64, nonces[number]);
}

/* The number of the record's nonce; NONCES: no record. */
static unsigned nonce_present(void) {
    const struct node_field *fields;
    char digits[17];
    if (node_record(test.twin, &fields) == 0) return NONCES;
    for (unsigned i = 0; i < NONCES; i++) {
        nonce_text(i, digits);
        if (memcmp(fields[0].value.data, digits, 16) == 0) return i;
    }
    die("record", "no nonce");
}

static int64_t highest(const struct request *request) {
    const int64_t *fences = node_fences(test.twin, nonces[request->nonce]);
    int64_t found = 0;
    for (unsigned i = 0; fences && i < request->count; i++)
        if (fences[test.stripes[request->key[i]]] > found)
            found = fences[test.stripes[request->key[i]]];
    return found;
}

static struct request draw_request(void) {
    static const unsigned weights[OPS] = {30, 15, 14, 8, 8, 6, 5, 3, 4, 16, 10, 9, 4, 25};
    struct request request = {.count = draw(3) ? 1 : 1 + (unsigned)draw(KEYS_AT_ONCE)};
    uint64_t drawn = draw(157);
    while (drawn >= weights[request.op]) drawn -= weights[request.op++];
    if (request.op == BREAK || is_of_readers(request.op)) request.count = 1;
    for (unsigned i = 0; i < request.count; i++) request.key[i] = (unsigned)draw(KEYS);
    request.token = (unsigned)draw(TOKENS);
    if ((request.op == BREAK || request.op == RELEASE) && draw(4) == 0) request.token = TOKENS;
    request.fenced = draw(2) || request.op == RAISE || request.op == CONFIRM || request.op == BREAK;
    unsigned present = nonce_present();
    request.nonce = draw(12) && present < NONCES ? present : (unsigned)draw(NONCES);
    request.ttl_ms = test.slow ? 1000 + (int64_t)draw(100) * 500 : 1 + (int64_t)draw(300);
    request.step_ms = test.slow          ? (int64_t)draw(20) * 500
                      : (int64_t)draw(4) ? (int64_t)draw(100)
                                         : (int64_t)draw(1000);
    request.fence = highest(&request) - 1 + (int64_t)draw(4);
    if (request.fence < 1) request.fence = 1;
    if (request.op == WRITE) {
        request.expected = draw(8) ? present : (unsigned)draw(NONCES + 1);
        request.nonce = (unsigned)draw(NONCES);
        request.was_kept = present == NONCES || !node_fences(test.twin, nonces[present]);
        request.keep = draw(5) == 0;
        request.floors = draw(3) == 0 || (request.was_kept && !node_fences(test.twin, 0));
    }
    return request;
}

/* Each stripe once, as the requests need it. */
static unsigned stripes_of(const struct request *request, uint16_t stripes[KEYS_AT_ONCE]) {
    unsigned count = 0;
    for (unsigned i = 0; i < request->count; i++) {
        unsigned k = 0;
        while (k < count && stripes[k] != test.stripes[request->key[i]]) k++;
        if (k == count) stripes[count++] = test.stripes[request->key[i]];
    }
    return count;
}

/* ---- the table ---- */

static const char *said(enum node_answer answer) {
    return answer == NODE_GRANTED  ? "1"
           : answer == NODE_DENIED ? "-1"
           : answer == NODE_GONE   ? "-2"
                                   : "0";
}

static void ask_twin_readers(const struct request *request, struct text *to) {
    const char *key = test.keys[request->key[0]], *reader = tokens[request->token];
    const struct node_share share = {.key = {key, strlen(key)},
                                     .reader = {reader, strlen(reader)},
                                     .ttl_ms = request->ttl_ms,
                                     .guarded = request->fenced,
                                     .nonce = nonces[request->nonce],
                                     .fence = request->fence,
                                     .stripe = test.stripes[request->key[0]]};
    int64_t number = 0;
    enum node_answer answer;
    switch (request->op) {
    case SHARE: answer = node_share(test.twin, &share, test.now_ms, &number); break;
    case SHARE_EXTEND: answer = node_share_extend(test.twin, &share, test.now_ms); break;
    case UNSHARE: answer = node_share_release(test.twin, &share, test.now_ms); break;
    default: answer = node_readers_count(test.twin, share.key, test.now_ms, &number); break;
    }
    const bool counts = request->op == SHARE || request->op == READERS;
    if (counts && answer == NODE_GRANTED)
        say(to, "%" PRId64, number);
    else
        say(to, "%s", said(answer));
}

static int64_t floor_of[NODE_STRIPES];

static const int64_t *floors(const struct request *request) {
    memset(floor_of, 0, sizeof floor_of);
    floor_of[test.stripes[request->key[0]]] = request->fence;
    floor_of[4095] = 7;
    return floor_of;
}

static void ask_twin(const struct request *request, struct text *to) {
    struct node_bytes keys[KEYS_AT_ONCE],
        token = {tokens[request->token], strlen(tokens[request->token])};
    uint16_t stripes[KEYS_AT_ONCE];
    unsigned count = stripes_of(request, stripes);
    int64_t found = 0;
    enum node_answer answer = NODE_ABSENT;
    char digits[17];
    for (unsigned i = 0; i < request->count; i++)
        keys[i] =
            (struct node_bytes){test.keys[request->key[i]], strlen(test.keys[request->key[i]])};
    uint64_t nonce = nonces[request->nonce];
    if (is_of_readers(request->op)) {
        ask_twin_readers(request, to);
        return;
    }
    switch (request->op) {
    case ACQUIRE:
        answer = request->fenced
                     ? node_acquire_guarded(test.twin, keys, request->count, token, request->ttl_ms,
                                            nonce, request->fence, stripes, count, test.now_ms)
                     : node_acquire(test.twin, keys, request->count, token, request->ttl_ms,
                                    test.now_ms);
        say(to, "%d", answer == NODE_GRANTED ? 1 : answer == NODE_STALE ? -1 : 0);
        break;
    case EXTEND:
        answer =
            request->fenced
                ? node_extend_guarded(test.twin, keys, request->count, token, request->ttl_ms,
                                      nonce, request->fence, stripes, count, test.now_ms)
                : node_extend(test.twin, keys, request->count, token, request->ttl_ms, test.now_ms);
        say(to, "%d",
            answer == NODE_GRANTED  ? 1
            : answer == NODE_GONE   ? -2
            : answer == NODE_DENIED ? -1
                                    : 0);
        break;
    case RELEASE:
        answer = node_release(test.twin, keys, request->count, token, test.now_ms);
        say(to, "%d", answer == NODE_GRANTED ? 1 : answer == NODE_DENIED ? -1 : 0);
        break;
    case RAISE:
        answer = node_raise(test.twin, keys, request->count, token, nonce, request->fence, stripes,
                            count, test.now_ms, &found);
        say(to, "%" PRId64,
            answer == NODE_STALE     ? found
            : answer == NODE_GRANTED ? 0
            : answer == NODE_GONE    ? -2
                                     : -1);
        break;
    case BREAK:
        answer = node_break(test.twin, keys[0], token, nonce, 0, request->fence, stripes, count,
                            test.now_ms, &found);
        say(to, "%" PRId64,
            answer == NODE_STALE     ? found
            : answer == NODE_GRANTED ? -3
            : answer == NODE_GONE    ? -2
            : answer == NODE_DENIED  ? -1
                                     : 0);
        break;
    case CONFIRM:
        answer = node_confirm(test.twin, keys, request->count, token, nonce, request->fence,
                              stripes, count, test.now_ms);
        say(to, "%d", answer == NODE_GRANTED ? 1 : answer == NODE_GONE ? -2 : 0);
        break;
    case PTTL: say(to, "%" PRId64, node_pttl(test.twin, keys[0], test.now_ms)); break;
    case GET: {
        struct node_bytes held = node_get(test.twin, keys[0], test.now_ms);
        say(to, "%.*s", (int)held.bytes, held.data ? (const char *)held.data : "");
        break;
    }
    case WRITE: {
        nonce_text(request->nonce, digits);
        struct node_field field = {{"nonce", 5}, {digits, 16}};
        struct node_record_write write = {
            .expected = request->expected < NONCES ? nonces[request->expected] : 0,
            .nonce = nonce,
            .was_kept = request->was_kept,
            .keep = request->keep,
            .floor = request->floors ? floors(request) : NULL,
            .fields = &field,
            .fields_count = 1};
        say(to, "%d", node_record_write(test.twin, &write) == NODE_GRANTED);
        break;
    }
    default: break;
    }
}

/* ---- the servers ---- */

struct words {
    int count;
    const char *word[WORDS_MAX];
    char number[WORDS_MAX][24];
};

static void word(struct words *words, const char *text) { words->word[words->count++] = text; }

static void number(struct words *words, int64_t value) {
    snprintf(words->number[words->count], 24, "%" PRId64, value);
    word(words, words->number[words->count]);
}

/* Of an array the first number: of a denial, or how many readers there are. */
static void take(struct text *to, redisReply *reply) {
    const redisReply *at = reply;
    if (reply->type == REDIS_REPLY_ARRAY && reply->elements >= 3) at = reply->element[0];
    if (at->type == REDIS_REPLY_INTEGER)
        say(to, "%lld", at->integer);
    else
        say(to, "%s", at->str ? at->str : "");
    freeReplyObject(reply);
}

static void send(struct node *node, struct words *words, struct text *to) {
    redisReply *reply = redisCommandArgv(node->connection, words->count, words->word, NULL);
    if (!reply) die(words->word[0], node->connection->errstr);
    take(to, reply);
}

static const char *floors_text(const struct request *request) {
    static char text[64];
    uint16_t stripe = test.stripes[request->key[0]];
    text[0] = 0;
    if (request->floors)
        snprintf(text, sizeof text, stripe == 4095 ? "4095 7" : "%u %" PRId64 " 4095 7", stripe,
                 request->fence);
    return text;
}

/* One key: LOCK and UNLOCK are ACQUIRE and RELEASE in fewer words. */
static bool ask_native_shortly(const struct request *request, const char *nonce, struct text *to) {
    struct words words = {0};
    uint16_t stripes[KEYS_AT_ONCE];
    char last[128];
    if (request->op != ACQUIRE && request->op != RELEASE) return false;
    unsigned count = stripes_of(request, stripes);
    int length = snprintf(last, sizeof last, "%" PRId64, request->ttl_ms);
    if (request->fenced)
        length += snprintf(last + length, sizeof last - (size_t)length, ":%s:%" PRId64, nonce,
                           request->fence);
    for (unsigned i = 0; request->fenced && i < count; i++)
        length += snprintf(last + length, sizeof last - (size_t)length, "%c%u", i ? ',' : ':',
                           stripes[i]);
    word(&words, request->op == ACQUIRE ? "REDLOCK.LOCK" : "REDLOCK.UNLOCK");
    word(&words, test.keys[request->key[0]]);
    word(&words, tokens[request->token]);
    if (request->op == ACQUIRE) word(&words, last);
    send(&test.native, &words, to);
    return true;
}

static void ask_native_readers(const struct request *request, const char *nonce, struct text *to) {
    static const char *const commands[OPS] = {[SHARE] = "REDLOCK.SHARE",
                                              [SHARE_EXTEND] = "REDLOCK.SHAREEXTEND",
                                              [UNSHARE] = "REDLOCK.UNSHARE",
                                              [READERS] = "REDLOCK.READERS"};
    struct words words = {0};
    char last[128];
    int length = snprintf(last, sizeof last, "%" PRId64, request->ttl_ms);
    if (request->fenced)
        snprintf(last + length, sizeof last - (size_t)length, ":%s:%" PRId64 ":%u", nonce,
                 request->fence, test.stripes[request->key[0]]);
    word(&words, commands[request->op]);
    word(&words, test.keys[request->key[0]]);
    if (request->op != READERS) word(&words, tokens[request->token]);
    if (request->op == SHARE || request->op == SHARE_EXTEND) word(&words, last);
    for (int i = 0; request->op == READERS && i < 3; i++) number(&words, i == 0);
    redisReply *reply = redisCommandArgv(test.native.connection, words.count, words.word, NULL);
    if (!reply) die(words.word[0], test.native.connection->errstr);
    if (request->op == SHARE && reply->type == REDIS_REPLY_ARRAY) {
        say(to, "-1"); /* a denial, which says more than the script's */
        freeReplyObject(reply);
        return;
    }
    take(to, reply);
}

static void ask_native(const struct request *request, struct text *to) {
    static const char *const commands[OPS] = {
        "REDLOCK.ACQUIRE", "REDLOCK.EXTEND",  "REDLOCK.RELEASE",
        "REDLOCK.RAISE",   "REDLOCK.CONFIRM", "REDLOCK.BREAK",
        "REDLOCK.PTTL",    "REDLOCK.GET",     "REDLOCK.RECORDWRITE"};
    struct words words = {0};
    uint16_t stripes[KEYS_AT_ONCE];
    unsigned count = stripes_of(request, stripes);
    char nonce[17], expected[17] = "";
    nonce_text(request->nonce, nonce);
    bool shortly = request->count == 1 && (request->ttl_ms + request->ttl_ms / 500) % 2 == 0;
    if (shortly && ask_native_shortly(request, nonce, to)) return;
    if (is_of_readers(request->op)) {
        ask_native_readers(request, nonce, to);
        return;
    }
    word(&words, commands[request->op]);
    if (request->op == WRITE) {
        if (request->expected < NONCES) nonce_text(request->expected, expected);
        word(&words, expected);
        word(&words, request->was_kept ? "kept" : expected);
        word(&words, request->keep ? "kept" : nonce);
        word(&words, floors_text(request));
        word(&words, request->floors ? "1" : "0");
        word(&words, "nonce");
        word(&words, nonce);
    } else if (request->op == PTTL || request->op == GET) {
        word(&words, test.keys[request->key[0]]);
        if (request->op == GET) word(&words, "100");
    } else {
        if (request->op != BREAK) number(&words, request->count);
        for (unsigned i = 0; i < request->count; i++) word(&words, test.keys[request->key[i]]);
        word(&words, tokens[request->token]);
        bool voting = request->op == ACQUIRE || request->op == EXTEND;
        if (voting) number(&words, request->ttl_ms);
        if (request->fenced && request->op != RELEASE) {
            char fence[128];
            int length = snprintf(fence, sizeof fence, "FENCE=%s:%" PRId64, nonce, request->fence);
            for (unsigned i = 0; i < count; i++)
                length += snprintf(fence + length, sizeof fence - (size_t)length, "%c%u",
                                   i ? ',' : ':', stripes[i]);
            word(&words, fence);
        }
    }
    send(&test.native, &words, to);
}

static void ask_stock_readers(const struct request *request, const char *fences, struct text *to) {
    static const enum node_script scripts[OPS] = {[SHARE] = NODE_SHARE,
                                                  [SHARE_EXTEND] = NODE_SHARE_EXTEND,
                                                  [UNSHARE] = NODE_SHARE_RELEASE,
                                                  [READERS] = NODE_READERS};
    struct words words = {0};
    char list[48];
    const bool votes = request->op == SHARE || request->op == SHARE_EXTEND;
    snprintf(list, sizeof list, "redlock:shared:%s", test.keys[request->key[0]]);
    word(&words, "EVALSHA");
    word(&words, node_scripts[scripts[request->op]].sha1);
    number(&words, 2 + (votes && request->fenced));
    word(&words, test.keys[request->key[0]]);
    word(&words, list);
    if (votes && request->fenced) word(&words, fences);
    word(&words, NODE_SHARED_MARKER);
    if (request->op != READERS) word(&words, tokens[request->token]);
    if (votes) number(&words, request->ttl_ms);
    if (votes && request->fenced) number(&words, request->fence);
    if (votes && request->fenced) number(&words, test.stripes[request->key[0]]);
    for (int i = 0; request->op == READERS && i < 3; i++) number(&words, i == 0);
    send(&test.stock, &words, to);
}

static void ask_stock(const struct request *request, struct text *to) {
    static const enum node_script scripts[OPS][2] = {
        [ACQUIRE] = {NODE_ACQUIRE_MANY, NODE_ACQUIRE_GUARDED},
        [EXTEND] = {NODE_EXTEND, NODE_EXTEND_GUARDED},
        [RELEASE] = {NODE_RELEASE, NODE_RELEASE},
        [RAISE] = {NODE_RAISE, NODE_RAISE},
        [CONFIRM] = {NODE_CONFIRM, NODE_CONFIRM},
        [BREAK] = {NODE_BREAK, NODE_BREAK},
        [WRITE] = {NODE_RECORD_WRITE, NODE_RECORD_WRITE}};
    struct words words = {0};
    uint16_t stripes[KEYS_AT_ONCE];
    unsigned count = stripes_of(request, stripes);
    char nonce[17], expected[17] = "", fences[48], from[48], to_name[48];
    nonce_text(request->nonce, nonce);
    snprintf(fences, sizeof fences, "redlock:fences:%s", nonce);
    if (is_of_readers(request->op)) {
        ask_stock_readers(request, fences, to);
        return;
    }
    if (request->op == PTTL || request->op == GET) {
        word(&words, request->op == PTTL ? "PTTL" : "GET");
        word(&words, test.keys[request->key[0]]);
        send(&test.stock, &words, to);
        return;
    }
    word(&words, "EVALSHA");
    word(&words, node_scripts[scripts[request->op][request->fenced]].sha1);
    if (request->op == WRITE) {
        if (request->expected < NONCES) nonce_text(request->expected, expected);
        snprintf(from, sizeof from, "redlock:fences:%s", request->was_kept ? "kept" : expected);
        snprintf(to_name, sizeof to_name, "redlock:fences:%s", request->keep ? "kept" : nonce);
        number(&words, 3);
        word(&words, "redlock:node");
        word(&words, from);
        word(&words, to_name);
        word(&words, expected);
        word(&words, floors_text(request));
        word(&words, request->floors ? "1" : "0");
        word(&words, "nonce");
        word(&words, nonce);
    } else {
        const bool fenced = request->fenced && request->op != RELEASE,
                   breaks = request->op == BREAK;
        number(&words, (int64_t)request->count + fenced + breaks);
        for (unsigned i = 0; i < request->count; i++) word(&words, test.keys[request->key[i]]);
        if (breaks) word(&words, "redlock:node");
        if (fenced) word(&words, fences);
        word(&words, tokens[request->token]);
        if (request->op == ACQUIRE || request->op == EXTEND) number(&words, request->ttl_ms);
        if (fenced) number(&words, request->fence);
        if (breaks) word(&words, "0000000000000000"); /* a native node keeps its nonce */
        for (unsigned i = 0; fenced && i < count; i++) number(&words, stripes[i]);
    }
    send(&test.stock, &words, to);
}

/* ---- comparing ---- */

static bool ends_now(void) {
    struct node_lock lock;
    for (unsigned i = 0; i < KEYS; i++)
        if (node_look(test.twin, (struct node_bytes){test.keys[i], strlen(test.keys[i])},
                      test.now_ms - 1, &lock) &&
            lock.expires_ms == test.now_ms)
            return true;
    return false;
}

static void step(const struct request *request) {
    int64_t next_ms = node_next_expiry(test.twin), to_ms = test.now_ms + request->step_ms;
    /* To the end of the lock that ends next, or one millisecond beside it. */
    if (!test.slow && request->token == 0 && next_ms != INT64_MAX && next_ms > test.now_ms)
        to_ms = next_ms - 1 + (int64_t)draw(3);
    if (to_ms > test.now_ms) set_clocks(to_ms);
    while (!test.shared_stripes && ends_now()) set_clocks(test.now_ms + 1);
}

/* When an ended lock is taken out, its fence becomes the floor of its neighbours. The server's cron
 * does this at any time; here it happens at each step of the clock. (An unload is refused, because
 * there is a record, and ends first what is due.) */
static void end_all_due(void) {
    if (nonce_present() == NONCES) return;
    node_expire_due(test.twin, test.now_ms);
    redisReply *reply = ask(&test.native, "MODULE UNLOAD redlock");
    if (reply->type != REDIS_REPLY_ERROR) die("MODULE UNLOAD", "the module went");
    freeReplyObject(reply);
}

static void describe(const struct request *request) {
    printf("%s keys", op_names[request->op]);
    for (unsigned i = 0; i < request->count; i++) printf(" %u", request->key[i]);
    printf(", token %u, nonce %u, fenced %d, fence %" PRId64 ", ttl %" PRId64 ", step %" PRId64
           ", expected %u, kept %d to %d, floors %d\n",
           request->token, request->nonce, request->fenced, request->fence, request->ttl_ms,
           request->step_ms, request->expected, request->was_kept, request->keep, request->floors);
}

static bool differs(const char *who, const struct text *expected, const struct text *got) {
    if (strcmp(expected->text, got->text) == 0) return false;
    printf("the table says \"%s\", %s \"%s\"\n", expected->text, who, got->text);
    return true;
}

static bool agree(const struct request *request) {
    struct text expected = {0}, module = {0}, stock = {0};
    ask_twin(request, &expected);
    ask_native(request, &module);
    test.compared[1]++;
    if (differs("the module", &expected, &module)) return false;
    if (test.shared_stripes) return true;
    ask_stock(request, &stock);
    test.compared[2]++;
    return !differs("the stock server", &expected, &stock);
}

static void read_pairs(struct node *node, const char *command, const char *name,
                       int64_t fences[NODE_STRIPES]) {
    redisReply *reply = node == &test.native ? ask(node, "%s %s", command, name)
                                             : ask(node, "%s %s 0 -1 WITHSCORES", command, name);
    for (int i = 0; i < NODE_STRIPES; i++) fences[i] = reply->elements ? 0 : -1;
    for (size_t i = 0; i + 1 < reply->elements; i += 2) {
        const redisReply *stripe = reply->element[i], *fence = reply->element[i + 1];
        long at = stripe->type == REDIS_REPLY_INTEGER ? (long)stripe->integer : atol(stripe->str);
        if (at < 0 || at >= NODE_STRIPES) die("fences", "no such stripe");
        fences[at] = fence->type == REDIS_REPLY_INTEGER ? fence->integer : atoll(fence->str);
    }
    freeReplyObject(reply);
}

static bool fences_agree(uint64_t nonce, const char *name) {
    static int64_t module[NODE_STRIPES], stock[NODE_STRIPES];
    char key[48];
    const int64_t *expected = node_fences(test.twin, nonce);
    read_pairs(&test.native, "REDLOCK.FENCES", name, module);
    snprintf(key, sizeof key, "redlock:fences:%s", name);
    if (!test.shared_stripes) read_pairs(&test.stock, "ZRANGE", key, stock);
    for (int i = 0; i < NODE_STRIPES; i++) {
        int64_t wanted = expected ? expected[i] : -1;
        if (module[i] == wanted && (test.shared_stripes || stock[i] == wanted)) continue;
        printf("fences %s, stripe %d: table %" PRId64 ", module %" PRId64 ", stock %" PRId64 "\n",
               name, i, wanted, module[i], test.shared_stripes ? 0 : stock[i]);
        return false;
    }
    return true;
}

static bool all_agree(void) {
    char digits[17];
    for (unsigned i = 0; i < KEYS; i++) {
        struct request look = {.op = PTTL, .count = 1, .key = {i}},
                       value = {.op = GET, .count = 1, .key = {i}};
        if (!agree(&look) || !agree(&value)) return false;
    }
    for (unsigned i = 0; i < NONCES; i++) {
        nonce_text(i, digits);
        if (!fences_agree(nonces[i], digits)) return false;
    }
    return fences_agree(0, "kept");
}

/* Names of which some share a stripe, or none does. */
static void choose_keys(void) {
    unsigned found = 0;
    for (unsigned i = (unsigned)draw(1000000); found < KEYS; i++) {
        snprintf(test.keys[found], sizeof test.keys[0], "key:%u", i);
        uint16_t stripe =
            (uint16_t)(rl_fnv1a(RL_FNV_BASIS, test.keys[found], strlen(test.keys[found])) %
                       NODE_STRIPES);
        unsigned sharing = 0;
        for (unsigned k = 0; k < found; k++) sharing += test.stripes[k] == stripe;
        bool wanted = test.shared_stripes && found % 2 == 1
                          ? sharing == 1 && test.stripes[found - 1] == stripe
                          : sharing == 0;
        if (wanted) test.stripes[found++] = stripe;
    }
}

/* The servers go on as they are: what a sequence leaves ends, and its record is known. */
static bool sequence(void) {
    set_clocks(test.now_ms + 1000000);
    end_all_due();
    choose_keys();
    for (int i = 0; i < SEQUENCE; i++) {
        struct request request = draw_request();
        if (request.op == STEP) {
            step(&request);
            if (test.shared_stripes) end_all_due();
        } else if (!agree(&request)) {
            printf("at request %d: ", i);
            describe(&request);
            return false;
        }
        test.compared[0]++;
    }
    return all_agree();
}

static void load_scripts(void) {
    for (int i = 0; i < NODE_SCRIPTS_ALL; i++)
        freeReplyObject(
            ask(&test.stock, "SCRIPT LOAD %b", node_scripts[i].text, node_scripts[i].bytes));
}

static void set_option(const char *name, const char *value, const char **mirror,
                       unsigned long *requests) {
    if (strcmp(name, "--seed") == 0)
        test.random = strtoull(value, NULL, 10);
    else if (strcmp(name, "--requests") == 0)
        *requests = strtoul(value, NULL, 10);
    else if (strcmp(name, "--skew-ms") == 0)
        test.skew_ms = strtoll(value, NULL, 10);
    else if (strcmp(name, "--mirror") == 0)
        *mirror = value;
    else
        die("unknown option", name);
}

static bool run(unsigned long requests) {
    for (unsigned long i = 0; i < requests / SEQUENCE + 1; i++)
        if (!sequence()) {
            printf("differ in sequence %lu%s\n", i,
                   test.shared_stripes ? " with shared stripes" : "");
            return false;
        }
    return true;
}

int main(int argc, char **argv) {
    unsigned long requests = 30000;
    const char *mirror = "no";
    struct timespec now;
    if (argc < 4 || argc % 2 != 0)
        die("usage", "differential MODULE STEPCLOCK BOOTCLOCK [options]");
    test.random = 1;
    for (int i = 4; i < argc; i += 2) set_option(argv[i], argv[i + 1], &mirror, &requests);
    test.slow = strcmp(mirror, "yes") == 0;
    /* Far ahead of the true clock, so that the kernel's timer never fires: only requests end
     * leases. */
    clock_gettime(CLOCK_BOOTTIME, &now);
    test.now_ms = test.begin_ms = (now.tv_sec + 1000000) * 1000;
    const bool permission = servers_version() >= 700; /* before, MODULE needs none */
    const char *const with_module[] = {"--hz",
                                       "1",
                                       "--dynamic-hz",
                                       "no",
                                       "--loadmodule",
                                       argv[1],
                                       "mirror",
                                       mirror,
                                       permission ? "--enable-module-command" : NULL,
                                       "local",
                                       NULL};
    start(&test.stock, argv[2], "STEPCLOCK_FILE", 1700000000000000, NULL);
    start(&test.native, argv[3], "BOOTCLOCK_FILE", test.now_ms * 1000, with_module);
    load_scripts();
    test.twin = node_table_open(&(struct node_options){.native = true});
    if (!test.twin) die("table", "no memory");
    bool same = run(requests / 2);
    if (same) {
        test.shared_stripes = true;
        same = run(requests / 2);
    }
    if (same)
        printf(
            "%lu requests: the module agrees with the table on %lu answers, both agree with a stock server on %lu\n",
            test.compared[0], test.compared[1], test.compared[2]);
    redisFree(test.stock.connection);
    redisFree(test.native.connection);
    server_stop(&test.stock.server);
    server_stop(&test.native.server);
    node_table_free(test.twin);
    return same ? 0 : 1;
}
