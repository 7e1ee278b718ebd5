/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The kernel gives no random bytes: getrandom(2) is ours here (the linker's --wrap). Whatever needs
 * some says so and ends, and nobody waits for it with the client's mutex held.
 */
#include "fixtures.h"

#include <errno.h>
#include <stdatomic.h>
#include <sys/random.h>
#include <unistd.h>

static atomic_bool fails;
static atomic_uint failures;

ssize_t __real_getrandom(void *to, size_t bytes, unsigned flags);
ssize_t __wrap_getrandom(void *to, size_t bytes, unsigned flags);
ssize_t __wrap_getrandom(void *to, size_t bytes, unsigned flags) {
    if (!fails) return __real_getrandom(to, bytes, flags);
    failures++;
    errno = ENOSYS;
    return -1;
}

/* Without the bytes that a client draws ahead. */
static struct redlock_client *open_without(int mode) {
    struct redlock_client_options options;
    redlock_client_options_init(&options);
    options.mode = mode;
    fails = true;
    failures = 0;
    return open_client(&three, &options);
}

static void close_it(struct redlock_client *client) {
    redlock_client_free(client);
    fails = false;
}

static void test_acquiring(void **state) {
    (void)state;
    struct redlock_client *client = open_without(REDLOCK_MODE_CLASSIC);
    struct redlock_lock *lock = new_lock(client, "random", NULL);
    assert_result(redlock_acquire(lock, 0), REDLOCK_SYSTEM);
    fails = false;
    assert_result(redlock_acquire(lock, 0), REDLOCK_OK);
    redlock_lock_free(lock);
    close_it(client);
}

static void test_quorum_init(void **state) {
    struct redlock_quorum_options options;
    struct redlock_error error = {0};
    (void)state;
    redlock_quorum_options_init(&options);
    options.ttl_ms_max = 300;
    options.never_used = 1;
    struct redlock_client *client = open_without(REDLOCK_MODE_GUARDED);
    alarm(30); /* it once tried for ever */
    assert_result(redlock_quorum_init(client, &options, &error), REDLOCK_SYSTEM);
    alarm(0);
    assert_non_null(strstr(error.text, "random"));
    assert_in_range(failures, 1, 1000);
    for (unsigned i = 0; i < three.count; i++)
        assert_int_equal(server_ask_integer(&three.at[i], "EXISTS redlock:node"), 0);
    fails = false;
    assert_result(redlock_quorum_init(client, &options, &error), REDLOCK_OK);
    close_it(client);
}

/* With a quorum that is there, as the test before made it. */
static void test_quorum_change(void **state) {
    struct redlock_quorum_status quorum = {.size = sizeof quorum};
    struct redlock_member members[REDLOCK_NODES_MAX];
    struct redlock_quorum_options options;
    struct redlock_error error = {0};
    (void)state;
    redlock_quorum_options_init(&options);
    for (size_t i = 0; i < REDLOCK_NODES_MAX; i++) members[i].size = sizeof members[i];
    struct redlock_client *client = open_without(REDLOCK_MODE_GUARDED);
    assert_result(redlock_quorum_peek(client, &quorum, members, REDLOCK_NODES_MAX), REDLOCK_OK);
    alarm(30);
    assert_result(redlock_quorum_remove(client, members[2].id, &options, &error), REDLOCK_SYSTEM);
    alarm(0);
    assert_result(redlock_quorum_peek(client, &quorum, members, REDLOCK_NODES_MAX), REDLOCK_OK);
    assert_int_equal(quorum.members, 3);
    close_it(client);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_acquiring),
        cmocka_unit_test(test_quorum_init),
        cmocka_unit_test(test_quorum_change),
    };
    return cmocka_run_group_tests(tests, start_three, stop_three);
}
