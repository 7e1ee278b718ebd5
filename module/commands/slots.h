/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The slots of a resource, as the commands of the module look at them. */
#ifndef MODULE_SLOTS_H
#define MODULE_SLOTS_H

#include "node/slots.h"
#include "commands/request.h"

struct slots {
    struct node_slot_request request; /* its names, count and barred slots; valid until the next */
    unsigned other_count; /* with which a slot is held that only the keyspace has; 0: none */
    int64_t outside_ms;   /* until the first of those that bar a slot ends; -1: unknown */
};
/* False: the name is too long, and it replied. */
bool slots_look(struct server_ctx *ctx, struct node_bytes resource, int64_t count,
                struct slots *slots);
int64_t slots_earlier(int64_t a_ms, int64_t b_ms); /* -1: unknown */
bool read_slot_count(struct words *words, int64_t *count);

#endif
