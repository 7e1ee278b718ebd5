/* SPDX-License-Identifier: BSD-2-Clause
 *
 * redlock sim: a program of its own, redlock-sim, so that who only takes locks carries no simulator.
 */
#ifndef CLI_SIM_H
#define CLI_SIM_H

/* Becomes redlock-sim with the arguments after argv[0]. Returns an exit status when that cannot be. */
int sim_main(int argc, char **argv);

#endif
