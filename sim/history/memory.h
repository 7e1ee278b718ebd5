/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Allocation that succeeds or aborts: a world that lost a part of itself proves nothing.
 */
#ifndef SIM_MEMORY_H
#define SIM_MEMORY_H

#include <stddef.h>

/* Doubles an array (first: `least` elements); aborts when memory is out. */
void *memory_grow(void *array, size_t *capacity, size_t element, size_t least);
void *memory_new(size_t bytes); /* zeroed */

#endif
