/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Passwords, and what it costs to guess one. After a wrong one the connection's next is looked at
 * later and later, and at last it is closed. After many wrong ones, on whatever connections, each
 * is looked at a second later. So a client with the right password waits for a second, at most.
 */
#ifndef SERVE_GUESS_H
#define SERVE_GUESS_H

#include <stdbool.h>
#include <stdint.h>

#include "notice.h"
#include "script.h"

#define GUESSES_MAX 10 /* wrong ones of one connection: with the last it is closed */
/* The delay after a connection's first wrong one; it doubles to the most. */
#define GUESS_DELAY_MS 10
#define GUESS_DELAY_MS_MAX 1000
/* Wrong ones of all connections: so many at once, and so many a second, delay nobody else. */
#define GUESSES_FREE 20
#define GUESSES_FREE_PER_SECOND 2

struct connection;
struct event;
struct gateway;

/* The gateway's; all zero at first. */
struct guesses {
    double recent; /* wrong ones, less GUESSES_FREE_PER_SECOND since */
    int64_t since_ns;
    struct notice notice;
};

/* A connection's; all zero at first. */
struct guess {
    unsigned wrong;
    bool waited;        /* its request has been delayed, and may be looked at */
    struct event *wait; /* NULL: none is delayed */
    void (*run)(struct connection *connection); /* what is done then */
};

/* True: this request, which has a password in it, waits, and is run again by `run` later. */
bool guess_wait(struct connection *connection, void (*run)(struct connection *connection));
/* Whether they are right; where the gateway has no password, any is. It takes as long for a wrong
 * one as for the right one, whatever its first bytes are. A wrong one is counted. */
bool guess_check(struct connection *connection, struct script_bytes user,
                 struct script_bytes password);
/* The connection has had its GUESSES_MAX: it is to be closed. */
bool guess_is_over(const struct connection *connection);
/* Nobody waits for it any more. True: a request was delayed, and is forgotten. */
bool guess_abandon(struct connection *connection);

/* How long the next one waits, in milliseconds: of a connection with so many wrong ones. */
int guess_delay_ms(unsigned wrong, double recent);
/* Counts one wrong one at this time. */
void guess_count(struct guesses *guesses, int64_t now_ns);
/* What is left of `recent` by now. */
double guess_recent(const struct guesses *guesses, int64_t now_ns);

#endif
