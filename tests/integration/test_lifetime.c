/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A client that is freed before its locks: they keep it alive, and the last one closes it. And how
 * soon an operation with a callback ends.
 */
#include "fixtures.h"
#include "notices.h"

#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

static long clients_of(struct server *server) {
    long count = 0;
    redisReply *reply = server_ask(server, "INFO clients");
    sscanf(strstr(reply->str, "connected_clients:"), "connected_clients:%ld", &count);
    freeReplyObject(reply);
    return count;
}

static void a_held_lock_outlives_its_client(void **state) {
    (void)state;
    struct notices notices = {0};
    const struct redlock_lock_options options = notices_options(900, &notices);
    struct redlock_client *client = open_patient(&three, 150, 1);
    struct redlock_lock *lock = new_lock(client, "outlives", &options);
    struct redlock_lock *other = new_lock(client, "other", NULL);
    assert_result(redlock_acquire(lock, 2000), REDLOCK_OK);
    redlock_client_free(client);
    wait_until(notices.count[REDLOCK_CHANGE_RENEWED] >= 4, 5000); /* longer than the TTL */
    assert_int_equal(redlock_lock_state(lock), REDLOCK_STATE_HELD);
    assert_int_equal(servers_holding(&three, "outlives"), 3);
    assert_result(redlock_acquire(other, 2000), REDLOCK_OK);
    redlock_lock_free(lock);
    wait_until(servers_holding(&three, "outlives") == 0, 2000);
    assert_int_equal(servers_holding(&three, "other"), 3);
    redlock_lock_free(other); /* waits for its release, as redlock_client_free() did */
    assert_int_equal(servers_holding(&three, "other"), 0);
    wait_until(clients_of(&three.at[0]) == 1, 2000); /* our own question */
}

static void the_last_lock_is_freed_in_its_callback(void **state) {
    (void)state;
    struct done done = {.frees = true};
    struct redlock_client *client = open_patient(&three, 150, 1);
    struct redlock_lock *lock = new_lock(client, "in a callback", NULL);
    assert_result(redlock_acquire_start(lock, 2000, on_done, &done), REDLOCK_OK);
    redlock_client_free(client);
    wait_until(done.count == 1, 3000);
    assert_result(done.result, REDLOCK_OK);
    wait_until(servers_holding(&three, "in a callback") == 0, 2000);
    wait_until(clients_of(&three.at[0]) == 1, 2000);
}

static void so_it_is_without_a_service_thread(void **state) {
    (void)state;
    struct redlock_client *client = open_patient(&three, 150, 0);
    struct redlock_lock *lock = new_lock(client, "unserved", NULL);
    redlock_client_free(client);
    assert_result(redlock_acquire(lock, 2000), REDLOCK_OK);
    assert_result(redlock_extend(lock, 0), REDLOCK_OK);
    redlock_lock_free(lock);
    assert_int_equal(servers_holding(&three, "unserved"), 0);
    wait_until(clients_of(&three.at[0]) == 1, 2000);
}

static void in_a_child_memory_is_freed_with_the_last_lock(void **state) {
    (void)state;
    struct redlock_client *client = open_patient(&three, 150, 1);
    struct redlock_lock *lock = new_lock(client, "child", NULL);
    assert_result(redlock_acquire(lock, 2000), REDLOCK_OK);
    pid_t child = fork();
    if (child == 0) {
        redlock_client_free(client);
        _exit(redlock_try(lock) == REDLOCK_FORKED ? (redlock_lock_free(lock), 0) : 1);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(servers_holding(&three, "child"), 3);
    redlock_client_free(client);
    redlock_lock_free(lock);
    assert_int_equal(servers_holding(&three, "child"), 0);
}

/* The service thread does not listen while callers come and go. But no caller waits for this
 * answer. The fastest of several, because the machine may be busy. */
static void a_started_operation_after_a_blocking_one_is_not_late(void **state) {
    (void)state;
    double fastest = 1e9;
    struct redlock_client *client = open_patient(&three, 150, 1);
    struct redlock_lock *lock = new_lock(client, "soon", NULL);
    for (int i = 0; i < 30; i++) {
        struct done done = {0};
        assert_result(redlock_acquire(lock, 2000), REDLOCK_OK);
        const double began = now_ms();
        assert_result(redlock_release_start(lock, on_done, &done), REDLOCK_OK);
        while (done.count == 0) sched_yield();
        if (now_ms() - began < fastest) fastest = now_ms() - began;
    }
    assert_less(fastest, 3);
    redlock_lock_free(lock);
    redlock_client_free(client);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_held_lock_outlives_its_client),
        cmocka_unit_test(the_last_lock_is_freed_in_its_callback),
        cmocka_unit_test(so_it_is_without_a_service_thread),
        cmocka_unit_test(in_a_child_memory_is_freed_with_the_last_lock),
        cmocka_unit_test(a_started_operation_after_a_blocking_one_is_not_late),
    };
    return cmocka_run_group_tests(tests, start_three, stop_three);
}
