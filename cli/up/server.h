/* SPDX-License-Identifier: BSD-2-Clause
 *
 * One redis-server (or valkey-server) of a local quorum.
 */
#ifndef CLI_SERVER_H
#define CLI_SERVER_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum { SERVER_PASSWORD_BYTES = 32 };

struct server {
    unsigned number; /* from 1: node-1 */
    pid_t pid;       /* 0: not running */
    int port;
    int reserved;     /* a socket bound to the port until the server takes it; -1 */
    int64_t start_at; /* CLOCK_BOOTTIME ns of its restart; INT64_MAX: no restart is planned */
    unsigned tries;
    char directory[PATH_MAX];
};

/* Finds the program: `named`, or the first of redis-server and valkey-server in PATH. 0, or -1
 * after a message. */
int server_find_program(const char *named, char *program, size_t size);
/* Reserves a free loopback port, which the kernel chooses. 0, or -1 after a message. */
int server_reserve_port(struct server *server);
/* Starts the server in `group`, with the module (NULL: none), for clients that know the password.
 * It dies with this process. 0, or -1 after a message. */
int server_start(struct server *server, const char *program, const char *module,
                 const char *password, pid_t group);
/* Whether a process accepts connections on its port. */
bool server_listens(const struct server *server);
/* Prints the last lines of its log to standard error, and what to do if the server refused the
 * module (NULL: none). */
void server_show_log(const struct server *server, const char *module);

#endif
