/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What a key is, seen from all nodes together: a lock that a majority holds, or nothing.
 */
#ifndef SERVE_OBSERVATION_H
#define SERVE_OBSERVATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <redlock.h>

#include "script.h"

#define OBSERVED_NEVER_ENDS INT64_MAX

enum observation_state { OBSERVED_NONE = 0, OBSERVED_ABSENT, OBSERVED_LOCK };

struct observation {
    enum observation_state state; /* NONE: not looked yet */
    int64_t ends_ns; /* when a majority ceases to hold it, by the nodes' word; OBSERVED_NEVER_ENDS:
                        it has no TTL */
    size_t token_bytes;
    unsigned char token[REDLOCK_TOKEN_BYTES_MAX];
};

enum observation_verdict {
    OBSERVED_DECIDED, /* *observation is filled */
    OBSERVED_UNKNOWN, /* the nodes that did not answer could decide it */
    OBSERVED_FOREIGN, /* a majority holds something that is not a string */
    OBSERVED_LONG     /* a majority holds a value too long for a token */
};

/* Absent is what no majority can hold, whatever the silent nodes have. */
enum observation_verdict observation_judge(const struct redlock_view *views, size_t nodes,
                                           int64_t now_ns, struct observation *observation);

void observation_set(struct observation *observation, const void *token, size_t bytes,
                     int64_t ends_ns);
bool observation_same(const struct observation *a, const struct observation *b);
/* What the client gave: the token without the 40 digits and the colon of ours; else the whole of
 * it. */
struct script_bytes observation_value(const void *token, size_t bytes);

#endif
