/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What the model says, in words: for a screen and for plain text. Foreign bytes are made printable.
 */
#ifndef TOP_WORDS_H
#define TOP_WORDS_H

#include "model.h"

const char *top_sort_name(enum top_sort sort);
/* "0.4s", "59s", "12m05s", "3h10m", "12d04h": at most seven columns. */
char *top_brief(char *out, size_t size, int64_t ms);

/* `ascii`: the terminal has no UTF-8, and shows a question mark instead. */
size_t top_columns(const char *text, bool ascii);
/* Copies as much of a text as fits, by columns of the terminal; cut text ends in "…" or "~". Pads
 * with spaces up to `columns`. */
void top_fit(char *out, size_t size, const char *text, size_t columns, bool ascii);

size_t top_votes_needed(const struct top_model *model);
void top_votes_text(const struct top_node *node, char *out, size_t size);
void top_trip_text(const struct top_node *node, char *out, size_t size);
void top_reconnects_text(const struct top_node *node, char *out, size_t size);
void top_quorum_text(const struct top_model *model, char *out, size_t size);
/* Whether no lock can be taken now. */
bool top_lacks_quorum(const struct top_model *model);
/* So many nodes refuse this user a look that a lock may not be seen. */
bool top_lacks_sight(const struct top_model *model);
void top_rates_text(const struct top_model *model, char *out, size_t size);
/* "showing 1000 of about 100000"; "" if all are shown. */
void top_share_text(const struct top_model *model, size_t rows, char *out, size_t size);

/* The columns of a lock. */
enum {
    TOP_CELL_RESOURCE,
    TOP_CELL_OWNER,
    TOP_CELL_AGE,
    TOP_CELL_LEFT,
    TOP_CELL_NODES,
    TOP_CELL_WAIT,
    TOP_CELLS
};
enum { TOP_CELL_BYTES = 700 };
void top_row_cells(const struct top_model *model, const struct top_row *row, bool ascii,
                   char cells[TOP_CELLS][TOP_CELL_BYTES]);

#endif
