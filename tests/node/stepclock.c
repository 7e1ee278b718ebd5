/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Preloaded into a redis-server: its wall clock is the number in a file that the test maps too, in
 * microseconds. It stands still until the test changes it, and may go anywhere. With STEPCLOCK_RUNS
 * set the number is added to the true time instead. All other clocks stay true, so that the
 * server's event loop lives on.
 *
 * But in a server that looks into /proc/cpuinfo for a clock in the processor. Valkey from 9.1 on
 * reads the wall clock once in a millisecond of such a clock, and adds to it what that clock has
 * gone on since. It finds an empty /proc/cpuinfo, so its monotonic clock is the system's. That one
 * stands still within each millisecond, unless the wall clock runs, and goes a millisecond on when
 * the test changes the wall clock: then it is read again.
 */
#undef _FILE_OFFSET_BITS /* with it fopen() is called fopen64(), and here each is defined */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define EXPORTED __attribute__((visibility("default")))

static const volatile int64_t *clock_us;
static int runs, looked_into_processor;

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

/* Several threads of the server read clocks; one change of the wall clock may then count twice,
 * which does no harm. */
static void move_monotonic(struct timespec *ts) {
    static int64_t seen_us, ahead_ms;
    if (!clock_us) open_clock();
    int64_t us = *clock_us;
    if (__atomic_exchange_n(&seen_us, us, __ATOMIC_RELAXED) != us)
        __atomic_fetch_add(&ahead_ms, 1, __ATOMIC_RELAXED);
    int64_t ns = ts->tv_nsec + __atomic_load_n(&ahead_ms, __ATOMIC_RELAXED) * 1000000;
    if (!runs) ns -= ns % 1000000;
    ts->tv_sec += (time_t)(ns / 1000000000);
    ts->tv_nsec = (long)(ns % 1000000000);
}

EXPORTED int gettimeofday(struct timeval *restrict tv, void *restrict zone) {
    (void)zone;
    int64_t us = now_us();
    tv->tv_sec = (time_t)(us / 1000000);
    tv->tv_usec = (suseconds_t)(us % 1000000);
    return 0;
}

EXPORTED int clock_gettime(clockid_t clock, struct timespec *ts) {
    if (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE) {
        int result = (int)syscall(SYS_clock_gettime, clock, ts);
        if (looked_into_processor && result == 0 && clock == CLOCK_MONOTONIC) move_monotonic(ts);
        return result;
    }
    int64_t us = now_us();
    ts->tv_sec = (time_t)(us / 1000000);
    ts->tv_nsec = (long)(us % 1000000 * 1000);
    return 0;
}

EXPORTED time_t time(time_t *out) {
    time_t seconds = (time_t)(now_us() / 1000000);
    if (out) *out = seconds;
    return seconds;
}

static FILE *open_as(const char *name, const char *path, const char *mode) {
    FILE *(*open_file)(const char *, const char *);
    *(void **)&open_file = dlsym(RTLD_NEXT, name);
    if (strcmp(path, "/proc/cpuinfo") != 0) return open_file(path, mode);
    looked_into_processor = 1;
    return open_file("/dev/null", mode);
}

EXPORTED FILE *fopen(const char *restrict path, const char *restrict mode) {
    return open_as("fopen", path, mode);
}

EXPORTED FILE *fopen64(const char *restrict path, const char *restrict mode) {
    return open_as("fopen64", path, mode);
}
