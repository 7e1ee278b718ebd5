/* SPDX-License-Identifier: BSD-2-Clause
 *
 * In somebody's event loop: no service thread, poll(2) on one descriptor, redlock_process().
 */
#include "fixtures.h"
#include "notices.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>

/* Not connected yet: it is the loop that does that. */
static struct redlock_client *open_looping(const char *urls, int64_t node_timeout_ms) {
    struct redlock_client_options options;
    struct redlock_client *client = NULL;
    redlock_client_options_init(&options);
    options.service_thread = 0;
    options.node_timeout_ms = node_timeout_ms;
    assert_result(redlock_client_open(urls, &options, &client, NULL), REDLOCK_OK);
    return client;
}

static struct redlock_client *open_embedded(const char *urls) { return open_looping(urls, 150); }

static bool readable(struct redlock_client *client, double ms) {
    struct pollfd descriptor = {.fd = redlock_client_fd(client), .events = POLLIN};
    assert_true(descriptor.fd >= 0);
    return poll(&descriptor, 1, ms > 0 ? (int)ms + 1 : 0) == 1;
}

/* The loop: until *what reaches `value` or the time is over. Returns how often it was woken. */
static unsigned run(struct redlock_client *client, const atomic_int *what, int value, double ms) {
    double end = now_ms() + ms;
    unsigned woken = 0;
    while ((!what || *what < value) && now_ms() < end) {
        if (!readable(client, end - now_ms())) continue;
        woken++;
        assert_result(redlock_process(client), REDLOCK_OK);
    }
    if (what && *what < value) fail_msg("%d, not %d, after %g ms", *what, value, ms);
    return woken;
}

static void one_lock_from_start_to_release(void **state) {
    (void)state;
    struct notices notices = {0};
    struct done done = {0};
    struct redlock_lock_options options = notices_options(600, &notices);
    struct redlock_client *client = open_embedded(three.urls);
    struct redlock_lock *lock = new_lock(client, "one", &options);
    assert_result(redlock_acquire_start(lock, 2000, on_done, &done), REDLOCK_OK);
    assert_int_equal(done.count, 0); /* never from within the call */
    assert_int_equal(redlock_lock_state(lock), REDLOCK_STATE_ACQUIRING);
    assert_result(redlock_acquire_start(lock, 2000, on_done, &done), REDLOCK_BUSY);
    assert_result(redlock_extend_start(lock, 0, on_done, &done), REDLOCK_BUSY);
    assert_result(redlock_release_start(lock, on_done, &done), REDLOCK_BUSY);
    run(client, &done.count, 1, 2000);
    assert_result(done.result, REDLOCK_OK);
    run(client, NULL, 0, 1500); /* renewal by redlock_process() alone */
    assert_int_equal(redlock_lock_state(lock), REDLOCK_STATE_HELD);
    assert_in_range(notices.count[REDLOCK_CHANGE_RENEWED], 4, 9);
    assert_result(redlock_extend_start(lock, 5000, on_done, &done), REDLOCK_OK);
    assert_result(redlock_extend_start(lock, 5000, on_done, &done), REDLOCK_BUSY);
    run(client, &done.count, 2, 1000);
    assert_result(done.result, REDLOCK_OK);
    assert_true(redlock_validity_ms(lock) > 4000);
    assert_result(redlock_release_start(lock, on_done, &done), REDLOCK_OK);
    assert_result(redlock_release_start(lock, on_done, &done), REDLOCK_BUSY);
    run(client, &done.count, 3, 1000);
    assert_result(done.result, REDLOCK_OK);
    run(client, NULL, 0, 100);
    assert_int_equal(done.count, 3);
    assert_int_equal(servers_holding(&three, "one"), 0);
    assert_int_equal(notices.count[REDLOCK_CHANGE_LOST] + notices.count[REDLOCK_CHANGE_UNSURE], 0);
    redlock_lock_free(lock);
    redlock_client_free(client);
}

/* Each operation begun inside the callback of the one before. */
struct chain {
    atomic_int steps;
    int failed;
};

