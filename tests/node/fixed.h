/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Requests to the scripts that are not drawn: what chance would not bring, and what the twins in C
 * do not know (no keys, permissions, keys of another type). Each has the one right answer.
 */
#ifndef TESTS_NODE_FIXED_H
#define TESTS_NODE_FIXED_H

#include "real.h"

/* False, and it is printed: an answer is another than `path` says (fixed_requests.txt). Each scene
 * begins with the clock at `begin_us`. */
bool fixed_answered(struct real *real, const char *path, int64_t begin_us);

#endif
