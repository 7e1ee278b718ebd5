/* SPDX-License-Identifier: BSD-2-Clause */
#include "model.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "process/boottime.h"
#include "process/message.h"

/* A lock that was free for less than this may be one that changes hands between two looks. */
#define IDLE_KEPT (INT64_C(10000) * MS)
/* What one answer of a walk should weigh. */
#define STEP_BYTES (128 * 1024)

enum { EFFORT_FIRST = 50, EFFORT_LEAST = 10, EFFORT_MOST = 250 };

/* FNV-1a; never 0. */
static uint64_t fingerprint(const void *bytes, size_t count) {
    const unsigned char *at = bytes;
    uint64_t hash = UINT64_C(14695981039346656037);
    for (size_t i = 0; i < count; i++) hash = (hash ^ at[i]) * UINT64_C(1099511628211);
    return hash == 0 ? 1 : hash;
}

static void begin_walk(struct top_model *model) {
    redlock_walk_init(&model->walk);
    model->walk.leaders = 1;
}

void top_model_init(struct top_model *model, size_t nodes, size_t rows_max) {
    memset(model, 0, sizeof *model);
    model->nodes_count = nodes;
    model->rows_max = rows_max;
    model->keys = -1;
    begin_walk(model);
    for (size_t i = 0; i < nodes; i++) {
        model->nodes[i].recovering_ms = -1;
        model->nodes[i].reconnects = -1;
    }
}

/* ---- nodes ---- */

void top_model_trip(struct top_model *model, size_t node, int64_t trip_us) {
    struct top_node *at = &model->nodes[node];
    if (trip_us < 0) {
        at->trips = at->clocks_count = 0;
        return;
    }
    at->trips_us[at->trips++ % TOP_TRIPS] = trip_us;
}

