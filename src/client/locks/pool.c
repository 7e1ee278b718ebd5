/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Memory that is used again and again. A lock needs it while an operation is under way, gives it
 * back when idle, and the next lock takes it unchanged. A few pieces stay, so that the memory of an
 * acquisition is there for the release; the rest of a burst is freed. The last pieces may be
 * reserved: only callers that ask for the reserve get them. */
#include <stdlib.h>

#include "lock.h"

enum { POOL_KEEPS = 512 };

struct spare {
    struct spare *next;
};

void *pool_take(struct pool *pool, size_t bytes, unsigned reserve) {
    struct spare *spare = pool->first;
    if (pool->count <= reserve) return calloc(1, bytes);
    pool->first = spare->next;
    pool->count--;
    spare->next = NULL;
    return spare;
}

void pool_give(struct pool *pool, void *memory) {
    struct spare *spare = memory;
    if (pool->count == POOL_KEEPS) {
        free(memory);
        return;
    }
    spare->next = pool->first;
    pool->first = spare;
    pool->count++;
}

void pool_empty(struct pool *pool) {
    for (struct spare *spare = pool->first, *next; spare; spare = next) {
        next = spare->next;
        free(spare);
    }
    *pool = (struct pool){NULL, 0};
}
