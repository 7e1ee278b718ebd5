/* SPDX-License-Identifier: BSD-2-Clause */
#include "config/client_fields.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/values.h"
#include "redlock.h"

void client_fields_free(struct client_fields *fields) {
    char *owned[] = {
        fields->nodes,          fields->quorum_id,          fields->prefix,
        fields->node.user,      fields->node.password_file, fields->node.password_command,
        fields->tls.ca_file,    fields->tls.cert_file,      fields->tls.key_file,
        fields->tls.server_name};
    for (size_t i = 0; i < sizeof owned / sizeof owned[0]; i++) free(owned[i]);
}

static const char *const mode_names[] = {[REDLOCK_MODE_CLASSIC] = "classic",
                                         [REDLOCK_MODE_GUARDED] = "guarded",
                                         [REDLOCK_MODE_AUTO] = "auto"};

const char *mode_name(int mode) { return mode_names[mode]; }

int mode_named(const char *name) {
    for (int mode = REDLOCK_MODE_CLASSIC; mode <= REDLOCK_MODE_AUTO; mode++) {
        if (strcmp(mode_names[mode], name) == 0) return mode;
    }
    return strcmp(name, "single") == 0 ? MODE_SINGLE : MODE_UNSET;
}

bool is_quorum_id(const char *text) {
    return strlen(text) == QUORUM_ID_DIGITS &&
           strspn(text, "0123456789abcdef") == QUORUM_ID_DIGITS &&
           strspn(text, "0") < QUORUM_ID_DIGITS;
}

#define FIELD(name)                                                                                \
    static int set_##name(struct client_fields *s, const char *value, char *error, size_t size);   \
    int client_field_##name(void *fields, const char *value, char *error, size_t size) {           \
        return set_##name(fields, value, error, size);                                             \
    }                                                                                              \
    static int set_##name(struct client_fields *s, const char *value, char *error, size_t size)
#define FIELD_TEXT(name, field)                                                                    \
    FIELD(name) { return option_text(&s->field, value, error, size); }

FIELD(nodes) { return option_list(&s->nodes, value, error, size); }
FIELD_TEXT(prefix, prefix)
FIELD_TEXT(node_user, node.user)
/* One takes the place of the other: a profile or an option may choose again. */
FIELD(node_password_file) {
    free(s->node.password_command);
    s->node.password_command = NULL;
    return option_text(&s->node.password_file, value, error, size);
}
FIELD(node_password_command) {
    free(s->node.password_file);
    s->node.password_file = NULL;
    return option_text(&s->node.password_command, value, error, size);
}
FIELD_TEXT(tls_ca_file, tls.ca_file)
FIELD_TEXT(tls_cert_file, tls.cert_file)
FIELD_TEXT(tls_key_file, tls.key_file)
FIELD_TEXT(tls_server_name, tls.server_name)
FIELD(node_timeout) {
    return option_duration(&s->node_timeout_ms, value, 1, 60000,
                           "a node timeout is from 1ms to 60s", error, size);
}
FIELD(connect_timeout) {
    return option_duration(&s->connect_timeout_ms, value, 1, 60000,
                           "a connect timeout is from 1ms to 60s", error, size);
}
FIELD(mode) {
    const int mode = mode_named(value);
    if (mode == MODE_UNSET) {
        snprintf(error, size, "'%.60s' is not auto, single, classic or guarded", value);
        return CONFIG_REFUSED;
    }
    s->mode = mode;
    return 0;
}
FIELD(quorum) {
    if (is_quorum_id(value)) return option_text(&s->quorum_id, value, error, size);
    snprintf(
        error, size,
        "'%.60s' is not an id of a quorum (16 hexadecimal digits); redlock quorum status shows it",
        value);
    return CONFIG_REFUSED;
}
FIELD(allow_replicas) { return option_yes_or_no(value, &s->allow_replicas, error, size); }

int client_field_set(void *fields, const char *name, const char *value, char *error, size_t size) {
    static const struct {
        const char *name;
        client_field_fn *set;
    } all[] = {{"nodes", client_field_nodes},
               {"mode", client_field_mode},
               {"quorum", client_field_quorum},
               {"allow-replicas", client_field_allow_replicas},
               {"prefix", client_field_prefix},
               {"node-timeout", client_field_node_timeout},
               {"connect-timeout", client_field_connect_timeout},
               {"node-user", client_field_node_user},
               {"node-password-file", client_field_node_password_file},
               {"node-password-command", client_field_node_password_command},
               {"tls-ca-file", client_field_tls_ca_file},
               {"tls-cert-file", client_field_tls_cert_file},
               {"tls-key-file", client_field_tls_key_file},
               {"tls-server-name", client_field_tls_server_name}};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (strcmp(all[i].name, name) == 0) return all[i].set(fields, value, error, size);
    return 0;
}
