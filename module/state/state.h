/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The state of the node, and what all parts of the module share. One thread, the server's main
 * one, touches it. */
#ifndef MODULE_STATE_H
#define MODULE_STATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "node/queue.h"
#include "node/table.h"
#include "state/server_api.h"

#define RECORD_KEY "redlock:node" /* its invalidation announces a changed record */

enum {
    INCARNATION_DIGITS = 40,
    NONCE_DIGITS = 16,
    KEYS_MAX = 1024,        /* in one request; a lock has at most 64 */
    NAME_BYTES_MAX = 65536, /* of a key or a token */
    WAITER_BYTES_MAX = 128,
    SHOWN_TOKEN_BYTES = 128,   /* of the holder's token, in a denial */
    SHOWN_OUTSIDE_BYTES = 4096 /* of a value that only the keyspace has */
};

/* X(field of INFO) */
#define COUNTERS(X)                                                                                \
    X(granted)                                                                                     \
    X(denied)                                                                                      \
    X(stale)                                                                                       \
    X(extended)                                                                                    \
    X(released)                                                                                    \
    X(ended)                                                                                       \
    X(adopted)                                                                                     \
    X(refused_no_memory)                                                                           \
    X(refused_replica)                                                                             \
    X(record_writes)

/* What runs, which decides what may be done to the keyspace (mirror.h). */
enum running {
    RUNS_READ,  /* a command that is declared readonly: nothing may change */
    RUNS_WRITE, /* one that is declared write: the server lets it run only when keys may change */
    RUNS_TIMER, /* between commands, where the server passes nothing on: the table may change */
    RUNS_CRON   /* in the server's cron: copies may be deleted too */
};

struct native_node {
    struct node_table *table;
    struct node_queue *queue; /* who waits for each lock */
    char incarnation[INCARNATION_DIGITS + 1];
    /* options */
    bool mirror;
    int db;
    size_t memory_max; /* of the locks, in bytes */
    /* the command that runs, or the timer */
    struct server_ctx *ctx;
    enum running running;
    int flags; /* of ctx */
    int64_t now_ms, now_us;
    int64_t ending_us_max; /* the longest that the server waited while leases were ended at once */
    struct server_string *const *names; /* the keys of the request, as the server has them */
    const struct node_bytes *keys;
    size_t keys_count;
    struct {
#define COUNTER(name) uint64_t name;
        COUNTERS(COUNTER)
#undef COUNTER
    } counts;
};
extern struct native_node node;

extern struct server_string *record_key; /* RECORD_KEY, as the server has it */

#endif
