/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Who wants to hear that a lock has ended: keyspace notifications, as a Redis with
 * notify-keyspace-events "KEgx" sends them. Of locks that end through this gateway, or whose time
 * ends while it keeps them; of no others.
 */
#ifndef SERVE_CHANNEL_H
#define SERVE_CHANNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/queue.h>

#include "script.h"

#define CHANNELS_MAX 64 /* of one connection */
#define CHANNEL_BYTES_MAX 1024
#define CHANNEL_PATTERN_BYTES_MAX 128
/* What a notification may cost grows with this: the sum of what follows the first wildcard in each
 * of the gateway's patterns, where the same text counts once, and a single * at the end not at all.
 */
#define CHANNEL_WILD_BYTES_MAX 4096

struct connection;
struct gateway;
struct subscription;

LIST_HEAD(subscriptions, subscription);

/* All zero: nobody has subscribed. */
struct channels {
    void *names;    /* tsearch(3): channels and patterns that somebody listens to */
    void *prefixes; /* tsearch(3): what stands before the first wildcard of a pattern */
    size_t prefixes_of[CHANNEL_PATTERN_BYTES_MAX + 1]; /* how many there are of each length */
    size_t subscriptions, wild_bytes;
};

/* NULL: subscribed, now or before. Else why not, a static text. */
const char *channel_subscribe(struct connection *connection, struct script_bytes name,
                              bool is_pattern);
void channel_unsubscribe(struct connection *connection, struct script_bytes name, bool is_pattern);
/* One of those that are left; false: there is none. `name` lives until it is unsubscribed. */
bool channel_first(const struct connection *connection, bool is_pattern, struct script_bytes *name);
void channel_leave_all(struct connection *connection);

/* "del" or "expired". */
void channel_notify(struct gateway *gateway, struct script_bytes key, const char *event);

#endif
