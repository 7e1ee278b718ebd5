/* SPDX-License-Identifier: BSD-2-Clause */
#include "commands/answers.h"

#include "state/mirror.h"

int reply_integer(struct server_ctx *ctx, long long number) {
    server.ReplyWithLongLong(ctx, number);
    return SERVER_OK;
}

int reply_no_memory(struct server_ctx *ctx) {
    node.counts.refused_no_memory++;
    return refuse(ctx, "OOM redlock: the lock table is full (option memory)");
}

int reply_wrong_type(struct server_ctx *ctx) {
    return refuse(ctx, "WRONGTYPE Operation against a key holding the wrong kind of value");
}

int reply_denied(struct server_ctx *ctx, int64_t left_ms, int64_t rank, struct node_bytes token) {
    size_t shown = token.bytes < SHOWN_TOKEN_BYTES ? token.bytes : SHOWN_TOKEN_BYTES;
    node.counts.denied++;
    server.ReplyWithArray(ctx, 4);
    server.ReplyWithLongLong(ctx, 0);
    server.ReplyWithLongLong(ctx, left_ms);
    server.ReplyWithLongLong(ctx, rank);
    server.ReplyWithStringBuffer(ctx, shown ? token.data : "", shown);
    return SERVER_OK;
}

bool denied_by_table(struct server_ctx *ctx, const struct request *request, int64_t rank) {
    struct node_lock lock;
    for (size_t i = 0; i < request->keys_count; i++) {
        if (!node_look(node.table, request->keys[i], node.now_ms, &lock)) continue;
        reply_denied(ctx, lock.expires_ms == INT64_MAX ? -1 : lock.expires_ms - node.now_ms, rank,
                     lock.token);
        return true;
    }
    return false;
}

/* A key in the keyspace is the mirror of a lock in the table, which will deny; or a stranger's. */
bool denied_by_stranger(struct server_ctx *ctx, const struct request *request) {
    struct node_lock lock;
    for (size_t i = 0; node.mirror && i < request->keys_count; i++) {
        bool is_free = mirror_is_free(node.names[i]);
        if (request->keys_count > 1) mirror_close(); /* it may be named twice */
        if (is_free) continue;
        if (node_look(node.table, request->keys[i], node.now_ms, &lock)) continue;
        const struct outside_key *found = mirror_look(node.names[i], request->token);
        if (found->what == OUTSIDE_NONE) continue;
        size_t bytes = found->what == OUTSIDE_STRING ? found->shown_bytes : 0;
        reply_denied(ctx, found->left_ms, -1, (struct node_bytes){found->shown, bytes});
        return true;
    }
    return false;
}
