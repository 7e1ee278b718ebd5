/* SPDX-License-Identifier: BSD-2-Clause */
#include "text.h"

#include <stdio.h>
#include <stdlib.h>

#include "process/message.h"
#include "words.h"

static void print_row(const struct top_model *model, const struct top_row *row) {
    char cells[TOP_CELLS][TOP_CELL_BYTES], oldest[16];
    char *name = malloc(row->bytes * 4 + 1);
    if (name == NULL) return;
    top_row_cells(model, row, false, cells);
    printf("%-8s %7s %6s %5s  %s  %s", cells[TOP_CELL_AGE], cells[TOP_CELL_LEFT],
           cells[TOP_CELL_NODES], cells[TOP_CELL_WAIT],
           printable(name, row->bytes * 4 + 1, row->resource, row->bytes), cells[TOP_CELL_OWNER]);
    if (row->waiters > 0)
        printf(", first waiter %s", top_brief(oldest, sizeof oldest, row->oldest_ms));
    putchar('\n');
    free(name);
}

void top_print(const struct top_observer *observer) {
    const struct top_model *model = &observer->model;
    const struct top_row *rows[TOP_ROWS_MAX];
    char text[1000], trip[32], share[80];
    top_quorum_text(model, text, sizeof text);
    printf("%s\n\n%-32s %8s %-11s %10s  VOTES\n", text, "NODE", "RTT ms", "VERSION", "RECONNECTS");
    for (size_t i = 0; i < model->nodes_count; i++) {
        const struct top_node *node = &model->nodes[i];
        char reconnects[32];
        top_trip_text(node, trip, sizeof trip);
        top_votes_text(node, text, sizeof text);
        top_reconnects_text(node, reconnects, sizeof reconnects);
        printf("%-32s %8s %-11s %10s  %s\n", node->url, trip,
               node->version[0] != '\0' ? node->version : "-", reconnects, text);
    }
    top_rates_text(model, text, sizeof text);
    size_t count = top_model_sorted(model, TOP_BY_WAITERS, false, rows);
    printf("\n%s\n", text);
    if (count > 0) printf("\n%-8s %7s %6s %5s  RESOURCE, OWNER\n", "AGE", "LEFT", "NODES", "WAIT");
    for (size_t i = 0; i < count; i++) print_row(model, rows[i]);
    top_share_text(model, count, share, sizeof share);
    if (share[0] != '\0') printf("%s\n", share);
}
