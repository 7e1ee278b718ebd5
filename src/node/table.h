/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The rules of one node in C: those of the Lua scripts and of SET NX PX, GET, PTTL, DEL, PEXPIRE
 * and ZADD, on a table of keys. No clock and no I/O: the time comes in as `now_ms`. Memory comes
 * from memory.h. There are two kinds of table:
 *
 * A stock table is what an unmodified server does. The simulator's nodes run on it, `now_ms` is the
 * node's wall clock, and a differential test keeps it equal to real servers (tests/node).
 *
 * A native table is the state of a node with the module, and of the simulator's native nodes. It
 * differs in this:
 *  - `now_ms` is a clock that never steps back (CLOCK_BOOTTIME), and a key ends at its end, not one
 *    millisecond later, and for ever. Only writes and node_expire_some() take ended keys out and
 *    report them; reads treat them as absent and change nothing.
 *  - Fences are exact for keys in use (see "guarded mode" below).
 *  - Keys are locks: no client of the module can call node_set(), node_set_other_type(),
 *    node_delete(), node_pexpire(), node_flush_all() and node_evict_key(). Record and fences
 *    cannot be deleted.
 *  - Memory has a limit.
 * No call costs more than a fixed number of steps for each key that it names, whatever the number
 * of keys in the table; except node_flush_all(), node_table_copy(), node_table_free(), and
 * node_expire_due(). */
#ifndef RL_NODE_TABLE_H
#define RL_NODE_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct node_bytes {
    const void *data;
    size_t bytes;
};
static inline bool node_equal(struct node_bytes a, struct node_bytes b) {
    return a.bytes == b.bytes && (a.bytes == 0 || memcmp(a.data, b.data, a.bytes) == 0);
}

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

/* When does a key of a stock table end? Servers differ (docs/operate/servers.md). */
enum node_end_rule {
    NODE_ENDS_AFTER, /* now > end: Redis up to 7.4, Valkey: with a PTTL of 0 it still exists */
    NODE_EXPIRES_AT, /* Redis 8: requests find it until then, but active expiry deletes it at its
                        end, so it may be gone one millisecond earlier */
    /* What is worst for each request, and what Redis 8 may do: at the millisecond of its end a key
     * is gone for a request that would set, extend, raise, confirm or delete it (its holder has
     * lost it, a rival may take it), and still there for one that only looks, so that nobody hears
     * early that it is free. */
    NODE_ENDS_EITHER
};

struct node_options {
    bool native;
    enum node_end_rule ends; /* of a stock table */
    uint64_t seed;           /* of the hash. The same seed: the same order of node_scan() */
    /* Native: what the locks may use (node_bytes_locked()); 0: no limit. Beyond it an acquire is
     * answered NODE_NO_MEMORY; extensions and releases always work. */
    size_t bytes_max;
    node_change_fn *on_change; /* may be NULL */
    void *context;
};

struct node_table *node_table_open(const struct node_options *options); /* NULL: no memory */
/* A stock table, NODE_ENDS_AFTER, seed 0. */
struct node_table *node_table_new(node_change_fn *on_change, void *context);
void node_table_free(struct node_table *table); /* reports nothing */

/* Keys end by the rule above. TTLs are above 0 unless stated otherwise, and now_ms + ttl_ms is
 * below INT64_MAX. There is at least one key. Keys and tokens are below 2^32 bytes. */

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
/* All of them, in the order in which they were set. */
void node_expire_due(struct node_table *table, int64_t now_ms);
/* At most `limit`, in the order of their ends. Returns how many; fewer than `limit`: no more. */
size_t node_expire_some(struct node_table *table, int64_t now_ms, size_t limit);
void node_expire_key(struct node_table *table, struct node_bytes key, int64_t now_ms);
/* Ended keys that were not taken out yet count. */
size_t node_count(const struct node_table *table);
int64_t node_next_expiry(const struct node_table *table); /* INT64_MAX: none */

/* ---- looking at locks */

struct node_lock {
    struct node_bytes key, token; /* valid until the next call that changes the table */
    int64_t expires_ms;           /* INT64_MAX: none */
    int64_t fence;                /* native: the key's own fence, 0: none. Stock: 0 */
    bool other_type;
};

/* False: absent, and *lock is left alone. On a native table it changes nothing. */
bool node_look(struct node_table *table, struct node_bytes key, int64_t now_ms,
               struct node_lock *lock);
/* Native: a lock that has ended, and that nothing has taken out yet. */
bool node_look_ended(const struct node_table *table, struct node_bytes key, int64_t now_ms,
                     struct node_lock *lock);

/* As SCAN: begins with cursor 0, ends when it returns 0, visits about `count` keys in each call. A
 * key that is there from beginning to end is visited at least once, however the table grows or
 * shrinks meanwhile. Keys that have ended are left out. Cursors are below 2^32. The function must
 * not call the table. */
typedef void node_visit_fn(void *context, const struct node_lock *lock);
uint64_t node_scan(const struct node_table *table, uint64_t cursor, size_t count, int64_t now_ms,
                   node_visit_fn *visit, void *context);

/* What the keys use, with an allowance for the allocator; bounded by bytes_max. */
size_t node_bytes_locked(const struct node_table *table);

