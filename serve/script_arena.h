/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The memory of one Lua state: a block that is handed out from one end and dropped as a whole. So a
 * run costs one malloc(), a state needs no closing, what a script can use is bounded, and so is all
 * that it can allocate over time, since nothing comes back but the piece handed out last.
 */
#ifndef SERVE_SCRIPT_ARENA_H
#define SERVE_SCRIPT_ARENA_H

#include <stddef.h>

struct arena {
    char *bytes;
    size_t used;
    size_t size;
};

/* What a script may use beside its own code and what it is given. */
#define ARENA_ROOM_BYTES ((size_t)64 * 1024)

/* NULL: full. Aligned for any type. */
void *arena_take(struct arena *arena, size_t bytes);
/* A lua_Alloc; `arena` is a struct arena. */
void *arena_lua(void *arena, void *piece, size_t bytes_old, size_t bytes);
#endif
