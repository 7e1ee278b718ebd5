/* SPDX-License-Identifier: BSD-2-Clause */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "explain/lock_json.h"
#include "explain/votes.h"
#include "process/message.h"
#include "text.h"
#include "words.h"

static json_t *number_json(int64_t number, bool known) {
    return known ? json_integer(number) : json_null();
}

static json_t *node_json(const struct top_node *node) {
    const bool votes = node->verdict == REDLOCK_VERDICT_GRANTED;
    const int64_t trip_us = top_node_trip_us(node);
    json_t *reason = votes ? json_null() : bytes_json(node->reason, strlen(node->reason));
    return json_pack("{s:s, s:b, s:s, s:o, s:o, s:o, s:s, s:o, s:o}", "url", node->url, "votes",
                     votes, "verdict", verdict_name(node->verdict), "reason", reason,
                     "recovering_ms", number_json(node->recovering_ms, node->recovering_ms >= 0),
                     "round_trip_us", number_json(trip_us, trip_us >= 0), "version", node->version,
                     "reconnects", number_json(node->reconnects, node->reconnects >= 0), "unlisted",
                     node->unlisted[0] != '\0' ? json_string(node->unlisted) : json_null());
}

static json_t *quorum_json(const struct top_quorum *quorum) {
    const struct redlock_quorum_status *status = &quorum->status;
    if (!status->known) return json_null();
    return json_pack("{s:s, s:I, s:b, s:I, s:I, s:I, s:I}", "id", status->id, "epoch",
                     (json_int_t)status->epoch, "settled", status->settled, "ttl_max_ms",
                     (json_int_t)status->ttl_ms_max, "members", (json_int_t)status->members,
                     "intact", (json_int_t)status->intact, "votes_needed",
                     (json_int_t)status->votes_needed);
}

static void add_token(json_t *object, const struct top_row *row) {
    char head[TOKEN_SHOWN_MAX * 4 + 8];
    printable(head, sizeof head - 4, row->head, row->head_bytes);
    strcat(head, "…");
    json_object_set_new(object, "token", row->shared ? json_null() : json_string(head));
}

static void add_holder(json_t *object, const struct top_model *model, const struct top_row *row,
                       bool tokens) {
    json_object_set_new(object, "kind", json_string(row->shared ? "shared" : "exclusive"));
    if (row->shared)
        json_object_set_new(object, "readers_count", number_json(row->readers, row->readers >= 0));
    if (row->leads) json_object_set_new(object, "leads", json_true());
    json_object_set_new(object, "owner",
                        row->owner_bytes > 0 ? bytes_json(row->owner, row->owner_bytes)
                                             : json_null());
    if (tokens) add_token(object, row);
    json_object_set_new(object, "age_ms", json_integer(top_row_age_ms(model, row)));
    json_object_set_new(object, "age_is_least", json_boolean(row->is_older));
    json_object_set_new(object, "remaining_ms",
                        number_json(row->remaining_ms, row->remaining_ms >= 0));
    json_object_set_new(object, "nodes", json_integer((json_int_t)row->votes));
}

static json_t *row_json(const struct top_model *model, const struct top_row *row, bool tokens) {
    json_t *object = json_object();
    json_object_set_new(object, "resource", bytes_json(row->resource, row->bytes));
    json_object_set_new(object, "verdict", json_string(majority_name(row->verdict)));
    if (row->verdict == MAJORITY_HELD) add_holder(object, model, row, tokens);
    json_object_set_new(object, "waiters", number_json(row->waiters, row->waiters >= 0));
    json_object_set_new(object, "oldest_waiter_ms", number_json(row->oldest_ms, row->waiters > 0));
    return object;
}

static json_t *rates_json(const struct top_model *model) {
    const struct top_rates rates = top_model_rates(model);
    if (rates.over_ms == 0) return json_null();
    return json_pack("{s:I, s:f, s:f}", "over_ms", (json_int_t)rates.over_ms, "hand_overs",
                     rates.hand_overs, "split_votes", rates.splits);
}

/* NULL: no memory. */
static json_t *look_json(const struct top_observer *observer, bool tokens) {
    const struct top_model *model = &observer->model;
    const struct top_row *rows[TOP_ROWS_MAX];
    const size_t count = top_model_sorted(model, TOP_BY_WAITERS, false, rows);
    json_t *nodes = json_array(), *locks = json_array();
    for (size_t i = 0; i < model->nodes_count; i++)
        json_array_append_new(nodes, node_json(&model->nodes[i]));
    for (size_t i = 0; i < count; i++)
        json_array_append_new(locks, row_json(model, rows[i], tokens));
    return json_pack("{s:o, s:s, s:o, s:o, s:o, s:b, s:o, s:o, s:I, s:I}", "time", time_json(),
                     "mode", mode_name(model->quorum.mode), "quorum", quorum_json(&model->quorum),
                     "nodes", nodes, "locks", locks, "locks_left_out",
                     model->left_out || model->left_out_before, "keys",
                     number_json(model->keys, model->keys >= 0), "rates_per_s", rates_json(model),
                     "hand_overs_total", (json_int_t)model->hand_overs_total, "split_votes_total",
                     (json_int_t)model->splits_total);
}

char *top_json(const struct top_observer *observer) {
    json_t *look = look_json(observer, false);
    const struct top_model *model = &observer->model;
    char summary[1000], totals[1000], share[80];
    top_quorum_text(model, summary, sizeof summary);
    top_rates_text(model, totals, sizeof totals);
    top_share_text(model, json_array_size(json_object_get(look, "locks")), share, sizeof share);
    json_object_set_new(look, "summary", json_string(summary));
    json_object_set_new(look, "quorum_up", json_boolean(!top_lacks_quorum(model)));
    json_object_set_new(look, "totals", json_string(totals));
    json_object_set_new(look, "share", json_string(share));
    char *text = json_dumps(look, JSON_COMPACT | JSON_REAL_PRECISION(6));
    json_decref(look);
    return text;
}

bool top_print_json(const struct top_observer *observer) {
    json_t *look = look_json(observer, true);
    if (look == NULL) return false;
    json_dumpf(look, stdout, JSON_COMPACT | JSON_REAL_PRECISION(6));
    putchar('\n');
    json_decref(look);
    return true;
}
