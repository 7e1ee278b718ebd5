/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The common scripts of lock clients. Each one's effect is written down here, so that it runs
 * without an interpreter. A text is known when it has the tokens of one of these scripts, in their
 * order. Blanks, line ends, comments, the kind of quotes and the case of commands make no
 * difference. Effect, result and errors are those of the interpreter. Where that is not certain (an
 * argument is missing, a time is not a plain number), the interpreter runs the script.
 */
#ifndef SERVE_KNOWN_H
#define SERVE_KNOWN_H

#include "script.h"

#define KNOWN_CALLS_MAX 3
#define KNOWN_ERROR_BYTES 1152

struct known_program;

struct known {
    const struct known_program *program; /* NULL: the text is not known */
    unsigned lines[KNOWN_CALLS_MAX]; /* the lines of its calls in this text, for error messages */
};

/* Reads at most some hundred bytes more than the longest known script has, and allocates nothing.
 */
struct known known_find(struct script_bytes text);
/* A run of one known script. The values that it is made with must live as long. */
struct known_run {
    struct known known;
    const char *sha;
    struct script_bytes value; /* ARGV[1] */
    int64_t ttl_ms;            /* ARGV[2] */
    bool adds;                 /* adds to the time that is left */
    unsigned begun, step;
    bool changed;
    const struct known_branch *branch;
    struct script_call call; /* the call under way */
    char error[KNOWN_ERROR_BYTES];
};

/* False: the interpreter must handle these arguments. */
bool known_begin(struct known_run *run, const struct known *known, const char *sha,
                 const struct script_bytes *arguments, size_t count);
/* As script_run_step(). */
enum script_step known_step(struct known_run *run, const struct script_value *answer,
                            struct script_call *call, struct script_value *result);

#endif
