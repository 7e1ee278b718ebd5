/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The gateway's counters, and the HTTP page from which Prometheus reads them.
 */
#ifndef SERVE_METRICS_H
#define SERVE_METRICS_H

#include <stdbool.h>
#include <stdint.h>

#include "durations.h"
#include "metrics_http.h"

struct gateway;

enum metric_step { METRIC_PEEK, METRIC_TAKE, METRIC_EXTEND, METRIC_RELEASE, METRIC_STEPS };
/* NOT: held by another client, or absent by then. */
enum metric_outcome { METRIC_DONE, METRIC_NOT, METRIC_NO_QUORUM, METRIC_FAILED, METRIC_OUTCOMES };
enum metric_refusal {
    REFUSED_CONNECTION, /* too many connections */
    REFUSED_PASSWORD,
    REFUSED_REQUEST,  /* a command, or a form of it, that the gateway does not support */
    REFUSED_PROTOCOL, /* not a request */
    REFUSED_SLOW,     /* closed: half a request, or answers that the client did not read */
    REFUSED_MEMORY,   /* closed: clients took too much memory, and this one the most */
    REFUSALS
};

struct metrics {
    uint64_t steps[METRIC_STEPS][METRIC_OUTCOMES];
    struct durations round_trips[METRIC_STEPS];
    struct durations waits; /* for a key */
    uint64_t requests, connections, expired, notifications;
    uint64_t refusals[REFUSALS];
    struct metrics_http http;
};

/* Listens at HOST:PORT. False after a message. */
bool metrics_open(struct gateway *gateway, const char *address);
void metrics_close(struct gateway *gateway);

#endif
