/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The clock of the leases: it never steps, and it counts the time that the machine sleeps. */
#ifndef MODULE_CLOCK_H
#define MODULE_CLOCK_H

#include <stdint.h>

int64_t boottime_us(void);
static inline int64_t boottime_ms(void) { return boottime_us() / 1000; }

#endif
