/* SPDX-License-Identifier: BSD-2-Clause
 *
 * EXCLUSION, RESURRECTED, LATE_LOSS, and how violations are handed over.
 */
#include "past.h"

#define TAKES(when, who, what_token, end)                                                          \
    DOES(when, who, ACQUIRED, .token = (what_token), .until = (end))

static void exclusion_meets_in_one_instant(void **state) {
    (void)state;
    HOLDS(EXCLUSION, TAKES(100, A, 1, 200), TAKES(200, B, 2, 300));
    BREAKS(EXCLUSION, 0, 1, TAKES(100, A, 1, 201), TAKES(200, B, 2, 300));
    spans(200, 201);
    says("B acquired job at 0.0002 ms while A's validity ran until 0.000201 ms");
    HOLDS(EXCLUSION, TAKES(100, A, 1, 200), TAKES(150, B, 2, 300),
          DOES(150, B, RELEASE)); /* B had no time in it */
}

static void exclusion_says_it_plainly(void **state) {
    (void)state;
    BREAKS(EXCLUSION, 0, 1, TAKES(1500000, A, 1, 9897800000), TAKES(301200000, B, 2, 10199000000));
    spans(301200000, 9897800000);
    says("B acquired job at 301.2 ms while A's validity ran until 9897.8 ms");
    BREAKS(EXCLUSION, 0, 1, DOES(0, C, ACQUIRED, .token = 1, .until = 5000000, .resource = 1),
           DOES(1000000, A, ACQUIRED, .token = 2, .until = 6000000, .resource = 1));
    says("A acquired r2 at 1.0 ms while C's validity ran until 5.0 ms");
    HOLDS(EXCLUSION, DOES(0, C, ACQUIRED, .token = 1, .until = 5000000, .resource = 1),
          TAKES(1000000, A, 2, 6000000));
}

static void exclusion_ends_early(void **state) {
    (void)state;
    HOLDS(EXCLUSION, TAKES(100, A, 1, 900), DOES(200, A, RELEASE), TAKES(200, B, 2, 900));
    HOLDS(EXCLUSION, TAKES(100, A, 1, 900), TAKES(200, B, 2, 900),
          DOES(200, A, RELEASE)); /* the same instant */
    BREAKS(EXCLUSION, 0, 1, TAKES(100, A, 1, 900), TAKES(200, B, 2, 900), DOES(201, A, RELEASE));
    spans(200, 201);
    HOLDS(EXCLUSION, TAKES(100, A, 1, 900), DOES(200, A, LOST), TAKES(200, B, 2, 900));
    BREAKS(EXCLUSION, 0, 1, TAKES(100, A, 1, 900), TAKES(199, B, 2, 900), DOES(200, A, LOST));
    HOLDS(EXCLUSION, TAKES(100, A, 1, 900), BEFALLS(200, A, CLIENT_CRASH), TAKES(200, B, 2, 900));
    BREAKS(EXCLUSION, 0, 1, TAKES(100, A, 1, 900), TAKES(200, B, 2, 900),
           BEFALLS(250, A, CLIENT_CRASH));
    spans(200, 250);
    /* A pause ends nothing: who goes on believes what it believed. */
    BREAKS(EXCLUSION, 0, 2, TAKES(100, A, 1, 900), BEFALLS(150, A, PAUSE), TAKES(200, B, 2, 800));
    spans(200, 800);
}

/* A clock has stepped. What is granted before all clients can know is excused, with locks of before
 * and of afterwards; the others are not. */
