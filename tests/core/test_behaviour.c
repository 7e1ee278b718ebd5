/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What attempts and leases do with drawn events (behaviour.h). */
#include "behaviour.h"

#define WALKS 20000
#define EVENTS 40

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
    const bool caller_waits = lease->work->want_ttl != 0 ||
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
    event.busy = (rl_mask)~event.ready & most();
    if (!terms.guarded) return event;
    if (lease->state == RL_LEASE_NONE) {
        event.fence = one_in(3) ? 0 : draw_fence(lease->fence);
        event.fence_hint = one_in(2) ? 0 : draw_fence(lease->fence_seen);
    }
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
    struct rl_lease_work work;
    struct rl_actions actions;
    const struct rl_lease_rules rules = draw_rules();
    const unsigned granted_of_ten = 5 + (unsigned)draw(6);
    now = (rl_ns)draw(3);
    asked_now = 0;
    terms.announces = one_in(3);
    rl_lease_init(&lease, &work, &terms, &rules);
    struct rl_event event = {.type = RL_EVENT_START};
    event.ready = most();
    event.asked = most();
    event.granted = most();
    if (!adopted) event.denied = event.asked & (rl_mask)~event.granted & most();
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
            pass(beside(lease.round_t1 + lease.work->round_ttl -
                        rl_drift(&terms, lease.work->round_ttl)));
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

static const struct kept_number kept[KINDS] = {
    [CLASSIC] = {"classic", UINT64_C(0x3828f90616612b8d)},
    [GUARDED] = {"guarded", UINT64_C(0xf6111100fa577e08)},
    [CONFIRMED] = {"confirmed", UINT64_C(0xf64a2859c57ad04d)},
    [READER] = {"reader", UINT64_C(0xabaf6fbd6fa94d9a)},
    [SLOTS] = {"slots", UINT64_C(0x19bb469ca93f8eea)},
    [GUARDED_SLOTS] = {"guarded slots", UINT64_C(0xc0db2d23e413b722)},
    [CONFIRMED_SLOTS] = {"confirmed slots", UINT64_C(0x599c9f47ac6966e9)},
    [LEASE] = {"lease", UINT64_C(0x949f720bb4af5141)},
    [GUARDED_LEASE] = {"guarded lease", UINT64_C(0x89cd0354e010fc81)},
    [ADOPTED] = {"adopted", UINT64_C(0x3bce83d0ccbad056)},
};

static uint64_t number_of(unsigned kind) {
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
    assert_kept(kept, KINDS, number_of);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_behaviour)};
    return cmocka_run_group_tests_name("behaviour", tests, NULL, NULL);
}
