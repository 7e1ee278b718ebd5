/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Patterns of channel names, as PSUBSCRIBE takes them: * ? [a-z] [^x] \x, over bytes.
 */
#ifndef SERVE_PATTERN_H
#define SERVE_PATTERN_H

#include <stdbool.h>

#include "script.h"

bool pattern_matches(struct script_bytes pattern, struct script_bytes text);

#endif
