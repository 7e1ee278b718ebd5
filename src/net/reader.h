/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Replies, decoded into slots of our own: an ordinary reply costs no allocation. The slots of a
 * reply lie in the order in which they came, an array before its elements.
 *
 * hiredis decodes RESP2. What may be RESP3 is decoded in resp3.c, to the slots that RESP2 has for
 * the same: version 0.14 of hiredis knows nothing of RESP3, and no version says of a push where
 * among the replies it came.
 */
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
    int64_t integer; /* INTEGER: the value. ARRAY: how many elements */
};

enum { RESP3_LEVELS = 8 };

/* The reply that resp3.c is at. */
struct resp3 {
    bool on;         /* what comes may be RESP3 */
    bool push;       /* it is a push */
    char type;       /* of the piece that is being read; 0: none has begun */
    bool in_payload; /* of a string; else in the first line */
    size_t begin;    /* where the piece's bytes begin in the arena */
    size_t left;     /* of the payload and its end of line */
    unsigned depth;  /* how many aggregates are open */
    unsigned hidden; /* at which depth, plus one, an attribute is open; 0: none is */
    struct {
        size_t left; /* pieces that are yet to come */
        bool attribute;
    } level[RESP3_LEVELS];
};

struct reader {
    struct redisReader *hiredis;
    struct resp3 resp3;
    struct reply_slot *slots;
    struct net_bytes
        *bytes; /* of slot i, for STATUS, STRING and ERROR; elements side by side for SCAN */
    size_t slots_count, slots_capacity;
    char *arena;
    size_t arena_bytes, arena_capacity;
    size_t pending;     /* bytes taken since the last whole reply, by hiredis or by resp3.c */
    const char *direct; /* what was fed and has not been taken yet */
    size_t direct_bytes;
    bool whole, oversized, no_memory, malformed;
};

/* PUSH: what the server says unasked, as an array that begins with its kind; it answers nothing.
 * RESP3 only. */
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
/* From the next reply on, which has not begun: RESP3, of which RESP2 is a part; or RESP2 alone. */
void reader_expect_resp3(struct reader *reader, bool on);
/* The data stay where they are until reader_next() has said anything but READER_REPLY and
 * READER_PUSH. False: no memory. */
bool reader_feed(struct reader *reader, const char *data, size_t bytes);
/* The next whole reply or push into slots[0...]; valid until the next call. After a failure the
 * connection is over. */
enum reader_status reader_next(struct reader *reader);

static inline bool reader_is_error(const struct reader *reader) {
    return reader->slots[0].type == REPLY_ERROR;
}
bool reader_is_status(const struct reader *reader, size_t slot, const char *text);
bool reader_is_string(const struct reader *reader, size_t slot, const char *text);

/* For resp3.c. False: the reader has noted why. */
bool reader_add_slot(struct reader *reader, enum reply_type type, int64_t integer, size_t bytes);
bool reader_add_bytes(struct reader *reader, const char *data, size_t bytes); /* to the arena */
enum reader_status resp3_next(struct reader *reader);

#endif
