/* SPDX-License-Identifier: BSD-2-Clause */
#include "parts.h"

#include "command/command.h"

static size_t weight(const struct connection *connection) {
    return transaction_weight(connection) + renewals_weight(connection);
}

static void ended(struct key *key, const char *what) {
    notify(key->gateway, key->name, what);
    renewals_key_ended(key);
}

static const struct gateway_above above = {
    .request = command_do,
    .weight = weight,
    .closed = renewals_end,
    .transaction_free = transaction_free,
    .ended = ended,
    .publish = notify_message,
    .waits = notifications_are_many,
};

void gateway_join(struct gateway *gateway, struct gateway_parts *parts) {
    gateway->above = &above;
    gateway->exchanges = &parts->exchanges;
    gateway->channels = &parts->channels;
    gateway->notifications = &parts->notifications;
    gateway->keys = &parts->keys;
    gateway->key_ops = &parts->key_ops;
    gateway->guesses = &parts->guesses;
}
