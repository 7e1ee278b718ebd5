/* SPDX-License-Identifier: BSD-2-Clause
 * Requests as commands, and replies as answers. */
#ifndef RL_NET_COMMAND_H
#define RL_NET_COMMAND_H

#include "net/buffer.h"
#include "net/net.h"
#include "net/reader.h"

enum { COMMAND_WORDS_MAX = 144, COMMAND_NUMBERS_MAX = 72 };

struct words {
    int count;
    const char *word[COMMAND_WORDS_MAX];
    size_t bytes[COMMAND_WORDS_MAX];
    char number[COMMAND_NUMBERS_MAX][24];
    unsigned numbers;
    int named; /* the word that ends with the node's nonce; 0: none */
};

void words_begin(struct words *words, const char *command);
void words_text(struct words *words, const char *text);
void words_bytes(struct words *words, struct net_bytes bytes);
void words_number(struct words *words, uint64_t number);
/* Formats the command behind what is in the buffer; false: no memory or above `limit`. */
bool words_end(const struct words *words, struct buffer *out, size_t limit);

/* The request as one or more commands, with the nonce of `node` where it is guarded. Scripts go as
 * EVALSHA, or with `whole_script` as EVAL. `nonce_at` is how far before the end the nonce begins;
 * 0: all nodes are sent the same. */
bool command_encode(const struct net_request *request, unsigned node, bool whole_script,
                    struct buffer *out, size_t limit, size_t *nonce_at);
/* Puts another node's nonce into what was encoded; nothing else differs between nodes. */
void command_for_node(const struct net_request *request, unsigned node, size_t nonce_at,
                      struct buffer *encoded);
bool command_is_guarded(const struct net_request *request); /* only a guarded net can send it */
/* It needs a script, or where that is refused (never if it is guarded) a transaction. */
bool command_needs_script(const struct net_request *request);
unsigned command_replies(const struct net_request *request); /* how many replies answer it */
/* Nearly all that is sent: a classic SET, or a script that extends or releases. */
static inline bool command_is_plain(const struct net_request *request) {
    if (request->nonces || (request->op == NET_ACQUIRE && request->scheme)) return false;
    return request->op == NET_EXTEND || request->op == NET_RELEASE ||
           (request->op == NET_ACQUIRE && request->keys_count == 1);
}
/* What command_answer() makes of the ordinary replies to those, without a look at the request;
 * false: another reply. */
bool command_answer_plain(enum net_op op, const struct reader *reader, struct net_reply *answer);
/* The vote of guarded mode on one key: SET, and ZADD behind it. */
static inline bool command_is_vote(const struct net_request *request) {
    return request->op == NET_ACQUIRE && request->nonces && request->keys_count == 1;
}
/* The same for its reply `nth`: "+OK", and then ":1" or ":0". */
bool command_answer_vote(unsigned nth, const struct reader *reader, struct net_reply *answer);
/* Where that is put which an answer only points to: the fences of NET_FENCES, RL_STRIPES of them;
 * NET_STATE's state, which stays from its first reply to its last. NULL: neither is asked for. */
struct answer_room {
    int64_t *fences;
    struct net_state *state;
};
/* Adds reply `nth` to the answer. False: not a reply to this request; the connection cannot be
 * trusted. (answer.c) */
bool command_answer(const struct net_request *request, unsigned nth, const struct reader *reader,
                    struct answer_room room, struct net_reply *answer);

#endif
