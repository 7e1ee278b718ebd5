/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A gateway: it speaks the Redis protocol and makes a quorum look like one Redis, for lock traffic.
 * docs/serve.md says what it takes and what each answer means.
 */
#ifndef SERVE_SERVE_H
#define SERVE_SERVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct redlock_client;

/* Which scripts of clients are run, apart from those that are known by heart. */
enum serve_scripts {
    SERVE_SCRIPTS_CONFINED,   /* all, where the process that runs them can be confined */
    SERVE_SCRIPTS_UNCONFINED, /* all */
    SERVE_SCRIPTS_KNOWN       /* none */
};

struct serve_options {
    struct redlock_client *client; /* opened without a service thread */
    bool guarded;
    int64_t ttl_ms;             /* of a lock that SETNX takes */
    int64_t connect_timeout_ms; /* how long it waits for the nodes before it lets clients in */
    const char *listen;   /* unix:///PATH and HOST:PORT, separated by commas; NULL: what systemd
                             passes, alone */
    unsigned socket_mode; /* of the sockets it makes */
    const char *password_file; /* its first line; NULL: none */
    const char *metrics;       /* HOST:PORT; NULL: none */
    size_t connections_max;
    size_t client_bytes_max; /* for what clients send and do not read, and subscribe to, about */
    size_t lock_bytes_max;   /* for the locks that are remembered, about */
    enum serve_scripts scripts;
    bool busy_poll; /* stay awake for a moment after each message, for the next */
    bool verbose;
    void (*say)(const char *format, ...)
        __attribute__((format(printf, 1, 2))); /* for whoever runs it */
};

enum serve_result {
    SERVE_OK,
    SERVE_CONFIG, /* an address, a password, a socket cannot be used: `say` was told why */
    SERVE_SYSTEM
};

/* Serves until SIGTERM or SIGINT. */
enum serve_result serve_run(const struct serve_options *options);

#endif
