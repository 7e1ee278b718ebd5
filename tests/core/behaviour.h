/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What machines do with drawn events, folded into one number for each kind. The numbers in the
 * tests are those of the present code. Another number says that the behaviour has changed, and not
 * whether it is right: other tests and the simulator say that. After an intended change, write down
 * the numbers that the test prints.
 *
 * Times are drawn at the borders that the machines compare with, and one nanosecond off.
 */
#ifndef BEHAVIOUR_H
#define BEHAVIOUR_H

#include "machine.h"
#include "core/mix.h"

static uint64_t random_state, folded;
static rl_ns now;
static struct rl_terms terms;
static rl_mask asked_now; /* by the last actions, and not answered */

static inline uint64_t draw(uint64_t below) { return rl_splitmix64(&random_state) % below; }
static inline bool one_in(uint64_t count) { return draw(count) == 0; }

static inline void fold(int64_t number) { folded = rl_fnv1a_number(folded, (uint64_t)number); }

static inline void fold_tally(const struct rl_tally *tally) {
    fold(tally->asked | (int64_t)tally->granted << 16 | (int64_t)tally->denied << 32);
    fold(tally->absent | (int64_t)tally->failed << 16);
}

static inline void fold_actions(const struct rl_actions *actions) {
    fold(actions->fresh_token | actions->renewal_waits << 1 | actions->slot << 2);
    fold(actions->acquire | (int64_t)actions->leave << 16 | (int64_t)actions->repair << 32);
    fold(actions->extend | (int64_t)actions->release << 16 | (int64_t)actions->raise << 32);
    fold(actions->confirm | (int64_t)actions->announce << 16);
    fold(actions->extend_ttl);
    if (actions->catch_up) fold(actions->catch_up);
    if (actions->repair | actions->catch_up) fold(actions->repair_ttl);
    fold(actions->fence);
    fold(actions->wake_at);
    fold(actions->notices);
    fold((int64_t)actions->outcome | (int64_t)actions->extend_outcome << 8);
    asked_now |= actions->acquire | actions->raise | actions->confirm | actions->extend |
                 actions->catch_up | actions->repair | actions->release;
}

/* The time, or the nanosecond before or after it. */
static inline rl_ns beside(rl_ns at) {
    if (at == RL_NEVER) return now;
    const rl_ns near[] = {at, at, at, at - 1, at + 1};
    return near[draw(5)];
}

static inline void pass(rl_ns to) {
    if (to > now) now = to;
}

static inline void draw_terms(bool guarded) {
    const unsigned nodes = one_in(2) ? 5 : 1 + (unsigned)draw(RL_NODES_MAX);
    terms = test_terms(nodes);
    terms.guarded = guarded;
    terms.drift_ppm = one_in(2) ? 10000 : 0;
    terms.validity_min = one_in(3) ? 500 * RL_MS : (rl_ns)draw(2);
    terms.node_timeout = (rl_ns)(20 + draw(3) * 480) * RL_MS;
    if (terms.node_timeout >= terms.ttl) terms.node_timeout = terms.ttl - 1;
    if (!guarded) return;
    terms.quorum = (uint8_t)(terms.quorum + (one_in(4) ? draw(nodes - terms.quorum + 1u) : 0));
}

static inline rl_mask most(void) {
    rl_mask mask = rl_all(terms.nodes);
    for (unsigned i = 0; i < terms.nodes; i++)
        if (one_in(12)) mask &= (rl_mask)~rl_bit(i);
    return mask;
}

static inline rl_mask few(uint64_t rare) {
    rl_mask mask = 0;
    for (unsigned i = 0; i < terms.nodes; i++)
        if (one_in(rare)) mask |= rl_bit(i);
    return mask;
}

static inline uint8_t asked_node(void) {
    for (unsigned i = 0, at = (unsigned)draw(RL_NODES_MAX); i < RL_NODES_MAX; i++) {
        const unsigned node = (at + i) % RL_NODES_MAX;
        if (!(asked_now & rl_bit(node)) || one_in(20)) continue;
        asked_now &= (rl_mask)~rl_bit(node);
        return (uint8_t)node;
    }
    return (uint8_t)draw(RL_NODES_MAX);
}

static inline enum rl_vote draw_vote(unsigned granted_of_ten) {
    static const enum rl_vote others[] = {RL_VOTE_DENIED, RL_VOTE_ABSENT, RL_VOTE_FAILED,
                                          RL_VOTE_STALE,  RL_VOTE_DENIED, RL_VOTE_NONE};
    return draw(10) < granted_of_ten ? RL_VOTE_GRANTED : others[draw(6)];
}

static inline int64_t draw_fence(int64_t own) {
    const int64_t some[] = {0,           own - 1,           own,
                            own + 1,     own + 2,           own + 9,
                            7,           (int64_t)draw(40), RL_FENCE_MAX - 1,
                            RL_FENCE_MAX};
    const uint64_t which = draw(60);
    if (which < 8) return some[which];
    if (!one_in(9)) return own + 1;
    const int64_t highest = some[8 + draw(2)];
    return one_in(2) ? highest + 1 : highest;
}

/* ---- the kinds ---- */

struct kept_number {
    const char *name;
    uint64_t number;
};

static inline void assert_kept(const struct kept_number *kept, unsigned kinds,
                               uint64_t (*number_of)(unsigned kind)) {
    bool same = true;
    for (unsigned kind = 0; kind < kinds; kind++) {
        random_state = kind;
        folded = RL_FNV_BASIS;
        const uint64_t number = number_of(kind);
        if (number == kept[kind].number) continue;
        same = false;
        printf("    %s: 0x%016llx, and not 0x%016llx\n", kept[kind].name,
               (unsigned long long)number, (unsigned long long)kept[kind].number);
    }
    assert_true(same);
}

#endif
