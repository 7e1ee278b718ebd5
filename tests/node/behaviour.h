/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What src/node does with drawn calls, as one number: everything that a call answers, reports and
 * leaves behind is folded into it. So each change of what it does is noticed, and a test says only
 * that something changed: its rules are in the other tests. After a change on purpose, take over
 * the numbers that the test prints.
 *
 * The memory is the test's own: it is dirty, it can fail, and each byte that is asked for counts.
 */
#ifndef TESTS_NODE_BEHAVIOUR_H
#define TESTS_NODE_BEHAVIOUR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/mix.h"
#include "node/table.h"

extern long memory_left;                   /* so many pieces, and then none; -1: no end */
extern bool memory_returns;                /* only one piece is not there */
extern size_t memory_pieces, memory_bytes; /* taken and not given */

extern uint64_t random_state, folded;

static inline uint64_t draw(uint64_t below) { return rl_splitmix64(&random_state) % below; }
static inline size_t draw_count(size_t below) { return (size_t)draw(below); }
static inline bool one_in(uint64_t count) { return draw(count) == 0; }
static inline void fold(int64_t number) { folded = rl_fnv1a_number(folded, (uint64_t)number); }

static inline void fold_bytes(struct node_bytes bytes) {
    fold((int64_t)bytes.bytes);
    folded = rl_fnv1a(folded, bytes.data, bytes.bytes);
}

static inline void fold_memory(void) {
    fold((int64_t)memory_pieces);
    fold((int64_t)memory_bytes);
}

/* For the next calls: now and then there is memory for only a few pieces. */
static inline void draw_memory(uint64_t rare) {
    memory_left = one_in(rare) ? (long)draw(4) : -1;
    memory_returns = memory_left >= 0 && one_in(2);
}

/* With this seed two keys of one byte have the same hash, and in the list and the line of one key
 * each two tokens and two names do; and the name "w" has the same hash in two lines. */
enum { SAME_HASH_SEED = 314674 };
#define SAME_HASH_KEYS "l", "9"
#define SAME_HASH_LIST "t6681030"
#define SAME_HASH_TOKENS "e", "v"
#define SAME_HASH_LINE "l747121"
#define SAME_HASH_NAMES "W", "X"
#define SAME_HASH_LINES "m88351", "m9582"

struct kept_number {
    const char *name;
    uint64_t number;
};

/* The number of each kind, each from its own seed. They are of machines with 8 bytes for a pointer:
 * on others the test is skipped. Afterwards all memory has been given back. */
void assert_kept(const struct kept_number *kept, unsigned kinds,
                 uint64_t (*number_of)(unsigned kind));

#endif
