/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What breaks of locks do with drawn events (behaviour.h). */
#include "behaviour.h"
#include "core/break.h"

#define WALKS 6000
#define EVENTS 120

static struct rl_break machine;
static unsigned odd_of_twenty; /* answers that are not the usual ones */
static rl_mask others;         /* nodes that another client holds */
static bool overtaken;         /* other clients raise the same fence */

static void fold_all(const struct rl_break_actions *actions) {
    fold(actions->read | (int64_t)actions->raise << 16 | (int64_t)actions->remove << 32);
    fold(actions->over | (int64_t)actions->round << 1 | (int64_t)actions->token << 40);
    fold(actions->fence);
    fold(machine.raised_at);
    fold(actions->wake_at);
    fold((int64_t)machine.state | (int64_t)machine.outcome << 8);
    fold(rl_break_silent(&machine, rl_all(terms.nodes)));
}

/* One that was asked, mostly. */
static uint8_t node_of(rl_mask asked) {
    for (unsigned i = 0, at = (unsigned)draw(RL_NODES_MAX); i < RL_NODES_MAX; i++) {
        const unsigned node = (at + i) % RL_NODES_MAX;
        if ((asked & rl_bit(node)) && !one_in(30)) return (uint8_t)node;
    }
    return (uint8_t)draw(RL_NODES_MAX);
}

static enum rl_vote draw_answer(uint8_t node) {
    static const enum rl_vote odd[] = {RL_VOTE_GRANTED, RL_VOTE_ABSENT, RL_VOTE_DENIED,
                                       RL_VOTE_FAILED,  RL_VOTE_STALE,  RL_VOTE_FAILED};
    if (draw(20) < odd_of_twenty) return odd[draw(6)];
    if (others & rl_bit(node)) return RL_VOTE_DENIED;
    return machine.state == RL_BREAK_DELETING ? RL_VOTE_ABSENT : RL_VOTE_GRANTED;
}

static uint32_t draw_round(void) {
    const uint32_t some[] = {machine.round - 1, machine.first_delete, machine.first_delete - 1};
    return one_in(12) ? some[draw(3)] : machine.round;
}

static struct rl_break_event drawn(void) {
    static const enum rl_break_event_type any[] = {RL_BREAK_BEGIN,   RL_BREAK_READ,
                                                   RL_BREAK_RAISED,  RL_BREAK_DELETED,
                                                   RL_BREAK_DELETED, RL_BREAK_NODES};
    struct rl_break_event event = {.type = RL_BREAK_TICK, .node = node_of(machine.pending)};
    if (machine.state == RL_BREAK_IDLE) event.type = RL_BREAK_BEGIN;
    if (machine.state == RL_BREAK_READING) event.type = RL_BREAK_READ;
    if (machine.state == RL_BREAK_RAISING) event.type = RL_BREAK_RAISED;
    if (machine.state == RL_BREAK_DELETING) event.type = RL_BREAK_DELETED;
    event.vote = draw_answer(event.node);
    if (machine.state == RL_BREAK_READING && event.vote == RL_VOTE_DENIED)
        event.vote = one_in(3) ? RL_VOTE_ABSENT : RL_VOTE_GRANTED;
    const bool other = (others & rl_bit(event.node)) != 0;
    event.token = (uint8_t)(one_in(9) ? 1 + draw(3) : other ? 2 : 1);
    event.round = draw_round();
    if (overtaken && event.type == RL_BREAK_RAISED && !one_in(20)) event.vote = RL_VOTE_STALE;
    event.fence = event.vote == RL_VOTE_STALE || one_in(20) ? draw_fence(machine.fence) : 0;
    if (one_in(15)) event.type = any[draw(6)];
    return event;
}

/* Some members may not be listed, and some listed nodes may be no members. */
static void surround(struct rl_break_event *event, rl_mask members, uint8_t quorum) {
    event->ready = one_in(40) ? few(2) : most();
    event->voters = event->ready;
    event->members = members;
    event->quorum = quorum;
    if (!machine.wish.guarded) return;
    event->voters = event->ready & members & (one_in(20) ? few(2) : most());
    event->voided = few(one_in(20) ? 3 : 100);
    event->fence_hint = one_in(2) ? 0 : draw_fence(machine.fence_seen);
    event->unread = few(one_in(6) ? 3 : 40);
}

static void pass_some(const struct rl_break_actions *actions) {
    if (one_in(3)) pass(now + (rl_ns)draw((uint64_t)machine.wish.answer_timeout / 10 + 1));
    if (machine.state == RL_BREAK_PAUSING ? one_in(2) : one_in(20)) pass(beside(actions->wake_at));
    if (one_in(40)) pass(beside(machine.give_up_at));
}

static void walk(bool guarded) {
    struct rl_break_actions actions;
    draw_terms(guarded);
    struct rl_break_wish wish = {.nodes = terms.nodes, .guarded = guarded, .named = one_in(2)};
    wish.answer_timeout = one_in(3) ? 1 + (rl_ns)draw(20) : 10 * RL_MS;
    wish.patience = one_in(3) ? 0 : (rl_ns)draw(10 * (uint64_t)wish.answer_timeout);
    const rl_mask members = one_in(4) ? most() | 1u : rl_all(terms.nodes);
    const unsigned unlisted = one_in(4) ? (unsigned)draw(2) : 0;
    const uint8_t quorum = (uint8_t)rl_quorum(rl_count(members) + unlisted);
    now = (rl_ns)draw(3);
    odd_of_twenty = (unsigned)draw(9);
    others = few(one_in(3) ? 2 : 5);
    overtaken = guarded && one_in(8);
    memset(&machine, 0x5a, sizeof machine);
    rl_break_init(&machine, &wish);
    for (unsigned i = 0, after = 0; i < EVENTS && after < 3; i++) {
        struct rl_break_event event = drawn();
        surround(&event, members, quorum);
        rl_break_step(&machine, &event, now, &actions);
        fold_all(&actions);
        fold(rl_break_silent(&machine, members));
        pass_some(&actions);
        if (one_in(40)) others = few(4);
        after += machine.state == RL_BREAK_OVER;
    }
}

enum kind { CLASSIC, GUARDED, KINDS };

static const struct kept_number kept[KINDS] = {
    [CLASSIC] = {"classic", UINT64_C(0xdf1ea24fb149b6b2)},
    [GUARDED] = {"guarded", UINT64_C(0x0ebe6b493bf3639e)},
};

static uint64_t number_of(unsigned kind) {
    for (unsigned i = 0; i < WALKS; i++) walk(kind == GUARDED);
    return folded;
}

static void test_behaviour(void **state) {
    (void)state;
    assert_kept(kept, KINDS, number_of);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_behaviour)};
    return cmocka_run_group_tests_name("behaviour of breaks", tests, NULL, NULL);
}
