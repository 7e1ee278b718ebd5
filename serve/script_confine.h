/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Takes from this process what an interpreter does not need: all that reaches beyond its own memory
 * and descriptor 0.
 */
#ifndef SERVE_SCRIPT_CONFINE_H
#define SERVE_SCRIPT_CONFINE_H

#include <stdbool.h>

/* All but descriptor 0; standard error stays for the reports of sanitizers, where one is built in.
 */
void confine_descriptors(void);
/* No files, no processes, no core, little memory. False: not all of it. */
bool confine_limits(void);
/* From here on the process reads and writes descriptor 0, takes memory that cannot be executed, and
 * ends; anything else kills it. False: the kernel has no such filter, or this program does not know
 * the processor. */
bool confine_system_calls(void);

#endif
