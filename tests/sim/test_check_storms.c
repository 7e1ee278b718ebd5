/* SPDX-License-Identifier: BSD-2-Clause
 *
 * STORM: by one client, and by all of them together.
 */
#include "past.h"

#define ASKS(when, who, where, count, begin)                                                       \
    {                                                                                              \
        .at = (when), .client = (who), .node = (where), .resource = -1, .kind = HISTORY_ASKED,     \
        .value = (count), .until = (begin)                                                         \
    }
#define ALL (-1)

static void one_client(void **state) {
    (void)state;
    HOLDS(STORM, ASKS(900, A, 1, 999, 100));
    BREAKS(STORM, 0, 0, ASKS(900, A, 1, 1000, 100));
    spans(100, 900);
    says("A sent node 2 1000 requests about its record and state from 0.0001 ms to 0.0009 ms");
    /* Said once for each client and node. */
    BREAKS(STORM, 1, 1, ASKS(500, A, 1, 500, 100), ASKS(900, A, 1, 1000, 100),
           ASKS(950, A, 1, 1500, 100), ASKS(2000, A, 1, 1000, 1900));
    assert_int_equal(JUDGE(STORM, ASKS(900, A, 0, 1000, 100), ASKS(900, A, 1, 1000, 100),
                           ASKS(900, B, 1, 1000, 100)),
                     3);
}

static void all_clients(void **state) {
    (void)state;
    HOLDS(STORM, ASKS(900, ALL, 2, 2999, 100));
    BREAKS(STORM, 1, 1, ASKS(800, ALL, 2, 2500, 100), ASKS(900, ALL, 2, 3000, 100));
    spans(100, 900);
    says(
        "all clients sent node 3 3000 requests about its record and state from 0.0001 ms to 0.0009 ms");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(one_client), cmocka_unit_test(all_clients)};
    return cmocka_run_group_tests_name("storms", tests, NULL, NULL);
}
