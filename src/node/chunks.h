/* SPDX-License-Identifier: BSD-2-Clause
 *
 * An array in pieces: it grows and shrinks by one piece, so that no single call copies it, and
 * elements do not move. Only the list of pieces is copied, when its length doubles: eight bytes for
 * 8 KiB of elements. */
#ifndef RL_NODE_CHUNKS_H
#define RL_NODE_CHUNKS_H

#include <stdbool.h>
#include <stddef.h>

enum { NODE_CHUNK_BYTES = 8192 };

struct chunks {
    void **chunk;
    size_t count, capacity;
};

/* False: no memory, and nothing was changed. The new piece is all zeros. */
bool chunks_add(struct chunks *chunks);
void chunks_drop(struct chunks *chunks); /* the last one */
void chunks_free(struct chunks *chunks);
size_t chunks_bytes(const struct chunks *chunks);
/* What `more` pieces would add to it. */
size_t chunks_bytes_more(const struct chunks *chunks, size_t more);

#endif