static void next_step(void *context, struct redlock_lock *lock, int result) {
    struct chain *chain = context;
    if (result != REDLOCK_OK) chain->failed = result;
    switch (chain->steps++ % 3) {
    case 0: result = redlock_extend_start(lock, 0, next_step, chain); break;
    case 1: result = redlock_release_start(lock, next_step, chain); break;
    case 2: result = redlock_acquire_start(lock, 1000, next_step, chain); break;
    }
    if (result != REDLOCK_OK) chain->failed = result;
}

static void operations_begun_in_callbacks(void **state) {
    (void)state;
    struct chain chain = {0};
    struct redlock_client *client = open_embedded(three.urls);
    struct redlock_lock *lock = new_lock(client, "chain", NULL);
    assert_result(redlock_acquire_start(lock, 2000, next_step, &chain), REDLOCK_OK);
    run(client, &chain.steps, 300, 10000);
    assert_result(chain.failed, REDLOCK_OK);
    int steps = chain.steps;
    redlock_lock_free(lock); /* in the middle of one, which ends here */
    run(client, NULL, 0, 100);
    assert_int_equal(chain.steps, steps + 1);
    assert_int_not_equal(chain.failed, REDLOCK_OK);
    assert_int_equal(servers_holding(&three, "chain"), 0);
    redlock_client_free(client);
}

/* One that hangs is not waited for where the others agree; where they cannot, its verdict says
 * so. */
static void looking_without_blocking(void **state) {
    (void)state;
    struct done done = {0};
    struct redlock_view views[3];
    struct redlock_client *client = open_looping(three.urls, 900);
    struct redlock_lock *lock = new_lock(client, "seen", NULL);
    assert_int_equal(redlock_client_wait_ready(client, 2000), 3);
    assert_result(redlock_peek_start(lock, views, 2, on_done, &done), REDLOCK_BAD_ARGUMENT);
    assert_result(redlock_peek_start(lock, views, 3, NULL, NULL), REDLOCK_BAD_ARGUMENT);
    assert_result(redlock_peek_start(lock, views, 3, on_done, &done), REDLOCK_OK);
    assert_result(redlock_peek_start(lock, views, 3, on_done, &done), REDLOCK_BUSY);
    assert_result(redlock_acquire_start(lock, 0, on_done, &done), REDLOCK_BUSY);
    assert_int_equal(done.count, 0); /* never from within the call */
    run(client, &done.count, 1, 3000);
    assert_result(done.result, REDLOCK_OK);
    unsigned absent = 0;
    for (unsigned i = 0; i < 3; i++) {
        absent += views[i].verdict == REDLOCK_VERDICT_ABSENT;
        assert_true(views[i].verdict == REDLOCK_VERDICT_ABSENT ||
                    views[i].verdict == REDLOCK_VERDICT_NONE);
    }
    assert_in_range(absent, 2, 3);

    for (unsigned i = 0; i < 3; i++)
        freeReplyObject(server_ask(&three.at[i], "SET seen %s PX 9000", i == 1 ? "them" : "us"));
    server_pause(&three.at[0]);
    double since = now_ms();
    assert_result(redlock_peek_start(lock, views, 3, on_done, &done), REDLOCK_OK);
    run(client, &done.count, 2, 3000);
    assert_true(now_ms() - since > 800);    /* the node timeout */
    assert_result(done.result, REDLOCK_OK); /* two have told, and they do not agree */
    assert_int_equal(views[0].verdict, REDLOCK_VERDICT_TIMEOUT);
    assert_memory_equal(views[1].token, "them", 4);

    freeReplyObject(server_ask(&three.at[1], "SET seen us PX 9000"));
    since = now_ms();
    assert_result(redlock_peek_start(lock, views, 3, on_done, &done), REDLOCK_OK);
    run(client, &done.count, 3, 3000);
    assert_true(now_ms() - since < 800); /* a majority says the same */
    assert_int_equal(views[2].token_bytes, 2);
    assert_in_range(views[2].remaining_ms, 5000, 9000);

    assert_result(redlock_peek_start(lock, views, 3, on_done, &done), REDLOCK_OK);
    redlock_lock_free(lock); /* under way: it ends here, and the views are left alone */
    assert_int_equal(done.count, 4);
    assert_result(done.result, REDLOCK_CANCELLED);
    memset(views, 0, sizeof views);
    server_resume(&three.at[0]);
    run(client, NULL, 0, 100);
    assert_int_equal(done.count, 4);
    assert_int_equal(views[2].verdict, REDLOCK_VERDICT_NONE);
    redlock_client_free(client);
}

