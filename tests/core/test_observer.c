/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The observer of an election, against five nodes that are written down in the test. */
#include "machine.h"

#include "core/observer.c"

#define BEGUN (1000 * RL_MS)

struct play {
    struct rl_observer observer;
    struct rl_observer_actions actions;
    rl_ns now;
    rl_mask ready, voided, notified;
    uint8_t quorum;
    unsigned reports;
    int64_t highest; /* term that was reported */
};

static void step(struct play *play, struct rl_observer_event event) {
    event.ready = play->ready;
    event.voided = play->voided;
    event.notified = play->notified;
    event.members = 0x1f;
    event.quorum = play->quorum;
    rl_observer_step(&play->observer, &event, play->now, &play->actions);
    play->reports += play->actions.report;
    const struct rl_observation *known = &play->observer.known;
    if (!play->actions.report || known->state != RL_OBSERVED_LEADER) return;
    assert_true(known->term >= play->highest);
    play->highest = known->term;
}

static void begin(struct play *play) {
    const struct rl_observer_rules rules = {.nodes = 5,
                                            .answer_timeout = 50 * RL_MS,
                                            .drift_ppm = 10000,
                                            .drift_fixed = 2 * RL_MS,
                                            .poll_min = 50 * RL_MS,
                                            .poll_max = 250 * RL_MS,
                                            .notified_poll_min = 500 * RL_MS,
                                            .notified_poll_max = 1000 * RL_MS};
    *play = (struct play){.now = BEGUN, .ready = 0x1f, .notified = 0x1f, .quorum = 3};
    rl_observer_init(&play->observer, &rules);
    step(play, (struct rl_observer_event){.type = RL_OBSERVER_BEGIN, .seed = 7});
    assert_int_equal(play->actions.read, 0x1f);
}

static void tick_at(struct play *play, rl_ns at) {
    play->now = at;
    step(play, (struct rl_observer_event){.type = RL_OBSERVER_TICK});
}

static void key(struct play *play, unsigned node, uint8_t token, int64_t remaining_ms) {
    step(play, (struct rl_observer_event){.type = RL_OBSERVER_KEY,
                                          .node = (uint8_t)node,
                                          .vote = token ? RL_VOTE_GRANTED : RL_VOTE_ABSENT,
                                          .token = token,
                                          .remaining = remaining_ms * RL_MS,
                                          .round = play->observer.round});
}

static void term(struct play *play, unsigned node, uint8_t token, int64_t number) {
    step(play, (struct rl_observer_event){.type = RL_OBSERVER_TERM,
                                          .node = (uint8_t)node,
                                          .vote = token ? RL_VOTE_GRANTED : RL_VOTE_ABSENT,
                                          .token = token,
                                          .term = number,
                                          .round = play->observer.round});
}

static void proof(struct play *play, unsigned node, enum rl_vote vote) {
    step(play, (struct rl_observer_event){.type = RL_OBSERVER_PROVEN,
                                          .node = (uint8_t)node,
                                          .vote = vote,
                                          .round = play->observer.round});
}

/* Nodes 1 to 3 have the token, one after the other, and node 1 the announcement. */
static void read_leader(struct play *play, uint8_t token, int64_t number) {
    term(play, 0, token, number);
    for (unsigned node = 0; node < 3; node++) key(play, node, token, 1000 + 100 * node);
}

static void prove_leader(struct play *play) {
    for (unsigned node = 0; node < 3; node++) proof(play, node, RL_VOTE_GRANTED);
}

static void look_again(struct play *play) {
    assert_int_equal(play->observer.state, RL_OBSERVER_RESTING);
    tick_at(play, play->observer.look_at);
    assert_int_not_equal(play->actions.read, 0);
}

static const struct rl_observation *known(const struct play *play) { return &play->observer.known; }

/* ---- */

static void test_a_leader_is_read_then_proven(void **state) {
    struct play play;
    (void)state;
    begin(&play);
    play.now += 5 * RL_MS;
    read_leader(&play, 1, 70);
    assert_int_equal(play.reports, 0);
    assert_int_equal(play.actions.prove, 0x07);
    assert_int_equal(play.actions.token, 1);
    assert_int_equal(play.actions.term, 70);
    play.now += 5 * RL_MS;
    prove_leader(&play);
    assert_int_equal(play.reports, 1);
    assert_int_equal(known(&play)->state, RL_OBSERVED_LEADER);
    assert_int_equal(known(&play)->token, 1);
    assert_int_equal(known(&play)->term, 70);
    /* from before the question: 1000 ms, less 1 % and 2 ms */
    assert_int_equal(known(&play)->sure_until, BEGUN + 988 * RL_MS);
}

