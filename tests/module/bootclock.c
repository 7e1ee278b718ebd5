/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Preloaded into a server with the module: its CLOCK_BOOTTIME is the number in a file that the test
 * maps too, in microseconds. All other clocks stay true. */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t *clock_us;

static void open_clock(void) {
    const char *path = getenv("BOOTCLOCK_FILE");
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    void *map = fd >= 0 ? mmap(NULL, sizeof(int64_t), PROT_READ, MAP_SHARED, fd, 0) : MAP_FAILED;
    if (map == MAP_FAILED) {
        fputs("bootclock: BOOTCLOCK_FILE cannot be read\n", stderr);
        abort();
    }
    close(fd);
    clock_us = map;
}

__attribute__((visibility("default"))) int clock_gettime(clockid_t clock, struct timespec *ts) {
    if (clock != CLOCK_BOOTTIME) return (int)syscall(SYS_clock_gettime, clock, ts);
    if (!clock_us) open_clock();
    ts->tv_sec = (time_t)(*clock_us / 1000000);
    ts->tv_nsec = (long)(*clock_us % 1000000 * 1000);
    return 0;
}
