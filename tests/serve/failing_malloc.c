/* SPDX-License-Identifier: BSD-2-Clause
 *
 * For LD_PRELOAD: the nth allocation of the process fails. The file that FAILING_MALLOC names is
 * shared with the test: how many allocations are left until then (0: none fails), and how many have
 * failed. */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *block, size_t bytes);

static struct { atomic_long left, failed; } * shared;

__attribute__((constructor)) static void attach(void) {
    const char *path = getenv("FAILING_MALLOC");
    int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (fd < 0) return;
    void *page = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (page != MAP_FAILED) shared = page;
}

static bool fails(void) {
    if (!shared || atomic_load(&shared->left) <= 0 || atomic_fetch_sub(&shared->left, 1) != 1)
        return false;
    atomic_fetch_add(&shared->failed, 1);
    errno = ENOMEM;
    return true;
}

void *malloc(size_t bytes) { return fails() ? NULL : __libc_malloc(bytes); }
void *calloc(size_t count, size_t bytes) { return fails() ? NULL : __libc_calloc(count, bytes); }
void *realloc(void *block, size_t bytes) { return fails() ? NULL : __libc_realloc(block, bytes); }
