/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What attempts and leases do with drawn events, folded into one number for each kind. The numbers
 * below are those of the present code. Another number says that the behaviour has changed, and not
 * whether it is right: other tests and the simulator say that. After an intended change, write down
 * the numbers that the test prints.
 *
 * Times are drawn at the borders that the machines compare with, and one nanosecond off.
 */
#include "machine.h"
#include "core/mix.h"

#define WALKS 20000
#define EVENTS 40

static uint64_t random_state, folded;
static rl_ns now;
static struct rl_terms terms;
static rl_mask asked_now; /* by the last actions, and not answered */

static uint64_t draw(uint64_t below) { return rl_splitmix64(&random_state) % below; }
static bool one_in(uint64_t count) { return draw(count) == 0; }

static void fold(int64_t number) { folded = rl_fnv1a(folded, &number, sizeof number); }

static void fold_tally(const struct rl_tally *tally) {
    fold(tally->asked | (int64_t)tally->granted << 16 | (int64_t)tally->denied << 32);
    fold(tally->absent | (int64_t)tally->failed << 16);
}

static void fold_actions(const struct rl_actions *actions) {
    fold(actions->fresh_token | actions->renewal_waits << 1 | actions->slot << 2);
    fold(actions->acquire | (int64_t)actions->leave << 16 | (int64_t)actions->repair << 32);
    fold(actions->extend | (int64_t)actions->release << 16 | (int64_t)actions->raise << 32);
    fold(actions->confirm | (int64_t)actions->announce << 16);
    fold(actions->extend_ttl);
    fold(actions->fence);
    fold(actions->wake_at);
    fold(actions->notices);
    fold((int64_t)actions->outcome | (int64_t)actions->extend_outcome << 8);
    asked_now |= actions->acquire | actions->raise | actions->confirm | actions->extend |
                 actions->repair | actions->release;
}

/* The time, or the nanosecond before or after it. */
static rl_ns beside(rl_ns at) {
    if (at == RL_NEVER) return now;
    const rl_ns near[] = {at, at, at, at - 1, at + 1};
    return near[draw(5)];
}

static void pass(rl_ns to) {
    if (to > now) now = to;
}

