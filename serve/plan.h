/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What one lock command asks of one key, and the form of its answer. EXEC and a command outside a
 * transaction use the same plan.
 */
#ifndef SERVE_PLAN_H
#define SERVE_PLAN_H

#include <stdbool.h>

#include "script.h"

struct key_op;

enum plan_shape {
    PLAN_PLAIN,
    PLAN_SECONDS, /* TTL: milliseconds become seconds */
    PLAN_FLAG,    /* SETNX: OK and nil become 1 and 0 */
    PLAN_OLD,     /* SET ... GET: the old value; nil: the key was taken */
    PLAN_FENCE    /* REDLOCK.FENCE */
};

struct plan {
    struct script_bytes key;
    struct script_call call;
    enum plan_shape shape;
    bool looked; /* OLD: the old value has been read */
};

/* As a key_op_program. */
enum script_step plan_step(struct plan *plan, struct key_op *op, const struct script_value *answer,
                           struct script_call *call, struct script_value *result);

#endif
