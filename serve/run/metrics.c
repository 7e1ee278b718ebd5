/* SPDX-License-Identifier: BSD-2-Clause */
#include "loop/metrics.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <event2/buffer.h>
#include <redlock/metrics.h>

#include "loop/gateway.h"
#include "key/key.h"
#include "http/exposition.h"
#include "metrics_page.h"

/* ---- the page ---- */

static const char *const outcomes[METRIC_OUTCOMES] = {[METRIC_DONE] = "done",
                                                      [METRIC_NOT] = "not",
                                                      [METRIC_NO_QUORUM] = "no_quorum",
                                                      [METRIC_FAILED] = "failed"};

static void write_step(struct evbuffer *out, const char *name, const uint64_t *counts,
                       const char *done, const char * not, const char *help) {
    exposition_head(out, name, "counter", help);
    for (int i = 0; i < METRIC_OUTCOMES; i++) {
        const char *outcome = i == METRIC_DONE ? done : i == METRIC_NOT ? not : outcomes[i];
        exposition_labelled(out, name, "outcome", outcome, counts[i]);
    }
}

static void write_renewals(const struct metrics *metrics, struct evbuffer *out) {
    static const char ended[] = "redlock_serve_renewals_ended_total";
    static const char *const reasons[RENEWAL_ENDS] = {[RENEWAL_LOST] = "lost",
                                                      [RENEWAL_NO_QUORUM] = "no_quorum",
                                                      [RENEWAL_SILENT] = "silent",
                                                      [RENEWAL_MAX] = "max"};
    exposition_number(out, "redlock_serve_locks_renewed", "gauge", metrics->renewed,
                      "Locks that are renewed for a client now.");
    exposition_head(out, ended, "counter",
                    "Renewed locks whose renewal ended without a release, by reason.");
    for (int i = 0; i < RENEWAL_ENDS; i++)
        exposition_labelled(out, ended, "reason", reasons[i], metrics->renewals_ended[i]);
}

