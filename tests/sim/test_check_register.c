/* SPDX-License-Identifier: BSD-2-Clause
 *
 * FENCE, LOST_UPDATE, LIVENESS.
 */
#include "past.h"

#define TAKES(when, who, what_token, fence)                                                        \
    DOES(when, who, ACQUIRED, .token = (what_token), .until = (when) + 100, .value = (fence))
#define WRITES(when, who, what_token, what)                                                        \
    DOES(when, who, WRITE, .token = (what_token), .value = (what), .result = 1)

static void fences_grow_in_real_time(void **state) {
    (void)state;
    HOLDS(FENCE, DOES(10, A, ACQUIRE), TAKES(20, A, 1, 7), DOES(20, B, ACQUIRE),
          TAKES(30, B, 2, 8));
    BREAKS(FENCE, 1, 3, DOES(10, A, ACQUIRE), TAKES(20, A, 1, 7), DOES(20, B, ACQUIRE),
           TAKES(30, B, 2, 6));
    says("B acquired job at 0.00003 ms with fence 6, not above fence 7 that A got at 0.00002 ms");
    BREAKS(FENCE, 1, 3, DOES(10, A, ACQUIRE), TAKES(20, A, 1, 7), DOES(20, A, ACQUIRE),
           TAKES(30, A, 2, 7));
    /* They overlapped: either order, in the same instant too, but not the same fence. */
    HOLDS(FENCE, DOES(10, A, ACQUIRE), DOES(20, B, ACQUIRE), TAKES(20, A, 1, 7),
          TAKES(30, B, 2, 6));
    BREAKS(FENCE, 2, 3, DOES(10, A, ACQUIRE), DOES(20, B, ACQUIRE), TAKES(20, A, 1, 7),
           TAKES(30, B, 2, 7));
    says("B acquired job at 0.00003 ms with fence 7, the same as fence 7 that A got at 0.00002 ms");
    /* Not above the highest of all who were through, though above the last. */
    BREAKS(FENCE, 2, 5, DOES(1, A, ACQUIRE), DOES(1, B, ACQUIRE), TAKES(2, A, 1, 9),
           TAKES(3, B, 2, 5), DOES(4, C, ACQUIRE), TAKES(5, C, 3, 8));
    HOLDS(FENCE, DOES(10, A, ACQUIRE), TAKES(20, A, 1, 0), DOES(20, B, ACQUIRE),
          TAKES(30, B, 2, 0)); /* classic */
    HOLDS(FENCE, DOES(10, A, ACQUIRE), TAKES(20, A, 1, 7), DOES(20, B, ACQUIRE, .resource = 1),
          DOES(30, B, ACQUIRED, .token = 2, .until = 90, .value = 7, .resource = 1));
}

static void fences_of_writes_never_go_down(void **state) {
    (void)state;
    HOLDS(FENCE, TAKES(20, A, 1, 7), WRITES(21, A, 1, 1), TAKES(30, B, 2, 8), WRITES(31, B, 2, 2),
          WRITES(32, B, 2, 3));
    BREAKS(FENCE, 2, 3, TAKES(20, A, 1, 7), TAKES(30, B, 2, 8), WRITES(31, B, 2, 1),
           WRITES(32, A, 1, 2));
    says(
        "A's write to job with fence 7 was accepted at 0.000032 ms after B's with fence 8 at 0.000031 ms");
    HOLDS(FENCE, TAKES(20, A, 1, 7), TAKES(30, B, 2, 8), WRITES(31, B, 2, 1),
          DOES(32, A, WRITE_REFUSED, .token = 1, .value = 2));
    HOLDS(FENCE, TAKES(20, A, 1, 7), TAKES(30, B, 2, 8), WRITES(31, B, 2, 1), WRITES(32, A, 1, 2),
          DOES(32, A, WRITE_REFUSED, .token = 1, .value = 2));
    /* A write that travelled while its writer acquired again goes by the token that it was sent
     * with. */
    BREAKS(FENCE, 2, 4, TAKES(20, A, 1, 7), TAKES(30, B, 2, 8), WRITES(31, B, 2, 1),
           TAKES(40, A, 3, 9), WRITES(41, A, 1, 2));
}

