/* SPDX-License-Identifier: BSD-2-Clause */
#include "channel.h"

#include <stdlib.h>
#include <string.h>

#include "connection.h"
#include "gateway.h"
#include "pattern.h"

struct subscription {
    struct subscription *next;
    struct connection *connection;
    bool is_pattern;
    struct script_bytes name; /* behind the struct */
};

static bool same(struct script_bytes a, struct script_bytes b) {
    return a.bytes == b.bytes && memcmp(a.data, b.data, a.bytes) == 0;
}

/* Where the one is linked in, or the end of the list. */
static struct subscription **find(struct connection *connection, struct script_bytes name, bool is_pattern) {
    struct subscription **at = &connection->gateway->subscriptions;
    while (*at != NULL) {
        const struct subscription *one = *at;
        if (one->connection == connection && one->is_pattern == is_pattern && same(one->name, name)) break;
        at = &(*at)->next;
    }
    return at;
}

bool channel_subscribe(struct connection *connection, struct script_bytes name, bool is_pattern) {
    struct subscription **at = find(connection, name, is_pattern);
    if (*at != NULL) return true;
    if (connection->channels == CHANNELS_MAX) return false;
    if (name.bytes > (is_pattern ? CHANNEL_PATTERN_BYTES_MAX : CHANNEL_BYTES_MAX)) return false;
    struct subscription *one = malloc(sizeof *one + name.bytes);
    if (one == NULL) return false;
    char *copy = (char *)(one + 1);
    memcpy(copy, name.data, name.bytes);
    *one = (struct subscription){.connection = connection, .is_pattern = is_pattern, .name = {copy, name.bytes}};
    *at = one;
    connection->channels++;
    return true;
}

void channel_unsubscribe(struct connection *connection, struct script_bytes name, bool is_pattern) {
    struct subscription **at = find(connection, name, is_pattern), *one = *at;
    if (one == NULL) return;
    *at = one->next;
    free(one);
    connection->channels--;
}

bool channel_first(const struct connection *connection, bool is_pattern, struct script_bytes *name) {
    for (const struct subscription *one = connection->gateway->subscriptions; one != NULL; one = one->next) {
        if (one->connection != connection || one->is_pattern != is_pattern) continue;
        *name = one->name;
        return true;
    }
    return false;
}

void channel_leave_all(struct connection *connection) {
    struct script_bytes name;
    while (connection->channels > 0 && channel_first(connection, false, &name))
        channel_unsubscribe(connection, name, false);
    while (connection->channels > 0 && channel_first(connection, true, &name))
        channel_unsubscribe(connection, name, true);
}

static void send_to(const struct subscription *one, struct script_bytes channel, struct script_bytes message) {
    struct connection *connection = one->connection;
    if (!connection_may_write(connection)) {
        connection->missed = true; /* it is closed for that: who reconnects knows that it may have missed something */
        return;
    }
    struct reply *reply = &connection->reply;
    reply_push(reply, one->is_pattern ? 4 : 3);
    reply_text(reply, one->is_pattern ? "pmessage" : "message");
    if (one->is_pattern) reply_bytes(reply, one->name.data, one->name.bytes);
    reply_bytes(reply, channel.data, channel.bytes);
    reply_bytes(reply, message.data, message.bytes);
    connection->gateway->metrics.notifications++;
    connection_flush(connection);
}

static void publish(struct gateway *gateway, const char *kind, struct script_bytes about, struct script_bytes message) {
    size_t head = strlen(kind);
    if (head + about.bytes > CHANNEL_BYTES_MAX) return; /* nobody can listen to that name */
    char *channel = malloc(head + about.bytes);
    if (channel == NULL) return; /* a hint only: who waits asks again by and by */
    memcpy(channel, kind, head);
    memcpy(channel + head, about.data, about.bytes);
    const struct script_bytes name = {channel, head + about.bytes};
    for (const struct subscription *one = gateway->subscriptions; one != NULL; one = one->next) {
        if (one->is_pattern ? pattern_matches(one->name, name) : same(one->name, name)) send_to(one, name, message);
    }
    free(channel);
}

void channel_tell(struct gateway *gateway, struct script_bytes key, const char *event) {
    if (gateway->subscriptions == NULL) return;
    const struct script_bytes what = {event, strlen(event)};
    publish(gateway, "__keyspace@0__:", key, what);
    publish(gateway, "__keyevent@0__:", what, key);
}
