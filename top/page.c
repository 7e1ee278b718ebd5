/* SPDX-License-Identifier: BSD-2-Clause */
#include "page.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "process/message.h"
#include "words.h"

static const char *const cell_heads[TOP_CELLS] = {"RESOURCE", "OWNER", "AGE",
                                                  "LEFT",     "NODES", "WAIT"};
static const size_t cell_columns[TOP_CELLS] = {0, 0, 8, 7, 6, 5};

/* A line of the table: names to the left, numbers to the right, one space between. */
static void table_line(char *out, size_t size, const char *const cells[TOP_CELLS],
                       const size_t widths[TOP_CELLS], bool ascii) {
    size_t used = 0;
    out[0] = '\0';
    for (int i = 0; i < TOP_CELLS && used + 2 < size; i++) {
        const char *gap = i == 0 ? "" : " ";
        if (i <= TOP_CELL_OWNER) {
            char cell[TOP_LINE_BYTES];
            top_fit(cell, sizeof cell, cells[i], widths[i], ascii);
            used += (size_t)snprintf(out + used, size - used, "%s%s", gap, cell);
        } else {
            used +=
                (size_t)snprintf(out + used, size - used, "%s%*s", gap, (int)widths[i], cells[i]);
        }
    }
}

/* Names get what they need, in steps of eight, so that the columns do not move with each row that
 * comes and goes; at most what is left by the numbers. */
static void table_widths(const struct top_model *model, const struct top_view *view,
                         const struct top_row *const *rows, size_t count,
                         size_t widths[TOP_CELLS]) {
    size_t fixed = TOP_CELLS - 1, needed[2] = {8, 16};
    memcpy(widths, cell_columns, sizeof cell_columns);
    for (int i = TOP_CELL_AGE; i < TOP_CELLS; i++) fixed += widths[i];
    const size_t left = view->width > fixed + 16 ? view->width - fixed : 16;
    for (size_t i = 0; i < count; i++) {
        char cells[TOP_CELLS][TOP_CELL_BYTES];
        top_row_cells(model, rows[i], view->ascii, cells);
        for (int j = 0; j < 2; j++) {
            const size_t columns = (top_columns(cells[j], view->ascii) + 7) / 8 * 8;
            if (columns > needed[j]) needed[j] = columns;
        }
    }
    const size_t share = left * 11 / 20;
    widths[TOP_CELL_OWNER] = needed[1] < left - share ? needed[1] : left - share;
    widths[TOP_CELL_RESOURCE] =
        needed[0] < left - widths[TOP_CELL_OWNER] ? needed[0] : left - widths[TOP_CELL_OWNER];
    if (needed[1] > widths[TOP_CELL_OWNER])
        widths[TOP_CELL_OWNER] = needed[1] < left - widths[TOP_CELL_RESOURCE]
                                     ? needed[1]
                                     : left - widths[TOP_CELL_RESOURCE];
}

/* ---- a screen ---- */

static void add(struct top_page *page, const struct top_view *view, enum top_style style,
                const char *format, ...) __attribute__((format(printf, 4, 5)));
static void add(struct top_page *page, const struct top_view *view, enum top_style style,
                const char *format, ...) {
    char text[TOP_LINE_BYTES];
    va_list arguments;
    if (page->count >= view->height || page->count >= TOP_LINES_MAX) return;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    page->lines[page->count].style = style;
    top_fit(page->lines[page->count].text, TOP_LINE_BYTES, text, view->width, view->ascii);
    page->count++;
}

/* The last line is next, whatever the lines before it would need. */
static void go_to_foot(struct top_page *page, const struct top_view *view) {
    while (page->count + 1 < view->height && page->count + 1 < TOP_LINES_MAX)
        add(page, view, TOP_PLAIN, "%s", "");
    if (page->count > 0 && page->count >= view->height) page->count = view->height - 1;
}

/* As wide as the widest, at most half of the line. */
static size_t url_columns(const struct top_view *view, const struct top_model *model) {
    size_t widest = strlen("NODE");
    for (size_t i = 0; i < model->nodes_count; i++) {
        const size_t columns = top_columns(model->nodes[i].url, view->ascii);
        if (columns > widest) widest = columns;
    }
    return widest < view->width / 2 ? widest : view->width / 2;
}

