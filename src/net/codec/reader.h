/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Decodes replies into slots that are reused: an ordinary reply needs no allocation. The slots of a
 * reply are in the order of arrival, an array before its elements.
 *
 * hiredis decodes RESP2. resp3.c decodes connections that may use RESP3, into the slots that RESP2
 * has for the same values. It exists because version 0.14 of hiredis does not know RESP3, and no
 * version reports where among the replies a push came. */
#ifndef RL_NET_READER_H
#define RL_NET_READER_H

#include <stdbool.h>
#include <stdint.h>

#include "net/net.h"

struct redisReader;

#define READER_REPLY_BYTES_MAX ((size_t)1 << 20)
#define READER_ELEMENTS_MAX ((size_t)65536)

enum reply_type { REPLY_NIL, REPLY_INTEGER, REPLY_STATUS, REPLY_STRING, REPLY_ERROR, REPLY_ARRAY };

struct reply_slot {
    enum reply_type type;
    int64_t integer; /* INTEGER: the value. ARRAY: the number of elements */
};

enum { RESP3_LEVELS = 8 };

/* The reply that resp3.c is reading. */
struct resp3 {
    bool on;         /* the server may send RESP3 */
    bool push;       /* the reply is a push */
    char type;       /* of the piece being read; 0: none has begun */
    bool in_payload; /* inside a string; else in the first line */
    size_t begin;    /* where the piece's bytes begin in the arena */
    size_t left;     /* of the payload and its end of line */
    unsigned depth;  /* the number of open aggregates */
    unsigned hidden; /* the depth of an open attribute, plus one; 0: none is open */
    struct {
        size_t left; /* pieces still to come */
        bool attribute;
    } level[RESP3_LEVELS];
};

struct reader {
    struct redisReader *hiredis;
    struct resp3 resp3;
    struct reply_slot *slots;
    /* Of slot i, for STATUS, STRING and ERROR; for SCAN, the elements one after the other. */
    struct net_bytes *bytes;
    size_t slots_count, slots_capacity;
    char *arena;
    size_t arena_bytes, arena_capacity;
    size_t pending;     /* bytes taken since the last complete reply, by hiredis or by resp3.c */
    const char *direct; /* bytes that were fed and not taken yet */
    size_t direct_bytes;
    bool whole, oversized, no_memory, malformed;
};

/* PUSH: a message that the server sends unasked, as an array that begins with its kind. It is not
 * an answer. RESP3 only. */
enum reader_status {
    READER_MORE,
    READER_REPLY,
    READER_PUSH,
    READER_MALFORMED,
    READER_OVERSIZED,
    READER_NO_MEMORY
};

bool reader_open(struct reader *reader); /* false: no memory */
void reader_close(struct reader *reader);
/* False: bytes of a later reply have already come. */
bool reader_is_empty(const struct reader *reader);
/* A part of a reply has come, and not of a push. */
bool reader_is_in_reply(const struct reader *reader);
/* From the next reply on, which must not have begun: RESP3, which includes RESP2; or RESP2
 * alone. */
void reader_expect_resp3(struct reader *reader, bool on);
/* The data must stay in place until reader_next() returns something other than READER_REPLY and
 * READER_PUSH. False: no memory. */
bool reader_feed(struct reader *reader, const char *data, size_t bytes);
/* Decodes the next complete reply or push into slots[0...]; valid until the next call. After a
 * failure the connection is unusable. */
enum reader_status reader_next(struct reader *reader);

static inline bool reader_is_error(const struct reader *reader) {
    return reader->slots[0].type == REPLY_ERROR;
}
bool reader_is_status(const struct reader *reader, size_t slot, const char *text);
bool reader_is_string(const struct reader *reader, size_t slot, const char *text);
/* An array of that many strings begins at the slot. */
bool reader_is_strings(const struct reader *reader, size_t slot, int64_t count);

/* For resp3.c. False: the reader has recorded the reason. */
bool reader_add_slot(struct reader *reader, enum reply_type type, int64_t integer, size_t bytes);
/* appends to the arena */
bool reader_add_bytes(struct reader *reader, const char *data, size_t bytes);
enum reader_status resp3_next(struct reader *reader);

#endif
