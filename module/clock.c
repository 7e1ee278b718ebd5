/* SPDX-License-Identifier: BSD-2-Clause */
#include "clock.h"

#include <stdlib.h>
#include <time.h>

/* The kernel has the clock since 2.6.39, so a failure means that memory is corrupt. */
int64_t boottime_us(void) {
    struct timespec ts;
    if (clock_gettime(CLOCK_BOOTTIME, &ts) != 0) abort();
    return ts.tv_sec * INT64_C(1000000) + ts.tv_nsec / 1000;
}
