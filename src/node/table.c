/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Keys are in a hash table, in a heap by their ends, and in a list in the order in which they were
 * set, so that what a call reports is the same on every machine. On a stock table a key that has
 * ended stays, as on a server, until a request reads it or node_expire_due() finds it; a clock that
 * steps back before that revives it. */
#include <assert.h>
#include <string.h>

#include "node/hash.h"
#include "node/inside.h"
#include "node/memory.h"

enum { READERS_AT_ONCE = 16 }; /* what one request frees at most */

static struct node_bytes key_of(const struct entry *entry) {
    return (struct node_bytes){entry->data, entry->key_bytes};
}

bool table_holds(const struct entry *entry, struct node_bytes token) {
    return node_equal(token_of(entry), token);
}

int64_t table_end(const struct node_table *table, const struct entry *entry) {
    return ends_time(&table->ends, &entry->item);
}

static void notify(const struct node_table *table, enum node_change change,
                   const struct entry *entry, int64_t expires_ms) {
    if (table->options.on_change)
        table->options.on_change(table->options.context, change, key_of(entry), token_of(entry),
                                 expires_ms);
}

static bool has_ended(const struct node_table *table, const struct entry *entry, int64_t now_ms,
                      enum purpose purpose) {
    int64_t expires_ms = table_end(table, entry);
    bool at_its_end = table->options.native ||
                      (table->options.ends == NODE_EXPIRES_AT && purpose == EXPIRES) ||
                      (table->options.ends == NODE_ENDS_EITHER && purpose != LOOKS);
    return now_ms > expires_ms || (at_its_end && now_ms == expires_ms);
}

static int64_t end_of(int64_t ttl_ms, int64_t now_ms) {
    assert(ttl_ms > 0 && now_ms >= 0 && ttl_ms < INT64_MAX - now_ms);
    return now_ms + ttl_ms;
}

/* ---- entries ---- */

static size_t size_for(size_t key_bytes, size_t token_bytes) {
    size_t size = offsetof(struct entry, data) + key_bytes + token_bytes;
    return size > sizeof(struct entry) ? size : sizeof(struct entry);
}

static size_t charge_of(const struct entry *entry) {
    return node_memory_charge(size_for(entry->key_bytes, entry->token_bytes));
}

static void put_token(struct entry *entry, struct node_bytes token) {
    if (token.bytes) memcpy(entry->data + entry->key_bytes, token.data, token.bytes);
    entry->token_bytes = (uint32_t)token.bytes;
}

/* An entry that is in no table yet. */
static struct entry *make_entry(struct node_bytes key, uint32_t hash, struct node_bytes token) {
    assert(key.bytes <= UINT32_MAX && token.bytes <= UINT32_MAX);
    struct entry *entry = node_memory_take(size_for(key.bytes, token.bytes));
    if (!entry) return NULL;
    memset(entry, 0, sizeof *entry);
    if (key.bytes) memcpy(entry->data, key.data, key.bytes);
    entry->key_bytes = (uint32_t)key.bytes;
    put_token(entry, token);
    entry->item.hash = hash;
    return entry;
}

static void append(struct node_table *table, struct entry *entry, int64_t expires_ms) {
    size_t bytes_max = table->options.bytes_max;
    entry->previous = table->last;
    entry->next = NULL;
    *(table->last ? &table->last->next : &table->first) = entry;
    table->last = table->recent = entry;
    table->entries_bytes += charge_of(entry);
    ends_add(&table->ends, &entry->item, expires_ms);
    buckets_add(&table->buckets, &entry->item,
                bytes_max == 0 ||
                    node_bytes_locked(table) + chunks_bytes_more(&table->buckets.chunks, 1) <=
                        bytes_max);
}

static void take_out(struct node_table *table, struct entry *entry, enum node_change change) {
    int64_t expires_ms = table_end(table, entry);
    if (table->recent == entry) table->recent = NULL;
    *(entry->previous ? &entry->previous->next : &table->first) = entry->next;
    *(entry->next ? &entry->next->previous : &table->last) = entry->previous;
    ends_remove(&table->ends, &entry->item);
    buckets_remove(&table->buckets, &entry->item);
    table->entries_bytes -= charge_of(entry);
    if (table->options.native) {
        guarded_entry_goes(table, entry);
        shared_entry_goes(table, entry, key_of(entry));
    }
    notify(table, change, entry, expires_ms);
    node_memory_give(entry);
}

