/* SPDX-License-Identifier: BSD-2-Clause
 *
 * For observers: REDLOCK.PTTL, GET, SCAN. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "commands/commands.h"
#include "commands/glob.h"
#include "state/mirror.h"
#include "commands/request.h"

static const struct node_bytes no_token = {"", 0};

static int pttl(struct server_ctx *ctx, struct server_string **argv, int argc) {
    struct words words;
    if (argc != 2) return server.WrongArity(ctx);
    if (!begin_look(&words, ctx, argv, argc)) return SERVER_OK;
    int64_t left_ms = node_pttl(node.table, bytes_of(argv[1]), node.now_ms);
    if (left_ms == -2) {
        const struct outside_key *found = mirror_look(argv[1], no_token);
        if (found->what != OUTSIDE_NONE) left_ms = found->left_ms;
    }
    server.ReplyWithLongLong(ctx, left_ms);
    return SERVER_OK;
}

static int reply_bytes(struct server_ctx *ctx, struct node_bytes bytes, long long most) {
    size_t shown = bytes.bytes < (size_t)most ? bytes.bytes : (size_t)most;
    server.ReplyWithStringBuffer(ctx, shown ? bytes.data : "", shown);
    return SERVER_OK;
}

static int get(struct server_ctx *ctx, struct server_string **argv, int argc) {
    struct words words;
    struct node_lock lock;
    long long most;
    if (argc != 3) return server.WrongArity(ctx);
    if (!begin_look(&words, ctx, argv, argc)) return SERVER_OK;
    if (server.StringToLongLong(argv[2], &most) != SERVER_OK || most < 0)
        return refuse(ctx, "ERR redlock: max-bytes is not a number of bytes");
    if (node_look(node.table, bytes_of(argv[1]), node.now_ms, &lock))
        return reply_bytes(ctx, lock.token, most);
    const struct outside_key *found = mirror_look(argv[1], no_token);
    if (found->what == OUTSIDE_OTHER_TYPE)
        return refuse(ctx, "WRONGTYPE Operation against a key holding the wrong kind of value");
    size_t bytes = found->what == OUTSIDE_STRING ? found->shown_bytes : 0;
    return reply_bytes(ctx, (struct node_bytes){found->shown, bytes}, most);
}

/* ---- scan ---- */

/* First the table, then, with the mirror, the keyspace. A cursor is twice that of the part, plus 1
 * in the second; so 0 begins the first, 1 the second. */
enum { COUNT_USUAL = 10, COUNT_MAX = 1000 };

struct scan {
    struct server_ctx *ctx;
    uint64_t cursor;
    struct node_bytes pattern; /* no data: all */
    long long count, found;
};

static void visit(void *context, const struct node_lock *lock) {
    struct scan *scan = context;
    if (scan->pattern.data && !glob_matches(scan->pattern, lock->key)) return;
    server.ReplyWithStringBuffer(scan->ctx, lock->key.bytes ? lock->key.data : "", lock->key.bytes);
    scan->found++;
}

static uint64_t next_cursor(uint64_t of_part, bool of_keyspace) {
    if (of_keyspace) return of_part ? 2 * of_part + 1 : 0;
    if (of_part) return 2 * of_part;
    return node.mirror ? 1 : 0;
}

static void reply_cursor(struct scan *scan, uint64_t cursor) {
    char text[24];
    int bytes = snprintf(text, sizeof text, "%" PRIu64, cursor);
    server.ReplyWithStringBuffer(scan->ctx, text, (size_t)bytes);
}

/* The cursor is known after the keys, and comes before them in the reply. */
static void count_visit(void *context, const struct node_lock *lock) {
    (void)context;
    (void)lock;
}

static void scan_table(struct scan *scan) {
    uint64_t from = scan->cursor / 2, next;
    next = node_scan(node.table, from, (size_t)scan->count, node.now_ms, count_visit, NULL);
    reply_cursor(scan, next_cursor(next, false));
    server.ReplyWithArray(scan->ctx, SERVER_LENGTH_LATER);
    node_scan(node.table, from, (size_t)scan->count, node.now_ms, visit, scan);
    server.ReplySetArrayLength(scan->ctx, (long)scan->found);
}

