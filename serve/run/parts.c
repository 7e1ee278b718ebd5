/* SPDX-License-Identifier: BSD-2-Clause */
#include "parts.h"

#include "command/command.h"

static const struct gateway_above above = {
    .request = command_do,
    .transaction_weight = transaction_weight,
    .transaction_free = transaction_free,
    .ended = notify,
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