/* Keys on nodes whose clocks run fast end earlier. */
static void test_fast_clocks_make_it_sure_for_less(void **state) {
    struct play play;
    const struct rl_rates rates = {0x07, {80000, 80000, 80000}};
    (void)state;
    begin(&play);
    play.observer.rules.rates = &rates;
    play.now += 5 * RL_MS;
    read_leader(&play, 1, 70);
    prove_leader(&play);
    assert_int_equal(known(&play)->sure_until, BEGUN + 918 * RL_MS);
}

/* With more proofs than a majority, the sure time is that of the majority that lasts longest. */
static void test_sure_until_is_a_majoritys(void **state) {
    struct play play;
    (void)state;
    begin(&play);
    for (unsigned node = 0; node < 5; node++) play.observer.ends[node] = (node + 1) * RL_MS;
    assert_int_equal(sure_until(&play.observer, 0x1f, 3), 3 * RL_MS);
    assert_int_equal(sure_until(&play.observer, 0x1e, 3), 3 * RL_MS);
    assert_int_equal(sure_until(&play.observer, 0x1c, 3), 3 * RL_MS);
    assert_int_equal(sure_until(&play.observer, 0x0f, 3), 2 * RL_MS);
}

static void test_a_minority_is_no_leader(void **state) {
    struct play play;
    (void)state;
    begin(&play);
    term(&play, 0, 1, 70);
    key(&play, 0, 1, 1000);
    key(&play, 1, 1, 1000);
    key(&play, 2, 0, 0);
    key(&play, 3, 2, 1000);
    assert_int_equal(play.reports, 0); /* node 5 may still have it */
    key(&play, 4, 0, 0);
    assert_int_equal(play.actions.prove, 0);
    assert_int_equal(play.reports, 1);
    assert_int_equal(known(&play)->state, RL_OBSERVED_NONE);
}

/* Two of three that answered have it. The silent two may have it as well. */
static void test_silence_is_not_absence(void **state) {
    struct play play;
    (void)state;
    begin(&play);
    term(&play, 0, 1, 70);
    key(&play, 0, 1, 1000);
    key(&play, 1, 1, 1000);
    key(&play, 2, 2, 1000);
    tick_at(&play, play.actions.wake_at);
    assert_int_equal(play.observer.state, RL_OBSERVER_RESTING);
    assert_int_equal(play.reports, 0);
    assert_int_equal(known(&play)->state, RL_OBSERVED_UNKNOWN);
}

static void test_an_announcement_of_another_token_says_nothing(void **state) {
    struct play play;
    (void)state;
    begin(&play);
    for (unsigned node = 0; node < 5; node++) term(&play, node, 2, 69);
    for (unsigned node = 0; node < 3; node++) key(&play, node, 1, 1000);
    assert_int_equal(play.actions.prove, 0);
    assert_int_equal(play.reports, 0);
    /* it comes in a moment: the observer looks again soon, and less and less often */
    assert_int_equal(play.observer.look_at, BEGUN + RL_MS);
    look_again(&play);
    for (unsigned node = 0; node < 5; node++) term(&play, node, 2, 69);
    for (unsigned node = 0; node < 3; node++) key(&play, node, 1, 1000);
    assert_int_equal(play.observer.look_at, play.now + 2 * RL_MS);
    look_again(&play);
    read_leader(&play, 1, 70);
    prove_leader(&play);
    assert_int_equal(known(&play)->term, 70);
}

/* A grant whose announcement is on its way is no news; one without an announcement is. */
static void test_without_an_announcement_it_is_unknown(void **state) {
    struct play play;
    (void)state;
    begin(&play);
    for (unsigned node = 0; node < 3; node++) key(&play, node, 0, 0);
    assert_int_equal(known(&play)->state, RL_OBSERVED_NONE);
    for (unsigned misses = 1; misses <= MISSES_MAX + 1; misses++) {
        assert_int_equal(play.reports, 1);
        look_again(&play);
        for (unsigned node = 0; node < 5; node++) term(&play, node, 0, 0);
        for (unsigned node = 0; node < 3; node++) key(&play, node, 1, 1000);
        assert_int_equal(play.observer.misses, misses);
    }
    assert_int_equal(play.reports, 2);
    assert_int_equal(known(&play)->state, RL_OBSERVED_UNKNOWN);
}

