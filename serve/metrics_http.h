/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The HTTP connections that read the metrics: one answer each. They are few, and each one ends
 * soon. So connections to this port never use up the descriptors that clients and nodes need.
 */
#ifndef SERVE_METRICS_HTTP_H
#define SERVE_METRICS_HTTP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "notice.h"

/* The limit at one time. A further connection replaces the oldest, at most once per
 * METRICS_PAUSE_MS. So a reader of metrics gets its answer even among connections that send
 * nothing. */
#define METRICS_CONNECTIONS_MAX 16
#define METRICS_PAUSE_MS 10
/* The lifetime of a connection, even of an active one. */
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
    TAILQ_HEAD(scrapes, scrape) scrapes; /* oldest first */
    unsigned connections;
    uint64_t cut_off; /* ended before their answer was written: too slow, or too many */
    /* Writes the page. */
    void (*page)(const struct gateway *gateway, struct evbuffer *out);
    struct notice failing;
};

/* Listens at the address. Returns NULL, or the reason for the failure: a static text, or
 * strerror(3)'s. */
const char *metrics_http_open(struct gateway *gateway, const struct addrinfo *address,
                              void (*page)(const struct gateway *gateway, struct evbuffer *out));
void metrics_http_close(struct metrics_http *http);

#endif
