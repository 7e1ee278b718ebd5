/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Preloaded into a redis-server: its wall clock is the number in a file that the test maps too, in
 * microseconds. It stands still until the test changes it, and may go anywhere. With STEPCLOCK_RUNS
 * set the number is added to the true time instead. All other clocks stay true, so that the
 * server's event loop lives on.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define EXPORTED __attribute__((visibility("default")))

static const volatile int64_t *clock_us;
static int runs;

/* A server on the true clock would make a test that fails now and then; rather none at all. */
static void open_clock(void) {
    const char *path = getenv("STEPCLOCK_FILE");
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    void *map = fd >= 0 ? mmap(NULL, sizeof(int64_t), PROT_READ, MAP_SHARED, fd, 0) : MAP_FAILED;
    if (map == MAP_FAILED) {
        fputs("stepclock: STEPCLOCK_FILE cannot be read\n", stderr);
        abort();
    }
    close(fd);
    runs = getenv("STEPCLOCK_RUNS") != NULL;
    clock_us = map;
}

static int64_t now_us(void) {
    if (!clock_us) open_clock();
    if (!runs) return *clock_us;
    struct timespec ts;
    syscall(SYS_clock_gettime, CLOCK_REALTIME, &ts);
    return *clock_us + ts.tv_sec * INT64_C(1000000) + ts.tv_nsec / 1000;
}

EXPORTED int gettimeofday(struct timeval *restrict tv, void *restrict zone) {
    (void)zone;
    int64_t us = now_us();
    tv->tv_sec = us / 1000000;
    tv->tv_usec = us % 1000000;
    return 0;
}

EXPORTED int clock_gettime(clockid_t clock, struct timespec *ts) {
    if (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE)
        return (int)syscall(SYS_clock_gettime, clock, ts);
    int64_t us = now_us();
    ts->tv_sec = us / 1000000;
    ts->tv_nsec = us % 1000000 * 1000;
    return 0;
}

EXPORTED time_t time(time_t *out) {
    time_t seconds = now_us() / 1000000;
    if (out) *out = seconds;
    return seconds;
}
