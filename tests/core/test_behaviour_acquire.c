/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What acquisitions do with drawn events (behaviour.h): tries, cleaning up, and each way to wait.
 */
#include "behaviour.h"

#define WALKS 8000
#define EVENTS 120

static rl_mask unlocked, watched, queued, peeked; /* asked by earlier actions, and not answered */
static bool ranked;
static bool watches, keeps; /* how the nodes help to wait */
static bool held;           /* what most nodes say of the lock, and when it ends there */
static rl_ns ends;

static void fold_more(const struct rl_acquire *acquire, const struct rl_actions *actions) {
    fold_actions(actions);
    fold(actions->peek | (int64_t)actions->watch << 16 | (int64_t)actions->queue << 32);
    fold(actions->enter_queue);
    fold((int64_t)acquire->state | (int64_t)acquire->outcome << 8);
    fold(acquire->tries);
    fold(acquire->turns.active ? acquire->turns.rank : acquire->waiting.rank);
    unlocked |= actions->release;
    watched |= actions->watch;
    queued |= actions->queue;
    peeked |= actions->peek;
    ranked |= actions->enter_queue;
}

/* One that was asked, mostly. */
static bool answers(rl_mask *asked, struct rl_event *event, enum rl_event_type type) {
    for (unsigned i = 0, at = (unsigned)draw(RL_NODES_MAX); i < RL_NODES_MAX; i++) {
        const unsigned node = (at + i) % RL_NODES_MAX;
        if (!(*asked & rl_bit(node))) continue;
        *asked &= (rl_mask)~rl_bit(node);
        event->node = (uint8_t)node;
        event->type = type;
        return true;
    }
    return false;
}

static void answer(struct rl_event *event) {
    for (unsigned i = 0, at = (unsigned)draw(6); i < 6; i++) {
        switch ((at + i) % 6) {
        case 0:
            if (answers(&asked_now, event, RL_EVENT_VOTE)) return;
            break;
        case 1:
            if (answers(&unlocked, event, RL_EVENT_UNLOCKED)) return;
            break;
        case 2:
            if (answers(&watched, event, RL_EVENT_WATCHED)) return;
            break;
        case 3:
            if (answers(&queued, event, RL_EVENT_QUEUED)) return;
            break;
        case 4:
            if (answers(&peeked, event, RL_EVENT_HINT)) return;
            break;
        default:
            if (!ranked) break;
            ranked = false;
            event->type = RL_EVENT_RANK;
            return;
        }
    }
}

static rl_ns draw_remaining(void) {
    const rl_ns some[] = {-1, 0, RL_RESERVED, 5 * RL_MS, 20 * RL_MS, 600 * RL_MS};
    if (one_in(6)) return some[draw(6)];
    const rl_ns left = ends + (rl_ns)draw(14) * RL_MS - now;
    return left < 0 ? 0 : left;
}

static void change_the_lock(void) {
    if (now < ends && !one_in(25)) return;
    held = !one_in(3);
    ends = now + (rl_ns)draw(1000) * RL_MS;
}

static struct rl_event drawn(const struct rl_acquire *acquire, unsigned granted_of_ten) {
    static const enum rl_event_type alone[] = {RL_EVENT_TICK,    RL_EVENT_NODES,  RL_EVENT_WAKE,
                                               RL_EVENT_TURN,    RL_EVENT_HINT,   RL_EVENT_RANK,
                                               RL_EVENT_WAKE,    RL_EVENT_QUEUED, RL_EVENT_VOTE,
                                               RL_EVENT_WATCHED, RL_EVENT_WAKE,   RL_EVENT_WAKE};
    static const int32_t ranks[] = {0, 0, 1, 1, -1, -1, 2, 17};
    struct rl_event event = {.type = alone[draw(12)]};
    event.node = (uint8_t)draw(terms.nodes + 1u);
    if (!one_in(5)) answer(&event);
    if (one_in(200)) event.type = RL_EVENT_CANCEL;
    const enum rl_vote waiting[] = {held ? RL_VOTE_GRANTED : RL_VOTE_ABSENT,
                                    held ? RL_VOTE_ABSENT : RL_VOTE_GRANTED, RL_VOTE_FAILED};
    const bool waits = event.type == RL_EVENT_QUEUED || event.type == RL_EVENT_WATCHED;
    event.vote = waits ? waiting[one_in(5) ? draw(3) : 0] : draw_vote(granted_of_ten);
    event.remaining = draw_remaining();
    event.rank = ranks[draw(8)];
    if (terms.guarded) {
        event.voided = few(60);
        event.foreign = event.voided & few(3);
        event.fence = one_in(3) ? 0 : draw_fence(acquire->attempt.fence);
    }
    if (terms.slots && event.vote == RL_VOTE_DENIED) event.other_slots = one_in(8) ? 9 : 0;
    if (terms.slots && event.vote == RL_VOTE_GRANTED) event.slot = (uint8_t)(1 + draw(terms.slots));
    return event;
}

