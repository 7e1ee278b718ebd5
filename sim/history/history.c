/* SPDX-License-Identifier: BSD-2-Clause */
#include "history.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "memory.h"
#include "policy/ops.h"
#include "redlock.h"

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

/* ---- a record as a line of text ------------------------------------------------------------- */

/* Integers only: the line is the same wherever it is printed. */
struct line {
    char *text;
    size_t size, at;
};

__attribute__((format(printf, 2, 3))) static void put(struct line *line, const char *format, ...) {
    if (line->at >= line->size) return;
    va_list arguments;
    va_start(arguments, format);
    int bytes = vsnprintf(line->text + line->at, line->size - line->at, format, arguments);
    va_end(arguments);
    if (bytes > 0) line->at += (size_t)bytes;
}

/* Nanoseconds as milliseconds with all digits. */
static void put_ms(struct line *line, const char *before, rl_ns ns, int width) {
    const char *sign = ns < 0 ? "-" : "";
    uint64_t size = ns < 0 ? (uint64_t)0 - (uint64_t)ns : (uint64_t)ns;
    if (ns == RL_NEVER) {
        put(line, "%snever", before);
        return;
    }
    put(line, "%s%s%*" PRIu64 ".%06" PRIu64 " ms", before, sign, width, size / 1000000,
        size % 1000000);
}

static const char *op_name(unsigned op) {
#define NAME(name, subject, flags, forms, native) #name,
    static const char *const names[] = {NET_OPS(NAME)};
#undef NAME
    return op < sizeof(names) / sizeof(names[0]) ? names[op] : "?";
}

static const char *verdict_name(int verdict) {
    switch (verdict) {
#define NAME(name, value, text)                                                                    \
    case value: return &#name[sizeof("REDLOCK_VERDICT_") - 1];
        REDLOCK_VERDICTS(NAME)
#undef NAME
    default: return "?";
    }
}

static const char *result_name(int result) {
    switch (result) {
#define NAME(name, value, text)                                                                    \
    case value: return &#name[sizeof("REDLOCK_") - 1];
        REDLOCK_RESULTS(NAME)
#undef NAME
    default: return "?";
    }
}

static void put_message(struct line *line, const struct history_record *record) {
    put(line, " %s", op_name(record->op));
    if (record->kind == HISTORY_ARRIVED || record->kind == HISTORY_ANSWERED)
        put(line, " %s", verdict_name(record->result));
    if (record->value) put(line, " fence %" PRId64, record->value);
    put(line, " #%" PRIu32, record->message);
}

static void put_observed(struct line *line, const struct history_record *record) {
    if (record->value == 0) {
        put(line, " no leader (%d)", record->result);
        return;
    }
    put(line, " term %" PRId64, record->value);
    put_ms(line, " until ", record->until, 0);
}

/* The part of a record that depends on its kind. */
static void put_details(struct line *line, const struct history_record *record) {
    switch ((enum history_kind)record->kind) {
    case HISTORY_ACQUIRED:
        if (record->result) put(line, " shared");
        put_ms(line, " until ", record->until, 0);
        if (record->value) put(line, " fence %" PRId64, record->value);
        break;
    case HISTORY_RENEWED:
    case HISTORY_READER_LISTED:
    case HISTORY_KEY_SET:
    case HISTORY_KEY_EXTENDED: put_ms(line, " until ", record->until, 0); break;
    case HISTORY_EXTENDED:
        put(line, " %s", result_name(record->result));
        if (record->result == REDLOCK_OK) put_ms(line, " until ", record->until, 0);
        break;
    case HISTORY_BREAK:
    case HISTORY_BROKEN:
        if (record->result) put(line, " shared");
        if (record->value) put(line, " fence %" PRId64, record->value);
        if (record->message) put(line, " silent %" PRIu32, record->message);
        break;
    case HISTORY_OBSERVED: put_observed(line, record); break;
    case HISTORY_NOT_ACQUIRED:
    case HISTORY_RELEASED: put(line, " %s", result_name(record->result)); break;
    case HISTORY_READ_REFUSED: put(line, " fence %" PRId64, record->value); break;
    case HISTORY_READ:
    case HISTORY_WRITE_REFUSED: put(line, " value %" PRId64, record->value); break;
    case HISTORY_WRITE:
        put(line, " value %" PRId64 "%s", record->value, record->result ? " fenced" : "");
        break;
    case HISTORY_CLIENT_CLOCK:
    case HISTORY_NODE_CLOCK: put_ms(line, " by ", record->value, 0); break;
    case HISTORY_NODE_RATE: put(line, " %" PRId64 " ppm", record->value); break;
    case HISTORY_NODE_MODE: put(line, " %s", verdict_name(record->result)); break;
    case HISTORY_NODE_POLICY:
        put(line, "%s", record->value ? " volatile-random" : " noeviction");
        break;
    case HISTORY_NODE_RESTART:
        put(line, "%s",
            record->value == 0   ? " empty"
            : record->value == 1 ? " with everything"
                                 : " without its last second");
        break;
    case HISTORY_OPERATE:
        put(line, "%s",
            record->value == 1   ? " init"
            : record->value == 2 ? " add"
            : record->value == 3 ? " remove"
            : record->value == 4 ? " set-ttl-max"
                                 : " break");
        if (record->value == 4) put(line, " %" PRId64 " ms", record->until / 1000000);
        break;
    case HISTORY_OPERATED:
        put(line, " %s", result_name(record->result));
        if (record->value) put(line, " problem %" PRId64, record->value);
        break;
    case HISTORY_NODE_MEMBERS:
        put(line, " list %" PRIu32 " epoch %" PRId64 " nodes", record->message, record->value);
        for (unsigned i = 0; i < RL_NODES_MAX; i++)
            if (record->until >> i & 1) put(line, " %u", i + 1);
        break;
    case HISTORY_NODE_ELIGIBILITY:
        put(line, " %s epoch %" PRId64, record->result ? "intact" : "recovering", record->value);
        break;
    case HISTORY_VOTE:
        put(line, " fence %" PRId64 "%s", record->value, record->result ? "" : " unfit");
        break;
    case HISTORY_CUT:
        put(line, "%s",
            record->value == 1   ? " requests"
            : record->value == 2 ? " answers"
                                 : " both ways");
        break;
    case HISTORY_WOKEN:
    case HISTORY_WAKE_LOST:
        if (record->value >= 0) put(line, " rank %" PRId64, record->value);
        break;
    case HISTORY_SENT:
    case HISTORY_ARRIVED:
    case HISTORY_ANSWERED:
    case HISTORY_DROPPED: put_message(line, record); break;
    default: break;
    }
}

void history_print(const struct history_record *record, char *text, size_t size) {
    struct line line = {text, size, 0};
    if (size > 0) text[0] = '\0';
    put_ms(&line, "", record->at, 9);
    if (record->client >= 0)
        put(&line, "  %c ", 'A' + record->client);
    else
        put(&line, "    ");
    if (record->node >= 0)
        put(&line, " n%-2d", record->node + 1);
    else
        put(&line, "    ");
    put(&line, "  %s", history_kind_name((enum history_kind)record->kind));
    if (record->resource >= 0) put(&line, " r%d", record->resource + 1);
    if (record->token) put(&line, " t%" PRIu32, record->token);
    put_details(&line, record);
}

void history_print_all(const struct history *history, FILE *out) {
    char line[256];
    for (size_t i = 0; i < history->count; i++) {
        history_print(&history->records[i], line, sizeof(line));
        fprintf(out, "%s\n", line);
    }
}
