/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The votes: REDLOCK.ACQUIRE, EXTEND, RELEASE, RAISE, BREAK, CONFIRM. They return what the scripts
 * of src/node return. */
#include "commands/answers.h"
#include "commands/commands.h"
#include "state/ends.h"
#include "state/mirror.h"
#include "commands/request.h"

#include <string.h>

static struct request request; /* large; one command runs at a time */

static bool same_token(struct node_bytes a, struct node_bytes b) {
    return a.bytes == b.bytes && (a.bytes == 0 || memcmp(a.data, b.data, a.bytes) == 0);
}

static void put_mirrors(void) {
    if (!node.mirror) return;
    for (size_t i = 0; i < request.keys_count; i++) {
        int64_t left_ms = node_pttl(node.table, request.keys[i], node.now_ms);
        if (left_ms > 0) mirror_put(node.names[i], request.token, left_ms);
    }
}

/* The words of ACQUIRE and EXTEND. */
static bool read_vote(struct server_ctx *ctx, struct server_string **argv, int argc,
                      bool may_wait) {
    struct words words;
    return begin_vote(&words, ctx, argv, argc) && read_keys(&words, &request, 1) &&
           read_token(&words, &request) && read_ttl(&words, &request) &&
           (!may_wait || read_waiter_if_any(&words, &request)) &&
           read_fence_if_any(&words, &request);
}

/* ---- acquire ---- */

static int vote(struct server_ctx *ctx) {
    const struct node_fence_request fences = {request.nonce, request.fence, request.stripes,
                                              request.stripes_count};
    struct node_turn turn = {.rank = -1};
    enum node_answer answer = node_acquire_in_turn(
        node.table, node.queue, request.keys, request.keys_count, request.token, request.ttl_ms,
        request.fenced ? &fences : NULL, &request.waiter, node.now_us, &turn);
    ends_changed();
    if (answer == NODE_NO_MEMORY) return reply_no_memory(ctx);
    if (answer == NODE_DENIED && turn.reserved)
        return reply_denied(ctx, (turn.left_us + 999) / 1000, turn.rank,
                            (struct node_bytes){"", 0});
    if (answer == NODE_DENIED && denied_by_table(ctx, &request, turn.rank)) return SERVER_OK;
    for (size_t i = 0; i < request.keys_count; i++)
        mirror_put(node.names[i], request.token, request.ttl_ms);
    ends_changed();
    bool granted = answer == NODE_GRANTED;
    ++*(granted ? &node.counts.granted : &node.counts.stale);
    return reply_integer(ctx, !granted ? -1 : turn.others ? 2 : 1);
}

static int acquire(struct server_ctx *ctx, struct server_string **argv, int argc) {
    if (server.IsKeysPositionRequest(ctx)) return key_positions(ctx, argv, argc);
    if (!read_vote(ctx, argv, argc, true)) return SERVER_OK;
    if (!denied_by_stranger(ctx, &request)) vote(ctx);
    mirror_close();
    return SERVER_OK;
}

/* REDLOCK.LOCK key token ttl-ms[:nonce:fence:stripe]: an ACQUIRE of one key in four words instead
 * of six. The server makes an object of each word, and that is a good part of what a vote costs. */
static int lock_one(struct server_ctx *ctx, struct server_string **argv, int argc) {
    struct words words;
    if (!begin_vote(&words, ctx, argv, argc) || !read_key(&words, &request) ||
        !read_token(&words, &request) || !read_ttl_and_fence(&words, &request))
        return SERVER_OK;
    request.waiter = (struct node_waiter){.name = {"", 0}}; /* not that of the request before */
    if (!denied_by_stranger(ctx, &request)) vote(ctx);
    mirror_close();
    return SERVER_OK;
}

/* ---- extend ---- */

/* What the table does not hold, the keyspace may: a lock of the process before this one, that came
 * back with the data. Classic locks live on in it; a fence does not. */
enum outside_answer { ALL_OURS, ONE_ABSENT, ONE_FOREIGN, ONE_OF_OTHER_TYPE, NO_ROOM };

static enum outside_answer judge_outside(void) {
    struct node_lock lock;
    bool absent = false;
    for (size_t i = 0; i < request.keys_count; i++) {
        if (node_look(node.table, request.keys[i], node.now_ms, &lock)) {
            if (!same_token(lock.token, request.token)) return ONE_FOREIGN;
            continue;
        }
        const struct outside_key *found = mirror_look(node.names[i], request.token);
        if (found->what == OUTSIDE_OTHER_TYPE) return ONE_OF_OTHER_TYPE;
        if (found->what == OUTSIDE_STRING && !found->same_token) return ONE_FOREIGN;
        if (found->what == OUTSIDE_NONE || request.fenced) absent = true;
    }
    return absent ? ONE_ABSENT : ALL_OURS;
}

