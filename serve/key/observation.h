/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The state of a key over all nodes together: a lock that a majority holds, or nothing.
 */
#ifndef SERVE_OBSERVATION_H
#define SERVE_OBSERVATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <redlock.h>

#include "script/key_call.h"

#define OBSERVED_NEVER_ENDS INT64_MAX

enum observation_state { OBSERVED_NONE = 0, OBSERVED_ABSENT, OBSERVED_LOCK };

struct observation {
    enum observation_state state; /* NONE: the nodes were not asked yet */
    /* when a majority no longer holds it, by the nodes' TTLs; OBSERVED_NEVER_ENDS: it has no TTL */
    int64_t ends_ns;
    size_t token_bytes;
    unsigned char token[REDLOCK_TOKEN_BYTES_MAX];
};

enum observation_verdict {
    OBSERVED_DECIDED, /* *observation is filled */
    OBSERVED_UNKNOWN, /* it depends on nodes that did not answer */
    OBSERVED_FOREIGN, /* a majority holds a value that is not a string */
    OBSERVED_LONG     /* a majority holds a value too long for a token */
};

/* The key is absent when no majority can hold it, whatever the silent nodes hold. */
enum observation_verdict observation_judge(const struct redlock_view *views, size_t nodes,
                                           int64_t now_ns, struct observation *observation);

void observation_set(struct observation *observation, const void *token, size_t bytes,
                     int64_t ends_ns);
bool observation_same(const struct observation *a, const struct observation *b);
/* The value that the client set: the token without our 40 digits and colon; else the whole token.
 */
struct bytes observation_value(const void *token, size_t bytes);

#endif