/* All or none, and waiting for others: each step by redlock_process() alone. */
static void several_and_waits_without_blocking(void **state) {
    (void)state;
    struct done done = {0}, freed = {0};
    struct redlock_client *client = open_embedded(three.urls);
    struct redlock_lock *locks[2] = {new_lock(client, "left", NULL),
                                     new_lock(client, "right", NULL)},
                        *look = new_lock(client, "right", NULL);
    assert_int_equal(redlock_client_wait_ready(client, 2000), 3);
    for (int i = 0; i < 3; i++)
        freeReplyObject(server_ask(&three.at[i], "SET right another PX 1000"));
    assert_result(redlock_acquire_all_start(locks, 2, 10, NULL, &done), REDLOCK_BAD_ARGUMENT);
    assert_result(redlock_acquire_all_start(locks, 2, 100, on_done, &done), REDLOCK_OK);
    assert_int_equal(done.count, 0); /* never from within the call */
    run(client, &done.count, 1, 3000);
    assert_result(done.result, REDLOCK_HELD);
    assert_result(redlock_await_free_start(look, 10000, on_done, &freed), REDLOCK_OK);
    assert_int_equal(freed.count, 0);
    assert_result(redlock_acquire_all_start(locks, 2, 10000, on_done, &done), REDLOCK_OK);
    run(client, &done.count, 2, 5000);
    assert_result(done.result, REDLOCK_OK);
    assert_int_equal(servers_holding(&three, "left") + servers_holding(&three, "right"), 6);
    run(client, &freed.count, 1, 60000);
    redlock_lock_free(locks[0]);
    redlock_lock_free(locks[1]);
    redlock_lock_free(look);
    run(client, NULL, 0, 100);
    assert_int_equal(servers_holding(&three, "left") + servers_holding(&three, "right"), 0);
    redlock_client_free(client);
}

static void free_on_lost(void *context, struct redlock_lock *lock, int change) {
    if (change != REDLOCK_CHANGE_LOST) return;
    redlock_lock_free(lock);
    (*(atomic_int *)context)++;
}

static void free_when_done(void *context, struct redlock_lock *lock, int result) {
    redlock_lock_free(lock);
    if (result == REDLOCK_OK) (*(atomic_int *)context)++;
}

static void locks_freed_in_their_own_callbacks(void **state) {
    (void)state;
    atomic_int lost = 0, freed = 0;
    struct done done = {0};
    struct redlock_lock_options options = lock_options(500);
    options.on_change = free_on_lost;
    options.on_change_context = &lost;
    struct redlock_client *client = open_embedded(three.urls);
    struct redlock_lock *lock = new_lock(client, "lost", &options);
    assert_result(redlock_acquire_start(lock, 2000, on_done, &done), REDLOCK_OK);
    run(client, &done.count, 1, 2000);
    for (int i = 0; i < 3; i++)
        freeReplyObject(server_ask(&three.at[i], "SET lost another PX 2000"));
    run(client, &lost, 1, 1000);
    run(client, NULL, 0, 600);
    assert_int_equal(lost, 1);
    assert_int_equal(servers_holding(&three, "lost"), 3);
    /* At the end of an acquisition: it is released, and nobody waits for that. */
    lock = new_lock(client, "done", NULL);
    assert_result(redlock_acquire_start(lock, 2000, free_when_done, &freed), REDLOCK_OK);
    run(client, &freed, 1, 2000);
    run(client, NULL, 0, 100);
    assert_int_equal(servers_holding(&three, "done"), 0);
    redlock_client_free(client);
}

enum { MANY = 150 };

