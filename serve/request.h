/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Bytes in, requests out: arrays of strings as clients send them, and lines as people type them.
 * Knows no socket and no command. Whatever comes is bounded: words, bytes, and no array within an
 * array.
 */
#ifndef SERVE_REQUEST_H
#define SERVE_REQUEST_H

#include <stdbool.h>
#include <stddef.h>

#include "script.h"

#define REQUEST_WORDS_MAX 256
#define REQUEST_BYTES_MAX (128 * 1024) /* a key of 64 KiB and as much beside it */
#define REQUEST_INLINE_BYTES_MAX 4096

struct redisReader;

struct request_reader {
    struct redisReader *hiredis; /* for arrays */
    char *inline_request;        /* for inline requests; while there is none, NULL */
    size_t inline_request_bytes;
    bool grown;     /* hiredis has taken much, and keeps it */
    bool midway;    /* part of a request is here */
    size_t pending; /* bytes that came for it, and what came behind it */
    char *arena;    /* the bytes of the words, one behind the other */
    size_t arena_bytes, arena_capacity;
    size_t count;
    struct script_bytes words[REQUEST_WORDS_MAX];
    const char *error; /* of a BAD one; static */
};

enum request_status {
    REQUEST_READY, /* words[0..count), until the next call; count may be 0: an empty request, which
                      nobody answers */
    REQUEST_MORE,  /* more bytes are needed */
    REQUEST_BAD    /* no request can follow: `error` says why */
};

bool request_open(struct request_reader *reader);
void request_close(struct request_reader *reader);
/* What came: any number of bytes, cut anywhere. False: out of memory. */
bool request_feed(struct request_reader *reader, const char *data, size_t bytes);
enum request_status request_next(struct request_reader *reader);
/* Gives back what a long request took, when none is under way. */
void request_rest(struct request_reader *reader);

/* Bytes that it has taken, about. */
size_t request_weight(const struct request_reader *reader);

/* Splits a line into words as a shell would: 'as it is', "with \" \\ \n \r \t \xHH", blanks
 * between. The words are put together in place, in `inline_request`. Returns their count, or -1: a
 * quote is not closed, or there are too many. */
int request_split(char *inline_request, size_t bytes, struct script_bytes *words, size_t count_max);

#endif
