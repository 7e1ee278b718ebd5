/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What one lock command asks of one key, and what its answer looks like. The same whether it is
 * done at once or in EXEC.
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
    PLAN_OLD,     /* SET ... GET: what was there; nil, and it was taken */
    PLAN_FENCE    /* REDLOCK.FENCE */
};

struct plan {
    struct script_bytes key;
    struct script_call call;
    enum plan_shape shape;
    bool looked; /* OLD: it was asked what is there */
};

/* As a key_op_program. */
enum script_step plan_step(struct plan *plan, struct key_op *op, const struct script_value *answer,
                           struct script_call *call, struct script_value *result);

#endif
