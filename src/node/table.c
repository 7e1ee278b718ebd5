/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A list in order of insertion: a node of the simulator holds a handful of keys, and the order is
 * then the same on every machine. A key that has ended stays, as on a server, until a request reads
 * it or node_expire_due() finds it; a clock that steps back before that revives it. Removed entries
 * are kept for the next key. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "node/inside.h"

enum { FIRST_CAPACITY = 128 }; /* a key and a token of usual size: no second allocation for them */

struct entry {
    struct entry *next;
    int64_t expires_ms; /* INT64_MAX: no TTL */
    bool other_type;    /* a list, a hash: it exists, and has no value to compare */
    size_t key_bytes, token_bytes, capacity;
    char *data; /* the key, then the token */
};

static struct node_bytes key_of(const struct entry *entry) {
    return (struct node_bytes){entry->data, entry->key_bytes};
}

static struct node_bytes token_of(const struct entry *entry) {
    return (struct node_bytes){entry->data + entry->key_bytes, entry->token_bytes};
}

static bool equal(struct node_bytes a, struct node_bytes b) {
    return a.bytes == b.bytes && (a.bytes == 0 || memcmp(a.data, b.data, a.bytes) == 0);
}

static void notify(const struct node_table *table, enum node_change change,
                   const struct entry *entry) {
    if (table->on_change)
        table->on_change(table->context, change, key_of(entry), token_of(entry), entry->expires_ms);
}

/* At the millisecond of its end a key still exists, with a PTTL of 0: servers compare now > end. */
static bool has_ended(const struct entry *entry, int64_t now_ms) {
    return now_ms > entry->expires_ms;
}

static int64_t end_of(int64_t ttl_ms, int64_t now_ms) {
    assert(ttl_ms > 0 && now_ms >= 0 && ttl_ms < INT64_MAX - now_ms);
    return now_ms + ttl_ms;
}

/* ---- entries ---- */

static void put_aside(struct node_table *table, struct entry *entry) {
    entry->next = table->spare;
    table->spare = entry;
}

static bool make_room(struct entry *entry, size_t bytes) {
    if (entry->data && bytes <= entry->capacity) return true; /* an empty value is not no value */
    size_t capacity = entry->capacity ? entry->capacity : FIRST_CAPACITY;
    while (capacity < bytes) capacity *= 2;
    char *data = realloc(entry->data, capacity);
    if (!data) return false;
    entry->data = data;
    entry->capacity = capacity;
    return true;
}

static bool put_token(struct entry *entry, struct node_bytes token) {
    if (!make_room(entry, entry->key_bytes + token.bytes)) return false;
    if (token.bytes) memcpy(entry->data + entry->key_bytes, token.data, token.bytes);
    entry->token_bytes = token.bytes;
    entry->other_type = false;
    return true;
}

/* An entry that is not in the list yet. */
static struct entry *make_entry(struct node_table *table, struct node_bytes key,
                                struct node_bytes token) {
    struct entry *entry = table->spare;
    if (entry)
        table->spare = entry->next;
    else
        entry = calloc(1, sizeof *entry);
    if (!entry) return NULL;
    entry->next = NULL;
    if (!make_room(entry, key.bytes + token.bytes)) {
        put_aside(table, entry);
        return NULL;
    }
    if (key.bytes) memcpy(entry->data, key.data, key.bytes);
    entry->key_bytes = key.bytes;
    bool fits = put_token(entry, token);
    assert(fits);
    (void)fits;
    return entry;
}

static void append(struct node_table *table, struct entry *entry) {
    *(table->last ? &table->last->next : &table->first) = entry;
    table->last = entry;
    table->count++;
}

static void take_out(struct node_table *table, struct entry *before, struct entry *entry,
                     enum node_change change) {
    *(before ? &before->next : &table->first) = entry->next;
    if (table->last == entry) table->last = before;
    table->count--;
    notify(table, change, entry);
    put_aside(table, entry);
}

/* Whatever its end is. */
static struct entry *find_any(const struct node_table *table, struct node_bytes key,
                              struct entry **before) {
    *before = NULL;
    for (struct entry *entry = table->first; entry; *before = entry, entry = entry->next)
        if (equal(key_of(entry), key)) return entry;
    return NULL;
}

/* As a server looks a key up: a request for an ended key deletes it, even a read. */
static struct entry *find(struct node_table *table, struct node_bytes key, int64_t now_ms,
                          struct entry **before) {
    struct entry *entry = find_any(table, key, before);
    if (!entry || !has_ended(entry, now_ms)) return entry;
    take_out(table, *before, entry, NODE_CHANGE_EXPIRED);
    return NULL;
}

