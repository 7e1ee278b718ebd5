/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The part that all programs with redlock's command line share, from main() to the command and
 * back.
 */
#ifndef CLI_PROGRAM_H
#define CLI_PROGRAM_H

#include "arguments.h"

/* Called by main(); `dispatch` gets the arguments of main(). */
int program_main(int (*dispatch)(int argc, char **argv), int argc, char **argv);
/* Runs the command with its defaults, the configuration file and argv[1..argc). Returns the exit
 * status. */
int program_run(const struct command *command, int argc, char **argv);
/* 0, or the exit status after a message: with too few descriptors, nodes would be blamed for what
 * this process lacks. */
int program_check_descriptors(void);

#endif
