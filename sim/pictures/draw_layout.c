/* SPDX-License-Identifier: BSD-2-Clause */
#include "draw_layout.h"

#include <stdlib.h>
#include <string.h>

#include "history/memory.h"
#include "net/net.h"
#include "redlock.h"

#define GUTTER 76
#define BAR 22
#define WORDS 18
#define ROW (BAR + WORDS + 6)
#define LABEL_FONT 11
#define BADGE 20 /* the number in its circle, and the space after it */

int draw_text_width(const char *text, int font) { return (int)strlen(text) * font * 58 / 100; }

bool draw_message(const struct history_record *record) {
    return record->message != 0 && net_op_is_write(record->op);
}

bool draw_wake(const struct history_record *record) {
    return record->kind == HISTORY_WOKEN || record->kind == HISTORY_WAKE_LOST;
}

int draw_row_of(const struct draw_layout *layout, enum draw_row_kind kind, int index) {
    for (int i = 0; i < layout->rows_count; i++) {
        if (layout->rows[i].kind == kind && layout->rows[i].index == index) return i;
    }
    return -1;
}

static void add_row(struct draw_layout *layout, enum draw_row_kind kind, int index, int *y) {
    if (layout->rows_count == (int)(sizeof layout->rows / sizeof layout->rows[0])) return;
    /* Words stand on the side with fewer arrows. */
    bool below = kind == DRAW_CLIENT && index >= layout->upper_clients;
    struct draw_row *row = &layout->rows[layout->rows_count++];
    int words = layout->words ? WORDS : 0;
    *row = (struct draw_row){.kind = kind, .index = index, .bar_h = BAR};
    row->bar_y = *y + (below ? 0 : words);
    row->words_y = below ? *y + BAR + 14 : *y + 13;
    *y += layout->words ? ROW : BAR + 5;
}

static bool uses_register(const struct history *history, int resource) {
    for (size_t i = 0; i < history->count; i++) {
        const struct history_record *record = &history->records[i];
        if (record->kind == HISTORY_WRITE && record->resource == resource) return true;
    }
    return false;
}

static void make_rows(struct draw_layout *layout) {
    const struct history *history = layout->picture->history;
    int y = layout->top;
    const int between = layout->words ? 16 : 6;
    layout->upper_clients = ((int)history->clients + 1) / 2;
    for (int i = 0; i < layout->upper_clients; i++) add_row(layout, DRAW_CLIENT, i, &y);
    y += between;
    for (int i = 0; i < (int)history->nodes; i++) add_row(layout, DRAW_NODE, i, &y);
    y += between;
    for (int i = layout->upper_clients; i < (int)history->clients; i++)
        add_row(layout, DRAW_CLIENT, i, &y);
    for (int i = 0; i < (int)history->resources; i++) {
        if (uses_register(history, i)) add_row(layout, DRAW_REGISTER, i, &y);
    }
    layout->bottom = y;
    layout->height = y + 8;
}

/* ---- spans: a key on a node, a client's validity, a pause, a cut ----------------------------- */

static struct draw_span *find_open(struct draw_layout *layout, enum draw_span_kind kind, int row,
                                   int client, int resource) {
    for (size_t i = layout->spans_count; i > 0; i--) {
        struct draw_span *span = &layout->spans[i - 1];
        if (!span->open || span->kind != kind || span->row != row || span->resource != resource)
            continue;
        if (client < 0 || span->client == client) return span;
    }
    return NULL;
}

static struct draw_span *open_span(struct draw_layout *layout, enum draw_span_kind kind, int row,
                                   const struct history_record *record) {
    if (layout->spans_count == layout->spans_capacity)
        layout->spans =
            memory_grow(layout->spans, &layout->spans_capacity, sizeof *layout->spans, 64);
    struct draw_span *span = &layout->spans[layout->spans_count++];
    *span = (struct draw_span){.kind = kind,
                               .row = row,
                               .client = record->client,
                               .resource = record->resource,
                               .from = record->at,
                               .until = RL_NEVER,
                               .value = record->value,
                               .open = true};
    return span;
}

/* Ends the span that is open there; `client` -1: of any client. */
static void close_span(struct draw_layout *layout, enum draw_span_kind kind, int row, int client,
                       const struct history_record *record) {
    struct draw_span *span = find_open(layout, kind, row, client, record->resource);
    if (span == NULL) return;
    span->open = false;
    if (span->until > record->at) span->until = record->at;
}

static void close_all(struct draw_layout *layout, enum draw_span_kind kind, int row, rl_ns at) {
    for (size_t i = 0; i < layout->spans_count; i++) {
        struct draw_span *span = &layout->spans[i];
        if (!span->open || span->kind != kind || span->row != row) continue;
        span->open = false;
        if (span->until > at) span->until = at;
    }
}

