/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A subscription is in two lists: the short one of its connection, and that of its channel or
 * pattern, which is found by its text. Patterns are found by the bytes before their first wildcard.
 * A notification is therefore compared only with patterns that begin like the channel.
 */
#include "channel.h"

#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "connection.h"
#include "loop/gateway.h"

struct prefix {
    struct bytes text; /* stored behind the struct */
    LIST_HEAD(patterns, channel) patterns;
};

static int compare_bytes(struct bytes one, struct bytes other) {
    if (one.bytes != other.bytes) return one.bytes < other.bytes ? -1 : 1;
    return one.bytes > 0 ? memcmp(one.data, other.data, one.bytes) : 0;
}

static int compare_channels(const void *a, const void *b) {
    const struct channel *one = a, *other = b;
    if (one->is_pattern != other->is_pattern) return one->is_pattern ? 1 : -1;
    return compare_bytes(one->name, other->name);
}

static int compare_prefixes(const void *a, const void *b) {
    return compare_bytes(((const struct prefix *)a)->text, ((const struct prefix *)b)->text);
}

/* ---- prefixes ---- */

static struct prefix *prefix_find(const struct channels *channels, struct bytes text) {
    const struct prefix wanted = {.text = text};
    struct prefix *const *found = tfind(&wanted, &channels->prefixes, compare_prefixes);
    return found != NULL ? *found : NULL;
}

/* NULL: out of memory. */
static struct prefix *prefix_get(struct channels *channels, struct bytes text) {
    struct prefix *prefix = prefix_find(channels, text);
    if (prefix != NULL) return prefix;
    prefix = malloc(sizeof *prefix + text.bytes);
    if (prefix == NULL) return NULL;
    char *copy = (char *)(prefix + 1);
    if (text.bytes > 0) memcpy(copy, text.data, text.bytes);
    prefix->text = (struct bytes){copy, text.bytes};
    LIST_INIT(&prefix->patterns);
    if (tsearch(prefix, &channels->prefixes, compare_prefixes) == NULL) {
        free(prefix);
        return NULL;
    }
    channels->prefixes_of[text.bytes]++;
    return prefix;
}

/* ---- channels ---- */

struct channel *channel_find(const struct channels *channels, struct bytes name, bool is_pattern) {
    const struct channel wanted = {.is_pattern = is_pattern, .name = name};
    struct channel *const *found = tfind(&wanted, &channels->names, compare_channels);
    return found != NULL ? *found : NULL;
}

struct channel *channel_first_pattern(const struct channels *channels, struct bytes text) {
    if (channels->prefixes_of[text.bytes] == 0) return NULL;
    const struct prefix *prefix = prefix_find(channels, text);
    return prefix != NULL ? LIST_FIRST(&prefix->patterns) : NULL;
}

struct channel *channel_next_pattern(const struct channel *pattern) {
    return LIST_NEXT(pattern, same_prefix);
}

static void channel_free(struct channels *channels, struct channel *channel) {
    struct prefix *prefix = channel->prefix;
    if (prefix != NULL) {
        LIST_REMOVE(channel, same_prefix);
        channels->wild_bytes -= channel->wild_bytes;
    }
    if (prefix != NULL && LIST_EMPTY(&prefix->patterns)) {
        tdelete(prefix, &channels->prefixes, compare_prefixes);
        channels->prefixes_of[prefix->text.bytes]--;
        free(prefix);
    }
    tdelete(channel, &channels->names, compare_channels);
    free(channel);
}

static size_t wild_bytes(struct bytes name, bool is_pattern) {
    return is_pattern && !pattern_is_prefix(name) ? name.bytes - pattern_literal(name) : 0;
}