static void many_locks_at_once(void **state) {
    (void)state;
    struct redlock_client *client = open_embedded(three.urls);
    struct redlock_lock *locks[MANY];
    struct done taken = {0}, released = {0};
    for (int i = 0; i < MANY; i++) {
        char name[20];
        snprintf(name, sizeof name, "many%d", i);
        locks[i] = new_lock(client, name, NULL);
        assert_result(redlock_acquire_start(locks[i], 2000, on_done, &taken), REDLOCK_OK);
    }
    run(client, &taken.count, MANY, 5000);
    for (int i = 0; i < MANY; i++) {
        assert_int_equal(redlock_lock_state(locks[i]), REDLOCK_STATE_HELD);
        assert_result(redlock_release_start(locks[i], on_done, &released), REDLOCK_OK);
    }
    run(client, &released.count, MANY, 5000);
    assert_int_equal(taken.count, MANY);
    assert_int_equal(stats_of(client).acquired, MANY);
    assert_int_equal(stats_of(client).released, MANY);
    for (int i = 0; i < MANY; i++) redlock_lock_free(locks[i]);
    redlock_client_free(client);
    assert_int_equal(server_ask_integer(&three.at[0], "EXISTS many0"), 0);
}

static void the_descriptor_is_quiet_when_nothing_happens(void **state) {
    (void)state;
    struct done done = {0};
    struct redlock_client *client = open_embedded(three.urls);
    struct redlock_lock *lock = new_lock(client, "quiet", NULL);
    assert_result(redlock_acquire_start(lock, 2000, on_done, &done), REDLOCK_OK);
    run(client, &done.count, 1, 2000);
    run(client, NULL, 0, 200); /* stragglers */
    assert_true(run(client, NULL, 0, 1000) <= 5);
    redlock_lock_free(lock);
    redlock_client_free(client);
}

/* What ends within the call that starts it must still wake the loop. */
static void operations_that_end_at_once(void **state) {
    (void)state;
    struct done done = {0};
    struct redlock_lock_options options = lock_options(5000);
    options.hold_ms_max = 6000;
    options.retry_delay_ms_min = options.retry_delay_ms_max = 60000;
    struct redlock_client *client = open_embedded(three.urls);
    struct redlock_lock *lock = new_lock(client, "once", &options),
                        *waiter = new_lock(client, "once", &options);
    assert_result(redlock_acquire_start(lock, 2000, on_done, &done), REDLOCK_OK);
    run(client, &done.count, 1, 2000);
    run(client, NULL, 0, 50);
    assert_false(readable(client, 0));
    assert_result(redlock_extend_start(lock, 60000, on_done, &done),
                  REDLOCK_OK); /* over the maximum hold */
    assert_int_equal(done.count, 1);
    assert_true(readable(client, 50));
    run(client, &done.count, 2, 50);
    assert_result(done.result, REDLOCK_LIMIT);

    assert_result(redlock_acquire_start(waiter, REDLOCK_WAIT_FOREVER, on_done, &done), REDLOCK_OK);
    run(client, NULL, 0, 200); /* it sleeps before its retry */
    redlock_cancel(waiter);
    assert_int_equal(done.count, 2);
    assert_true(readable(client, 50));
    run(client, &done.count, 3, 50);
    assert_result(done.result, REDLOCK_CANCELLED);
    redlock_lock_free(lock);
    redlock_lock_free(waiter);
    redlock_client_free(client);

    client = open_embedded("redis://127.0.0.1:1,redis://127.0.0.1:2"); /* where nobody listens */
    assert_int_equal(redlock_client_wait_ready(client, 1000), 0);
    lock = new_lock(client, "nobody", NULL);
    done.count = 0;
    while (readable(client, 0)) assert_result(redlock_process(client), REDLOCK_OK);
    assert_result(redlock_acquire_start(lock, 0, on_done, &done), REDLOCK_OK);
    run(client, &done.count, 1, 100);
    assert_result(done.result, REDLOCK_NO_QUORUM);
    redlock_lock_free(lock);
    redlock_client_free(client);
}