static void exclusion_waits_until_a_step_can_be_known(void **state) {
    (void)state;
    HOLDS(EXCLUSION, TAKES(100, A, 1, 900), NODE(110, 1, UNSEEN, .value = 1), TAKES(200, B, 2, 900),
          NODE(300, 1, UNSEEN), TAKES(400, C, 3, 900), DOES(400, A, RELEASE));
    BREAKS(EXCLUSION, 0, 3, TAKES(100, A, 1, 900), NODE(110, 1, UNSEEN, .value = 1),
           NODE(300, 1, UNSEEN), TAKES(400, C, 3, 900));
    HOLDS(EXCLUSION, TAKES(100, A, 1, 900), NODE(110, 1, UNSEEN, .value = 1),
          NODE(120, 2, UNSEEN, .value = 1), NODE(300, 1, UNSEEN), TAKES(400, C, 3, 900));
    BREAKS(EXCLUSION, 0, 1, TAKES(100, A, 1, 900), TAKES(109, B, 2, 900),
           NODE(110, 1, UNSEEN, .value = 1));
}

static void exclusion_follows_renewals(void **state) {
    (void)state;
    BREAKS(EXCLUSION, 0, 2, TAKES(100, A, 1, 200), DOES(199, A, RENEWED, .token = 1, .until = 301),
           TAKES(300, B, 2, 400));
    spans(300, 301);
    HOLDS(EXCLUSION, TAKES(100, A, 1, 200), DOES(199, A, RENEWED, .token = 1, .until = 300),
          TAKES(300, B, 2, 400));
    BREAKS(EXCLUSION, 0, 2, TAKES(100, A, 1, 200),
           DOES(150, A, EXTENDED, .result = OK, .until = 301), TAKES(300, B, 2, 400));
    HOLDS(EXCLUSION, TAKES(100, A, 1, 200),
          DOES(150, A, EXTENDED, .result = NO_QUORUM, .until = 301), TAKES(300, B, 2, 400));
    /* Renewed later still: the span goes on. */
    BREAKS(EXCLUSION, 0, 1, TAKES(100, A, 1, 200), TAKES(150, B, 2, 400),
           DOES(160, A, RENEWED, .token = 1, .until = 350));
    spans(150, 350);
    /* Over, taken by B, and brought back: an overlap from there on. */
    BREAKS(EXCLUSION, 1, 2, TAKES(100, A, 1, 200), TAKES(250, B, 2, 400),
           DOES(300, A, RENEWED, .token = 1, .until = 500));
    spans(300, 400);
    says("A took back job at 0.0003 ms while B's validity ran until 0.0004 ms");
}

static void exclusion_of_one_client_with_itself(void **state) {
    (void)state;
    BREAKS(EXCLUSION, 0, 1, TAKES(100, A, 1, 300), TAKES(200, A, 2, 400));
    says("A acquired job at 0.0002 ms while A's validity by an earlier token ran until 0.0003 ms");
    HOLDS(EXCLUSION, TAKES(100, A, 1, 300), DOES(150, A, RELEASE), TAKES(200, A, 2, 400));
    HOLDS(EXCLUSION, TAKES(100, A, 1, 200), TAKES(200, A, 2, 400));
}

static void exclusion_counts_each_pair(void **state) {
    (void)state;
    assert_int_equal(
        JUDGE(EXCLUSION, TAKES(100, A, 1, 900), TAKES(200, B, 2, 900), TAKES(300, C, 3, 900)), 3);
}

