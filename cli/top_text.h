/* SPDX-License-Identifier: BSD-2-Clause
 *
 * redlock top as text: lines of a screen, the plain text of --once, and JSON.
 */
#ifndef CLI_TOP_TEXT_H
#define CLI_TOP_TEXT_H

#include "top_look.h"

enum top_style { TOP_PLAIN, TOP_TITLE, TOP_HEAD, TOP_FOOT, TOP_BAD, TOP_WARN, TOP_SELECTED };

enum { TOP_LINES_MAX = 300, TOP_COLUMNS_MAX = 400, TOP_LINE_BYTES = 4 * TOP_COLUMNS_MAX + 8 };

/* The lines of a screen, none wider than it. */
struct top_page {
    size_t count;
    struct {
        enum top_style style;
        char text[TOP_LINE_BYTES];
    } lines[TOP_LINES_MAX];
};

enum top_mode { TOP_LIST, TOP_DETAIL, TOP_HELP };

/* What the person at the screen has chosen. */
struct top_view {
    size_t width, height;
    bool ascii; /* the terminal has no UTF-8 */
    enum top_mode mode;
    enum top_sort sort;
    bool reversed;
    /* The row under the bar, by its name: others come and go around it. */
    void *selected;
    size_t selected_bytes;
    size_t position, first; /* of that row, and of the first one on the screen */
    size_t rows;            /* how many there are, ... */
    size_t rows_on_page;    /* ... and on one page, as the last drawing found */
    int64_t interval_ms;
    bool paused, editing; /* editing: the filter is being typed */
    char filter[TOP_FILTER_BYTES];
};

const char *top_sort_name(enum top_sort sort);
/* "0.4s", "59s", "12m05s", "3h10m", "12d04h": at most seven columns. */
char *top_brief(char *out, size_t size, int64_t ms);
/* Copies as much of a text as fits, by columns of the terminal; cut text ends in "…" or "~". Pads
 * with spaces up to `columns`. */
void top_fit(char *out, size_t size, const char *text, size_t columns, bool ascii);

/* Moves the bar to its row, and draws. The mutex is held. */
void top_draw(struct top_page *page, const struct top_observer *observer, struct top_view *view);
/* The same without a screen: all rows, nothing cut. The mutex is held. */
void top_print(const struct top_observer *observer);
/* One object on one line. False: no memory. The mutex is held. */
bool top_print_json(const struct top_observer *observer);

#endif
