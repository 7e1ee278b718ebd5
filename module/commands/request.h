/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Reads the words of a request, strictly. A function that finds something wrong replies with the
 * error itself and returns false. */
#ifndef MODULE_REQUEST_H
#define MODULE_REQUEST_H

#include "state/state.h"

struct words {
    struct server_ctx *ctx;
    struct server_string **argv;
    int count, next; /* the word that is read next; the command's name is word 0 */
};

/* What most requests are made of; the parts that the command does not have are 0. */
struct request {
    struct node_bytes keys[KEYS_MAX];
    size_t keys_count;
    struct node_bytes token;
    int64_t ttl_ms;
    bool fenced;
    uint64_t nonce;
    int64_t fence;
    uint16_t stripes[NODE_STRIPES];
    size_t stripes_count;
    struct node_waiter waiter; /* no name: it does not wait */
};

/* Begins a command that is declared write: sets node.ctx and the time. Refuses where may_vote()
 * does, and in another database than the node's. */
bool begin_vote(struct words *words, struct server_ctx *ctx, struct server_string **argv, int argc);
/* Begins one that is declared readonly, and changes nothing; a replica answers it too. */
bool begin_look(struct words *words, struct server_ctx *ctx, struct server_string **argv, int argc);
/* Refuses on a replica, and while the server loads its data. */
bool may_vote(const struct words *words);

struct node_bytes bytes_of(const struct server_string *string);
bool is_word(struct node_bytes bytes, const char *word); /* in capital or small letters */
int refuse(struct server_ctx *ctx, const char *error);   /* replies; SERVER_OK */

bool read_keys(struct words *words, struct request *request, long long least);
bool read_key(struct words *words, struct request *request); /* one, without numkeys */
bool read_token(struct words *words, struct request *request);
bool read_ttl(struct words *words, struct request *request);
/* FENCE=nonce:fence:stripe,stripe... as the last word: in one, since each costs the server time. */
bool read_fence(struct words *words, struct request *request);
/* The same, or nothing at all. */
bool read_fence_if_any(struct words *words, struct request *request);
/* Both as the last word: ttl-ms, or ttl-ms:nonce:fence:stripe,stripe... */
bool read_ttl_and_fence(struct words *words, struct request *request);
/* The same, where each slot has a stripe, and several may have the same one. */
bool read_ttl_and_stripes(struct words *words, struct request *request);
/* The last words: WAITER, name, since-us, waited-us and remember-us; or nothing. */
bool read_waiter_if_any(struct words *words, struct request *request);
/* The four after WAITER. */
bool read_waiter(struct words *words, struct node_waiter *waiter);
bool read_end(struct words *words); /* there are no more words */

/* 16 hex digits that are not all 0. */
bool parse_nonce(struct node_bytes digits, uint64_t *nonce);
/* A decimal number from 0 to `most`, digits only. *at moves behind it. */
bool parse_number(const char **at, const char *end, int64_t most, int64_t *number);

/* For a command whose keys begin after numkeys: tells the server where they are. */
int key_positions(struct server_ctx *ctx, struct server_string **argv, int argc);

#endif