static void befalls_client(struct draw_layout *layout, int row,
                           const struct history_record *record) {
    struct draw_span *held = find_open(layout, DRAW_HOLDS, row, record->client, record->resource);
    switch (record->kind) {
    case HISTORY_PAUSE: open_span(layout, DRAW_STOPPED, row, record); break;
    case HISTORY_RESUME: close_all(layout, DRAW_STOPPED, row, record->at); break;
    case HISTORY_CLIENT_CRASH:
        close_all(layout, DRAW_HOLDS, row, record->at);
        close_all(layout, DRAW_ASKING, row, record->at);
        open_span(layout, DRAW_DOWN, row, record);
        break;
    case HISTORY_ACQUIRE: open_span(layout, DRAW_ASKING, row, record); break;
    case HISTORY_NOT_ACQUIRED: close_span(layout, DRAW_ASKING, row, record->client, record); break;
    case HISTORY_ACQUIRED:
        close_span(layout, DRAW_ASKING, row, record->client, record);
        open_span(layout, DRAW_HOLDS, row, record)->until = record->until;
        break;
    case HISTORY_EXTENDED:
    case HISTORY_RENEWED:
        if (held != NULL && record->result == REDLOCK_OK) held->until = record->until;
        break;
    case HISTORY_LOST:
    case HISTORY_RELEASE: close_span(layout, DRAW_HOLDS, row, record->client, record); break;
    default: break;
    }
}

static void befalls_node(struct draw_layout *layout, int row, const struct history_record *record) {
    struct draw_span *key = find_open(layout, DRAW_KEY, row, -1, record->resource);
    switch (record->kind) {
    case HISTORY_NODE_CRASH: open_span(layout, DRAW_DOWN, row, record); break;
    case HISTORY_NODE_RESTART: close_all(layout, DRAW_DOWN, row, record->at); break;
    case HISTORY_NODE_PAUSE: open_span(layout, DRAW_STOPPED, row, record); break;
    case HISTORY_NODE_RESUME: close_all(layout, DRAW_STOPPED, row, record->at); break;
    case HISTORY_CUT:
        close_span(layout, DRAW_CUT, row, record->client, record);
        open_span(layout, DRAW_CUT, row, record);
        break;
    case HISTORY_HEALED: close_span(layout, DRAW_CUT, row, record->client, record); break;
    case HISTORY_KEY_SET:
        close_span(layout, DRAW_KEY, row, -1, record);
        open_span(layout, DRAW_KEY, row, record)->client =
            story_owner(&layout->story, record->token);
        break;
    case HISTORY_READER_LISTED:
        if (key != NULL) key->shared = true;
        break;
    case HISTORY_KEY_LOST:
        if (key != NULL) key->torn = true;
        close_span(layout, DRAW_KEY, row, -1, record);
        break;
    case HISTORY_KEY_DELETED:
    case HISTORY_KEY_EXPIRED: close_span(layout, DRAW_KEY, row, -1, record); break;
    default: break;
    }
}

static void changes_register(struct draw_layout *layout, const struct history_record *record) {
    int row = draw_row_of(layout, DRAW_REGISTER, record->resource);
    if (row < 0 || record->kind != HISTORY_WRITE) return;
    close_all(layout, DRAW_VALUE, row, record->at);
    open_span(layout, DRAW_VALUE, row, record);
}

static void make_spans(struct draw_layout *layout) {
    const struct history *history = layout->picture->history;
    rl_ns end = 0;
    for (size_t i = 0; i < history->count; i++) {
        const struct history_record *record = &history->records[i];
        end = record->at;
        if (record->node >= 0) {
            befalls_node(layout, draw_row_of(layout, DRAW_NODE, record->node), record);
        } else if (record->client >= 0) {
            befalls_client(layout, draw_row_of(layout, DRAW_CLIENT, record->client), record);
        }
        if (record->resource >= 0) changes_register(layout, record);
    }
    for (size_t i = 0; i < layout->spans_count; i++) {
        struct draw_span *span = &layout->spans[i];
        if (span->until <= end) span->open = false;
        if (span->until > end) span->until = end;
    }
}

/* ---- time ------------------------------------------------------------------------------------ */

static void add_time(struct draw_layout *layout, rl_ns at) {
    if (layout->columns == layout->columns_capacity)
        layout->times =
            memory_grow(layout->times, &layout->columns_capacity, sizeof *layout->times, 128);
    layout->times[layout->columns++] = at;
}

static int by_time(const void *a, const void *b) {
    rl_ns left = *(const rl_ns *)a, right = *(const rl_ns *)b;
    return (left > right) - (left < right);
}

