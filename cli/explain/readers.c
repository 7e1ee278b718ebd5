/* SPDX-License-Identifier: BSD-2-Clause */
#include "readers.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "config/duration.h"
#include "majority.h"

/* A reader on one node. */
struct entry {
    size_t at, bytes; /* its token, in `bytes` */
    size_t node;
    int64_t remaining_ms;
};

struct gathering {
    struct entry *entries;
    size_t count, room;
    unsigned char *bytes;
    size_t bytes_used, bytes_room;
    uint32_t nodes; /* that count, by bits */
    bool failed;
};

/* ---- gathering ---- */

static bool grow(void **block, size_t *room, size_t needed, size_t size) {
    if (needed <= *room) return true;
    const size_t larger = needed * 2 < 64 ? 64 : needed * 2;
    void *grown = realloc(*block, larger * size);
    if (grown == NULL) return false;
    *block = grown;
    *room = larger;
    return true;
}

static void on_reader(void *context, size_t resource, size_t node, const void *token, size_t bytes,
                      int64_t remaining_ms) {
    struct gathering *all = context;
    (void)resource;
    if (all->failed || !(all->nodes >> node & 1)) return;
    void *entries = all->entries, *text = all->bytes;
    all->failed = !grow(&entries, &all->room, all->count + 1, sizeof *all->entries) ||
                  !grow(&text, &all->bytes_room, all->bytes_used + bytes + 1, 1);
    all->entries = entries;
    all->bytes = text;
    if (all->failed) return;
    if (bytes > 0) memcpy(all->bytes + all->bytes_used, token, bytes);
    all->entries[all->count++] = (struct entry){all->bytes_used, bytes, node, remaining_ms};
    all->bytes_used += bytes;
}

int reader_compare(const struct reader *a, const struct reader *b) {
    return compare_bytes(a->token, a->bytes, b->token, b->bytes);
}

static int compare_tokens(const struct gathering *all, const struct entry *a,
                          const struct entry *b) {
    return compare_bytes(all->bytes + a->at, a->bytes, all->bytes + b->at, b->bytes);
}

/* The same reader in a row, and of each node the latest end first. */
static int by_token(const void *a, const void *b, void *context) {
    const struct entry *x = a, *y = b;
    const int order = compare_tokens(context, x, y);
    if (order != 0) return order;
    if (x->node != y->node) return x->node < y->node ? -1 : 1;
    return x->remaining_ms > y->remaining_ms ? -1 : x->remaining_ms < y->remaining_ms;
}

static int longest_first(const void *a, const void *b) {
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x > y ? -1 : x < y;
}

static int in_order(const void *a, const void *b) {
    const struct reader *x = a, *y = b;
    if (x->holds != y->holds) return x->holds ? -1 : 1;
    if (x->remaining_ms != y->remaining_ms) return x->remaining_ms < y->remaining_ms ? -1 : 1;
    return reader_compare(x, y);
}

/* The entries from `first` to `end` are of one reader. */
static struct reader put_together(const struct gathering *all, size_t first, size_t end,
                                  size_t quorum) {
    int64_t remaining[REDLOCK_NODES_MAX];
    struct reader reader = {.token = all->bytes + all->entries[first].at,
                            .bytes = all->entries[first].bytes};
    for (size_t i = first; i < end; i++) {
        const bool again = i > first && all->entries[i].node == all->entries[i - 1].node;
        if (!again) remaining[reader.nodes++] = all->entries[i].remaining_ms;
    }
    qsort(remaining, reader.nodes, sizeof remaining[0], longest_first);
    reader.holds = reader.nodes >= quorum;
    reader.remaining_ms = remaining[reader.holds ? quorum - 1 : 0];
    return reader;
}

static bool list_readers(struct gathering *all, size_t quorum, struct readers *readers) {
    if (all->count == 0) return true;
    readers->list = calloc(all->count, sizeof *readers->list);
    if (readers->list == NULL) return false;
    qsort_r(all->entries, all->count, sizeof *all->entries, by_token, all);
    for (size_t i = 0, end; i < all->count; i = end) {
        for (end = i + 1; end < all->count; end++)
            if (compare_tokens(all, &all->entries[i], &all->entries[end]) != 0) break;
        readers->list[readers->count++] = put_together(all, i, end, quorum);
    }
    qsort(readers->list, readers->count, sizeof *readers->list, in_order);
    return true;
}

/* ---- what there is ---- */

