/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What a key is, seen from all nodes together: a lock that a majority holds, or nothing.
 */
#ifndef SERVE_SIGHT_H
#define SERVE_SIGHT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <redlock.h>

#include "script.h"

#define SIGHT_NEVER INT64_MAX

enum sight_state { SIGHT_NONE = 0, SIGHT_ABSENT, SIGHT_LOCK };

struct sight {
    enum sight_state state; /* NONE: not looked yet */
    int64_t ends_ns; /* when a majority ceases to hold it, by the nodes' word; SIGHT_NEVER: it has
                        no TTL */
    size_t token_bytes;
    unsigned char token[REDLOCK_TOKEN_BYTES_MAX];
};

enum sight_verdict {
    SIGHT_SEEN,    /* *sight is filled */
    SIGHT_UNKNOWN, /* the nodes that did not answer could decide it */
    SIGHT_FOREIGN, /* a majority holds something that is not a string */
    SIGHT_LONG     /* a majority holds a value too long for a token */
};

/* Absent is what no majority can hold, whatever the silent nodes have. */
enum sight_verdict sight_judge(const struct redlock_view *views, size_t nodes, int64_t now_ns,
                               struct sight *sight);

void sight_set(struct sight *sight, const void *token, size_t bytes, int64_t ends_ns);
bool sight_same(const struct sight *a, const struct sight *b);
/* What the client gave: the token without the 40 digits and the colon of ours; else the whole of
 * it. */
struct script_bytes sight_value(const void *token, size_t bytes);

#endif
