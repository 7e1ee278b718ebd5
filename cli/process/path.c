/* SPDX-License-Identifier: BSD-2-Clause */
#include "path.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *search_path(void) {
    const char *path = getenv("PATH");
    return path != NULL ? path : "/usr/local/bin:/usr/bin:/bin";
}

int find_in_path(const char *name, char *program, size_t size) {
    for (const char *path = search_path(); *path != '\0';) {
        const size_t length = strcspn(path, ":");
        const int wanted = snprintf(program, size, "%.*s/%s", (int)length, path, name);
        if (length > 0 && wanted > 0 && (size_t)wanted < size && access(program, X_OK) == 0)
            return 0;
        path += length + (path[length] == ':');
    }
    return -1;
}

int search_first_in(const char *directory) {
    char *path = NULL;
    if (asprintf(&path, "%s:%s", directory, search_path()) < 0) return -1;
    const int result = setenv("PATH", path, 1);
    free(path);
    return result;
}
