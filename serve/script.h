/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What a script and the gateway say to each other: the calls that a script makes, the answers, the
 * result. Lock commands and transactions are served as the same calls. Scripts run in Lua 5.1 as
 * Redis runs them, in a process of their own (workers.h); what one may call is the few commands
 * that a quorum can answer, on one key.
 */
#ifndef SERVE_SCRIPT_H
#define SERVE_SCRIPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A script is named by the SHA1 of its text, in hexadecimal. */
#define SCRIPT_SHA_BYTES 40

struct script_bytes {
    const char *data;
    size_t bytes;
};

enum script_command {
    SCRIPT_GET,    /* answer: bytes or nil */
    SCRIPT_EXISTS, /* answer: integer */
    SCRIPT_PTTL, /* answer: integer. `ttl` in a script is this, in seconds, which the run works out
                    itself */
    SCRIPT_DELETE, /* del, unlink, an expire that is over at once; answer: integer */
    SCRIPT_EXTEND, /* pexpire, expire, set of the value that is there: `ttl_ms`; answer: integer */
    SCRIPT_TAKE    /* set KEY VALUE NX with PX or EX: `value`, `ttl_ms`; answer: OK or nil */
};
struct script_call {
    enum script_command command;
    /* TAKE: the value. DELETE, EXTEND: what the script has last seen there, NULL if it has not
     * looked. */
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

enum script_step {
    SCRIPT_CALLS,
    SCRIPT_ENDS,
    SCRIPT_WAITS /* what comes next is computed elsewhere, and said later; of an operation's program
                  * only
                  */
};

#endif
