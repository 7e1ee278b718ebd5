/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What table.c (the keys) and guarded.c (record and fences) share. */
#ifndef RL_NODE_INSIDE_H
#define RL_NODE_INSIDE_H

#include "node/table.h"

/* For each stripe the highest token that was accepted. There is one set unless a person writes by
 * hand. Sets have names so that a request under an old name cannot find fences that now have a new
 * one. */
struct fences {
    struct fences *next;
    uint64_t name; /* the nonce; 0: the kept ones */
    int64_t of[NODE_STRIPES];
};

/* Text fields. The node itself understands only the nonce; the clients have all rules about the
 * others. */
struct record {
    uint64_t nonce; /* 0: there is no record */
    size_t fields_count, bytes;
    struct node_field fields[NODE_FIELDS_MAX];
    char *data; /* names and values */
};

struct node_table {
    node_change_fn *on_change;
    void *context;
    struct entry *first, *last;
    struct entry *spare; /* removed entries, for the next keys */
    size_t count;
    struct fences *fences;
    struct fences *spare_fences; /* dropped sets, for the next ones */
    struct record record;
};

/* Uses the names from net/net.h. False: not such a name, or nothing is there. */
bool guarded_delete(struct node_table *table, struct node_bytes key);
void guarded_flush(struct node_table *table);
bool guarded_copy(struct node_table *to, const struct node_table *from);
void guarded_free(struct node_table *table);

#endif
