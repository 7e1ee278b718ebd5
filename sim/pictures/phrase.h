/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Times and lists of nodes in plain language. Integers only: the same text on every machine.
 */
#ifndef SIM_PHRASE_H
#define SIM_PHRASE_H

#include <stddef.h>

#include "core/core.h"

/* By value, so that several fit into one call. */
struct phrase_time {
    char text[32];
};
struct phrase_nodes {
    char text[96];
};
/* "0 ms", "101.5 ms", "9.998 s", in microseconds at the finest */
struct phrase_time phrase_time(rl_ns time);
/* "+20 s", "-1 h" */
struct phrase_time phrase_step(rl_ns step);
/* "node 3", "nodes 1 and 2", "nodes 1 to 5"; nodes count from 1 in words */
struct phrase_nodes phrase_nodes(rl_mask nodes);

/* Makes the text of a file safe for a terminal: well-formed UTF-8 and tabs pass, control characters
 * and stray bytes become \xNN. Cut at the end if necessary, always terminated. Returns `out`. */
char *phrase_plain(char *out, size_t size, const char *text, size_t bytes);

/* Writes into a buffer of fixed size; text that does not fit is left out. */
struct phrase {
    char *text;
    size_t size, used;
};
void phrase_begin(struct phrase *phrase, char *text, size_t size);
void phrase_add(struct phrase *phrase, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