static void write_locks(const struct gateway *gateway, struct evbuffer *out) {
    const struct metrics *metrics = &gateway->metrics;
    static const char *const steps[METRIC_STEPS] = {[METRIC_PEEK] = "step=\"look\"",
                                                    [METRIC_TAKE] = "step=\"take\"",
                                                    [METRIC_EXTEND] = "step=\"extend\"",
                                                    [METRIC_RELEASE] = "step=\"release\""};
    exposition_number(out, "redlock_serve_locks_held", "gauge",
                      gateway->keys->kept - gateway->keys->lost,
                      "Locks taken or extended here and not ended yet.");
    exposition_number(out, "redlock_serve_locks_bytes", "gauge", gateway->keys->kept_bytes,
                      "Memory that these take, about.");
    exposition_number(out, "redlock_serve_locks_bytes_max", "gauge",
                      gateway->options->lock_bytes_max, "Memory that they may take.");
    exposition_number(out, "redlock_serve_locks_not_remembered_total", "counter",
                      gateway->keys->not_kept, "Locks that did not fit into this memory.");
    write_step(out, "redlock_serve_acquisitions_total", metrics->steps[METRIC_TAKE], "taken",
               "held", "Tries to take a lock.");
    write_step(out, "redlock_serve_extensions_total", metrics->steps[METRIC_EXTEND], "extended",
               "gone", "Tries to extend a lock.");
    write_step(out, "redlock_serve_releases_total", metrics->steps[METRIC_RELEASE], "released",
               "gone", "Tries to release a lock.");
    exposition_number(out, "redlock_serve_expired_total", "counter", metrics->expired,
                      "Locks of this gateway that expired.");
    write_renewals(metrics, out);
    exposition_head(out, "redlock_serve_wait_seconds", "histogram",
                    "How long a request waited for others on the same key.");
    durations_write(&metrics->waits, "redlock_serve_wait_seconds", "", out);
    exposition_head(out, "redlock_serve_round_trip_seconds", "histogram",
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
    exposition_number(out, "redlock_serve_connections", "gauge", gateway->connections_count,
                      "Clients connected.");
    exposition_number(out, "redlock_serve_connections_max", "gauge",
                      gateway->options->connections_max, "Clients that may be connected.");
    exposition_number(out, "redlock_serve_client_bytes", "gauge", gateway->client_bytes,
                      "Memory that clients' requests, answers and subscriptions take, about.");
    exposition_number(out, "redlock_serve_client_bytes_max", "gauge",
                      gateway->options->client_bytes_max, "Memory that they may take.");
    exposition_number(out, "redlock_serve_connections_total", "counter", metrics->connections,
                      "Clients that have connected.");
    exposition_number(out, "redlock_serve_requests_total", "counter", metrics->requests,
                      "Requests of all kinds.");
    exposition_number(out, "redlock_serve_notifications_total", "counter", metrics->notifications,
                      "Messages to clients that subscribed.");
    exposition_head(out, refusals, "counter", "Requests and clients that were refused, by reason.");
    for (int i = 0; i < REFUSALS; i++)
        exposition_labelled(out, refusals, "reason", reasons[i], metrics->refusals[i]);
}

static void write_scripts(const struct gateway *gateway, struct evbuffer *out) {
    const struct workers_count *count = &gateway->workers.count;
    static const char runs[] = "redlock_serve_scripts_total",
                      lost[] = "redlock_serve_script_processes_lost_total";
    exposition_head(out, runs, "counter", "Scripts run, by heart or by a process.");
    exposition_labelled(out, runs, "by", "heart", count->known);
    exposition_labelled(out, runs, "by", "process", count->runs);
    exposition_number(out, "redlock_serve_script_processes", "gauge",
                      workers_running(&gateway->workers), "Processes that run scripts.");
    exposition_head(out, lost, "counter",
                    "Processes that a script kept for too long, or that ended by themselves.");
    exposition_labelled(out, lost, "reason", "time", count->overdue);
    exposition_labelled(out, lost, "reason", "itself", count->died);
}

/* The URL is without its password. */
static void write_nodes(const struct gateway *gateway, struct evbuffer *out) {
    struct exposition_node nodes[REDLOCK_NODES_MAX];
    size_t count = 0;
    for (size_t i = 0; i < redlock_client_nodes(gateway->client); i++) {
        struct redlock_node_status status = {.size = sizeof status};
        if (redlock_client_node(gateway->client, i, &status) != REDLOCK_OK) continue;
        exposition_escape(status.url, nodes[count].url, sizeof nodes[count].url);
        nodes[count++].verdict = status.verdict;
    }
    exposition_nodes(out, nodes, count);
}

/* The library's bounds are two for each power of two; the page has every other one. */
static void histogram_write(struct evbuffer *out, const char *name, const char *help,
                            const struct redlock_histogram *histogram) {
    uint64_t count = 0;
    exposition_head(out, name, "histogram", help);
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
    exposition_head(out, votes, "counter", "Votes of nodes on tries to take a lock.");
    exposition_labelled(out, votes, "vote", "granted", stats.votes_granted);
    exposition_labelled(out, votes, "vote", "denied", stats.votes_denied);
    exposition_labelled(out, votes, "vote", "lost", stats.votes_lost);
    exposition_number(out, "redlock_splits_total", "counter", stats.splits,
                      "Tries that failed on others' votes although some nodes granted.");
    exposition_number(out, "redlock_reconnects_total", "counter", stats.reconnects,
                      "Reconnections to nodes.");
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
    const struct http *http = &gateway->metrics.http;
    exposition_head(out, "redlock_serve_info", "gauge",
                    "The version and the mode of this gateway.");
    evbuffer_add_printf(out, "redlock_serve_info{version=\"%s\",mode=\"%s\"} 1\n",
                        redlock_version(), gateway_is_guarded(gateway) ? "guarded" : "classic");
    write_locks(gateway, out);
    write_clients(gateway, out);
    write_scripts(gateway, out);
    exposition_number(out, "redlock_serve_metrics_connections", "gauge", http->connections,
                      "HTTP connections to this page.");
    exposition_number(
        out, "redlock_serve_metrics_cut_off_total", "counter", http->cut_off,
        "HTTP connections to this page that ended without an answer: too slow, or too many.");
    write_nodes(gateway, out);
    write_library(gateway, out);
}
