/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Who sleeps for whom, where nothing on the sockets comes to the rescue: one node has no straggler
 * whose late answer would wake a thread that was forgotten. Each test fails by a wait that never
 * ends.
 */
#include "fixtures.h"
#include "notices.h"

#include <pthread.h>

static struct redlock_lock_options renewed_often(struct notices *notices) {
    struct redlock_lock_options options = notices_options(5000, notices);
    options.renew_interval_ms = 10;
    return options;
}

/* The service thread sleeps on the sockets when the caller takes over, and must know of the renewal
 * when he leaves. */
static void a_lock_taken_by_a_caller_is_renewed(void **state) {
    (void)state;
    struct notices notices = {0};
    struct redlock_lock_options options = renewed_often(&notices);
    struct redlock_client *client = open_calm(&one);
    struct redlock_lock *lock = new_lock(client, "renewed", &options);
    for (int i = 0; i < 100; i++) {
        nap_ms(10); /* the service thread goes back to the sockets */
        int before = notices.count[REDLOCK_CHANGE_RENEWED];
        assert_result(redlock_acquire(lock, 0), REDLOCK_OK);
        wait_until(notices.count[REDLOCK_CHANGE_RENEWED] > before, 1000);
        assert_result(redlock_release(lock), REDLOCK_OK);
    }
    assert_int_equal(notices.count[REDLOCK_CHANGE_LOST], 0);
    redlock_lock_free(lock);
    redlock_client_free(client);
}

static void *wait_for_it(void *lock) {
    assert_result(redlock_acquire(lock, REDLOCK_WAIT_FOREVER), REDLOCK_CANCELLED);
    return NULL;
}

/* A caller that waits for long does the renewal of another lock; the callback is the service
 * thread's all the same. */
static void callbacks_run_while_a_caller_waits(void **state) {
    (void)state;
    struct notices notices = {0};
    struct redlock_lock_options options = renewed_often(&notices), patient = lock_options(5000);
    patient.retry_delay_ms_min = patient.retry_delay_ms_max = 60000;
    struct redlock_client *client = open_calm(&one);
    struct redlock_lock *lock = new_lock(client, "told", &options),
                        *busy = new_lock(client, "busy", &patient);
    freeReplyObject(server_ask(&one.at[0], "SET busy another"));
    for (int i = 0; i < 60; i++) {
        pthread_t thread;
        nap_ms(10);
        assert_int_equal(pthread_create(&thread, NULL, wait_for_it, busy), 0);
        wait_until(redlock_lock_state(busy) == REDLOCK_STATE_ACQUIRING, 1000);
        assert_result(redlock_acquire(lock, 0), REDLOCK_OK);
        int before = notices.count[REDLOCK_CHANGE_RENEWED];
        wait_until(notices.count[REDLOCK_CHANGE_RENEWED] > before + 1, 1000);
        assert_result(redlock_release(lock), REDLOCK_OK);
        redlock_cancel(busy);
        pthread_join(thread, NULL);
    }
    freeReplyObject(server_ask(&one.at[0], "DEL busy"));
    redlock_lock_free(busy);
    redlock_lock_free(lock);
    redlock_client_free(client);
}

static atomic_int ended, ended_with;

static void on_end(void *context, struct redlock_lock *lock, int result) {
    (void)context, (void)lock;
    ended_with = result;
    ended++;
}

/* Nothing is sent and no timer is armed: only the call itself can wake the thread that runs the
 * callback. */
static void an_operation_that_ends_at_once_is_reported(void **state) {
    (void)state;
    struct notices notices = {0};
    struct redlock_lock_options options = notices_options(400, &notices);
    options.renew = 0;
    struct redlock_client *client = open_calm(&one);
    struct redlock_lock *lock = new_lock(client, "over", &options);
    assert_result(redlock_acquire(lock, 0), REDLOCK_OK);
    wait_until(notices.count[REDLOCK_CHANGE_LOST] == 1, 1000);
    nap_ms(600); /* every timer has fired */
    ended = 0;
    assert_result(redlock_extend_start(lock, 0, on_end, NULL), REDLOCK_OK);
    wait_until(ended == 1, 1000);
    assert_result(ended_with, REDLOCK_LOST);
    redlock_lock_free(lock);
    redlock_client_free(client);
}

/* Due, but the client ends first. That nothing is left of the lock is for the leak checker to
 * see. */
static void a_client_freed_before_its_callbacks_ran(void **state) {
    (void)state;
    struct redlock_client_options options;
    struct redlock_client *client = NULL;
    redlock_client_options_init(&options);
    options.service_thread = 0;
    assert_result(redlock_client_open(one.urls, &options, &client, NULL), REDLOCK_OK);
    assert_int_equal(redlock_client_wait_ready(client, 2000), 1);
    ended = 0;
    struct redlock_lock *lock = new_lock(client, "untold", NULL);
    assert_result(redlock_acquire(lock, 0), REDLOCK_OK);
    freeReplyObject(server_ask(&one.at[0], "SET untold another"));
    assert_result(redlock_extend(lock, 0), REDLOCK_LOST);
    assert_result(redlock_extend_start(lock, 0, on_end, NULL), REDLOCK_OK);
    redlock_lock_free(lock);
    assert_int_equal(ended, 1);
    assert_result(ended_with, REDLOCK_CANCELLED);
    redlock_client_free(client);
    assert_int_equal(ended, 1);
}

/* A callback that waits for the lock again, and a thread that frees the lock meanwhile. */
static struct redlock_lock *waits_again;
static atomic_int waits, again_with, once_more_with;

static void wait_again(void *context, struct redlock_lock *lock, int change) {
    (void)context;
    if (change != REDLOCK_CHANGE_LOST) return;
    assert_result(redlock_release(lock), REDLOCK_LOST);
    waits = 1;
    again_with = redlock_acquire(lock, 60000);
    once_more_with = redlock_acquire(lock, 60000);
    waits = 2;
}

static void *free_it(void *lock) {
    redlock_lock_free(lock);
    return NULL;
}

static void a_lock_freed_while_its_callback_waits_for_it(void **state) {
    (void)state;
    struct redlock_lock_options options = lock_options(400);
    options.on_change = wait_again;
    struct redlock_client *client = open_calm(&one);
    waits_again = new_lock(client, "again", &options);
    pthread_t thread;
    assert_result(redlock_acquire(waits_again, 0), REDLOCK_OK);
    freeReplyObject(server_ask(&one.at[0], "SET again another"));
    wait_until(waits == 1, 2000);
    nap_ms(50);
    assert_int_equal(pthread_create(&thread, NULL, free_it, waits_again), 0);
    wait_until(waits == 2, 2000);
    pthread_join(thread, NULL);
    assert_result(again_with, REDLOCK_CANCELLED);
    assert_result(once_more_with, REDLOCK_CANCELLED);
    freeReplyObject(server_ask(&one.at[0], "DEL again"));
    redlock_client_free(client);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_lock_taken_by_a_caller_is_renewed),
        cmocka_unit_test(callbacks_run_while_a_caller_waits),
        cmocka_unit_test(an_operation_that_ends_at_once_is_reported),
        cmocka_unit_test(a_client_freed_before_its_callbacks_ran),
        cmocka_unit_test(a_lock_freed_while_its_callback_waits_for_it),
    };
    return cmocka_run_group_tests(tests, start_one, stop_one);
}
