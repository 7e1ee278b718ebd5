/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Numbers for tokens, in order of appearance. The hash only finds them again; no code walks in its
 * order.
 */
#include <stdlib.h>
#include <string.h>

#include "inside.h"

static uint64_t hash_of(struct net_bytes bytes) {
    return rl_fnv1a(RL_FNV_BASIS, bytes.data, bytes.bytes);
}

struct net_bytes token_bytes(const struct tokens *tokens, uint32_t number) {
    if (number == 0) return (struct net_bytes){NULL, 0};
    const struct token *token = &tokens->each[number - 1];
    return (struct net_bytes){tokens->bytes + token->at, token->bytes};
}

static uint32_t *find(const struct tokens *tokens, struct net_bytes bytes) {
    size_t mask = tokens->slots_count - 1;
    for (size_t at = (size_t)hash_of(bytes) & mask;; at = (at + 1) & mask) {
        if (tokens->slots[at] == 0) return &tokens->slots[at];
        struct net_bytes here = token_bytes(tokens, tokens->slots[at]);
        if (here.bytes == bytes.bytes && memcmp(here.data, bytes.data, bytes.bytes) == 0)
            return &tokens->slots[at];
    }
}

static void rehash(struct tokens *tokens) {
    free(tokens->slots);
    tokens->slots_count = tokens->slots_count ? tokens->slots_count * 2 : 256;
    tokens->slots = memory_new(tokens->slots_count * sizeof(tokens->slots[0]));
    for (uint32_t number = 1; number <= tokens->count; number++)
        *find(tokens, token_bytes(tokens, number)) = number;
}

uint32_t token_number(struct tokens *tokens, struct net_bytes bytes) {
    if (bytes.bytes == 0) return 0;
    if ((tokens->count + 1) * 2 > tokens->slots_count) rehash(tokens);
    uint32_t *slot = find(tokens, bytes);
    if (*slot != 0) return *slot;
    if (tokens->count == tokens->capacity)
        tokens->each = memory_grow(tokens->each, &tokens->capacity, sizeof(tokens->each[0]), 128);
    while (tokens->bytes_count + bytes.bytes > tokens->bytes_capacity)
        tokens->bytes = memory_grow(tokens->bytes, &tokens->bytes_capacity, 1, 8192);
    memcpy(tokens->bytes + tokens->bytes_count, bytes.data, bytes.bytes);
    tokens->each[tokens->count++] = (struct token){tokens->bytes_count, bytes.bytes};
    tokens->bytes_count += bytes.bytes;
    return *slot = (uint32_t)tokens->count;
}

void tokens_clear(struct tokens *tokens) {
    tokens->count = tokens->bytes_count = 0;
    if (tokens->slots) memset(tokens->slots, 0, tokens->slots_count * sizeof(tokens->slots[0]));
}

void tokens_free(struct tokens *tokens) {
    free(tokens->bytes);
    free(tokens->each);
    free(tokens->slots);
    *tokens = (struct tokens){0};
}
