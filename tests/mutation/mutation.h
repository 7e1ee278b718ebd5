/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Comes before the text of every file that is compiled for scripts/mutate. REDLOCK_MUTANT names the
 * change that is active, REDLOCK_MUTANTS_REACHED a file for the numbers of all that were reached.
 */
#ifndef RL_MUTATION_H
#define RL_MUTATION_H

#include <stdio.h>
#include <stdlib.h>

enum { RL_MUTANTS_MAX = 1 << 16 };

/* Weak, so that each program has one of each, however its files are linked. */
__attribute__((weak)) unsigned rl_mutant;
__attribute__((weak)) unsigned char rl_mutants_reached[RL_MUTANTS_MAX];
__attribute__((weak)) int rl_mutants_listed;

__attribute__((constructor)) static void rl_mutant_chosen(void) {
    const char *number = getenv("REDLOCK_MUTANT");
    if (number) rl_mutant = (unsigned)atoi(number);
}

__attribute__((destructor)) static void rl_mutants_list(void) {
    const char *path = getenv("REDLOCK_MUTANTS_REACHED");
    if (!path || rl_mutants_listed++) return;
    FILE *file = fopen(path, "a");
    for (int i = 0; file && i < RL_MUTANTS_MAX; i++)
        if (rl_mutants_reached[i]) fprintf(file, "%d\n", i);
    if (file) fclose(file);
}

static inline int rl_mutated(unsigned number) {
    rl_mutants_reached[number] = 1;
    return rl_mutant == number;
}

/* Whether the right side decides. The changes: the other operator, only the left, only the right.
 */
static inline int rl_and(unsigned first, int left) {
    rl_mutants_reached[first] = rl_mutants_reached[first + 1] = rl_mutants_reached[first + 2] = 1;
    switch (rl_mutant - first) {
    case 0: return !left;
    case 1: return 0;
    case 2: return 1;
    default: return left;
    }
}

static inline int rl_or(unsigned first, int left) {
    rl_mutants_reached[first] = rl_mutants_reached[first + 1] = rl_mutants_reached[first + 2] = 1;
    switch (rl_mutant - first) {
    case 0: return left;
    case 1: return 0;
    case 2: return 1;
    default: return !left;
    }
}

#endif
