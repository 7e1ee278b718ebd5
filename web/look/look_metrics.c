/* SPDX-License-Identifier: BSD-2-Clause */
#include "look_metrics.h"

#include <event2/buffer.h>
#include <redlock/metrics.h>

#include "http/exposition.h"
#include "words.h"

/* ---- nodes ---- */

/* A value that is not known has no series. */
static void node_value(struct evbuffer *out, const char *name, const struct exposition_node *node,
                       double value, bool is_known) {
    if (is_known) evbuffer_add_printf(out, "%s{node=\"%s\"} %.9g\n", name, node->url, value);
}

static void write_nodes(const struct top_model *model, struct evbuffer *out) {
    static const char trips[] = "redlock_node_round_trip_seconds",
                      waits[] = "redlock_node_recovering_seconds",
                      recoveries[] = "redlock_node_recoveries_total",
                      rates[] = "redlock_node_clock_rate", sight[] = "redlock_node_locks_visible";
    struct exposition_node nodes[REDLOCK_NODES_MAX];
    const size_t count = model->nodes_count;
    for (size_t i = 0; i < count; i++) {
        exposition_escape(model->nodes[i].url, nodes[i].url, sizeof nodes[i].url);
        nodes[i].verdict = model->nodes[i].verdict;
    }
    exposition_nodes(out, nodes, count);
    exposition_head(out, trips, "gauge", "Median of the last round trips to the node.");
    for (size_t i = 0; i < count; i++) {
        const int64_t us = top_node_trip_us(&model->nodes[i]);
        node_value(out, trips, &nodes[i], (double)us / 1e6, us >= 0);
    }
    exposition_head(out, waits, "gauge", "How long until the node votes again, if it recovers.");
    for (size_t i = 0; i < count; i++) {
        const int64_t ms = model->nodes[i].recovering_ms;
        node_value(out, waits, &nodes[i], (double)ms / 1e3, ms >= 0);
    }
    exposition_head(out, recoveries, "counter", "Recoveries of the node that looks have seen.");
    for (size_t i = 0; i < count; i++)
        node_value(out, recoveries, &nodes[i], (double)model->nodes[i].recoveries, true);
    exposition_head(out, rates, "gauge",
                    "Rate of the node's wall clock against this machine's clock; 1: the same.");
    for (size_t i = 0; i < count; i++) {
        const double rate = top_node_clock_rate(&model->nodes[i]);
        node_value(out, rates, &nodes[i], rate, rate > 0);
    }
    exposition_head(out, sight, "gauge", "1: this user may see the locks on the node.");
    for (size_t i = 0; i < count; i++)
        node_value(out, sight, &nodes[i], model->nodes[i].unlisted[0] == '\0', true);
}

/* ---- the quorum ---- */

static void write_quorum(const struct top_model *model, struct evbuffer *out) {
    const struct redlock_quorum_status *status = &model->quorum.status;
    exposition_number(out, "redlock_quorum_up", "gauge", !top_lacks_quorum(model),
                      "1: so many nodes vote that locks can be taken.");
    exposition_number(out, "redlock_quorum_votes_needed", "gauge", top_votes_needed(model),
                      "Votes that a lock needs.");
    if (!status->known) return;
    exposition_head(out, "redlock_quorum_info", "gauge", "The id of the guarded quorum.");
    exposition_labelled(out, "redlock_quorum_info", "quorum", status->id, 1);
    exposition_number(out, "redlock_quorum_members", "gauge", status->members,
                      "Members of the quorum.");
    exposition_number(out, "redlock_quorum_members_intact", "gauge", status->intact,
                      "Members that vote.");
    exposition_number(out, "redlock_quorum_epoch", "gauge", status->epoch,
                      "Number of the membership.");
    exposition_number(out, "redlock_quorum_settled", "gauge", status->settled != 0,
                      "1: no change of the quorum is under way.");
    exposition_real(out, "redlock_quorum_ttl_max_seconds", "gauge",
                    (double)status->ttl_ms_max / 1e3, "The longest TTL of a lock.");
}

/* ---- locks ---- */

enum { HELD, SHARED, SPLIT, UNKNOWN, FREE, STATES };

struct totals {
    uint64_t states[STATES], waited_for, waiters;
    int64_t oldest_ms;
};

static int state_of(const struct top_row *row) {
    switch (row->verdict) {
    case MAJORITY_HELD: return row->shared ? SHARED : HELD;
    case MAJORITY_SPLIT: return SPLIT;
    case MAJORITY_UNKNOWN: return UNKNOWN;
    default: return FREE; /* only waited for */
    }
}

static struct totals add_up(const struct top_model *model) {
    struct totals totals = {{0}, 0, 0, 0};
    for (size_t i = 0; i < model->rows_count; i++) {
        const struct top_row *row = model->rows[i];
        if (!top_row_is_shown(row)) continue;
        totals.states[state_of(row)]++;
        if (row->waiters <= 0) continue;
        totals.waited_for++;
        totals.waiters += (uint64_t)row->waiters;
        if (row->oldest_ms > totals.oldest_ms) totals.oldest_ms = row->oldest_ms;
    }
    return totals;
}

/* A user that may not see the locks shows none, rather than zero. */
static void write_locks(const struct top_model *model, struct evbuffer *out) {
    static const char *const states[STATES] = {[HELD] = "held",
                                               [SHARED] = "shared",
                                               [SPLIT] = "split",
                                               [UNKNOWN] = "unknown",
                                               [FREE] = "free"};
    const struct totals totals = add_up(model);
    if (top_lacks_sight(model)) return;
    exposition_head(out, "redlock_locks", "gauge",
                    "Locks that are held or waited for, by what a majority of the nodes says.");
    for (int i = 0; i < STATES; i++)
        exposition_labelled(out, "redlock_locks", "state", states[i], totals.states[i]);
    exposition_number(out, "redlock_locks_waited_for", "gauge", totals.waited_for,
                      "Locks that somebody waits for.");
    exposition_number(out, "redlock_lock_waiters", "gauge", totals.waiters,
                      "Clients that wait for a lock.");
    exposition_real(out, "redlock_lock_oldest_wait_seconds", "gauge",
                    (double)totals.oldest_ms / 1e3, "How long the first waiter has waited.");
    exposition_number(out, "redlock_locks_complete", "gauge",
                      model->keys >= 0 && !model->left_out && !model->left_out_before,
                      "1: all locks are counted; 0: there may be more.");
    exposition_number(out, "redlock_lock_holders_changed_total", "counter", model->hand_overs_total,
                      "Changes of a lock's holder that looks have seen.");
    exposition_number(out, "redlock_lock_splits_seen_total", "counter", model->splits_total,
                      "Locks that a look found held by no majority.");
}

void look_metrics_write(const struct top_observer *observer, struct evbuffer *out) {
    const struct top_model *model = &observer->model;
    struct redlock_stats stats = {.size = sizeof stats};
    exposition_head(out, "redlock_exporter_info", "gauge",
                    "The version, and the mode of the nodes.");
    evbuffer_add_printf(out, "redlock_exporter_info{version=\"%s\",mode=\"%s\"} 1\n",
                        redlock_version(), mode_name(model->quorum.mode));
    write_nodes(model, out);
    write_quorum(model, out);
    write_locks(model, out);
    if (redlock_client_stats(observer->session.client, &stats) == REDLOCK_OK)
        exposition_number(out, "redlock_reconnects_total", "counter", stats.reconnects,
                          "Reconnections to nodes.");
}
