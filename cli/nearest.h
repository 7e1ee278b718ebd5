/* SPDX-License-Identifier: BSD-2-Clause
 *
 * "Did you mean": the known word nearest to what was typed.
 */
#ifndef CLI_NEAREST_H
#define CLI_NEAREST_H

#include <stddef.h>

/* Letters to change, add, drop or swap to make `a` of `b`. Words over 31 letters are infinitely
 * far. */
unsigned nearest_distance(const char *a, const char *b);

struct nearest {
    const char *typed;
    const char *best; /* NULL when nothing is near enough to be worth a hint */
    unsigned distance;
};
void nearest_init(struct nearest *nearest, const char *typed);
void nearest_offer(struct nearest *nearest, const char *word);

#endif
