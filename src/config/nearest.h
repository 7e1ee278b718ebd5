/* SPDX-License-Identifier: BSD-2-Clause
 *
 * "Did you mean": the known word nearest to the typed one.
 */
#ifndef RL_CONFIG_NEAREST_H
#define RL_CONFIG_NEAREST_H

#include <stddef.h>

/* The number of letters to change, add, drop or swap that turns `a` into `b`. Words over 31 letters
 * are infinitely far. */
unsigned nearest_distance(const char *a, const char *b);

struct nearest {
    const char *typed;
    const char *best; /* NULL when no word is near enough for a hint */
    unsigned distance;
};
void nearest_init(struct nearest *nearest, const char *typed);
void nearest_offer(struct nearest *nearest, const char *word);

#endif