static void updates_are_based_on_what_is_there(void **state) {
    (void)state;
    HOLDS(LOST_UPDATE, DOES(1, A, READ, .value = 0), DOES(2, A, WRITE, .value = 1),
          DOES(3, B, READ, .value = 1), DOES(4, B, WRITE, .value = 2),
          DOES(5, A, WRITE, .value = 3));
    BREAKS(LOST_UPDATE, 2, 3, DOES(1, A, READ, .value = 0), DOES(1, B, READ, .value = 0),
           DOES(2, B, WRITE, .value = 1), DOES(3, A, WRITE, .value = 1));
    says("A wrote 1 to job at 0.000003 ms over B's 1 of 0.000002 ms, which it had not read");
    HOLDS(LOST_UPDATE, DOES(1, A, READ, .value = 0), DOES(1, B, READ, .value = 0),
          DOES(2, B, WRITE, .value = 1), DOES(3, A, WRITE_REFUSED, .value = 1),
          DOES(4, B, WRITE, .value = 2));
    HOLDS(LOST_UPDATE, DOES(1, A, READ, .value = 0), DOES(1, B, READ, .value = 0, .resource = 1),
          DOES(2, A, WRITE, .value = 1), DOES(3, B, WRITE, .value = 1, .resource = 1));
    BREAKS(LOST_UPDATE, 1, 1, DOES(1, A, READ, .value = 4), DOES(2, A, WRITE, .value = 4));
    /* One lost update is one violation, not one for each write after it. */
    BREAKS(LOST_UPDATE, 1, 2, DOES(1, A, READ, .value = 0), DOES(2, B, WRITE, .value = 1),
           DOES(3, A, WRITE, .value = 1), DOES(4, A, WRITE, .value = 2),
           DOES(5, B, WRITE, .value = 3));
}

static void liveness_is_exact(void **state) {
    (void)state;
    liveness_bound = 1000;
    HOLDS(LIVENESS, RUN(500, FAULTS_END), DOES(600, A, ACQUIRE),
          DOES(1600, A, ACQUIRED, .until = 2000), RUN(9000, END));
    BREAKS(LIVENESS, 1, 2, RUN(500, FAULTS_END), DOES(600, A, ACQUIRE),
           DOES(1601, A, ACQUIRED, .until = 2000));
    spans(600, 1601);
    says(
        "job was free and wanted for 0.001001 ms after the faults had ended, and by 0.001601 ms nobody had acquired "
        "it; "
        "0.001 ms may be taken up");
    HOLDS(LIVENESS, DOES(100, A, ACQUIRE), RUN(500, FAULTS_END), RUN(1500, END));
    BREAKS(LIVENESS, 0, 2, DOES(100, A, ACQUIRE), RUN(500, FAULTS_END), RUN(1501, END));
    HOLDS(LIVENESS, DOES(100, A, ACQUIRE), RUN(9000, END)); /* the faults never ended */
    HOLDS(LIVENESS, RUN(500, FAULTS_END), DOES(600, A, ACQUIRE), BEFALLS(700, A, CLIENT_CRASH),
          RUN(9000, END));
    HOLDS(LIVENESS, RUN(500, FAULTS_END), RUN(9000, END));
    /* Anybody's acquisition counts, of this resource. */
    HOLDS(LIVENESS, RUN(0, FAULTS_END), DOES(1, A, ACQUIRE), DOES(1, B, ACQUIRE),
          DOES(900, B, ACQUIRED, .until = 9500), RUN(9000, END));
    BREAKS(LIVENESS, 1, 4, RUN(0, FAULTS_END), DOES(1, A, ACQUIRE),
           DOES(1, B, ACQUIRE, .resource = 1), DOES(900, B, ACQUIRED, .until = 9500, .resource = 1),
           RUN(9000, END));
    liveness_bound = 0;
    HOLDS(LIVENESS, RUN(500, FAULTS_END), DOES(600, A, ACQUIRE), RUN(9000, END));
}