static void resurrected(void **state) {
    (void)state;
    HOLDS(RESURRECTED, TAKES(100, A, 1, 200), DOES(199, A, RENEWED, .token = 1, .until = 300));
    BREAKS(RESURRECTED, 0, 1, TAKES(100, A, 1, 200),
           DOES(200, A, RENEWED, .token = 1, .until = 300));
    says(
        "A's lease of job was made valid again at 0.0002 ms, until 0.0003 ms, but its validity was over at 0.0002 ms");
    BREAKS(RESURRECTED, 1, 2, TAKES(100, A, 1, 200),
           DOES(150, A, RENEWED, .token = 1, .until = 250),
           DOES(250, A, EXTENDED, .result = OK, .until = 300));
    HOLDS(RESURRECTED, TAKES(100, A, 1, 200), DOES(250, A, EXTENDED, .result = LOST_));
    BREAKS(RESURRECTED, 1, 2, TAKES(100, A, 1, 200), DOES(150, A, LOST),
           DOES(150, A, RENEWED, .token = 1, .until = 300));
    BREAKS(RESURRECTED, 1, 2, TAKES(100, A, 1, 200), DOES(150, A, RELEASE),
           DOES(151, A, RENEWED, .token = 1, .until = 300));
    HOLDS(RESURRECTED, TAKES(100, A, 1, 200), DOES(150, A, RELEASE),
          DOES(150, A, RENEWED, .token = 1, .until = 300));
    BREAKS(RESURRECTED, 0, 0, DOES(150, A, RENEWED, .token = 1, .until = 300)); /* never acquired */
    /* Of another client, or another lock of this one: no matter. */
    HOLDS(RESURRECTED, TAKES(100, A, 1, 200), TAKES(120, B, 2, 400), DOES(150, A, LOST),
          DOES(160, B, RENEWED, .token = 2, .until = 500), TAKES(200, A, 3, 300),
          DOES(250, A, RENEWED, .token = 3, .until = 400));
}

static void late_loss_is_exact(void **state) {
    (void)state;
    HOLDS(LATE_LOSS, TAKES(100, A, 1, 200), DOES(200, A, LOST));
    BREAKS(LATE_LOSS, 0, 1, TAKES(100, A, 1, 200), DOES(201, A, LOST));
    spans(200, 201);
    says(
        "A ran when its validity of job ended at 0.0002 ms and was not told by 0.0002 ms; told at 0.000201 ms");
    HOLDS(LATE_LOSS, TAKES(100, A, 1, 200), DOES(200, A, RELEASE));
    BREAKS(LATE_LOSS, 0, 1, TAKES(100, A, 1, 200), DOES(201, A, RELEASE));
    HOLDS(LATE_LOSS, TAKES(100, A, 1, 200), RUN(200, END));
    BREAKS(LATE_LOSS, 0, 1, TAKES(100, A, 1, 200), RUN(201, END));
    HOLDS(LATE_LOSS, TAKES(100, A, 1, 200), BEFALLS(150, A, CLIENT_CRASH), RUN(900, END));
    BREAKS(LATE_LOSS, 0, 1, TAKES(100, A, 1, 200), BEFALLS(201, A, CLIENT_CRASH));
    HOLDS(LATE_LOSS, TAKES(100, A, 1, 200), DOES(150, A, RENEWED, .token = 1, .until = 300),
          DOES(300, A, LOST));
    BREAKS(LATE_LOSS, 1, 2, TAKES(100, A, 1, 200), DOES(150, A, RENEWED, .token = 1, .until = 300),
           DOES(301, A, LOST));
    BREAKS(LATE_LOSS, 0, 1, TAKES(100, A, 1, 200), TAKES(300, A, 2, 400), DOES(350, A, LOST));
}

