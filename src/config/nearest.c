/* SPDX-License-Identifier: BSD-2-Clause */
#include "config/nearest.h"

#include <limits.h>
#include <string.h>

#define WORD_MAX 31

static unsigned least(unsigned a, unsigned b) { return a < b ? a : b; }

unsigned nearest_distance(const char *a, const char *b) {
    size_t rows = strlen(a), columns = strlen(b);
    if (rows > WORD_MAX || columns > WORD_MAX) return UINT_MAX;
    unsigned cost[WORD_MAX + 1][WORD_MAX + 1];
    for (unsigned i = 0; i <= rows; i++) cost[i][0] = i;
    for (unsigned j = 0; j <= columns; j++) cost[0][j] = j;
    for (size_t i = 1; i <= rows; i++) {
        for (size_t j = 1; j <= columns; j++) {
            unsigned change = cost[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
            cost[i][j] = least(change, least(cost[i - 1][j], cost[i][j - 1]) + 1);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
                cost[i][j] = least(cost[i][j], cost[i - 2][j - 2] + 1);
            }
        }
    }
    return cost[rows][columns];
}

void nearest_init(struct nearest *nearest, const char *typed) {
    nearest->typed = typed;
    nearest->best = NULL;
    /* A third of the word may be wrong, and one letter always. */
    nearest->distance = (unsigned)(strlen(typed) / 3 + 2);
}

void nearest_offer(struct nearest *nearest, const char *word) {
    unsigned distance = nearest_distance(nearest->typed, word);
    if (distance >= nearest->distance) return;
    nearest->distance = distance;
    nearest->best = word;
}
