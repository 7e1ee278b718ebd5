/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A thread is cancelled at each system call of a blocking call in turn (the linker's --wrap counts
 * them). The call returns first, and the client goes on. */
#include <pthread.h>

#include "at_each_call.h"
#include "fixtures.h"
#include "notices.h"

static void at_the_call(void) { pthread_cancel(pthread_self()); }

WRAPPED(int, pthread_cond_wait, (pthread_cond_t * cond, pthread_mutex_t *mutex), (cond, mutex))

struct victim {
    struct redlock_client *client;
    struct redlock_lock *lock;
    unsigned nth;
    atomic_int returned;
};

/* A thread is cancelled in a function that has no variables of its own: the address sanitizer does
 * not see it leave, and takes its variables for those of what runs next on that stack. */
static void hold_once(struct victim *victim) {
    countdown = victim->nth;
    int result = redlock_acquire(victim->lock, PATIENT_MS);
    if (result == REDLOCK_OK) result = redlock_extend(victim->lock, 0);
    if (result == REDLOCK_OK) result = redlock_release(victim->lock);
    countdown = 0;
    victim->returned = result;
}

static void *work(void *argument) {
    hold_once(argument);
    pthread_testcancel();
    return NULL;
}

/* Returns whether there was an nth call. */
static bool cancel_at(struct redlock_client *client, unsigned nth) {
    struct victim victim = {
        .client = client, .lock = new_lock(client, "victims", NULL), .nth = nth};
    void *end = NULL;
    pthread_t thread;
    victim.returned = 1;
    hit = false;
    assert_int_equal(pthread_create(&thread, NULL, work, &victim), 0);
    assert_int_equal(pthread_join(thread, &end), 0);
    assert_result(victim.returned, REDLOCK_OK);
    assert_ptr_equal(end, hit ? PTHREAD_CANCELED : NULL);
    redlock_lock_free(victim.lock);
    return hit;
}

static void cancelled_at_each_call(int service_thread) {
    struct notices notices = {0};
    struct redlock_lock_options renewed = notices_options(PATIENT_TTL_MS, &notices);
    struct redlock_client *client = open_patient(&three, PATIENT_NODE_MS, service_thread);
    struct redlock_lock *kept = new_lock(client, "kept", &renewed);
    assert_result(redlock_try(kept), REDLOCK_OK);
    unsigned nth = 1;
    while (cancel_at(client, nth)) nth++;
    assert_in_range(nth, 3, 1000);
    if (service_thread) {
        const int renewals = notices.count[REDLOCK_CHANGE_RENEWED];
        wait_until(notices.count[REDLOCK_CHANGE_RENEWED] >= renewals + 2, PATIENT_MS);
    }
    assert_int_equal(notices.count[REDLOCK_CHANGE_LOST], 0);
    assert_result(redlock_release(kept), REDLOCK_OK);
    redlock_lock_free(kept);
    redlock_client_free(client);
}

static void with_a_service_thread(void **state) {
    (void)state;
    cancelled_at_each_call(1);
}

static void without_a_service_thread(void **state) {
    (void)state;
    cancelled_at_each_call(0);
}

static void try_for_long(struct victim *victim) {
    victim->returned = redlock_acquire(victim->lock, 2000);
}

static void *wait_for_a_held_lock(void *argument) {
    try_for_long(argument);
    pthread_testcancel();
    return NULL;
}

/* From another thread, as programs do it: the call that drives for all is not ended. */
static void a_thread_that_waits_for_a_lock(void **state) {
    (void)state;
    struct redlock_client *client = open_patient(&three, PATIENT_NODE_MS, 1),
                          *rival = open_patient(&three, PATIENT_NODE_MS, 1);
    struct redlock_lock *held = new_lock(rival, "held", NULL);
    struct victim victim = {.client = client, .lock = new_lock(client, "held", NULL)};
    void *end = NULL;
    pthread_t thread;
    assert_result(redlock_try(held), REDLOCK_OK);
    assert_int_equal(pthread_create(&thread, NULL, wait_for_a_held_lock, &victim), 0);
    nap_ms(100);
    assert_int_equal(pthread_cancel(thread), 0);
    assert_int_equal(pthread_join(thread, &end), 0);
    assert_ptr_equal(end, PTHREAD_CANCELED);
    assert_result(victim.returned, REDLOCK_HELD);
    struct redlock_lock *other = new_lock(client, "other", NULL);
    assert_result(redlock_try(other), REDLOCK_OK);
    redlock_lock_free(other);
    redlock_lock_free(victim.lock);
    redlock_lock_free(held);
    redlock_client_free(client);
    redlock_client_free(rival);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(with_a_service_thread),
        cmocka_unit_test(without_a_service_thread),
        cmocka_unit_test(a_thread_that_waits_for_a_lock),
    };
    return cmocka_run_group_tests(tests, start_three, stop_three);
}
