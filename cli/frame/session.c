/* SPDX-License-Identifier: BSD-2-Clause */
#include "session.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "password_command.h"
#include "process/boottime.h"
#include "process/exit_codes.h"
#include "process/message.h"

static void log_line(void *context, int level, const char *text) {
    struct session *session = context;
    const bool traces = getenv("REDLOCK_TRACE") != NULL && level != REDLOCK_LOG_WARNING;
    if (session->settings->verbose || traces) complain("%s", text);
}

const char *find_nodes(const struct settings *settings) {
    if (settings->client.nodes != NULL) return settings->client.nodes;
    if (settings->file_first && settings->file.nodes != NULL) return settings->file.nodes;
    const char *environment = getenv("REDLOCK_NODES");
    if (environment != NULL && environment[strspn(environment, ", \t\n")] != '\0')
        return environment;
    return settings->file.nodes;
}

/* NULL: not set, or empty. */
static const char *from_environment(const char *name) {
    const char *value = getenv(name);
    return value != NULL && value[0] != '\0' ? value : NULL;
}

/* 0, or -1 after a message. */
static int find_mode(const struct settings *settings, int *mode) {
    const char *environment = from_environment("REDLOCK_MODE");
    *mode = settings->client.mode;
    if (*mode != MODE_UNSET) return 0;
    *mode = settings->file.mode != MODE_UNSET ? settings->file.mode : REDLOCK_MODE_AUTO;
    if (environment == NULL || (settings->file_first && settings->file.mode != MODE_UNSET))
        return 0;
    *mode = mode_named(environment);
    if (*mode != MODE_UNSET) return 0;
    complain("REDLOCK_MODE is '%.60s'; it must be auto, single, classic or guarded", environment);
    return -1;
}

static int find_quorum(const struct settings *settings, const char **quorum) {
    const char *environment = from_environment("REDLOCK_QUORUM");
    *quorum = settings->client.quorum_id;
    if (*quorum != NULL) return 0;
    if (settings->file_first && settings->file.quorum_id != NULL) environment = NULL;
    *quorum = environment != NULL ? environment : settings->file.quorum_id;
    if (environment == NULL || is_quorum_id(environment)) return 0;
    complain(
        "REDLOCK_QUORUM is '%.60s', not an id of a quorum (16 hexadecimal digits); redlock quorum status shows it",
        environment);
    return -1;
}

static int find_allow_replicas(const struct settings *settings, int *allow) {
    const char *environment = from_environment("REDLOCK_ALLOW_REPLICAS");
    *allow = settings->client.allow_replicas;
    if (*allow >= 0) return 0;
    *allow = settings->file.allow_replicas > 0;
    if (environment == NULL || (settings->file_first && settings->file.allow_replicas >= 0))
        return 0;
    *allow = environment[0] == '1';
    if (strcmp(environment, "0") == 0 || strcmp(environment, "1") == 0) return 0;
    complain("REDLOCK_ALLOW_REPLICAS is '%.60s'; it must be 0 or 1", environment);
    return -1;
}

/* A setting given for one command that has no effect there is a misunderstanding. */
static int check_guarded_only(const struct session *session) {
    const struct settings *settings = session->settings;
    const char *option = settings->confirm                     ? "--confirm"
                         : settings->client.quorum_id != NULL  ? "--quorum"
                         : settings->client.allow_replicas > 0 ? "--allow-replicas"
                                                               : NULL;
    if (option == NULL || session->mode == REDLOCK_MODE_GUARDED) return 0;
    complain("%s needs guarded mode: add --mode guarded, or leave it out", option);
    return EXIT_USAGE_ERROR;
}

/* 0, or the exit status after a message. A pinned quorum can only mean guarded mode, unless another
 * is named. */
