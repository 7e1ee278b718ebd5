/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Shared locks on a stock node: share.lua and its siblings. The readers of a key are listed apart
 * from it, as on a server, where the list is a sorted set with an end of its own. A list may
 * outlive its key; the next reader that takes the absent key begins a new one. */
#include <assert.h>
#include <string.h>

#include "node/inside.h"
#include "node/memory.h"

struct reader {
    struct reader *next;
    int64_t expires_ms;
    size_t bytes;
    char token[];
};

struct readers {
    struct readers *next;
    struct reader *first;
    int64_t expires_ms; /* the latest end of a reader when the list was last written */
    size_t key_bytes;
    char key[];
};

static bool equal(const char *data, size_t bytes, struct node_bytes other) {
    return bytes == other.bytes && (bytes == 0 || memcmp(data, other.data, bytes) == 0);
}

static const struct node_bytes marker = {NODE_SHARED_MARKER, sizeof NODE_SHARED_MARKER - 1};

/* ---- lists ---- */

static void drop_reader(struct reader **at) {
    struct reader *reader = *at;
    *at = reader->next;
    node_memory_give(reader);
}

static void drop_list(struct readers **at) {
    struct readers *list = *at;
    while (list->first) drop_reader(&list->first);
    *at = list->next;
    node_memory_give(list);
}

static struct readers **place_of(struct node_table *table, struct node_bytes key) {
    struct readers **at = &table->readers;
    while (*at && !equal((*at)->key, (*at)->key_bytes, key)) at = &(*at)->next;
    return at;
}

/* As a server looks it up: a request deletes a list that has ended. */
static struct readers *find(struct node_table *table, struct node_bytes key, int64_t now_ms) {
    struct readers **at = place_of(table, key), *list = *at;
    if (!list || now_ms <= list->expires_ms) return list;
    drop_list(at);
    return NULL;
}

static struct readers *make_list(struct node_table *table, struct node_bytes key) {
    struct readers *list = node_memory_take(sizeof *list + key.bytes);
    if (!list) return NULL;
    *list = (struct readers){.next = table->readers, .key_bytes = key.bytes};
    if (key.bytes) memcpy(list->key, key.data, key.bytes);
    table->readers = list;
    return list;
}

static struct reader **find_reader(struct readers *list, struct node_bytes token) {
    struct reader **at = &list->first;
    while (*at && !equal((*at)->token, (*at)->bytes, token)) at = &(*at)->next;
    return at;
}

static struct reader *make_reader(struct node_bytes token) {
    struct reader *reader = node_memory_take(sizeof *reader + token.bytes);
    if (!reader) return NULL;
    *reader = (struct reader){.bytes = token.bytes};
    if (token.bytes) memcpy(reader->token, token.data, token.bytes);
    return reader;
}

static void drop_ended(struct readers *list, int64_t now_ms) {
    for (struct reader **at = &list->first; *at;)
        if ((*at)->expires_ms <= now_ms)
            drop_reader(at);
        else
            at = &(*at)->next;
}

/* The list lives as long as its last reader; returns that end. */
static int64_t settle(struct readers *list) {
    int64_t last_ms = 0;
    for (const struct reader *reader = list->first; reader; reader = reader->next)
        if (reader->expires_ms > last_ms) last_ms = reader->expires_ms;
    return list->expires_ms = last_ms;
}

/* ---- requests ---- */

/* A key without a TTL gets one: a lock must end. */
static void prolong(struct node_table *table, struct entry *entry, int64_t last_ms) {
    int64_t end_ms = table_end(table, entry);
    if (end_ms == INT64_MAX || end_ms < last_ms) table_set_end(table, entry, last_ms);
}

static int64_t *stripe_of(const struct node_table *table, const struct node_share *share) {
    int64_t *numbers = guarded_highest(table, share->nonce);
    return numbers ? &numbers[share->stripe] : NULL;
}

