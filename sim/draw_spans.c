/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Spans of time: a key on a node, a client's validity, a pause, a cut.
 */
#include "draw_layout.h"

#include "memory.h"
#include "redlock.h"

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

static void holds(struct draw_layout *layout, int row, const struct history_record *record) {
    switch (record->kind) {
    case HISTORY_ACQUIRE: open_span(layout, DRAW_ASKING, row, record); break;
    case HISTORY_NOT_ACQUIRED: close_span(layout, DRAW_ASKING, row, record->client, record); break;
    case HISTORY_ACQUIRED:
        close_span(layout, DRAW_ASKING, row, record->client, record);
        open_span(layout, DRAW_HOLDS, row, record)->until = record->until;
        break;
    case HISTORY_EXTENDED:
        if (record->result != REDLOCK_OK) break;
        /* fallthrough */
    case HISTORY_RENEWED: {
        struct draw_span *span =
            find_open(layout, DRAW_HOLDS, row, record->client, record->resource);
        if (span != NULL) span->until = record->until;
        break;
    }
    case HISTORY_LOST:
    case HISTORY_RELEASE: close_span(layout, DRAW_HOLDS, row, record->client, record); break;
    default: break;
    }
}

static void befalls_client(struct draw_layout *layout, int row,
                           const struct history_record *record) {
    switch (record->kind) {
    case HISTORY_PAUSE: open_span(layout, DRAW_STOPPED, row, record); break;
    case HISTORY_RESUME: close_all(layout, DRAW_STOPPED, row, record->at); break;
    case HISTORY_CLIENT_CRASH:
        close_all(layout, DRAW_HOLDS, row, record->at);
        close_all(layout, DRAW_ASKING, row, record->at);
        open_span(layout, DRAW_DOWN, row, record);
        break;
    default: holds(layout, row, record); break;
    }
}

static void befalls_key(struct draw_layout *layout, int row, const struct history_record *record) {
    switch (record->kind) {
    case HISTORY_KEY_SET: {
        close_span(layout, DRAW_KEY, row, -1, record);
        open_span(layout, DRAW_KEY, row, record)->client =
            story_owner(&layout->story, record->token);
        break;
    }
    case HISTORY_KEY_LOST: {
        struct draw_span *span = find_open(layout, DRAW_KEY, row, -1, record->resource);
        if (span != NULL) span->torn = true;
    } /* fallthrough */
    case HISTORY_KEY_DELETED:
    case HISTORY_KEY_EXPIRED: close_span(layout, DRAW_KEY, row, -1, record); break;
    default: break;
    }
}

static void befalls_node(struct draw_layout *layout, int row, const struct history_record *record) {
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
    default: befalls_key(layout, row, record); break;
    }
}

static void changes_register(struct draw_layout *layout, const struct history_record *record) {
    int row = draw_row_of(layout, DRAW_REGISTER, record->resource);
    if (row < 0 || record->kind != HISTORY_WRITE) return;
    close_all(layout, DRAW_VALUE, row, record->at);
    open_span(layout, DRAW_VALUE, row, record);
}

void draw_spans_make(struct draw_layout *layout) {
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
