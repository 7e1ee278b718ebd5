/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What a program leaves to the machine that it runs on: the nodes, and with them the options that
 * hold their defaults, come from the environment and from redlock.conf(5), as for the commands. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/client.h"
#include "config/file.h"
#include "config/values.h"

/* A setuid program is not led by who starts it. NULL: not set, or empty. */
static const char *environment(const char *name) {
    const char *value = secure_getenv(name);
    return value && value[strspn(value, ", \t\n")] != '\0' ? value : NULL;
}

static const char *file_path(void) {
    const char *named = environment("REDLOCK_CONFIG");
    return named ? named : CONFIG_FILE;
}

static int refused(struct redlock_error *error, int result, const char *what, const char *why) {
    return fail(error, result == CONFIG_NO_MEMORY ? REDLOCK_NO_MEMORY : REDLOCK_BAD_ARGUMENT,
                "%s%s%s", what, *what ? ": " : "", why);
}

static int read_file(struct client_fields *fields, char **profiles, struct redlock_error *error) {
    struct client_fields others = CLIENT_FIELDS_DEFAULTS;
    struct config_file file = {.path = environment("REDLOCK_CONFIG"),
                               .profile = environment("REDLOCK_PROFILE"),
                               .set = client_field_set,
                               .settings = fields,
                               .others = &others};
    char why[sizeof error->text];
    const int result = config_file_read(&file, why, sizeof why);
    client_fields_free(&others);
    *profiles = file.profiles;
    return result == 0 ? REDLOCK_OK : refused(error, result, "", why);
}

static int read_environment(struct client_fields *fields, struct redlock_error *error) {
    static const struct {
        const char *variable, *name;
    } all[] = {{"REDLOCK_NODES", "nodes"},
               {"REDLOCK_MODE", "mode"},
               {"REDLOCK_QUORUM", "quorum"},
               {"REDLOCK_ALLOW_REPLICAS", "allow-replicas"}};
    char why[256];
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        const char *value = environment(all[i].variable);
        if (!value) continue;
        if (i == 0) client_field_set(fields, "nodes", NULL, why, sizeof why);
        if (strcmp(all[i].name, "allow-replicas") == 0) {
            if (strcmp(value, "0") != 0 && strcmp(value, "1") != 0)
                return fail(error, REDLOCK_BAD_ARGUMENT, "%s is '%.60s'; it must be 0 or 1",
                            all[i].variable, value);
            value = value[0] == '1' ? "yes" : "no";
        }
        const int result = client_field_set(fields, all[i].name, value, why, sizeof why);
        if (result != 0) return refused(error, result, all[i].variable, why);
    }
    return REDLOCK_OK;
}

static void take_default(const char **option, const char *configured) {
    if (!*option) *option = configured;
}

/* A pair stays together: a certificate and its key, a mode and what only guarded mode has. */
static void take(struct redlock_client_options *to, const struct client_fields *from) {
    if (!to->key_prefix && from->prefix) {
        to->key_prefix = from->prefix;
        to->key_prefix_bytes = strlen(from->prefix);
    }
    if (to->node_timeout_ms == 0) to->node_timeout_ms = from->node_timeout_ms;
    if (to->connect_timeout_ms == 1000) to->connect_timeout_ms = from->connect_timeout_ms;
    take_default(&to->tls_ca_file, from->tls.ca_file);
    if (!to->tls_cert_file && !to->tls_key_file) {
        to->tls_cert_file = from->tls.cert_file;
        to->tls_key_file = from->tls.key_file;
    }
    take_default(&to->tls_server_name, from->tls.server_name);
    take_default(&to->user, from->node.user);
    if (!to->password) take_default(&to->password_file, from->node.password_file);
    if (to->mode == REDLOCK_MODE_AUTO && !to->quorum && from->mode != MODE_UNSET)
        to->mode = from->mode == MODE_SINGLE ? REDLOCK_MODE_CLASSIC : from->mode;
    if (to->mode == REDLOCK_MODE_CLASSIC) return;
    take_default(&to->quorum, from->quorum_id);
    if (from->allow_replicas > 0) to->allow_replicas = 1;
}

static bool is_one(const char *nodes) {
    static const char separators[] = ", \t\n";
    nodes += strspn(nodes, separators);
    nodes += strcspn(nodes, separators);
    return nodes[strspn(nodes, separators)] == '\0';
}

static int check(const struct redlock_client_options *options, const struct client_fields *fields,
                 const char *profiles, struct redlock_error *error) {
    if (!fields->nodes)
        return fail(error, REDLOCK_BAD_ARGUMENT,
                    "no nodes: name them in REDLOCK_NODES, or by `nodes =` lines in %s%s%s",
                    file_path(), profiles ? ". REDLOCK_PROFILE chooses one of its profiles: " : "",
                    profiles ? profiles : "");
    if (fields->node.password_command && !options->password && !options->password_file)
        return fail(error, REDLOCK_BAD_ARGUMENT,
                    "%s: node-password-command is for redlock's own programs. Write "
                    "node-password-file there, or set password() in the options",
                    file_path());
    if (fields->mode == MODE_SINGLE && options->mode == REDLOCK_MODE_CLASSIC &&
        !is_one(fields->nodes))
        return fail(error, REDLOCK_BAD_ARGUMENT,
                    "mode single is for one node, and more are listed: leave one, or choose "
                    "classic");
    return REDLOCK_OK;
}

int configured_read(struct client_fields *fields, struct redlock_client_options *options,
                    struct redlock_error *error) {
    char *profiles = NULL;
    int result = read_file(fields, &profiles, error);
    if (result == REDLOCK_OK) result = read_environment(fields, error);
    if (result == REDLOCK_OK) {
        take(options, fields);
        result = check(options, fields, profiles, error);
    }
    free(profiles);
    return result;
}

void configured_blame(struct redlock_error *error) {
    if (!error) return;
    const struct redlock_error plain = *error;
    const bool nodes = environment("REDLOCK_NODES") != NULL, file = access(file_path(), F_OK) == 0;
    fail(error, plain.result, "%s%s%s: %s", nodes ? "REDLOCK_NODES" : "",
         nodes && file ? " and " : "", file ? file_path() : "", plain.text);
}