static uint32_t hash_of(const struct node_table *table, struct node_bytes key) {
    return node_hash(table->options.seed, key);
}

static struct entry *find_by_hash(const struct node_table *table, struct node_bytes key,
                                  uint32_t hash) {
    struct item *item = buckets_first(&table->buckets, hash);
    for (; item; item = item->next)
        if (item->hash == hash && node_equal(key_of((struct entry *)item), key)) break;
    return (struct entry *)item;
}

/* Whatever its end is. */
static struct entry *find_any(const struct node_table *table, struct node_bytes key) {
    if (table->recent && node_equal(key_of(table->recent), key)) return table->recent;
    return find_by_hash(table, key, hash_of(table, key));
}

static struct entry *unless_ended(struct node_table *table, struct entry *entry, int64_t now_ms,
                                  enum purpose purpose) {
    if (entry) table->recent = entry;
    if (!entry || !has_ended(table, entry, now_ms, purpose)) return entry;
    if (!table->options.native || purpose == WRITES) take_out(table, entry, NODE_CHANGE_EXPIRED);
    return NULL;
}

/* As a server looks a key up: a request for an ended key deletes it, even a read. In a native table
 * only a write does. */
struct entry *table_find(struct node_table *table, struct node_bytes key, int64_t now_ms,
                         enum purpose purpose) {
    return unless_ended(table, find_any(table, key), now_ms, purpose);
}

/* ---- the table ---- */

struct node_table *node_table_open(const struct node_options *options) {
    struct node_table *table = node_memory_take(sizeof *table);
    if (!table) return NULL;
    memset(table, 0, sizeof *table);
    table->options = *options;
    table->readers.seed = options->seed + 1;
    table->readers.at_once = options->native ? READERS_AT_ONCE : SIZE_MAX;
    if (buckets_begin(&table->buckets)) return table;
    node_table_free(table);
    return NULL;
}

struct node_table *node_table_new(node_change_fn *on_change, void *context) {
    return node_table_open(&(struct node_options){.on_change = on_change, .context = context});
}

void node_table_free(struct node_table *table) {
    if (!table) return;
    for (struct entry *entry = table->first, *next; entry; entry = next) {
        next = entry->next;
        node_memory_give(entry);
    }
    lists_free(&table->readers);
    buckets_free(&table->buckets);
    ends_free(&table->ends);
    guarded_free(table);
    node_memory_give(table);
}

size_t node_count(const struct node_table *table) { return table->ends.count; }

int64_t node_next_expiry(const struct node_table *table) { return ends_next(&table->ends); }

size_t node_bytes_locked(const struct node_table *table) {
    return table->entries_bytes + chunks_bytes(&table->buckets.chunks) +
           chunks_bytes(&table->ends.chunks) + lists_bytes(&table->readers);
}

/* ---- what the protocol does ---- */

static void give_back(struct entry *made) {
    for (struct entry *next; made; made = next) {
        next = made->next;
        node_memory_give(made);
    }
}

static bool fits(const struct node_table *table, const struct node_bytes *keys, size_t count,
                 struct node_bytes token) {
    if (table->options.bytes_max == 0) return true;
    size_t bytes = node_bytes_locked(table) + ends_bytes_more(&table->ends, count);
    for (size_t i = 0; i < count; i++)
        bytes += node_memory_charge(size_for(keys[i].bytes, token.bytes));
    return bytes <= table->options.bytes_max;
}

/* All the memory is taken before anything is set: all or nothing. The entries are linked by
 * `next`. `hash` is that of the first key. */
