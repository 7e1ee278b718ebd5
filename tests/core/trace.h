/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The text of a golden trace: what the machines did, as lines one can read.
 */
#ifndef TRACE_H
#define TRACE_H

#include <stdio.h>

#include "core/core.h"

struct text {
    char data[65536];
    size_t used;
};
void text_add(struct text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
void text_ms(struct text *text, rl_ns at); /* "0.4ms": at most three decimals, none that are zero */
void text_nodes(struct text *text, rl_mask mask); /* "node1..3,5" */
/* Writes both with the first differing line marked. */
void text_show_difference(FILE *out, const char *name, const char *wanted, const char *got);

#endif
