/* SPDX-License-Identifier: BSD-2-Clause
 * How long an AUTH waits after wrong passwords: on its own connection, and on all together. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "connection/password.h"

#define SECOND INT64_C(1000000000)
#define NOW (1000 * SECOND)

static struct guesses after(unsigned wrong, int64_t now_ns) {
    struct guesses guesses = {0};
    for (unsigned i = 0; i < wrong; i++) guess_count(&guesses, now_ns);
    return guesses;
}

static int delay_ms(const struct guesses *guesses, int64_t now_ns) {
    return guess_delay_ms(0, guess_recent(guesses, now_ns));
}

static void the_delay_doubles_on_one_connection(void **state) {
    (void)state;
    assert_int_equal(guess_delay_ms(0, 0), 0);
    int ms = GUESS_DELAY_MS;
    for (unsigned wrong = 1; wrong < 7; wrong++, ms *= 2)
        assert_int_equal(guess_delay_ms(wrong, 0), ms);
    assert_int_equal(guess_delay_ms(GUESSES_MAX, 0), GUESS_DELAY_MS_MAX);
    assert_int_equal(guess_delay_ms(UINT32_MAX, 0), GUESS_DELAY_MS_MAX);
}

static void many_on_all_delay_each(void **state) {
    (void)state;
    struct guesses guesses = after(GUESSES_FREE, NOW);
    assert_int_equal(delay_ms(&guesses, NOW), 0);
    guess_count(&guesses, NOW);
    assert_int_equal(delay_ms(&guesses, NOW), GUESS_DELAY_MS_MAX);
}

static void they_are_forgotten(void **state) {
    (void)state;
    struct guesses guesses = after(GUESSES_FREE + GUESSES_FREE_PER_SECOND, NOW);
    assert_int_equal(delay_ms(&guesses, NOW + SECOND - 1000), GUESS_DELAY_MS_MAX);
    assert_int_equal(delay_ms(&guesses, NOW + SECOND + 1000), 0);
    /* What is forgotten is not kept as credit. */
    guesses = after(1, NOW);
    for (unsigned i = 0; i < GUESSES_FREE; i++) guess_count(&guesses, NOW + 3600 * SECOND);
    assert_int_equal(delay_ms(&guesses, NOW + 3600 * SECOND), 0);
    guess_count(&guesses, NOW + 3600 * SECOND);
    assert_int_equal(delay_ms(&guesses, NOW + 3600 * SECOND), GUESS_DELAY_MS_MAX);
}

/* However long it was: ten seconds at this rate. */
static void an_attack_delays_others_for_a_while_only(void **state) {
    (void)state;
    struct guesses guesses = after(100000, NOW);
    const int64_t forgotten = NOW + GUESSES_FREE * SECOND / GUESSES_FREE_PER_SECOND;
    assert_int_equal(delay_ms(&guesses, forgotten - SECOND), GUESS_DELAY_MS_MAX);
    assert_int_equal(delay_ms(&guesses, forgotten + SECOND), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_delay_doubles_on_one_connection),
        cmocka_unit_test(many_on_all_delay_each),
        cmocka_unit_test(they_are_forgotten),
        cmocka_unit_test(an_attack_delays_others_for_a_while_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