static struct entry *make_entries(struct node_table *table, const struct node_bytes *keys,
                                  size_t count, uint32_t hash, struct node_bytes token) {
    struct entry *made = NULL, **end = &made;
    if (!fits(table, keys, count, token) || !ends_reserve(&table->ends, count)) return NULL;
    for (size_t i = 0; i < count; i++) {
        *end = make_entry(keys[i], i == 0 ? hash : hash_of(table, keys[i]), token);
        if (!*end) {
            give_back(made);
            return NULL;
        }
        end = &(*end)->next;
    }
    return made;
}

enum node_answer node_acquire(struct node_table *table, const struct node_bytes *keys, size_t count,
                              struct node_bytes token, int64_t ttl_ms, int64_t now_ms) {
    assert(count > 0);
    int64_t expires_ms = end_of(ttl_ms, now_ms);
    uint32_t first = hash_of(table, keys[0]), hash = first;
    for (size_t i = 0; i < count; i++) {
        if (i > 0) hash = hash_of(table, keys[i]);
        struct entry *entry = find_by_hash(table, keys[i], hash);
        if (unless_ended(table, entry, now_ms, WRITES)) return NODE_DENIED;
    }
    struct entry *made = make_entries(table, keys, count, first, token);
    if (!made) return NODE_NO_MEMORY;
    while (made) {
        struct entry *entry = made;
        made = entry->next;
        if (count > 1 && find_any(table, key_of(entry))) { /* named twice */
            node_memory_give(entry);
            continue;
        }
        guarded_entry_begins(table, entry, key_of(entry));
        append(table, entry, expires_ms);
        notify(table, NODE_CHANGE_SET, entry, expires_ms);
    }
    return NODE_GRANTED;
}

enum node_answer node_extend(struct node_table *table, const struct node_bytes *keys, size_t count,
                             struct node_bytes token, int64_t ttl_ms, int64_t now_ms) {
    assert(count > 0);
    int64_t expires_ms = end_of(ttl_ms, now_ms);
    bool absent = false;
    for (size_t i = 0; i < count; i++) {
        const struct entry *entry = table_find(table, keys[i], now_ms, WRITES);
        if (!entry) {
            absent = true;
            continue;
        }
        if (entry->other_type) return NODE_WRONGTYPE;
        if (!table_holds(entry, token)) return NODE_DENIED;
    }
    if (absent) return NODE_ABSENT;
    for (size_t i = 0; i < count; i++) {
        struct entry *entry = find_any(table, keys[i]);
        /* Never shorter; but a key without a TTL gets one, because a lock must end. */
        int64_t before_ms = table_end(table, entry);
        if (before_ms != INT64_MAX && before_ms >= expires_ms) continue;
        table_set_end(table, entry, expires_ms);
    }
    return NODE_GRANTED;
}

enum node_answer node_release(struct node_table *table, const struct node_bytes *keys, size_t count,
                              struct node_bytes token, int64_t now_ms) {
    assert(count > 0);
    bool deleted = false, foreign = false, other_type = false;
    for (size_t i = 0; i < count; i++) {
        struct entry *entry = table_find(table, keys[i], now_ms, WRITES);
        if (!entry) continue;
        if (entry->other_type) {
            other_type = true;
        } else if (table_holds(entry, token)) {
            take_out(table, entry, NODE_CHANGE_DELETED);
            deleted = true;
        } else {
            foreign = true;
        }
    }
    if (other_type) return NODE_WRONGTYPE;
    if (foreign) return NODE_DENIED;
    return deleted ? NODE_GRANTED : NODE_ABSENT;
}

/* ---- for shared.c ---- */

void table_set_end(struct node_table *table, struct entry *entry, int64_t expires_ms) {
    if (table_end(table, entry) == expires_ms) return;
    ends_move(&table->ends, &entry->item, expires_ms);
    notify(table, NODE_CHANGE_EXTENDED, entry, expires_ms);
}

void table_delete(struct node_table *table, struct entry *entry) {
    take_out(table, entry, NODE_CHANGE_DELETED);
}

/* ---- looks ---- */

int64_t node_pttl(struct node_table *table, struct node_bytes key, int64_t now_ms) {
    const struct entry *entry = table_find(table, key, now_ms, LOOKS);
    if (!entry) return -2;
    int64_t expires_ms = table_end(table, entry);
    return expires_ms == INT64_MAX ? -1 : expires_ms - now_ms;
}

