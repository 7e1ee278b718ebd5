/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A program that loads the library as a plug-in would, takes a lock, and unloads it again.
 * usage: plugin LIBRARY RESOURCE   (nodes from REDLOCK_NODES)
 */
#include <redlock.h>

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

/* POSIX lets a pointer to data become one to a function in this way. */
#define FIND(name) (*(void **)&name = dlsym(library, "redlock_" #name))

int main(int argc, char **argv) {
    struct redlock_client *client;
    struct redlock_lock *lock;
    int (*client_open)(const char *, const struct redlock_client_options *, struct redlock_client **, struct redlock_error *);
    int (*lock_new)(struct redlock_client *, const void *, size_t, const struct redlock_lock_options *, struct redlock_lock **,
                    struct redlock_error *);
    int (*acquire)(struct redlock_lock *, int64_t);
    void (*lock_free)(struct redlock_lock *);
    void (*client_free)(struct redlock_client *);
    void *library = argc == 3 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
    if (!library) return 64;
    FIND(client_open), FIND(lock_new), FIND(acquire), FIND(lock_free), FIND(client_free);
    if (client_open(NULL, NULL, &client, NULL) || lock_new(client, argv[2], strlen(argv[2]), NULL, &lock, NULL))
        return 78;
    const int result = acquire(lock, 10000);
    printf("%s: %s\n", argv[2], result == REDLOCK_OK ? "held" : "not held");
    lock_free(lock);
    client_free(client);
    dlclose(library); /* its code stays: a thread that resolves a name may still run */
    return result == REDLOCK_OK ? 0 : 75;
}
