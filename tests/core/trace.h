/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A golden trace that differs, shown.
 */
#ifndef TRACE_H
#define TRACE_H

#include <stdbool.h>
#include <stdio.h>

#include "trace/words.h"

/* Writes both with the first differing line marked. */
void text_show_difference(FILE *out, const char *name, const char *wanted, const char *got);

/* The program: [--update] FILE..., or without files all that match `pattern`. `check` returns an
 * exit status; the worst one is returned. */
int text_main(int argc, char **argv, const char *pattern,
              int (*check)(const char *name, bool update));

#endif
