/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The channels and patterns that clients listen to. notification.h tells them what happens.
 */
#ifndef SERVE_CHANNEL_H
#define SERVE_CHANNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "script/key_call.h"

#define CHANNELS_MAX 64 /* of one connection */
#define CHANNEL_BYTES_MAX 1024
#define CHANNEL_PATTERN_BYTES_MAX 128
/* The bound on the cost of a notification. The cost grows with this sum: the bytes that follow the
 * first wildcard in each of the gateway's patterns. Equal texts count once, and a single * at the
 * end does not count. */
#define CHANNEL_WILD_BYTES_MAX 4096

struct connection;
struct prefix;

/* A channel or a pattern that has a subscriber. */
struct channel {
    bool is_pattern;
    struct bytes name; /* stored behind the struct */
    TAILQ_HEAD(listeners, subscription) listeners;
    /* of a pattern: */
    struct prefix *prefix;
    LIST_ENTRY(channel) same_prefix;
    size_t wild_bytes;
};

struct subscription {
    struct connection *connection;
    struct channel *channel;
    uint64_t after; /* its client gets the events with a higher number */
    LIST_ENTRY(subscription) of_connection;
    TAILQ_ENTRY(subscription) of_channel;
};

LIST_HEAD(subscriptions, subscription);

/* All zero: there are no subscriptions. */
struct channels {
    void *names;    /* tsearch(3): the channels and patterns that have a subscriber */
    void *prefixes; /* tsearch(3): the bytes before the first wildcard of each pattern */
    size_t prefixes_of[CHANNEL_PATTERN_BYTES_MAX + 1]; /* the number of prefixes of each length */
    size_t subscriptions, wild_bytes;
};

/* Returns NULL when the connection is subscribed, now or before; else the reason, a static text. */
const char *channel_subscribe(struct connection *connection, struct bytes name, bool is_pattern);
void channel_unsubscribe(struct connection *connection, struct bytes name, bool is_pattern);
void channel_leave(struct subscription *subscription);
void channel_leave_all(struct connection *connection);

/* NULL: nobody listens to it. */
struct channel *channel_find(const struct channels *channels, struct bytes name, bool is_pattern);
/* The first pattern that begins with exactly this text before its first wildcard, and the next one.
 * NULL: there is none. */
struct channel *channel_first_pattern(const struct channels *channels, struct bytes text);
struct channel *channel_next_pattern(const struct channel *pattern);

/* ---- pattern.c: patterns as PSUBSCRIBE takes them, * ? [a-z] [^x] \x, over bytes ---- */

/* The number of bytes before the first wildcard: each matching name begins with them. */
size_t pattern_literal(struct bytes pattern);
/* Whether the only wildcard is a single * at the end. */
bool pattern_is_prefix(struct bytes pattern);
/* The number of steps is at most the product of both lengths; for a prefix pattern, its length. */
bool pattern_matches(struct bytes pattern, struct bytes text);

#endif