/* Never shorter than what is left; but a key without an end gets one, because a lock must end. */
static enum outside_answer adopt(void) {
    struct node_lock lock;
    for (size_t i = 0; i < request.keys_count; i++) {
        if (node_look(node.table, request.keys[i], node.now_ms, &lock)) continue;
        int64_t left_ms = mirror_look(node.names[i], request.token)->left_ms;
        int64_t ttl_ms = left_ms > request.ttl_ms ? left_ms : request.ttl_ms;
        if (node_acquire(node.table, &request.keys[i], 1, request.token, ttl_ms, node.now_ms) !=
            NODE_GRANTED)
            return NO_ROOM;
        node.counts.adopted++;
    }
    ends_changed();
    return ALL_OURS;
}

static enum node_answer extend_in_table(void) {
    return request.fenced
               ? node_extend_guarded(node.table, request.keys, request.keys_count, request.token,
                                     request.ttl_ms, request.nonce, request.fence, request.stripes,
                                     request.stripes_count, node.now_ms)
               : node_extend(node.table, request.keys, request.keys_count, request.token,
                             request.ttl_ms, node.now_ms);
}

static int extended(struct server_ctx *ctx) {
    put_mirrors();
    node.counts.extended++;
    return reply_integer(ctx, 1);
}

static int extend(struct server_ctx *ctx, struct server_string **argv, int argc) {
    if (server.IsKeysPositionRequest(ctx)) return key_positions(ctx, argv, argc);
    if (!read_vote(ctx, argv, argc, false)) return SERVER_OK;
    enum node_answer answer = extend_in_table();
    if (answer == NODE_GRANTED) return extended(ctx);
    if (answer == NODE_GONE) return reply_integer(ctx, -2);
    if (!node.mirror) return reply_integer(ctx, answer == NODE_DENIED ? -1 : 0);
    enum outside_answer outside = judge_outside();
    if (outside == ALL_OURS) outside = adopt();
    switch (outside) {
    case ALL_OURS: break;
    case ONE_ABSENT: return reply_integer(ctx, 0);
    case ONE_FOREIGN: return reply_integer(ctx, -1);
    case ONE_OF_OTHER_TYPE: return reply_wrong_type(ctx);
    case NO_ROOM: return reply_no_memory(ctx);
    }
    return extend_in_table() == NODE_GRANTED ? extended(ctx) : reply_integer(ctx, 0);
}

/* ---- release ---- */

struct released {
    size_t deleted, foreign, other_type;
};

static void release_outside(size_t i, struct released *released) {
    const struct outside_key *found = mirror_look(node.names[i], request.token);
    if (found->what == OUTSIDE_OTHER_TYPE) {
        released->other_type++;
    } else if (found->what == OUTSIDE_STRING && !found->same_token) {
        released->foreign++;
    } else if (found->what == OUTSIDE_STRING && mirror_drop(node.names[i], request.token)) {
        server.SignalModifiedKey(node.ctx, node.names[i]);
        released->deleted++;
    }
}

/* Each key for itself. */
static int release_keys(struct server_ctx *ctx) {
    struct released released = {0};
    for (size_t i = 0; i < request.keys_count; i++) {
        enum node_answer answer =
            node_release(node.table, &request.keys[i], 1, request.token, node.now_ms);
        if (answer == NODE_GRANTED)
            released.deleted++;
        else if (answer == NODE_DENIED)
            released.foreign++;
        else
            release_outside(i, &released);
    }
    ends_changed();
    node.counts.released += released.deleted;
    if (released.other_type) return reply_wrong_type(ctx);
    return reply_integer(ctx, released.foreign ? -1 : released.deleted ? 1 : 0);
}

static int release(struct server_ctx *ctx, struct server_string **argv, int argc) {
    struct words words;
    if (server.IsKeysPositionRequest(ctx)) return key_positions(ctx, argv, argc);
    if (!begin_vote(&words, ctx, argv, argc) || !read_keys(&words, &request, 1) ||
        !read_token(&words, &request) || !read_end(&words))
        return SERVER_OK;
    return release_keys(ctx);
}

/* REDLOCK.UNLOCK key token: a RELEASE of one key. */
static int unlock_one(struct server_ctx *ctx, struct server_string **argv, int argc) {
    struct words words;
    if (!begin_vote(&words, ctx, argv, argc) || !read_key(&words, &request) ||
        !read_token(&words, &request) || !read_end(&words))
        return SERVER_OK;
    return release_keys(ctx);
}

/* ---- raise, confirm ---- */

