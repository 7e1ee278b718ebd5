/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The HTTP page from which Prometheus reads the counters, and those from which an orchestrator
 * learns whether the gateway lives and can take locks.
 */
#ifndef SERVE_METRICS_PAGE_H
#define SERVE_METRICS_PAGE_H

#include <stdbool.h>

struct evbuffer;
struct gateway;

/* Writes the page. */
void metrics_write(const struct gateway *gateway, struct evbuffer *out);
/* Whether a majority of the nodes can vote; writes that, and why others cannot. */
bool metrics_ready(const struct gateway *gateway, struct evbuffer *out);

/* Listens at HOST:PORT. False after a message. */
bool metrics_open(struct gateway *gateway, const char *address);
void metrics_close(struct gateway *gateway);

#endif
