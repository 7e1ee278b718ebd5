/* SPDX-License-Identifier: BSD-2-Clause
 *
 * How a wait looks from outside: its place in the queue, and a wait that takes nothing.
 */
#include <pthread.h>

#include "fixtures.h"
#include "notices.h"
#include "redlock/admin.h"

enum {
    /* Where nodes notify, a client looks again by itself after 500 ms at the earliest. */
    BEFORE_DEL_MS = 150,
    NOTIFIED_MS = 300
};

static void everywhere(const char *command) {
    for (unsigned i = 0; i < five.count; i++) freeReplyObject(server_ask(&five.at[i], command));
}

static long long keys_left(void) {
    long long count = 0;
    for (unsigned i = 0; i < five.count; i++) count += server_ask_integer(&five.at[i], "DBSIZE");
    return count;
}

static long long notifiers(void) {
    long long count = 0;
    for (unsigned i = 0; i < five.count; i++)
        count += server_ask_integer(&five.at[i], "EVAL %s 0 %s",
                                    "return redis.call('PUBSUB', 'NUMSUB', ARGV[1])[2]",
                                    servers_invalidations());
    return count;
}

/* ---- redlock_await_free() ---- */

/* Both forms pass the same tests. */
typedef int await_fn(struct redlock_client *client, const void *resource, size_t bytes,
                     int64_t wait_ms);

/* The service thread runs them, if there is one. */
static void run_callbacks(struct redlock_client *client, const struct done *done, int count) {
    for (; done->count < count; nap_ms(1)) (void)!redlock_process(client);
    assert_int_equal(done->count, count);
}

static int await_started(struct redlock_client *client, const void *resource, size_t bytes,
                         int64_t wait_ms) {
    struct done done = {0};
    struct redlock_lock *lock = NULL;
    (void)redlock_client_wait_ready(client, 2000);
    assert_result(redlock_lock_new(client, resource, bytes, NULL, &lock, NULL), REDLOCK_OK);
    assert_result(redlock_await_free_start(lock, wait_ms, on_done, &done), REDLOCK_OK);
    run_callbacks(client, &done, 1);
    redlock_lock_free(lock);
    return done.result;
}

static void looks_once(void **state) {
    await_fn *await_free = *(await_fn **)*state;
    struct redlock_client *client = open_patient(&five, 1000, 0);
    assert_result(await_free(client, "once", 4, 0), REDLOCK_OK);
    everywhere("SET once another PX 60000");
    assert_result(await_free(client, "once", 4, 0), REDLOCK_HELD);
    /* two of five are no majority */
    for (unsigned i = 0; i < 3; i++) freeReplyObject(server_ask(&five.at[i], "DEL once"));
    assert_result(await_free(client, "once", 4, 0), REDLOCK_OK);
    freeReplyObject(server_ask(&five.at[0], "SET once another PX 60000"));
    assert_result(await_free(client, "once", 4, 0), REDLOCK_HELD);
    everywhere("DEL once");
    assert_int_equal(keys_left(), 0);
    redlock_client_free(client);
}

static void refuses_bad_arguments(void **state) {
    (void)state;
    struct redlock_client *client = open_patient(&five, 1000, 0);
    struct done done = {0};
    struct redlock_lock *lock = new_lock(client, "x", NULL);
    assert_result(redlock_await_free_start(lock, -2, on_done, &done), REDLOCK_BAD_ARGUMENT);
    assert_result(redlock_await_free_start(lock, 0, NULL, NULL), REDLOCK_BAD_ARGUMENT);
    assert_result(redlock_acquire(lock, 2000), REDLOCK_OK);
    assert_result(redlock_await_free_start(lock, 0, on_done, &done), REDLOCK_BUSY);
    redlock_lock_free(lock);
    assert_int_equal(done.count, 0);
    assert_result(redlock_await_free(client, "", 0, 0), REDLOCK_BAD_ARGUMENT);
    assert_result(redlock_await_free(client, NULL, 1, 0), REDLOCK_BAD_ARGUMENT);
    assert_result(redlock_await_free(client, "x", 1, -2), REDLOCK_BAD_ARGUMENT);
    assert_result(redlock_await_free(client, "x", REDLOCK_RESOURCE_BYTES_MAX + 1, 0),
                  REDLOCK_BAD_ARGUMENT);
    redlock_client_free(client);
}

static void ends_with_the_key(void **state) {
    await_fn *await_free = *(await_fn **)*state;
    struct redlock_client *client = open_patient(&five, 1000, 1);
    everywhere("SET brief another PX 700");
    double began = now_ms();
    assert_result(await_free(client, "brief", 5, 200), REDLOCK_HELD);
    assert_in_range(now_ms() - began, 199, 690);
    assert_result(await_free(client, "brief", 5, 20000), REDLOCK_OK);
    assert_true(now_ms() - began >= 690);
    /* a majority is enough for it; the others' keys end as soon */
    wait_until(keys_left() == 0, 3000);
    redlock_client_free(client);
}

struct await {
    await_fn *await_free;
    struct redlock_client *client;
    _Atomic double returned;
    int result;
};

static void *await_it(void *argument) {
    struct await *await = argument;
    await->result = await->await_free(await->client, "heard", 5, 30000);
    await->returned = now_ms();
    return NULL;
}

