/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The clock of the library, CLOCK_BOOTTIME. It counts a suspend. No wall clock decides anything
 * here.
 */
#ifndef CLI_BOOTTIME_H
#define CLI_BOOTTIME_H

#include <stdint.h>

#define MS INT64_C(1000000)
#define NEVER INT64_MAX

int64_t now_ns(void);
void pause_ms(int ms);

#endif
