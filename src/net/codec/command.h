/* SPDX-License-Identifier: BSD-2-Clause
 * Requests as commands, and replies as answers. */
#ifndef RL_NET_COMMAND_H
#define RL_NET_COMMAND_H

#include "net/codec/buffer.h"
#include "net/net.h"
#include "net/codec/reader.h"
#include "node/scripts.h"
#include "redlock.h"

enum { COMMAND_WORDS_MAX = 144, COMMAND_NUMBERS_MAX = 72 };

struct words {
    int count;
    const char *word[COMMAND_WORDS_MAX];
    size_t bytes[COMMAND_WORDS_MAX];
    char number[COMMAND_NUMBERS_MAX][24];
    unsigned numbers;
    int named;          /* the word that has the node's nonce; 0: none */
    size_t named_bytes; /* of that word, from the nonce on */
};

void words_begin(struct words *words, const char *command);
/* EVAL or, unless `whole`, EVALSHA; then the number of keys */
void words_script(struct words *words, enum node_script script, bool whole, size_t keys);
void words_text(struct words *words, const char *text);
void words_bytes(struct words *words, struct net_bytes bytes);
void words_number(struct words *words, uint64_t number);
/* Formats the command after the bytes in the buffer. False: no memory, or above `limit`. */
bool words_end(const struct words *words, struct buffer *out, size_t limit);

/* What kind of node a request is written for. */
enum command_style {
    COMMAND_STOCK, /* scripts go as EVALSHA ... */
    COMMAND_WHOLE, /* ... or as EVAL */
    COMMAND_NATIVE,
    COMMAND_DELEX,   /* one command in place of a script, on Redis ... */
    COMMAND_DELIFEQ, /* ... and on Valkey */
    COMMAND_STYLES
};
/* The request as one or more commands, with the nonce of `node` if it is guarded. `nonce_at` is how
 * far before the end the nonce begins; 0: all nodes of the kind get the same bytes. */
bool command_encode(const struct net_request *request, unsigned node, enum command_style style,
                    struct buffer *out, size_t limit, size_t *nonce_at);
/* Puts another node's nonce into the encoded bytes; nothing else differs between nodes. */
void command_for_node(const struct net_request *request, unsigned node, size_t nonce_at,
                      struct buffer *encoded);
bool command_is_guarded(const struct net_request *request); /* only a guarded net can send it */
/* The script that it needs; NODE_SCRIPTS_ALL: none. Where scripts are refused it needs a
 * transaction instead (never if it is guarded). */
enum node_script command_script(const struct net_request *request, bool native);
static inline bool command_needs_script(const struct net_request *request, bool native) {
    return command_script(request, native) != NODE_SCRIPTS_ALL;
}
/* the number of replies that answer it */
unsigned command_replies(const struct net_request *request, bool native);
/* The most frequent requests: a classic SET, or a script that extends or releases. */
static inline bool command_is_plain(const struct net_request *request) {
    if (request->nonces || (request->op == NET_ACQUIRE && request->scheme)) return false;
    return request->op == NET_EXTEND || request->op == NET_RELEASE ||
           (request->op == NET_ACQUIRE && request->keys_count == 1);
}
/* The same as command_answer() for the ordinary replies to those, without reading the request.
 * False: another reply. */
bool command_answer_plain(enum net_op op, const struct reader *reader, struct net_reply *answer);
/* The vote of guarded mode on one key: SET, and ZADD behind it. */
static inline bool command_is_vote(const struct net_request *request) {
    return request->op == NET_ACQUIRE && request->nonces && request->keys_count == 1;
}
/* The same for its reply `nth`: "+OK", then ":1" or ":0". */
bool command_answer_vote(unsigned nth, const struct reader *reader, struct net_reply *answer);
/* A request to a native node that takes, extends or leaves keys, and whose ":1" is no number: that
 * of SHARE is a fence. */
static inline bool command_is_native_write(const struct net_request *request) {
    return net_op_is_write(request->op) && request->op != NET_SHARE;
}
/* The same for its ":1". */
static inline bool command_answer_native(const struct reader *reader, struct net_reply *answer) {
    if (reader->slots[0].type != REPLY_INTEGER || reader->slots[0].integer != 1) return false;
    answer->verdict = REDLOCK_VERDICT_GRANTED;
    answer->remaining_ms = -2;
    answer->fence = 0;
    return true;
}
/* The value of a PEEK_VALUE, as far as it is shown. */
static inline void answer_shows(struct net_reply *answer, struct net_bytes value) {
    answer->value = value;
    answer->truncated = value.bytes > REDLOCK_TOKEN_BYTES_MAX;
    if (answer->truncated) answer->value.bytes = REDLOCK_TOKEN_BYTES_MAX;
}
/* Storage for the parts of an answer that it only points to: RL_STRIPES fences for NET_FENCES, and
 * NET_STATE's state, which must stay from the first reply to the last. NULL: neither is
 * requested. */
struct answer_room {
    int64_t *fences;
    struct net_state *state;
    const char *incarnation; /* of the native node that answers; NULL: it is a stock node */
};
/* Adds reply `nth` to the answer. False: it cannot be a reply to this request, and the connection
 * is not reliable any more. (answer.c) */
bool command_answer(const struct net_request *request, unsigned nth, const struct reader *reader,
                    struct answer_room room, struct net_reply *answer);

/* ---- a server's report of itself (info.c) ---- */

/* The value of "field:value" at the start of a line, cut to the space; "" when absent. */
void info_value(struct net_bytes info, const char *field, char *value, size_t capacity);
/* Two strings after the array at the slot: TIME's seconds and microseconds since 1970. */
bool time_answer(const struct reader *reader, size_t slot, int64_t *wall_us);
/* Adds reply `nth` of NET_STATE. `*sound` false: the reply has the right type, but lacks a
 * field. */
bool state_answer(unsigned nth, const struct reader *reader, struct net_state *state, bool *sound);

/* ---- a native node's report of itself (native.c) ---- */

#define NATIVE_PROTOCOL 1
/* A word of a server's, shown as far as possible. */
void copy_shown(char *to, size_t size, struct net_bytes text);
struct native_hello {
    char version[16], incarnation[41], quorum[17];
    bool mirror;
    bool shared, slots; /* it has the commands for those; older modules do not */
};
/* The answer to REDLOCK.HELLO. False: it is another one, or of a protocol that we do not speak. */
bool native_hello_answer(const struct reader *reader, struct native_hello *hello);
/* A native node's answer to NET_STATE. False: it is another one, or another node's. */
bool native_state_answer(const struct reader *reader, const char *incarnation,
                         struct net_state *state, bool *sound);

#endif
