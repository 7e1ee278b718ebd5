/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The gateway's counters.
 */
#ifndef SERVE_METRICS_H
#define SERVE_METRICS_H

#include <stdbool.h>
#include <stdint.h>

#include "http/http.h"

#define DURATIONS_BUCKETS 16

struct evbuffer;

enum metric_step { METRIC_PEEK, METRIC_TAKE, METRIC_EXTEND, METRIC_RELEASE, METRIC_STEPS };
/* NOT: held by another client, or absent by then. */
enum metric_outcome { METRIC_DONE, METRIC_NOT, METRIC_NO_QUORUM, METRIC_FAILED, METRIC_OUTCOMES };
enum metric_refusal {
    REFUSED_CONNECTION, /* too many connections */
    REFUSED_PASSWORD,
    REFUSED_REQUEST,       /* a command, or a form of it, that the gateway does not support */
    REFUSED_PROTOCOL,      /* not a request */
    REFUSED_SLOW,          /* closed: half a request, or answers that the client did not read */
    REFUSED_MEMORY,        /* closed: clients took too much memory, and this one the most */
    REFUSED_NOTIFICATIONS, /* closed: events waited for subscribers, and this one cost the most */
    REFUSALS
};

/* Why the gateway renews a lock no longer that its client did not release. */
enum metric_renewal {
    RENEWAL_LOST,
    RENEWAL_NO_QUORUM,
    RENEWAL_SILENT, /* the client sent nothing */
    RENEWAL_MAX,    /* the time that the client had set was over */
    RENEWAL_ENDS
};

/* A histogram, in buckets that Prometheus reads. */
struct durations {
    /* each bucket counts alone; the last holds all longer ones */
    uint64_t counts[DURATIONS_BUCKETS + 1];
    int64_t sum_ns;
};

struct metrics {
    uint64_t steps[METRIC_STEPS][METRIC_OUTCOMES];
    struct durations round_trips[METRIC_STEPS];
    struct durations waits; /* for a key */
    uint64_t requests, connections, expired, notifications;
    uint64_t refusals[REFUSALS];
    uint64_t renewed, renewals_ended[RENEWAL_ENDS]; /* now; since the start */
    struct http http;                               /* of the metrics address */
};

void durations_add(struct durations *durations, int64_t ns);
/* `labels` is "" or `name="value"`. */
void durations_write(const struct durations *durations, const char *name, const char *labels,
                     struct evbuffer *out);

#endif
