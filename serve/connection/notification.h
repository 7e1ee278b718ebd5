/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Keyspace notifications that a lock has ended, as a Redis with notify-keyspace-events "KEgx" sends
 * them. The gateway sends them for locks that end through it, or whose time ends while it keeps
 * them, and for no others. A script may publish a message of its own, for the same subscribers.
 *
 * One event may concern each pattern of each client, and many locks may end together. So events
 * wait in a queue, and the gateway works it off in short turns, between its other work. Each
 * message goes to the output of its client, and the output to its socket once a turn.
 */
#ifndef SERVE_NOTIFICATION_H
#define SERVE_NOTIFICATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "channel.h"
#include "loop/metrics.h"

/* Of events that wait. Beyond it, the subscribers that cost most are closed. */
#define NOTIFICATIONS_BYTES_MAX ((size_t)1024 * 1024)
/* Beyond it, all of them are closed: long names of many clients, in one turn. */
#define NOTIFICATIONS_BYTES_END (64 * NOTIFICATIONS_BYTES_MAX)
#define NOTIFICATION_MESSAGE_BYTES_MAX 1024

struct connection;
struct evbuffer;
struct event;
struct gateway;
struct notification;

/* How far the first event of the queue has been told: each event has two names, each name a channel
 * and patterns, and each of these has listeners. */
struct telling {
    unsigned step; /* 0: not begun; then 1 + the index of the name, of which a message has one */
    size_t prefix_bytes;           /* the length of the next prefix to look up */
    struct channel *pattern;       /* the next one to compare */
    struct subscription *listener; /* the next one to tell */
    size_t name_bytes;
    char name[CHANNEL_BYTES_MAX];
};

/* What a connection has cost since the queue was last empty. */
struct notified {
    uint64_t rush;
    size_t cost;
};

struct notifications {
    struct event *turn;
    STAILQ_HEAD(, notification) queue;
    size_t bytes;    /* of the queue */
    uint64_t events; /* the number of the last one */
    uint64_t rush;   /* the number of times that the queue was worked off */
    struct telling telling;
    struct evbuffer *message;        /* for the listeners of the current channel, as RESP2 has it */
    TAILQ_HEAD(, connection) unsent; /* connections with messages to write, or to be closed */
};

/* False: out of memory. */
bool notifications_open(struct gateway *gateway);
void notifications_close(struct gateway *gateway);

/* Queues an event: "del" or "expired". */
void notify(struct gateway *gateway, struct bytes key, const char *what);
/* Queues a message. NULL: done, or nobody listens; else why not, a static text. */
const char *notify_message(struct gateway *gateway, struct bytes channel, struct bytes text);
/* Whether events that can wait should wait. */
bool notifications_are_many(const struct gateway *gateway);

/* The subscription ends. */
void notifications_pass_over(struct notifications *notifications,
                             const struct subscription *subscription);
/* The client misses a message or an answer: it is closed in the next turn, and so it knows that. */
void notifications_miss(struct connection *connection, enum metric_refusal reason);
/* The connection ends. */
void notifications_forget(struct connection *connection);

#endif
