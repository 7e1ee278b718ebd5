/* SPDX-License-Identifier: BSD-2-Clause */
#include "memory.h"

#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "node/memory.h"

enum { ALLOCATOR_BYTES = 8 /* of its own for each piece */, GARBAGE = 0x5a };

long memory_left = -1;
bool memory_is_dirty = true;
size_t memory_pieces, memory_bytes;

void *node_memory_take(size_t bytes) {
    if (memory_left == 0 || bytes == 0) return NULL;
    if (memory_left > 0) memory_left--;
    void *memory = malloc(bytes);
    if (!memory) return NULL;
    if (memory_is_dirty) memset(memory, GARBAGE, bytes);
    memory_pieces++;
    memory_bytes += malloc_usable_size(memory) + ALLOCATOR_BYTES;
    return memory;
}

void node_memory_give(void *memory) {
    if (!memory) return;
    memory_pieces--;
    memory_bytes -= malloc_usable_size(memory) + ALLOCATOR_BYTES;
    free(memory);
}
