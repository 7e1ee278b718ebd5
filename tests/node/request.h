/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What the differential test asks of a real server and of the table: one request, drawn at random, shown as text.
 */
#ifndef TESTS_NODE_REQUEST_H
#define TESTS_NODE_REQUEST_H

#include <stddef.h>
#include <stdint.h>

#include "node/table.h"

enum { REQUEST_KEYS_MAX = 4, ANSWER_BYTES = 16384 };

/* X(name, how many of 1000) */
#define REQUEST_OPS(X)                                                                                                 \
    X(SET_NX, 140)       /* acquire one key */                                                                         \
    X(ACQUIRE_MANY, 100) /* the script, with one key too */                                                            \
    X(EXTEND, 170)                                                                                                     \
    X(RELEASE, 90)                                                                                                     \
    X(PTTL, 60)                                                                                                        \
    X(GET, 40)                                                                                                         \
    X(LOOK, 30) /* PTTL and GETRANGE, as redlock show asks */                                                          \
    X(SET, 25)                                                                                                         \
    X(SET_PX, 20)                                                                                                      \
    X(DEL, 25)                                                                                                         \
    X(PEXPIRE, 35)                                                                                                     \
    X(OTHER_TYPE, 15) /* DEL, RPUSH */                                                                                 \
    X(FLUSHALL, 4)                                                                                                     \
    X(EXPIRE_DUE, 3) /* the server's active expiry */                                                                  \
    X(SNAPSHOT, 2)   /* SAVE */                                                                                        \
    X(RESTORE, 3)    /* comes back with what it saved */                                                               \
    X(CLOCK_STEP, 118)                                                                                                 \
    X(CLOCK_TO_END, 120) /* of the key that ends next, or beside it */

enum request_op {
#define REQUEST_ENUM(name, weight) REQUEST_##name,
    REQUEST_OPS(REQUEST_ENUM)
#undef REQUEST_ENUM
        REQUEST_OPS_COUNT
};

/* Plain data, so that a sequence can be cut and run again. */
struct request {
    enum request_op op;
    unsigned keys_count;
    uint8_t keys[REQUEST_KEYS_MAX]; /* numbers of keys and tokens: request_key(), request_token() */
    uint8_t token;
    int64_t number; /* TTL in ms, or the step of the clock in us */
};

struct random {
    uint64_t state;
};
uint64_t random_next(struct random *random);
uint64_t random_below(struct random *random, uint64_t limit);

/* Names both, with what the text protocol could trip over; tokens include the empty one and a prefix of another. */
struct node_bytes request_key(uint8_t number);
struct node_bytes request_token(uint8_t number);
enum { REQUEST_KEYS = 7, REQUEST_TOKENS = 6 };

struct request request_draw(struct random *random);
void request_show(const struct request *request, char *text, size_t size);

/* Answers are compared as text: one line a reply, "OK", "nil", "(integer)", "=bytes with escapes", or the error's
 * first word. */
struct answer {
    size_t used;
    char text[ANSWER_BYTES];
};
void answer_clear(struct answer *answer);
void answer_line(struct answer *answer, const char *format, ...) __attribute__((format(printf, 2, 3)));
void answer_bytes(struct answer *answer, struct node_bytes bytes);

#endif
