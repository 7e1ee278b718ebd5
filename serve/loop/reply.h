/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Answers in the Redis protocol: RESP2, and RESP3 for a client that sent HELLO 3.
 */
#ifndef SERVE_REPLY_H
#define SERVE_REPLY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "script/key_call.h"

struct evbuffer;

struct reply {
    struct evbuffer *out;
    int protocol; /* 2 or 3 */
    bool failed;  /* out of memory: an answer is missing, and the connection must end */
};

void reply_status(struct reply *reply, const char *text);
/* Writes "CODE sentence"; control characters become blanks, since an error is one line. */
void reply_error(struct reply *reply, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void reply_integer(struct reply *reply, int64_t value);
void reply_bytes(struct reply *reply, const void *data, size_t bytes);
void reply_text(struct reply *reply, const char *text);
/* Writes its content as bytes, and frees it. */
void reply_buffer(struct reply *reply, struct evbuffer *content);
void reply_nil(struct reply *reply);
/* Part of an answer, as it is on the wire. */
void reply_raw(struct reply *reply, const void *data, size_t bytes);
/* Moves whole answers from there. */
void reply_move(struct reply *reply, struct evbuffer *answers);
/* The answer of an EXEC that did nothing. */
void reply_nil_array(struct reply *reply);
void reply_array(struct reply *reply, size_t count);
/* `pairs` keys, each followed by its value; in RESP2 an array of both. */
void reply_map(struct reply *reply, size_t pairs);
/* A message that the client did not request. */
void reply_push(struct reply *reply, size_t count);
/* Writes the answer to a script call. */
void reply_value(struct reply *reply, const struct answer *value);

#endif
