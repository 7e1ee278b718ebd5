/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What the gateway counts, and the HTTP page on which Prometheus reads it.
 */
#ifndef SERVE_METRICS_H
#define SERVE_METRICS_H

#include <stdbool.h>
#include <stdint.h>

#include "durations.h"
#include "metrics_http.h"

struct gateway;

enum metric_step { METRIC_PEEK, METRIC_TAKE, METRIC_EXTEND, METRIC_RELEASE, METRIC_STEPS };
/* NOT: held by another, or no longer there. */
enum metric_outcome { METRIC_DONE, METRIC_NOT, METRIC_NO_QUORUM, METRIC_FAILED, METRIC_OUTCOMES };
enum metric_refusal {
    REFUSED_CONNECTION, /* too many */
    REFUSED_PASSWORD,
    REFUSED_REQUEST,  /* a command or a form of it that is not taken here */
    REFUSED_PROTOCOL, /* not a request */
    REFUSED_SLOW,     /* closed: half a request, or answers that nobody read */
    REFUSED_MEMORY,   /* closed: clients took too much, and it most */
    REFUSALS
};

struct metrics {
    uint64_t steps[METRIC_STEPS][METRIC_OUTCOMES];
    struct durations round_trips[METRIC_STEPS];
    struct durations waits; /* for a key's turn */
    uint64_t requests, connections, expired, notifications;
    uint64_t refusals[REFUSALS];
    struct metrics_http http;
};

/* Listens at HOST:PORT. False after a word. */
bool metrics_open(struct gateway *gateway, const char *address);
void metrics_close(struct gateway *gateway);

#endif
