/* SPDX-License-Identifier: BSD-2-Clause */
#include "boottime.h"

#include <time.h>

int64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

void pause_ms(int ms) {
    const struct timespec pause = {.tv_nsec = ms * MS};
    nanosleep(&pause, NULL);
}
