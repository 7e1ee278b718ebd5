/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The scripts that lock clients send, known by heart: what each does is written down here, so that
 * it needs no interpreter. A text is known when it has the words of one of these, in their order;
 * blanks, line ends, comments, the kind of quotes and the case of commands make no difference. The
 * effect, the result and the errors are those that the interpreter would have; where that is not
 * certain (an argument is missing, a time is not a plain number) it does the work.
 */
#ifndef SERVE_KNOWN_H
#define SERVE_KNOWN_H

#include "script.h"

#define KNOWN_CALLS_MAX 3
#define KNOWN_ERROR_BYTES 1152

struct known_program;

struct known {
    const struct known_program *program; /* NULL: it is not known */
    unsigned lines[KNOWN_CALLS_MAX];     /* where its calls are in this text, as errors say */
};

/* Reads at most some hundred bytes more than the longest of them has, and allocates nothing. */
struct known known_find(struct script_bytes text);
/* A run of one; what it is made with lives as long. */
struct known_run {
    struct known known;
    const char *sha;
    struct script_bytes value; /* ARGV[1] */
    int64_t ttl_ms;            /* ARGV[2] */
    bool adds;                 /* to the time that is left */
    unsigned begun, step;
    bool changed;
    const struct known_branch *branch;
    struct script_call call; /* the one under way */
    char error[KNOWN_ERROR_BYTES];
};

/* False: these arguments are for the interpreter. */
bool known_begin(struct known_run *run, const struct known *known, const char *sha,
                 const struct script_bytes *arguments, size_t count);
/* As script_run_step(). */
enum script_step known_step(struct known_run *run, const struct script_value *answer,
                            struct script_call *call, struct script_value *result);

#endif
