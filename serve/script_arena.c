/* SPDX-License-Identifier: BSD-2-Clause */
#include "script_arena.h"

#include <stdalign.h>
#include <stdbool.h>
#include <string.h>

/* Sizes are checked against the arena first, so this cannot wrap. */
static size_t rounded(size_t bytes) {
    return (bytes + alignof(max_align_t) - 1) & ~(alignof(max_align_t) - 1);
}

void *arena_take(struct arena *arena, size_t bytes) {
    if (bytes > arena->size || rounded(bytes) > arena->size - arena->used) return NULL;
    void *piece = arena->bytes + arena->used;
    arena->used += rounded(bytes);
    return piece;
}

static bool is_last(const struct arena *arena, const char *piece, size_t bytes) {
    return piece + rounded(bytes) == arena->bytes + arena->used;
}

void *arena_lua(void *opaque, void *piece, size_t bytes_old, size_t bytes) {
    struct arena *arena = opaque;
    if (piece == NULL) return bytes == 0 ? NULL : arena_take(arena, bytes);
    if (is_last(arena, piece, bytes_old)) {
        const size_t used = arena->used;
        arena->used = (size_t)((char *)piece - arena->bytes);
        if (bytes == 0) return NULL;
        if (arena_take(arena, bytes) != NULL) return piece;
        arena->used = used;
        return NULL;
    }
    if (bytes == 0) return NULL;
    if (bytes <= bytes_old) return piece;
    void *moved = arena_take(arena, bytes);
    if (moved != NULL) memcpy(moved, piece, bytes_old);
    return moved;
}
