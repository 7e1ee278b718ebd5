/* SPDX-License-Identifier: BSD-2-Clause */
#include "notification.h"

#include <stdlib.h>
#include <string.h>

#include <event2/buffer.h>
#include <event2/event.h>

#include "connection.h"
#include "loop/gateway.h"

/* In bytes of messages: what a message costs besides its bytes, and what a reader costs that ends
 * the turn; and how many steps of a comparison with a pattern cost one. */
enum { MESSAGE_COST = 512, TURN_COST = 64 * 1024, STEPS_PER_COST = 4 };

struct notification {
    STAILQ_ENTRY(notification) queued;
    uint64_t number;
    const char *what; /* NULL: a message, which stands behind its channel in `key` */
    size_t bytes, channel_bytes;
    char key[];
};

/* ---- connections ---- */

static void queue_connection(struct connection *connection) {
    if (connection->is_unsent) return;
    connection->is_unsent = true;
    TAILQ_INSERT_TAIL(&connection->gateway->notifications->unsent, connection, unsent);
}

void notifications_miss(struct connection *connection, enum metric_refusal reason) {
    connection->gateway->metrics.refusals[reason]++;
    connection->missed = true;
    queue_connection(connection);
}

void notifications_forget(struct connection *connection) {
    if (connection->is_unsent)
        TAILQ_REMOVE(&connection->gateway->notifications->unsent, connection, unsent);
    connection->is_unsent = false;
}

static void send_first(struct notifications *notifications) {
    struct connection *connection = TAILQ_FIRST(&notifications->unsent);
    notifications_forget(connection);
    connection_flush(connection);
    if (connection->missed) connection_close(connection);
}

/* ---- costs, and too many events ---- */

static size_t cost_of(const struct connection *connection) {
    const bool is_now = connection->notified.rush == connection->gateway->notifications->rush;
    return is_now ? connection->notified.cost : 0;
}

static void charge(struct connection *connection, size_t cost) {
    connection->notified = (struct notified){.rush = connection->gateway->notifications->rush,
                                             .cost = cost_of(connection) + cost};
}

static size_t highest_cost(const struct gateway *gateway) {
    size_t most = 0;
    for (const struct connection *one = gateway->connections; one != NULL; one = one->next) {
        if (one->channels > 0 && !one->missed && cost_of(one) > most) most = cost_of(one);
    }
    return most;
}

/* Those that cost most since the queue was last empty delay the others. */
static void end_costly(struct gateway *gateway, bool all) {
    const size_t most = highest_cost(gateway);
    if (most == 0 && !all) return;
    for (struct connection *one = gateway->connections; one != NULL; one = one->next) {
        if (one->channels == 0 || one->missed || (cost_of(one) < most / 2 && !all)) continue;
        channel_leave_all(one);
        if (connection_may_write(one))
            reply_error(&one->reply,
                        "ERR more locks end than this gateway can tell its subscribers "
                        "of, and this one takes much of its time");
        notifications_miss(one, REFUSED_NOTIFICATIONS);
    }
    notice_say(&gateway->too_costly, gateway->options,
               "more locks end than subscribers can be told of: those that take most are closed");
}

/* ---- the queue ---- */

static void drop_first(struct notifications *notifications) {
    struct notification *first = STAILQ_FIRST(&notifications->queue);
    STAILQ_REMOVE_HEAD(&notifications->queue, queued);
    notifications->bytes -= sizeof *first + first->bytes;
    notifications->telling.step = 0;
    notifications->telling.pattern = NULL;
    notifications->telling.listener = NULL;
    free(first);
}

/* `key`, or a channel and what is said there. */
static void queue_event(struct gateway *gateway, struct bytes key, struct bytes text,
                        const char *what) {
    struct notifications *notifications = gateway->notifications;
    const size_t bytes = sizeof(struct notification) + key.bytes + text.bytes;
    notifications->events++;
    if (gateway->channels->subscriptions == 0) return;
    if (notifications->bytes + bytes > NOTIFICATIONS_BYTES_MAX)
        end_costly(gateway, notifications->bytes + bytes > NOTIFICATIONS_BYTES_END);
    struct notification *one = malloc(bytes);
    if (one == NULL) {
        end_costly(gateway, true);
        return;
    }
    one->number = notifications->events;
    one->what = what;
    one->bytes = key.bytes + text.bytes;
    one->channel_bytes = key.bytes;
    memcpy(one->key, key.data, key.bytes);
    if (text.bytes > 0) memcpy(one->key + key.bytes, text.data, text.bytes);
    STAILQ_INSERT_TAIL(&notifications->queue, one, queued);
    notifications->bytes += bytes;
    gateway_soon(notifications->turn);
}