static int find_guarding(struct session *session) {
    const struct settings *settings = session->settings;
    if (find_mode(settings, &session->mode) != 0) return EXIT_CONFIG;
    if (find_quorum(settings, &session->quorum) != 0) return EXIT_CONFIG;
    if (find_allow_replicas(settings, &session->allow_replicas) != 0) return EXIT_CONFIG;
    session->single = session->mode == MODE_SINGLE;
    if (session->single) session->mode = REDLOCK_MODE_CLASSIC;
    if (session->mode == REDLOCK_MODE_AUTO && session->quorum != NULL)
        session->mode = REDLOCK_MODE_GUARDED;
    session->mode_open = session->mode == REDLOCK_MODE_AUTO;
    if (session->mode == REDLOCK_MODE_GUARDED) return 0;
    session->quorum = NULL;
    if (session->mode == REDLOCK_MODE_CLASSIC) session->allow_replicas = 0;
    return check_guarded_only(session);
}

static void client_options(struct session *session, struct redlock_client_options *options) {
    const struct settings *settings = session->settings;
    redlock_client_options_init(options);
    options->service_thread = 0;
    options->node_timeout_ms = settings->client.node_timeout_ms;
    options->connect_timeout_ms = settings->client.connect_timeout_ms;
    options->key_prefix = settings->client.prefix;
    options->user = settings->client.node.user;
    options->password_file = settings->client.node.password_file;
    options->password =
        settings->client.node.password_command != NULL ? password_command_give : NULL;
    options->tls_ca_file = settings->client.tls.ca_file;
    options->tls_cert_file = settings->client.tls.cert_file;
    options->tls_key_file = settings->client.tls.key_file;
    options->tls_server_name = settings->client.tls.server_name;
    options->mode = session->mode;
    options->confirm = settings->confirm;
    options->quorum = session->quorum;
    options->allow_replicas = session->allow_replicas;
    options->recover = !settings->only_looks;
    options->log = log_line;
    options->log_context = session;
    options->log_level = settings->verbose ? REDLOCK_LOG_INFO : REDLOCK_LOG_WARNING;
}

/* The library would name its own fields. 0, or the exit status after a message. */
static int check_certificate(const struct tls_settings *tls) {
    if ((tls->cert_file == NULL) == (tls->key_file == NULL)) return 0;
    complain("a client certificate needs --tls-cert-file and --tls-key-file: give %s, too",
             tls->key_file == NULL ? "--tls-key-file" : "--tls-cert-file");
    return EXIT_CONFIG;
}

int session_open(struct session *session, const struct settings *settings) {
    *session = (struct session){.settings = settings, .nodes = find_nodes(settings)};
    if (session->nodes == NULL) {
        complain(
            "no nodes. Name them with -N redis://HOST:PORT,..., or in REDLOCK_NODES, or by `nodes =` lines in the "
            "file REDLOCK_CONFIG names, or in /etc/redlock.conf. To try it out: redlock up");
        if (settings->profiles != NULL && settings->profile == NULL)
            complain("the file has profiles: %s. Choose one with --profile or REDLOCK_PROFILE",
                     settings->profiles);
        return EXIT_CONFIG;
    }
    int status = find_guarding(session);
    if (status == 0) status = check_certificate(&settings->client.tls);
    if (status != 0) return status;
    struct redlock_client_options options;
    client_options(session, &options);
    struct redlock_error error;
    int result = redlock_client_open(session->nodes, &options, &session->client, &error);
    const size_t nodes = result == REDLOCK_OK ? redlock_client_nodes(session->client) : 0;
    if (nodes == 1 || (nodes > 1 && !session->single)) return 0;
    if (nodes > 1) {
        complain(
            "mode single is for one node, and %zu are listed: leave one, or use --mode classic",
            nodes);
        session_close(session);
        return EXIT_CONFIG;
    }
    complain("%s", error.text);
    return result == REDLOCK_NO_MEMORY || result == REDLOCK_SYSTEM ? EXIT_SYSTEM : EXIT_CONFIG;
}

int session_mode(struct session *session) {
    if (session->mode == REDLOCK_MODE_AUTO) session->mode = redlock_client_mode(session->client);
    return session->mode;
}

static void connect_nodes(struct session *session) {
    const int64_t slice_ms = 10, straggler_ms = session->settings->client.node_timeout_ms > 0
                                                    ? session->settings->client.node_timeout_ms
                                                    : 50;
    const int count = (int)redlock_client_nodes(session->client),
              quorum = (int)quorum_of((size_t)count);
    const int64_t until = now_ns() + session->settings->client.connect_timeout_ms * MS;
    int64_t majority_since = NEVER;
    for (int64_t now = now_ns(); now < until; now = now_ns()) {
        int ready = redlock_client_wait_ready(session->client, slice_ms);
        if (ready < 0 || ready == count || now_ns() < now + slice_ms * MS)
            return; /* sooner than asked: all nodes are settled */
        if (ready >= quorum && majority_since == NEVER) majority_since = now;
        if (majority_since != NEVER && now - majority_since >= straggler_ms * MS) return;
    }
}