static struct entry *lookup(struct node_table *table, struct node_bytes key, int64_t now_ms) {
    struct entry *before;
    return find(table, key, now_ms, &before);
}

static bool holds(const struct entry *entry, struct node_bytes token) {
    return equal(token_of(entry), token);
}

/* ---- the table ---- */

struct node_table *node_table_new(node_change_fn *on_change, void *context) {
    struct node_table *table = calloc(1, sizeof *table);
    if (!table) return NULL;
    table->on_change = on_change;
    table->context = context;
    return table;
}

static void free_list(struct entry *entry) {
    for (struct entry *next; entry; entry = next) {
        next = entry->next;
        free(entry->data);
        free(entry);
    }
}

void node_table_free(struct node_table *table) {
    if (!table) return;
    free_list(table->first);
    free_list(table->spare);
    guarded_free(table);
    free(table);
}

size_t node_count(const struct node_table *table) { return table->count; }

int64_t node_next_expiry(const struct node_table *table) {
    int64_t next = INT64_MAX;
    for (const struct entry *entry = table->first; entry; entry = entry->next)
        if (entry->expires_ms < next) next = entry->expires_ms;
    return next;
}

/* ---- what the protocol does ---- */

/* All the memory is taken before anything is set: all or nothing. */
static struct entry *make_entries(struct node_table *table, const struct node_bytes *keys,
                                  size_t count, struct node_bytes token) {
    struct entry *made = NULL, **end = &made;
    for (size_t i = 0; i < count; i++) {
        struct entry *entry = make_entry(table, keys[i], token);
        if (!entry) {
            for (struct entry *next; made; made = next) {
                next = made->next;
                put_aside(table, made);
            }
            return NULL;
        }
        *end = entry;
        end = &entry->next;
    }
    return made;
}

enum node_answer node_acquire(struct node_table *table, const struct node_bytes *keys, size_t count,
                              struct node_bytes token, int64_t ttl_ms, int64_t now_ms) {
    assert(count > 0);
    int64_t expires_ms = end_of(ttl_ms, now_ms);
    for (size_t i = 0; i < count; i++)
        if (lookup(table, keys[i], now_ms)) return NODE_DENIED;
    struct entry *made = make_entries(table, keys, count, token);
    if (!made) return NODE_NO_MEMORY;
    while (made) {
        struct entry *entry = made, *before;
        made = entry->next;
        entry->next = NULL;
        entry->expires_ms = expires_ms;
        if (find_any(table, key_of(entry), &before)) { /* named twice */
            put_aside(table, entry);
            continue;
        }
        append(table, entry);
        notify(table, NODE_CHANGE_SET, entry);
    }
    return NODE_GRANTED;
}

enum node_answer node_extend(struct node_table *table, const struct node_bytes *keys, size_t count,
                             struct node_bytes token, int64_t ttl_ms, int64_t now_ms) {
    assert(count > 0);
    int64_t expires_ms = end_of(ttl_ms, now_ms);
    bool absent = false;
    for (size_t i = 0; i < count; i++) {
        const struct entry *entry = lookup(table, keys[i], now_ms);
        if (!entry) {
            absent = true;
            continue;
        }
        if (entry->other_type) return NODE_WRONGTYPE;
        if (!holds(entry, token)) return NODE_DENIED;
    }
    if (absent) return NODE_ABSENT;
    for (size_t i = 0; i < count; i++) {
        struct entry *entry = lookup(table, keys[i], now_ms);
        /* Never shorter; but a key without a TTL gets one, because a lock must end. */
        if (entry->expires_ms != INT64_MAX && entry->expires_ms >= expires_ms) continue;
        entry->expires_ms = expires_ms;
        notify(table, NODE_CHANGE_EXTENDED, entry);
    }
    return NODE_GRANTED;
}

enum node_answer node_release(struct node_table *table, const struct node_bytes *keys, size_t count,
                              struct node_bytes token, int64_t now_ms) {
    assert(count > 0);
    bool deleted = false, foreign = false, other_type = false;
    for (size_t i = 0; i < count; i++) {
        struct entry *before, *entry = find(table, keys[i], now_ms, &before);
        if (!entry) continue;
        if (entry->other_type) {
            other_type = true;
        } else if (holds(entry, token)) {
            take_out(table, before, entry, NODE_CHANGE_DELETED);
            deleted = true;
        } else {
            foreign = true;
        }
    }
    if (other_type) return NODE_WRONGTYPE;
    if (foreign) return NODE_DENIED;
    return deleted ? NODE_GRANTED : NODE_ABSENT;
}

