/* SPDX-License-Identifier: BSD-2-Clause
 *
 * This program's own malloc, before glibc's for every shared library too. Not beside a sanitizer:
 * those bring their own.
 */
#include <errno.h>
#include <stddef.h>

#include "failing_count.h"

bool failing_live_is_exact(void) { return false; }

/* glibc's own names for what it does when nobody is in between. */
void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *block, size_t bytes);
void __libc_free(void *block);

void *malloc(size_t bytes) __attribute__((visibility("default")));
void *calloc(size_t count, size_t bytes) __attribute__((visibility("default")));
void *realloc(void *block, size_t bytes) __attribute__((visibility("default")));
void free(void *block) __attribute__((visibility("default")));

static void *no_memory(void) {
    errno = ENOMEM;
    return NULL;
}

void *malloc(size_t bytes) { return fails() ? no_memory() : counted(__libc_malloc(bytes)); }
void *calloc(size_t count, size_t bytes) {
    return fails() ? no_memory() : counted(__libc_calloc(count, bytes));
}

void *realloc(void *block, size_t bytes) {
    if (fails()) return no_memory();
    void *moved = __libc_realloc(block, bytes);
    return block ? moved : counted(moved);
}

void free(void *block) {
    if (block) atomic_fetch_sub(&live, 1);
    __libc_free(block);
}
