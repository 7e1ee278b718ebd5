/* SPDX-License-Identifier: BSD-2-Clause */
#include "behaviour.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "node/memory.h"

enum { GARBAGE = 0x5a, GIVEN = 0xa5, FENCE = 0x3c, FENCE_BYTES = 16 };

uint64_t random_state, folded;
long memory_left = -1;
bool memory_returns;
size_t memory_pieces, memory_bytes;

/* Behind the bytes is a fence: a call that writes beyond its memory is noticed. */
struct piece {
    size_t bytes;
    max_align_t data[];
};

void *node_memory_take(size_t bytes) {
    if (memory_left == 0) {
        if (memory_returns) memory_left = -1;
        return NULL;
    }
    if (memory_left > 0) memory_left--;
    struct piece *piece = malloc(sizeof *piece + bytes + FENCE_BYTES);
    if (!piece) abort();
    piece->bytes = bytes;
    memset(piece->data, GARBAGE, bytes);
    memset((char *)piece->data + bytes, FENCE, FENCE_BYTES);
    memory_pieces++;
    memory_bytes += bytes;
    return piece->data;
}

void node_memory_give(void *memory) {
    if (!memory) return;
    struct piece *piece = (struct piece *)((char *)memory - offsetof(struct piece, data));
    const char *fence = (const char *)memory + piece->bytes;
    for (int i = 0; i < FENCE_BYTES; i++)
        if (fence[i] != FENCE) fail_msg("memory of %zu bytes was written beyond", piece->bytes);
    memory_pieces--;
    memory_bytes -= piece->bytes;
    memset(memory, GIVEN, piece->bytes);
    free(piece);
}

void assert_kept(const struct kept_number *kept, unsigned kinds,
                 uint64_t (*number_of)(unsigned kind)) {
    bool same = true;
    if (sizeof(void *) != 8) skip();
    for (unsigned kind = 0; kind < kinds; kind++) {
        random_state = kind;
        folded = RL_FNV_BASIS;
        memory_left = -1;
        const uint64_t number = number_of(kind);
        assert_int_equal(memory_pieces, 0);
        if (number == kept[kind].number) continue;
        same = false;
        printf("    %s: 0x%016llx, and not 0x%016llx\n", kept[kind].name,
               (unsigned long long)number, (unsigned long long)kept[kind].number);
    }
    assert_true(same);
}