int64_t node_pttl(struct node_table *table, struct node_bytes key, int64_t now_ms) {
    const struct entry *entry = lookup(table, key, now_ms);
    if (!entry) return -2;
    return entry->expires_ms == INT64_MAX ? -1 : entry->expires_ms - now_ms;
}

struct node_bytes node_get(struct node_table *table, struct node_bytes key, int64_t now_ms) {
    const struct entry *entry = lookup(table, key, now_ms);
    if (!entry || entry->other_type) return (struct node_bytes){NULL, 0};
    return token_of(entry);
}

/* ---- what others do ---- */

/* In place if it exists: plain SET overwrites whatever type, and its end. */
static enum node_answer set_entry(struct node_table *table, struct node_bytes key,
                                  struct node_bytes value, bool other_type, int64_t expires_ms) {
    struct entry *before, *entry = find_any(table, key, &before);
    if (entry) {
        if (!put_token(entry, value)) return NODE_NO_MEMORY;
    } else {
        entry = make_entry(table, key, value);
        if (!entry) return NODE_NO_MEMORY;
        append(table, entry);
    }
    entry->other_type = other_type;
    entry->expires_ms = expires_ms;
    notify(table, NODE_CHANGE_SET, entry);
    return NODE_GRANTED;
}

enum node_answer node_set(struct node_table *table, struct node_bytes key, struct node_bytes value,
                          int64_t ttl_ms, int64_t now_ms) {
    int64_t expires_ms = ttl_ms == 0 ? INT64_MAX : end_of(ttl_ms, now_ms);
    (void)lookup(table, key, now_ms);
    return set_entry(table, key, value, false, expires_ms);
}

enum node_answer node_set_other_type(struct node_table *table, struct node_bytes key,
                                     int64_t now_ms) {
    (void)lookup(table, key, now_ms);
    return set_entry(table, key, (struct node_bytes){NULL, 0}, true, INT64_MAX);
}

bool node_delete(struct node_table *table, struct node_bytes key, int64_t now_ms) {
    struct entry *before, *entry = find(table, key, now_ms, &before);
    if (!entry) return guarded_delete(table, key);
    take_out(table, before, entry, NODE_CHANGE_DELETED);
    return true;
}

bool node_pexpire(struct node_table *table, struct node_bytes key, int64_t ttl_ms, int64_t now_ms) {
    if (ttl_ms <= 0) return node_delete(table, key, now_ms);
    int64_t expires_ms = end_of(ttl_ms, now_ms);
    struct entry *entry = lookup(table, key, now_ms);
    if (!entry) return false;
    entry->expires_ms = expires_ms;
    notify(table, NODE_CHANGE_EXTENDED, entry);
    return true;
}

void node_flush_all(struct node_table *table) {
    while (table->first) take_out(table, NULL, table->first, NODE_CHANGE_LOST);
    guarded_flush(table);
}

bool node_evict_key(struct node_table *table, struct node_bytes key) {
    struct entry *before, *entry = find_any(table, key, &before);
    if (!entry) return guarded_delete(table, key);
    take_out(table, before, entry, NODE_CHANGE_LOST);
    return true;
}

void node_expire_due(struct node_table *table, int64_t now_ms) {
    struct entry *before = NULL, *entry = table->first;
    while (entry) {
        struct entry *next = entry->next;
        if (has_ended(entry, now_ms))
            take_out(table, before, entry, NODE_CHANGE_EXPIRED);
        else
            before = entry;
        entry = next;
    }
}

/* ---- snapshots ---- */

/* Keys that the snapshot does not have, or has with another token. */
static void lose_what_differs(struct node_table *to, const struct node_table *from) {
    struct entry *before = NULL, *entry = to->first;
    while (entry) {
        struct entry *next = entry->next, *unused;
        const struct entry *kept = find_any(from, key_of(entry), &unused);
        if (!kept || kept->other_type != entry->other_type || !holds(kept, token_of(entry)))
            take_out(to, before, entry, NODE_CHANGE_LOST);
        else
            before = entry;
        entry = next;
    }
}

bool node_table_copy(struct node_table *to, const struct node_table *from) {
    lose_what_differs(to, from);
    for (const struct entry *entry = from->first; entry; entry = entry->next) {
        struct entry *before, *here = find_any(to, key_of(entry), &before);
        if (!here) {
            if (set_entry(to, key_of(entry), token_of(entry), entry->other_type,
                          entry->expires_ms) != NODE_GRANTED)
                return false;
        } else if (here->expires_ms != entry->expires_ms) {
            here->expires_ms = entry->expires_ms;
            notify(to, NODE_CHANGE_EXTENDED, here);
        }
    }
    return guarded_copy(to, from);
}
