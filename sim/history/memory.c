/* SPDX-License-Identifier: BSD-2-Clause */
#include "memory.h"

#include <stdio.h>
#include <stdlib.h>

static void *or_abort(void *memory) {
    if (memory) return memory;
    fputs("redlock-sim: out of memory\n", stderr);
    abort();
}

void *memory_grow(void *array, size_t *capacity, size_t element, size_t least) {
    *capacity = *capacity ? *capacity * 2 : least;
    return or_abort(realloc(array, *capacity * element));
}

void *memory_new(size_t bytes) { return or_abort(calloc(1, bytes)); }
