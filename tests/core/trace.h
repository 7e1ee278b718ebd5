/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A golden trace that differs, shown.
 */
#ifndef TRACE_H
#define TRACE_H

#include <stdio.h>

#include "trace/words.h"

/* Writes both with the first differing line marked. */
void text_show_difference(FILE *out, const char *name, const char *wanted, const char *got);

#endif
