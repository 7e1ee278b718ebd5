/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The parser of requests: arrays of strings, as clients send them, and lines, as people type them.
 * It knows no socket and no command. All input is bounded: words and bytes, and arrays within
 * arrays are refused.
 */
#ifndef SERVE_REQUEST_H
#define SERVE_REQUEST_H

#include <stdbool.h>
#include <stddef.h>

#include "script/key_call.h"

#define REQUEST_WORDS_MAX 256
#define REQUEST_BYTES_MAX (128 * 1024) /* a key of 64 KiB, and as much for the rest */
#define REQUEST_INLINE_BYTES_MAX 4096

struct redisReader;

struct request_reader {
    struct redisReader *hiredis; /* reads arrays */
    char *inline_request;        /* reads inline requests; NULL while there is none */
    size_t inline_request_bytes;
    bool grown;     /* hiredis has allocated much memory, and keeps it */
    bool midway;    /* part of a request is here */
    size_t pending; /* bytes of that part, and the bytes behind it */
    char *arena;    /* the bytes of the words, one after the other */
    size_t arena_bytes, arena_capacity;
    size_t count;
    struct bytes words[REQUEST_WORDS_MAX];
    const char *error; /* of a BAD request; static */
};

enum request_status {
    /* words[0..count), until the next call; count may be 0: an empty request, which gets no answer
     */
    REQUEST_READY,
    REQUEST_MORE,     /* more bytes are needed */
    REQUEST_BAD,      /* no request can follow: `error` holds the reason */
    REQUEST_NO_MEMORY /* the same */
};

bool request_open(struct request_reader *reader);
void request_close(struct request_reader *reader);
/* Adds input: any number of bytes, cut anywhere. Without memory, request_next() says so. */
void request_feed(struct request_reader *reader, const char *data, size_t bytes);
enum request_status request_next(struct request_reader *reader);
/* No request is under way, no part of one is here, and another may follow. */
bool request_is_idle(const struct request_reader *reader);
/* False: a long request has made it allocate much memory, and it keeps that. */
bool request_is_small(const struct request_reader *reader);

/* The memory that it takes, approximate. */
size_t request_weight(const struct request_reader *reader);

/* Compares without regard to upper and lower case. */
bool command_is(struct bytes word, const char *text);
/* False: the word is not a whole number. */
bool request_number(struct bytes word, int64_t *number);

#endif
