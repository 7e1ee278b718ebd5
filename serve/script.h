/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Scripts as lock clients send them: "if it is my value, delete it", "if it is my value, let it live longer". The
 * gateway runs them as they are, in Lua 5.1 as Redis does, and serves what they call: so it does not matter how one is
 * written. What a script may call is the few commands that a quorum can answer, on one key; it is refused, before it
 * runs, when its text calls anything else, or calls in a way that cannot be seen in the text.
 *
 * No I/O and no clock here: a run stops at each call, and goes on when it is given the answer.
 */
#ifndef SERVE_SCRIPT_H
#define SERVE_SCRIPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SCRIPT_SHA_BYTES 40

/* Texts by their SHA1, in hexadecimal, as SCRIPT LOAD names them. Bounded: the one unused for longest makes room. */
struct scripts;
struct scripts *scripts_new(size_t count_max, size_t text_bytes_max);
void scripts_free(struct scripts *scripts);
/* Keeps a text; `sha` gets 40 digits and a NUL. False: it is refused, and `error` says why in one sentence. */
bool scripts_load(struct scripts *scripts, const char *text, size_t bytes, char *sha, char *error, size_t error_size);
/* `sha` in either case of letters. */
bool scripts_has(const struct scripts *scripts, const char *sha);
void scripts_flush(struct scripts *scripts);

struct script_bytes {
    const char *data;
    size_t bytes;
};

enum script_command {
    SCRIPT_GET,    /* answer: bytes or nil */
    SCRIPT_EXISTS, /* answer: integer */
    SCRIPT_PTTL,   /* answer: integer. `ttl` in a script is this, in seconds, which the run works out itself */
    SCRIPT_DELETE, /* del, unlink, an expire that is over at once; answer: integer */
    SCRIPT_EXTEND, /* pexpire, expire, set of the value that is there: `ttl_ms`; answer: integer */
    SCRIPT_TAKE    /* set KEY VALUE NX with PX or EX: `value`, `ttl_ms`; answer: OK or nil */
};
struct script_call {
    enum script_command command;
    /* TAKE: the value. DELETE, EXTEND: what the script has last seen there, NULL if it has not looked. */
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

enum script_step { SCRIPT_CALLS, SCRIPT_ENDS };

/* One run of one script on one key. Bounded in memory (64 KiB beside what it is given), in instructions (10,000, fewer
 * for who gives much) and in calls (64). An answer that cannot be after what the script has seen (its key is gone when
 * it extends, taken when it found it absent) tells that the key was changed by another meanwhile, which inside of a
 * Redis cannot happen: the run begins again, by itself, a few times and only if it has changed nothing before. */
struct script_run;
/* NULL: out of memory, or no such script. Key and arguments are copied. Freed before `scripts` are; the script's text
 * may be forgotten earlier. */
struct script_run *script_run_new(struct scripts *scripts, const char *sha, struct script_bytes key,
                                  const struct script_bytes *arguments, size_t count);
/* Goes on: with `answer` NULL at first, then with the answer to the call. CALLS: *call says what is wanted. ENDS:
 * *result is what the script returns, or an error. What they point to lives until the next step or script_run_free().
 */
enum script_step script_run_step(struct script_run *run, const struct script_value *answer, struct script_call *call,
                                 struct script_value *result);
void script_run_free(struct script_run *run);

#endif