/* Complete: every reader that a node counts is listed. */
static void count_readers(struct readers *readers, size_t count, size_t most) {
    size_t holders = 0;
    readers->total = readers_total(readers->views, count);
    for (size_t i = 0; i < count; i++) {
        const struct redlock_readers_view *view = &readers->views[i];
        if (view->verdict == REDLOCK_VERDICT_GRANTED)
            readers->cut = readers->cut || view->readers > (int64_t)most;
        else if (readers->total < 0 && !readers->reason)
            readers->reason = view->verdict;
    }
    for (size_t i = 0; i < readers->count; i++) holders += readers->list[i].holds;
    if (!readers->cut && readers->total >= 0) readers->total = (int64_t)holders;
}

bool readers_take(struct session *session, const void *resource, size_t bytes,
                  const struct redlock_view *views, size_t count, size_t most,
                  struct readers *readers) {
    const struct redlock_bytes name = {resource, bytes};
    struct gathering all = {.count = 0};
    *readers = (struct readers){.total = -1};
    for (size_t i = 0; i < count; i++)
        if (is_shared(&views[i])) all.nodes |= UINT32_C(1) << i;
    if (all.nodes == 0) return true;
    const int result =
        redlock_readers(session->client, &name, 1, most, on_reader, &all, readers->views);
    const bool seen = result == REDLOCK_OK || result == REDLOCK_NO_QUORUM;
    for (size_t i = 0; i < count; i++)
        if (!(all.nodes >> i & 1)) readers->views[i] = (struct redlock_readers_view){0};
    readers->bytes = all.bytes;
    const bool done = seen && !all.failed && list_readers(&all, quorum_of(count), readers);
    free(all.entries);
    count_readers(readers, count, most);
    if (!done) readers_free(readers);
    return done;
}

void readers_free(struct readers *readers) {
    free(readers->list);
    free(readers->bytes);
    *readers = (struct readers){.total = -1};
}

size_t readers_wanted(const struct session *session, bool named) {
    if (session->settings->look.all || session->settings->json) return REDLOCK_READERS_MAX;
    return named ? READERS_ASKED : 0;
}

/* ---- in words ---- */

void reader_view(const struct reader *reader, struct redlock_view *view) {
    *view = (struct redlock_view){
        .verdict = REDLOCK_VERDICT_GRANTED,
        .remaining_ms = reader->remaining_ms,
        .token_bytes = reader->bytes < sizeof view->token ? reader->bytes : sizeof view->token};
    if (view->token_bytes > 0) memcpy(view->token, reader->token, view->token_bytes);
}

char *reader_text(const struct reader *reader, bool whole, char *out, size_t size) {
    struct redlock_view view;
    reader_view(reader, &view);
    return holder_text(&view, whole, out, size);
}

void readers_print(const struct session *session, const struct readers *readers, size_t nodes,
                   FILE *out) {
    const bool all = session->settings->look.all;
    const size_t most = all || readers->count < READERS_SHOWN ? readers->count : READERS_SHOWN;
    size_t holders = 0;
    for (size_t i = 0; i < most; i++) {
        const struct reader *reader = &readers->list[i];
        char who[REDLOCK_TOKEN_BYTES_MAX * 9], left[64];
        fprintf(out, "  reader %s, ends in %s (%zu of %zu nodes%s)\n",
                reader_text(reader, session->settings->look.tokens, who, sizeof who),
                duration_text(left, sizeof left, reader->remaining_ms), reader->nodes, nodes,
                reader->holds ? "" : ": does not hold it");
        holders += reader->holds;
    }
    if (readers->total > (int64_t)holders && most > 0)
        fprintf(out, "  and %" PRId64 " more; --all lists them\n",
                readers->total - (int64_t)holders);
    if (readers->total < 0 && readers->reason != 0)
        fprintf(out, "  the readers are not known: %s\n", redlock_verdict_text(readers->reason));
}

json_t *readers_json(const struct session *session, const struct readers *readers) {
    json_t *list = json_array();
    for (size_t i = 0; i < readers->count; i++) {
        const struct reader *reader = &readers->list[i];
        char text[REDLOCK_TOKEN_BYTES_MAX * 4 + 8];
        struct redlock_view view;
        reader_view(reader, &view);
        json_t *object = json_object();
        owner_text(&view, text, sizeof text);
        if (text[0] != '\0') json_object_set_new(object, "owner", json_string(text));
        json_object_set_new(
            object, "token",
            json_string(token_text(&view, session->settings->look.tokens, text, sizeof text)));
        json_object_set_new(object, "remaining_ms", json_integer(reader->remaining_ms));
        json_object_set_new(object, "nodes", json_integer((json_int_t)reader->nodes));
        json_object_set_new(object, "holds", json_boolean(reader->holds));
        json_array_append_new(list, object);
    }
    return list;
}
