/* SPDX-License-Identifier: BSD-2-Clause
 *
 * redlock top as lines of a screen: the list, one lock, the help.
 */
#ifndef TOP_PAGE_H
#define TOP_PAGE_H

#include "look.h"

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

/* Moves the bar to its row, and draws. The mutex is held. */
void top_draw(struct top_page *page, const struct top_observer *observer, struct top_view *view);

#endif
