/* SPDX-License-Identifier: BSD-2-Clause */
#include "password.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PASSWORD_BYTES_MAX = 512 };

char *password_read(const char *path, char *why, size_t size) {
    char line[PASSWORD_BYTES_MAX + 2] = "", *password = NULL;
    FILE *file = fopen(path, "re");
    if (file == NULL || fgets(line, sizeof line, file) == NULL) {
        snprintf(why, size, "--password-file %s: %s", path,
                 file == NULL ? strerror(errno) : "it is empty");
        if (file != NULL) fclose(file);
        return NULL;
    }
    fclose(file);
    line[strcspn(line, "\r\n")] = '\0';
    if (line[0] == '\0' || strlen(line) > PASSWORD_BYTES_MAX)
        snprintf(why, size, "--password-file %s: its first line is a password of 1 to %d bytes",
                 path, PASSWORD_BYTES_MAX);
    else if ((password = strdup(line)) == NULL)
        snprintf(why, size, "--password-file %s: out of memory", path);
    explicit_bzero(line, sizeof line);
    return password;
}

void password_free(char *password) {
    if (password != NULL) explicit_bzero(password, strlen(password));
    free(password);
}
