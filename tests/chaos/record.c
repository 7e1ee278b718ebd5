/* SPDX-License-Identifier: BSD-2-Clause */
#include "record.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static _Noreturn void die(const char *what) {
    fprintf(stderr, "chaos: %s: %s\n", what, strerror(errno));
    exit(1);
}

int64_t chaos_now_ns(void) {
    struct timespec ts;
    clock_gettime(CLOCK_BOOTTIME, &ts);
    return ts.tv_sec * INT64_C(1000000000) + ts.tv_nsec;
}

int chaos_log_open(const char *path) {
    int log = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (log < 0) die(path);
    return log;
}

void chaos_log_write(int log, const struct chaos_record *record) {
    if (write(log, record, sizeof *record) != (ssize_t)sizeof *record) die("log");
}

struct chaos_cell *chaos_register_open(const char *path) {
    const size_t bytes = sizeof(struct chaos_cell) * CHAOS_CELLS;
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || ftruncate(fd, (off_t)bytes) != 0) die(path);
    void *map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED) die(path);
    close(fd);
    return map;
}

/* Without a lock: a worker may be killed or stopped anywhere in here. */
int64_t chaos_register_write(struct chaos_cell *cell, int64_t fence) {
    int64_t seen = atomic_load(&cell->fence);
    while (seen < fence)
        if (atomic_compare_exchange_weak(&cell->fence, &seen, fence)) seen = fence;
    if (seen > fence) {
        atomic_fetch_add(&cell->refusals, 1);
        return seen;
    }
    atomic_fetch_add(&cell->writes, 1);
    return 0;
}
