/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef WEB_LOOK_METRICS_H
#define WEB_LOOK_METRICS_H

#include "look.h"

struct evbuffer;

/* What the last look found, as Prometheus reads it. Only the thread that looks calls it. */
void look_metrics_write(const struct top_observer *observer, struct evbuffer *out);

#endif
