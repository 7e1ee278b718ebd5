/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Patterns of channel names, as PSUBSCRIBE takes them: * ? [a-z] [^x] \x, over bytes.
 */
#ifndef SERVE_PATTERN_H
#define SERVE_PATTERN_H

#include <stdbool.h>
#include <stddef.h>

#include "script.h"

/* How many bytes stand before the first wildcard: what matches begins with these. */
size_t pattern_literal(struct script_bytes pattern);
/* Whether a single * at its end is its only wildcard. */
bool pattern_is_prefix(struct script_bytes pattern);
/* Takes at most as many steps as both have bytes, multiplied; with one that is a prefix, as many as
 * it has bytes. */
bool pattern_matches(struct script_bytes pattern, struct script_bytes text);

#endif