static void hears_a_release(void **state) {
    await_fn *await_free = *(await_fn **)*state;
    struct await await = {.await_free = await_free, .client = open_patient(&five, 1000, 0)};
    double best = 1e9;
    for (int i = 0; i < 5; i++) {
        pthread_t thread;
        everywhere("SET heard another PX 60000");
        await.returned = 0;
        if (i == 0) {
            /* tracking is up from here on */
            assert_result(await_free(await.client, "heard", 5, 300), REDLOCK_HELD);
            wait_until(notifiers() >= 5, 5000);
        }
        assert_int_equal(pthread_create(&thread, NULL, await_it, &await), 0);
        nap_ms(BEFORE_DEL_MS);
        double deleted = now_ms();
        everywhere("DEL heard");
        pthread_join(thread, NULL);
        assert_result(await.result, REDLOCK_OK);
        if (await.returned - deleted < best) best = await.returned - deleted;
    }
    if (best >= NOTIFIED_MS) fail_msg("the fastest of 5 took %.0f ms", best);
    assert_int_equal(keys_left(), 0);
    redlock_client_free(await.client);
}

static void waits_for_nodes(void **state) {
    await_fn *await_free = *(await_fn **)*state;
    struct redlock_client *client = open_patient(&five, 100, 0);
    assert_result(await_free(client, "down", 4, 0), REDLOCK_OK);
    for (unsigned i = 0; i < 3; i++) server_pause(&five.at[i]);
    assert_result(await_free(client, "down", 4, 500), REDLOCK_NO_QUORUM);
    for (unsigned i = 0; i < 3; i++) server_resume(&five.at[i]);
    assert_result(await_free(client, "down", 4, 20000), REDLOCK_OK);
    redlock_client_free(client);
}

/* Cancelled or freed, it ends at once, also while it waits for the next look; and a client that is
 * closed leaves none behind. */
static void ends_when_stopped(void **state) {
    (void)state;
    struct done done = {0};
    struct redlock_client *client = open_patient(&five, 1000, 0);
    struct redlock_lock *lock = new_lock(client, "stopped", NULL);
    everywhere("SET stopped another PX 60000");
    for (int i = 0; i < 8; i++) {
        assert_result(redlock_await_free_start(lock, REDLOCK_WAIT_FOREVER, on_done, &done),
                      REDLOCK_OK);
        assert_result(redlock_await_free_start(lock, 0, on_done, &done), REDLOCK_BUSY);
        assert_result(redlock_try(lock), REDLOCK_BUSY);
        for (int turn = i % 4 * 30; turn > 0; turn--, nap_ms(1)) (void)!redlock_process(client);
        if (i == 7) break;
        double since = now_ms();
        redlock_cancel(lock);
        run_callbacks(client, &done, i + 1);
        assert_true(now_ms() - since < 400);
        assert_result(done.result, REDLOCK_CANCELLED);
    }
    done.result = REDLOCK_OK;
    redlock_lock_free(lock);
    redlock_client_free(client);
    assert_int_equal(done.count, 8);
    assert_result(done.result, REDLOCK_CANCELLED);
    everywhere("DEL stopped");
}

/* ---- redlock_lock_wait_status() ---- */

static void nothing(void *context, struct redlock_lock *lock, int result) {
    (void)lock;
    *(int *)context = result;
}

static struct redlock_wait_status status_of(struct redlock_lock *lock) {
    struct redlock_wait_status status;
    redlock_wait_status_init(&status);
    assert_result(redlock_lock_wait_status(lock, &status), REDLOCK_OK);
    return status;
}

/* Two clients, the second one with two callers. */
static void counts_those_ahead(void **state) {
    (void)state;
    struct redlock_lock_options options = lock_options(60000);
    struct redlock_client *first = open_patient(&five, 1000, 1),
                          *second = open_patient(&five, 1000, 1);
    struct redlock_lock *locks[] = {new_lock(first, "queue", &options),
                                    new_lock(second, "queue", &options),
                                    new_lock(second, "queue", &options)};
    int results[3] = {1, 1, 1};
    assert_int_equal(status_of(locks[0]).waiting, 0);
    assert_int_equal(status_of(locks[0]).ahead, -1);
    everywhere("SET queue another PX 60000");
    for (int i = 0; i < 3; i++) {
        assert_result(redlock_acquire_start(locks[i], REDLOCK_WAIT_FOREVER, nothing, &results[i]),
                      REDLOCK_OK);
        wait_until(status_of(locks[i]).ahead == i, 10000);
        assert_int_equal(status_of(locks[i]).waiting, 1);
    }
    nap_ms(60);
    assert_true(status_of(locks[0]).waited_ms >= 60);
    assert_true(status_of(locks[0]).waited_ms >= status_of(locks[2]).waited_ms);
    redlock_lock_free(locks[0]);
    wait_until(status_of(locks[1]).ahead == 0, 10000);
    redlock_cancel(locks[1]);
    wait_until(status_of(locks[2]).ahead == 0, 10000);
    everywhere("DEL queue");
    wait_until(redlock_lock_state(locks[2]) == REDLOCK_STATE_HELD, 10000);
    assert_int_equal(status_of(locks[2]).waiting, 0);
    assert_int_equal(status_of(locks[2]).waited_ms, 0);
    redlock_lock_free(locks[1]);
    redlock_lock_free(locks[2]);
    redlock_client_free(second);
    redlock_client_free(first);
}

static await_fn *blocking = redlock_await_free, *started = await_started;

#define BOTH(test)                                                                                 \
    {#test ", blocking", test, NULL, NULL, &blocking}, {                                           \
#test ", started", test, NULL, NULL, &started                                              \
    }

int main(void) {
    const struct CMUnitTest tests[] = {
        BOTH(looks_once),
        BOTH(ends_with_the_key),
        BOTH(hears_a_release),
        BOTH(waits_for_nodes),
        cmocka_unit_test(refuses_bad_arguments),
        cmocka_unit_test(ends_when_stopped),
        cmocka_unit_test(counts_those_ahead),
    };
    return cmocka_run_group_tests(tests, start_five, stop_five);
}