static void node_line(struct top_page *page, const struct top_view *view,
                      const struct top_node *node, size_t columns) {
    char votes[1000], trip[32], reconnects[32], cell[TOP_LINE_BYTES];
    top_votes_text(node, votes, sizeof votes);
    top_trip_text(node, trip, sizeof trip);
    top_reconnects_text(node, reconnects, sizeof reconnects);
    top_fit(cell, sizeof cell, node->url, columns, view->ascii);
    enum top_style style = node->verdict == REDLOCK_VERDICT_GRANTED
                               ? (node->unlisted[0] != '\0' ? TOP_WARN : TOP_PLAIN)
                           : node->verdict == REDLOCK_VERDICT_RECOVERING ? TOP_WARN
                                                                         : TOP_BAD;
    add(page, view, style, "%s %7s %-8.8s %6s %s", cell, trip,
        node->version[0] != '\0' ? node->version : "-", reconnects, votes);
}

/* At most a third of the screen: those that do not vote first, because they matter. */
static void draw_nodes(struct top_page *page, const struct top_view *view,
                       const struct top_model *model) {
    const size_t third = view->height / 3 > 3 ? view->height / 3 : 3, count = model->nodes_count;
    const size_t most = count > third ? third - 1 : count, url = url_columns(view, model);
    size_t shown = 0;
    add(page, view, TOP_HEAD, "%-*s %7s %-8s %6s %s", (int)url, "NODE", "RTT ms", "VERSION",
        "RECONN", "VOTES");
    for (int votes = most < count ? 0 : -1; votes < 2 && shown < most; votes++) {
        for (size_t i = 0; i < count && shown < most; i++) {
            const struct top_node *node = &model->nodes[i];
            if (votes >= 0 && (node->verdict == REDLOCK_VERDICT_GRANTED) != votes) continue;
            node_line(page, view, node, url);
            shown++;
        }
    }
    if (shown < count) add(page, view, TOP_PLAIN, "and %zu more", count - shown);
}

static void draw_head(struct top_page *page, const struct top_observer *observer,
                      const struct top_view *view) {
    const struct top_model *model = &observer->model;
    char quorum[256], rates[256], every[16];
    top_quorum_text(model, quorum, sizeof quorum);
    top_rates_text(model, rates, sizeof rates);
    add(page, view, TOP_TITLE, "redlock top  %s%s%s%s", view->paused ? "PAUSED" : "every ",
        view->paused ? "" : top_brief(every, 16, view->interval_ms),
        model->filter[0] != '\0' ? "  filter: " : "", model->filter);
    add(page, view, top_lacks_quorum(model) ? TOP_BAD : TOP_PLAIN, "%s", quorum);
    draw_nodes(page, view, model);
    add(page, view, TOP_TITLE, "%s", rates);
}

/* Its name keeps the bar on a row; when the row has gone, the bar stays where it was. */
static void find_bar(struct top_view *view, const struct top_row **rows, size_t count) {
    view->rows = count;
    for (size_t i = 0; view->selected != NULL && i < count; i++) {
        if (rows[i]->bytes != view->selected_bytes ||
            memcmp(rows[i]->resource, view->selected, rows[i]->bytes) != 0)
            continue;
        view->position = i;
        break;
    }
    if (view->position >= count) view->position = count > 0 ? count - 1 : 0;
    if (view->first > view->position) view->first = view->position;
    if (view->position >= view->first + view->rows_on_page)
        view->first = view->position - view->rows_on_page + 1;
    if (view->first + view->rows_on_page > count)
        view->first = count > view->rows_on_page ? count - view->rows_on_page : 0;
}

static void draw_foot(struct top_page *page, const struct top_model *model,
                      const struct top_view *view) {
    char share[80], place[64] = "", keys[TOP_LINE_BYTES];
    go_to_foot(page, view);
    if (view->editing) {
        add(page, view, TOP_FOOT, "filter: %s_   Enter: apply   Esc: leave", view->filter);
        return;
    }
    top_share_text(model, view->rows, share, sizeof share);
    if (share[0] == '\0' && view->rows > view->rows_on_page)
        snprintf(place, sizeof place, "%zu-%zu of %zu", view->first + 1,
                 view->first + view->rows_on_page < view->rows ? view->first + view->rows_on_page
                                                               : view->rows,
                 view->rows);
    const char *right = share[0] != '\0' ? share : place;
    const size_t room = view->width > strlen(right) ? view->width - strlen(right) : 0;
    char left[160];
    snprintf(left, sizeof left, "q quit  ? help  / filter  Enter details  s sort: %s%s  p pause",
             top_sort_name(view->sort), view->reversed ? " (reversed)" : "");
    top_fit(keys, sizeof keys, left, room, view->ascii);
    add(page, view, TOP_FOOT, "%s%s", keys, right);
}

