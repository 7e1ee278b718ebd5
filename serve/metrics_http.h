/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The HTTP connections on which metrics are read: one answer each. There are few, and each ends
 * soon, so whatever connects there, the descriptors that clients and nodes need stay free.
 */
#ifndef SERVE_METRICS_HTTP_H
#define SERVE_METRICS_HTTP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "notice.h"

/* At one time. One more takes the place of the oldest, at most every METRICS_PAUSE_MS: a reader of
 * metrics comes through between connections that say nothing. */
#define METRICS_CONNECTIONS_MAX 16
#define METRICS_PAUSE_MS 10
/* From a connection's beginning to its end, however busy it is meanwhile. */
#define METRICS_SECONDS 5

struct addrinfo;
struct evbuffer;
struct event;
struct gateway;
struct scrape;

/* All zero: it is closed. */
struct metrics_http {
    struct gateway *gateway;
    struct event *accepts;               /* on the listening socket */
    struct event *again;                 /* after a pause */
    TAILQ_HEAD(scrapes, scrape) scrapes; /* from the oldest */
    unsigned connections;
    uint64_t cut_off; /* ended before their answer was written: too slow, or too many */
    /* Writes the page. */
    void (*page)(const struct gateway *gateway, struct evbuffer *out);
    struct notice failing;
};

/* Listens at the address. NULL, or why not: a static text, or strerror(3)'s. */
const char *metrics_http_open(struct gateway *gateway, const struct addrinfo *address,
                              void (*page)(const struct gateway *gateway, struct evbuffer *out));
void metrics_http_close(struct metrics_http *http);

#endif
