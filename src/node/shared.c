/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Shared locks: share.lua and its siblings. The readers of a key are listed apart from it.
 *
 * In a stock table it is as on a server, where the list is a sorted set with an end of its own: it
 * may outlive its key, and the next reader that takes the absent key begins a new one. In a native
 * table a list goes with its key, and its readers end by the table's clock. */
#include <assert.h>

#include "node/inside.h"

static const struct node_bytes marker = {NODE_SHARED_MARKER, sizeof NODE_SHARED_MARKER - 1};

/* As a server looks it up: a request deletes a list that has ended. In a native table a list goes
 * with its key. */
static struct readers *find(struct node_table *table, struct node_bytes key, int64_t now_ms) {
    struct readers *list = lists_find(&table->readers, key);
    if (!list || table->options.native || now_ms <= list->expires_ms) return list;
    lists_drop(&table->readers, list);
    return NULL;
}

/* The list lives as long as its last reader: it has one. Returns that end. */
static int64_t settle(struct readers *list) { return list->expires_ms = list->last->expires_ms; }

void shared_entry_goes(struct node_table *table, const struct entry *entry, struct node_bytes key) {
    if (!table->readers.first || !table_holds(entry, marker)) return;
    struct readers *list = lists_find(&table->readers, key);
    if (list) lists_drop(&table->readers, list);
}

/* ---- requests ---- */

/* A key without a TTL gets one: a lock must end. */
static void prolong(struct node_table *table, struct entry *entry, int64_t last_ms) {
    int64_t end_ms = table_end(table, entry);
    if (end_ms == INT64_MAX || end_ms < last_ms) table_set_end(table, entry, last_ms);
}

/* Native: whether there is room for one more reader. Those that are listed may always stay. */
static bool fits(const struct node_table *table, const struct node_share *share) {
    const size_t most = table->options.bytes_max;
    return most == 0 ||
           node_bytes_locked(table) +
                   lists_bytes_more(&table->readers, share->key.bytes, share->reader.bytes) <=
               most;
}

/* The reader's place, for at least as long as before. The list begins with the key. NULL: no
 * memory, and no reader was added. */
static struct reader *listed(struct node_table *table, const struct node_share *share, bool held,
                             int64_t now_ms, int64_t end_ms) {
    struct readers *list = find(table, share->key, now_ms);
    if (list && !held) {
        lists_drop(&table->readers, list);
        list = NULL;
    }
    struct reader *mine = list ? lists_reader(&table->readers, list, share->reader) : NULL;
    if (mine && mine->expires_ms < end_ms) lists_move_reader(mine, end_ms);
    if (mine) return mine;
    if (!list && !(list = lists_add(&table->readers, share->key))) return NULL;
    mine = lists_add_reader(&table->readers, list, share->reader, end_ms);
    if (!list->first) lists_drop(&table->readers, list);
    return mine;
}

/* A key that lives longer than all that are listed has a reader who is not: the list was deleted,
 * or the key is what a native node has left. */
static bool lists_all(struct node_table *table, const struct node_share *share,
                      const struct entry *entry, int64_t now_ms) {
    const struct readers *list = find(table, share->key, now_ms);
    if (!list) return false;
    const int64_t end_ms = table_end(table, entry);
    const struct reader *mine = lists_reader(&table->readers, list, share->reader);
    return (mine && mine->expires_ms > now_ms) || end_ms == INT64_MAX ||
           end_ms <= list->last->expires_ms;
}

bool node_is_shared(struct node_table *table, struct node_bytes key, int64_t now_ms) {
    const struct entry *entry = table_find(table, key, now_ms, LOOKS);
    return entry && table_holds(entry, marker);
}

bool node_share_is_listed(struct node_table *table, struct node_bytes key, struct node_bytes reader,
                          int64_t now_ms) {
    if (!node_is_shared(table, key, now_ms)) return false;
    const struct readers *list = find(table, key, now_ms);
    const struct reader *mine = list ? lists_reader(&table->readers, list, reader) : NULL;
    return mine && mine->expires_ms > now_ms;
}