static void draw_list(struct top_page *page, const struct top_observer *observer,
                      struct top_view *view) {
    const struct top_model *model = &observer->model;
    const struct top_row *rows[TOP_ROWS_MAX];
    size_t widths[TOP_CELLS], count = top_model_sorted(model, view->sort, view->reversed, rows);
    char line[TOP_LINE_BYTES];
    table_widths(model, view, rows, count, widths);
    table_line(line, sizeof line, cell_heads, widths, view->ascii);
    add(page, view, TOP_HEAD, "%s", line);
    view->rows_on_page = view->height > page->count + 1 ? view->height - page->count - 1 : 1;
    find_bar(view, rows, count);
    for (size_t i = view->first; i < count && i < view->first + view->rows_on_page; i++) {
        char text[TOP_CELLS][TOP_CELL_BYTES];
        const char *cells[TOP_CELLS];
        top_row_cells(model, rows[i], view->ascii, text);
        for (int j = 0; j < TOP_CELLS; j++) cells[j] = text[j];
        table_line(line, sizeof line, cells, widths, view->ascii);
        enum top_style style = i == view->position                    ? TOP_SELECTED
                               : rows[i]->verdict == MAJORITY_SPLIT   ? TOP_WARN
                               : rows[i]->verdict == MAJORITY_UNKNOWN ? TOP_BAD
                                                                      : TOP_PLAIN;
        add(page, view, style, "%s", line);
    }
    if (count == 0 && view->rows_on_page > 0)
        add(page, view, TOP_PLAIN, "%s",
            model->filter[0] != '\0' ? "no lock has the filter's text in its name"
                                     : "no lock is held or waited for");
}

/* ---- one lock ---- */

/* `readers`: how many, if it is a shared lock. */
static void seen_holder(const struct redlock_view *seen, int64_t readers, bool ascii, char *out,
                        size_t size) {
    char owner[REDLOCK_OWNER_BYTES_MAX * 4 + 1], head[TOKEN_SHOWN_MAX * 4 + 1];
    if (seen->verdict != REDLOCK_VERDICT_GRANTED) {
        snprintf(out, size, "%s",
                 seen->verdict == REDLOCK_VERDICT_ABSENT ? "free"
                                                         : redlock_verdict_text(seen->verdict));
        return;
    }
    if (is_shared(seen)) {
        char text[64];
        snprintf(out, size, "shared: %s", readers_text(readers, text, sizeof text));
        return;
    }
    owner_text(seen, owner, sizeof owner);
    snprintf(out, size, "token %s%s%s%s",
             printable(head, sizeof head, seen->token, token_shown(seen)), ascii ? "..." : "…",
             owner[0] != '\0' ? " " : "", owner);
}

static void detail_line(struct top_page *page, const struct top_view *view,
                        const struct top_observer *observer, size_t node) {
    const struct top_detail *detail = &observer->detail;
    const struct redlock_view *seen = &detail->views[node];
    const struct redlock_queue_view *queue = &detail->queues[node];
    char holder[1200], left[16] = "-", waiters[64] = "-", first[16], url[TOP_LINE_BYTES];
    const size_t columns = url_columns(view, &observer->model);
    const struct redlock_readers_view *readers = &detail->readers.views[node];
    seen_holder(seen, readers->verdict == REDLOCK_VERDICT_GRANTED ? readers->readers : -1,
                view->ascii, holder, sizeof holder);
    if (seen->verdict == REDLOCK_VERDICT_GRANTED) snprintf(left, sizeof left, "no end");
    if (seen->verdict == REDLOCK_VERDICT_GRANTED && seen->remaining_ms >= 0)
        top_brief(left, sizeof left, seen->remaining_ms);
    if (queue->verdict == REDLOCK_VERDICT_GRANTED)
        snprintf(waiters, sizeof waiters, "%" PRId64, queue->waiters);
    if (queue->verdict == REDLOCK_VERDICT_GRANTED && queue->waiters > 0)
        snprintf(waiters, sizeof waiters, "%" PRId64 ", first %s", queue->waiters,
                 top_brief(first, sizeof first, queue->oldest_ms));
    top_fit(url, sizeof url, observer->model.nodes[node].url, columns, view->ascii);
    add(page, view, seen->verdict == REDLOCK_VERDICT_GRANTED ? TOP_PLAIN : TOP_WARN,
        "%s %7s %-17s %s", url, left, waiters, holder);
}