void notify(struct gateway *gateway, struct bytes key, const char *what) {
    queue_event(gateway, key, (struct bytes){NULL, 0}, what);
}

/* Half of the queue is for locks that end. */
const char *notify_message(struct gateway *gateway, struct bytes channel, struct bytes text) {
    if (channel.bytes > CHANNEL_BYTES_MAX || text.bytes > NOTIFICATION_MESSAGE_BYTES_MAX)
        return "ERR this gateway takes a message of at most 1024 bytes, for a channel of as many";
    if (notifications_are_many(gateway))
        return "ERR more is published than this gateway can tell its subscribers of";
    queue_event(gateway, channel, text, NULL);
    return NULL;
}

bool notifications_are_many(const struct gateway *gateway) {
    return gateway->notifications->bytes > NOTIFICATIONS_BYTES_MAX / 2;
}

/* ---- telling ---- */

void notifications_pass_over(struct notifications *notifications,
                             const struct subscription *subscription) {
    struct telling *telling = &notifications->telling;
    const struct channel *channel = subscription->channel;
    const bool is_last = TAILQ_FIRST(&channel->listeners) == subscription &&
                         TAILQ_NEXT(subscription, of_channel) == NULL;
    if (telling->listener == subscription) telling->listener = TAILQ_NEXT(subscription, of_channel);
    if (telling->pattern == channel && is_last) telling->pattern = channel_next_pattern(channel);
}

/* The name of the event for this step, and what is said about it. False: nobody can listen to it.
 */
static bool begin_name(struct telling *telling, const struct notification *notification) {
    static const char *const kinds[] = {"__keyspace@0__:", "__keyevent@0__:"};
    if (notification->what == NULL) {
        memcpy(telling->name, notification->key, notification->channel_bytes);
        telling->name_bytes = notification->channel_bytes;
        return true;
    }
    const bool is_about_key = telling->step == 1;
    const char *kind = kinds[telling->step - 1];
    const char *about = is_about_key ? notification->key : notification->what;
    const size_t head = strlen(kind),
                 bytes = is_about_key ? notification->bytes : strlen(notification->what);
    if (head + bytes > sizeof telling->name) return false;
    memcpy(telling->name, kind, head);
    memcpy(telling->name + head, about, bytes);
    telling->name_bytes = head + bytes;
    return true;
}

/* All listeners of a channel get the same bytes. */
static void compose(struct notifications *notifications, const struct channel *channel) {
    const struct notification *first = STAILQ_FIRST(&notifications->queue);
    const struct telling *telling = &notifications->telling;
    struct reply reply = {.out = notifications->message, .protocol = 2};
    evbuffer_drain(reply.out, evbuffer_get_length(reply.out));
    reply_push(&reply, channel->is_pattern ? 4 : 3);
    reply_text(&reply, channel->is_pattern ? "pmessage" : "message");
    if (channel->is_pattern) reply_bytes(&reply, channel->name.data, channel->name.bytes);
    reply_bytes(&reply, telling->name, telling->name_bytes);
    if (first->what == NULL)
        reply_bytes(&reply, first->key + first->channel_bytes, first->bytes - first->channel_bytes);
    else if (telling->step == 1)
        reply_text(&reply, first->what);
    else
        reply_bytes(&reply, first->key, first->bytes);
    if (reply.failed) evbuffer_drain(reply.out, evbuffer_get_length(reply.out));
}

static void begin_listeners(struct notifications *notifications, const struct channel *channel) {
    notifications->telling.listener = TAILQ_FIRST(&channel->listeners);
    compose(notifications, channel);
}

/* Its time belongs to the first that listens to it. */
static void compare(struct notifications *notifications, struct bytes name) {
    struct telling *telling = &notifications->telling;
    const struct channel *pattern = telling->pattern;
    struct connection *payer = TAILQ_FIRST(&pattern->listeners)->connection;
    telling->pattern = channel_next_pattern(pattern);
    charge(payer, pattern->wild_bytes * name.bytes / STEPS_PER_COST);
    if (pattern_matches(pattern->name, name)) begin_listeners(notifications, pattern);
}

/* Looks up the patterns by what they begin with. False: that was the last prefix of the name. */
static bool find_patterns(struct gateway *gateway, struct bytes name) {
    struct telling *telling = &gateway->notifications->telling;
    while (telling->pattern == NULL) {
        const size_t bytes = telling->prefix_bytes++;
        if (bytes > CHANNEL_PATTERN_BYTES_MAX || bytes > name.bytes) return false;
        telling->pattern =
            channel_first_pattern(gateway->channels, (struct bytes){name.data, bytes});
    }
    return true;
}

