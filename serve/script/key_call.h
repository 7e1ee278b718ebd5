/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What a program does with its key: lock commands, transactions and scripts are programs. It makes
 * a few kinds of calls, which a quorum can answer; each call gets an answer, and then the program
 * calls again or ends with a result.
 */
#ifndef SERVE_KEY_CALL_H
#define SERVE_KEY_CALL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <strings.h>

struct bytes {
    const char *data;
    size_t bytes;
};

static inline bool bytes_equal(struct bytes a, struct bytes b) {
    return a.bytes == b.bytes && (a.bytes == 0 || memcmp(a.data, b.data, a.bytes) == 0);
}

enum key_command {
    KEY_GET,    /* answer: bytes or nil */
    KEY_EXISTS, /* answer: integer */
    /* answer: integer. `ttl` in a script becomes this call; the run converts to seconds */
    KEY_PTTL,
    /* a message for the subscribers of this gateway: `channel`, `value`; answer: integer, 0 */
    KEY_PUBLISH,
    KEY_DELETE, /* del, unlink, an expire into the past; answer: integer */
    KEY_EXTEND, /* pexpire, expire, set of the value that is there: `ttl_ms`; answer: integer */
    KEY_TAKE    /* set KEY VALUE NX with PX or EX: `value`, `ttl_ms`; answer: OK or nil */
};
struct key_call {
    enum key_command command;
    /* TAKE: the value. PUBLISH: the message. DELETE, EXTEND: the value that the script last read,
     * NULL if it has not read it. */
    struct bytes value;
    struct bytes channel; /* PUBLISH */
    int64_t ttl_ms;
    /* Of a script, which has no clock: ttl_ms is a time of day in milliseconds since 1970. The
     * gateway makes it a length when it reads the call. */
    bool until;
};

/* ARRAY is the result of a run only: its elements are nil, integers and bytes. */
enum answer_kind {
    ANSWER_NIL,
    ANSWER_INTEGER,
    ANSWER_BYTES,
    ANSWER_STATUS,
    ANSWER_ERROR,
    ANSWER_ARRAY
};
/* An answer to a call, or the result of a run. */
struct answer {
    enum answer_kind kind;
    int64_t integer;    /* INTEGER; ARRAY: the number of elements */
    struct bytes bytes; /* BYTES, STATUS, ERROR (without the dash), ARRAY (element.h) */
};

static inline struct answer answer_integer(int64_t value) {
    return (struct answer){.kind = ANSWER_INTEGER, .integer = value};
}

/* `text` must live as long as the value. */
static inline struct answer answer_error(const char *text) {
    return (struct answer){.kind = ANSWER_ERROR, .bytes = {text, strlen(text)}};
}

enum program_step {
    PROGRAM_CALLS,
    PROGRAM_ENDS,
    PROGRAM_WAITS /* another process computes the next step and reports it later; of an operation's
                    program only */
};

/* The options by which SET gives a time to live, in a command and in a script. */
struct time_option {
    const char *name;
    int64_t unit_ms;
    bool until; /* a time of day, and not a length */
};

/* NULL: the word is another option. */
static inline const struct time_option *time_option_find(struct bytes word) {
    static const struct time_option options[] = {
        {"px", 1, false}, {"ex", 1000, false}, {"pxat", 1, true}, {"exat", 1000, true}};
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++) {
        if (word.bytes == strlen(options[i].name) &&
            strncasecmp(word.data, options[i].name, word.bytes) == 0)
            return &options[i];
    }
    return NULL;
}

#endif
