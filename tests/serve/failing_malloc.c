/* SPDX-License-Identifier: BSD-2-Clause
 *
 * For LD_PRELOAD: the nth allocation of the gateway fails, or that of the processes that run its
 * scripts. The file that FAILING_MALLOC names is shared with the test. It has for the gateway, and
 * then for the other processes together: how many allocations are left until then (0: none fails),
 * and how many have failed. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *block, size_t bytes);

static struct { atomic_long left, failed; } * shared; /* of this process */

__attribute__((constructor)) static void attach(void) {
    const char *path = getenv("FAILING_MALLOC");
    int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (fd < 0) return;
    void *page = mmap(NULL, 2 * sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (page == MAP_FAILED) return;
    shared = page;
    if (strcmp(program_invocation_short_name, "redlock-script") == 0) shared++;
}

/* The gateway gives these processes an empty environment: we would not be in them. */
int posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,
                const posix_spawnattr_t *attributes, char *const arguments[],
                char *const environment[]) {
    int (*spawn)(pid_t *, const char *, const posix_spawn_file_actions_t *,
                 const posix_spawnattr_t *, char *const[], char *const[]);
    *(void **)&spawn = dlsym(RTLD_NEXT, "posix_spawn");
    (void)environment;
    return spawn(pid, path, actions, attributes, arguments, environ);
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
