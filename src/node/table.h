/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The rules of one node in C: those of the Lua scripts and of SET NX PX, GET, PTTL, DEL, PEXPIRE
 * and ZADD, on a small table of keys. The simulated node runs on it. No clock and no I/O: the
 * node's wall clock comes in as `now_ms`, and keys end by it, as on a real server. A differential
 * test keeps it equal to real servers (tests/node). */
#ifndef RL_NODE_TABLE_H
#define RL_NODE_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct node_bytes {
    const void *data;
    size_t bytes;
};

enum node_answer {
    NODE_GRANTED, /* set, extended, deleted */
    NODE_DENIED,  /* another token */
    NODE_ABSENT,
    NODE_WRONGTYPE,
    NODE_NO_MEMORY,
    NODE_STALE, /* guarded: the fence was not raised */
    NODE_GONE   /* guarded: that nonce has no fences */
};

struct node_table;

/* Called for each change, so that a history can be written. Key and token are valid during the
 * call. The token is what the key holds, or held; `expires_ms` is its end, INT64_MAX: none. The
 * function must not call the table. */
enum node_change {
    NODE_CHANGE_SET,
    NODE_CHANGE_EXTENDED,
    NODE_CHANGE_DELETED,
    NODE_CHANGE_EXPIRED,
    NODE_CHANGE_LOST
};
typedef void node_change_fn(void *context, enum node_change change, struct node_bytes key,
                            struct node_bytes token, int64_t expires_ms);

struct node_table *node_table_new(node_change_fn *on_change, void *context); /* NULL: no memory */
void node_table_free(struct node_table *table);

/* A key exists up to and at the millisecond of its end, as on real servers. TTLs are above 0 unless
 * stated otherwise, and now_ms + ttl_ms is below INT64_MAX. There is at least one key. */

/* One key: SET NX PX. Several: acquire_many.lua. */
enum node_answer node_acquire(struct node_table *table, const struct node_bytes *keys, size_t count,
                              struct node_bytes token, int64_t ttl_ms, int64_t now_ms);
enum node_answer node_extend(struct node_table *table, const struct node_bytes *keys, size_t count,
                             struct node_bytes token, int64_t ttl_ms, int64_t now_ms);
enum node_answer node_release(struct node_table *table, const struct node_bytes *keys, size_t count,
                              struct node_bytes token, int64_t now_ms);
/* PTTL of one key: -2: no key, -1: no TTL. */
int64_t node_pttl(struct node_table *table, struct node_bytes key, int64_t now_ms);
/* The value, {NULL, 0} if absent or of another type; valid until the next call on the table. */
struct node_bytes node_get(struct node_table *table, struct node_bytes key, int64_t now_ms);

/* What other programs do: plain SET (ttl_ms 0: none), DEL, FLUSHALL; and active expiry, which only
 * reports earlier. Record and fences (below) can also be deleted and evicted by their names, and
 * FLUSHALL deletes them. They are not counted or reported, and no lock may have such a name. */
enum node_answer node_set(struct node_table *table, struct node_bytes key, struct node_bytes value,
                          int64_t ttl_ms, int64_t now_ms);
enum node_answer node_set_other_type(struct node_table *table, struct node_bytes key,
                                     int64_t now_ms); /* for example a list */
bool node_delete(struct node_table *table, struct node_bytes key, int64_t now_ms);
/* <= 0 deletes */
bool node_pexpire(struct node_table *table, struct node_bytes key, int64_t ttl_ms, int64_t now_ms);
void node_flush_all(struct node_table *table);
bool node_evict_key(struct node_table *table, struct node_bytes key);
void node_expire_due(struct node_table *table, int64_t now_ms);
size_t node_count(const struct node_table *table);
int64_t node_next_expiry(const struct node_table *table); /* INT64_MAX: none */

/* ---- guarded mode: the record, and the fences that are named after its nonce
 * (src/core/guard.h) */

#define NODE_STRIPES 4096
#define NODE_FIELDS_MAX 64

struct node_field {
    struct node_bytes name, value;
};

/* Fences are above 0. There is at least one stripe, and each is named once. Nonce 0 belongs to no
 * record, and has no fences. */

/* ZADD XX GT CH of all stripes in one command. STALE: one or more of them were not raised, or they
 * are gone. */
enum node_answer node_zadd(struct node_table *table, uint64_t nonce, int64_t fence,
                           const uint16_t *stripes, size_t count);
/* acquire_guarded.lua: one atomic step for several keys. GRANTED; DENIED: nothing was changed;
 * STALE: keys are set, fences are not. (For one key: node_acquire(), then node_zadd(), whatever the
 * first returned.) */
enum node_answer node_acquire_guarded(struct node_table *table, const struct node_bytes *keys,
                                      size_t count, struct node_bytes token, int64_t ttl_ms,
                                      uint64_t nonce, int64_t fence, const uint16_t *stripes,
                                      size_t stripes_count, int64_t now_ms);
/* GRANTED: extended, and every stripe is at least the fence. GONE comes before DENIED, and DENIED
 * before ABSENT. */
enum node_answer node_extend_guarded(struct node_table *table, const struct node_bytes *keys,
                                     size_t count, struct node_bytes token, int64_t ttl_ms,
                                     uint64_t nonce, int64_t fence, const uint16_t *stripes,
                                     size_t stripes_count, int64_t now_ms);
/* GRANTED; GONE; DENIED: not every key holds the token; STALE: *highest is the highest fence of the
 * stripes. Otherwise *highest is left alone. */
enum node_answer node_raise(struct node_table *table, const struct node_bytes *keys, size_t count,
                            struct node_bytes token, uint64_t nonce, int64_t fence,
                            const uint16_t *stripes, size_t stripes_count, int64_t now_ms,
                            int64_t *highest);
/* GRANTED: every key holds the token and every stripe is at least the fence. GONE. Else STALE. */
enum node_answer node_confirm(struct node_table *table, const struct node_bytes *keys, size_t count,
                              struct node_bytes token, uint64_t nonce, int64_t fence,
                              const uint16_t *stripes, size_t stripes_count, int64_t now_ms);
/* The record's fields in the order in which they were written; valid until the next write. 0: no
 * record. */
size_t node_record(const struct node_table *table, const struct node_field **fields);
/* The same as record_write.lua. GRANTED, DENIED (another nonce), NO_MEMORY; for the last two
 * nothing was changed. */
struct node_record_write {
    uint64_t expected, nonce; /* expected 0: there is no record; the new nonce is not 0 */
    bool was_kept,
        keep; /* the fences are, or will be, under the kept name and not under the nonce's */
    /* NODE_STRIPES: afterwards every stripe exists and is at least this; NULL: unchanged */
    const int64_t *floor;
    /* the whole new record, "nonce" (16 hex digits) included; each name once */
    const struct node_field *fields;
    size_t fields_count;
};
enum node_answer node_record_write(struct node_table *table, const struct node_record_write *write);
/* NODE_STRIPES numbers, by nonce; 0: the kept ones; valid until the next call on the table. NULL:
 * there are none of that name. */
const int64_t *node_fences(const struct node_table *table, uint64_t nonce);
/* used by record and fences: to show that it does not grow */
size_t node_bytes_used(const struct node_table *table);

/* Snapshots, for restarts with old data and lagging replicas: keys with their absolute ends, as in
 * an RDB or AOF, record and fences. Reports LOST for a key that `to` no longer has, SET for one
 * that comes back, EXTENDED where only the end differs. False: no memory, and `to` has only a
 * part. */
bool node_table_copy(struct node_table *to, const struct node_table *from);

#endif