struct node_bytes node_get(struct node_table *table, struct node_bytes key, int64_t now_ms) {
    const struct entry *entry = table_find(table, key, now_ms, LOOKS);
    if (!entry || entry->other_type) return (struct node_bytes){NULL, 0};
    return token_of(entry);
}

static struct node_lock lock_of(const struct node_table *table, const struct entry *entry) {
    return (struct node_lock){key_of(entry), token_of(entry), table_end(table, entry), entry->fence,
                              entry->other_type};
}

bool node_look(struct node_table *table, struct node_bytes key, int64_t now_ms,
               struct node_lock *lock) {
    const struct entry *entry = table_find(table, key, now_ms, LOOKS);
    if (entry) *lock = lock_of(table, entry);
    return entry != NULL;
}

bool node_look_ended(const struct node_table *table, struct node_bytes key, int64_t now_ms,
                     struct node_lock *lock) {
    const struct entry *entry = find_any(table, key);
    if (!entry || !has_ended(table, entry, now_ms, LOOKS)) return false;
    *lock = lock_of(table, entry);
    return true;
}

uint64_t node_scan(const struct node_table *table, uint64_t cursor, size_t count, int64_t now_ms,
                   node_visit_fn *visit, void *context) {
    assert(cursor <= UINT32_MAX);
    uint32_t next = (uint32_t)cursor;
    do {
        const struct item *item = buckets_scan(&table->buckets, next, &next);
        for (; item; item = item->next) {
            const struct entry *entry = (const struct entry *)item;
            if (has_ended(table, entry, now_ms, LOOKS)) continue;
            struct node_lock lock = lock_of(table, entry);
            visit(context, &lock);
        }
    } while (next != 0 && count-- > 1);
    return next;
}

/* ---- what others do ---- */

/* Takes the place of another with the same key, in a piece of memory that is large enough. The
 * caller sets its end. */
static struct entry *replace(struct node_table *table, struct entry *old, struct node_bytes value) {
    struct entry *entry = make_entry(key_of(old), old->item.hash, value);
    if (!entry) return NULL;
    buckets_remove(&table->buckets, &old->item);
    entry->item.place = old->item.place;
    entry->previous = old->previous;
    entry->next = old->next;
    entry->fence = old->fence;
    entry->stripe = old->stripe;
    if (table->recent == old) table->recent = entry;
    *(entry->previous ? &entry->previous->next : &table->first) = entry;
    *(entry->next ? &entry->next->previous : &table->last) = entry;
    buckets_add(&table->buckets, &entry->item, true);
    table->entries_bytes += charge_of(entry) - charge_of(old);
    node_memory_give(old);
    return entry;
}

static struct entry *set_new(struct node_table *table, struct node_bytes key,
                             struct node_bytes value, int64_t expires_ms) {
    struct entry *entry = make_entries(table, &key, 1, hash_of(table, key), value);
    if (!entry) return NULL;
    guarded_entry_begins(table, entry, key);
    append(table, entry, expires_ms);
    return entry;
}

/* In place if it exists: plain SET overwrites whatever type, and its end. */
static struct entry *set_entry(struct node_table *table, struct node_bytes key,
                               struct node_bytes value, bool other_type, int64_t expires_ms) {
    struct entry *entry = find_any(table, key);
    if (!entry) {
        entry = set_new(table, key, value, expires_ms);
    } else if (entry->token_bytes == value.bytes) {
        put_token(entry, value);
    } else {
        entry = replace(table, entry, value);
    }
    if (!entry) return NULL;
    entry->other_type = other_type;
    ends_move(&table->ends, &entry->item, expires_ms);
    notify(table, NODE_CHANGE_SET, entry, expires_ms);
    return entry;
}

