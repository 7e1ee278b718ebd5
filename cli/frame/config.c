/* SPDX-License-Identifier: BSD-2-Clause */
#include "config.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "config_lines.h"
#include "nearest.h"
#include "process/message.h"

#define CONFIG_FILE "/etc/redlock.conf"

struct reading {
    struct settings *settings;
    struct settings others; /* what other profiles set: only checked */
    char section[PROFILE_NAME_BYTES_MAX + 1];
    bool is_found;                  /* the profile that applies */
    bool fresh_nodes, fresh_listen; /* a profile's list replaces that of all profiles */
    bool is_set[128];               /* in this section, by place in settings_options */
    struct config_lines lines;
    const char *path;
    bool failed;
    char *error;
    size_t error_size;
};

static void __attribute__((format(printf, 2, 3)))
fail(struct reading *reading, const char *format, ...) {
    if (reading->failed) return; /* report the first error only: the user fixes it first */
    reading->failed = true;
    char reason[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(reason, sizeof reason, format, arguments);
    va_end(arguments);
    snprintf(reading->error, reading->error_size, "%s:%d: %s", reading->path, reading->lines.number,
             reason);
}

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
    struct settings *settings = reading->settings;
    if (!is_profile_name(name)) {
        fail(reading, "section [%.60s]: the name of a profile has " PROFILE_NAME_RULE, name);
        return;
    }
    if (is_listed(settings->profiles, name)) {
        fail(reading, "section [%s] is there twice", name);
        return;
    }
    snprintf(reading->section, sizeof reading->section, "%s", name);
    memset(reading->is_set, 0, sizeof reading->is_set);
    if (settings->profile != NULL && strcmp(name, settings->profile) == 0) reading->is_found = true;
    char *all = NULL;
    const char *before = settings->profiles;
    if (asprintf(&all, "%s%s%s", before != NULL ? before : "", before != NULL ? ", " : "", name) <
        0)
        return; /* it is only for a message */
    free(settings->profiles);
    settings->profiles = all;
}

/* Where the value of a key goes. */
static struct settings *target(struct reading *reading, const char *name) {
    struct settings *settings = reading->settings;
    if (reading->section[0] == '\0') return settings;
    if (settings->profile == NULL || strcmp(reading->section, settings->profile) != 0)
        return &reading->others;
    bool *fresh = strcmp(name, "nodes") == 0    ? &reading->fresh_nodes
                  : strcmp(name, "listen") == 0 ? &reading->fresh_listen
                                                : NULL;
    if (fresh != NULL && !*fresh) {
        char **list = fresh == &reading->fresh_nodes ? &settings->nodes : &settings->serve.listen;
        free(*list);
        *list = NULL;
        *fresh = true;
    }
    return settings;
}

static const struct option_entry *find_key(const char *name) {
    for (size_t i = 0; i < settings_options.count; i++) {
        if (settings_options.entries[i].in_file &&
            strcmp(settings_options.entries[i].name, name) == 0)
            return &settings_options.entries[i];
    }
    return NULL;
}

static void unknown_key(struct reading *reading, const char *name) {
    struct nearest nearest;
    nearest_init(&nearest, name);
    for (size_t i = 0; i < settings_options.count; i++) {
        if (settings_options.entries[i].in_file)
            nearest_offer(&nearest, settings_options.entries[i].name);
    }
    if (nearest.best != NULL) {
        fail(reading, "unknown key '%.60s'; did you mean '%s'?", name, nearest.best);
    } else {
        fail(reading, "unknown key '%.60s'; redlock.conf(5) lists the keys", name);
    }
}

