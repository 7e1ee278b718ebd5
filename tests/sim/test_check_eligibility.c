/* SPDX-License-Identifier: BSD-2-Clause
 *
 * FENCE_ORDER, UNFIT_VOTE, REFUSED, RECOVERED.
 */
#include "past.h"

#define TAKES(when, who, what_token, fence)                                                        \
    DOES(when, who, ACQUIRED, .token = (what_token), .until = (when) + 100, .value = (fence))
#define VOTES(when, where, what_token, fence, intact)                                              \
    {                                                                                              \
        .at = (when), .client = A, .node = (where), .kind = HISTORY_VOTE, .token = (what_token),   \
        .value = (fence), .result = (intact)                                                       \
    }

static void grants_are_reported_in_the_order_of_their_fences(void **state) {
    (void)state;
    BREAKS(FENCE_ORDER, 2, 3, DOES(1, A, ACQUIRE), DOES(1, B, ACQUIRE), TAKES(20, A, 1, 7),
           TAKES(30, B, 2, 6));
    HOLDS(FENCE_ORDER, DOES(1, A, ACQUIRE), DOES(1, B, ACQUIRE), TAKES(20, A, 1, 7),
          TAKES(30, B, 2, 8));
}

static void a_majority_of_intact_nodes_votes(void **state) {
    (void)state;
    HOLDS(UNFIT_VOTE, VOTES(1, 0, 1, 7, 1), VOTES(2, 2, 1, 7, 1), TAKES(3, A, 1, 7));
    BREAKS(UNFIT_VOTE, 2, 2, VOTES(1, 0, 1, 7, 1), VOTES(2, 2, 1, 7, 0), TAKES(3, A, 1, 7));
    says("A acquired job at 0.000003 ms with fence 7, for which 1 intact nodes voted, not 2");
    /* The same node twice, another fence, another token. */
    BREAKS(UNFIT_VOTE, 2, 2, VOTES(1, 0, 1, 7, 1), VOTES(2, 0, 1, 7, 1), TAKES(3, A, 1, 7));
    BREAKS(UNFIT_VOTE, 2, 2, VOTES(1, 0, 1, 7, 1), VOTES(2, 1, 1, 8, 1), TAKES(3, A, 1, 8));
    BREAKS(UNFIT_VOTE, 2, 2, VOTES(1, 0, 1, 7, 1), VOTES(2, 1, 2, 7, 1), TAKES(3, A, 2, 7));
    HOLDS(UNFIT_VOTE, VOTES(1, 0, 1, 7, 1), VOTES(2, 1, 1, 8, 1), VOTES(3, 0, 1, 8, 1),
          TAKES(4, A, 1, 8));
    HOLDS(UNFIT_VOTE, TAKES(3, A, 1, 0)); /* classic */
}

static void who_lost_its_data_is_brought_back(void **state) {
    (void)state;
    HOLDS(RECOVERED, NODE(1, 0, ELIGIBILITY, .result = 0), NODE(5, 0, ELIGIBILITY, .result = 1),
          RUN(9, END));
    BREAKS(RECOVERED, 2, 3, NODE(1, 0, ELIGIBILITY, .result = 0),
           NODE(5, 0, ELIGIBILITY, .result = 1), NODE(6, 1, ELIGIBILITY, .result = 0), RUN(9, END));
    says("n2 lost its data at 0.000006 ms, and was not intact again at 0.000009 ms");
}

static void nodes_of_another_quorum_do_not_count(void **state) {
    (void)state;
    others = 1u << 2;
    BREAKS(UNFIT_VOTE, 2, 2, VOTES(1, 0, 1, 7, 1), VOTES(2, 2, 1, 7, 1), TAKES(3, A, 1, 7));
    HOLDS(UNFIT_VOTE, VOTES(1, 0, 1, 7, 1), VOTES(2, 1, 1, 7, 1), TAKES(3, A, 1, 7));
    HOLDS(RECOVERED, NODE(1, 2, ELIGIBILITY, .result = 0), RUN(9, END));
    BREAKS(RECOVERED, 0, 1, NODE(1, 1, ELIGIBILITY, .result = 0), RUN(9, END));
    others = 0;
}

#define CARRIES(when, where, list, epoch, nodes)                                                   \
    NODE(when, where, MEMBERS, .message = (list), .value = (epoch), .until = (nodes))
#define STANDS(when, where, intact) NODE(when, where, ELIGIBILITY, .result = (intact))
#define TWO_CARRY_LIST_1                                                                           \
    CARRIES(1, 0, 1, 1, 7), STANDS(1, 0, 1), CARRIES(1, 1, 1, 1, 7), STANDS(1, 1, 1)
#define VOTES_BY(when, where, list)                                                                \
    {                                                                                              \
        .at = (when), .client = A, .node = (where), .kind = HISTORY_VOTE, .token = 1, .value = 7,  \
        .result = 1, .message = (list)                                                             \
    }

