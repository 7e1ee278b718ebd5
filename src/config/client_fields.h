/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The fields of a configuration file that say how a client finds its nodes and talks to them.
 */
#ifndef RL_CONFIG_CLIENT_FIELDS_H
#define RL_CONFIG_CLIENT_FIELDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MODE_UNSET (-1)
#define MODE_SINGLE 16 /* classic, with one node */
#define QUORUM_ID_DIGITS 16

/* The login at nodes whose URL has none; at most one of file and command. */
struct node_settings {
    char *user, *password_file, *password_command;
};
struct tls_settings {
    char *ca_file, *cert_file, *key_file, *server_name;
};
struct client_fields {
    char *nodes;     /* joined by commas; NULL: none given */
    char *quorum_id; /* the pinned one; NULL: none */
    char *prefix;
    int64_t node_timeout_ms, connect_timeout_ms;
    int mode;           /* enum redlock_mode, MODE_SINGLE or MODE_UNSET */
    int allow_replicas; /* -1: not given */
    struct node_settings node;
    struct tls_settings tls;
};

#define CLIENT_FIELDS_DEFAULTS                                                                     \
    { .connect_timeout_ms = 1000, .mode = MODE_UNSET, .allow_replicas = -1 }
void client_fields_free(struct client_fields *fields);

/* Each is given a struct client_fields, or a struct that begins with one. 0, or below with the
 * reason in `error` (values.h). */
typedef int client_field_fn(void *fields, const char *value, char *error, size_t error_size);
client_field_fn client_field_nodes, client_field_mode, client_field_quorum,
    client_field_allow_replicas, client_field_prefix, client_field_node_timeout,
    client_field_connect_timeout, client_field_node_user, client_field_node_password_file,
    client_field_node_password_command, client_field_tls_ca_file, client_field_tls_cert_file,
    client_field_tls_key_file, client_field_tls_server_name;

/* The field of that name in a file; other names are ignored. */
int client_field_set(void *fields, const char *name, const char *value, char *error,
                     size_t error_size);

/* "auto", "classic", "guarded". */
const char *mode_name(int mode);
/* enum redlock_mode, MODE_SINGLE, or MODE_UNSET. */
int mode_named(const char *name);
bool is_quorum_id(const char *text);

#endif
