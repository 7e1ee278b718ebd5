/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A gateway with all its parts.
 */
#ifndef SERVE_PARTS_H
#define SERVE_PARTS_H

#include "connection/channel.h"
#include "connection/connection.h"
#include "loop/gateway.h"
#include "key/key.h"
#include "connection/notification.h"
#include "connection/password.h"

struct gateway_parts {
    struct exchanges exchanges;
    struct channels channels;
    struct notifications notifications;
    struct keys keys;
    struct ops key_ops;
    struct guesses guesses;
};

/* The parts are all zero, and live as long as the gateway. */
void gateway_join(struct gateway *gateway, struct gateway_parts *parts);

#endif