/* The descriptor is not needed for the blocking calls; callbacks come inside them. */
static void blocking_calls_without_a_service_thread(void **state) {
    (void)state;
    struct notices notices = {0};
    struct redlock_lock_options options = notices_options(400, &notices);
    struct redlock_client *client = open_embedded(three.urls);
    struct redlock_lock *held = new_lock(client, "held", &options),
                        *lock = new_lock(client, "blocking", NULL);
    assert_int_equal(redlock_client_wait_ready(client, 2000), 3);
    assert_result(redlock_try(held), REDLOCK_OK);
    assert_result(redlock_try(lock), REDLOCK_OK);
    assert_result(redlock_extend(lock, 0), REDLOCK_OK);
    assert_result(redlock_release(lock), REDLOCK_OK);
    for (int i = 0; i < 3; i++)
        freeReplyObject(server_ask(&three.at[i], "SET blocking another PX 900"));
    assert_result(redlock_acquire(lock, 5000), REDLOCK_OK); /* meanwhile the other is renewed */
    assert_true(notices.count[REDLOCK_CHANGE_RENEWED] >= 3);
    assert_int_equal(redlock_lock_state(held), REDLOCK_STATE_HELD);
    nap_ms(500); /* nobody drives: the lease runs out, and says so as soon as anyone asks */
    assert_int_equal(redlock_validity_ms(held), 0);
    assert_int_equal(notices.count[REDLOCK_CHANGE_LOST], 0);
    assert_result(redlock_process(client), REDLOCK_OK);
    assert_int_equal(notices.count[REDLOCK_CHANGE_LOST], 1);
    assert_int_equal(redlock_lock_state(held), REDLOCK_STATE_LOST);
    assert_result(redlock_release(held), REDLOCK_LOST);
    assert_result(redlock_release(lock), REDLOCK_OK);
    redlock_lock_free(held);
    redlock_lock_free(lock);
    redlock_client_free(client);
}

static void *cancel_soon(void *lock) {
    nap_ms(150);
    redlock_cancel(lock); /* the one call that may come from another thread */
    return NULL;
}

static void cancelled_from_another_thread(void **state) {
    (void)state;
    struct redlock_lock_options options = lock_options(5000);
    options.retry_delay_ms_min = options.retry_delay_ms_max = 60000;
    struct redlock_client *client = open_embedded(three.urls);
    struct redlock_lock *lock = new_lock(client, "cancelled", &options);
    pthread_t thread;
    for (int i = 0; i < 3; i++)
        freeReplyObject(server_ask(&three.at[i], "SET cancelled another PX 9000"));
    double began = now_ms();
    assert_int_equal(pthread_create(&thread, NULL, cancel_soon, lock), 0);
    assert_result(redlock_acquire(lock, REDLOCK_WAIT_FOREVER), REDLOCK_CANCELLED);
    assert_less(now_ms() - began, 400);
    pthread_join(thread, NULL);
    struct done done = {0};
    assert_result(redlock_acquire_start(lock, REDLOCK_WAIT_FOREVER, on_done, &done), REDLOCK_OK);
    assert_int_equal(pthread_create(&thread, NULL, cancel_soon, lock), 0);
    run(client, &done.count, 1, 400);
    assert_result(done.result, REDLOCK_CANCELLED);
    pthread_join(thread, NULL);
    redlock_lock_free(lock);
    redlock_client_free(client);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_lock_from_start_to_release),
        cmocka_unit_test(operations_begun_in_callbacks),
        cmocka_unit_test(looking_without_blocking),
        cmocka_unit_test(several_and_waits_without_blocking),
        cmocka_unit_test(locks_freed_in_their_own_callbacks),
        cmocka_unit_test(many_locks_at_once),
        cmocka_unit_test(the_descriptor_is_quiet_when_nothing_happens),
        cmocka_unit_test(operations_that_end_at_once),
        cmocka_unit_test(blocking_calls_without_a_service_thread),
        cmocka_unit_test(cancelled_from_another_thread),
    };
    return cmocka_run_group_tests(tests, start_three, stop_three);
}
