/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Messages that each node of a fleet received, a second, and a picture of that.
 */
#ifndef SIM_PLOT_H
#define SIM_PLOT_H

#include <stdbool.h>
#include <stdint.h>

enum { FLEET_NODES = 5, FLEET_SECONDS = 440 };

struct fleet_phase {
    int at; /* seconds */
    const char *name;
};

/* All that a node has received until each tenth of a second. */
struct fleet_counts {
    uint64_t until[FLEET_NODES][FLEET_SECONDS * 10 + 1];
};
/* Messages per node and second, from one second to another: the mean of all nodes; the most that
 * any node received in any second. */
double fleet_mean(const struct fleet_counts *counts, int from, int to);
double fleet_peak(const struct fleet_counts *counts, int from, int to);
/* False: the file could not be written. `phases` ends with a name of NULL. */
bool fleet_plot(const struct fleet_counts *counts, const struct fleet_phase *phases, double bound,
                const char *title, const char *file);

#endif
