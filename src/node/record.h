/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A node's record: fields of text, of which it knows the nonce alone. All rules about the others
 * are the clients'.
 */
#ifndef RL_NODE_RECORD_H
#define RL_NODE_RECORD_H

#include "node/table.h"

struct record {
    uint64_t nonce; /* 0: there is none */
    size_t fields_count, bytes;
    struct node_field fields[NODE_FIELDS_MAX];
    char *data; /* names and values */
};

/* As a whole; the fields may be those of the record itself. False: no memory, nothing was
 * changed. */
bool record_put(struct record *record, uint64_t nonce, const struct node_field *fields,
                size_t count);
void record_drop(struct record *record);
void record_free(struct record *record);

#endif
