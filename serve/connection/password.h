/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Passwords, and the cost of a guess. After a wrong password, the gateway checks the next one of
 * that connection later and later, and at last closes the connection. After many wrong ones, on any
 * connections, it checks each password one second later. A client with the right password therefore
 * waits at most one second.
 */
#ifndef SERVE_PASSWORD_H
#define SERVE_PASSWORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "script/key_call.h"

#define GUESSES_MAX 10 /* wrong ones of one connection: the last closes it */
/* The delay after a connection's first wrong password; it doubles up to the maximum. */
#define GUESS_DELAY_MS 10
#define GUESS_DELAY_MS_MAX 1000
/* Wrong passwords of all connections: this many at once, and this many a second, do not delay other
 * clients. */
#define GUESSES_FREE 20
#define GUESSES_FREE_PER_SECOND 2

struct connection;
struct event;
struct gateway;
struct serve_options;

/* The gateway's count; all zero at first. */
struct guesses {
    double recent; /* wrong ones, less GUESSES_FREE_PER_SECOND since */
    int64_t since_ns;
};

/* A connection's count; all zero at first. */
struct guess {
    unsigned wrong;
    bool waited;        /* its request has been delayed, and may be checked now */
    struct event *wait; /* NULL: no request is delayed */
    void (*run)(struct connection *connection); /* continues the delayed request */
};

/* Returns the first line of the file, 1 to 512 bytes; the caller frees it with password_free().
 * NULL: `why`, of `size` bytes, holds the reason. */
char *password_read(const char *path, char *why, size_t size);
/* A warning if others can read the file. */
void password_check_secrecy(const struct serve_options *options);
void password_free(char *password); /* overwrites it first; NULL is allowed */

/* True: this request, which contains a password, must wait; `run` continues it later. */
bool guess_wait(struct connection *connection, void (*run)(struct connection *connection));
/* Whether user and password are right; a gateway without a password accepts any. A wrong password
 * takes as long to check as the right one, whatever its first bytes are. A wrong one is counted. */
bool guess_check(struct connection *connection, struct bytes user, struct bytes password);
/* The connection no longer waits for its request. True: a delayed request was dropped. */
bool guess_abandon(struct connection *connection);

/* The delay of the next password, in milliseconds, for a connection with this many wrong ones. */
int guess_delay_ms(unsigned wrong, double recent);
/* Counts one wrong password at this time. */
void guess_count(struct guesses *guesses, int64_t now_ns);
/* The value of `recent` at this time. */
double guess_recent(const struct guesses *guesses, int64_t now_ns);

#endif
