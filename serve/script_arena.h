/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The memory of one Lua state: a block that is handed out from one end and dropped as a whole. A
 * run therefore costs one malloc(), and its state needs no closing. The memory of a script is
 * bounded, and so is the total that it can allocate over time, since only the piece that was handed
 * out last can be returned.
 */
#ifndef SERVE_SCRIPT_ARENA_H
#define SERVE_SCRIPT_ARENA_H

#include <stddef.h>

struct arena {
    char *bytes;
    size_t used;
    size_t size;
};

/* The memory of a script, in addition to its own code and its inputs. */
#define ARENA_ROOM_BYTES ((size_t)64 * 1024)

/* NULL: the arena is full. The result is aligned for any type. */
void *arena_take(struct arena *arena, size_t bytes);
/* A lua_Alloc; `arena` is a struct arena. */
void *arena_lua(void *arena, void *piece, size_t bytes_old, size_t bytes);
#endif
