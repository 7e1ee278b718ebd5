/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The settings of a command: defaults, then the configuration file, then the command line. One
 * table describes every option.
 */
#ifndef CLI_SETTINGS_H
#define CLI_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "options.h"

enum command_bit {
    COMMAND_RUN = 1,
    COMMAND_ACQUIRE = 2,
    COMMAND_EXTEND = 4,
    COMMAND_RELEASE = 8,
    COMMAND_SHOW = 16,
    COMMAND_UP = 32,
    COMMAND_DOCTOR = 64,
    COMMAND_GATE = 128,
    COMMAND_QUORUM = 256,
    COMMAND_SERVE = 1024,
    COMMAND_BREAK = 2048,
    COMMAND_WAIT = 4096,
    COMMAND_TOP = 32768,
    COMMAND_ELECT = 1 << 20,
    COMMAND_WATCH = 1 << 21
};

#define WAIT_UNSET INT64_MIN
#define MODE_UNSET (-1)
#define QUORUM_ID_DIGITS 16

enum { SETTINGS_TTL_MS = 30000 };
struct settings {
    char *nodes;         /* -N, joined by commas; NULL: none given */
    char *config_nodes;  /* `nodes =` of the file */
    char *quorum;        /* the pinned id; NULL: none */
    char *config_quorum; /* `quorum =` of the file */
    char *profile;       /* the section of the file that applies; NULL: none */
    char *profiles;      /* all profiles of the file; NULL: it has none */
    bool profile_named;  /* by an option: then the file takes precedence over the environment */
    char *command;       /* run: a line for the shell */
    char *prefix, *owner;
    char *tls_ca_file, *tls_cert_file, *tls_key_file, *tls_server_name;
    char *token, *status_file, *metrics_file;
    char *write_config;          /* quorum init */
    char *dir, *server, *module; /* up; module: NULL: the installed one */
    char *reason;                /* break */
    /* serve: addresses, joined by commas; the password file; the address for Prometheus */
    char *listen, *password_file, *metrics;
    int64_t ttl_ms;
    int64_t wait_ms; /* WAIT_UNSET: the command's own default */
    int64_t node_timeout_ms, connect_timeout_ms;
    int64_t retry_delay_ms_min, retry_delay_ms_max;
    int64_t slots;                                /* 0: none */
    int64_t kill_after_ms, grace_ms, max_hold_ms; /* grace -1: unset */
    int64_t restart_after_ms;                     /* -1: never */
    int64_t conflict_exit_code, count;
    int64_t fence; /* 0: not given */
    int64_t samples;
    int64_t watch_ms;                                                     /* 0: once */
    int64_t interval_ms;                                                  /* top */
    int64_t socket_mode, connections, lock_memory_mib, client_memory_mib; /* serve */
    int mode;                  /* enum redlock_mode, or MODE_UNSET */
    int config_mode;           /* `mode =` of the file */
    int allow_replicas;        /* -1: not given */
    int config_allow_replicas; /* `allow-replicas =` of the file */
    int64_t ttl_max_ms, floor; /* 0: not given */
    int64_t config_ttl_max_ms; /* `ttl-max =` of the file; 0: none */
    int64_t await_ms;          /* wait until all members are intact. WAIT_UNSET: do not wait */
    bool shared;               /* the lock is one of readers */
    bool confirm, never_used, force, native, yes, no_syslog, any_value;
    bool busy_poll;  /* serve */
    int scripts;     /* serve: enum serve_scripts */
    bool only_looks; /* not an option: the command never recovers nodes itself */
    bool on_lost_ignore, leave_behind, quiet, verbose, json, tokens, all, help, once;
};

void settings_init(struct settings *settings);
void settings_free(struct settings *settings);

/* --fence as text, from another source. 0, or -1 with the reason. */
int settings_fence(struct settings *settings, const char *value, char *error, size_t error_size);
/* "auto", "classic", "guarded". */
const char *mode_name(int mode);
/* enum redlock_mode, or MODE_UNSET. */
int mode_named(const char *name);
bool is_quorum_id(const char *text);
#define PROFILE_NAME_BYTES_MAX 40
#define PROFILE_NAME_RULE "at most 40 letters, digits, '.', '-' and '_'"
bool is_profile_name(const char *text);

extern const struct option_table settings_options;

#endif