static void surround(struct rl_event *event, bool crowd) {
    event->ready = most();
    event->settled = one_in(8) ? most() : rl_all(terms.nodes);
    const rl_mask help = one_in(8) ? most() : rl_all(terms.nodes);
    event->watched = watches ? help : few(4);
    event->keepers = keeps ? help : one_in(30) ? rl_all(terms.nodes) : few(4);
    event->behind = crowd && one_in(6);
}

static void walk(void) {
    struct rl_acquire acquire;
    struct rl_actions actions;
    struct rl_retry_rules rules = {.retries_max = UINT32_MAX, .deadline = RL_NEVER};
    if (one_in(3)) rules.retries_max = (uint32_t)draw(4);
    if (!one_in(3)) rules.deadline = (rl_ns)draw(3000) * RL_MS;
    rules.connect_timeout = (rl_ns)draw(200) * RL_MS;
    rules.delay_min = one_in(3) ? 0 : (rl_ns)draw(one_in(2) ? 60 : 2000) * RL_MS;
    rules.delay_max = rules.delay_min + (rl_ns)draw(60) * RL_MS;
    const unsigned granted_of_ten = (unsigned)draw(7);
    const bool crowd = one_in(4);
    now = (rl_ns)draw(3);
    asked_now = unlocked = watched = queued = peeked = 0;
    ranked = false;
    ends = 0;
    rl_acquire_init(&acquire, &terms, &rules);
    struct rl_event event = {.type = RL_EVENT_START, .seed = draw(UINT64_MAX)};
    event.crowded = one_in(4);
    for (unsigned i = 0; i < EVENTS; i++) {
        change_the_lock();
        surround(&event, crowd);
        rl_acquire_step(&acquire, &event, now, &actions);
        fold_more(&acquire, &actions);
        if (acquire.state >= RL_ACQUIRE_WON && one_in(3)) return;
        if (one_in(4)) pass(beside(actions.wake_at));
        if (one_in(60)) pass(beside(rules.deadline));
        if (one_in(60)) pass(beside(acquire.since + terms.node_timeout));
        if (acquire.waiting.active && one_in(20)) pass(beside(acquire.waiting.away_until));
        if (one_in(3)) pass(now + (rl_ns)draw(3 * RL_MS));
        event = drawn(&acquire, granted_of_ten);
    }
}

enum kind { POLLS, WATCHES, KEEPS, GUARDED_KEEPS, READERS, SLOTS, KINDS };

static const struct kept_number kept[KINDS] = {
    [POLLS] = {"polls", UINT64_C(0x0b10d519923fed79)},
    [WATCHES] = {"watches", UINT64_C(0x8c34ae46a1891321)},
    [KEEPS] = {"keeps", UINT64_C(0xb7f1a69d0eff339e)},
    [GUARDED_KEEPS] = {"guarded keeps", UINT64_C(0x75d8a37a170ff1bd)},
    [READERS] = {"readers", UINT64_C(0x319d865d6517769c)},
    [SLOTS] = {"slots", UINT64_C(0x9c11b2162d084f31)},
};

static uint64_t number_of(unsigned kind) {
    for (unsigned i = 0; i < WALKS; i++) {
        draw_terms(kind == GUARDED_KEEPS);
        terms.shared = kind == READERS;
        terms.slots = kind == SLOTS ? 3 : 0;
        watches = kind == WATCHES || (kind >= READERS && one_in(2));
        keeps = kind == KEEPS || kind == GUARDED_KEEPS || (kind >= READERS && one_in(2));
        walk();
    }
    return folded;
}

static void test_behaviour(void **state) {
    (void)state;
    assert_kept(kept, KINDS, number_of);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_behaviour)};
    return cmocka_run_group_tests_name("behaviour of acquisitions", tests, NULL, NULL);
}
