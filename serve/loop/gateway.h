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

#include "metrics.h"
#include "script/script_cache.h"
#include "serve.h"
#include "workers.h"

#define GATEWAY_MS INT64_C(1000000)
#define NOTICE_PAUSE_NS INT64_C(10000000000)
/* For work that many clients or locks cause at once: what is left waits for the next turn of the
 * loop, so that other connections and timers have theirs. */
#define GATEWAY_SHARE_NS (GATEWAY_MS / 2)

struct channels;
struct connection;
struct event;
struct event_base;
struct exchanges;
struct guesses;
struct key;
struct keys;
struct listener;
struct notifications;
struct ops;
struct reload;

/* A message whose cause clients can repeat as often as they like. It is printed at most once per
 * NOTICE_PAUSE_NS, with the number of messages left out since. All zero: it was never printed. */
struct notice {
    int64_t silent_until_ns;
    uint64_t left_out;
};

/* What stands on connections and keys, for their calls. */
struct gateway_above {
    void (*request)(struct connection *connection); /* a whole one is read */
    /* the memory of its transaction and its renewals, approximate */
    size_t (*weight)(const struct connection *connection);
    void (*closed)(struct connection *connection);
    void (*transaction_free)(struct connection *connection);
    void (*ended)(struct key *key, const char *what);
    /* A client's message. NULL: it will be told; else why not, a static text. */
    const char *(*publish)(struct gateway *gateway, struct bytes channel, struct bytes text);
    bool (*waits)(const struct gateway *gateway); /* what can wait should wait */
};

struct gateway {
    const struct serve_options *options;
    struct redlock_client *client;
    struct event_base *base;
    struct event *client_event, *sweep_event, *watchdog_event, *signal_events[2];
    struct reload *reload;
    struct listener *listeners;
    struct connection *connections; /* open ones, and closed ones whose operation has not ended */
    size_t connections_count;       /* open ones */
    /* those that have not given the password, oldest first; `guessing`: they have sent one, which
     * is not checked yet */
    TAILQ_HEAD(unproven, connection) unproven, guessing;
    TAILQ_HEAD(, connection) slow; /* with half a request, or answers that are not read */
    uint64_t connections_last_id;
    size_t client_bytes;  /* memory of their requests, answers and subscriptions, approximate */
    struct event *weighs; /* fires when client_bytes exceeds the limit */
    const struct gateway_above *above;
    struct exchanges *exchanges;
    struct channels *channels;
    struct notifications *notifications;
    struct keys *keys;
    LIST_HEAD(, renewal) renewals_ended; /* those whose operation has not */
    struct ops *key_ops;
    struct script_cache texts; /* of scripts, as SCRIPT LOAD keeps them */
    struct workers workers;
    struct metrics metrics;
    struct notice accept_fails, metrics_fail, no_memory, too_heavy, too_costly, too_slow,
        not_requests, wrong_password, wrong_passwords;
    struct guesses *guesses;
    char *password; /* NULL: clients need no password */
    char run_id[41];
    int64_t began_ns;
    uint64_t heard; /* counts the messages from clients and nodes */
    bool may_turn;  /* mode auto: the client becomes guarded with the first record that it sees */
    bool address_is_taken; /* one to listen on: it is in use, or not there yet */
    bool draining;
    int64_t drain_until_ns;
};

/* Reads CLOCK_BOOTTIME, the clock that the library uses. */
int64_t gateway_now_ns(void);
/* In mode auto, from the first record that it sees. */
static inline bool gateway_is_guarded(const struct gateway *gateway) {
    return redlock_client_mode(gateway->client) == REDLOCK_MODE_GUARDED;
}
/* Such work is an event. It runs in this turn of the loop, unless it waits for the next one. */
void gateway_soon(struct event *event);
/* It runs in the next turn, after the sockets that are ready by then. */
void gateway_next_turn(struct event *event);
/* Prints the text, or counts it. `text` is one line without its newline. */
void notice_say(struct notice *notice, const struct serve_options *options, const char *text);

#endif