static void set(struct reading *reading, const char *name, const char *value) {
    const struct option_entry *entry = find_key(name);
    if (entry == NULL) {
        unknown_key(reading, name);
        return;
    }
    if (value[0] == '\0') {
        /* A list may be written as `nodes =` with the URLs on indented lines below it. */
        if (strcmp(name, "nodes") != 0) fail(reading, "'%s' has no value", name);
        return;
    }
    /* the last one would count, and it may be the weaker mode */
    const size_t place = (size_t)(entry - settings_options.entries);
    const bool is_list = strcmp(name, "nodes") == 0 || strcmp(name, "listen") == 0;
    if (place < sizeof reading->is_set && reading->is_set[place] && !is_list) {
        fail(reading, "'%s' is set twice", name);
        return;
    }
    if (place < sizeof reading->is_set) reading->is_set[place] = true;
    char reason[256];
    if (entry->set(target(reading, name), value, reason, sizeof reason) != 0)
        fail(reading, "%s: %s", name, reason);
}

static void read_all(struct reading *reading) {
    const char *name = NULL, *value = NULL;
    while (!reading->failed) {
        switch (config_lines_next(&reading->lines, &name, &value)) {
        case CONFIG_END: return;
        case CONFIG_SECTION: enter_section(reading, name); break;
        case CONFIG_VALUE: set(reading, name, value); break;
        case CONFIG_WRONG: fail(reading, "%s", value); break;
        }
    }
}

/* Keeps the values of the file apart where they must differ from the environment or the command
 * line. */
static void put_aside(struct settings *settings) {
    settings->file.nodes = settings->nodes;
    settings->nodes = NULL; /* -N starts a list of its own */
    settings->file.mode = settings->mode;
    settings->mode = MODE_UNSET; /* REDLOCK_MODE takes precedence over the file */
    settings->file.quorum_id = settings->quorum_id;
    settings->quorum_id = NULL;
    settings->file.allow_replicas = settings->allow_replicas;
    settings->allow_replicas = -1;
    settings->file.ttl_max_ms = settings->ttl_max_ms;
    settings->ttl_max_ms =
        0; /* the option is for a new quorum; the file's value may belong to an older one */
}

int config_load(struct settings *settings, char *error, size_t error_size) {
    const char *named = getenv("REDLOCK_CONFIG");
    const char *path = named != NULL && named[0] != '\0' ? named : CONFIG_FILE;
    const char *profile = getenv("REDLOCK_PROFILE");
    if (settings->profile == NULL && profile != NULL && profile[0] != '\0')
        settings->profile = strdup(profile);
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        if (errno == ENOENT && path != named && settings->profile == NULL) return 0;
        snprintf(error, error_size, "cannot read the configuration file %s: %s", path,
                 strerror(errno));
        return -1;
    }
    struct reading reading = {
        .settings = settings, .path = path, .error = error, .error_size = error_size};
    settings_init(&reading.others);
    if (config_lines_open(&reading.lines, file))
        read_all(&reading);
    else
        fail(&reading, "out of memory");
    config_lines_close(&reading.lines);
    fclose(file);
    settings_free(&reading.others);
    if (!reading.failed && settings->profile != NULL && !reading.is_found) {
        snprintf(error, error_size, "%s has no profile [%.60s]%s%.400s", path, settings->profile,
                 settings->profiles != NULL ? "; it has " : "",
                 settings->profiles != NULL ? settings->profiles : "");
        return -1;
    }
    if (reading.failed) return -1;
    put_aside(settings);
    return 0;
}

static void check_secrecy(const char *path) {
    struct stat status;
    if (path == NULL || stat(path, &status) != 0 || !S_ISREG(status.st_mode)) return;
    if ((status.st_mode & S_IROTH) == 0) return;
    complain("%s holds a password, and all users of this machine can read it: chmod o-r %s", path,
             path);
}

void config_check_secrecy(const struct settings *settings) {
    const char *named = getenv("REDLOCK_CONFIG"), *nodes = settings->file.nodes;
    const char *path = named != NULL && named[0] != '\0' ? named : CONFIG_FILE;
    /* An '@' in a URL comes after a password: a user alone is refused. */
    if (nodes != NULL && strchr(nodes, '@') != NULL) check_secrecy(path);
    check_secrecy(settings->node.password_file);
}
