/* SPDX-License-Identifier: BSD-2-Clause */
#include "path.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *search_path(void) {
    const char *path = getenv("PATH");
    return path != NULL ? path : "/usr/local/bin:/usr/bin:/bin";
}

static int look_at(const char *file) {
    struct stat status;
    if (stat(file, &status) != 0) return errno;
    if (!S_ISREG(status.st_mode)) return EACCES;
    return faccessat(AT_FDCWD, file, X_OK, AT_EACCESS) == 0 ? 0 : errno;
}

/* As execvp(3): the first that may be executed; an empty part of PATH is the current directory. */
int find_in_path(const char *name, char *program, size_t size) {
    int found = ENOENT;
    if (strchr(name, '/') != NULL) {
        const int length = snprintf(program, size, "%s", name);
        return length > 0 && (size_t)length < size ? look_at(program) : ENAMETOOLONG;
    }
    const char *path = search_path();
    for (const char *end; name[0] != '\0'; path = end + 1) {
        end = strchrnul(path, ':');
        const int wanted = snprintf(program, size, "%.*s%s%s", (int)(end - path), path,
                                    end > path ? "/" : "", name);
        const int error = wanted > 0 && (size_t)wanted < size ? look_at(program) : ENOENT;
        if (error == 0) return 0;
        if (error == EACCES) found = EACCES;
        if (*end == '\0') break;
    }
    return found;
}

int search_first_in(const char *directory) {
    char *path = NULL;
    if (asprintf(&path, "%s:%s", directory, search_path()) < 0) return -1;
    const int result = setenv("PATH", path, 1);
    free(path);
    return result;
}
