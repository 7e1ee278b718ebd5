/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Replies to votes; and strangers' keys, which deny them. Each returns SERVER_OK. */
#ifndef MODULE_ANSWERS_H
#define MODULE_ANSWERS_H

#include "commands/request.h"

int reply_integer(struct server_ctx *ctx, long long number);
int reply_no_memory(struct server_ctx *ctx);
int reply_wrong_type(struct server_ctx *ctx);
/* What the holder has left (-1: no end), the rank of the request's waiter (-1: none), and the
 * holder's token. */
int reply_denied(struct server_ctx *ctx, int64_t left_ms, int64_t rank, struct node_bytes token);
/* The first of the keys that the table holds. False: none, and there was no reply. */
bool denied_by_table(struct server_ctx *ctx, const struct request *request, int64_t rank);
/* The same for a key that only the keyspace has: it is a stranger's. */
bool denied_by_stranger(struct server_ctx *ctx, const struct request *request);

#endif
