/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The wait queue: REDLOCK.WAIT, UNWAIT, QUEUE. Their replies are hints: only a vote takes a lock.
 * (An ACQUIRE with WAITER also enters the queue, and leaves it.) */
#include <string.h>

#include "commands/commands.h"
#include "state/ends.h"
#include "state/mirror.h"
#include "commands/request.h"
#include "commands/slots.h"

static struct request request; /* large; one command runs at a time */

enum { US_PER_MS = 1000 };
static const struct node_bytes no_token = {"", 0};

/* What the holder has left, or the reservation for another. -2: this waiter may try. */
static int64_t left_ms(const struct node_waiter *waiter) {
    int64_t left = node_pttl(node.table, request.keys[0], node.now_ms), left_us;
    if (waiter->reads && node_is_shared(node.table, request.keys[0], node.now_ms) &&
        node_queue_is_first(node.queue, request.keys[0], waiter, node.now_us))
        return -2;
    if (left != -2) return left;
    if (!node_queue_admits(node.queue, request.keys[0], waiter, node.now_us, &left_us))
        return (left_us + US_PER_MS - 1) / US_PER_MS;
    const struct outside_key *found = mirror_look(node.names[0], no_token);
    return found->what == OUTSIDE_NONE ? -2 : found->left_ms;
}

static int reply_place(struct server_ctx *ctx, int64_t rank, int64_t left) {
    ends_changed();
    server.ReplyWithArray(ctx, 2);
    server.ReplyWithLongLong(ctx, rank);
    server.ReplyWithLongLong(ctx, left);
    return SERVER_OK;
}

/* REDLOCK.WAIT resource:slot:1 waiter since-us waited-us remember-us SLOTS n: for any of n slots.
 */
static int wait_for_slot(struct words *words, const struct node_waiter *waiter) {
    static const char first[] = ":slot:1";
    enum { FIRST_BYTES = sizeof first - 1 };
    const struct node_bytes key = request.keys[0];
    struct node_bytes resource = key;
    struct slots slots;
    int64_t count, rank;
    if (!read_slot_count(words, &count) || !read_end(words)) return SERVER_OK;
    if (key.bytes >= FIRST_BYTES) resource.bytes -= FIRST_BYTES;
    if (key.bytes < FIRST_BYTES ||
        memcmp((const char *)key.data + resource.bytes, first, FIRST_BYTES) != 0)
        return refuse(words->ctx, "ERR redlock: SLOTS: the key is not that of a first slot");
    if (!slots_look(words->ctx, resource, count, &slots)) return SERVER_OK;
    int64_t left =
        node_await_slot(node.table, node.queue, &slots.request, waiter, node.now_us, &rank);
    if (left == -1) left = slots.outside_ms;
    return reply_place(words->ctx, rank, left);
}

static int wait_in_turn(struct server_ctx *ctx, struct server_string **argv, int argc) {
    struct words words;
    struct node_waiter waiter;
    if (argc < 6 || argc > 8) return server.WrongArity(ctx);
    if (!begin_vote(&words, ctx, argv, argc) || !read_key(&words, &request) ||
        !read_waiter(&words, &waiter))
        return SERVER_OK;
    const struct node_bytes kind = argc > 6 ? bytes_of(argv[6]) : no_token;
    words.next++;
    if (argc == 8 && is_word(kind, "SLOTS")) return wait_for_slot(&words, &waiter);
    waiter.reads = argc == 7 && is_word(kind, "SHARED");
    if (argc > 6 && !waiter.reads) return refuse(ctx, "ERR syntax error");
    node_expire_key(node.table, request.keys[0], node.now_ms); /* it is reserved for the first */
    int64_t rank = node_queue_enter(node.queue, request.keys[0], &waiter, node.now_us);
    return reply_place(ctx, rank, left_ms(&waiter));
}

static int unwait(struct server_ctx *ctx, struct server_string **argv, int argc) {
    struct words words;
    if (argc != 4) return server.WrongArity(ctx);
    if (!begin_vote(&words, ctx, argv, argc) || !read_key(&words, &request)) return SERVER_OK;
    struct node_bytes waiter = bytes_of(argv[2]), skip = bytes_of(argv[3]);
    if (waiter.bytes < 1 || waiter.bytes > WAITER_BYTES_MAX)
        return refuse(ctx, "ERR redlock: a waiter's name has 1 to 128 bytes");
    if (!is_word(skip, "0") && !is_word(skip, "1"))
        return refuse(ctx, "ERR redlock: skip is 0 or 1");
    size_t remain = node_leave_turn(node.table, node.queue, request.keys[0], waiter,
                                    is_word(skip, "1"), node.now_us);
    ends_changed();
    server.ReplyWithLongLong(ctx, (long long)remain);
    return SERVER_OK;
}

static int queue(struct server_ctx *ctx, struct server_string **argv, int argc) {
    struct words words;
    int64_t age_us = 0;
    if (argc != 2) return server.WrongArity(ctx);
    if (!begin_look(&words, ctx, argv, argc) || !read_key(&words, &request)) return SERVER_OK;
    size_t waiters = node_queue_peek(node.queue, request.keys[0], node.now_us, &age_us);
    server.ReplyWithArray(ctx, 2);
    server.ReplyWithLongLong(ctx, (long long)waiters);
    server.ReplyWithLongLong(ctx, age_us);
    return SERVER_OK;
}

const struct command turn_commands[] = {
    {"redlock.wait", wait_in_turn, "write deny-oom fast", ONE_KEY,
     SERVER_KEY_RW | SERVER_KEY_ACCESS | SERVER_KEY_INSERT, -6,
     "Enters the wait queue of a lock, or stays in it", "O(log(N)), N: waiters"},
    {"redlock.unwait", unwait, "write fast", ONE_KEY,
     SERVER_KEY_RW | SERVER_KEY_ACCESS | SERVER_KEY_DELETE, 4, "Leaves the wait queue of a lock",
     "O(log(N)), N: waiters"},
    {"redlock.queue", queue, "readonly fast", ONE_KEY, SERVER_KEY_RO | SERVER_KEY_ACCESS, 2,
     "How many wait for a lock, and for how long the first of them has waited",
     "O(log(N)), N: waiters"},
    {0}};