static void liveness_does_not_count_what_is_held(void **state) {
    (void)state;
    liveness_bound = 1000;
    HOLDS(LIVENESS, RUN(0, FAULTS_END), DOES(0, B, ACQUIRED, .until = 2000), DOES(100, A, ACQUIRE),
          DOES(1900, B, RENEWED, .until = 4000), DOES(5000, A, ACQUIRED, .until = 9000),
          RUN(9000, END));
    BREAKS(LIVENESS, 2, 4, RUN(0, FAULTS_END), DOES(0, B, ACQUIRED, .until = 2000),
           DOES(100, A, ACQUIRE), DOES(1900, B, RENEWED, .until = 4000),
           DOES(5001, A, ACQUIRED, .until = 9000), RUN(9000, END));
    BREAKS(LIVENESS, 2, 4, RUN(0, FAULTS_END), DOES(0, B, ACQUIRED, .until = 4000),
           DOES(100, A, ACQUIRE), DOES(300, B, RELEASE), DOES(1301, A, ACQUIRED, .until = 9000),
           RUN(9000, END));
    /* Lost or crashed: the keys live on. */
    HOLDS(LIVENESS, RUN(0, FAULTS_END), DOES(0, B, ACQUIRED, .until = 4000), DOES(100, A, ACQUIRE),
          BEFALLS(300, B, CLIENT_CRASH), DOES(5000, A, ACQUIRED, .until = 9000), RUN(9000, END));
    /* The late release of one who held it before does not free what another holds. */
    HOLDS(LIVENESS, RUN(0, FAULTS_END), DOES(0, B, ACQUIRED, .until = 100),
          DOES(200, A, ACQUIRED, .until = 5000), DOES(300, C, ACQUIRE), DOES(400, B, RELEASE),
          DOES(5100, C, ACQUIRED, .until = 9000), RUN(9000, END));
}

static void liveness_sees_a_livelock(void **state) {
    (void)state;
    liveness_bound = 1000;
    BREAKS(LIVENESS, 1, 5, RUN(0, FAULTS_END), DOES(0, A, ACQUIRE),
           DOES(600, A, NOT_ACQUIRED, .result = HELD), DOES(2000, A, ACQUIRE),
           DOES(2300, B, ACQUIRE), DOES(2401, A, NOT_ACQUIRED, .result = HELD),
           DOES(2500, B, NOT_ACQUIRED, .result = HELD));
    HOLDS(LIVENESS, RUN(0, FAULTS_END), DOES(0, A, ACQUIRE),
          DOES(600, A, NOT_ACQUIRED, .result = HELD), DOES(2000, A, ACQUIRE),
          DOES(2300, B, ACQUIRE), DOES(2399, A, NOT_ACQUIRED, .result = HELD),
          DOES(2400, B, NOT_ACQUIRED, .result = HELD), RUN(9000, END));
}

static void a_client_is_not_refused_for_ever(void **state) {
    (void)state;
    liveness_bound = 1000;
#define REFUSED_AT(when, who) DOES(when, who, NOT_ACQUIRED, .result = TWO_QUORUMS)
    BREAKS(LIVENESS, 4, 5, RUN(0, FAULTS_END), DOES(1, A, ACQUIRE), REFUSED_AT(1, A),
           DOES(50, A, ACQUIRE), REFUSED_AT(50, A), RUN(9000, END));
    says(
        "A was refused job at 0.00005 ms, after the faults had ended, and never acquired it again");
    HOLDS(LIVENESS, RUN(0, FAULTS_END), DOES(1, A, ACQUIRE), REFUSED_AT(1, A), DOES(50, A, ACQUIRE),
          DOES(60, A, ACQUIRED, .until = 100), RUN(9000, END));
    HOLDS(LIVENESS, DOES(1, A, ACQUIRE), RUN(2, FAULTS_END), REFUSED_AT(3, A), RUN(9000, END));
    HOLDS(LIVENESS, RUN(0, FAULTS_END), DOES(1, A, ACQUIRE), REFUSED_AT(1, A),
          BEFALLS(2, A, CLIENT_CRASH), RUN(9000, END));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fences_grow_in_real_time),
        cmocka_unit_test(fences_of_writes_never_go_down),
        cmocka_unit_test(updates_are_based_on_what_is_there),
        cmocka_unit_test(liveness_is_exact),
        cmocka_unit_test(liveness_does_not_count_what_is_held),
        cmocka_unit_test(liveness_sees_a_livelock),
        cmocka_unit_test(a_client_is_not_refused_for_ever),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
