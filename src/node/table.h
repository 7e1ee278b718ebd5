/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What one node does with a request, in C: the rules of the Lua scripts and of SET NX PX, GET, PTTL, DEL, PEXPIRE on a
 * small table of keys. The simulated node runs on it, later the module does. No clock and no I/O: the node's wall
 * clock comes in as `now_ms`, and keys end by it, as on a real server. Kept equal to real servers by a differential
 * test (tests/node).
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
    NODE_NO_MEMORY
};

struct node_table;

/* Told of each change, so that a history can be written; key and token are valid during the call. The token is what
 * the key holds, or held; `expires_ms` is its end, INT64_MAX: none. It must not call the table. */
enum node_change { NODE_CHANGE_SET, NODE_CHANGE_EXTENDED, NODE_CHANGE_DELETED, NODE_CHANGE_EXPIRED, NODE_CHANGE_LOST };
typedef void node_change_fn(void *context, enum node_change change, struct node_bytes key, struct node_bytes token,
                            int64_t expires_ms);

struct node_table *node_table_new(node_change_fn *on_change, void *context); /* NULL: no memory */
void node_table_free(struct node_table *table);

/* A key exists up to and at the millisecond of its end, as on real servers. TTLs are above 0, unless said otherwise,
 * and now_ms + ttl_ms is below INT64_MAX; there is at least one key. */

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

/* What others do: plain SET (ttl_ms 0: none), DEL, FLUSHALL; and active expiry, which only tells earlier. */
enum node_answer node_set(struct node_table *table, struct node_bytes key, struct node_bytes value, int64_t ttl_ms,
                          int64_t now_ms);
enum node_answer node_set_other_type(struct node_table *table, struct node_bytes key, int64_t now_ms); /* a list, say */
bool node_delete(struct node_table *table, struct node_bytes key, int64_t now_ms);
bool node_pexpire(struct node_table *table, struct node_bytes key, int64_t ttl_ms, int64_t now_ms); /* <= 0 deletes */
void node_flush_all(struct node_table *table);
bool node_evict_key(struct node_table *table, struct node_bytes key);
void node_expire_due(struct node_table *table, int64_t now_ms);
size_t node_count(const struct node_table *table);
int64_t node_next_expiry(const struct node_table *table); /* INT64_MAX: none */

/* Snapshots, for restarts with old data and lagging replicas: keys with their absolute ends, as an RDB or AOF has. */
/* Tells LOST for what `to` no longer has, SET for what comes back, EXTENDED where only the end differs. False: no
 * memory, and `to` has but a part. */
bool node_table_copy(struct node_table *to, const struct node_table *from);

#endif