/* The reader's own list begins with the key. NULL: no memory, and no reader was added. */
static struct reader *listed(struct node_table *table, const struct node_share *share, bool held,
                             int64_t now_ms, struct readers **list) {
    *list = find(table, share->key, now_ms);
    if (*list && !held) {
        drop_list(place_of(table, share->key));
        *list = NULL;
    }
    if (!*list && !(*list = make_list(table, share->key))) return NULL;
    struct reader **mine = find_reader(*list, share->reader);
    if (!*mine && !(*mine = make_reader(share->reader))) {
        if (!(*list)->first) drop_list(place_of(table, share->key));
        return NULL;
    }
    return *mine;
}

enum node_answer node_share(struct node_table *table, const struct node_share *share,
                            int64_t now_ms, int64_t *fence) {
    int64_t *stripe = share->guarded ? stripe_of(table, share) : NULL;
    struct readers *list;
    assert(!table->options.native && share->ttl_ms > 0);
    if (share->guarded && !stripe) return NODE_GONE;
    struct entry *entry = table_find(table, share->key, now_ms, WRITES);
    const bool held = entry != NULL;
    if (held && (entry->other_type || !table_holds(entry, marker))) return NODE_DENIED;
    struct reader *mine = listed(table, share, held, now_ms, &list);
    if (!mine) return NODE_NO_MEMORY;
    const int64_t end_ms = now_ms + share->ttl_ms;
    if (mine->expires_ms < end_ms) mine->expires_ms = end_ms;
    drop_ended(list, now_ms);
    const int64_t last_ms = settle(list);
    if (!held) {
        if (node_acquire(table, &share->key, 1, marker, share->ttl_ms, now_ms) != NODE_GRANTED) {
            drop_list(place_of(table, share->key));
            return NODE_NO_MEMORY;
        }
        entry = table_find(table, share->key, now_ms, LOOKS);
    }
    prolong(table, entry, last_ms);
    if (stripe && *stripe < share->fence) *stripe = share->fence;
    *fence = stripe ? *stripe : 0;
    return NODE_GRANTED;
}

/* GRANTED: the key holds the marker, or the reader's own token: it was a writer. */
static enum node_answer look(struct node_table *table, const struct node_share *share,
                             int64_t now_ms, struct entry **entry) {
    *entry = table_find(table, share->key, now_ms, WRITES);
    if (!*entry) return NODE_ABSENT;
    if ((*entry)->other_type) return NODE_WRONGTYPE;
    const bool ours = table_holds(*entry, marker) || table_holds(*entry, share->reader);
    return ours ? NODE_GRANTED : NODE_DENIED;
}

/* The marker takes the place of the writer's token, and the writer is the only reader. Never
 * shortens. */
static enum node_answer downgrade(struct node_table *table, const struct node_share *share,
                                  int64_t now_ms, struct entry *entry) {
    struct readers *list;
    const int64_t before_ms = table_end(table, entry);
    struct reader *mine = listed(table, share, false, now_ms, &list);
    if (!mine) return NODE_NO_MEMORY;
    mine->expires_ms = now_ms + share->ttl_ms;
    if (before_ms != INT64_MAX && before_ms > mine->expires_ms) mine->expires_ms = before_ms;
    const int64_t left_ms = settle(list) - now_ms;
    if (node_set(table, share->key, marker, left_ms, now_ms) == NODE_GRANTED) return NODE_GRANTED;
    drop_list(place_of(table, share->key));
    return NODE_NO_MEMORY;
}

enum node_answer node_share_extend(struct node_table *table, const struct node_share *share,
                                   int64_t now_ms) {
    int64_t *stripe = share->guarded ? stripe_of(table, share) : NULL;
    struct entry *entry;
    assert(!table->options.native && share->ttl_ms > 0);
    if (share->guarded && !stripe) return NODE_GONE;
    enum node_answer answer = look(table, share, now_ms, &entry);
    if (answer != NODE_GRANTED) return answer;
    if (table_holds(entry, share->reader)) {
        answer = downgrade(table, share, now_ms, entry);
        if (answer != NODE_GRANTED) return answer;
        entry = table_find(table, share->key, now_ms, LOOKS);
    }
    struct readers *list = find(table, share->key, now_ms);
    struct reader *mine = list ? *find_reader(list, share->reader) : NULL;
    if (!mine || mine->expires_ms <= now_ms) return NODE_ABSENT;
    const int64_t end_ms = now_ms + share->ttl_ms;
    if (mine->expires_ms < end_ms) mine->expires_ms = end_ms;
    drop_ended(list, now_ms);
    prolong(table, entry, settle(list));
    if (stripe && *stripe < share->fence) *stripe = share->fence;
    return NODE_GRANTED;
}