/* NULL: out of memory. */
static struct channel *channel_new(struct channels *channels, struct bytes name, bool is_pattern) {
    struct channel *channel = calloc(1, sizeof *channel + name.bytes);
    if (channel == NULL) return NULL;
    char *copy = (char *)(channel + 1);
    if (name.bytes > 0) memcpy(copy, name.data, name.bytes);
    channel->is_pattern = is_pattern;
    channel->name = (struct bytes){copy, name.bytes};
    channel->wild_bytes = wild_bytes(name, is_pattern);
    TAILQ_INIT(&channel->listeners);
    if (tsearch(channel, &channels->names, compare_channels) == NULL) {
        free(channel);
        return NULL;
    }
    if (!is_pattern) return channel;
    channel->prefix = prefix_get(channels, (struct bytes){copy, pattern_literal(name)});
    if (channel->prefix == NULL) {
        channel_free(channels, channel);
        return NULL;
    }
    LIST_INSERT_HEAD(&channel->prefix->patterns, channel, same_prefix);
    channels->wild_bytes += channel->wild_bytes;
    return channel;
}

/* ---- subscriptions ---- */

/* Of one connection there are at most CHANNELS_MAX. NULL: there is none. */
static struct subscription *find(const struct connection *connection, struct bytes name,
                                 bool is_pattern) {
    struct subscription *one;
    LIST_FOREACH(one, &connection->subscriptions, of_connection) {
        if (one->channel->is_pattern == is_pattern && compare_bytes(one->channel->name, name) == 0)
            break;
    }
    return one;
}

/* Each subscriber is charged with all of it, even if others share it. */
static size_t weight(const struct channel *channel) {
    return sizeof(struct subscription) + sizeof *channel + sizeof *channel->prefix +
           2 * channel->name.bytes;
}

void channel_leave(struct subscription *one) {
    struct connection *connection = one->connection;
    struct channels *channels = connection->gateway->channels;
    struct channel *channel = one->channel;
    notifications_pass_over(connection->gateway->notifications, one);
    LIST_REMOVE(one, of_connection);
    TAILQ_REMOVE(&channel->listeners, one, of_channel);
    connection->channel_bytes -= weight(channel);
    if (TAILQ_EMPTY(&channel->listeners)) channel_free(channels, channel);
    channels->subscriptions--;
    connection->channels--;
    free(one);
}

const char *channel_subscribe(struct connection *connection, struct bytes name, bool is_pattern) {
    struct channels *channels = connection->gateway->channels;
    if (find(connection, name, is_pattern) != NULL) return NULL;
    if (connection->channels == CHANNELS_MAX ||
        name.bytes > (is_pattern ? CHANNEL_PATTERN_BYTES_MAX : CHANNEL_BYTES_MAX))
        return "a connection listens to at most 64 channels, with names of at most 1024 bytes and "
               "patterns of at most 128";
    struct channel *channel = channel_find(channels, name, is_pattern);
    if (channel == NULL &&
        channels->wild_bytes + wild_bytes(name, is_pattern) > CHANNEL_WILD_BYTES_MAX)
        return "all clients together have too many different patterns that go on behind their "
               "first wildcard (4096 "
               "bytes); one that ends in its only * is always taken";
    struct subscription *one = malloc(sizeof *one);
    if (channel == NULL && one != NULL) channel = channel_new(channels, name, is_pattern);
    if (channel == NULL || one == NULL) {
        free(one);
        return "out of memory";
    }
    *one = (struct subscription){.connection = connection,
                                 .channel = channel,
                                 .after = connection->gateway->notifications->events};
    LIST_INSERT_HEAD(&connection->subscriptions, one, of_connection);
    TAILQ_INSERT_TAIL(&channel->listeners, one, of_channel);
    channels->subscriptions++;
    connection->channels++;
    connection->channel_bytes += weight(channel);
    return NULL;
}

void channel_unsubscribe(struct connection *connection, struct bytes name, bool is_pattern) {
    struct subscription *one = find(connection, name, is_pattern);
    if (one != NULL) channel_leave(one);
}

void channel_leave_all(struct connection *connection) {
    while (!LIST_EMPTY(&connection->subscriptions))
        channel_leave(LIST_FIRST(&connection->subscriptions));
}