static int by_number(const void *a, const void *b) {
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

int64_t top_node_trip_us(const struct top_node *node) {
    int64_t sorted[TOP_TRIPS];
    const size_t count = node->trips < TOP_TRIPS ? node->trips : TOP_TRIPS;
    if (count == 0) return -1;
    memcpy(sorted, node->trips_us, count * sizeof sorted[0]);
    qsort(sorted, count, sizeof sorted[0], by_number);
    return sorted[(count - 1) / 2];
}

void top_model_clock(struct top_model *model, size_t node, int64_t at_ns, int64_t clock_us) {
    struct top_node *to = &model->nodes[node];
    to->clocks[to->clocks_count++ % TOP_TRIPS] = (struct top_clock){at_ns, clock_us};
}

double top_node_clock_rate(const struct top_node *node) {
    const size_t count = node->clocks_count < TOP_TRIPS ? node->clocks_count : TOP_TRIPS;
    if (count < 2) return 0;
    const struct top_clock *first = &node->clocks[(node->clocks_count - count) % TOP_TRIPS],
                           *last = &node->clocks[(node->clocks_count - 1) % TOP_TRIPS];
    if (last->at_ns <= first->at_ns) return 0;
    return (double)(last->clock_us - first->clock_us) * 1000 / (double)(last->at_ns - first->at_ns);
}

size_t top_model_voters(const struct top_model *model) {
    size_t voters = 0;
    for (size_t i = 0; i < model->nodes_count; i++)
        voters += model->nodes[i].verdict == REDLOCK_VERDICT_GRANTED;
    return voters;
}

/* ---- rows ---- */

static struct top_row **chain_of(const struct top_model *model, const void *resource,
                                 size_t bytes) {
    const size_t chains = sizeof model->chains / sizeof model->chains[0];
    return (struct top_row **)&model->chains[fingerprint(resource, bytes) % chains];
}

struct top_row *top_model_row(const struct top_model *model, const void *resource, size_t bytes) {
    struct top_row *row = *chain_of(model, resource, bytes);
    while (row != NULL && (row->bytes != bytes || memcmp(row->resource, resource, bytes) != 0))
        row = row->next;
    return row;
}

static void forget(struct top_model *model, size_t at) {
    struct top_row *row = model->rows[at], **link = chain_of(model, row->resource, row->bytes);
    while (*link != row) link = &(*link)->next;
    *link = row->next;
    model->bytes -= row->bytes;
    model->rows[at] = model->rows[--model->rows_count];
    model->is_full = false;
    free(row->resource);
    free(row);
}

void top_model_free(struct top_model *model) {
    while (model->rows_count > 0) forget(model, model->rows_count - 1);
}

static struct top_row *add(struct top_model *model, const void *resource, size_t bytes) {
    struct top_row *row = calloc(1, sizeof *row);
    void *copy = malloc(bytes);
    if (row == NULL || copy == NULL) {
        free(row);
        free(copy);
        return NULL;
    }
    memcpy(copy, resource, bytes);
    row->resource = copy;
    row->bytes = bytes;
    row->waiters = -1;
    struct top_row **chain = chain_of(model, resource, bytes);
    row->next = *chain;
    *chain = row;
    model->rows[model->rows_count++] = row;
    model->bytes += bytes;
    return row;
}

static bool has_room(const struct top_model *model, size_t bytes) {
    return model->rows_count < model->rows_max && model->bytes + bytes <= TOP_BYTES_MAX;
}

/* A row that nobody misses goes first; for a waited-for resource also one that is only held. */
static bool make_room(struct top_model *model, size_t bytes, bool is_waited_for) {
    if (has_room(model, bytes)) return true;
    if (model->is_full && !is_waited_for) return false;
    for (size_t i = model->rows_count; i-- > 0 && !has_room(model, bytes);) {
        const struct top_row *row = model->rows[i];
        if (row->known && !top_row_is_shown(row)) forget(model, i);
    }
    for (size_t i = model->rows_count; is_waited_for && i-- > 0 && !has_room(model, bytes);)
        if (model->rows[i]->known && model->rows[i]->waiters <= 0) forget(model, i);
    model->is_full = !has_room(model, bytes);
    return !model->is_full;
}

static bool contains(const unsigned char *in, size_t bytes, const char *what) {
    const size_t length = strlen(what);
    for (size_t at = 0; at + length <= bytes; at++) {
        size_t same = 0;
        while (same < length && tolower(in[at + same]) == tolower((unsigned char)what[same]))
            same++;
        if (same == length) return true;
    }
    return false;
}

bool top_model_found(struct top_model *model, size_t node, int what, const void *resource,
                     size_t bytes) {
    const bool waited_for = what == REDLOCK_KEY_WAITING, leads = what == REDLOCK_KEY_LEADER;
    model->names_of_walk++;
    if (!contains(resource, bytes, model->filter)) return true;
    if (what == REDLOCK_KEY_OTHER) model->keys_of_walk[node]++;
    struct top_row *row = top_model_row(model, resource, bytes);
    if (row != NULL) row->leads |= leads;
    if (row != NULL) return true;
    if (!make_room(model, bytes, waited_for)) {
        model->left_out = true;
        return true;
    }
    row = add(model, resource, bytes);
    if (row != NULL) row->leads = leads;
    return row != NULL;
}

void top_model_filter(struct top_model *model, const char *filter) {
    const size_t length = strnlen(filter, sizeof model->filter - 1);
    memcpy(model->filter, filter, length);
    model->filter[length] = '\0';
    for (size_t i = model->rows_count; i-- > 0;) {
        const struct top_row *row = model->rows[i];
        if (!contains(row->resource, row->bytes, model->filter)) forget(model, i);
    }
    begin_walk(model);
    memset(model->keys_of_walk, 0, sizeof model->keys_of_walk);
    model->names_of_walk = 0;
    model->left_out = model->left_out_before = false;
    model->sees_all = model->passed_all = false;
    model->looks_of_walk = 0;
    model->keys = -1;
}

/* ---- walks ---- */

uint32_t top_model_effort(const struct top_model *model) {
    const uint64_t names = model->names_of_walk;
    if (names == 0) return EFFORT_FIRST;
    const uint64_t effort = STEP_BYTES / (model->walk.bytes / names + 1);
    return effort < EFFORT_LEAST  ? EFFORT_LEAST
           : effort > EFFORT_MOST ? EFFORT_MOST
                                  : (uint32_t)effort;
}

/* A node that does not answer does not hold up the others: its keys are not seen. */
bool top_model_stepped(struct top_model *model) {
    struct redlock_walk *walk = &model->walk;
    const uint32_t all = (UINT32_C(1) << model->nodes_count) - 1;
    if ((walk->ended | walk->failed) != all || walk->ended == 0) return false;
    model->keys = 0;
    for (size_t i = 0; i < model->nodes_count; i++)
        if (model->keys_of_walk[i] > model->keys) model->keys = model->keys_of_walk[i];
    model->left_out_before = model->left_out;
    /* a lock that a majority holds is on one of any majority of nodes */
    model->passed_all = model->looks_of_walk == 0 && !model->left_out &&
                        (size_t)__builtin_popcount(walk->ended) > model->nodes_count / 2;
    model->left_out = false;
    model->walk_complete = true;
    memset(model->keys_of_walk, 0, sizeof model->keys_of_walk);
    model->names_of_walk = 0;
    begin_walk(model);
    return true;
}

/* ---- a look ---- */

static bool holds_token(const struct redlock_view *views, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (views[i].verdict == REDLOCK_VERDICT_GRANTED && is_token(&views[i])) return true;
    return false;
}

/* Raw bytes: the reader makes them printable. */
static void keep_holder(struct top_row *row, const struct redlock_view *view) {
    const unsigned char *owner = owner_of(view, &row->owner_bytes);
    row->head_bytes = token_shown(view);
    memcpy(row->head, view->token, row->head_bytes);
    if (row->owner_bytes > sizeof row->owner) row->owner_bytes = sizeof row->owner;
    if (owner != NULL) memcpy(row->owner, owner, row->owner_bytes);
}

/* `first`: no look has shown this resource before. */
static void saw_holder(struct top_model *model, struct top_row *row,
                       const struct redlock_view *view, bool first, int64_t now_ns) {
    const uint64_t holder = fingerprint(view->token, view->token_bytes);
    if (holder == row->holder) return;
    if (row->holder != 0) model->hand_overs++;
    row->leads &= row->holder == 0; /* else it was the last holder's */
    row->is_older = first && !model->sees_all;
    row->holder = holder;
    row->since_ns = now_ns;
    keep_holder(row, view);
}

static void saw_queues(struct top_row *row, const struct redlock_queue_view *queues, size_t count) {
    row->waiters = -1;
    row->oldest_ms = 0;
    for (size_t i = 0; queues != NULL && i < count; i++) {
        if (queues[i].verdict != REDLOCK_VERDICT_GRANTED) continue;
        if (queues[i].waiters > row->waiters) row->waiters = queues[i].waiters;
        if (queues[i].oldest_ms > row->oldest_ms) row->oldest_ms = queues[i].oldest_ms;
    }
}

void top_model_saw(struct top_model *model, struct top_row *row, struct redlock_view *views,
                   const struct redlock_queue_view *queues, int64_t now_ns) {
    const bool first = !row->known;
    for (size_t i = 0; i < model->nodes_count; i++) {
        const int verdict = model->nodes[i].verdict;
        if (model->quorum.mode == REDLOCK_MODE_GUARDED && verdict != REDLOCK_VERDICT_GRANTED)
            views[i].verdict = verdict;
    }
    const struct majority majority = majority_of(views, model->nodes_count);
    row->known = true;
    row->is_lock |= model->every_value || holds_token(views, model->nodes_count);
    row->verdict = majority.verdict;
    row->votes = majority.votes;
    row->remaining_ms = majority.remaining_ms;
    row->shared = majority.verdict == MAJORITY_HELD && is_shared(&views[majority.holder]);
    row->readers = -1;
    saw_queues(row, queues, model->nodes_count);
    if (majority.verdict == MAJORITY_HELD)
        saw_holder(model, row, &views[majority.holder], first, now_ns);
    if (majority.verdict == MAJORITY_SPLIT && row->is_lock) model->splits++;
    if (top_row_is_shown(row)) {
        row->idle_ns = 0;
        return;
    }
    model->is_full = false; /* its place may be taken */
    if (row->idle_ns == 0) row->idle_ns = now_ns;
}

/* What most nodes say. The nodes that do not vote do not count. */
void top_model_saw_readers(struct top_model *model, struct top_row *row,
                           const struct redlock_readers_view *counts) {
    struct redlock_readers_view voters[REDLOCK_NODES_MAX] = {{0}};
    for (size_t i = 0; i < model->nodes_count; i++) {
        const bool votes = model->quorum.mode != REDLOCK_MODE_GUARDED ||
                           model->nodes[i].verdict == REDLOCK_VERDICT_GRANTED;
        if (votes) voters[i] = counts[i];
    }
    row->readers = row->shared ? readers_total(voters, model->nodes_count) : -1;
}

bool top_row_is_shown(const struct top_row *row) {
    if (row->waiters > 0) return true;
    return row->known && row->is_lock &&
           (row->verdict == MAJORITY_HELD || row->verdict == MAJORITY_SPLIT ||
            row->verdict == MAJORITY_UNKNOWN);
}

/* A row that never was a lock is not kept: a cache may have a hundred thousand such keys. */
void top_model_looked(struct top_model *model, int64_t now_ns) {
    for (size_t i = model->rows_count; i-- > 0;) {
        const struct top_row *row = model->rows[i];
        if (row->idle_ns == 0) continue;
        if (!row->is_lock || row->holder == 0 || now_ns - row->idle_ns > IDLE_KEPT)
            forget(model, i);
    }
    const size_t at = model->looks++ % (TOP_RATE_LOOKS + 1);
    model->past[at].at_ns = now_ns;
    model->past[at].hand_overs = model->hand_overs;
    model->past[at].splits = model->splits;
    model->hand_overs_total += model->hand_overs;
    model->splits_total += model->splits;
    model->hand_overs = model->splits = 0;
    model->looks_of_walk = model->walk_complete ? 0 : model->looks_of_walk + 1;
    model->walk_complete = false;
    model->sees_all = model->passed_all;
    model->passed_all = false;
    model->now_ns = now_ns;
}

/* What the first of these looks saw belongs to the time before it. */
struct top_rates top_model_rates(const struct top_model *model) {
    struct top_rates rates = {0};
    const size_t most = TOP_RATE_LOOKS + 1, count = model->looks < most ? model->looks : most;
    if (count < 2) return rates;
    const size_t first = model->looks - count, last = model->looks - 1;
    for (size_t i = first + 1; i <= last; i++) {
        rates.hand_overs += model->past[i % most].hand_overs;
        rates.splits += model->past[i % most].splits;
    }
    const int64_t over_ns = model->past[last % most].at_ns - model->past[first % most].at_ns;
    if (over_ns <= 0) return (struct top_rates){0};
    rates.over_ms = over_ns / MS;
    rates.hand_overs = rates.hand_overs * 1e9 / (double)over_ns;
    rates.splits = rates.splits * 1e9 / (double)over_ns;
    return rates;
}

/* ---- order ---- */

int64_t top_row_age_ms(const struct top_model *model, const struct top_row *row) {
    return model->now_ns > row->since_ns ? (model->now_ns - row->since_ns) / MS : 0;
}

static int by_name(const struct top_row *a, const struct top_row *b) {
    return compare_bytes(a->resource, a->bytes, b->resource, b->bytes);
}

static bool is_held(const struct top_row *row) { return row->verdict == MAJORITY_HELD; }

/* The most urgent first: most waiters, oldest holder, least time left. What has no such number is
 * last. */
static int compare(const struct top_row *a, const struct top_row *b, enum top_sort by) {
    switch (by) {
    case TOP_BY_WAITERS: return a->waiters > b->waiters ? -1 : a->waiters < b->waiters;
    case TOP_BY_AGE:
        if (is_held(a) != is_held(b)) return is_held(a) ? -1 : 1;
        return a->since_ns < b->since_ns ? -1 : a->since_ns > b->since_ns;
    case TOP_BY_LEFT:
        if (is_held(a) != is_held(b)) return is_held(a) ? -1 : 1;
        /* as unsigned, -1 (it never ends) is the longest */
        return (uint64_t)a->remaining_ms < (uint64_t)b->remaining_ms
                   ? -1
                   : (uint64_t)a->remaining_ms > (uint64_t)b->remaining_ms;
    case TOP_BY_RESOURCE:
    case TOP_SORTS: break;
    }
    return 0;
}

struct ordering {
    enum top_sort by;
    bool reversed;
};

static int in_order(const void *a, const void *b, void *context) {
    const struct top_row *x = *(const struct top_row *const *)a,
                         *y = *(const struct top_row *const *)b;
    const struct ordering *ordering = context;
    int order = compare(x, y, ordering->by);
    if (order == 0 && ordering->by != TOP_BY_RESOURCE) return by_name(x, y);
    if (order == 0) order = by_name(x, y);
    return ordering->reversed ? -order : order;
}

size_t top_model_sorted(const struct top_model *model, enum top_sort by, bool reversed,
                        const struct top_row **rows) {
    struct ordering ordering = {by, reversed};
    size_t count = 0;
    for (size_t i = 0; i < model->rows_count; i++)
        if (top_row_is_shown(model->rows[i])) rows[count++] = model->rows[i];
    qsort_r(rows, count, sizeof rows[0], in_order, &ordering);
    return count;
}
