/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Patterns of channel names, as PSUBSCRIBE takes them: * ? [a-z] [^x] \x, over bytes.
 */
#ifndef SERVE_PATTERN_H
#define SERVE_PATTERN_H

#include <stdbool.h>
#include <stddef.h>

#include "script.h"

/* The number of bytes before the first wildcard: each matching name begins with them. */
size_t pattern_literal(struct script_bytes pattern);
/* Whether the only wildcard is a single * at the end. */
bool pattern_is_prefix(struct script_bytes pattern);
/* The number of steps is at most the product of both lengths; for a prefix pattern, its length. */
bool pattern_matches(struct script_bytes pattern, struct script_bytes text);

#endif
