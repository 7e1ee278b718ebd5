/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Takes away from this process what an interpreter does not need: everything beyond its own memory
 * and descriptor 0.
 */
#ifndef SERVE_SCRIPT_CONFINE_H
#define SERVE_SCRIPT_CONFINE_H

#include <stdbool.h>

/* Closes all descriptors but 0; standard error stays open for the reports of sanitizers, if one is
 * built in. */
void confine_descriptors(void);
/* Forbids files, processes and core dumps, and limits memory. A lower limit that is there already
 * stays. False: it could not set all limits; errno holds the reason. */
bool confine_limits(void);
/* From here on the process reads and writes descriptor 0, takes memory that is not executable, and
 * ends; any other system call kills it. False: the kernel has no such filter, or this program does
 * not know the processor; errno holds the reason. */
bool confine_system_calls(void);

#endif
