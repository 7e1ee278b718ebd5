/* SPDX-License-Identifier: BSD-2-Clause */
#include "loop/metrics.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <event2/buffer.h>
#include <redlock/metrics.h>

#include "loop/gateway.h"
#include "key/key.h"
#include "metrics_page.h"

/* ---- the page ---- */

static void head(struct evbuffer *out, const char *name, const char *type, const char *help) {
    evbuffer_add_printf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void number(struct evbuffer *out, const char *name, const char *type, uint64_t value,
                   const char *help) {
    head(out, name, type, help);
    evbuffer_add_printf(out, "%s %" PRIu64 "\n", name, value);
}

static void labelled(struct evbuffer *out, const char *name, const char *label, const char *text,
                     uint64_t value) {
    evbuffer_add_printf(out, "%s{%s=\"%s\"} %" PRIu64 "\n", name, label, text, value);
}

/* The escapes that the format requires: a URL could hold any byte. */
static void escape(const char *text, char *out, size_t size) {
    size_t used = 0;
    for (; *text != '\0' && used + 3 < size; text++) {
        if (*text == '"' || *text == '\\' || *text == '\n') out[used++] = '\\';
        out[used++] = *text == '\n' ? 'n' : *text;
    }
    out[used] = '\0';
}

static const char *const outcomes[METRIC_OUTCOMES] = {[METRIC_DONE] = "done",
                                                      [METRIC_NOT] = "not",
                                                      [METRIC_NO_QUORUM] = "no_quorum",
                                                      [METRIC_FAILED] = "failed"};

static void write_step(struct evbuffer *out, const char *name, const uint64_t *counts,
                       const char *done, const char * not, const char *help) {
    head(out, name, "counter", help);
    for (int i = 0; i < METRIC_OUTCOMES; i++) {
        const char *outcome = i == METRIC_DONE ? done : i == METRIC_NOT ? not : outcomes[i];
        labelled(out, name, "outcome", outcome, counts[i]);
    }
}

static void write_locks(const struct gateway *gateway, struct evbuffer *out) {
    const struct metrics *metrics = &gateway->metrics;
    static const char *const steps[METRIC_STEPS] = {[METRIC_PEEK] = "step=\"look\"",
                                                    [METRIC_TAKE] = "step=\"take\"",
                                                    [METRIC_EXTEND] = "step=\"extend\"",
                                                    [METRIC_RELEASE] = "step=\"release\""};
    number(out, "redlock_serve_locks_held", "gauge", gateway->keys->kept - gateway->keys->lost,
           "Locks taken or extended here and not ended yet.");
    number(out, "redlock_serve_locks_bytes", "gauge", gateway->keys->kept_bytes,
           "Memory that these take, about.");
    number(out, "redlock_serve_locks_bytes_max", "gauge", gateway->options->lock_bytes_max,
           "Memory that they may take.");
    number(out, "redlock_serve_locks_not_remembered_total", "counter", gateway->keys->not_kept,
           "Locks that did not fit into this memory.");
    write_step(out, "redlock_serve_acquisitions_total", metrics->steps[METRIC_TAKE], "taken",
               "held", "Tries to take a lock.");
    write_step(out, "redlock_serve_extensions_total", metrics->steps[METRIC_EXTEND], "extended",
               "gone", "Tries to extend a lock.");
    write_step(out, "redlock_serve_releases_total", metrics->steps[METRIC_RELEASE], "released",
               "gone", "Tries to release a lock.");
    number(out, "redlock_serve_expired_total", "counter", metrics->expired,
           "Locks of this gateway that expired.");
    head(out, "redlock_serve_wait_seconds", "histogram",
         "How long a request waited for others on the same key.");
    durations_write(&metrics->waits, "redlock_serve_wait_seconds", "", out);
    head(out, "redlock_serve_round_trip_seconds", "histogram",
         "How long a majority of the nodes took.");
    for (int i = 0; i < METRIC_STEPS; i++)
        durations_write(&metrics->round_trips[i], "redlock_serve_round_trip_seconds", steps[i],
                        out);
}

static void write_clients(const struct gateway *gateway, struct evbuffer *out) {
    const struct metrics *metrics = &gateway->metrics;
    static const char refusals[] = "redlock_serve_refusals_total";
    static const char *const reasons[REFUSALS] = {[REFUSED_CONNECTION] = "connection",
                                                  [REFUSED_PASSWORD] = "password",
                                                  [REFUSED_REQUEST] = "request",
                                                  [REFUSED_PROTOCOL] = "protocol",
                                                  [REFUSED_SLOW] = "slow",
                                                  [REFUSED_MEMORY] = "memory",
                                                  [REFUSED_NOTIFICATIONS] = "notifications"};
    number(out, "redlock_serve_connections", "gauge", gateway->connections_count,
           "Clients connected.");
    number(out, "redlock_serve_connections_max", "gauge", gateway->options->connections_max,
           "Clients that may be connected.");
    number(out, "redlock_serve_client_bytes", "gauge", gateway->client_bytes,
           "Memory that clients' requests, answers and subscriptions take, about.");
    number(out, "redlock_serve_client_bytes_max", "gauge", gateway->options->client_bytes_max,
           "Memory that they may take.");
    number(out, "redlock_serve_connections_total", "counter", metrics->connections,
           "Clients that have connected.");
    number(out, "redlock_serve_requests_total", "counter", metrics->requests,
           "Requests of all kinds.");
    number(out, "redlock_serve_notifications_total", "counter", metrics->notifications,
           "Messages to clients that subscribed.");
    head(out, refusals, "counter", "Requests and clients that were refused, by reason.");
    for (int i = 0; i < REFUSALS; i++)
        labelled(out, refusals, "reason", reasons[i], metrics->refusals[i]);
}

static void write_scripts(const struct gateway *gateway, struct evbuffer *out) {
    const struct workers_count *count = &gateway->workers.count;
    static const char runs[] = "redlock_serve_scripts_total",
                      lost[] = "redlock_serve_script_processes_lost_total";
    head(out, runs, "counter", "Scripts run, by heart or by a process.");
    labelled(out, runs, "by", "heart", count->known);
    labelled(out, runs, "by", "process", count->runs);
    number(out, "redlock_serve_script_processes", "gauge", workers_running(&gateway->workers),
           "Processes that run scripts.");
    head(out, lost, "counter",
         "Processes that a script kept for too long, or that ended by themselves.");
    labelled(out, lost, "reason", "time", count->overdue);
    labelled(out, lost, "reason", "itself", count->died);
}

/* Both series for each node; the URL is without its password. */
static void write_nodes(const struct gateway *gateway, struct evbuffer *out) {
    for (int series = 0; series < 2; series++) {
        if (series == 0)
            head(out, "redlock_node_up", "gauge", "1: the node is connected and votes.");
        else
            head(out, "redlock_node_verdict", "gauge",
                 "The number of the node's last verdict, with its meaning; 1 is good.");
        for (size_t i = 0; i < redlock_client_nodes(gateway->client); i++) {
            struct redlock_node_status status = {.size = sizeof status};
            char url[1024];
            if (redlock_client_node(gateway->client, i, &status) != REDLOCK_OK) continue;
            escape(status.url, url, sizeof url);
            if (series == 0)
                evbuffer_add_printf(out, "redlock_node_up{node=\"%s\"} %d\n", url,
                                    status.verdict == REDLOCK_VERDICT_GRANTED);
            else
                evbuffer_add_printf(out, "redlock_node_verdict{node=\"%s\",verdict=\"%s\"} %d\n",
                                    url, redlock_verdict_text(status.verdict), status.verdict);
        }
    }
}

/* The library's bounds are two for each power of two; the page has every other one. */
static void histogram_write(struct evbuffer *out, const char *name, const char *help,
                            const struct redlock_histogram *histogram) {
    uint64_t count = 0;
    head(out, name, "histogram", help);
    for (size_t i = 0; i < REDLOCK_HISTOGRAM_BUCKETS - 1; i++) {
        count += histogram->buckets[i];
        if (i % 2 == 0)
            evbuffer_add_printf(out, "%s_bucket{le=\"%.12g\"} %" PRIu64 "\n", name,
                                (double)redlock_histogram_bound_ns(i) / 1e9, count);
    }
    evbuffer_add_printf(out, "%s_bucket{le=\"+Inf\"} %" PRIu64 "\n", name, histogram->count);
    evbuffer_add_printf(out, "%s_sum %.9f\n", name, (double)histogram->sum_ns / 1e9);
    evbuffer_add_printf(out, "%s_count %" PRIu64 "\n", name, histogram->count);
}

static void write_library(const struct gateway *gateway, struct evbuffer *out) {
    static const char votes[] = "redlock_votes_total";
    struct redlock_stats stats = {.size = sizeof stats};
    if (redlock_client_stats(gateway->client, &stats) != REDLOCK_OK) return;
    head(out, votes, "counter", "Votes of nodes on tries to take a lock.");
    labelled(out, votes, "vote", "granted", stats.votes_granted);
    labelled(out, votes, "vote", "denied", stats.votes_denied);
    labelled(out, votes, "vote", "lost", stats.votes_lost);
    number(out, "redlock_splits_total", "counter", stats.splits,
           "Tries that failed on others' votes although some nodes granted.");
    number(out, "redlock_reconnects_total", "counter", stats.reconnects, "Reconnections to nodes.");
    /* This client never waits for a holder, so it has no hand-overs. */
    histogram_write(out, "redlock_acquire_seconds", "How long a lock took that was taken.",
                    &stats.waited);
    histogram_write(out, "redlock_hold_seconds",
                    "How long a lock was held, until its release or its end.", &stats.held);
    histogram_write(out, "redlock_validity_left_seconds",
                    "How much of its time a lock had left when it was released.",
                    &stats.validity_left);
}

void metrics_write(const struct gateway *gateway, struct evbuffer *out) {
    const struct metrics_http *http = &gateway->metrics.http;
    head(out, "redlock_serve_info", "gauge", "The version and the mode of this gateway.");
    evbuffer_add_printf(out, "redlock_serve_info{version=\"%s\",mode=\"%s\"} 1\n",
                        redlock_version(), gateway_is_guarded(gateway) ? "guarded" : "classic");
    write_locks(gateway, out);
    write_clients(gateway, out);
    write_scripts(gateway, out);
    number(out, "redlock_serve_metrics_connections", "gauge", http->connections,
           "HTTP connections to this page.");
    number(out, "redlock_serve_metrics_cut_off_total", "counter", http->cut_off,
           "HTTP connections to this page that ended without an answer: too slow, or too many.");
    write_nodes(gateway, out);
    write_library(gateway, out);
}
