/* SPDX-License-Identifier: BSD-2-Clause */
#include "connection.h"

#include <stdlib.h>

#include "loop/gateway.h"

/* As many requests as are usually under way at a time. */
enum { SPARES_MAX = 32 };

static void exchange_free(struct exchange *exchange) {
    request_close(&exchange->reader);
    free(exchange);
}

static struct exchange *make(void) {
    struct exchange *exchange = calloc(1, sizeof *exchange);
    if (exchange == NULL || request_open(&exchange->reader)) return exchange;
    free(exchange);
    return NULL;
}

/* The last one that was used is still in the processor's caches. */
bool exchange_begin(struct connection *connection) {
    struct exchanges *exchanges = connection->gateway->exchanges;
    struct exchange *exchange = SLIST_FIRST(&exchanges->spare);
    if (connection->exchange != NULL) return true;
    if (exchange != NULL) {
        SLIST_REMOVE_HEAD(&exchanges->spare, spare);
        exchanges->spares--;
    } else {
        exchange = make();
    }
    if (exchange == NULL) return false;
    exchange->connection = connection;
    connection->exchange = exchange;
    exchanges->used++;
    return true;
}

bool exchange_is_over(const struct connection *connection) {
    return connection->exchange != NULL && !connection->busy &&
           request_is_idle(&connection->exchange->reader);
}

void exchange_end(struct connection *connection) {
    struct exchanges *exchanges = connection->gateway->exchanges;
    struct exchange *exchange = connection->exchange;
    connection->exchange = NULL;
    if (exchange == NULL) return;
    exchange->connection = NULL;
    exchanges->used--;
    if (exchanges->spares >= SPARES_MAX || !request_is_idle(&exchange->reader) ||
        !request_is_small(&exchange->reader)) {
        exchange_free(exchange);
        return;
    }
    SLIST_INSERT_HEAD(&exchanges->spare, exchange, spare);
    exchanges->spares++;
}

void exchanges_close(struct gateway *gateway) {
    struct exchanges *exchanges = gateway->exchanges;
    while (!SLIST_EMPTY(&exchanges->spare)) {
        struct exchange *exchange = SLIST_FIRST(&exchanges->spare);
        SLIST_REMOVE_HEAD(&exchanges->spare, spare);
        exchange_free(exchange);
    }
    exchanges->spares = 0;
}
