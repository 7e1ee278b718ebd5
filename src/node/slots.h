/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The slots of a resource on one node: acquire_slot.lua in C. A slot is a plain lock, so everything
 * else is done to it by its key (table.h). */
#ifndef RL_NODE_SLOTS_H
#define RL_NODE_SLOTS_H

#include "node/queue.h"

enum {
    NODE_SLOTS_MAX = 64,
    NODE_SLOT_TOKEN_DIGITS = 40, /* then '/', the number of slots, and ':' or the end */
    NODE_SLOT_RESOURCE_BYTES_MAX = 1024,
    NODE_SLOT_KEY_BYTES_MAX = NODE_SLOT_RESOURCE_BYTES_MAX + 8
};

/* The key of a slot, 1 to NODE_SLOTS_MAX, written to `out`. */
struct node_bytes node_slot_key(struct node_bytes resource, unsigned slot,
                                char out[NODE_SLOT_KEY_BYTES_MAX]);
/* The key of the first slot of the same resource: a waiter for any slot stands in its queue. False:
 * the key is not that of a slot. */
bool node_slot_first(struct node_bytes key, struct node_bytes *first,
                     char out[NODE_SLOT_KEY_BYTES_MAX]);

struct node_slot_request {
    const struct node_bytes *names; /* NODE_SLOTS_MAX: the key of slot n is names[n - 1] */
    unsigned count;                 /* how many slots the client thinks the resource has */
    const uint8_t *order;           /* slots to try, in this order */
    unsigned order_count;
    struct node_bytes token;
    int64_t ttl_ms;
    uint64_t nonce; /* guarded; 0: classic */
    int64_t fence;
    const uint16_t *stripes; /* of slots 1, 2, ... */
    /* Native: slots that only the keyspace has, where strangers keep them; bit 0 is slot 1. */
    uint64_t barred;
};

struct node_slot_answer {
    /* GRANTED; STALE: the key is set, the fence was not raised; DENIED; NO_MEMORY: as DENIED, and
     * nothing was changed */
    enum node_answer answer;
    unsigned slot;        /* GRANTED, STALE */
    unsigned other_count; /* DENIED: slots are held with this other number; 0: all are taken */
    int64_t remaining_ms; /* DENIED, all are taken: of the slot that ends first; -1: unknown */
};

struct node_slot_answer node_acquire_slot(struct node_table *table,
                                          const struct node_slot_request *request, int64_t now_ms);

/* The same with a native table and its queue, as node_acquire_in_turn(). While a slot that is free
 * is reserved for another waiter, nobody else takes any slot; when the waiter has taken it and
 * another slot is free, it is the next one's turn. */
struct node_slot_answer node_acquire_slot_in_turn(struct node_table *table,
                                                  struct node_queue *queue,
                                                  const struct node_slot_request *request,
                                                  const struct node_waiter *waiter, int64_t now_us,
                                                  struct node_turn *turn);
/* Enters the queue, or stays in it. Returns how long the waiter must wait at least, in
 * milliseconds: -2: it may try now; -1: unknown. Of the request only the slots count. */
int64_t node_await_slot(struct node_table *table, struct node_queue *queue,
                        const struct node_slot_request *request, const struct node_waiter *waiter,
                        int64_t now_us, int64_t *rank);

/* The number of slots in a slot's token; 0: it is another token. */
unsigned node_slot_count(struct node_bytes token);

#endif
