/* SPDX-License-Identifier: BSD-2-Clause */
#include "serve.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <event2/event.h>
#include <systemd/sd-daemon.h>

#include "command/command.h"
#include "connection/connection.h"
#include "http/notify.h"
#include "loop/gateway.h"
#include "connection/listen.h"
#include "metrics_page.h"
#include "parts.h"
#include "reload.h"

enum {
    DRAIN_MS = 5000,
    TEXTS_MAX = 256,
    /* At most 2 for each of 15 nodes (the old connection and the new), 17 for the processes that
     * run scripts, HTTP_CONNECTIONS_MAX + 1, and listeners, loops and standard streams. */
    DESCRIPTORS_BESIDE = 128,
    VAIN_MAX = 6
};
#define BUSY_POLL_NS (GATEWAY_MS / 10)

/* ---- the end ---- */

static void end_when_drained(struct gateway *gateway) {
    if (!gateway->draining) return;
    if (gateway->connections_count == 0 || gateway_now_ns() >= gateway->drain_until_ns)
        event_base_loopbreak(gateway->base);
}

static void on_signal(evutil_socket_t number, short what, void *context) {
    struct gateway *gateway = context;
    (void)what;
    if (gateway->draining) { /* second signal: ends at once */
        event_base_loopbreak(gateway->base);
        return;
    }
    if (gateway->options->verbose)
        gateway->options->say(
            "signal %d: requests under way are answered; locks stay until they expire",
            (int)number);
    notify_manager("STOPPING=1");
    gateway->draining = true;
    gateway->drain_until_ns = gateway_now_ns() + DRAIN_MS * GATEWAY_MS;
    listen_close(gateway);
    connections_drain(gateway);
    end_when_drained(gateway);
}

/* ---- the loop ---- */

/* libevent would write these messages to standard error without limit, and not through the options'
 * `say`. Its callback has no argument, so the variables are global to the process. */
static const struct serve_options *log_options;
static struct notice log_notice;

static void on_log(int severity, const char *text) {
    if (severity >= EVENT_LOG_WARN && log_options != NULL)
        notice_say(&log_notice, log_options, text);
}

/* A lock that was taken as classic is lost with the first record (docs/inside/guarded.md). Its
 * holder asks by commands only, so the log is the place to report that. */
static void follow_mode(struct gateway *gateway) {
    if (!gateway->may_turn || !gateway_is_guarded(gateway)) return;
    gateway->may_turn = false;
    const size_t lost = keys_turn_guarded(gateway);
    if (lost > 0)
        gateway->options->say(
            "the nodes were made a guarded quorum: %zu %s taken as classic before "
            "%s lost; the keys stay until they are released or end",
            lost, lost == 1 ? "lock that was" : "locks that were", lost == 1 ? "is" : "are");
}

static void hear_nodes(struct gateway *gateway) {
    redlock_process(gateway->client);
    follow_mode(gateway);
    end_when_drained(gateway);
}

static void on_client(evutil_socket_t fd, short what, void *context) {
    struct gateway *gateway = context;
    (void)fd;
    (void)what;
    gateway->heard++;
    hear_nodes(gateway);
}

/* On a busy machine, sending gives the processor to the nodes, which have answered by the end of a
 * turn. False: the loop cannot run. */
static bool turn(struct gateway *gateway, int flags) {
    if (event_base_loop(gateway->base, flags) != 0) return false;
    if (gateway->key_ops->running > 0) hear_nodes(gateway);
    return true;
}

static void on_sweep(evutil_socket_t fd, short what, void *context) {
    struct gateway *gateway = context;
    (void)fd;
    (void)what;
    connections_sweep(gateway);
    end_when_drained(gateway);
}

/* systemd ends a gateway whose loop stops (WatchdogSec). */
static void on_watchdog(evutil_socket_t fd, short what, void *context) {
    (void)fd;
    (void)what;
    (void)context;
    notify_manager("WATCHDOG=1");
}

