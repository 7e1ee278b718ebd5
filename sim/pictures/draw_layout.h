/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The position of everything in a picture, in whole pixels.
 */
#ifndef SIM_DRAW_LAYOUT_H
#define SIM_DRAW_LAYOUT_H

#include "draw.h"

enum draw_row_kind { DRAW_CLIENT, DRAW_NODE, DRAW_REGISTER };

struct draw_row {
    enum draw_row_kind kind;
    int index;   /* which client, node, resource */
    int words_y; /* baseline of the labels */
    int bar_y, bar_h;
};

enum draw_span_kind {
    DRAW_ASKING,
    DRAW_HOLDS,
    DRAW_KEY,
    DRAW_DOWN,
    DRAW_STOPPED,
    DRAW_CUT,
    DRAW_VALUE
};

struct draw_span {
    enum draw_span_kind kind;
    int row;
    int client; /* the client; -1: a stranger's */
    int resource;
    rl_ns from, until;
    int64_t value; /* VALUE: the register's; CUT: 1 requests, 2 answers, 3 both */
    bool open;     /* still so at the end of the picture */
    bool torn;     /* KEY: lost before its TTL */
    bool shared;   /* KEY: readers stand behind it */
};

struct draw_label {
    size_t event; /* its number is one more */
    int row, x;
};

struct draw_layout {
    const struct picture *picture;
    struct story story;
    struct draw_row rows[64];
    int rows_count;
    int upper_clients; /* clients above the nodes; the others are below */
    struct draw_span *spans;
    size_t spans_count, spans_capacity;
    rl_ns *times; /* columns: the times of events ... */
    int *xs;      /* ... and their positions */
    size_t columns, columns_capacity;
    struct draw_label *labels;
    size_t labels_count;
    bool words; /* false for thumbnails */
    int left, right, axis_y, top, bottom, height;
};

void draw_layout_make(struct draw_layout *layout, const struct picture *picture, bool words);
void draw_layout_free(struct draw_layout *layout);
int draw_x(const struct draw_layout *layout, rl_ns at);
/* -1: no such row */
int draw_row_of(const struct draw_layout *layout, enum draw_row_kind kind, int index);
/* A message has an arrow if it changes something; a question for a TTL has none. */
bool draw_message(const struct history_record *record);
bool draw_wake(const struct history_record *record);
/* The maximum width of a text in pixels, in a font of this size. */
int draw_text_width(const char *text, int font);

/* The rows of a picture between its axis and its lower edge, as SVG elements. */
void draw_rows(FILE *out, const struct draw_layout *layout);
void draw_styles(FILE *out);
void draw_exchange(FILE *out, const struct draw_layout *layout,
                   const struct story_exchange *exchange);
void draw_hint(FILE *out, const struct draw_layout *layout, const struct history_record *hint);
struct draw_colour {
    char name[24];
};
struct draw_colour draw_colour(int client); /* -1: a stranger's */
/* Writes the rows as an <svg> element of their own. */
void draw_plot(FILE *out, const struct draw_layout *layout);
int draw_plot_width(const struct draw_layout *layout); /* pixels */

#endif