/* The first of several answers that are still awaited may have the announcement. */
static void test_any_node_may_have_the_announcement(void **state) {
    struct play play;
    (void)state;
    begin(&play);
    for (unsigned node = 0; node < 4; node++) term(&play, node, 0, 0);
    for (unsigned node = 0; node < 3; node++) key(&play, node, 1, 1000);
    assert_int_equal(play.observer.state, RL_OBSERVER_READING);
    term(&play, 4, 1, 70);
    assert_int_equal(play.actions.prove, 0x07);
}

static void test_a_proof_that_fails_reports_nothing(void **state) {
    struct play play;
    (void)state;
    begin(&play);
    read_leader(&play, 1, 70);
    proof(&play, 0, RL_VOTE_GRANTED);
    proof(&play, 1, RL_VOTE_GRANTED);
    assert_int_equal(play.reports, 0);
    proof(&play, 2, RL_VOTE_STALE); /* released meanwhile, or another incarnation of the node */
    assert_int_equal(play.reports, 0);
    assert_int_equal(play.observer.state, RL_OBSERVER_RESTING);
}

static void test_a_node_that_stopped_voting_does_not_count(void **state) {
    struct play play;
    (void)state;
    begin(&play);
    read_leader(&play, 1, 70);
    proof(&play, 0, RL_VOTE_GRANTED);
    play.voided = 0x01;
    proof(&play, 1, RL_VOTE_GRANTED);
    proof(&play, 2, RL_VOTE_GRANTED);
    assert_int_equal(play.reports, 0);
    assert_int_equal(play.observer.state, RL_OBSERVER_RESTING);
}

static void test_a_key_without_an_end_is_no_leaders(void **state) {
    struct play play;
    (void)state;
    begin(&play);
    term(&play, 0, 1, 70);
    for (unsigned node = 0; node < 5; node++)
        step(&play, (struct rl_observer_event){.type = RL_OBSERVER_KEY,
                                               .node = (uint8_t)node,
                                               .vote = RL_VOTE_GRANTED,
                                               .token = 1,
                                               .remaining = -1,
                                               .round = play.observer.round});
    assert_int_equal(play.actions.prove, 0);
    assert_int_equal(known(&play)->state, RL_OBSERVED_NONE);
}

static void test_answers_of_an_earlier_round_do_not_count(void **state) {
    struct play play;
    (void)state;
    begin(&play);
    const uint32_t round = play.observer.round;
    read_leader(&play, 1, 70);
    step(&play,
         (struct rl_observer_event){
             .type = RL_OBSERVER_PROVEN, .node = 0, .vote = RL_VOTE_GRANTED, .round = round});
    proof(&play, 1, RL_VOTE_GRANTED);
    proof(&play, 2, RL_VOTE_GRANTED);
    assert_int_equal(play.reports, 0);
    proof(&play, 0, RL_VOTE_GRANTED);
    assert_int_equal(play.reports, 1);
}

static void lead(struct play *play, uint8_t token, int64_t number) {
    read_leader(play, token, number);
    prove_leader(play);
    assert_int_equal(known(play)->state, RL_OBSERVED_LEADER);
    assert_int_equal(known(play)->term, number);
}

static void test_terms_never_fall(void **state) {
    struct play play;
    (void)state;
    begin(&play);
    lead(&play, 1, 70);
    look_again(&play);
    read_leader(&play, 2, 69);
    assert_int_equal(play.actions.prove, 0);
    assert_int_equal(known(&play)->term, 70);
    look_again(&play);
    read_leader(&play, 3, 70); /* nor has a term two leaders */
    assert_int_equal(play.actions.prove, 0);
    assert_int_equal(known(&play)->token, 1);
    look_again(&play);
    lead(&play, 4, 71);
}

static void test_a_report_runs_out(void **state) {
    struct play play;
    (void)state;
    begin(&play);
    lead(&play, 1, 70);
    const rl_ns end = known(&play)->sure_until;
    assert_true(play.actions.wake_at < end);
    play.ready = 0; /* all connections are lost */
    for (int i = 0; play.now < end && i < 1000; i++) {
        assert_int_equal(known(&play)->state, RL_OBSERVED_LEADER);
        tick_at(&play, play.actions.wake_at);
    }
    assert_int_equal(play.now, end);
    assert_int_equal(known(&play)->state, RL_OBSERVED_UNKNOWN);
    assert_int_equal(play.reports, 2);
}

static void test_a_renewal_prolongs_and_never_shortens(void **state) {
    struct play play;
    (void)state;
    begin(&play);
    lead(&play, 1, 70);
    const rl_ns end = known(&play)->sure_until;
    look_again(&play);
    lead(&play, 1, 70);
    assert_true(known(&play)->sure_until > end);
    const rl_ns later = known(&play)->sure_until;
    look_again(&play);
    term(&play, 0, 1, 70);
    for (unsigned node = 0; node < 3; node++) key(&play, node, 1, 10);
    prove_leader(&play);
    assert_int_equal(known(&play)->sure_until, later);
}

