/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The part of redlock-sim's command line that runs scenarios: --list, --words, --all, NAME or
 * FILE.scene with --svg FILE and --html FILE, --gallery DIR.
 */
#ifndef SIM_SCENARIO_H
#define SIM_SCENARIO_H

#include <stdbool.h>
#include <stdio.h>

/* Whether scenario_main() handles these arguments: true unless they ask for exploration. */
bool scenario_wants(int argc, char **argv);
/* Exit status: 0 all as expected, 1 a scenario did not end as it should, 64 usage, 65 a scene
 * cannot be read, 73 a file cannot be written. */
int scenario_main(int argc, char **argv);
void scenario_help(FILE *out);

/* The built-in scenes, by name; scenes.cmake writes them from sim/scenarios/. */
struct scenario_text {
    const char *name;
    const unsigned char *text;
};
extern const struct scenario_text scenario_texts[];
extern const unsigned scenario_texts_count;

#endif
