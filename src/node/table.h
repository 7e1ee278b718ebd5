/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What one node does with a request, in C: the rules of the Lua scripts and of SET NX PX, GET,
 * PTTL, DEL, PEXPIRE, ZADD on a small table of keys. The simulated node runs on it, later the
 * module does. No clock and no I/O: the node's wall clock comes in as `now_ms`, and keys end by it,
 * as on a real server. Kept equal to real servers by a differential test (tests/node).
 */
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
    NODE_DENIED,  /* another's */
    NODE_ABSENT,
    NODE_WRONGTYPE,
    NODE_NO_MEMORY,
    NODE_STALE, /* guarded: the fence was not raised */
    NODE_GONE   /* guarded: there are no fences of that nonce */
};

struct node_table;

/* Told of each change, so that a history can be written; key and token are valid during the call.
 * The token is what the key holds, or held; `expires_ms` is its end, INT64_MAX: none. It must not
 * call the table. */
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

/* A key exists up to and at the millisecond of its end, as on real servers. TTLs are above 0,
 * unless said otherwise, and now_ms + ttl_ms is below INT64_MAX; there is at least one key. */

/* One key: SET NX PX. Several: acquire_many.lua. */
enum node_answer node_acquire(struct node_table *table, const struct node_bytes *keys, size_t count,
                              struct node_bytes token, int64_t ttl_ms, int64_t now_ms);
enum node_answer node_extend(struct node_table *table, const struct node_bytes *keys, size_t count,
                             struct node_bytes token, int64_t ttl_ms, int64_t now_ms);
enum node_answer node_release(struct node_table *table, const struct node_bytes *keys, size_t count,
                              struct node_bytes token, int64_t now_ms);
/* PTTL of one key: -2 none, -1 no TTL. */
int64_t node_pttl(struct node_table *table, struct node_bytes key, int64_t now_ms);
/* The value, {NULL, 0} if absent or of another type; valid until the table is asked again. */
struct node_bytes node_get(struct node_table *table, struct node_bytes key, int64_t now_ms);

/* What others do: plain SET (ttl_ms 0: none), DEL, FLUSHALL; and active expiry, which only tells
 * earlier. Record and fences (below) can be deleted and evicted by their names too, and go with
 * FLUSHALL. They are not counted, nobody is told, and no lock may have such a name. */
enum node_answer node_set(struct node_table *table, struct node_bytes key, struct node_bytes value,
                          int64_t ttl_ms, int64_t now_ms);
enum node_answer node_set_other_type(struct node_table *table, struct node_bytes key,
                                     int64_t now_ms); /* a list, say */
bool node_delete(struct node_table *table, struct node_bytes key, int64_t now_ms);
bool node_pexpire(struct node_table *table, struct node_bytes key, int64_t ttl_ms,
                  int64_t now_ms); /* <= 0 deletes */
void node_flush_all(struct node_table *table);
bool node_evict_key(struct node_table *table, struct node_bytes key);
void node_expire_due(struct node_table *table, int64_t now_ms);
size_t node_count(const struct node_table *table);
int64_t node_next_expiry(const struct node_table *table); /* INT64_MAX: none */

/* ---- guarded mode: the record, and the fences that are named by its nonce (src/core/guard.h)
 * ------------------- */

#define NODE_STRIPES 4096
#define NODE_FIELDS_MAX 64

struct node_field {
    struct node_bytes name, value;
};

/* Fences are above 0; there is at least one stripe, and each is named once. Nonce 0 is nobody's:
 * there are no such fences. */

/* ZADD XX GT CH of all stripes in one command: STALE when one or more of them was not raised, or
 * they are gone. */
enum node_answer node_zadd(struct node_table *table, uint64_t nonce, int64_t fence,
                           const uint16_t *stripes, size_t count);
/* acquire_guarded.lua: one atomic step for several keys. GRANTED; DENIED: nothing was changed;
 * STALE: keys are set, fences are not. (One key: node_acquire() and then node_zadd(), which is
 * tried whatever the first said.) */
enum node_answer node_acquire_guarded(struct node_table *table, const struct node_bytes *keys,
                                      size_t count, struct node_bytes token, int64_t ttl_ms,
                                      uint64_t nonce, int64_t fence, const uint16_t *stripes,
                                      size_t stripes_count, int64_t now_ms);
/* GRANTED: extended, and every stripe is at least the fence. GONE is said before DENIED, that
 * before ABSENT. */
enum node_answer node_extend_guarded(struct node_table *table, const struct node_bytes *keys,
                                     size_t count, struct node_bytes token, int64_t ttl_ms,
                                     uint64_t nonce, int64_t fence, const uint16_t *stripes,
                                     size_t stripes_count, int64_t now_ms);
/* GRANTED; GONE; DENIED: not every key holds the token; STALE with the highest of the stripes'
 * fences in *highest, which is left alone otherwise. */
enum node_answer node_raise(struct node_table *table, const struct node_bytes *keys, size_t count,
                            struct node_bytes token, uint64_t nonce, int64_t fence,
                            const uint16_t *stripes, size_t stripes_count, int64_t now_ms,
                            int64_t *highest);
/* GRANTED: every key holds the token and every stripe is at least the fence. GONE. STALE: else. */
enum node_answer node_confirm(struct node_table *table, const struct node_bytes *keys, size_t count,
                              struct node_bytes token, uint64_t nonce, int64_t fence,
                              const uint16_t *stripes, size_t stripes_count, int64_t now_ms);
/* The record's fields in the order in which they were written; valid until it is written again. 0:
 * there is none. */
size_t node_record(const struct node_table *table, const struct node_field **fields);
/* What record_write.lua does. GRANTED, DENIED (another nonce), NO_MEMORY; for the last two nothing
 * was changed. */
struct node_record_write {
    uint64_t expected, nonce; /* expected 0: there is no record. The new nonce is not 0 */
    bool was_kept,
        keep; /* the fences lie, or are to lie, under the kept name instead of the nonce's */
    const int64_t
        *floor; /* NODE_STRIPES: every stripe exists then and is at least this; NULL: as they are */
    const struct node_field
        *fields; /* the whole new record, "nonce" among them, as 16 hex digits; each name once */
    size_t fields_count;
};
enum node_answer node_record_write(struct node_table *table, const struct node_record_write *write);
/* NODE_STRIPES, by nonce, 0: the kept ones; valid until the table is asked again. NULL: none of
 * that name. */
const int64_t *node_fences(const struct node_table *table, uint64_t nonce);
size_t node_bytes_used(
    const struct node_table *table); /* by record and fences: to show that it does not grow */

/* Snapshots, for restarts with old data and lagging replicas: keys with their absolute ends, as an
 * RDB or AOF has, record and fences. Tells LOST for what `to` no longer has, SET for what comes
 * back, EXTENDED where only the end differs. False: no memory, and `to` has but a part. */
bool node_table_copy(struct node_table *to, const struct node_table *from);

#endif
