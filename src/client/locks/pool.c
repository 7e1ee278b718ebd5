/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Memory that is needed again and again: what a lock needs while something is under way, it gives
 * back when it is at rest, and the next takes it over as it was. A few stay, so that what acquiring
 * took is there for releasing; the rest of a burst is freed. The last of them may be in reserve:
 * then only who asks for it takes it.
 */
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
