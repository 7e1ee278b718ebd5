/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What observers do with drawn events (behaviour.h). */
#include "behaviour.h"
#include "core/observer.h"

#define WALKS 2500
#define EVENTS 100

static struct rl_observer observer;
static uint8_t leads;    /* the token that most nodes have */
static int64_t its_term; /* announced with it */
static unsigned silent_of_ten;

static void fold_all(const struct rl_observer_actions *actions) {
    fold(actions->read | (int64_t)actions->prove << 16 | (int64_t)actions->token << 32);
    fold(actions->report | (int64_t)actions->round << 1);
    fold(actions->term);
    fold(actions->wake_at);
    fold((int64_t)observer.state | (int64_t)observer.known.state << 8);
    fold(observer.known.token);
    fold(observer.known.term);
    fold(observer.known.sure_until);
}

/* One of these, mostly. */
static uint8_t node_of(rl_mask asked) {
    for (unsigned i = 0, at = (unsigned)draw(RL_NODES_MAX); i < RL_NODES_MAX; i++) {
        const unsigned node = (at + i) % RL_NODES_MAX;
        if ((asked & rl_bit(node)) && !one_in(20)) return (uint8_t)node;
    }
    return (uint8_t)draw(RL_NODES_MAX);
}

static void change_leader(void) {
    static const int64_t later[] = {1, 1, 1, 2, 0, 0, -1};
    if (!one_in(25)) return;
    leads = one_in(4) ? 0 : (uint8_t)(1 + draw(4));
    its_term = observer.term_seen + later[draw(7)];
}

static enum rl_vote draw_answer(bool there) {
    static const enum rl_vote others[] = {RL_VOTE_FAILED, RL_VOTE_ABSENT, RL_VOTE_STALE,
                                          RL_VOTE_DENIED};
    if (draw(10) < silent_of_ten) return others[draw(4)];
    return there ? RL_VOTE_GRANTED : RL_VOTE_ABSENT;
}

static rl_ns draw_remaining(void) {
    const rl_ns since = now - observer.asked_at;
    const rl_ns some[] = {-1, 0, 1, since, since + 1, since + 2 * RL_MS};
    return one_in(15) ? some[draw(6)] : (rl_ns)draw(600) * RL_MS;
}

static struct rl_observer_event drawn(void) {
    struct rl_observer_event event = {.type = RL_OBSERVER_TICK, .seed = draw(UINT64_MAX)};
    event.token = one_in(8) ? (uint8_t)draw(5) : leads;
    event.round = one_in(30) ? observer.round - 1 : observer.round;
    event.vote = draw_answer(event.token != 0);
    switch (observer.state) {
    case RL_OBSERVER_READING: {
        const bool of_term = one_in(2);
        event.type = of_term ? RL_OBSERVER_TERM : RL_OBSERVER_KEY;
        event.node = node_of(of_term ? observer.pending_terms : observer.pending);
        event.term = its_term;
        event.remaining = draw_remaining();
        /* a leader announces late, and not on every node; what it announced stays when it goes */
        if (of_term && one_in(2)) event.vote = one_in(4) ? RL_VOTE_FAILED : RL_VOTE_ABSENT;
        if (of_term && one_in(12)) event.term = (int64_t)draw(3) - 1;
        break;
    }
    case RL_OBSERVER_PROVING:
        event.type = RL_OBSERVER_PROVEN;
        event.node = node_of(observer.pending);
        break;
    case RL_OBSERVER_IDLE: event.type = RL_OBSERVER_BEGIN; break;
    case RL_OBSERVER_RESTING: break;
    }
    static const enum rl_observer_event_type any[] = {
        RL_OBSERVER_BEGIN, RL_OBSERVER_KEY,   RL_OBSERVER_TERM, RL_OBSERVER_PROVEN,
        RL_OBSERVER_WAKE,  RL_OBSERVER_NODES, RL_OBSERVER_TICK, RL_OBSERVER_WAKE};
    if (one_in(12)) event.type = any[draw(8)];
    return event;
}

/* Some members may not be listed, and some listed nodes may be no members. */
static void surround(struct rl_observer_event *event, rl_mask members, uint8_t quorum) {
    event->ready = members & (one_in(30) ? few(3) : most());
    event->voided = few(40);
    event->notified = one_in(3) ? few(2) : most();
    event->members = members;
    event->quorum = quorum;
}

static void pass_some(const struct rl_observer_actions *actions) {
    if (one_in(3)) pass(now + (rl_ns)draw(RL_MS));
    if (observer.state == RL_OBSERVER_RESTING ? one_in(2) : one_in(12))
        pass(beside(actions->wake_at));
    if (one_in(30)) pass(beside(observer.ends[draw(terms.nodes)]));
    if (one_in(30)) pass(beside(observer.asked_at + RL_MS));
    if (one_in(30) && observer.known.state == RL_OBSERVED_LEADER)
        pass(beside(observer.known.sure_until));
}

static struct rl_observer_rules draw_rules(void) {
    struct rl_observer_rules rules = {.nodes = terms.nodes,
                                      .answer_timeout = 20 * RL_MS,
                                      .drift_ppm = one_in(2) ? 10000 : 0,
                                      .drift_fixed = one_in(2) ? 2 * RL_MS : 0};
    const rl_ns shortest = one_in(3) ? 1 : (rl_ns)draw(100) * RL_MS + 1;
    rules.poll_min = shortest;
    rules.poll_max = shortest + (rl_ns)draw(100 * RL_MS);
    rules.notified_poll_min = 3 * shortest;
    rules.notified_poll_max = 3 * shortest + (rl_ns)draw(500 * RL_MS);
    return rules;
}

static void walk(void) {
    struct rl_observer_actions actions;
    draw_terms(true);
    const struct rl_observer_rules rules = draw_rules();
    const rl_mask members = one_in(4) ? most() | 1u : rl_all(terms.nodes);
    const unsigned unlisted = one_in(3) ? (unsigned)draw(3) : 0;
    const uint8_t quorum = (uint8_t)rl_quorum(rl_count(members) + unlisted);
    now = (rl_ns)draw(3);
    silent_of_ten = (unsigned)draw(4);
    leads = 1;
    its_term = 1 + (int64_t)draw(2);
    memset(&observer, 0x5a, sizeof observer);
    rl_observer_init(&observer, &rules);
    fold(observer.look_at);
    for (unsigned i = 0; i < EVENTS; i++) {
        struct rl_observer_event event = drawn();
        surround(&event, members, quorum);
        rl_observer_step(&observer, &event, now, &actions);
        fold_all(&actions);
        pass_some(&actions);
        change_leader();
    }
}

static const struct kept_number kept[] = {{"observer", UINT64_C(0x81aa6639543ee7da)}};

static uint64_t number_of(unsigned kind) {
    (void)kind;
    for (unsigned i = 0; i < WALKS; i++) walk();
    return folded;
}

static void test_behaviour(void **state) {
    (void)state;
    assert_kept(kept, 1, number_of);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_behaviour)};
    return cmocka_run_group_tests_name("behaviour of observers", tests, NULL, NULL);
}
