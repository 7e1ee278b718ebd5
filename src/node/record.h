/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A node's record: text fields. The node itself understands only the nonce; the clients have all
 * rules about the others. */
#ifndef RL_NODE_RECORD_H
#define RL_NODE_RECORD_H

#include "node/table.h"

struct record {
    uint64_t nonce; /* 0: there is no record */
    size_t fields_count, bytes;
    struct node_field fields[NODE_FIELDS_MAX];
    char *data; /* names and values */
};

/* Replaces the whole record; the fields may be those of the record itself. False: no memory, and
 * nothing was changed. */
bool record_put(struct record *record, uint64_t nonce, const struct node_field *fields,
                size_t count);
void record_drop(struct record *record);
void record_free(struct record *record);

#endif
