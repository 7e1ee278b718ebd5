/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What the differential test asks of a real server and of the table: one request, drawn at random,
 * shown as text.
 */
#ifndef TESTS_NODE_REQUEST_H
#define TESTS_NODE_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "node/table.h"

enum { REQUEST_KEYS_MAX = 4, REQUEST_STRIPES_MAX = 3, ANSWER_BYTES = 65536 };

/* X(name, how many of 1000) */
#define REQUEST_OPS(X)                                                                             \
    X(SET_NX, 60)       /* acquire one key */                                                      \
    X(ACQUIRE_MANY, 35) /* the script, with one key too */                                         \
    X(EXTEND, 60)                                                                                  \
    X(RELEASE, 45)                                                                                 \
    X(PTTL, 25)                                                                                    \
    X(GET, 20)                                                                                     \
    X(PEEK_VALUE, 20) /* PTTL and GETRANGE, as redlock show asks */                                \
    X(SET, 20)                                                                                     \
    X(SET_PX, 15)                                                                                  \
    X(DEL, 20)                                                                                     \
    X(PEXPIRE, 25)                                                                                 \
    X(OTHER_TYPE, 12) /* DEL, RPUSH */                                                             \
    X(FLUSHALL, 4)                                                                                 \
    X(EXPIRE_DUE, 3) /* the server's active expiry */                                              \
    X(SNAPSHOT, 2)   /* SAVE */                                                                    \
    X(RESTORE, 3)    /* comes back with what it saved */                                           \
    X(CLOCK_STEP, 55)                                                                              \
    X(CLOCK_TO_END, 55) /* of the key that ends next, or beside it */                              \
    X(SHARE, 50)        /* a reader's script, in classic mode */                                   \
    X(SHARE_EXTEND, 40)                                                                            \
    X(SHARE_RELEASE, 30)                                                                           \
    X(READERS, 20)  /* as redlock show asks, page by page */                                       \
    X(SET_ZADD, 45) /* guarded acquire of one key: two commands in one pipeline */                 \
    X(ZADD, 20)                                                                                    \
    X(ACQUIRE_GUARDED, 45)                                                                         \
    X(EXTEND_GUARDED, 60)                                                                          \
    X(SHARE_GUARDED, 30)                                                                           \
    X(SHARE_EXTEND_GUARDED, 30)                                                                    \
    X(RAISE, 30)                                                                                   \
    X(BREAK, 25)                                                                                   \
    X(CONFIRM, 35)                                                                                 \
    X(RECORD_WRITE, 30)                                                                            \
    X(RECORD, 10)                                                                                  \
    X(FENCES, 15)    /* of the stripes of the request, under every name */                         \
    X(ALL_FENCES, 2) /* of every stripe */                                                         \
    X(DEL_NAME, 4)   /* somebody deletes the record, or fences */

enum request_op {
#define REQUEST_ENUM(name, weight) REQUEST_##name,
    REQUEST_OPS(REQUEST_ENUM)
#undef REQUEST_ENUM
        REQUEST_OPS_COUNT
};
static inline bool request_is_guarded(enum request_op op) { return op >= REQUEST_SET_ZADD; }

/* What a write of the record says of the stripes. */
enum request_floor { FLOOR_NONE, FLOOR_ZEROS, FLOOR_FEW, FLOOR_ALL, FLOOR_IF_ABSENT };

/* Plain data, so that a sequence can be cut and run again. */
struct request {
    enum request_op op;
    unsigned keys_count;
    uint8_t keys[REQUEST_KEYS_MAX]; /* numbers of keys and tokens: request_key(), request_token() */
    uint8_t token;
    int64_t number; /* TTL in ms, or the step of the clock in us */
    /* Guarded. Drawn blindly little would ever fit, so some of it is put in terms of what there is:
     * model_resolve(). */
    uint8_t nonce; /* numbers of nonces: request_nonce(); REQUEST_NONCE_PRESENT: the record's */
    uint8_t name;  /* DEL_NAME: request_name() */
    unsigned stripes_count;
    uint16_t stripes[REQUEST_STRIPES_MAX];
    int64_t fence; /* resolved from `above`: so much above that of the first stripe */
    int64_t above;
    bool blind; /* RECORD_WRITE: with an expected nonce and place as drawn, not as they are */
    uint8_t expected;
    bool was_kept, keep;
    enum request_floor floor;
    uint8_t fields; /* number of fields beside the nonce */
};

#define REQUEST_FENCE_MAX INT64_C(9007199254740991)

struct random {
    uint64_t state;
};
uint64_t random_next(struct random *random);
uint64_t random_below(struct random *random, uint64_t limit);

/* Names both, with what the text protocol could trip over; tokens include the empty one and a
 * prefix of another. */
struct node_bytes request_key(uint8_t number);
struct node_bytes request_token(uint8_t number);
enum { REQUEST_KEYS = 7, REQUEST_TOKENS = 6 };

/* Where a server lists the readers of a key. Valid until it is asked again. */
struct node_bytes request_list_key(uint8_t number);

/* Number 0 is no nonce. Names: 0 the kept fences, 1 to 3 those of the nonces, 4 the record. */
uint64_t request_nonce(uint8_t number);
struct request;
/* BREAK: what turns its nonce into the one that `expected` numbers (never 0). */
uint64_t request_added(const struct request *request);
enum {
    REQUEST_NONCES = 4,
    REQUEST_NONCE_PRESENT = REQUEST_NONCES,
    REQUEST_RECORD_NAME = 4,
    REQUEST_NAMES = 5
};
enum { REQUEST_NAME_BYTES = 40, REQUEST_NONCE_BYTES = 17, REQUEST_FIELDS_MAX = 6 };
void request_nonce_text(uint64_t nonce, char digits[REQUEST_NONCE_BYTES]);
void request_name(uint8_t number, char name[REQUEST_NAME_BYTES]);
/* The new record of a RECORD_WRITE; texts live in `digits` and in memory of the process. Returns
 * the count. */
size_t request_fields(const struct request *request, struct node_field *fields,
                      char digits[REQUEST_NONCE_BYTES]);
/* NODE_STRIPES; NULL: FLOOR_NONE. Valid until it is asked again. */
const int64_t *request_floor_of(const struct request *request);

struct request request_draw(struct random *random, bool guarded);
void request_show(const struct request *request, FILE *out);

/* Answers are compared as text: one line a reply, "OK", "nil", "(integer)", "=bytes with escapes",
 * or the error's first word. */
struct answer {
    size_t used;
    char text[ANSWER_BYTES];
};
void answer_clear(struct answer *answer);
void answer_line(struct answer *answer, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void answer_bytes(struct answer *answer, struct node_bytes bytes);
/* A hash, in no order. */
void answer_fields(struct answer *answer, const struct node_field *fields, size_t count);
/* A whole set of fences, as a digest. */
void answer_fences(struct answer *answer, const char *name, const int64_t fences[NODE_STRIPES]);

#endif