static void draw_terms(bool guarded) {
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

static rl_mask most(void) {
    rl_mask mask = rl_all(terms.nodes);
    for (unsigned i = 0; i < terms.nodes; i++)
        if (one_in(12)) mask &= (rl_mask)~rl_bit(i);
    return mask;
}

static rl_mask few(uint64_t rare) {
    rl_mask mask = 0;
    for (unsigned i = 0; i < terms.nodes; i++)
        if (one_in(rare)) mask |= rl_bit(i);
    return mask;
}

static uint8_t asked_node(void) {
    for (unsigned i = 0, at = (unsigned)draw(RL_NODES_MAX); i < RL_NODES_MAX; i++) {
        const unsigned node = (at + i) % RL_NODES_MAX;
        if (!(asked_now & rl_bit(node)) || one_in(20)) continue;
        asked_now &= (rl_mask)~rl_bit(node);
        return (uint8_t)node;
    }
    return (uint8_t)draw(RL_NODES_MAX);
}

static enum rl_vote draw_vote(unsigned granted_of_ten) {
    static const enum rl_vote others[] = {RL_VOTE_DENIED, RL_VOTE_ABSENT, RL_VOTE_FAILED,
                                          RL_VOTE_STALE,  RL_VOTE_DENIED, RL_VOTE_NONE};
    return draw(10) < granted_of_ten ? RL_VOTE_GRANTED : others[draw(6)];
}

static int64_t draw_fence(int64_t own) {
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

/* ---- an attempt ---- */

static void fold_attempt(const struct rl_attempt *attempt) {
    fold((int64_t)attempt->state | (int64_t)attempt->outcome << 8);
    fold(attempt->slots.slot | attempt->slots.other_slots << 8);
    fold(attempt->fence);
    fold(attempt->state == RL_ATTEMPT_WON ? attempt->validity_end : 0);
    fold_tally(&attempt->tally);
}

static struct rl_event attempt_event(const struct rl_attempt *attempt, unsigned granted_of_ten) {
    struct rl_event event = {.type = RL_EVENT_VOTE};
    event.ready = most();
    event.vote = draw_vote(granted_of_ten);
    const uint64_t kind = draw(40);
    if (kind == 0) event.type = RL_EVENT_NODES;
    if (kind == 1) event.type = RL_EVENT_TICK;
    if (kind == 2 && one_in(4)) event.type = RL_EVENT_CANCEL;
    if (kind == 3 && one_in(3)) event.type = RL_EVENT_START;
    event.node = asked_node();
    if (terms.guarded) {
        event.voided = few(60);
        event.foreign = event.voided & few(3);
        event.fence = one_in(3) ? 0 : draw_fence(attempt->fence);
        event.fence_hint = one_in(2) ? 0 : draw_fence(attempt->fence_seen);
        if (one_in(60) && terms.quorum < terms.nodes) terms.quorum++;
    }
    if (terms.slots && event.vote == RL_VOTE_DENIED) event.other_slots = one_in(4) ? 9 : 0;
    if (terms.slots && (event.vote == RL_VOTE_GRANTED || event.vote == RL_VOTE_STALE))
        event.slot = (uint8_t)(one_in(12) ? 0 : 1 + draw(one_in(2) ? terms.slots : 1));
    return event;
}

static void attempt_walk(bool guarded) {
    struct rl_attempt attempt;
    struct rl_actions actions;
    struct rl_event event = {.type = RL_EVENT_START};
    const unsigned granted_of_ten = 4 + (unsigned)draw(7);
    now = (rl_ns)draw(3);
    asked_now = 0;
    rl_attempt_init(&attempt, &terms);
    event.ready = most();
    event.voided = guarded ? few(30) : 0;
    event.fence_hint = guarded ? draw_fence(10) : 0;
    for (unsigned i = 0; i < EVENTS; i++) {
        rl_attempt_step(&attempt, &event, now, &actions);
        fold_actions(&actions);
        fold_attempt(&attempt);
        if (one_in(30)) pass(beside(actions.wake_at));
        if (one_in(30)) pass(beside(attempt.t1 + terms.ttl - rl_drift(&terms, terms.ttl)));
        if (one_in(60))
            pass(beside(attempt.t1 + terms.ttl - rl_drift(&terms, terms.ttl) - terms.validity_min));
        if (one_in(4)) pass(now + (rl_ns)draw(3 * RL_MS));
        event = attempt_event(&attempt, granted_of_ten);
    }
}

/* ---- a lease ---- */

static void fold_lease(const struct rl_lease *lease) {
    fold(lease->state);
    fold(rl_lease_validity(lease, now));
    fold(rl_lease_validity(lease, now + 1));
    fold(lease->asked | (int64_t)lease->renewals << 16);
}

static struct rl_event lease_event(const struct rl_lease *lease, unsigned granted_of_ten) {
    struct rl_event event = {.type = RL_EVENT_VOTE};
    event.ready = most();
    event.vote = draw_vote(granted_of_ten);
    const bool caller_waits = lease->want_ttl != 0 ||
                              (lease->round_open && lease->round_by_caller && !lease->round_proven);
    event.node = asked_node();
    if (lease->state == RL_LEASE_RELEASING) event.type = RL_EVENT_UNLOCKED;
    switch (draw(16)) {
    case 0:
    case 1: event.type = RL_EVENT_TICK; break;
    case 2: event.type = RL_EVENT_NODES; break;
    case 3: event.type = RL_EVENT_UNLOCKED; break;
    case 4:
    case 5:
        if (caller_waits) break;
        event.type = RL_EVENT_EXTEND;
        event.ttl = one_in(3) ? terms.ttl : (rl_ns)(1 + draw(1200)) * RL_MS;
        break;
    case 6:
        if (one_in(4)) event.type = RL_EVENT_RELEASE;
        break;
    default: break;
    }
    event.full = one_in(10);
    if (!terms.guarded) return event;
    event.voided = few(40);
    event.foreign = event.voided & few(3);
    if (one_in(40) && terms.quorum < terms.nodes) terms.quorum++;
    if (one_in(40) && terms.quorum > rl_quorum(terms.nodes)) terms.quorum--;
    if (one_in(40)) terms.ttl_max = (rl_ns)(200 + draw(1000)) * RL_MS;
    return event;
}

static rl_ns draw_ms(uint64_t least, uint64_t more) {
    const rl_ns ms = (rl_ns)(least + draw(more)) * RL_MS;
    return ms + (rl_ns)draw(3);
}

static struct rl_lease_rules draw_rules(void) {
    struct rl_lease_rules rules = {0};
    if (!one_in(4)) rules.renew_every = draw_ms(100, 300);
    if (one_in(3)) rules.hold_max = draw_ms(500, 2500);
    if (one_in(3)) rules.renewals_max = 1 + (uint32_t)draw(3);
    if (one_in(2)) rules.lost_margin = (rl_ns)draw(100) * RL_MS;
    return rules;
}

static void lease_walk(bool adopted) {
    struct rl_lease lease;
    struct rl_actions actions;
    const struct rl_lease_rules rules = draw_rules();
    const unsigned granted_of_ten = 5 + (unsigned)draw(6);
    now = (rl_ns)draw(3);
    asked_now = 0;
    terms.announces = one_in(3);
    rl_lease_init(&lease, &terms, &rules);
    struct rl_event event = {.type = RL_EVENT_START};
    event.ready = most();
    event.asked = most();
    const rl_ns ends[] = {now + 1, now + 990 * RL_MS, now + 500 * RL_MS,
                          beside(now + rules.hold_max)};
    event.validity_end = adopted ? 0 : ends[draw(4)];
    if (event.validity_end <= 0 && !adopted) event.validity_end = 1;
    for (unsigned i = 0; i < EVENTS; i++) {
        rl_lease_step(&lease, &event, now, &actions);
        fold_actions(&actions);
        fold_lease(&lease);
        if (one_in(3)) pass(beside(actions.wake_at));
        if (one_in(30)) pass(beside(lease.validity_end));
        if (one_in(30) && lease.round_open) pass(beside(lease.round_t1 + terms.node_timeout));
        if (one_in(30) && lease.round_open)
            pass(beside(lease.round_t1 + lease.round_ttl - rl_drift(&terms, lease.round_ttl)));
        if (one_in(30) && rules.hold_max) pass(beside(lease.began + rules.hold_max));
        if (one_in(3)) pass(now + (rl_ns)draw(3 * RL_MS));
        if (one_in(100)) rl_lease_void(&lease, now);
        event = lease_event(&lease, granted_of_ten);
    }
}

/* ---- the kinds ---- */

enum kind {
    CLASSIC,
    GUARDED,
    CONFIRMED,
    READER,
    SLOTS,
    GUARDED_SLOTS,
    CONFIRMED_SLOTS,
    LEASE,
    GUARDED_LEASE,
    ADOPTED,
    KINDS
};

static const struct {
    const char *name;
    uint64_t number;
} kept[KINDS] = {
    [CLASSIC] = {"classic", UINT64_C(0x3828f90616612b8d)},
    [GUARDED] = {"guarded", UINT64_C(0xf6111100fa577e08)},
    [CONFIRMED] = {"confirmed", UINT64_C(0xf64a2859c57ad04d)},
    [READER] = {"reader", UINT64_C(0xabaf6fbd6fa94d9a)},
    [SLOTS] = {"slots", UINT64_C(0x19bb469ca93f8eea)},
    [GUARDED_SLOTS] = {"guarded slots", UINT64_C(0xc0db2d23e413b722)},
    [CONFIRMED_SLOTS] = {"confirmed slots", UINT64_C(0x599c9f47ac6966e9)},
    [LEASE] = {"lease", UINT64_C(0x1bd9f54338b0dba8)},
    [GUARDED_LEASE] = {"guarded lease", UINT64_C(0xd51e8ed42b2934e5)},
    [ADOPTED] = {"adopted", UINT64_C(0x1b5c5b169b467d95)},
};

static uint64_t number_of(enum kind kind) {
    random_state = kind;
    folded = RL_FNV_BASIS;
    for (unsigned i = 0; i < WALKS; i++) {
        const bool guarded = kind == LEASE || kind == ADOPTED ? one_in(2) && kind == ADOPTED
                                                              : kind != CLASSIC && kind != SLOTS;
        draw_terms(guarded);
        terms.confirm =
            kind == CONFIRMED || kind == CONFIRMED_SLOTS || (kind == READER && one_in(3));
        terms.shared = kind == READER;
        terms.slots = kind == SLOTS || kind == GUARDED_SLOTS || kind == CONFIRMED_SLOTS ? 3 : 0;
        if (kind < LEASE)
            attempt_walk(guarded);
        else
            lease_walk(kind == ADOPTED);
    }
    return folded;
}

static void test_behaviour(void **state) {
    (void)state;
    bool same = true;
    for (enum kind kind = 0; kind < KINDS; kind++) {
        const uint64_t number = number_of(kind);
        if (number == kept[kind].number) continue;
        same = false;
        printf("    %s: 0x%016llx, and not 0x%016llx\n", kept[kind].name,
               (unsigned long long)number, (unsigned long long)kept[kind].number);
    }
    assert_true(same);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_behaviour)};
    return cmocka_run_group_tests_name("behaviour", tests, NULL, NULL);
}
