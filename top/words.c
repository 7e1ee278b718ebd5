/* SPDX-License-Identifier: BSD-2-Clause */
#include "words.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

#include "explain/majority.h"
#include "frame/session.h"
#include "process/message.h"

/* ---- words ---- */

const char *top_sort_name(enum top_sort sort) {
    static const char *const names[TOP_SORTS] = {[TOP_BY_WAITERS] = "waiters",
                                                 [TOP_BY_RESOURCE] = "resource",
                                                 [TOP_BY_AGE] = "age",
                                                 [TOP_BY_LEFT] = "left"};
    return names[sort];
}

char *top_brief(char *out, size_t size, int64_t ms) {
    const int64_t s = ms / 1000;
    if (ms < 10000 && (ms == 0 || ms % 1000 != 0)) {
        snprintf(out, size, "%" PRId64 ".%" PRId64 "s", s, ms / 100 % 10);
    } else if (s < 100) {
        snprintf(out, size, "%" PRId64 "s", s);
    } else if (s < 6000) {
        snprintf(out, size, "%" PRId64 "m%02" PRId64 "s", s / 60, s % 60);
    } else if (s < 172800) {
        snprintf(out, size, "%" PRId64 "h%02" PRId64 "m", s / 3600, s / 60 % 60);
    } else {
        snprintf(out, size, "%" PRId64 "d%02" PRId64 "h", s / 86400, s / 3600 % 24);
    }
    return out;
}

