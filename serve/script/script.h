/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The messages between a script and the gateway: the calls of the script, the answers, the result.
 * Lock commands and transactions use the same calls. Scripts run in Lua 5.1, as in Redis, in a
 * separate process (workers.h). They may call only the few commands that a quorum can answer, on
 * one key.
 */
#ifndef SERVE_SCRIPT_H
#define SERVE_SCRIPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct script_bytes {
    const char *data;
    size_t bytes;
};

#define SCRIPT_SHA_BYTES 40
/* The name of a script: the SHA1 of its text, as SCRIPT LOAD answers it. Writes 40 hexadecimal
 * digits in lower case, and a NUL. False: the digest cannot be computed. Workers do not have this.
 */
bool script_name(struct script_bytes text, char sha[SCRIPT_SHA_BYTES + 1]);

static inline bool script_bytes_equal(struct script_bytes a, struct script_bytes b) {
    return a.bytes == b.bytes && (a.bytes == 0 || memcmp(a.data, b.data, a.bytes) == 0);
}

enum script_command {
    SCRIPT_GET,    /* answer: bytes or nil */
    SCRIPT_EXISTS, /* answer: integer */
    /* answer: integer. `ttl` in a script becomes this call; the run converts to seconds */
    SCRIPT_PTTL,
    SCRIPT_DELETE, /* del, unlink, an expire into the past; answer: integer */
    SCRIPT_EXTEND, /* pexpire, expire, set of the value that is there: `ttl_ms`; answer: integer */
    SCRIPT_TAKE    /* set KEY VALUE NX with PX or EX: `value`, `ttl_ms`; answer: OK or nil */
};
struct script_call {
    enum script_command command;
    /* TAKE: the value. DELETE, EXTEND: the value that the script last read, NULL if it has not read
     * it. */
    struct script_bytes value;
    int64_t ttl_ms;
};

enum script_kind { SCRIPT_NIL, SCRIPT_INTEGER, SCRIPT_BYTES, SCRIPT_STATUS, SCRIPT_ERROR };
/* An answer to a call, or the result of a run. A table is refused as a result. */
struct script_value {
    enum script_kind kind;
    int64_t integer;
    struct script_bytes bytes; /* BYTES, STATUS, ERROR (without the dash) */
};

static inline struct script_value script_integer(int64_t value) {
    return (struct script_value){.kind = SCRIPT_INTEGER, .integer = value};
}

/* `text` must live as long as the value. */
static inline struct script_value script_error(const char *text) {
    return (struct script_value){.kind = SCRIPT_ERROR, .bytes = {text, strlen(text)}};
}

enum script_step {
    SCRIPT_CALLS,
    SCRIPT_ENDS,
    SCRIPT_WAITS /* another process computes the next step and reports it later; of an operation's
                    program only */
};

#endif
