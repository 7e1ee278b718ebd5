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

static int64_t rise_to(_Atomic int64_t *number, int64_t fence) {
    int64_t seen = atomic_load(number);
    while (seen < fence)
        if (atomic_compare_exchange_weak(number, &seen, fence)) seen = fence;
    return seen;
}

static int64_t admit(struct chaos_cell *cell, int64_t higher) {
    atomic_fetch_add(higher ? &cell->refusals : &cell->writes, 1);
    return higher;
}

/* Without a lock: a worker may be killed or stopped anywhere in here. So the gate's two numbers
 * change one after the other. Each raises its own first and looks at the other one then: of a
 * reader and a writer at the same time, at least one sees the other. */
int64_t chaos_register_write(struct chaos_cell *cell, int64_t fence) {
    int64_t read = atomic_load(&cell->read_fence);
    if (read >= fence) return admit(cell, read);
    int64_t seen = rise_to(&cell->fence, fence);
    if (seen > fence) return admit(cell, seen);
    read = atomic_load(&cell->read_fence);
    return admit(cell, read >= fence ? read : 0);
}

int64_t chaos_register_read(struct chaos_cell *cell, int64_t fence) {
    rise_to(&cell->read_fence, fence);
    int64_t seen = atomic_load(&cell->fence);
    return admit(cell, seen > fence ? seen : 0);
}

int64_t chaos_id(const void *bytes, size_t count) {
    const unsigned char *at = bytes;
    uint64_t hash = UINT64_C(14695981039346656037);
    for (size_t i = 0; i < count; i++) hash = (hash ^ at[i]) * UINT64_C(1099511628211);
    return (int64_t)(hash >> 1);
}
