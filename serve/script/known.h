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

#include "script_name.h"

#define KNOWN_CALLS_MAX 3
#define KNOWN_ERROR_BYTES 1152

/* Each script reads the key once, and then acts by one of three branches, which depend on that
 * read. */
enum known_act {
    KNOWN_NOTHING,
    KNOWN_DELETE,
    KNOWN_EXTEND,
    KNOWN_EXTEND_LEFT, /* asks for the time left first: a key without an end is not extended */
    KNOWN_TAKE,        /* the key is absent: if it cannot be taken, another client was faster */
    KNOWN_TRY,         /* set with NX */
    KNOWN_PTTL,
    KNOWN_TTL
};

/* The result of the script. */
enum known_outcome {
    KNOWN_ANSWER, /* the answer of the act */
    KNOWN_NUMBER,
    KNOWN_FLAG,     /* whether the answer is anything but nil */
    KNOWN_POSITIVE, /* the answer, or 0 where it is less */
    KNOWN_OK,
    KNOWN_ERROR
};

struct known_branch {
    enum known_act act;
    unsigned call; /* the index of the act among the calls of the text, from 0 */
    enum known_outcome outcome;
    int64_t number;
    bool quiet; /* an error is returned as an answer, as by redis.pcall */
};

struct known_program {
    const char *text;
    enum key_command first;   /* GET or EXISTS, call 0 */
    bool has_ttl;             /* ARGV[2] */
    struct known_branch same; /* the value is ARGV[1]; of EXISTS: the key exists */
    struct known_branch absent;
    struct known_branch other;
};

/* Returns NULL past the last one (known_table.c). */
const struct known_program *known_program_at(size_t index);

struct known {
    const struct known_program *program; /* NULL: the text is not known */
    unsigned lines[KNOWN_CALLS_MAX]; /* the lines of its calls in this text, for error messages */
};

/* Reads at most some hundred bytes more than the longest known script has, and allocates nothing.
 */
struct known known_find(struct bytes text);
/* A run of one known script. The values that it is made with must live as long. */
struct known_run {
    struct known known;
    const char *sha;    /* in lower case */
    struct bytes value; /* ARGV[1] */
    int64_t ttl_ms;     /* ARGV[2] */
    bool adds;          /* adds to the time that is left */
    unsigned begun, step;
    bool changed;
    const struct known_branch *branch;
    struct key_call call; /* the call under way */
    char error[KNOWN_ERROR_BYTES];
};

/* False: the interpreter must handle these arguments. */
bool known_begin(struct known_run *run, const struct known *known, const char *sha,
                 const struct bytes *arguments, size_t count);
/* As script_run_step(). */
enum program_step known_step(struct known_run *run, const struct answer *answer,
                             struct key_call *call, struct answer *result);

#endif
