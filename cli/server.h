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
    int64_t start_at; /* CLOCK_BOOTTIME ns of its restart; INT64_MAX: none is planned */
    unsigned tries;
    char directory[PATH_MAX];
};

/* The program: `named`, or the first of redis-server and valkey-server in PATH. 0, or -1 after a
 * message. */
int server_find_program(const char *named, char *program, size_t size);
/* Takes a loopback port that the kernel gives. 0, or -1 after a message. */
int server_reserve_port(struct server *server);
/* Starts it in `group`, dying with us, for clients that know the password. 0, or -1 after a
 * message. */
int server_start(struct server *server, const char *program, const char *password, pid_t group);
/* Whether somebody accepts connections on its port. */
bool server_listens(const struct server *server);
/* The last lines of its log, to standard error. */
void server_show_log(const struct server *server);

#endif