enum node_answer node_share_release(struct node_table *table, const struct node_share *share,
                                    int64_t now_ms) {
    struct entry *entry;
    assert(!table->options.native);
    enum node_answer answer = look(table, share, now_ms, &entry);
    if (answer != NODE_GRANTED) return answer;
    if (table_holds(entry, share->reader)) {
        table_delete(table, entry);
        return NODE_GRANTED;
    }
    struct readers *list = find(table, share->key, now_ms);
    if (!list) return NODE_ABSENT;
    const bool alone = list->first && !list->first->next;
    if (!alone)
        drop_ended(list, now_ms); /* the only one is here until the key is gone, at its end */
    struct reader **mine = find_reader(list, share->reader);
    const bool was_listed = *mine != NULL;
    if (was_listed) drop_reader(mine);
    drop_ended(list, now_ms);
    const bool others = list->first != NULL;
    if (was_listed && others) table_set_end(table, entry, settle(list));
    if (was_listed && !others) table_delete(table, entry);
    if (!others) drop_list(place_of(table, share->key));
    return was_listed ? NODE_GRANTED : NODE_ABSENT;
}

void node_readers(const struct node_table *table, struct node_bytes key, int64_t now_ms,
                  node_reader_fn *visit, void *context) {
    const struct readers *list = table->readers;
    while (list && !equal(list->key, list->key_bytes, key)) list = list->next;
    for (const struct reader *reader = list ? list->first : NULL; reader; reader = reader->next)
        if (reader->expires_ms > now_ms)
            visit(context, (struct node_bytes){reader->token, reader->bytes}, reader->expires_ms);
}

static void count_reader(void *context, struct node_bytes reader, int64_t expires_ms) {
    (void)reader;
    (void)expires_ms;
    ++*(int64_t *)context;
}

enum node_answer node_readers_count(struct node_table *table, struct node_bytes key, int64_t now_ms,
                                    int64_t *count) {
    const struct entry *entry = table_find(table, key, now_ms, LOOKS);
    if (!entry) return NODE_ABSENT;
    if (entry->other_type) return NODE_WRONGTYPE;
    if (!table_holds(entry, marker)) return NODE_DENIED;
    *count = 0;
    if (find(table, key, now_ms)) node_readers(table, key, now_ms, count_reader, count);
    return NODE_GRANTED;
}

/* ---- the lists of all keys ---- */

size_t node_lists(const struct node_table *table) {
    size_t count = 0;
    for (const struct readers *list = table->readers; list; list = list->next) count++;
    return count;
}

void node_lists_expire(struct node_table *table, int64_t now_ms, bool loading) {
    const bool at_its_end = !loading && table->options.ends != NODE_ENDS_AFTER;
    for (struct readers **at = &table->readers; *at;)
        if (now_ms > (*at)->expires_ms || (at_its_end && now_ms == (*at)->expires_ms))
            drop_list(at);
        else
            at = &(*at)->next;
}

void shared_flush(struct node_table *table) {
    while (table->readers) drop_list(&table->readers);
}

bool shared_copy(struct node_table *to, const struct node_table *from) {
    shared_flush(to);
    for (const struct readers *list = from->readers; list; list = list->next) {
        struct readers *copy = make_list(to, (struct node_bytes){list->key, list->key_bytes});
        if (!copy) return false;
        copy->expires_ms = list->expires_ms;
        struct reader **at = &copy->first;
        for (const struct reader *reader = list->first; reader; reader = reader->next) {
            *at = make_reader((struct node_bytes){reader->token, reader->bytes});
            if (!*at) return false;
            (*at)->expires_ms = reader->expires_ms;
            at = &(*at)->next;
        }
    }
    return true;
}
