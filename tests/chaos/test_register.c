/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The register of the chaos runs follows the gate's rule (docs/use/fencing.md): a run in which it
 * refused what the gate admits would accuse the library of what it did not do.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "record.h"

static void writers_alone(void **state) {
    struct chaos_cell cell = {0};
    (void)state;
    assert_int_equal(chaos_register_write(&cell, 5), 0);
    assert_int_equal(chaos_register_write(&cell, 5), 0);
    assert_int_equal(chaos_register_write(&cell, 7), 0);
    assert_int_equal(chaos_register_write(&cell, 6), 7);
    assert_int_equal(cell.fence, 7);
    assert_int_equal(cell.writes, 3);
    assert_int_equal(cell.refusals, 1);
}

static void readers_do_not_refuse_each_other(void **state) {
    struct chaos_cell cell = {0};
    (void)state;
    assert_int_equal(chaos_register_write(&cell, 5), 0);
    assert_int_equal(chaos_register_read(&cell, 9), 0);
    assert_int_equal(chaos_register_read(&cell, 5), 0);
    assert_int_equal(chaos_register_read(&cell, 4), 5);
}

static void a_writer_is_above_all_readers(void **state) {
    struct chaos_cell cell = {0};
    (void)state;
    assert_int_equal(chaos_register_write(&cell, 5), 0);
    assert_int_equal(chaos_register_read(&cell, 5), 0);
    assert_int_equal(chaos_register_write(&cell, 5), 5);
    assert_int_equal(chaos_register_read(&cell, 8), 0);
    assert_int_equal(chaos_register_write(&cell, 7), 8);
    /* The refused one left nothing behind. */
    assert_int_equal(chaos_register_read(&cell, 6), 0);
    assert_int_equal(chaos_register_write(&cell, 9), 0);
    assert_int_equal(chaos_register_read(&cell, 8), 9);
}

/* judge.py computes the same numbers. */
static void ids(void **state) {
    (void)state;
    assert_true(chaos_id("", 0) == INT64_C(7347990519673328018));
    assert_true(chaos_id("lead0.1", 7) == INT64_C(7079764514269746844));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(writers_alone),
        cmocka_unit_test(readers_do_not_refuse_each_other),
        cmocka_unit_test(a_writer_is_above_all_readers),
        cmocka_unit_test(ids),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