/* Those that end first, as far as there is room for them. */
static void draw_readers(struct top_page *page, const struct top_view *view,
                         const struct top_observer *observer) {
    const struct readers *readers = &observer->detail.readers;
    if (readers->count == 0) return;
    add(page, view, TOP_PLAIN, "%s", "");
    add(page, view, TOP_HEAD, "%7s %6s %s", "LEFT", "NODES", "READER");
    for (size_t i = 0; i < readers->count && page->count + 2 < view->height; i++) {
        const struct reader *reader = &readers->list[i];
        struct redlock_view one;
        char who[1200], left[16], nodes[48];
        reader_view(reader, &one);
        seen_holder(&one, -1, view->ascii, who, sizeof who);
        snprintf(nodes, sizeof nodes, "%zu/%zu", reader->nodes, observer->model.nodes_count);
        add(page, view, reader->holds ? TOP_PLAIN : TOP_WARN, "%7s %6s %s%s",
            top_brief(left, sizeof left, reader->remaining_ms), nodes, who,
            reader->holds ? "" : " (does not hold it)");
    }
}

static void draw_state(struct top_page *page, const struct top_model *model,
                       const struct top_view *view, const struct top_row *row) {
    char cells[TOP_CELLS][TOP_CELL_BYTES], oldest[16] = "";
    top_row_cells(model, row, view->ascii, cells);
    add(page, view, TOP_PLAIN, "holder   %s", cells[TOP_CELL_OWNER]);
    if (row->verdict == MAJORITY_HELD) {
        add(page, view, TOP_PLAIN, "held on  %s nodes, %s left", cells[TOP_CELL_NODES],
            cells[TOP_CELL_LEFT]);
        add(page, view, TOP_PLAIN, "age      %s%s", cells[TOP_CELL_AGE],
            row->is_older ? " (it was held when redlock top first saw it)" : "");
    }
    if (row->waiters > 0) top_brief(oldest, sizeof oldest, row->oldest_ms);
    add(page, view, TOP_PLAIN, "waiting  %s%s%s", cells[TOP_CELL_WAIT],
        row->waiters > 0 ? ", the first for " : "", oldest);
}

static void draw_detail(struct top_page *page, const struct top_observer *observer,
                        const struct top_view *view) {
    const struct top_detail *detail = &observer->detail;
    const struct top_row *row = NULL;
    char name[TOP_LINE_BYTES];
    if (detail->resource != NULL)
        row = top_model_row(&observer->model, detail->resource, detail->bytes);
    printable(name, sizeof name, view->selected, view->selected_bytes);
    add(page, view, TOP_TITLE, "%s", name);
    if (row != NULL)
        draw_state(page, &observer->model, view, row);
    else
        add(page, view, TOP_PLAIN, "neither held nor waited for");
    add(page, view, TOP_PLAIN, "%s", "");
    add(page, view, TOP_HEAD, "%-*s %7s %-17s %s", (int)url_columns(view, &observer->model), "NODE",
        "LEFT", "WAITERS", "HOLDER");
    for (size_t i = 0; detail->seen && i < observer->model.nodes_count; i++)
        detail_line(page, view, observer, i);
    if (detail->seen) draw_readers(page, view, observer);
    go_to_foot(page, view);
    add(page, view, TOP_FOOT, "Esc or Enter: back   q: quit");
}

static void draw_help(struct top_page *page, const struct top_view *view) {
    static const char *const lines[] = {
        "q, ^C          quit",
        "Enter          one lock: each node's holder, time left and waiters; Esc: back",
        "/              filter by a part of the resource's name; empty: all",
        "s              sort by the next column: waiters, resource, age, left",
        "w r a l        sort by waiters, resource, age, left;  R: the other way round",
        "p, Space       pause, go on",
        "+ -            a longer, a shorter interval",
        "arrows, PgUp, PgDn, Home, End    move the bar",
        "",
        "VOTES   whether the node's vote counts, or why not and for how much longer",
        "RTT     median of the last 9 round trips, one in each look",
        "AGE     since this holder was first seen; >: it may be older",
        "LEFT    until fewer than a majority hold it, if it is not renewed",
        "WAIT    clients in the wait queue; clients of other projects have none",
        "hand-overs    another holder than in the look before; faster ones are not seen",
        "split votes   looks in which keys were there and no token had a majority",
        "The manual says what an observer cannot see: man redlock-top.",
    };
    add(page, view, TOP_TITLE, "redlock top: help");
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++)
        add(page, view, TOP_PLAIN, "%s", lines[i]);
    go_to_foot(page, view);
    add(page, view, TOP_FOOT, "any key: back");
}

void top_draw(struct top_page *page, const struct top_observer *observer, struct top_view *view) {
    page->count = 0;
    if (view->mode == TOP_HELP) {
        draw_help(page, view);
    } else if (view->mode == TOP_DETAIL) {
        draw_detail(page, observer, view);
    } else {
        draw_head(page, observer, view);
        draw_list(page, observer, view);
        draw_foot(page, &observer->model, view);
    }
}