static size_t unread(const struct connection *connection) {
    return evbuffer_get_length(connection->reply.out);
}

/* False: its socket takes no more at the moment, so its reader should have some time. */
static bool tell(struct notifications *notifications) {
    const struct subscription *one = notifications->telling.listener;
    struct connection *connection = one->connection;
    const size_t bytes = evbuffer_get_length(notifications->message);
    notifications->telling.listener = TAILQ_NEXT(one, of_channel);
    if (one->after >= STAILQ_FIRST(&notifications->queue)->number || connection->missed ||
        connection->last)
        return true;
    const char *text = (const char *)evbuffer_pullup(notifications->message, -1);
    if (text == NULL || !connection_may_write(connection)) {
        notifications_miss(connection, REFUSED_SLOW);
        if (connection_is_open(connection))
            notice_say(&connection->gateway->too_slow, connection->gateway->options,
                       "a subscriber that does not read its messages is closed");
        return true;
    }
    reply_raw(&connection->reply, connection->reply.protocol == 3 ? ">" : "*", 1);
    reply_raw(&connection->reply, text + 1, bytes - 1);
    connection->gateway->metrics.notifications++;
    charge(connection, MESSAGE_COST + bytes);
    queue_connection(connection);
    if (unread(connection) > CONNECTION_OUTPUT_PAUSE) connection_flush(connection);
    if (unread(connection) <= CONNECTION_OUTPUT_PAUSE) return true;
    charge(connection, TURN_COST);
    return false;
}

static unsigned names_of(const struct notification *notification) {
    return notification->what == NULL ? 1 : 2;
}

/* A small step: one listener, one pattern, or the beginning of a name. False: that is enough for
 * this turn. */
static bool tell_on(struct gateway *gateway) {
    struct notifications *notifications = gateway->notifications;
    struct telling *telling = &notifications->telling;
    const struct bytes name = {telling->name, telling->name_bytes};
    if (telling->listener != NULL) {
        return tell(notifications);
    } else if (telling->step > 0 && find_patterns(gateway, name)) {
        compare(notifications, name);
    } else if (telling->step == names_of(STAILQ_FIRST(&notifications->queue)) ||
               gateway->channels->subscriptions == 0) {
        drop_first(notifications);
    } else {
        telling->step++;
        telling->prefix_bytes = CHANNEL_BYTES_MAX;
        if (!begin_name(telling, STAILQ_FIRST(&notifications->queue))) return true;
        telling->prefix_bytes = 0;
        const struct channel *channel = channel_find(
            gateway->channels, (struct bytes){telling->name, telling->name_bytes}, false);
        if (channel != NULL) begin_listeners(notifications, channel);
    }
    return true;
}

/* ---- turns ---- */

static void send_all(struct notifications *notifications, int64_t until_ns) {
    while (!TAILQ_EMPTY(&notifications->unsent) && gateway_now_ns() < until_ns)
        send_first(notifications);
}

/* First what the last turn has left to write. */
static void on_turn(evutil_socket_t fd, short what, void *context) {
    struct gateway *gateway = context;
    struct notifications *notifications = gateway->notifications;
    const int64_t until_ns = gateway_now_ns() + GATEWAY_SHARE_NS;
    (void)fd;
    (void)what;
    bool more = true;
    send_all(notifications, until_ns);
    while (more && !STAILQ_EMPTY(&notifications->queue) && gateway_now_ns() < until_ns)
        more = tell_on(gateway);
    send_all(notifications, until_ns);
    if (STAILQ_EMPTY(&notifications->queue)) notifications->rush++;
    if (!TAILQ_EMPTY(&notifications->unsent) || !STAILQ_EMPTY(&notifications->queue))
        gateway_next_turn(notifications->turn);
}

bool notifications_open(struct gateway *gateway) {
    struct notifications *notifications = gateway->notifications;
    STAILQ_INIT(&notifications->queue);
    TAILQ_INIT(&notifications->unsent);
    notifications->turn = event_new(gateway->base, -1, 0, on_turn, gateway);
    notifications->message = evbuffer_new();
    return notifications->turn != NULL && notifications->message != NULL;
}

void notifications_close(struct gateway *gateway) {
    struct notifications *notifications = gateway->notifications;
    while (notifications->turn != NULL && !STAILQ_EMPTY(&notifications->queue))
        drop_first(notifications);
    if (notifications->message != NULL) evbuffer_free(notifications->message);
    if (notifications->turn != NULL) event_free(notifications->turn);
}