static wchar_t point_of(const unsigned char *at, size_t length) {
    static const unsigned char masks[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
    uint32_t point = at[0] & masks[length];
    for (size_t i = 1; i < length; i++) point = point << 6 | (at[i] & 0x3f);
    return (wchar_t)point;
}

/* One character of UTF-8: how it is written, and how many columns it takes. What the terminal
 * cannot show is a question mark. */
static size_t character(const char *at, bool ascii, const char **written, size_t *bytes,
                        size_t *columns) {
    const unsigned char *raw = (const unsigned char *)at;
    size_t length = utf8_length(raw, strlen(at));
    int width = length == 0 || raw[0] < ' ' || raw[0] == 0x7f ? -1
                : length == 1                                 ? 1
                                                              : wcwidth(point_of(raw, length));
    if (length == 0) length = 1;
    *written = at;
    *bytes = length;
    if (width < 0 || (ascii && length > 1)) {
        *written = "?";
        *bytes = 1;
        width = 1;
    }
    *columns = (size_t)width;
    return length;
}

size_t top_columns(const char *text, bool ascii) {
    size_t columns = 0, width, bytes;
    const char *written;
    for (const char *at = text; *at != '\0'; columns += width)
        at += character(at, ascii, &written, &bytes, &width);
    return columns;
}

void top_fit(char *out, size_t size, const char *text, size_t columns, bool ascii) {
    const bool cut = top_columns(text, ascii) > columns;
    const size_t most = cut && columns > 0 ? columns - 1 : columns;
    size_t used = 0, at_column = 0;
    for (const char *at = text; *at != '\0';) {
        const char *written;
        size_t bytes, width, length = character(at, ascii, &written, &bytes, &width);
        if (at_column + width > most || used + bytes + 4 > size) break;
        memcpy(out + used, written, bytes);
        used += bytes;
        at_column += width;
        at += length;
    }
    if (cut && columns > 0) {
        const char *mark = ascii ? "~" : "…";
        memcpy(out + used, mark, strlen(mark));
        used += strlen(mark);
        at_column++;
    }
    while (at_column++ < columns && used + 1 < size) out[used++] = ' ';
    out[used] = '\0';
}

/* ---- what the model says ---- */

void top_votes_text(const struct top_node *node, char *out, size_t size) {
    char left[16];
    if (node->verdict == REDLOCK_VERDICT_GRANTED) {
        snprintf(out, size, "yes%s%s", node->unlisted[0] != '\0' ? "; left out of the list: " : "",
                 node->unlisted);
    } else if (node->verdict == REDLOCK_VERDICT_RECOVERING) {
        snprintf(out, size, "no: recovering%s%s%s", node->recovering_ms >= 0 ? ", " : "",
                 node->recovering_ms >= 0 ? top_brief(left, sizeof left, node->recovering_ms) : "",
                 node->recovering_ms >= 0 ? " left" : "");
    } else {
        char reason[sizeof node->reason * 4];
        snprintf(out, size, "no: %s",
                 printable(reason, sizeof reason, node->reason, strlen(node->reason)));
    }
}

void top_trip_text(const struct top_node *node, char *out, size_t size) {
    const int64_t trip_us = top_node_trip_us(node);
    if (trip_us < 0) {
        snprintf(out, size, "-");
    } else {
        snprintf(out, size, "%" PRId64 ".%02" PRId64, trip_us / 1000, trip_us / 10 % 100);
    }
}

void top_reconnects_text(const struct top_node *node, char *out, size_t size) {
    if (node->reconnects < 0)
        snprintf(out, size, "-");
    else
        snprintf(out, size, "%" PRId64, node->reconnects);
}

size_t top_votes_needed(const struct top_model *model) {
    const struct top_quorum *quorum = &model->quorum;
    return quorum->status.known ? quorum->status.votes_needed : quorum_of(model->nodes_count);
}

void top_quorum_text(const struct top_model *model, char *out, size_t size) {
    const struct top_quorum *quorum = &model->quorum;
    const struct redlock_quorum_status *status = &quorum->status;
    char ttl_max[16];
    if (quorum->two_quorums) {
        snprintf(out, size, "the nodes belong to two quorums: redlock doctor shows which");
    } else if (quorum->mode != REDLOCK_MODE_GUARDED) {
        snprintf(out, size, "%s: %zu of %zu nodes answer, %zu needed",
                 quorum->mode != REDLOCK_MODE_AUTO ? "classic"
                 : top_model_voters(model) == 0    ? "auto"
                                                   : "classic (auto: no record seen)",
                 top_model_voters(model), model->nodes_count, top_votes_needed(model));
    } else if (!status->known) {
        snprintf(out, size, "guarded: no record seen, %zu votes needed", top_votes_needed(model));
    } else if (quorum->unaccepted) {
        snprintf(out, size,
                 "guarded: %zu of %zu intact, but too few nodes of the list carry quorum %s: "
                 "redlock doctor",
                 status->intact, status->members, status->id);
    } else {
        snprintf(out, size,
                 "guarded: %zu of %zu intact, %zu needed, ttl_max %s, epoch %" PRIu32
                 "%s, quorum %s",
                 status->intact, status->members, status->votes_needed,
                 top_brief(ttl_max, sizeof ttl_max, status->ttl_ms_max), status->epoch,
                 status->settled                         ? ""
                 : model->nodes_count < status->members  ? " (not all are listed)"
                 : status->intact < status->votes_needed ? "" /* too few answer to know */
                                                         : " (not settled)",
                 status->id);
    }
}

bool top_lacks_quorum(const struct top_model *model) {
    const struct redlock_quorum_status *status = &model->quorum.status;
    if (model->quorum.two_quorums || model->quorum.unaccepted) return true;
    return (status->known ? status->intact : top_model_voters(model)) < top_votes_needed(model);
}

bool top_lacks_sight(const struct top_model *model) {
    size_t refused = 0;
    for (size_t i = 0; i < model->nodes_count; i++) refused += model->nodes[i].unlisted[0] != '\0';
    return refused > 0 && model->nodes_count - refused < quorum_of(model->nodes_count);
}

static int64_t waiters_of(const struct top_model *model) {
    int64_t waiters = 0;
    for (size_t i = 0; i < model->rows_count; i++)
        if (model->rows[i]->waiters > 0) waiters += model->rows[i]->waiters;
    return waiters;
}

void top_rates_text(const struct top_model *model, char *out, size_t size) {
    const struct top_rates rates = top_model_rates(model);
    char over[16];
    size_t held = 0;
    if (top_lacks_sight(model)) {
        snprintf(out, size, "locks are not seen: too few nodes let this user see theirs");
        return;
    }
    for (size_t i = 0; i < model->rows_count; i++)
        held += top_row_is_shown(model->rows[i]) && model->rows[i]->verdict == MAJORITY_HELD;
    int used = snprintf(out, size, "%zu held, %" PRId64 " waiting", held, waiters_of(model));
    if (rates.over_ms == 0) return;
    snprintf(out + used, size - (size_t)used, ", %.1f hand-overs/s, %.1f split votes/s (last %s)",
             rates.hand_overs, rates.splits, top_brief(over, sizeof over, rates.over_ms));
}

/* "" if all are shown. */
void top_share_text(const struct top_model *model, size_t rows, char *out, size_t size) {
    out[0] = '\0';
    if (!(model->left_out || model->left_out_before)) return;
    if (model->keys < 0)
        snprintf(out, size, "showing %zu, there are more", rows);
    else
        snprintf(out, size, "showing %zu of about %" PRId64, rows, model->keys);
}

/* ---- the columns of a lock ---- */

static void holder_cell(const struct top_row *row, bool ascii, char *out, size_t size) {
    if (row->verdict != MAJORITY_HELD) {
        static const char *const states[] = {[MAJORITY_FREE] = "(free)",
                                             [MAJORITY_SPLIT] = "(split: no majority)",
                                             [MAJORITY_UNKNOWN] = "(too few nodes answer)",
                                             [MAJORITY_FOREIGN] = "(not a lock)",
                                             [MAJORITY_HELD] = ""};
        snprintf(out, size, "%s", states[row->verdict]);
    } else if (row->shared) {
        char text[64];
        snprintf(out, size, "shared: %s", readers_text(row->readers, text, sizeof text));
    } else if (row->owner_bytes > 0) {
        printable(out, size, row->owner, row->owner_bytes);
    } else {
        char head[TOKEN_SHOWN_MAX * 4 + 1];
        snprintf(out, size, "token %s%s", printable(head, sizeof head, row->head, row->head_bytes),
                 ascii ? "..." : "…");
    }
}

void top_row_cells(const struct top_model *model, const struct top_row *row, bool ascii,
                   char cells[TOP_CELLS][TOP_CELL_BYTES]) {
    char brief[16];
    printable(cells[TOP_CELL_RESOURCE], TOP_CELL_BYTES, row->resource, row->bytes);
    holder_cell(row, ascii, cells[TOP_CELL_OWNER], TOP_CELL_BYTES);
    snprintf(cells[TOP_CELL_AGE], TOP_CELL_BYTES, "-");
    snprintf(cells[TOP_CELL_LEFT], TOP_CELL_BYTES, "-");
    snprintf(cells[TOP_CELL_NODES], TOP_CELL_BYTES, "-");
    snprintf(cells[TOP_CELL_WAIT], TOP_CELL_BYTES, "-");
    if (row->verdict == MAJORITY_HELD) {
        snprintf(cells[TOP_CELL_AGE], TOP_CELL_BYTES, "%s%s", row->is_older ? ">" : "",
                 top_brief(brief, sizeof brief, top_row_age_ms(model, row)));
        snprintf(cells[TOP_CELL_LEFT], TOP_CELL_BYTES, "%s",
                 row->remaining_ms < 0 ? "no end"
                                       : top_brief(brief, sizeof brief, row->remaining_ms));
        snprintf(cells[TOP_CELL_NODES], TOP_CELL_BYTES, "%zu/%zu", row->votes, model->nodes_count);
    }
    if (row->waiters >= 0) snprintf(cells[TOP_CELL_WAIT], TOP_CELL_BYTES, "%" PRId64, row->waiters);
}
