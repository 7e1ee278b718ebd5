/* SPDX-License-Identifier: BSD-2-Clause
 *
 * OBSERVED and SURE, by hand. A leads under term 5 by token 1, B later under term 7 by token 2, and
 * C observes.
 */
#include "past.h"

#define A_LEADS DOES(100, A, ACQUIRED, .token = 1, .until = 900, .value = 5)
#define B_LEADS(when) DOES(when, B, ACQUIRED, .token = 2, .until = 1900, .value = 7)
#define REPORTS_A(when, sure) DOES(when, C, OBSERVED, .token = 1, .value = 5, .until = (sure))
#define REPORTS_B(when, sure) DOES(when, C, OBSERVED, .token = 2, .value = 7, .until = (sure))
#define REPORTS_NONE(when) DOES(when, C, OBSERVED)

static void the_term_is_that_of_the_token(void **state) {
    (void)state;
    HOLDS(OBSERVED, A_LEADS, REPORTS_A(200, 800), REPORTS_NONE(900));
    BREAKS(OBSERVED, 1, 1, A_LEADS, DOES(200, C, OBSERVED, .token = 1, .value = 6, .until = 800));
    BREAKS(OBSERVED, 1, 1, A_LEADS, DOES(200, C, OBSERVED, .token = 9, .value = 5, .until = 800));
    BREAKS(OBSERVED, 0, 0, REPORTS_A(50, 800), A_LEADS); /* before it was granted */
}

static void terms_never_fall(void **state) {
    (void)state;
    HOLDS(OBSERVED, A_LEADS, REPORTS_A(200, 800), B_LEADS(1000), REPORTS_B(1010, 1800),
          REPORTS_B(1020, 1810));
    BREAKS(OBSERVED, 2, 3, A_LEADS, B_LEADS(1000), REPORTS_B(1010, 1800), REPORTS_A(1020, 1100));
    /* another observer may be later */
    HOLDS(OBSERVED, A_LEADS, B_LEADS(1000), REPORTS_B(1010, 1800),
          DOES(1011, A, OBSERVED, .token = 1, .value = 5, .until = 1100));
}

static void nobody_else_leads_before_the_sure_time(void **state) {
    (void)state;
    HOLDS(SURE, A_LEADS, REPORTS_A(200, 800), B_LEADS(801));
    BREAKS(SURE, 1, 2, A_LEADS, REPORTS_A(200, 800), B_LEADS(700));
    /* a report that is late: B leads already */
    BREAKS(SURE, 2, 2, A_LEADS, B_LEADS(700), REPORTS_A(710, 800));
    /* a promise stands, whatever is reported meanwhile */
    BREAKS(SURE, 1, 3, A_LEADS, REPORTS_A(200, 800), REPORTS_NONE(600), B_LEADS(700));
    /* B has lost it, or its validity has ended */
    HOLDS(SURE, B_LEADS(50), DOES(90, B, LOST, .token = 2), A_LEADS, REPORTS_A(200, 800));
    HOLDS(SURE, DOES(10, B, ACQUIRED, .token = 2, .until = 90, .value = 3), A_LEADS,
          REPORTS_A(200, 800));
    BREAKS(SURE, 3, 3, DOES(10, B, ACQUIRED, .token = 2, .until = 90, .value = 3),
           DOES(80, B, RENEWED, .token = 2, .until = 300), A_LEADS, REPORTS_A(200, 800));
}

static void a_resignation_ends_the_promise(void **state) {
    (void)state;
    HOLDS(SURE, A_LEADS, REPORTS_A(200, 800), DOES(300, A, RELEASE, .token = 1), B_LEADS(310));
    HOLDS(SURE, A_LEADS, REPORTS_A(200, 800), DOES(300, C, BREAK, .token = 1, .value = 6),
          B_LEADS(310));
    /* that of another lock does not */
    BREAKS(SURE, 1, 3, A_LEADS, REPORTS_A(200, 800), DOES(300, A, RELEASE, .token = 4),
           B_LEADS(310));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_term_is_that_of_the_token),
        cmocka_unit_test(terms_never_fall),
        cmocka_unit_test(nobody_else_leads_before_the_sure_time),
        cmocka_unit_test(a_resignation_ends_the_promise),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
