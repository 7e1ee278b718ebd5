/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What is the same for each program of this directory, from main() to the command and back.
 */
#ifndef CLI_PROGRAM_H
#define CLI_PROGRAM_H

#include "arguments.h"

/* main(): `dispatch` gets what it was given. */
int program_main(int (*dispatch)(int argc, char **argv), int argc, char **argv);
/* Runs the command with its defaults, the configuration file and argv[1..argc). Returns the exit
 * status. */
int program_run(const struct command *command, int argc, char **argv);

#endif
