/* SPDX-License-Identifier: BSD-2-Clause
 * The bag that counts what is among the calls of a connection. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
/* after the above */
#include <cmocka.h>

#include "net/conn/bag.h"

static uint64_t random_state = 7;
static unsigned draw(unsigned below) {
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(random_state >> 33) % below;
}

static void test_bag(void **state) {
    (void)state;
    enum { NUMBERS = 500 };
    static unsigned times[NUMBERS];
    struct bag bag = {.slots = NULL};
    memset(times, 0, sizeof(times));
    bag_remove(&bag, 3);
    assert_int_equal(bag_times(&bag, 3), 0);
    for (unsigned i = 0; i < 20000; i++) {
        unsigned number = draw(i < 10000 ? NUMBERS : NUMBERS / 10);
        bool adds = draw(2) == 0;
        if (adds)
            bag_add(&bag, number);
        else
            bag_remove(&bag, number);
        if (adds)
            times[number]++;
        else if (times[number] > 0)
            times[number]--;
        unsigned other = draw(NUMBERS);
        assert_int_equal(bag_times(&bag, other), times[other]);
    }
    assert_true(bag_is_whole(&bag));
    assert_true(bag.slots_count <= 8 * NUMBERS); /* what has gone takes no room for ever */
    bag_clear(&bag);
    for (unsigned i = 0; i < NUMBERS; i++) assert_int_equal(bag_times(&bag, i), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_bag)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