enum node_answer node_share(struct node_table *table, const struct node_share *share,
                            int64_t now_ms, int64_t *fence) {
    assert(share->ttl_ms > 0);
    if (share->guarded && !guarded_has_fences(table, share->nonce)) return NODE_GONE;
    struct entry *entry = table_find(table, share->key, now_ms, WRITES);
    const bool held = entry != NULL;
    if (held && (!table_holds(entry, marker) || !lists_all(table, share, entry, now_ms)))
        return NODE_DENIED;
    if (!fits(table, share) && !node_share_is_listed(table, share->key, share->reader, now_ms))
        return NODE_NO_MEMORY;
    const struct reader *mine = listed(table, share, held, now_ms, now_ms + share->ttl_ms);
    if (!mine) return NODE_NO_MEMORY;
    struct readers *list = mine->list;
    lists_drop_ended(&table->readers, list, now_ms);
    const int64_t last_ms = settle(list);
    if (!held) {
        if (node_acquire(table, &share->key, 1, marker, share->ttl_ms, now_ms) != NODE_GRANTED) {
            lists_drop(&table->readers, list);
            return NODE_NO_MEMORY;
        }
        entry = table_find(table, share->key, now_ms, LOOKS);
    }
    prolong(table, entry, last_ms);
    *fence = 0;
    if (share->guarded)
        *fence =
            guarded_raise_to(table, share->key, share->nonce, share->fence, share->stripe, now_ms);
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
 * shortens. A native table has memory for that beyond its limit: the lock is there already. */
static enum node_answer downgrade(struct node_table *table, const struct node_share *share,
                                  int64_t now_ms, const struct entry *entry) {
    const int64_t before_ms = table_end(table, entry);
    int64_t end_ms = now_ms + share->ttl_ms;
    if (before_ms != INT64_MAX && before_ms > end_ms) end_ms = before_ms;
    const struct reader *mine = listed(table, share, false, now_ms, end_ms);
    if (!mine) return NODE_NO_MEMORY;
    const int64_t left_ms = settle(mine->list) - now_ms;
    if (node_set(table, share->key, marker, left_ms, now_ms) == NODE_GRANTED) return NODE_GRANTED;
    lists_drop(&table->readers, mine->list);
    return NODE_NO_MEMORY;
}

enum node_answer node_share_extend(struct node_table *table, const struct node_share *share,
                                   int64_t now_ms) {
    struct entry *entry;
    assert(share->ttl_ms > 0);
    if (share->guarded && !guarded_has_fences(table, share->nonce)) return NODE_GONE;
    enum node_answer answer = look(table, share, now_ms, &entry);
    if (answer != NODE_GRANTED) return answer;
    if (table_holds(entry, share->reader)) {
        answer = downgrade(table, share, now_ms, entry);
        if (answer != NODE_GRANTED) return answer;
        entry = table_find(table, share->key, now_ms, LOOKS);
    }
    struct readers *list = find(table, share->key, now_ms);
    struct reader *mine = list ? lists_reader(&table->readers, list, share->reader) : NULL;
    if (!mine || mine->expires_ms <= now_ms) return NODE_ABSENT;
    const int64_t end_ms = now_ms + share->ttl_ms;
    if (mine->expires_ms < end_ms) lists_move_reader(mine, end_ms);
    prolong(table, entry, settle(list));
    if (share->guarded)
        (void)guarded_raise_to(table, share->key, share->nonce, share->fence, share->stripe,
                               now_ms);
    return NODE_GRANTED;
}

enum node_answer node_share_release(struct node_table *table, const struct node_share *share,
                                    int64_t now_ms) {
    struct entry *entry;
    enum node_answer answer = look(table, share, now_ms, &entry);
    if (answer != NODE_GRANTED) return answer;
    if (table_holds(entry, share->reader)) {
        table_delete(table, entry);
        return NODE_GRANTED;
    }
    struct readers *list = find(table, share->key, now_ms);
    if (!list) return NODE_ABSENT;
    struct reader *mine = lists_reader(&table->readers, list, share->reader);
    /* the only one is here until the key is gone, at its end */
    const bool was_listed = mine && (mine->expires_ms > now_ms || list->first == list->last);
    if (mine) lists_drop_reader(&table->readers, mine);
    if (!was_listed) lists_drop_ended(&table->readers, list, now_ms);
    const bool others = list->last && list->last->expires_ms > now_ms;
    if (was_listed && others) {
        table_set_end(table, entry, settle(list));
        return NODE_GRANTED;
    }
    if (!others) lists_drop(&table->readers, list);
    if (was_listed) table_delete(table, entry);
    return was_listed ? NODE_GRANTED : NODE_ABSENT;
}

/* ---- looks ---- */

void node_readers(const struct node_table *table, struct node_bytes key, int64_t now_ms,
                  node_reader_fn *visit, void *context) {
    const struct readers *list = lists_find(&table->readers, key);
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

size_t node_free_some(struct node_table *table, size_t limit) {
    return lists_free_some(&table->readers, limit);
}

bool node_frees_more(const struct node_table *table) { return table->readers.dropped != NULL; }

size_t node_lists(const struct node_table *table) { return table->readers.by_key.items; }

void node_lists_expire(struct node_table *table, int64_t now_ms, bool loading) {
    const bool at_its_end = !loading && table->options.ends != NODE_ENDS_AFTER;
    for (struct readers *list = table->readers.first, *next; list; list = next) {
        next = list->next;
        if (now_ms > list->expires_ms || (at_its_end && now_ms == list->expires_ms))
            lists_drop(&table->readers, list);
    }
}

bool shared_copy(struct node_table *to, const struct node_table *from) {
    lists_drop_all(&to->readers);
    for (const struct readers *list = from->readers.first; list; list = list->next) {
        struct readers *copy =
            lists_add(&to->readers, (struct node_bytes){list->key, list->key_bytes});
        if (!copy) return false;
        copy->expires_ms = list->expires_ms;
        for (const struct reader *reader = list->first; reader; reader = reader->next)
            if (!lists_add_reader(&to->readers, copy,
                                  (struct node_bytes){reader->token, reader->bytes},
                                  reader->expires_ms))
                return false;
    }
    return true;
}