static void late_loss_waits_for_whoever_is_stopped(void **state) {
    (void)state;
    HOLDS(LATE_LOSS, TAKES(100, A, 1, 200), BEFALLS(150, A, PAUSE), BEFALLS(500, A, RESUME),
          DOES(500, A, LOST));
    BREAKS(LATE_LOSS, 0, 3, TAKES(100, A, 1, 200), BEFALLS(150, A, PAUSE), BEFALLS(500, A, RESUME),
           DOES(501, A, LOST));
    spans(500, 501);
    BREAKS(LATE_LOSS, 0, 4, TAKES(100, A, 1, 200), BEFALLS(150, A, PAUSE), BEFALLS(500, B, RESUME),
           BEFALLS(600, A, RESUME), RUN(601, END));
    HOLDS(LATE_LOSS, TAKES(100, A, 1, 200), BEFALLS(200, A, PAUSE),
          RUN(900, END)); /* stopped in that very instant */
    BREAKS(LATE_LOSS, 0, 2, TAKES(100, A, 1, 200), BEFALLS(201, A, PAUSE), RUN(900, END));
    /* Stopped again before it could be told. */
    HOLDS(LATE_LOSS, TAKES(100, A, 1, 200), BEFALLS(150, A, PAUSE), BEFALLS(500, A, RESUME),
          BEFALLS(500, A, PAUSE), BEFALLS(700, A, RESUME), DOES(700, A, LOST));
    HOLDS(LATE_LOSS, TAKES(100, A, 1, 900), BEFALLS(150, A, PAUSE), BEFALLS(500, A, RESUME),
          DOES(900, A, LOST));
    BREAKS(LATE_LOSS, 0, 3, TAKES(100, A, 1, 900), BEFALLS(150, A, PAUSE), BEFALLS(500, A, RESUME),
           DOES(901, A, LOST));
    HOLDS(LATE_LOSS, TAKES(100, A, 1, 200), BEFALLS(150, A, PAUSE), BEFALLS(500, A, CLIENT_CRASH));
}

/* The first so many in order of time, the number of all. */
static void handed_over_in_order_of_time(void **state) {
    (void)state;
    static struct history_record records[] = {
        TAKES(100, A, 1, 900),
        TAKES(200, B, 2, 900),
        TAKES(300, C, 3, 900),
        RUN(901, END),
    };
    struct history history = {
        .records = records, .count = 4, .clients = 3, .nodes = 1, .resources = 1};
    struct check_violation violations[8];
    const unsigned all = (1u << CHECK_RULE_COUNT) - 1;
    const rl_ns times[] = {200, 200, 300, 300,
                           300, 900, 900, 900}; /* LINEARIZABLE tells one a holder: A-B, B-C */
    assert_int_equal(check_history(&history, all, violations, 8), 8);
    for (unsigned i = 0; i < 8; i++) assert_int_equal(violations[i].from, times[i]);
    assert_int_equal(violations[0].rule, CHECK_EXCLUSION);
    assert_int_equal(violations[1].rule, CHECK_LINEARIZABLE);
    assert_int_equal(violations[7].rule, CHECK_LATE_LOSS);

    memset(violations, 0x5a, sizeof violations);
    assert_int_equal(check_history(&history, all, violations, 2), 8);
    assert_int_equal(violations[0].rule, CHECK_EXCLUSION);
    assert_int_equal(violations[1].rule, CHECK_LINEARIZABLE);
    assert_int_equal(violations[2].from, 0x5a5a5a5a5a5a5a5a); /* no further than asked */
    assert_int_equal(check_history(&history, all, NULL, 0), 8);
    assert_int_equal(check_history(&history, 0, violations, 8), 0);
    history.count = 0;
    assert_int_equal(check_history(&history, all, violations, 8), 0);
}

static void names(void **state) {
    (void)state;
    assert_string_equal(check_rule_name(CHECK_EXCLUSION), "EXCLUSION");
    assert_string_equal(check_rule_name(CHECK_LIVENESS), "LIVENESS");
    assert_string_equal(check_rule_name(CHECK_RULE_COUNT), "?");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exclusion_meets_in_one_instant),
        cmocka_unit_test(exclusion_says_it_plainly),
        cmocka_unit_test(exclusion_ends_early),
        cmocka_unit_test(exclusion_waits_until_a_step_can_be_known),
        cmocka_unit_test(exclusion_follows_renewals),
        cmocka_unit_test(exclusion_of_one_client_with_itself),
        cmocka_unit_test(exclusion_counts_each_pair),
        cmocka_unit_test(resurrected),
        cmocka_unit_test(late_loss_is_exact),
        cmocka_unit_test(late_loss_waits_for_whoever_is_stopped),
        cmocka_unit_test(handed_over_in_order_of_time),
        cmocka_unit_test(names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
