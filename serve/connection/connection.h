/* SPDX-License-Identifier: BSD-2-Clause
 *
 * One client: its requests, its answers, and the bounds on the memory that both may take.
 */
#ifndef SERVE_CONNECTION_H
#define SERVE_CONNECTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <sys/types.h>

#include <event2/event.h>
#include <event2/event_struct.h>

#include "channel.h"
#include "key/key.h"
#include "script/known.h"
#include "http/address.h"
#include "notification.h"
#include "password.h"
#include "plan.h"
#include "loop/reply.h"
#include "loop/request.h"
#include "loop/workers.h"

#define CONNECTION_OUTPUT_MAX (256 * 1024)  /* a client with more unread answers is closed */
#define CONNECTION_OUTPUT_PAUSE (64 * 1024) /* with more, its next request waits */
/* for the rest of a request, and for a password */
#define CONNECTION_HALF_NS INT64_C(10000000000)
#define CONNECTION_UNREAD_NS INT64_C(10000000000) /* for the client to read an answer */
#define CONNECTION_NAME_BYTES_MAX 64

struct gateway;
struct renewal;
struct transaction;

/* The script of the request that is under way on a connection. */
struct script {
    struct known_run known;
    char sha[SCRIPT_SHA_BYTES + 1];
    bool changed;    /* a call may have changed the key */
    unsigned deaths; /* the number of workers that died while they ran this script */
};

/* What a connection needs only from the first byte of a request to its answer. Most connections
 * are idle, and have none. */
struct exchange {
    struct connection *connection;
    SLIST_ENTRY(exchange) spare;
    struct request_reader reader;
    struct key_op op;
    struct job job; /* the request under way */
    struct script script;
};

/* A few are kept for the next requests. All zero: none. */
struct exchanges {
    SLIST_HEAD(, exchange) spare;
    unsigned spares, used;
};

struct connection {
    struct gateway *gateway;
    struct connection *next, **self; /* in the gateway's list */
    int fd;                          /* -1: closed; the struct lives until its operation ends */
    struct event readable, writable, again;
    uint64_t id;
    int64_t began_ns;
    int64_t heard_ns;          /* when its last bytes came */
    struct exchange *exchange; /* NULL: the connection is idle */
    struct reply reply;
    bool authenticated;
    struct guess guess;
    bool working;            /* its requests are being processed */
    bool busy;               /* a request is not answered yet */
    bool ended;              /* the client sends no more */
    bool missed;             /* it was not told of an event, and is closed soon */
    bool is_unsent;          /* in the gateway's list of those with notifications to write */
    bool last;               /* closes when the pending answers have been written */
    int64_t midway_since_ns; /* 0: no partial request is here */
    int64_t unread_since_ns; /* 0: all is written */
    char name[CONNECTION_NAME_BYTES_MAX + 1];
    char peer[ADDRESS_TEXT_BYTES];
    TAILQ_ENTRY(connection) unsent;
    TAILQ_ENTRY(connection) unproven; /* while it is not authenticated */
    TAILQ_ENTRY(connection) slow;
    bool is_slow;   /* in the gateway's list of those that may keep it waiting */
    uid_t peer_uid; /* of a Unix socket; else (uid_t)-1 */
    struct notified notified;
    struct subscriptions subscriptions;
    unsigned channels;               /* the number of its subscriptions */
    size_t channel_bytes;            /* the memory that these take */
    size_t weight;                   /* the memory that the connection takes, as last measured */
    struct worker_task task;         /* of its scripts that need an interpreter */
    struct transaction *transaction; /* NULL: neither WATCH nor MULTI */
    LIST_HEAD(, renewal) renewals;
};

/* Returns the connection whose operation this is. */
static inline struct connection *connection_of(struct key_op *op) {
    return ((struct exchange *)(void *)((char *)op - offsetof(struct exchange, op)))->connection;
}
static inline bool connection_is_open(const struct connection *connection) {
    return connection->fd >= 0;
}

/* The client has given the password, or not any more (RESET). */
void connection_prove(struct connection *connection, bool authenticated);
/* Its password waits to be checked (guess.wait), or no more. */
void connection_guess(struct connection *connection, struct event *wait);
/* Takes ownership of the socket. */
void connection_open(struct gateway *gateway, int fd, const struct sockaddr *address);
/* Closes the connection. An operation that is under way on the nodes runs to its end. */
void connection_close(struct connection *connection);
/* Begins an operation on the key, whose end answers the request. False after an error: the request
 * is answered. */
bool connection_begin(struct connection *connection, struct bytes key, key_op_program *program,
                      key_op_over *over);
/* The request is answered: processes the next one. */
void connection_answered(struct connection *connection);
/* Writes its answers to the socket. */
void connection_flush(struct connection *connection);
/* Takes no further request; closes when all answers have been sent. */
void connection_finish(struct connection *connection);
/* Counts and logs it; the caller closes the connection. `how` contains no bytes of the client. */
void connection_breaks_protocol(const struct connection *connection, const char *how);
/* False: the connection is closed, or its unread output is already too large. */
bool connection_may_write(const struct connection *connection);

/* ---- exchange.c ---- */

/* False: out of memory. */
bool exchange_begin(struct connection *connection);
/* No request is under way, and no part of one has arrived. */
bool exchange_is_over(const struct connection *connection);
void exchange_end(struct connection *connection);
void exchanges_close(struct gateway *gateway);

/* ---- connection.c ---- */

/* When clients together take more memory than --client-memory, closes the largest, until they fit.
 * False: out of memory for the event. */
bool connections_open(struct gateway *gateway);
/* Closes the connections that keep the gateway waiting; runs once a second. Idle ones cost it
 * nothing. */
void connections_sweep(struct gateway *gateway);
void connections_drain(struct gateway *gateway);
/* Frees the connections at once, whatever is under way: the loop has ended. */
void connections_close(struct gateway *gateway);

#endif
