/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Five servers for a whole program or for each of its tests: a setup and a teardown for cmocka.
 */
#ifndef TESTS_FIVE_H
#define TESTS_FIVE_H

#include "harness.h"

static struct servers five;

static inline int start_five(void **state) {
    (void)state;
    servers_start(&five, 5);
    return 0;
}

static inline int stop_five(void **state) {
    (void)state;
    servers_stop(&five);
    return 0;
}

#endif
