/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The wait queue: REDLOCK.WAIT, UNWAIT, QUEUE. Their replies are hints: only a vote takes a lock.
 * (An ACQUIRE with WAITER also enters the queue, and leaves it.) */
#include "commands.h"
#include "ends.h"
#include "mirror.h"
#include "request.h"

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

static int wait_in_turn(struct server_ctx *ctx, struct server_string **argv, int argc) {
    struct words words;
    struct node_waiter waiter;
    if (argc != 6 && argc != 7) return server.WrongArity(ctx);
    if (!begin_vote(&words, ctx, argv, argc) || !read_key(&words, &request) ||
        !read_waiter(&words, &waiter))
        return SERVER_OK;
    waiter.reads = argc == 7;
    if (waiter.reads && !is_word(bytes_of(argv[6]), "SHARED"))
        return refuse(ctx, "ERR syntax error");
    node_expire_key(node.table, request.keys[0], node.now_ms); /* it is reserved for the first */
    int64_t rank = node_queue_enter(node.queue, request.keys[0], &waiter, node.now_us);
    int64_t left = left_ms(&waiter);
    ends_changed();
    server.ReplyWithArray(ctx, 2);
    server.ReplyWithLongLong(ctx, rank);
    server.ReplyWithLongLong(ctx, left);
    return SERVER_OK;
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
    size_t remain =
        node_queue_leave(node.queue, request.keys[0], waiter, is_word(skip, "1"), node.now_us);
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