enum node_answer node_set(struct node_table *table, struct node_bytes key, struct node_bytes value,
                          int64_t ttl_ms, int64_t now_ms) {
    int64_t expires_ms = ttl_ms == 0 ? INT64_MAX : end_of(ttl_ms, now_ms);
    (void)table_find(table, key, now_ms, WRITES);
    return set_entry(table, key, value, false, expires_ms) ? NODE_GRANTED : NODE_NO_MEMORY;
}

enum node_answer node_set_other_type(struct node_table *table, struct node_bytes key,
                                     int64_t now_ms) {
    (void)table_find(table, key, now_ms, WRITES);
    return set_entry(table, key, (struct node_bytes){NULL, 0}, true, INT64_MAX) ? NODE_GRANTED
                                                                                : NODE_NO_MEMORY;
}

bool node_delete(struct node_table *table, struct node_bytes key, int64_t now_ms) {
    struct entry *entry = table_find(table, key, now_ms, WRITES);
    if (!entry) return guarded_delete(table, key);
    take_out(table, entry, NODE_CHANGE_DELETED);
    return true;
}

bool node_pexpire(struct node_table *table, struct node_bytes key, int64_t ttl_ms, int64_t now_ms) {
    if (ttl_ms <= 0) return node_delete(table, key, now_ms);
    int64_t expires_ms = end_of(ttl_ms, now_ms);
    struct entry *entry = table_find(table, key, now_ms, WRITES);
    if (!entry) return false;
    ends_move(&table->ends, &entry->item, expires_ms);
    notify(table, NODE_CHANGE_EXTENDED, entry, expires_ms);
    return true;
}

void node_flush_all(struct node_table *table) {
    while (table->first) take_out(table, table->first, NODE_CHANGE_LOST);
    lists_drop_all(&table->readers);
    guarded_flush(table);
}

bool node_evict_key(struct node_table *table, struct node_bytes key) {
    struct entry *entry = find_any(table, key);
    if (!entry) return guarded_delete(table, key);
    take_out(table, entry, NODE_CHANGE_LOST);
    return true;
}

/* ---- ends ---- */

void node_expire_due(struct node_table *table, int64_t now_ms) {
    if (node_next_expiry(table) > now_ms) return;
    for (struct entry *entry = table->first, *next; entry; entry = next) {
        next = entry->next;
        if (has_ended(table, entry, now_ms, EXPIRES)) take_out(table, entry, NODE_CHANGE_EXPIRED);
    }
}

void node_expire_key(struct node_table *table, struct node_bytes key, int64_t now_ms) {
    if (node_next_expiry(table) > now_ms) return; /* none has ended */
    (void)table_find(table, key, now_ms, WRITES);
}

size_t node_expire_some(struct node_table *table, int64_t now_ms, size_t limit) {
    size_t ended = 0;
    for (; ended < limit; ended++) {
        struct entry *entry = (struct entry *)ends_first(&table->ends);
        if (!entry || !has_ended(table, entry, now_ms, EXPIRES)) break;
        take_out(table, entry, NODE_CHANGE_EXPIRED);
    }
    return ended;
}

/* ---- snapshots ---- */

/* Keys that the snapshot does not have, or has with another token. */
static void lose_what_differs(struct node_table *to, const struct node_table *from) {
    for (struct entry *entry = to->first, *next; entry; entry = next) {
        const struct entry *kept = find_any(from, key_of(entry));
        next = entry->next;
        if (!kept || kept->other_type != entry->other_type || !table_holds(kept, token_of(entry)))
            take_out(to, entry, NODE_CHANGE_LOST);
    }
}

bool node_table_copy(struct node_table *to, const struct node_table *from) {
    assert(to->options.native == from->options.native);
    lose_what_differs(to, from);
    for (const struct entry *entry = from->first; entry; entry = entry->next) {
        struct entry *here = find_any(to, key_of(entry));
        int64_t expires_ms = table_end(from, entry);
        if (!here) {
            here = set_entry(to, key_of(entry), token_of(entry), entry->other_type, expires_ms);
            if (!here) return false;
        } else {
            table_set_end(to, here, expires_ms);
        }
        here->fence = entry->fence;
        here->stripe = entry->stripe;
    }
    return shared_copy(to, from) && guarded_copy(to, from);
}
