/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Where table.c, guarded.c and queue.c take their memory. memory.c has these functions with the C
 * library's allocator; a module inside a server links its own instead, so that the server counts
 * the memory as its own. Tests link functions that fail. */
#ifndef RL_NODE_MEMORY_H
#define RL_NODE_MEMORY_H

#include <stddef.h>

/* `bytes` is above 0. NULL: no memory. */
void *node_memory_take(size_t bytes);
void node_memory_give(void *memory); /* NULL: nothing */

/* What a limit counts for a piece of so many bytes: with an allowance for what allocators add. */
static inline size_t node_memory_charge(size_t bytes) { return (bytes + 8 + 15) & ~(size_t)15; }

#endif
