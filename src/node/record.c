/* SPDX-License-Identifier: BSD-2-Clause */
#include "node/record.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static struct node_bytes keep(char **end, struct node_bytes bytes) {
    struct node_bytes kept = {*end, bytes.bytes};
    if (bytes.bytes) memcpy(*end, bytes.data, bytes.bytes);
    *end += bytes.bytes;
    return kept;
}

bool record_put(struct record *record, uint64_t nonce, const struct node_field *fields,
                size_t count) {
    size_t bytes = 0;
    assert(nonce != 0 && count > 0 && count <= NODE_FIELDS_MAX);
    for (size_t i = 0; i < count; i++) bytes += fields[i].name.bytes + fields[i].value.bytes;
    char *data = malloc(bytes ? bytes : 1), *end = data;
    if (!data) return false;
    for (size_t i = 0; i < count; i++) {
        record->fields[i].name = keep(&end, fields[i].name);
        record->fields[i].value = keep(&end, fields[i].value);
    }
    free(record->data);
    record->data = data;
    record->bytes = bytes;
    record->fields_count = count;
    record->nonce = nonce;
    return true;
}

void record_drop(struct record *record) {
    record->nonce = 0;
    record->fields_count = record->bytes = 0;
}

void record_free(struct record *record) { free(record->data); }
