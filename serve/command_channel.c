/* SPDX-License-Identifier: BSD-2-Clause */
#include "command.h"
#include "connection.h"

/* Each name gets its own answer, with the number of subscriptions after it. */
static void confirm(struct connection *connection, const char *what,
                    const struct script_bytes *name) {
    struct reply *reply = &connection->reply;
    reply_push(reply, 3);
    reply_text(reply, what);
    if (name != NULL)
        reply_bytes(reply, name->data, name->bytes);
    else
        reply_nil(reply);
    reply_integer(reply, connection->channels);
}

static void subscribe(struct connection *connection, const char *what, bool is_pattern) {
    for (size_t i = 1; i < connection->reader.count; i++) {
        const struct script_bytes *name = &connection->reader.words[i];
        const char *error = channel_subscribe(connection, *name, is_pattern);
        if (error != NULL) {
            command_refuse(connection, what, error);
            return;
        }
        confirm(connection, what, name);
    }
}

static void unsubscribe(struct connection *connection, const char *what, bool is_pattern) {
    for (size_t i = 1; i < connection->reader.count; i++) {
        channel_unsubscribe(connection, connection->reader.words[i], is_pattern);
        confirm(connection, what, &connection->reader.words[i]);
    }
    if (connection->reader.count > 1) return;
    struct script_bytes name;
    bool any = false;
    for (; channel_first(connection, is_pattern, &name); any = true) {
        /* The answer goes out before the subscription is removed, with the number that remains. */
        connection->channels--;
        confirm(connection, what, &name);
        connection->channels++;
        channel_unsubscribe(connection, name, is_pattern);
    }
    if (!any) confirm(connection, what, NULL);
}

void command_subscribe(struct connection *connection) { subscribe(connection, "subscribe", false); }
void command_unsubscribe(struct connection *connection) {
    unsubscribe(connection, "unsubscribe", false);
}
void command_psubscribe(struct connection *connection) {
    subscribe(connection, "psubscribe", true);
}
void command_punsubscribe(struct connection *connection) {
    unsubscribe(connection, "punsubscribe", true);
}
