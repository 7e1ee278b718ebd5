/* SPDX-License-Identifier: BSD-2-Clause */
#include "command.h"

#include "connection/connection.h"
#include "loop/gateway.h"

void command_refused(struct connection *connection) {
    connection->gateway->metrics.refusals[REFUSED_REQUEST]++;
    transaction_break(connection);
}

void command_refuse(struct connection *connection, const char *what, const char *why) {
    command_refused(connection);
    reply_error(&connection->reply,
                "ERR %s: %s. This is redlock serve, a gateway to locks on a majority of servers",
                what, why);
}