/* ---- guarded mode: the record, and the fences that are named after its nonce
 * (src/core/guard.h) */

#define NODE_STRIPES 4096
#define NODE_FIELDS_MAX 64

struct node_field {
    struct node_bytes name, value;
};

/* Fences are above 0. There is at least one stripe, and each is named once. Nonce 0 belongs to no
 * record, and has no fences.
 *
 * A stock table has one number for each stripe: the highest fence accepted for a key of the stripe.
 * So a busy key makes requests for its neighbours stale. A native table is exact for keys in use:
 *  - A key has its own fence, the highest accepted while it is held. It begins at the stripe's
 *    `floor`, the highest of keys that are no longer held; when the key goes, floor rises to it.
 *  - Each stripe has a `bound`, below which no key counts, held or not: record writes install it,
 *    and a break raises it, as any raise without keys. Both must exceed the highest.
 *  - `highest` is the highest fence ever accepted for the stripe. It is what node_fences() returns:
 *    recovery of other nodes installs it as their floor.
 * So an acquire or raise must exceed the fence of its own key: max(own, bound). The stripe of a key
 * is computed from the key (docs/inside/guarded.md); that of a key above 4096 bytes is taken from
 * the first request that names it with one stripe. A stripe that a request names and that belongs
 * to none of its keys is treated as in a raise without keys, and an extension raises it too. */

/* Stock tables only. ZADD XX GT CH of all stripes in one command. STALE: one or more of them were
 * not raised, or they are gone. */
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
/* Stock tables only. The record and its fences get the nonce rl_nonce_sum(nonce, added). */
void node_rename(struct node_table *table, uint64_t nonce, uint64_t added);
/* break.lua: raises the fence as a raise without keys does, and in the same step renames and
 * deletes the key if it holds the token. (A native table, where a vote is one step, keeps its
 * nonce.) GRANTED: raised and deleted; ABSENT, DENIED (another token): raised. GONE, STALE
 * (*highest as above), WRONGTYPE: nothing was changed. */
enum node_answer node_break(struct node_table *table, struct node_bytes key,
                            struct node_bytes token, uint64_t nonce, uint64_t added, int64_t fence,
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

/* ---- shared locks: share.lua and its siblings

 * The key holds a marker instead of a token, and the readers are listed next to it, each with its
 * own end. In a native table the fence of a reader is that of the key, and a list goes with its
 * key: a call that takes such a key out costs a step for each reader. */

#define NODE_SHARED_MARKER "redlock:shared"

struct node_share {
    struct node_bytes key, reader;
    int64_t ttl_ms; /* not for a release */
    bool guarded;   /* with a fence, of one stripe */
    uint64_t nonce;
    int64_t fence;
    uint16_t stripe;
};
/* GRANTED: *fence is the stripe's, at least the request's, or 0 in classic mode. DENIED, GONE,
 * NO_MEMORY. */
enum node_answer node_share(struct node_table *table, const struct node_share *share,
                            int64_t now_ms, int64_t *fence);
/* Where the key holds the reader's own token, it becomes the marker, and its holder a reader.
 * GRANTED, GONE, ABSENT (no key, or no place in it), DENIED, WRONGTYPE, NO_MEMORY. */
enum node_answer node_share_extend(struct node_table *table, const struct node_share *share,
                                   int64_t now_ms);
/* Whether readers hold the key. */
bool node_is_shared(struct node_table *table, struct node_bytes key, int64_t now_ms);
/* Whether the reader has a place whose end has not come. */
bool node_share_is_listed(struct node_table *table, struct node_bytes key, struct node_bytes reader,
                          int64_t now_ms);
/* As node_share_extend() without GONE and NO_MEMORY. */
enum node_answer node_share_release(struct node_table *table, const struct node_share *share,
                                    int64_t now_ms);
/* The readers that are listed under a key and whose ends have not come, in the order of these. */
typedef void node_reader_fn(void *context, struct node_bytes reader, int64_t expires_ms);
void node_readers(const struct node_table *table, struct node_bytes key, int64_t now_ms,
                  node_reader_fn *visit, void *context);
/* As readers.lua: GRANTED: *count of these; ABSENT, DENIED, WRONGTYPE. */
enum node_answer node_readers_count(struct node_table *table, struct node_bytes key, int64_t now_ms,
                                    int64_t *count);
/* Native: of a lock whose many readers ended with it, the memory is freed afterwards, `limit`
 * readers at a time. Returns how many; fewer than `limit`: nothing is left. */
size_t node_free_some(struct node_table *table, size_t limit);
bool node_frees_more(const struct node_table *table);
/* On a server each list is a key of its own, which may outlive the lock's: how many there are. */
size_t node_lists(const struct node_table *table);
/* Active expiry of these; `loading`: as a server does when it reads a snapshot. */
void node_lists_expire(struct node_table *table, int64_t now_ms, bool loading);

/* Snapshots, for restarts with old data and lagging replicas: keys with their absolute ends, as in
 * an RDB or AOF, record and fences. Reports LOST for a key that `to` no longer has, SET for one
 * that comes back, EXTENDED where only the end differs. False: no memory, and `to` has only a
 * part. */
bool node_table_copy(struct node_table *to, const struct node_table *from);

#endif
