/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Commands that are programs of their own, redlock-sim and redlock-serve: who only takes locks
 * carries no simulator, and loads no library that only the gateway needs.
 */
#ifndef CLI_BESIDE_H
#define CLI_BESIDE_H

/* Becomes redlock-`command` with the arguments after argv[0]. Returns an exit status when that
 * cannot be. */
int beside_main(const char *command, int argc, char **argv);

#endif
