/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The commands about channels and patterns.
 */
#include "command.h"
#include "connection/connection.h"

/* Each name gets its own answer, with the number of subscriptions after it. */
static void confirm(struct connection *connection, const char *what, struct bytes name,
                    unsigned count) {
    struct reply *reply = &connection->reply;
    reply_push(reply, 3);
    reply_text(reply, what);
    if (name.data != NULL)
        reply_bytes(reply, name.data, name.bytes);
    else
        reply_nil(reply);
    reply_integer(reply, count);
}

/* PSUBSCRIBE and PUNSUBSCRIBE. */
static bool takes_patterns(const struct connection *connection) {
    const char first = connection->exchange->reader.words[0].data[0];
    return first == 'p' || first == 'P';
}

void command_subscribe(struct connection *connection) {
    const bool is_pattern = takes_patterns(connection);
    const char *what = is_pattern ? "psubscribe" : "subscribe";
    for (size_t i = 1; i < connection->exchange->reader.count; i++) {
        const struct bytes name = connection->exchange->reader.words[i];
        const char *error = channel_subscribe(connection, name, is_pattern);
        if (error != NULL) {
            command_refuse(connection, what, error);
            return;
        }
        confirm(connection, what, name, connection->channels);
    }
}

/* Without a name, of all. */
void command_unsubscribe(struct connection *connection) {
    const bool is_pattern = takes_patterns(connection),
               of_all = connection->exchange->reader.count == 1;
    const char *what = is_pattern ? "punsubscribe" : "unsubscribe";
    struct subscription *next;
    bool any = false;
    for (size_t i = 1; i < connection->exchange->reader.count; i++) {
        channel_unsubscribe(connection, connection->exchange->reader.words[i], is_pattern);
        confirm(connection, what, connection->exchange->reader.words[i], connection->channels);
    }
    for (struct subscription *one = LIST_FIRST(&connection->subscriptions); of_all && one != NULL;
         one = next) {
        next = LIST_NEXT(one, of_connection);
        if (one->channel->is_pattern != is_pattern) continue;
        any = true;
        /* The name lives until the subscription ends: the answer goes out before. */
        confirm(connection, what, one->channel->name, connection->channels - 1);
        channel_leave(one);
    }
    if (of_all && !any) confirm(connection, what, (struct bytes){NULL, 0}, connection->channels);
}
