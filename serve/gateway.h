/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The state of the gateway: one event loop, one redlock client, and the structures that the other
 * files keep.
 */
#ifndef SERVE_GATEWAY_H
#define SERVE_GATEWAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <redlock.h>

#include "channel.h"
#include "guess.h"
#include "key.h"
#include "metrics.h"
#include "notice.h"
#include "serve.h"
#include "key_op.h"
#include "workers.h"

#define GATEWAY_MS INT64_C(1000000)

struct connection;
struct event;
struct event_base;
struct listener;
struct reload;
struct texts;

struct gateway {
    const struct serve_options *options;
    struct redlock_client *client;
    struct event_base *base;
    struct event *client_event, *sweep_event, *watchdog_event, *signal_events[2];
    struct reload *reload;
    struct listener *listeners;
    struct connection *connections; /* open ones, and closed ones whose operation has not ended */
    size_t connections_count;       /* open ones */
    uint64_t connections_last_id;
    size_t client_bytes;  /* memory of their requests, answers and subscriptions, approximate */
    struct event *weighs; /* fires when client_bytes exceeds the limit */
    struct channels channels;
    struct keys keys;
    struct ops key_ops;
    struct texts *texts;
    struct workers workers;
    struct metrics metrics;
    struct notice accept_fails, too_heavy;
    struct guesses guesses;
    char *password; /* NULL: clients need no password */
    char run_id[41];
    int64_t began_ns;
    uint64_t heard; /* counts the messages from clients and nodes */
    bool draining;
    int64_t drain_until_ns;
};

/* Reads CLOCK_BOOTTIME, the clock that the library uses. */
int64_t gateway_now_ns(void);

#endif
