/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Errors of scripts, as servers word them. The gateway words them as Redis 7.0 does, and as
 * Redis 7.2 to 8.0 do; the others differ as it stands here, and in nothing else.
 */
#ifndef TESTS_SERVE_SPELLING_H
#define TESTS_SERVE_SPELLING_H

#include <stdbool.h>
#include <stddef.h>

/* True if the redis-server in PATH words the gateway's error so. */
bool spelled_same(const char *here, size_t bytes, const char *there);

#endif