/* The number of times that another process displaced this one from the processor. */
static uint64_t times_displaced(void) {
    struct rusage usage;
    return getrusage(RUSAGE_SELF, &usage) == 0 ? (uint64_t)usage.ru_nivcsw : 0;
}

/* Waking a sleeping processor takes longer than all the work for a message, and it delays the
 * sender for most of that time: three nodes, one after the other, before there is a majority. So
 * the loop polls for the next message for a short time before it sleeps. It polls less and less
 * often where that is in vain, as with distant nodes. The same happens where polling takes the
 * processor from the senders: then each message displaces this process about once. Returns whether
 * polling has paid. */
static bool busy_poll(struct gateway *gateway) {
    const uint64_t before = gateway->heard, displaced_before = times_displaced();
    int64_t until = gateway_now_ns() + BUSY_POLL_NS;
    while (gateway_now_ns() < until && !event_base_got_break(gateway->base)) {
        const uint64_t seen = gateway->heard;
        turn(gateway, EVLOOP_NONBLOCK);
        if (gateway->heard != seen) until = gateway_now_ns() + BUSY_POLL_NS;
    }
    const uint64_t heard = gateway->heard - before,
                   displaced = times_displaced() - displaced_before;
    return 2 * heard > 3 * displaced;
}

static void serve(struct gateway *gateway) {
    unsigned vain = 0, skip = 0;
    while (!event_base_got_break(gateway->base)) {
        const uint64_t seen = gateway->heard;
        if (!turn(gateway, EVLOOP_ONCE)) return;
        if (!gateway->options->busy_poll || gateway->heard == seen) continue;
        if (skip > 0) {
            skip--;
            continue;
        }
        const bool paid = busy_poll(gateway);
        if (paid && vain > 0) vain--;
        if (!paid && vain < VAIN_MAX) vain++;
        skip = (1U << vain) - 1;
    }
}

static bool add(struct event *event, const struct timeval *after) {
    return event != NULL && event_add(event, after) == 0;
}

/* Three times within the time that systemd allows. */
static bool feed_watchdog(struct gateway *gateway) {
    uint64_t us = 0;
    if (sd_watchdog_enabled(0, &us) <= 0) return true;
    const struct timeval third = {.tv_sec = (time_t)(us / 3000000),
                                  .tv_usec = (suseconds_t)(us / 3 % 1000000)};
    gateway->watchdog_event = event_new(gateway->base, -1, EV_PERSIST, on_watchdog, gateway);
    return add(gateway->watchdog_event, &third);
}

static bool open_loop(struct gateway *gateway) {
    static const int numbers[] = {SIGTERM, SIGINT};
    gateway->base = event_base_new();
    if (gateway->base == NULL || !key_ops_open(gateway) || !notifications_open(gateway) ||
        !connections_open(gateway))
        return false;
    gateway->client_event = event_new(gateway->base, redlock_client_fd(gateway->client),
                                      EV_READ | EV_PERSIST, on_client, gateway);
    gateway->sweep_event = event_new(gateway->base, -1, EV_PERSIST, on_sweep, gateway);
    const struct timeval second = {.tv_sec = 1};
    bool all = add(gateway->client_event, NULL) && add(gateway->sweep_event, &second);
    for (int i = 0; i < 2; i++) {
        gateway->signal_events[i] = evsignal_new(gateway->base, numbers[i], on_signal, gateway);
        all = all && add(gateway->signal_events[i], NULL);
    }
    return all && feed_watchdog(gateway) && reload_open(gateway);
}

/* Locks stay on the nodes: they belong to clients, which may release them through another gateway.
 */
