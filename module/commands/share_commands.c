/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Shared locks: REDLOCK.SHARE, SHAREEXTEND, UNSHARE, READERS. They return what the scripts of
 * src/node return; a denied SHARE is answered as a denied ACQUIRE. Readers are in the table only:
 * the mirror of their lock is one key that holds the marker. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "commands/answers.h"
#include "commands/commands.h"
#include "state/ends.h"
#include "state/mirror.h"

static struct request request; /* large; one command runs at a time */

static const struct node_bytes marker = {NODE_SHARED_MARKER, sizeof NODE_SHARED_MARKER - 1};

static bool same(struct node_bytes a, struct node_bytes b) {
    return a.bytes == b.bytes && (a.bytes == 0 || memcmp(a.data, b.data, a.bytes) == 0);
}

/* A shared lock has one key, and so one stripe. */
static bool read_share(struct words *words, struct node_share *share) {
    if (!read_ttl_and_fence(words, &request)) return false;
    if (request.fenced && request.stripes_count != 1) {
        refuse(words->ctx, "ERR redlock: a shared lock has one stripe");
        return false;
    }
    *share = (struct node_share){.key = request.keys[0],
                                 .reader = request.token,
                                 .ttl_ms = request.ttl_ms,
                                 .guarded = request.fenced,
                                 .nonce = request.nonce,
                                 .fence = request.fence,
                                 .stripe = request.stripes[0]};
    return true;
}

static bool is_in_table(struct node_lock *lock) {
    return node_look(node.table, request.keys[0], node.now_ms, lock);
}

/* It lives as long as the last reader. */
static void put_marker(void) {
    int64_t left_ms = node_pttl(node.table, request.keys[0], node.now_ms);
    if (left_ms > 0) mirror_put(node.names[0], marker, left_ms);
}

static int vote(struct server_ctx *ctx, const struct node_share *share) {
    struct node_turn turn;
    int64_t fence = 0;
    enum node_answer answer = node_share_in_turn(node.table, node.queue, share, &request.waiter,
                                                 node.now_us, &fence, &turn);
    ends_changed();
    switch (answer) {
    case NODE_GONE: return reply_integer(ctx, -2);
    case NODE_NO_MEMORY: return reply_no_memory(ctx);
    case NODE_GRANTED: break;
    default:
        if (turn.reserved)
            return reply_denied(ctx, (turn.left_us + 999) / 1000, turn.rank,
                                (struct node_bytes){"", 0});
        denied_by_table(ctx, &request, turn.rank);
        return SERVER_OK;
    }
    put_marker();
    node.counts.granted++;
    return reply_integer(ctx, fence);
}

/* Readers hold the lock, and a stranger has its key meanwhile: their copy ended by the wall clock,
 * or was deleted. Those that are there stay; nobody joins them. */
static bool denied_by_strangers_copy(struct server_ctx *ctx) {
    if (!node.mirror || !node_is_shared(node.table, request.keys[0], node.now_ms) ||
        node_share_is_listed(node.table, request.keys[0], request.token, node.now_ms))
        return false;
    const struct outside_key *found = mirror_look_at_copy(node.names[0], marker);
    if (found->what == OUTSIDE_NONE || (found->what == OUTSIDE_STRING && found->same_token))
        return false;
    const size_t bytes = found->what == OUTSIDE_STRING ? found->shown_bytes : 0;
    reply_denied(ctx, found->left_ms, -1, (struct node_bytes){found->shown, bytes});
    return true;
}

/* REDLOCK.SHARE key token ttl-ms[:nonce:fence:stripe] [WAITER ...] */
static int share(struct server_ctx *ctx, struct server_string **argv, int argc) {
    struct words words;
    struct node_share what;
    if (!begin_vote(&words, ctx, argv, argc) || !read_key(&words, &request) ||
        !read_token(&words, &request) || !read_waiter_if_any(&words, &request) ||
        !read_share(&words, &what))
        return SERVER_OK;
    request.waiter.reads = true;
    if (!denied_by_strangers_copy(ctx) && !denied_by_stranger(ctx, &request)) vote(ctx, &what);
    mirror_close();
    return SERVER_OK;
}

