/* SPDX-License-Identifier: BSD-2-Clause */
#include "node/chunks.h"

#include <assert.h>
#include <string.h>

#include "node/memory.h"

enum { FIRST_CAPACITY = 8 };

static size_t capacity_for(const struct chunks *chunks, size_t count) {
    size_t capacity = chunks->capacity ? chunks->capacity : FIRST_CAPACITY;
    while (capacity < count) capacity *= 2;
    return capacity;
}

static bool grow_list(struct chunks *chunks) {
    size_t capacity = capacity_for(chunks, chunks->count + 1);
    if (capacity == chunks->capacity) return true;
    void **list = node_memory_take(capacity * sizeof(void *));
    if (!list) return false;
    if (chunks->count) memcpy(list, chunks->chunk, chunks->count * sizeof(void *));
    node_memory_give(chunks->chunk);
    chunks->chunk = list;
    chunks->capacity = capacity;
    return true;
}

bool chunks_add(struct chunks *chunks) {
    void *chunk = grow_list(chunks) ? node_memory_take(NODE_CHUNK_BYTES) : NULL;
    if (!chunk) return false;
    memset(chunk, 0, NODE_CHUNK_BYTES);
    chunks->chunk[chunks->count++] = chunk;
    return true;
}

void chunks_drop(struct chunks *chunks) {
    assert(chunks->count > 0);
    node_memory_give(chunks->chunk[--chunks->count]);
}

void chunks_free(struct chunks *chunks) {
    while (chunks->count) chunks_drop(chunks);
    node_memory_give(chunks->chunk);
    *chunks = (struct chunks){NULL, 0, 0};
}

size_t chunks_bytes(const struct chunks *chunks) {
    return chunks->count * NODE_CHUNK_BYTES + chunks->capacity * sizeof(void *);
}

size_t chunks_bytes_more(const struct chunks *chunks, size_t more) {
    if (more == 0) return 0;
    size_t capacity = capacity_for(chunks, chunks->count + more);
    return more * NODE_CHUNK_BYTES + (capacity - chunks->capacity) * sizeof(void *);
}
