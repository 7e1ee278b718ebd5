/* SPDX-License-Identifier: BSD-2-Clause
 *
 * boottime is the clock of the leases: it never steps, and it counts the time that the machine
 * sleeps. */
#ifndef MODULE_CLOCK_H
#define MODULE_CLOCK_H

#include <stdint.h>

int64_t boottime_us(void);
/* The wall clock. Only the order of waiters, which is a hint, uses it. */
int64_t realtime_us(void);
static inline int64_t boottime_ms(void) { return boottime_us() / 1000; }

#endif
