/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The scripts that known.c recognises. Each one reads the key once, and then acts by one of three
 * branches, which depend on that read.
 */
#ifndef SERVE_KNOWN_PROGRAMS_H
#define SERVE_KNOWN_PROGRAMS_H

#include "script.h"

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
    enum script_command first; /* GET or EXISTS, call 0 */
    bool has_ttl;              /* ARGV[2] */
    struct known_branch same;  /* the value is ARGV[1]; of EXISTS: the key exists */
    struct known_branch absent;
    struct known_branch other;
};

/* Returns NULL past the last one. */
const struct known_program *known_program_at(size_t index);

#endif