/* What the table does not hold, the keyspace may. Its readers, if it has any, are of a process
 * before this one. */
static int not_in_table(struct server_ctx *ctx) {
    const struct outside_key *found = mirror_look(node.names[0], request.token);
    if (found->what == OUTSIDE_OTHER_TYPE) return reply_wrong_type(ctx);
    const bool anothers = found->what == OUTSIDE_STRING && !found->same_token &&
                          !same((struct node_bytes){found->shown, found->shown_bytes}, marker);
    return reply_integer(ctx, anothers ? -1 : 0);
}

static int extend(struct server_ctx *ctx, struct server_string **argv, int argc) {
    struct words words;
    struct node_share what;
    struct node_lock before;
    if (!begin_vote(&words, ctx, argv, argc) || !read_key(&words, &request) ||
        !read_token(&words, &request) || !read_share(&words, &what))
        return SERVER_OK;
    const bool held = is_in_table(&before), wrote = held && same(before.token, request.token);
    enum node_answer answer = node_share_extend_in_turn(node.table, node.queue, &what, node.now_us);
    ends_changed();
    switch (answer) {
    case NODE_GRANTED: break;
    case NODE_GONE: return reply_integer(ctx, -2);
    case NODE_NO_MEMORY: return reply_no_memory(ctx);
    case NODE_DENIED: return reply_integer(ctx, -1);
    default: return held ? reply_integer(ctx, 0) : not_in_table(ctx);
    }
    /* the marker takes the place of the writer's token there too */
    if (wrote) (void)mirror_drop(node.names[0], request.token);
    put_marker();
    node.counts.extended++;
    return reply_integer(ctx, 1);
}

/* A writer's key that came back with the data of the process before this one. */
static int release_outside(struct server_ctx *ctx) {
    const struct outside_key *found = mirror_look(node.names[0], request.token);
    if (found->what != OUTSIDE_STRING || !found->same_token) return not_in_table(ctx);
    if (!mirror_drop(node.names[0], request.token)) return reply_integer(ctx, 0);
    server.SignalModifiedKey(ctx, node.names[0]);
    node.counts.released++;
    return reply_integer(ctx, 1);
}

static int unshare(struct server_ctx *ctx, struct server_string **argv, int argc) {
    struct words words;
    struct node_lock before;
    if (!begin_vote(&words, ctx, argv, argc) || !read_key(&words, &request) ||
        !read_token(&words, &request) || !read_end(&words))
        return SERVER_OK;
    const struct node_share what = {.key = request.keys[0], .reader = request.token};
    const bool held = is_in_table(&before);
    enum node_answer answer = node_share_release(node.table, &what, node.now_ms);
    ends_changed();
    if (answer == NODE_DENIED) return reply_integer(ctx, -1);
    if (answer != NODE_GRANTED) return held ? reply_integer(ctx, 0) : release_outside(ctx);
    put_marker(); /* if others remain: it may end earlier now */
    node.counts.released++;
    return reply_integer(ctx, 1);
}

/* ---- who reads ---- */

enum { SHOWN_READER_BYTES = 1024, READERS_MAX = 10000 };

/* A page begins at a reader's end, and behind so many readers of that or a later end. So a reader
 * that extends meanwhile moves ahead of the walk, and is not missed. */
struct page {
    struct server_ctx *ctx;
    int64_t now_ms, from, skip, most;
    int64_t passed, shown; /* readers */
    int64_t last, same;    /* where it ends */
    bool replies;
};

