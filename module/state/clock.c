/* SPDX-License-Identifier: BSD-2-Clause */
#include "state/clock.h"

#include <stdlib.h>
#include <time.h>

/* The kernel has the clock since 2.6.39, so a failure means that memory is corrupt. */
static int64_t read_us(clockid_t clock) {
    struct timespec ts;
    if (clock_gettime(clock, &ts) != 0) abort();
    return ts.tv_sec * INT64_C(1000000) + ts.tv_nsec / 1000;
}

int64_t boottime_us(void) { return read_us(CLOCK_BOOTTIME); }

int64_t realtime_us(void) { return read_us(CLOCK_REALTIME); }
