/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Values and events at the edge: lengths that wrap, TTLs beyond 64 bits of nanoseconds, a kernel
 * without randomness, a token that outlives the hold.
 */
#include "fixtures.h"
#include "notices.h"

#include <errno.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

static atomic_bool no_randomness;

/* In place of the C library's: this program is linked with the static library. */
ssize_t getrandom(void *buffer, size_t bytes, unsigned flags) {
    if (!no_randomness) return syscall(SYS_getrandom, buffer, bytes, flags);
    errno = ENOSYS;
    return -1;
}

static void lengths_that_wrap_with_the_prefix(void **state) {
    (void)state;
    struct redlock_client_options options;
    struct redlock_client *client = NULL;
    struct redlock_lock *lock = NULL;
    struct redlock_view views[3];
    redlock_client_options_init(&options);
    options.key_prefix = "prefix:";
    assert_result(redlock_client_open(three.urls, &options, &client, NULL), REDLOCK_OK);
    for (size_t less = 0; less < 9; less++) {
        size_t bytes = SIZE_MAX - less;
        assert_result(redlock_lock_new(client, "x", bytes, NULL, &lock, NULL),
                      REDLOCK_BAD_ARGUMENT);
        assert_result(redlock_peek(client, "x", bytes, views, 3), REDLOCK_BAD_ARGUMENT);
    }
    assert_null(lock);
    redlock_client_free(client);
}

/* 18446744073710 ms are 448384 ns more than 2^64 ns: cut to 64 bits it would look free now, again
 * and again. */
static void a_key_that_lives_for_centuries_gives_no_hint(void **state) {
    (void)state;
    struct redlock_lock_options options = lock_options(5000);
    options.retry_delay_ms_min = options.retry_delay_ms_max = 60000;
    struct redlock_client *client = open_calm(&three);
    struct redlock_lock *lock = new_lock(client, "centuries", &options);
    for (int i = 0; i < 3; i++)
        freeReplyObject(
            server_ask(&three.at[i], "SET centuries another PX %lld", 18446744073710LL + 100));
    assert_result(redlock_acquire(lock, 500), REDLOCK_HELD);
    /* At once, and at the deadline; and when a node, on a busy machine, begins late to tell of
     * changes. Not all the time. */
    assert_in_range(stats_of(client).attempts, 2, 2 + 3);
    redlock_lock_free(lock);
    redlock_client_free(client);
}

/* The kernel refuses in the middle of it all (a sandbox that was put on meanwhile): no token, so no
 * lock, and no crash. A call with one retry draws 8 + 20 + 20 bytes of the 256 that are fetched at
 * a time, so that it is cut off at its seed, or at a token, by turns. */
static void no_randomness_is_a_system_error(void **state) {
    (void)state;
    struct redlock_lock_options options = lock_options(5000);
    options.retry_count_max = 1;
    options.retry_delay_ms_min = options.retry_delay_ms_max = 1;
    struct redlock_client *client = open_calm(&three);
    struct redlock_lock *lock = new_lock(client, "random", &options);
    unsigned refused = 0;
    for (int i = 0; i < 3; i++) freeReplyObject(server_ask(&three.at[i], "SET random another"));
    for (int i = 0; i < 40; i++) {
        no_randomness = true;
        int result = redlock_acquire(lock, 5000);
        no_randomness = false;
        if (result == REDLOCK_SYSTEM) {
            refused++;
            result = redlock_acquire(lock, 5000);
        }
        assert_result(result, REDLOCK_HELD);
    }
    assert_true(refused > 3);
    for (int i = 0; i < 3; i++) freeReplyObject(server_ask(&three.at[i], "DEL random"));
    assert_result(redlock_try(lock), REDLOCK_OK);
    assert_result(redlock_release(lock), REDLOCK_OK);
    redlock_lock_free(lock);
    redlock_client_free(client);
}

static void a_disowned_token_stays_readable_and_can_be_taken_back(void **state) {
    (void)state;
    struct redlock_client *client = open_calm(&three);
    struct redlock_lock *lock = new_lock(client, "disowned", NULL);
    assert_result(redlock_acquire(lock, 0), REDLOCK_OK);
    struct redlock_bytes token = redlock_token(lock);
    char copy[REDLOCK_TOKEN_HEX_BYTES];
    assert_int_equal(token.bytes, sizeof copy);
    memcpy(copy, token.data, sizeof copy);
    nap_ms(50); /* every node has answered: nothing else holds on to the token */
    assert_result(redlock_lock_disown(lock), REDLOCK_OK);
    assert_null(redlock_token(lock).data);
    assert_memory_equal(token.data, copy, sizeof copy);
    assert_result(redlock_lock_adopt(lock, token.data, token.bytes), REDLOCK_OK);
    assert_result(redlock_release(lock), REDLOCK_OK);
    assert_int_equal(servers_holding(&three, "disowned"), 0);
    redlock_lock_free(lock);
    redlock_client_free(client);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lengths_that_wrap_with_the_prefix),
        cmocka_unit_test(a_key_that_lives_for_centuries_gives_no_hint),
        cmocka_unit_test(no_randomness_is_a_system_error),
        cmocka_unit_test(a_disowned_token_stays_readable_and_can_be_taken_back),
    };
    return cmocka_run_group_tests(tests, start_three, stop_three);
}