static void test_a_resignation_is_reported_at_once(void **state) {
    struct play play;
    (void)state;
    begin(&play);
    lead(&play, 1, 70);
    play.now += 100 * RL_MS;
    step(&play, (struct rl_observer_event){.type = RL_OBSERVER_WAKE});
    assert_int_equal(play.actions.read, 0x1f); /* no pause before the look */
    for (unsigned node = 0; node < 3; node++) key(&play, node, 0, 0);
    assert_int_equal(known(&play)->state, RL_OBSERVED_NONE);
    assert_int_equal(play.reports, 2);
}

/* A change that is notified during a look may be missing in it. */
static void test_a_change_during_a_look_brings_another_look(void **state) {
    struct play play;
    (void)state;
    begin(&play);
    for (unsigned node = 0; node < 2; node++) key(&play, node, 0, 0);
    step(&play, (struct rl_observer_event){.type = RL_OBSERVER_WAKE});
    key(&play, 2, 0, 0);
    assert_int_equal(known(&play)->state, RL_OBSERVED_NONE);
    assert_int_equal(play.observer.look_at, BEGUN + LOOKS_APART);
}

static void test_polling_without_notifications(void **state) {
    struct play play;
    (void)state;
    begin(&play);
    play.notified = 0x03;
    for (unsigned node = 0; node < 3; node++) key(&play, node, 0, 0);
    assert_in_range(play.observer.look_at, BEGUN + 50 * RL_MS, BEGUN + 250 * RL_MS);
    look_again(&play);
    play.notified = 0x07;
    for (unsigned node = 0; node < 3; node++) key(&play, node, 0, 0);
    assert_in_range(play.observer.look_at, play.now + 500 * RL_MS, play.now + 1000 * RL_MS);
}

static void test_silent_nodes_do_not_hang_it(void **state) {
    struct play play;
    (void)state;
    begin(&play);
    key(&play, 0, 1, 1000);
    tick_at(&play, play.actions.wake_at);
    assert_int_equal(play.now, BEGUN + 50 * RL_MS);
    assert_int_equal(play.observer.state, RL_OBSERVER_RESTING);
    assert_int_equal(known(&play)->state, RL_OBSERVED_UNKNOWN);
    look_again(&play);
    read_leader(&play, 1, 70);
    tick_at(&play, play.actions.wake_at);
    assert_int_equal(play.observer.state, RL_OBSERVER_RESTING);
    assert_int_equal(known(&play)->state, RL_OBSERVED_UNKNOWN);
}

/* ---- the table of transitions ---- */

static struct rl_observer machine;

static void prepare(unsigned from, unsigned to) {
    (void)to;
    machine.state = from;
}
static void move_to(unsigned to) { move(&machine, to, BEGUN); }

static void test_table(void **state) {
    static const char *const table[] = {"-+--", "--++", "---+", "-+--"};
    (void)state;
    check_table(
        &(struct table_test){.table = table, .states = 4, .prepare = prepare, .move = move_to});
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_leader_is_read_then_proven),
        cmocka_unit_test(test_fast_clocks_make_it_sure_for_less),
        cmocka_unit_test(test_sure_until_is_a_majoritys),
        cmocka_unit_test(test_a_minority_is_no_leader),
        cmocka_unit_test(test_silence_is_not_absence),
        cmocka_unit_test(test_an_announcement_of_another_token_says_nothing),
        cmocka_unit_test(test_without_an_announcement_it_is_unknown),
        cmocka_unit_test(test_any_node_may_have_the_announcement),
        cmocka_unit_test(test_a_proof_that_fails_reports_nothing),
        cmocka_unit_test(test_a_node_that_stopped_voting_does_not_count),
        cmocka_unit_test(test_a_key_without_an_end_is_no_leaders),
        cmocka_unit_test(test_answers_of_an_earlier_round_do_not_count),
        cmocka_unit_test(test_terms_never_fall),
        cmocka_unit_test(test_a_report_runs_out),
        cmocka_unit_test(test_a_renewal_prolongs_and_never_shortens),
        cmocka_unit_test(test_a_resignation_is_reported_at_once),
        cmocka_unit_test(test_a_change_during_a_look_brings_another_look),
        cmocka_unit_test(test_polling_without_notifications),
        cmocka_unit_test(test_silent_nodes_do_not_hang_it),
        cmocka_unit_test(test_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
