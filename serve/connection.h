/* SPDX-License-Identifier: BSD-2-Clause
 *
 * One client: what it sent, what it is told, and how much of either may lie about.
 */
#ifndef SERVE_CONNECTION_H
#define SERVE_CONNECTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "address.h"
#include "channel.h"
#include "command.h"
#include "command_script.h"
#include "guess.h"
#include "reply.h"
#include "request.h"
#include "key_op.h"

#define CONNECTION_OUTPUT_MAX (256 * 1024)  /* a client with more unread answers is closed */
#define CONNECTION_OUTPUT_PAUSE (64 * 1024) /* with more, its next request waits */
#define CONNECTION_HALF_NS                                                                         \
    INT64_C(10000000000)                          /* for the rest of a request, and for a password \
                                                   */
#define CONNECTION_UNREAD_NS INT64_C(10000000000) /* for the reading of an answer */
#define CONNECTION_NAME_BYTES_MAX 64

struct bufferevent;
struct gateway;
struct transaction;

struct connection {
    struct gateway *gateway;
    struct connection *next, **self; /* in the gateway's list */
    struct bufferevent *wire;        /* NULL: closed; the rest lives until its operation is over */
    uint64_t id;
    int64_t began_ns;
    struct request_reader reader;
    struct reply reply;
    bool authenticated;
    struct guess guess;
    bool working;            /* its requests are being gone through */
    bool busy;               /* a request is not answered yet */
    bool ended;              /* the client sends no more */
    bool missed;             /* a message that it had no room for */
    bool last;               /* closes when what is answered has been written */
    int64_t midway_since_ns; /* 0: no half of a request is here */
    int64_t unread_since_ns; /* 0: all is written */
    char name[CONNECTION_NAME_BYTES_MAX + 1];
    char peer[ADDRESS_TEXT_BYTES];
    struct subscriptions subscriptions;
    unsigned channels;    /* how many */
    size_t channel_bytes; /* what these take */
    size_t weight;        /* what all of it takes, as last seen */
    struct key_op op;
    struct job job; /* the request under way */
    struct script script;
    struct transaction *transaction; /* NULL: neither WATCH nor MULTI */
};

/* Whose turn it is. */
static inline struct connection *connection_of(struct key_op *op) {
    return (struct connection *)(void *)((char *)op - offsetof(struct connection, op));
}

/* Takes the socket over. */
void connection_open(struct gateway *gateway, int fd, const struct sockaddr *address);
/* What is under way on the nodes goes on to its end. */
void connection_close(struct connection *connection);
/* A request is answered: on to the next. */
void connection_answered(struct connection *connection);
/* Writes what its answers are. */
void connection_flush(struct connection *connection);
/* No further request is taken; closes when all answers have gone. */
void connection_finish(struct connection *connection);
/* False: it is closed, or what it does not read is too much already. */
bool connection_may_write(const struct connection *connection);

/* Where clients together take more memory than --client-memory, the one that takes most is closed,
 * and so on. False: no event is to be had. */
bool connections_open(struct gateway *gateway);
/* Closes those that keep us waiting; once a second. */
void connections_sweep(struct gateway *gateway);
void connections_drain(struct gateway *gateway);
/* At once, whatever is under way: the loop has ended. */
void connections_close(struct gateway *gateway);

#endif
