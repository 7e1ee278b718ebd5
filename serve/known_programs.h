/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The scripts that are known by heart, as known.c reads them: a first look at the key, and what is
 * done for each of the three things that it may show.
 */
#ifndef SERVE_KNOWN_PROGRAMS_H
#define SERVE_KNOWN_PROGRAMS_H

#include "script.h"

enum known_act {
    KNOWN_NOTHING,
    KNOWN_DELETE,
    KNOWN_EXTEND,
    KNOWN_EXTEND_LEFT, /* asks what is left before: nothing is extended that has no end */
    KNOWN_TAKE,        /* it is absent: where it cannot be taken, another was faster */
    KNOWN_TRY,         /* set with NX */
    KNOWN_PTTL,
    KNOWN_TTL
};

/* What is returned. */
enum known_outcome {
    KNOWN_ANSWER, /* that of the act */
    KNOWN_NUMBER,
    KNOWN_FLAG,     /* whether the answer is anything but nil */
    KNOWN_POSITIVE, /* the answer, or 0 where it is less */
    KNOWN_OK,
    KNOWN_ERROR
};

struct known_branch {
    enum known_act act;
    unsigned call; /* the act is this call of the text, counted from 0 */
    enum known_outcome outcome;
    int64_t number;
    bool quiet; /* an error is an answer, as redis.pcall has it */
};

struct known_program {
    const char *text;
    enum script_command first; /* GET or EXISTS, call 0 */
    bool has_ttl;              /* ARGV[2] */
    struct known_branch same;  /* the value is ARGV[1]; of EXISTS: there is one */
    struct known_branch absent;
    struct known_branch other;
};

/* NULL behind the last one. */
const struct known_program *known_program_at(size_t index);

#endif
