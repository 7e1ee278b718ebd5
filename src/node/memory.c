/* SPDX-License-Identifier: BSD-2-Clause */
#include "node/memory.h"

#include <stdlib.h>

void *node_memory_take(size_t bytes) { return malloc(bytes); }

void node_memory_give(void *memory) { free(memory); }