void session_connect(struct session *session) {
    connect_nodes(session);
    session_mode(session);
}

void session_live_until(struct session *session, int64_t until_ns) {
    struct pollfd client = {.fd = redlock_client_fd(session->client), .events = POLLIN};
    for (int64_t now = now_ns(); now < until_ns; now = now_ns()) {
        int64_t ms = (until_ns - now + MS - 1) / MS;
        poll(&client, 1, ms > 60000 ? 60000 : (int)ms);
        redlock_process(session->client);
    }
}

void session_close(struct session *session) {
    password_command_cancel();
    redlock_client_free(session->client);
    password_command_resume();
    session->client = NULL;
}

int resource_check(const struct settings *settings, const char *resource) {
    size_t bytes = strlen(resource),
           prefix = settings->client.prefix != NULL ? strlen(settings->client.prefix) : 0;
    if (bytes == 0) {
        complain("the resource is empty; give the lock a name");
        return EXIT_USAGE_ERROR;
    }
    if (prefix + bytes > REDLOCK_RESOURCE_BYTES_MAX) {
        complain(
            "the resource is too long: %zu bytes with its prefix, at most %d; use a digest of it",
            prefix + bytes, REDLOCK_RESOURCE_BYTES_MAX);
        return EXIT_USAGE_ERROR;
    }
    return 0;
}

int session_lock(struct session *session, const char *resource, lock_options_fn *change,
                 void *context, struct redlock_lock **lock) {
    struct redlock_lock_options options;
    redlock_lock_options_init(&options);
    options.ttl_ms = session->settings->ttl_ms;
    options.shared = session->settings->shared;
    options.retry_delay_ms_min = session->settings->retry_delay_ms_min;
    options.retry_delay_ms_max = session->settings->retry_delay_ms_max;
    if (change != NULL) change(context, &options);
    struct redlock_error error;
    int result =
        redlock_lock_new(session->client, resource, strlen(resource), &options, lock, &error);
    if (result == REDLOCK_OK) return 0;
    complain("%s", error.text);
    return result == REDLOCK_BAD_ARGUMENT ? EXIT_USAGE_ERROR : EXIT_SYSTEM;
}

int session_open_named(struct session *session, const struct settings *settings, int count,
                       char *const *names) {
    int status = session_open(session, settings);
    for (int i = 0; status == 0 && i < count; i++) {
        struct redlock_lock *lock = NULL;
        status = session_lock(session, names[i], NULL, NULL, &lock);
        redlock_lock_free(lock);
    }
    if (status != 0) session_close(session);
    return status;
}

/* With a SETNX scheme, a lock's value is a number: no form of a token. */
bool session_lists_every_value(const struct session *session) {
    struct redlock_node_status status = {.size = sizeof status};
    return session->settings->look.all ||
           (redlock_client_node(session->client, 0, &status) == REDLOCK_OK &&
            status.scheme != REDLOCK_SCHEME_SET);
}

const char *node_url(struct session *session, size_t node) {
    struct redlock_node_status status = {.size = sizeof status};
    if (redlock_client_node(session->client, node, &status) != REDLOCK_OK) return "?";
    return status.url;
}

char *slot_name(const char *resource, unsigned slot) {
    char *name = NULL;
    if (slot == 0) return strdup(resource);
    return asprintf(&name, "%s:slot:%u", resource, slot) < 0 ? NULL : name;
}

void default_owner(const struct settings *settings, char *out, size_t size) {
    char host[65] = "";
    if (settings->owner != NULL) {
        snprintf(out, size, "%s", settings->owner);
        return;
    }
    if (gethostname(host, sizeof host - 1) != 0 || host[0] == '\0')
        snprintf(host, sizeof host, "localhost");
    snprintf(out, size, "%s:%ld", host, (long)getpid());
}