static void collect_times(struct draw_layout *layout) {
    const struct picture *picture = layout->picture;
    const struct history *history = picture->history;
    for (size_t i = 0; i < layout->story.count; i++) add_time(layout, layout->story.events[i].at);
    for (size_t i = 0; i < layout->spans_count; i++) {
        add_time(layout, layout->spans[i].from);
        add_time(layout, layout->spans[i].until);
    }
    for (size_t i = 0; i < history->count; i++) {
        const struct history_record *record = &history->records[i];
        bool moves = record->kind == HISTORY_SENT || record->kind == HISTORY_ARRIVED ||
                     record->kind == HISTORY_ANSWERED;
        if ((moves || record->kind == HISTORY_DROPPED) && draw_message(record))
            add_time(layout, record->at);
        if (!draw_wake(record)) continue;
        add_time(layout, record->at);
        add_time(layout, record->until);
    }
    for (size_t i = 0; i < picture->violations_count; i++) {
        add_time(layout, picture->violations[i].from);
        add_time(layout, picture->violations[i].until);
    }
    rl_ns end = history->count == 0 ? 0 : history->records[history->count - 1].at;
    add_time(layout, end);
    qsort(layout->times, layout->columns, sizeof *layout->times, by_time);
    size_t kept = 0;
    for (size_t i = 0; i < layout->columns; i++) {
        if (layout->times[i] > end) break;
        if (kept == 0 || layout->times[i] != layout->times[kept - 1])
            layout->times[kept++] = layout->times[i];
    }
    layout->columns = kept;
}

/* Pixels for a span: they grow with its logarithm, so that a millisecond and ten seconds are both
 * visible. */
static int gap_width(rl_ns span, bool words) {
    int doublings = 0;
    for (rl_ns left = span / (RL_MS / 10); left > 0; left /= 2) doublings++;
    if (span < RL_MS) return words ? 2 + 2 * doublings : 1;
    return words ? 6 + 6 * doublings : 3 + 3 * doublings;
}

static int label_width(const struct story_event *event) {
    return BADGE + (event->label[0] == '\0' ? 0 : draw_text_width(event->label, LABEL_FONT) + 8);
}

/* Whether this event belongs to this row. */
static bool stands_on(const struct story_event *event, const struct draw_row *row) {
    switch (row->kind) {
    case DRAW_CLIENT: return event->client == row->index;
    case DRAW_NODE: return (event->nodes & rl_bit((unsigned)row->index)) != 0;
    case DRAW_REGISTER: return event->resource == row->index;
    }
    return false;
}

/* Gives each column its place. A column moves right until the words on its rows have room: labels
 * never overlap. */
static void place_columns(struct draw_layout *layout) {
    int free_x[64] = {0};
    layout->xs = memory_new((layout->columns + 1) * sizeof *layout->xs);
    layout->labels =
        memory_new((layout->story.count * (size_t)layout->rows_count + 1) * sizeof *layout->labels);
    int x = layout->left + 10;
    size_t event = 0;
    for (size_t i = 0; i < layout->columns; i++) {
        if (i > 0) x += gap_width(layout->times[i] - layout->times[i - 1], layout->words);
        size_t after = event;
        for (; after < layout->story.count && layout->story.events[after].at <= layout->times[i];
             after++) {
            for (int row = 0; row < layout->rows_count && layout->words; row++) {
                if (stands_on(&layout->story.events[after], &layout->rows[row]) && free_x[row] > x)
                    x = free_x[row];
            }
        }
        layout->xs[i] = x;
        for (; event < after; event++) {
            for (int row = 0; row < layout->rows_count; row++) {
                if (!stands_on(&layout->story.events[event], &layout->rows[row])) continue;
                int at = free_x[row] > x ? free_x[row] : x;
                layout->labels[layout->labels_count++] = (struct draw_label){event, row, at};
                free_x[row] = at + label_width(&layout->story.events[event]);
            }
        }
    }
    layout->right = x + 14;
    for (int row = 0; row < layout->rows_count && layout->words; row++) {
        if (free_x[row] > layout->right) layout->right = free_x[row];
    }
}

int draw_x(const struct draw_layout *layout, rl_ns at) {
    if (layout->columns == 0 || at <= layout->times[0]) return layout->left + 10;
    size_t low = 0, high = layout->columns - 1;
    while (low < high) {
        size_t middle = (low + high + 1) / 2;
        if (layout->times[middle] <= at) {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    if (low + 1 == layout->columns || layout->times[low] == at) return layout->xs[low];
    rl_ns span = layout->times[low + 1] - layout->times[low];
    return layout->xs[low] +
           (int)((at - layout->times[low]) * (layout->xs[low + 1] - layout->xs[low]) / span);
}

void draw_layout_make(struct draw_layout *layout, const struct picture *picture, bool words) {
    *layout = (struct draw_layout){.picture = picture, .words = words};
    layout->left = words ? GUTTER : 4;
    layout->axis_y = words ? 24 + 18 * (picture->violations_count > 0) : 0;
    layout->top = words ? layout->axis_y + 16 : 4;
    story_describe(&layout->story, picture->history, &picture->names);
    make_rows(layout);
    make_spans(layout);
    collect_times(layout);
    place_columns(layout);
}

void draw_layout_free(struct draw_layout *layout) {
    story_free(&layout->story);
    free(layout->spans);
    free(layout->times);
    free(layout->xs);
    free(layout->labels);
}
