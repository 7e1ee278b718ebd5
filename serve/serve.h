/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A gateway: it speaks the Redis protocol and presents a quorum as one Redis, for lock traffic.
 * docs/use/serve.md lists the commands and the meaning of each answer.
 */
#ifndef SERVE_SERVE_H
#define SERVE_SERVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct http_pages;
struct redlock_client;

/* Which scripts of clients run, in addition to the known ones. */
enum serve_scripts {
    SERVE_SCRIPTS_CONFINED,   /* all, if the process that runs them can be confined */
    SERVE_SCRIPTS_UNCONFINED, /* all */
    SERVE_SCRIPTS_KNOWN       /* none */
};

struct serve_options {
    struct redlock_client *client; /* opened without a service thread */
    int64_t ttl_ms;                /* of a lock that SETNX takes */
    int64_t connect_timeout_ms;    /* how long it waits for the nodes before it accepts clients */
    /* unix:///PATH and HOST:PORT, separated by commas; NULL: only the sockets that systemd passes
     */
    const char *listen;
    unsigned socket_mode;           /* of the Unix sockets that it creates */
    const char *password_file;      /* the password is its first line; NULL: none */
    const char *metrics;            /* HOST:PORT; NULL: none */
    const struct http_pages *pages; /* further ones at that address; NULL: none */
    size_t connections_max;
    /* for requests, unread answers and subscriptions of clients, approximate */
    size_t client_bytes_max;
    size_t lock_bytes_max; /* for the locks that are cached, approximate */
    enum serve_scripts scripts;
    bool busy_poll; /* stays awake for a short time after each message, for the next one */
    bool verbose;
    /* called once, when clients are accepted and the nodes had time to connect; must not wait.
     * `addresses` are those that it listens on, separated by commas */
    void (*ready)(void *context, const char *addresses);
    void *ready_context;
    /* logs for the operator */
    void (*say)(const char *format, ...) __attribute__((format(printf, 1, 2)));
};

enum serve_result {
    SERVE_OK,
    SERVE_CONFIG, /* an address, a password or a socket cannot be used: `say` got the reason */
    SERVE_SYSTEM  /* memory, a limit, or an address that is in use: `say` got the reason */
};

/* Serves until SIGTERM or SIGINT. */
enum serve_result serve_run(const struct serve_options *options);

#endif
