/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The requests of an operation to the nodes: peek, acquire, extend, release.
 */
#ifndef SERVE_STEP_H
#define SERVE_STEP_H

#include <stdbool.h>

#include "script.h"

struct key_op;

/* True: *value is the answer. False: the answer comes later, by key_op_go() or key_op_late(). */
bool step_call(struct key_op *op, const struct script_call *call, struct script_value *value);
/* Frees what the last step needed. */
void step_close(struct key_op *op);

#endif
