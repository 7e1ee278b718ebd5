/* SPDX-License-Identifier: BSD-2-Clause
 *
 * node/memory.h for tests: it counts, and fails when it is asked to. */
#ifndef TESTS_NODE_MEMORY_H
#define TESTS_NODE_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

/* After so many the next one fails, and all after it; -1: none fails. */
extern long memory_left;
extern bool memory_is_dirty; /* new memory is not zero; the default */
extern size_t memory_pieces,
    memory_bytes; /* that are taken and not given; as the allocator has them */

#endif
