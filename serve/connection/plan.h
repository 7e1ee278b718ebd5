/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What a request asks of keys.
 */
#ifndef SERVE_PLAN_H
#define SERVE_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "script/key_call.h"

/* What one lock command asks of one key, and the form of its answer. EXEC and a command outside a
 * transaction use the same plan. */
enum plan_shape {
    PLAN_PLAIN,
    PLAN_SECONDS, /* TTL: milliseconds become seconds */
    PLAN_FLAG,    /* SETNX: OK and nil become 1 and 0 */
    PLAN_OLD,     /* SET ... GET: the old value; nil: the key was taken */
    PLAN_IF_SAME, /* DELIFEQ, SET ... IFEQ or XX: only if the key holds call.value */
    PLAN_FENCE    /* REDLOCK.FENCE */
};

struct plan {
    struct bytes key;
    struct key_call call;
    enum plan_shape shape;
    bool looked; /* OLD, IF_SAME: the old value has been read */
};

/* A request that is under way as a series of plans: one for each key. */
struct job {
    struct plan plan;
    size_t keys_left; /* the words of a command with several keys that are still to do */
    size_t word;
    int64_t sum;
    int64_t renew_max_ms; /* REDLOCK.RENEW; 0: without MAX */
};

#endif