static void an_epoch_has_one_list(void **state) {
    (void)state;
    BREAKS(ONE_LIST, 3, 5, TWO_CARRY_LIST_1, CARRIES(2, 2, 2, 1, 4), STANDS(2, 2, 1));
    says("list 2 of epoch 1 was in force at 0.000002 ms, and list 1 of epoch 1 had been");
    BREAKS(ONE_LIST, 3, 5, TWO_CARRY_LIST_1, CARRIES(2, 2, 2, 0, 4), STANDS(2, 2, 1));
    HOLDS(ONE_LIST, TWO_CARRY_LIST_1, CARRIES(2, 2, 2, 2, 4), STANDS(2, 2, 1));
    /* Never in force: a minority carries it, or who carries it is not intact. */
    HOLDS(ONE_LIST, TWO_CARRY_LIST_1, CARRIES(2, 2, 2, 1, 6), STANDS(2, 2, 1));
    HOLDS(ONE_LIST, TWO_CARRY_LIST_1, CARRIES(2, 2, 2, 1, 4), STANDS(2, 2, 0));
    /* Nobody carries the first any more. */
    HOLDS(ONE_LIST, TWO_CARRY_LIST_1, CARRIES(2, 0, 0, 0, 0), CARRIES(2, 1, 0, 0, 0),
          CARRIES(3, 2, 2, 1, 4), STANDS(3, 2, 1));
}

static void votes_are_of_a_majority_of_the_newest_list(void **state) {
    (void)state;
    HOLDS(UNFIT_VOTE, TWO_CARRY_LIST_1, VOTES_BY(2, 0, 1), VOTES_BY(2, 1, 1), TAKES(3, A, 1, 7));
    BREAKS(UNFIT_VOTE, 6, 6, TWO_CARRY_LIST_1, VOTES_BY(2, 0, 1), VOTES_BY(2, 3, 1),
           TAKES(3, A, 1, 7)); /* no member */
    BREAKS(UNFIT_VOTE, 7, 7, TWO_CARRY_LIST_1, VOTES_BY(2, 0, 1), CARRIES(2, 1, 2, 3, 15),
           VOTES_BY(2, 1, 2), TAKES(3, A, 1, 7)); /* enough for a list that is over */
    BREAKS(UNFIT_VOTE, 7, 7, TWO_CARRY_LIST_1, VOTES_BY(2, 0, 1), CARRIES(2, 1, 2, 2, 15),
           VOTES_BY(2, 1, 2), TAKES(3, A, 1, 7)); /* enough for the list before */
    BREAKS(UNFIT_VOTE, 8, 8, TWO_CARRY_LIST_1, VOTES_BY(2, 0, 1), CARRIES(2, 1, 2, 3, 15),
           VOTES_BY(2, 1, 2), VOTES_BY(2, 2, 2), TAKES(3, A, 1, 7)); /* one is two changes behind */
    HOLDS(UNFIT_VOTE, TWO_CARRY_LIST_1, VOTES_BY(2, 0, 1), CARRIES(2, 1, 2, 2, 15),
          VOTES_BY(2, 1, 2), VOTES_BY(2, 2, 2), TAKES(3, A, 1, 7));
    HOLDS(UNFIT_VOTE, TWO_CARRY_LIST_1, CARRIES(2, 1, 2, 2, 15), VOTES_BY(2, 0, 2),
          VOTES_BY(2, 1, 2), VOTES_BY(2, 2, 2), TAKES(3, A, 1, 7));
}

static void an_added_member_is_brought_back_too(void **state) {
    (void)state;
    BREAKS(RECOVERED, 5, 5, TWO_CARRY_LIST_1, CARRIES(2, 2, 1, 1, 7), RUN(9, END));
    HOLDS(RECOVERED, TWO_CARRY_LIST_1, CARRIES(2, 2, 1, 1, 7), STANDS(3, 2, 1), RUN(9, END));
    HOLDS(RECOVERED, TWO_CARRY_LIST_1, STANDS(2, 5, 0), RUN(9, END)); /* not a member */
}

static void who_is_to_be_refused_gets_nothing(void **state) {
    (void)state;
    refused = 1u << B;
    HOLDS(REFUSED, DOES(1, B, ACQUIRE), TAKES(3, A, 1, 0), DOES(4, B, NOT_ACQUIRED));
    BREAKS(REFUSED, 1, 1, TAKES(3, A, 1, 7), TAKES(5, B, 2, 0)); /* with a fence or without */
    says("B acquired job at 0.000005 ms, and was to be refused");
    refused = 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(grants_are_reported_in_the_order_of_their_fences),
        cmocka_unit_test(a_majority_of_intact_nodes_votes),
        cmocka_unit_test(who_lost_its_data_is_brought_back),
        cmocka_unit_test(nodes_of_another_quorum_do_not_count),
        cmocka_unit_test(an_epoch_has_one_list),
        cmocka_unit_test(votes_are_of_a_majority_of_the_newest_list),
        cmocka_unit_test(an_added_member_is_brought_back_too),
        cmocka_unit_test(who_is_to_be_refused_gets_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
