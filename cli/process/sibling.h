/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Commands that are separate programs: redlock-bench, redlock-exporter, redlock-serve, redlock-sim
 * and redlock-top. So a command that takes locks contains no measurements and no simulator, and
 * loads no library that only the gateway or a screen needs.
 */
#ifndef CLI_SIBLING_H
#define CLI_SIBLING_H

#include <stdbool.h>
#include <stddef.h>

/* The directory of the running program, whatever name it was started by. 0, or -1 without a
 * message. */
int own_directory(char *directory, size_t size);
/* Executes redlock-`command` with the arguments after argv[0]. Returns an exit status only on
 * failure. */
int sibling_main(const char *command, int argc, char **argv);
/* The path of redlock itself, for the others. 0, or -1 after a message. */
int sibling_program(char *path, size_t size);
/* The absolute path of the module redlock.so: of the one that is installed, or was built, with this
 * program. 0, or -1 after a message. */
int sibling_module(char *path, size_t size);
bool sibling_has_module(void);

#endif
