/* SPDX-License-Identifier: BSD-2-Clause */
#include "sibling.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "diagnostics.h"
#include "exit_codes.h"
#include "message.h"

int own_directory(char *directory, size_t size) {
    ssize_t length = readlink("/proc/self/exe", directory, size - 1);
    if (length < 0) return -1;
    directory[length] = '\0';
    char *slash = strrchr(directory, '/');
    if (slash == NULL) return -1;
    *slash = '\0';
    return 0;
}

/* An absent directory is not an error yet: the program may be in the other one. */
static void try_in(const char *directory, const char *below, const char *command, char **argv) {
    char program[2 * PATH_MAX];
    int length = snprintf(program, sizeof program, "%s/%sredlock-%s", directory, below, command);
    if (length < 0 || (size_t)length >= sizeof program) return;
    diagnostics_flush();
    execv(program, argv);
    if (errno != ENOENT && errno != ENOTDIR)
        complain("cannot run %s: %s", program, strerror(errno));
}

int sibling_main(const char *command, int argc, char **argv) {
    char directory[PATH_MAX], name[64];
    (void)argc;
    if (own_directory(directory, sizeof directory) != 0) {
        complain("cannot find this program's own directory through /proc/self/exe: %s",
                 strerror(errno));
        return EXIT_SYSTEM;
    }
    snprintf(name, sizeof name, "redlock %s", command);
    argv[0] = name;
    try_in(directory, "", command, argv);
    try_in(directory, REDLOCK_ELSEWHERE "/", command, argv);
    /* The two that need libevent. */
    const bool serves = strcmp(command, "serve") == 0 || strcmp(command, "exporter") == 0;
    complain(
        "this command is not installed: there is no redlock-%s in %s, nor in %s/" REDLOCK_ELSEWHERE
        "; install it from the same version of redlock (the package %s)",
        command, directory, directory, serves ? "redlock-serve" : "redlock");
    return EXIT_SYSTEM;
}

int sibling_program(char *path, size_t size) {
    static const char *const places[] = {"redlock", REDLOCK_ELSEWHERE "/redlock"};
    char directory[PATH_MAX];
    if (own_directory(directory, sizeof directory) != 0) {
        complain("cannot find this program's own directory through /proc/self/exe: %s",
                 strerror(errno));
        return -1;
    }
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        const int length = snprintf(path, size, "%s/%s", directory, places[i]);
        if (length >= 0 && (size_t)length < size && access(path, X_OK) == 0) return 0;
    }
    complain("redlock is not installed: it is neither in %s nor in %s/" REDLOCK_ELSEWHERE,
             directory, directory);
    return -1;
}

static bool find_module(const char *directory, char *path, size_t size) {
    static const char *const places[] = {REDLOCK_MODULE_BESIDE, "../module/redlock.so"};
    char place[2 * PATH_MAX], *found = NULL;
    for (size_t i = 0; i < sizeof places / sizeof places[0] && found == NULL; i++) {
        snprintf(place, sizeof place, "%s/%s", directory, places[i]);
        found = realpath(place, NULL);
    }
    int length = found != NULL ? snprintf(path, size, "%s", found) : -1;
    free(found);
    return length >= 0 && (size_t)length < size;
}

bool sibling_has_module(void) {
    char directory[PATH_MAX], path[PATH_MAX];
    return own_directory(directory, sizeof directory) == 0 &&
           find_module(directory, path, sizeof path);
}

int sibling_module(char *path, size_t size) {
    char directory[PATH_MAX];
    if (own_directory(directory, sizeof directory) != 0) {
        complain("cannot find this program's own directory through /proc/self/exe: %s",
                 strerror(errno));
        return -1;
    }
    if (find_module(directory, path, size)) return 0;
    complain(
        "the module is not installed: there is no %s/%s; install it (the package redlock-node), "
        "or name one by --module FILE",
        directory, REDLOCK_MODULE_BESIDE);
    return -1;
}
