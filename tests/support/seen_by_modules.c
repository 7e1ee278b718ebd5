/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Part of each preloaded clock. Valkey from 8.0 on loads modules with RTLD_DEEPBIND: they find the
 * C library's functions before those that are preloaded, so a module would go on by the true clock.
 */
#include <dlfcn.h>

__attribute__((visibility("default"))) void *dlopen(const char *path, int flags) {
    void *(*open_library)(const char *, int);
    *(void **)&open_library = dlsym(RTLD_NEXT, "dlopen");
    return open_library(path, flags & ~RTLD_DEEPBIND);
}
