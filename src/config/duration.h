/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Durations as people write them: 500ms, 30s, 2m, 1h, 0.5, 30.
 */
#ifndef RL_CONFIG_DURATION_H
#define RL_CONFIG_DURATION_H

#include <stddef.h>
#include <stdint.h>

#define DURATION_MS_MAX (INT64_C(366) * 86400000)

/* Returns 0, or -1 with a reason in `error`. Rounds up to whole milliseconds. */
int duration_parse(const char *text, int64_t *ms, char *error, size_t error_size);
/* "1.5 s", "12.3 s", "2 m 5 s": for people. */
char *duration_text(char *out, size_t size, int64_t ms);

#endif
