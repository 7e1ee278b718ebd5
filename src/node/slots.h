/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The slots of a resource on one node: acquire_slot.lua in C, on a stock table. A slot is a plain
 * lock, so everything else is done to it by its key (table.h). */
#ifndef RL_NODE_SLOTS_H
#define RL_NODE_SLOTS_H

#include "node/table.h"

enum {
    NODE_SLOTS_MAX = 64,
    NODE_SLOT_TOKEN_DIGITS = 40 /* then '/', the number of slots, and ':' or the end */
};

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

/* The number of slots in a slot's token; 0: it is another token. */
unsigned node_slot_count(struct node_bytes token);

#endif
