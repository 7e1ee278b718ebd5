/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Functions on numbers. Two well-known ones scatter bits. They are not cryptographic: numbers that
 * must not be guessed come from the kernel. */
#ifndef RL_CORE_MIX_H
#define RL_CORE_MIX_H

#include <stddef.h>
#include <stdint.h>

/* The finalizer of splitmix64: similar inputs give very different outputs. */
static inline uint64_t rl_scatter(uint64_t number) {
    number = (number ^ number >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    number = (number ^ number >> 27) * UINT64_C(0x94d049bb133111eb);
    return number ^ number >> 31;
}

/* splitmix64: a sequence of 64-bit numbers. Any state is valid. */
static inline uint64_t rl_splitmix64(uint64_t *state) {
    return rl_scatter(*state += UINT64_C(0x9e3779b97f4a7c15));
}

/* Nanoseconds from `low` to `high`, drawn from that sequence. */
static inline int64_t rl_draw_between(uint64_t *state, int64_t low, int64_t high) {
    return low + (int64_t)(rl_splitmix64(state) % ((uint64_t)(high - low) + 1));
}

/* FNV-1a, 64 bits: begin with RL_FNV_BASIS. docs/inside/guarded.md fixes it as the hash that gives
 * a key its stripe. */
#define RL_FNV_BASIS UINT64_C(0xcbf29ce484222325)
static inline uint64_t rl_fnv1a(uint64_t hash, const void *data, size_t bytes) {
    const unsigned char *at = data;
    for (size_t i = 0; i < bytes; i++) hash = (hash ^ at[i]) * UINT64_C(0x100000001b3);
    return hash;
}

/* The eight bytes of a number, the lowest first on every machine. */
static inline uint64_t rl_fnv1a_number(uint64_t hash, uint64_t number) {
    for (unsigned i = 0; i < 64; i += 8)
        hash = (hash ^ (unsigned char)(number >> i)) * UINT64_C(0x100000001b3);
    return hash;
}

/* What a break makes of a node's nonce (node/break.lua): each half is added by itself. */
static inline uint64_t rl_nonce_sum(uint64_t nonce, uint64_t added) {
    const uint32_t high = (uint32_t)((nonce >> 32) + (added >> 32));
    return (uint64_t)high << 32 | (uint32_t)(nonce + added);
}

#endif