/* What is in the table too is a mirror, and was found there. */
static void reply_strangers(struct scan *scan, struct server_reply *keys) {
    struct node_lock lock;
    server.ReplyWithArray(scan->ctx, SERVER_LENGTH_LATER);
    for (size_t i = 0; keys && i < server.CallReplyLength(keys); i++) {
        struct node_bytes key;
        key.data = server.CallReplyStringPtr(server.CallReplyArrayElement(keys, i), &key.bytes);
        if (node_look(node.table, key, node.now_ms, &lock)) continue;
        server.ReplyWithStringBuffer(scan->ctx, key.data, key.bytes);
        scan->found++;
    }
    server.ReplySetArrayLength(scan->ctx, (long)scan->found);
}

static void scan_keyspace(struct scan *scan) {
    char from[24];
    size_t bytes = 0;
    snprintf(from, sizeof from, "%" PRIu64, scan->cursor / 2);
    struct server_reply *reply = server.Call(
        scan->ctx, "SCAN", "ccbcl", from, "MATCH", scan->pattern.data ? scan->pattern.data : "*",
        scan->pattern.data ? scan->pattern.bytes : 1, "COUNT", scan->count);
    struct server_reply *cursor = reply ? server.CallReplyArrayElement(reply, 0) : NULL;
    const char *digits = cursor ? server.CallReplyStringPtr(cursor, &bytes) : NULL;
    int64_t next = 0;
    if (digits) {
        const char *at = digits;
        if (!parse_number(&at, digits + bytes, INT64_MAX / 10 - 9, &next)) next = 0;
    }
    server.ReplyWithArray(scan->ctx, 2);
    reply_cursor(scan, next_cursor((uint64_t)next, true));
    reply_strangers(scan, reply ? server.CallReplyArrayElement(reply, 1) : NULL);
    if (reply) server.FreeCallReply(reply);
}

static bool read_scan(struct scan *scan, struct server_string **argv, int argc) {
    struct node_bytes cursor = bytes_of(argv[1]);
    const char *at = cursor.data;
    int64_t number;
    if (!parse_number(&at, at + cursor.bytes, INT64_MAX / 10 - 9, &number) ||
        at != (const char *)cursor.data + cursor.bytes ||
        (number % 2 == 0 && number / 2 > UINT32_MAX)) { /* those of the table are below 2^32 */
        refuse(scan->ctx, "ERR invalid cursor");
        return false;
    }
    scan->cursor = (uint64_t)number;
    for (int i = 2; i + 1 < argc; i += 2) {
        if (is_word(bytes_of(argv[i]), "MATCH")) {
            scan->pattern = bytes_of(argv[i + 1]);
        } else if (!is_word(bytes_of(argv[i]), "COUNT") ||
                   server.StringToLongLong(argv[i + 1], &scan->count) != SERVER_OK ||
                   scan->count < 1) {
            refuse(scan->ctx, "ERR syntax error");
            return false;
        }
    }
    if (scan->count > COUNT_MAX) scan->count = COUNT_MAX;
    return true;
}

static int scan(struct server_ctx *ctx, struct server_string **argv, int argc) {
    struct words words;
    struct scan scan = {.ctx = ctx, .count = COUNT_USUAL};
    if (argc < 2 || argc % 2 != 0) return server.WrongArity(ctx);
    if (!begin_look(&words, ctx, argv, argc) || !read_scan(&scan, argv, argc)) return SERVER_OK;
    if (scan.cursor % 2 == 1) {
        scan_keyspace(&scan);
    } else {
        server.ReplyWithArray(ctx, 2);
        scan_table(&scan);
    }
    return SERVER_OK;
}

const struct command look_commands[] = {
    {"redlock.pttl", pttl, "readonly fast", ONE_KEY, SERVER_KEY_RO | SERVER_KEY_ACCESS, 2,
     "How long a lock lasts if nobody extends it, in milliseconds", "O(1)"},
    {"redlock.get", get, "readonly fast", ONE_KEY, SERVER_KEY_RO | SERVER_KEY_ACCESS, 3,
     "The first bytes of the holder's token", "O(1)"},
    {"redlock.scan", scan, "readonly", NO_KEYS, 0, -2, "The keys of the locks, as SCAN",
     "O(1) for each call"},
    {0}};
