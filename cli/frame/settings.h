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

#include "config/client_fields.h"
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
    COMMAND_WATCH = 1 << 21,
    COMMAND_EXPORTER = 1 << 22,
    COMMAND_BEFORE = 1 << 23 /* options before the command: those of all that take locks */
};

#define WAIT_UNSET INT64_MIN

enum { SETTINGS_TTL_MS = 30000 };
/* What the file says of these, where the environment or the command line may say something else. */
struct file_settings {
    char *nodes, *quorum_id;
    int mode, allow_replicas; /* MODE_UNSET, -1: nothing */
    int64_t ttl_max_ms;       /* 0: nothing */
};
/* acquire, extend, release, break */
struct lock_settings {
    char *token;
    char *reason; /* break */
    bool no_syslog, any_value;
};
/* run, elect */
struct run_settings {
    char *command; /* a line for the shell */
    char *status_file, *metrics_file;
    int64_t grace_ms, max_hold_ms, min_hold_ms; /* grace -1: unset */
    bool on_lost_ignore, leave_behind;
};
/* show, top, doctor */
struct look_settings {
    int64_t watch_ms;    /* 0: once */
    int64_t interval_ms; /* top */
    int64_t samples;     /* doctor */
    bool all, tokens;
};
struct quorum_settings {
    char *write_config;
    int64_t floor;    /* 0: not given */
    int64_t await_ms; /* wait until all members are intact. WAIT_UNSET: do not wait */
    bool never_used, force;
};
struct up_settings {
    char *dir, *server, *module; /* module NULL: the installed one */
    int64_t count;
    int64_t restart_after_ms; /* -1: never */
    bool native;
};
struct serve_settings {
    char *listen; /* addresses, joined by commas */
    char *password_file;
    char *metrics; /* the address for Prometheus */
    int64_t socket_mode, connections, lock_memory_mib, client_memory_mib;
    int scripts; /* enum serve_scripts */
    int busy_poll;
};

/* exporter; and `page` of serve */
struct web_settings {
    char *listen;
    int64_t interval_ms; /* of the scrapes */
    int page;
};

/* Those that commands of several rooms have, and those of one room each. */
struct settings {
    struct client_fields client; /* the first */
    char *config;                /* the configuration file; NULL: not given */
    char *profile;               /* the section of the file that applies; NULL: none */
    char *profiles;              /* all profiles of the file; NULL: it has none */
    bool file_first; /* an option names it or its profile: then it takes precedence over the
                        environment */
    char *owner;
    int64_t ttl_ms;
    int64_t wait_ms; /* WAIT_UNSET: the command's own default */
    int64_t retry_delay_ms_min, retry_delay_ms_max;
    int64_t kill_after_ms;
    int64_t slots; /* 0: none */
    int64_t conflict_exit_code;
    int64_t fence;      /* 0: not given */
    int64_t ttl_max_ms; /* 0: not given */
    bool shared;        /* the lock is one of readers */
    bool only_looks;    /* not an option: the command never recovers nodes itself */
    bool dashes_first;  /* not an option: "--" stands before the first operand */
    bool confirm, yes, quiet, verbose, json, help, once;
    struct file_settings file;
    struct lock_settings lock;
    struct run_settings run;
    struct look_settings look;
    struct quorum_settings quorum;
    struct up_settings up;
    struct serve_settings serve;
    struct web_settings web;
};

void settings_init(struct settings *settings);
void settings_free(struct settings *settings);

/* --fence as text, from another source. 0, or -1 with the reason. */
int settings_fence(struct settings *settings, const char *value, char *error, size_t error_size);
extern const struct option_table settings_options;

#endif
