/* SPDX-License-Identifier: BSD-2-Clause
 *
 * SipHash-1-3 (Aumasson, Bernstein) with 32 bits of result: whoever does not know the seed cannot
 * choose names that collide. The same on every machine. */
#ifndef RL_NODE_HASH_H
#define RL_NODE_HASH_H

#include <string.h>

#include "core/mix.h"
#include "node/table.h"

struct node_sip {
    uint64_t a, b, c, d;
};

static inline uint64_t node_rotate(uint64_t number, unsigned bits) {
    return number << bits | number >> (64 - bits);
}

static inline void node_sip_round(struct node_sip *sip) {
    sip->a += sip->b;
    sip->c += sip->d;
    sip->b = node_rotate(sip->b, 13) ^ sip->a;
    sip->d = node_rotate(sip->d, 16) ^ sip->c;
    sip->a = node_rotate(sip->a, 32);
    sip->c += sip->b;
    sip->a += sip->d;
    sip->b = node_rotate(sip->b, 17) ^ sip->c;
    sip->d = node_rotate(sip->d, 21) ^ sip->a;
    sip->c = node_rotate(sip->c, 32);
}

static inline void node_sip_word(struct node_sip *sip, uint64_t word) {
    sip->d ^= word;
    node_sip_round(sip);
    sip->a ^= word;
}

/* Up to 8 bytes, little-endian on every machine. */
static inline uint64_t node_last_word(const unsigned char *at, size_t bytes) {
    uint64_t word = 0;
    for (size_t i = 0; i < bytes; i++) word |= (uint64_t)at[i] << 8 * i;
    return word;
}

static inline uint64_t node_word(const unsigned char *at) {
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    uint64_t word;
    memcpy(&word, at, sizeof word);
    return word;
#else
    return node_last_word(at, 8);
#endif
}

static inline uint32_t node_hash(uint64_t seed, struct node_bytes bytes) {
    uint64_t other = rl_scatter(seed + UINT64_C(0x9e3779b97f4a7c15));
    struct node_sip sip = {
        seed ^ UINT64_C(0x736f6d6570736575), other ^ UINT64_C(0x646f72616e646f6d),
        seed ^ UINT64_C(0x6c7967656e657261), other ^ UINT64_C(0x7465646279746573)};
    const unsigned char *at = bytes.data;
    size_t left = bytes.bytes;
    for (; left >= 8; at += 8, left -= 8) node_sip_word(&sip, node_word(at));
    node_sip_word(&sip, node_last_word(at, left) | (uint64_t)bytes.bytes << 56);
    sip.c ^= 0xff;
    for (int i = 0; i < 3; i++) node_sip_round(&sip);
    uint64_t hash = sip.a ^ sip.b ^ sip.c ^ sip.d;
    return (uint32_t)(hash ^ hash >> 32);
}

#endif