static int raise_fence(struct server_ctx *ctx, struct server_string **argv, int argc) {
    struct words words;
    int64_t highest = 0;
    if (server.IsKeysPositionRequest(ctx)) return key_positions(ctx, argv, argc);
    if (!begin_vote(&words, ctx, argv, argc) || !read_keys(&words, &request, 1) ||
        !read_token(&words, &request) || !read_fence(&words, &request))
        return SERVER_OK;
    switch (node_raise(node.table, request.keys, request.keys_count, request.token, request.nonce,
                       request.fence, request.stripes, request.stripes_count, node.now_ms,
                       &highest)) {
    case NODE_GRANTED: return reply_integer(ctx, 0);
    case NODE_GONE: return reply_integer(ctx, -2);
    case NODE_STALE: node.counts.stale++; return reply_integer(ctx, highest);
    default: return reply_integer(ctx, -1);
    }
}

/* REDLOCK.BREAK key token FENCE=... */
static int break_lock(struct server_ctx *ctx, struct server_string **argv, int argc) {
    struct words words;
    struct released outside = {0};
    int64_t highest = 0;
    if (!begin_vote(&words, ctx, argv, argc) || !read_key(&words, &request) ||
        !read_token(&words, &request) || !read_fence(&words, &request))
        return SERVER_OK;
    switch (node_break(node.table, request.keys[0], request.token, request.nonce, 0, request.fence,
                       request.stripes, request.stripes_count, node.now_ms, &highest)) {
    case NODE_GONE: return reply_integer(ctx, -2);
    case NODE_STALE: node.counts.stale++; return reply_integer(ctx, highest);
    case NODE_DENIED: return reply_integer(ctx, -1);
    case NODE_ABSENT: release_outside(0, &outside); break;
    default: outside.deleted = 1; break;
    }
    ends_changed();
    node.counts.released += outside.deleted;
    if (outside.other_type) return reply_wrong_type(ctx);
    return reply_integer(ctx, outside.foreign ? -1 : outside.deleted ? -3 : 0);
}

static int confirm(struct server_ctx *ctx, struct server_string **argv, int argc) {
    struct words words;
    if (server.IsKeysPositionRequest(ctx)) return key_positions(ctx, argv, argc);
    if (!begin_look(&words, ctx, argv, argc) || !may_vote(&words) ||
        !read_keys(&words, &request, 1) || !read_token(&words, &request) ||
        !read_fence(&words, &request))
        return SERVER_OK;
    switch (node_confirm(node.table, request.keys, request.keys_count, request.token, request.nonce,
                         request.fence, request.stripes, request.stripes_count, node.now_ms)) {
    case NODE_GRANTED: return reply_integer(ctx, 1);
    case NODE_GONE: return reply_integer(ctx, -2);
    default: return reply_integer(ctx, 0);
    }
}

const struct command lock_commands[] = {
    {"redlock.acquire", acquire, "write deny-oom fast getkeys-api", KEYS_COUNTED,
     SERVER_KEY_RW | SERVER_KEY_ACCESS | SERVER_KEY_INSERT, -5, "Takes a lock on all keys, or none",
     "O(N), N: keys and stripes"},
    {"redlock.extend", extend, "write fast getkeys-api", KEYS_COUNTED,
     SERVER_KEY_RW | SERVER_KEY_ACCESS | SERVER_KEY_UPDATE, -5,
     "Extends a lock that the token holds; never shortens it", "O(N), N: keys and stripes"},
    {"redlock.release", release, "write fast getkeys-api", KEYS_COUNTED,
     SERVER_KEY_RW | SERVER_KEY_ACCESS | SERVER_KEY_DELETE, -4,
     "Releases the keys that the token holds", "O(N), N: keys"},
    {"redlock.raise", raise_fence, "write fast getkeys-api", KEYS_COUNTED,
     SERVER_KEY_RW | SERVER_KEY_ACCESS | SERVER_KEY_UPDATE, -5,
     "Raises the fences of keys that the token holds", "O(N), N: keys and stripes"},
    {"redlock.break", break_lock, "write fast", ONE_KEY,
     SERVER_KEY_RW | SERVER_KEY_ACCESS | SERVER_KEY_DELETE, 4,
     "Raises the fence of a key, and deletes it if the token holds it", "O(N), N: stripes"},
    {"redlock.confirm", confirm, "readonly fast getkeys-api", KEYS_COUNTED,
     SERVER_KEY_RO | SERVER_KEY_ACCESS, -5,
     "Do the keys and their fences still say what was voted?", "O(N), N: keys and stripes"},
    {"redlock.lock", lock_one, "write deny-oom fast", ONE_KEY,
     SERVER_KEY_RW | SERVER_KEY_ACCESS | SERVER_KEY_INSERT, 4,
     "REDLOCK.ACQUIRE of one key, in fewer words", "O(N), N: stripes"},
    {"redlock.unlock", unlock_one, "write fast", ONE_KEY,
     SERVER_KEY_RW | SERVER_KEY_ACCESS | SERVER_KEY_DELETE, 3,
     "REDLOCK.RELEASE of one key, in fewer words", "O(1)"},
    {0}};
