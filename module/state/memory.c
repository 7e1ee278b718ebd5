/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The memory of src/node, from the server's allocator: INFO memory counts it, and so does
 * maxmemory. */
#include "node/memory.h"

#include "state/server_api.h"

void *node_memory_take(size_t bytes) {
    return server.TryAlloc ? server.TryAlloc(bytes) : server.Alloc(bytes);
}

void node_memory_give(void *memory) { server.Free(memory); }
