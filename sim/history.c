/* SPDX-License-Identifier: BSD-2-Clause */
#include "history.h"

#include <stdio.h>
#include <stdlib.h>

#include "memory.h"

void history_init(struct history *history, unsigned clients, unsigned nodes, unsigned resources) {
    *history = (struct history){.clients = clients, .nodes = nodes, .resources = resources};
}

void history_clear(struct history *history) { history->count = 0; }

void history_free(struct history *history) {
    free(history->records);
    history->records = NULL;
    history->count = history->capacity = 0;
}

void history_add(struct history *history, const struct history_record *record) {
    if (history->count == history->capacity)
        history->records =
            memory_grow(history->records, &history->capacity, sizeof(history->records[0]), 1024);
    history->records[history->count++] = *record;
}

const char *history_kind_name(enum history_kind kind) {
    switch (kind) {
#define NAME(name, text)                                                                           \
    case HISTORY_##name: return #name;
        HISTORY_KINDS(NAME)
#undef NAME
    }
    return "unknown";
}
