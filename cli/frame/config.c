/* SPDX-License-Identifier: BSD-2-Clause */
#include "config.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "config/file.h"
#include "process/message.h"

/* By the first option of that name: `up` and `exporter` have others for themselves. */
static int set(void *settings, const char *name, const char *value, char *error,
               size_t error_size) {
    for (size_t i = 0; i < settings_options.count; i++)
        if (strcmp(settings_options.entries[i].name, name) == 0)
            return settings_options.entries[i].set(settings, value, error, error_size);
    assert(false && "each name of the file is an option");
    return 0;
}

/* Keeps the values of the file apart where they must differ from the environment or the command
 * line. */
static void put_aside(struct settings *settings) {
    struct client_fields *client = &settings->client;
    settings->file.nodes = client->nodes;
    client->nodes = NULL; /* -N starts a list of its own */
    settings->file.mode = client->mode;
    client->mode = MODE_UNSET; /* REDLOCK_MODE takes precedence over the file */
    settings->file.quorum_id = client->quorum_id;
    client->quorum_id = NULL;
    settings->file.allow_replicas = client->allow_replicas;
    client->allow_replicas = -1;
    settings->file.ttl_max_ms = settings->ttl_max_ms;
    settings->ttl_max_ms =
        0; /* the option is for a new quorum; the file's value may belong to an older one */
}

static const char *from_environment(const char *name) {
    const char *value = getenv(name);
    return value != NULL && value[0] != '\0' ? value : NULL;
}

const char *config_path(void) {
    const char *path = from_environment("REDLOCK_CONFIG");
    return path != NULL ? path : CONFIG_FILE;
}

int config_load(struct settings *settings, char *error, size_t error_size) {
    const char *profile = from_environment("REDLOCK_PROFILE");
    if (settings->profile == NULL && profile != NULL) settings->profile = strdup(profile);
    struct settings others;
    settings_init(&others);
    struct config_file file = {.path = from_environment("REDLOCK_CONFIG"),
                               .profile = settings->profile,
                               .set = set,
                               .settings = settings,
                               .others = &others};
    const int result = config_file_read(&file, error, error_size);
    settings_free(&others);
    settings->profiles = file.profiles;
    if (result == 0) put_aside(settings);
    return result;
}

static void check_secrecy(const char *path) {
    struct stat status;
    if (path == NULL || stat(path, &status) != 0 || !S_ISREG(status.st_mode)) return;
    if ((status.st_mode & S_IROTH) == 0) return;
    complain("%s holds a password, and all users of this machine can read it: chmod o-r %s", path,
             path);
}

void config_check_secrecy(const struct settings *settings) {
    const char *nodes = settings->file.nodes;
    /* An '@' in a URL comes after a password: a user alone is refused. */
    if (nodes != NULL && strchr(nodes, '@') != NULL) check_secrecy(config_path());
    check_secrecy(settings->client.node.password_file);
}
