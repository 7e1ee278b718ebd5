/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Real redis-server processes for tests: on loopback ports that the kernel gives, in directories of
 * their own, dead when the test dies. A function that cannot do its work ends the test with a
 * message.
 */
#ifndef TESTS_SERVERS_H
#define TESTS_SERVERS_H

#include <hiredis/hiredis.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define SERVERS_MAX 16

struct server {
    pid_t pid; /* 0: not running */
    int port;
    char dir[64];
    const char *const *
        arguments; /* NULL-terminated extra redis-server arguments, kept by the test; may be NULL */
    const char *password; /* for our own questions; NULL: none */
};

/* Of the redis-server in PATH: 602 is 6.2. Valkey and Redict count their own: Valkey 8.1 is 801. */
int servers_version(void);
enum servers_project { SERVERS_REDIS, SERVERS_VALKEY, SERVERS_REDICT };
enum servers_project servers_project(void);
const char *servers_invalidations(void); /* the channel of CLIENT TRACKING */
bool servers_know_tls(void);             /* it was built with TLS */
/* Starts it and waits until it answers. */
void server_start(struct server *server, const char *const *arguments);
void server_kill(struct server *server);    /* SIGKILL, reaped */
void server_restart(struct server *server); /* on the same port and directory; without persistence
                                               it comes back empty */
void server_pause(struct server *server);   /* SIGSTOP, and waits until it is stopped */
void server_resume(struct server *server);  /* SIGCONT */
void server_stop(struct server *server);    /* kills it and removes its directory */
/* One that was free a moment ago: for a second listener. */
int server_free_port(void);

/* One question on a connection of its own, formatted as redisCommand() does; free with
 * freeReplyObject(). */
redisReply *server_ask(struct server *server, const char *format, ...);
long long server_ask_integer(struct server *server, const char *format, ...);
/* The string under the key into `value`, NUL-terminated; false if there is none. */
bool server_get(struct server *server, const char *key, char *value, size_t size);
void server_url(const struct server *server, char *url, size_t size);

struct servers {
    struct server at[SERVERS_MAX];
    unsigned count;
    char urls[SERVERS_MAX * 40]; /* the comma-separated list for redlock_client_open() */
};
void servers_start(struct servers *servers, unsigned count);
void servers_stop(struct servers *servers);
/* How many running, not paused servers of the first `count` hold the key. */
unsigned servers_holding(struct servers *servers, const char *key);
#endif
