/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Who wants to hear that a lock has ended: keyspace notifications, as a Redis with notify-keyspace-events "KEgx" sends
 * them. Of locks that end through this gateway, or whose time ends while it keeps them; of no others.
 */
#ifndef SERVE_CHANNEL_H
#define SERVE_CHANNEL_H

#include <stdbool.h>
#include <stddef.h>

#include "script.h"

#define CHANNELS_MAX 64 /* of one connection */
#define CHANNEL_BYTES_MAX 1024
#define CHANNEL_PATTERN_BYTES_MAX 128 /* what it costs to compare grows with the product of both */

struct connection;
struct gateway;

/* False: too many, or out of memory. One that is there already is true. */
bool channel_subscribe(struct connection *connection, struct script_bytes name, bool is_pattern);
void channel_unsubscribe(struct connection *connection, struct script_bytes name, bool is_pattern);
/* One of those that are left; false: there is none. `name` lives until it is unsubscribed. */
bool channel_first(const struct connection *connection, bool is_pattern, struct script_bytes *name);
void channel_leave_all(struct connection *connection);

/* "del" or "expired". */
void channel_tell(struct gateway *gateway, struct script_bytes key, const char *event);

#endif
