/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What table.c (the keys) and guarded.c (record and fences) share. */
#ifndef RL_NODE_INSIDE_H
#define RL_NODE_INSIDE_H

#include "node/fences.h"
#include "node/record.h"
#include "node/table.h"

struct entry;

struct node_table {
    node_change_fn *on_change;
    void *context;
    struct entry *first, *last;
    struct entry *spare;
    size_t count;
    struct fences_list fences;
    struct record record;
};

/* Uses the names from net/net.h. False: not such a name, or nothing is there. */
bool guarded_delete(struct node_table *table, struct node_bytes key);
void guarded_flush(struct node_table *table);
bool guarded_copy(struct node_table *to, const struct node_table *from);
void guarded_free(struct node_table *table);

#endif