static void reply_reader(const struct page *page, struct node_bytes reader, int64_t left_ms) {
    static char text[SHOWN_READER_BYTES + 24];
    const size_t bytes = reader.bytes < SHOWN_READER_BYTES ? reader.bytes : SHOWN_READER_BYTES;
    const int digits = snprintf(text, 24, "%" PRId64 " ", left_ms);
    if (bytes) memcpy(text + digits, reader.data, bytes);
    server.ReplyWithStringBuffer(page->ctx, text, (size_t)digits + bytes);
}

static void visit(void *context, struct node_bytes reader, int64_t expires_ms) {
    struct page *page = context;
    if (expires_ms < page->from || page->shown == page->most || page->passed++ < page->skip) return;
    if (expires_ms != page->last) page->same = 0;
    page->last = expires_ms;
    page->same++;
    page->shown++;
    if (page->replies) reply_reader(page, reader, expires_ms - page->now_ms);
}

/* The numbers come before the readers in the reply, and are known after them: it walks twice. */
static void reply_page(struct page *page, int64_t count) {
    struct page measured = *page;
    node_readers(node.table, request.keys[0], node.now_ms, visit, &measured);
    const bool full = measured.most > 0 && measured.shown == measured.most;
    server.ReplyWithArray(page->ctx, (long)(3 + measured.shown));
    server.ReplyWithLongLong(page->ctx, count);
    server.ReplyWithLongLong(page->ctx, full ? measured.last : 0);
    server.ReplyWithLongLong(page->ctx, full ? measured.same : 0);
    page->replies = true;
    node_readers(node.table, request.keys[0], node.now_ms, visit, page);
}

static bool read_page(struct page *page, struct server_string **argv) {
    long long number[3];
    for (int i = 0; i < 3; i++)
        if (server.StringToLongLong(argv[2 + i], &number[i]) != SERVER_OK || number[i] < 0)
            return false;
    page->most = number[0] < READERS_MAX ? number[0] : READERS_MAX;
    page->from = number[1];
    page->skip = number[2];
    if (page->from <= page->now_ms) page->from = page->skip = 0;
    page->last = page->from;
    page->same = page->skip;
    return true;
}

/* REDLOCK.READERS key most from skip */
static int readers(struct server_ctx *ctx, struct server_string **argv, int argc) {
    struct words words;
    int64_t count;
    if (argc != 5) return server.WrongArity(ctx);
    if (!begin_look(&words, ctx, argv, argc) || !read_key(&words, &request)) return SERVER_OK;
    struct page page = {.ctx = ctx, .now_ms = node.now_ms};
    if (!read_page(&page, argv))
        return refuse(ctx, "ERR redlock: most, from and skip are numbers from 0 on");
    request.token = (struct node_bytes){"", 0};
    switch (node_readers_count(node.table, request.keys[0], node.now_ms, &count)) {
    case NODE_GRANTED: reply_page(&page, count); return SERVER_OK;
    case NODE_ABSENT: return not_in_table(ctx);
    default: return reply_integer(ctx, -1);
    }
}

const struct command share_commands[] = {
    {"redlock.share", share, "write deny-oom fast", ONE_KEY,
     SERVER_KEY_RW | SERVER_KEY_ACCESS | SERVER_KEY_INSERT, -4,
     "Takes a place among the readers of a lock, or keeps it", "O(N), N: readers that end later"},
    {"redlock.shareextend", extend, "write fast", ONE_KEY,
     SERVER_KEY_RW | SERVER_KEY_ACCESS | SERVER_KEY_UPDATE, 4,
     "Extends a reader's place; a writer with this token becomes a reader",
     "O(N), N: readers that end later"},
    {"redlock.unshare", unshare, "write fast", ONE_KEY,
     SERVER_KEY_RW | SERVER_KEY_ACCESS | SERVER_KEY_DELETE, 3,
     "Leaves the readers of a lock; the last one releases it", "O(1)"},
    {"redlock.readers", readers, "readonly", ONE_KEY, SERVER_KEY_RO | SERVER_KEY_ACCESS, 5,
     "A page of the readers of a lock", "O(N), N: readers"},
    {0}};
