/* SPDX-License-Identifier: BSD-2-Clause Tables that grow: what was added is found until it is
 * removed, and a walk sees each thing once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "client/locks/chains.h"

enum { THINGS = 1000, LEAST = 8 };

static struct chained things[THINGS];

/* Every third shares its hash with the one before. */
static uint32_t hash_of(unsigned i) { return (i - (i % 3 == 2)) * 2654435761u; }

static unsigned times_found(const struct chains *chains, unsigned which) {
    unsigned times = 0;
    for (const struct chained *at = chains_first(chains, hash_of(which)); at; at = chains_next(at))
        times += at == &things[which];
    return times;
}

static void add(struct chains *chains, unsigned first, unsigned end) {
    for (unsigned i = first; i < end; i++)
        assert_true(chains_add(chains, &things[i], hash_of(i), LEAST));
}

static void what_was_added_is_found_until_removed(void **state) {
    struct chains chains = {0};
    (void)state;
    assert_null(chains_first(&chains, 0));
    add(&chains, 0, THINGS);
    for (unsigned i = 0; i < THINGS; i++) assert_int_equal(times_found(&chains, i), 1);
    for (unsigned i = 0; i < THINGS; i += 2) chains_remove(&chains, &things[i]);
    assert_int_equal(chains.count, THINGS / 2);
    for (unsigned i = 0; i < THINGS; i++) assert_int_equal(times_found(&chains, i), i % 2);
    for (unsigned i = 1; i < THINGS; i += 2) chains_remove(&chains, &things[i]);
    assert_int_equal(chains.count, 0);
    for (unsigned i = 0; i < THINGS; i++) assert_null(chains_first(&chains, hash_of(i)));
    chains_free(&chains, NULL);
}

static void it_grows_with_what_is_in_it(void **state) {
    struct chains chains = {0};
    (void)state;
    add(&chains, 0, 1);
    assert_int_equal(chains.chains, LEAST);
    add(&chains, 1, THINGS);
    assert_in_range(chains.chains, THINGS / 4, THINGS * 2);
    chains_free(&chains, NULL);
}

/* Things are added in the middle of it: all that were there before are seen once. */
static void a_walk_sees_each_once(void **state) {
    static unsigned seen[THINGS];
    struct chains chains = {0};
    unsigned added = 2 * LEAST; /* the next one would make it grow */
    (void)state;
    add(&chains, 0, added);
    chains.walked = true;
    for (uint32_t i = 0; i < chains.chains; i++) {
        for (const struct chained *at = chains.chain[i]; at; at = at->next) {
            seen[at - things]++;
            if (added == THINGS - 1) continue;
            add(&chains, added, added + 1);
            added++;
        }
    }
    chains.walked = false;
    assert_int_equal(chains.chains, LEAST);
    for (unsigned i = 0; i < 2 * LEAST; i++) assert_int_equal(seen[i], 1);
    for (unsigned i = 0; i < THINGS; i++) assert_in_range(seen[i], 0, 1);
    add(&chains, added, added + 1);
    assert_true(chains.chains > LEAST);
    chains_free(&chains, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_added_is_found_until_removed),
        cmocka_unit_test(it_grows_with_what_is_in_it),
        cmocka_unit_test(a_walk_sees_each_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
