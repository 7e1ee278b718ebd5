/* SPDX-License-Identifier: BSD-2-Clause */
#include "config/file.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/lines.h"
#include "config/nearest.h"
#include "config/values.h"

const char *const config_file_names[] = {"nodes",
                                         "mode",
                                         "quorum",
                                         "allow-replicas",
                                         "ttl",
                                         "ttl-max",
                                         "wait",
                                         "conflict-exit-code",
                                         "owner",
                                         "retry-delay",
                                         "max-hold",
                                         "min-hold",
                                         "kill-after",
                                         "grace",
                                         "on-lost",
                                         "prefix",
                                         "node-timeout",
                                         "connect-timeout",
                                         "node-user",
                                         "node-password-file",
                                         "node-password-command",
                                         "tls-ca-file",
                                         "tls-cert-file",
                                         "tls-key-file",
                                         "tls-server-name",
                                         "listen",
                                         "socket-mode",
                                         "password-file",
                                         "connections",
                                         "client-memory",
                                         "lock-memory",
                                         "metrics",
                                         "page",
                                         "busy-poll",
                                         "scripts",
                                         NULL};
enum { NAMES = sizeof config_file_names / sizeof config_file_names[0] - 1 };

struct reading {
    struct config_file *file;
    char section[PROFILE_NAME_BYTES_MAX + 1];
    bool is_found;      /* the profile that applies */
    bool is_set[NAMES]; /* in this section */
    struct config_lines lines;
    const char *path;
    int result;
    char *error;
    size_t error_size;
};

bool is_profile_name(const char *text) {
    const size_t bytes = strlen(text);
    for (size_t i = 0; i < bytes; i++)
        if (!isalnum((unsigned char)text[i]) && strchr("-_.", text[i]) == NULL) return false;
    return bytes > 0 && bytes <= PROFILE_NAME_BYTES_MAX;
}

static void __attribute__((format(printf, 3, 4)))
fail(struct reading *reading, int result, const char *format, ...) {
    reading->result = result;
    char reason[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(reason, sizeof reason, format, arguments);
    va_end(arguments);
    snprintf(reading->error, reading->error_size, "%s:%d: %s", reading->path, reading->lines.number,
             reason);
}
#define refuse(reading, ...) fail(reading, CONFIG_REFUSED, __VA_ARGS__)

static bool is_listed(const char *names, const char *name) {
    const size_t bytes = strlen(name);
    for (const char *at = names; at != NULL; at = strchr(at, ' ')) {
        at += *at == ' ';
        if (strncmp(at, name, bytes) == 0 && (at[bytes] == ',' || at[bytes] == '\0')) return true;
    }
    return false;
}

/* Keys before the first section apply to all profiles; those in a section to that profile. */
static void enter_section(struct reading *reading, const char *name) {
    struct config_file *file = reading->file;
    if (!is_profile_name(name)) {
        refuse(reading, "section [%.60s]: the name of a profile has " PROFILE_NAME_RULE, name);
        return;
    }
    if (is_listed(file->profiles, name)) {
        refuse(reading, "section [%s] is there twice", name);
        return;
    }
    snprintf(reading->section, sizeof reading->section, "%s", name);
    memset(reading->is_set, 0, sizeof reading->is_set);
    if (file->profile != NULL && strcmp(name, file->profile) == 0) reading->is_found = true;
    char *all = NULL;
    const char *before = file->profiles;
    if (asprintf(&all, "%s%s%s", before != NULL ? before : "", before != NULL ? ", " : "", name) <
        0) {
        fail(reading, CONFIG_NO_MEMORY, "out of memory");
        return;
    }
    free(file->profiles);
    file->profiles = all;
}

static bool is_list(const char *name) {
    return strcmp(name, "nodes") == 0 || strcmp(name, "listen") == 0;
}

/* In the profile that applies a list replaces that of all profiles. */
static void set(struct reading *reading, size_t place, const char *value) {
    const struct config_file *file = reading->file;
    const char *name = config_file_names[place];
    char reason[256];
    const bool applies = reading->section[0] == '\0' ||
                         (file->profile != NULL && strcmp(reading->section, file->profile) == 0);
    void *settings = applies ? file->settings : file->others;
    if (reading->section[0] != '\0' && is_list(name) && !reading->is_set[place])
        file->set(settings, name, NULL, reason, sizeof reason);
    reading->is_set[place] = true;
    const int result = file->set(settings, name, value, reason, sizeof reason);
    if (result != 0) fail(reading, result, "%s: %s", name, reason);
}

static void unknown_name(struct reading *reading, const char *name) {
    struct nearest nearest;
    nearest_init(&nearest, name);
    for (size_t i = 0; i < NAMES; i++) nearest_offer(&nearest, config_file_names[i]);
    if (nearest.best != NULL)
        refuse(reading, "unknown key '%.60s'; did you mean '%s'?", name, nearest.best);
    else
        refuse(reading, "unknown key '%.60s'; redlock.conf(5) lists the keys", name);
}

static void take(struct reading *reading, const char *name, const char *value) {
    size_t place = 0;
    while (place < NAMES && strcmp(config_file_names[place], name) != 0) place++;
    if (place == NAMES) {
        unknown_name(reading, name);
    } else if (value[0] == '\0') {
        /* A list may be written as `nodes =` with the URLs on indented lines below it. */
        if (strcmp(name, "nodes") != 0) refuse(reading, "'%s' has no value", name);
    } else if (reading->is_set[place] && !is_list(name)) {
        /* The last one would count, and it may be the weaker mode. */
        refuse(reading, "'%s' is set twice", name);
    } else {
        set(reading, place, value);
    }
}

/* Up to the first error: the user fixes it first. */
static void read_all(struct reading *reading) {
    const char *name = NULL, *value = NULL;
    while (reading->result == 0) {
        switch (config_lines_next(&reading->lines, &name, &value)) {
        case CONFIG_END: return;
        case CONFIG_SECTION: enter_section(reading, name); break;
        case CONFIG_VALUE: take(reading, name, value); break;
        case CONFIG_WRONG: refuse(reading, "%s", value); break;
        }
    }
}

int config_file_read(struct config_file *file, char *error, size_t error_size) {
    const char *path = file->path != NULL ? file->path : CONFIG_FILE;
    FILE *stream = fopen(path, "re");
    if (stream == NULL) {
        if (errno == ENOENT && file->path == NULL && file->profile == NULL) return 0;
        const int result = errno == ENOMEM ? CONFIG_NO_MEMORY : CONFIG_REFUSED;
        snprintf(error, error_size, "cannot read the configuration file %s: %s", path,
                 strerror(errno));
        return result;
    }
    struct reading reading = {.file = file, .path = path, .error = error, .error_size = error_size};
    if (config_lines_open(&reading.lines, stream))
        read_all(&reading);
    else
        fail(&reading, CONFIG_NO_MEMORY, "out of memory");
    config_lines_close(&reading.lines);
    fclose(stream);
    if (reading.result != 0 || file->profile == NULL || reading.is_found) return reading.result;
    snprintf(error, error_size, "%s has no profile [%.60s]%s%.400s", path, file->profile,
             file->profiles != NULL ? "; it has " : "",
             file->profiles != NULL ? file->profiles : "");
    return CONFIG_REFUSED;
}