static void close_all(struct gateway *gateway) {
    listen_close(gateway);
    metrics_close(gateway);
    connections_close(gateway);
    renewals_close(gateway);
    keys_close(gateway);
    key_ops_close(gateway);
    notifications_close(gateway);
    workers_close(gateway);
    cache_clear(&gateway->texts);
    struct event *events[] = {gateway->client_event, gateway->sweep_event, gateway->watchdog_event,
                              gateway->signal_events[0], gateway->signal_events[1]};
    for (size_t i = 0; i < sizeof events / sizeof events[0]; i++) {
        if (events[i] != NULL) event_free(events[i]);
    }
    /* The locks are on the nodes, and no work is left: a prompt exit is better than a hang. */
    if (!reload_close(gateway)) _exit(0);
    if (gateway->base != NULL) event_base_free(gateway->base);
    password_free(gateway->password);
}

/* ---- the beginning ---- */

static bool make_run_id(struct gateway *gateway) {
    unsigned char bytes[20];
    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes) return false;
    for (size_t i = 0; i < sizeof bytes; i++)
        snprintf(gateway->run_id + 2 * i, 3, "%02x", bytes[i]);
    return true;
}

/* One descriptor for each connection, and some for the nodes. */
static enum serve_result make_room(const struct gateway *gateway) {
    struct rlimit limit;
    rlim_t needed = gateway->options->connections_max + DESCRIPTORS_BESIDE;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= needed) return SERVE_OK;
    limit.rlim_cur = limit.rlim_max < needed ? limit.rlim_max : needed;
    if (limit.rlim_cur >= needed && setrlimit(RLIMIT_NOFILE, &limit) == 0) return SERVE_OK;
    const bool has_any = limit.rlim_max > DESCRIPTORS_BESIDE; /* for a client */
    gateway->options->say(
        "this process may open %llu files, too few for --connections %zu: raise the limit (ulimit "
        "-n, LimitNOFILE=)%s",
        (unsigned long long)limit.rlim_max, gateway->options->connections_max,
        has_any ? ", or give fewer" : "");
    return has_any ? SERVE_CONFIG : SERVE_SYSTEM;
}

static enum serve_result open_all(struct gateway *gateway) {
    const struct serve_options *options = gateway->options;
    char why[512];
    signal(SIGPIPE, SIG_IGN);
    log_options = options;
    event_set_log_callback(on_log);
    cache_open(&gateway->texts, TEXTS_MAX);
    const enum serve_result room = make_room(gateway);
    if (room != SERVE_OK) return room;
    if (!make_run_id(gateway) || !open_loop(gateway) || !workers_open(gateway)) {
        options->say("cannot begin: %s", strerror(errno));
        return SERVE_SYSTEM;
    }
    if (options->password_file != NULL &&
        (gateway->password = password_read(options->password_file, why, sizeof why)) == NULL) {
        options->say("%s", why);
        return SERVE_CONFIG;
    }
    password_check_secrecy(options);
    if ((options->metrics == NULL || metrics_open(gateway, options->metrics)) &&
        listen_open(gateway))
        return SERVE_OK;
    return gateway->address_is_taken ? SERVE_SYSTEM : SERVE_CONFIG;
}

enum serve_result serve_run(const struct serve_options *options) {
    struct gateway gateway = {.options = options,
                              .client = options->client,
                              .began_ns = gateway_now_ns(),
                              .may_turn =
                                  redlock_client_mode(options->client) == REDLOCK_MODE_AUTO};
    struct gateway_parts parts = {0};
    gateway_join(&gateway, &parts);
    enum serve_result result = open_all(&gateway);
    if (result == SERVE_OK) {
        /* Clients that connect at once find the nodes connected. Nodes that cannot be reached do
         * not delay the start for long. */
        redlock_client_wait_ready(gateway.client, options->connect_timeout_ms);
        notify_manager("READY=1");
        char names[1024];
        if (options->ready != NULL)
            options->ready(options->ready_context, listen_names(&gateway, names, sizeof names));
        if (options->verbose) options->say("ready");
        serve(&gateway);
    }
    close_all(&gateway);
    event_set_log_callback(NULL);
    log_options = NULL;
    return result;
}
