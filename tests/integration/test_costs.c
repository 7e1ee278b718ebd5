/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What twice as many locks, kinds of locks, waiters and waited-for keys cost: about twice as much,
 * for every list of src/client. (Those of src/net: tests/net/test_costs.c.)
 */
#include "costs.h"
#include "fixtures.h"
#include "guarded.h"

#include <malloc.h>
#include <poll.h>

static struct redlock_client *client, *other;

/* Without a thread of its own: what it does is done when we say so, and measured. */
static int open_both(void **state) {
    start_one(state);
    client = open_patient(&one, 5000, 0);
    other = open_patient(&one, 5000, 0);
    return 0;
}

static int close_both(void **state) {
    redlock_client_free(client);
    redlock_client_free(other);
    return stop_one(state);
}

static struct redlock_lock **room(unsigned n) {
    struct redlock_lock **locks = calloc(n, sizeof(struct redlock_lock *));
    assert_non_null(locks);
    return locks;
}

static void turn_of(struct redlock_client *of) {
    struct pollfd fd = {.fd = redlock_client_fd(of), .events = POLLIN};
    assert_true(poll(&fd, 1, 10) >= 0);
    assert_result(redlock_process(of), REDLOCK_OK);
}

static void turn(void) { turn_of(client); }

/* ---- locks and their kinds ---- */

enum order { AS_MADE, BACKWARDS };

static double making_and_freeing(unsigned n, unsigned kinds, enum order order) {
    struct redlock_lock **locks = room(n);
    double began = cpu_ms();
    for (unsigned i = 0; i < n; i++) {
        struct redlock_lock_options options = lock_options(60000 + i % kinds);
        locks[i] = new_lock(client, "made", &options);
    }
    for (unsigned i = 0; i < n; i++) redlock_lock_free(locks[order == AS_MADE ? i : n - 1 - i]);
    double cost = cpu_ms() - began;
    free(locks);
    return cost;
}

static double of_one_kind(unsigned n) { return making_and_freeing(n, 1, AS_MADE); }
static double of_eleven_kinds(unsigned n) { return making_and_freeing(n, 11, AS_MADE); }
static double of_as_many_kinds(unsigned n) { return making_and_freeing(n, n, AS_MADE); }
static double of_as_many_kinds_backwards(unsigned n) { return making_and_freeing(n, n, BACKWARDS); }

static void test_locks_and_kinds(void **state) {
    (void)state;
    assert_cost_grows_with("locks of one kind", of_one_kind, 4000);
    assert_cost_grows_with("locks of eleven kinds", of_eleven_kinds, 4000);
    assert_cost_grows_with("as many kinds", of_as_many_kinds, 4000);
    assert_cost_grows_with("as many kinds, backwards", of_as_many_kinds_backwards, 4000);
}

/* ---- locks that are taken: rounds, calls, acquisitions, leases ---- */

static void count_down(void *context, struct redlock_lock *lock, int result) {
    (void)lock;
    assert_result(result, REDLOCK_OK);
    --*(unsigned *)context;
}

static double of_taking(unsigned n) {
    struct redlock_lock **locks = room(n);
    struct redlock_lock_options options = lock_options(60000);
    make_locks(client, "taken", &options, locks, n);
    double began = cpu_ms();
    unsigned left = n;
    assert_result(redlock_acquire_many_start(locks, n, 0, NULL, count_down, &left), REDLOCK_OK);
    while (left > 0) turn();
    left = n;
    assert_result(redlock_release_many_start(locks, n, NULL, count_down, &left), REDLOCK_OK);
    while (left > 0) turn();
    double cost = cpu_ms() - began;
    free_locks(locks, n);
    free(locks);
    return cost;
}

static void test_taking(void **state) {
    (void)state;
    assert_cost_grows_with("taking and giving back", of_taking, 2000);
}

/* ---- waiters ---- */

static void count_up(void *context, struct redlock_lock *lock, int result) {
    (void)lock, (void)result;
    ++*(unsigned *)context;
}

enum { STANDS_WITHIN_MS = 20000 };

/* The first has a place at the server, which is looked at there: on a busy machine it may wait
 * before it tries. A statistic of its tries would then not change until the lock is free. */
static void start_waiting(struct redlock_lock **locks, unsigned n, const char *key,
                          unsigned *reported) {
    double until = now_ms() + STANDS_WITHIN_MS;
    assert_result(redlock_acquire_start(locks[0], REDLOCK_WAIT_FOREVER, count_up, reported),
                  REDLOCK_OK);
    while (server_ask_integer(&one.at[0], "ZCARD redlock:waiting:%s", key) == 0) {
        turn();
        assert_int_equal(*reported, 0);
        assert_true(now_ms() < until);
    }
    for (int i = 0; i < 5; i++) turn(); /* it gives up its try, and waits */
    for (unsigned i = 1; i < n; i++)    /* these stand behind the first and send nothing */
        assert_result(redlock_acquire_start(locks[i], REDLOCK_WAIT_FOREVER, count_up, reported),
                      REDLOCK_OK);
    turn();
}

static double of_cancelling(unsigned n, enum order order) {
    static unsigned number;
    char key[32];
    snprintf(key, sizeof key, "one-key-%u", number++); /* nobody is left in line for it */
    struct redlock_lock_options options = lock_options(60000);
    struct redlock_lock **locks = room(n), *holder = new_lock(other, key, &options);
    unsigned reported = 0;
    assert_result(redlock_try(holder), REDLOCK_OK);
    for (unsigned i = 0; i < n; i++) locks[i] = new_lock(client, key, &options);
    start_waiting(locks, n, key, &reported);
    double began = cpu_ms();
    for (unsigned i = 0; i < n; i++) redlock_cancel(locks[order == AS_MADE ? i : n - 1 - i]);
    while (reported < n) turn();
    double cost = cpu_ms() - began;
    free_locks(locks, n);
    redlock_lock_free(holder);
    free(locks);
    return cost;
}

static double of_cancelling_forwards(unsigned n) { return of_cancelling(n, AS_MADE); }
static double of_cancelling_backwards(unsigned n) { return of_cancelling(n, BACKWARDS); }

static void test_waiters_on_one_key(void **state) {
    (void)state;
    assert_cost_grows_with("waiters, last to first", of_cancelling_backwards, 4000);
    assert_cost_grows_with("waiters, first to last", of_cancelling_forwards, 4000);
}

/* Each has a key, a line, a place on the server and a watched key of its own; then all are handed
 * their locks. */
static double of_waiting_on_many(unsigned n) {
    struct redlock_lock **locks = room(n), **holders = room(n);
    struct redlock_lock_options options = lock_options(60000);
    unsigned left = n, seen = 0;
    options.retry_delay_ms_min = options.retry_delay_ms_max = 20000;
    make_locks(client, "many", &options, locks, n);
    make_locks(other, "many", &options, holders, n);
    assert_result(redlock_acquire_many(holders, n, 0, NULL), REDLOCK_OK);
    double began = cpu_ms();
    assert_result(
        redlock_acquire_many_start(locks, n, REDLOCK_WAIT_FOREVER, NULL, count_down, &left),
        REDLOCK_OK);
    for (int i = 0; i < 20; i++) turn();
    double cost = cpu_ms() - began;
    assert_result(redlock_release_many(holders, n, NULL), REDLOCK_OK);
    began = cpu_ms();
    while (left > 0 && ++seen < 100000) turn();
    assert_int_equal(left, 0);
    cost += cpu_ms() - began;
    assert_result(redlock_release_many(locks, n, NULL), REDLOCK_OK);
    free_locks(locks, n);
    free_locks(holders, n);
    free(locks);
    free(holders);
    return cost;
}

static void test_waiters_on_many_keys(void **state) {
    (void)state;
    assert_cost_grows_with("waiters on many keys", of_waiting_on_many, 1000);
}

/* ---- held locks ---- */

static double heap_bytes(void) {
    struct mallinfo2 info = mallinfo2();
    return (double)info.uordblks + (double)info.hblkhd;
}

/* All locks are held and at rest: no answer is awaited. */
static void hold(struct redlock_lock **locks, unsigned n, const char *name) {
    struct redlock_lock_options options = lock_options(600000);
    make_locks(client, name, &options, locks, n);
    assert_result(redlock_acquire_many(locks, n, 5000, NULL), REDLOCK_OK);
    for (int i = 0; i < 20; i++) turn();
}

/* What a client needs for many, such as requests that go from lock to lock, is there after the
 * first ones. */
static void test_memory_of_a_held_lock(void **state) {
    enum { FIRST = 5000, MORE = 20000, BYTES_MAX = 300, NAME_BYTES = 10 };
    struct redlock_lock **locks = room(FIRST + MORE);
    (void)state;
    hold(locks, FIRST, "first");
    const double before = heap_bytes();
    hold(locks + FIRST, MORE, "more");
    const double each = (heap_bytes() - before) / MORE - NAME_BYTES;
    printf("%.1f bytes for each held lock, and its name\n", each);
    if (before > 0) assert_true(each > 0 && each <= BYTES_MAX); /* 0: another allocator counts */
    assert_result(redlock_release_many(locks, FIRST + MORE, NULL), REDLOCK_OK);
    free_locks(locks, FIRST + MORE);
    free(locks);
}

/* ---- parked extensions ---- */

/* The record changes under as many leases. Their extensions wait until it has been read again, and
 * then go out again. */
static double of_parked(unsigned n) {
    struct servers alone = {.count = 0};
    start_quorum(&alone, 1, 60000);
    struct redlock_client_options options = guarded_options();
    options.node_timeout_ms = 5000;
    options.service_thread = 0;
    struct redlock_client *guarded = open_guarded_at(alone.urls, &options);
    struct redlock_lock **locks = room(n);
    struct redlock_lock_options lock_of = lock_options(60000);
    lock_of.renew = 0;
    make_locks(guarded, "parked", &lock_of, locks, n);
    assert_result(redlock_acquire_many(locks, n, 5000, NULL), REDLOCK_OK);
    command(&alone.at[0], "CONFIG RESETSTAT");
    change_nonce(&alone.at[0], "00000000000000dd");
    unsigned left = n;
    double began = cpu_ms();
    for (unsigned i = 0; i < n; i++)
        assert_result(redlock_extend_start(locks[i], 60000, count_down, &left), REDLOCK_OK);
    while (left > 0) turn_of(guarded);
    double cost = cpu_ms() - began;
    assert_true(scripts_called(&alone.at[0]) >= 2 * (long)n); /* each was sent twice */
    free_locks(locks, n);
    free(locks);
    redlock_client_free(guarded);
    servers_stop(&alone);
    return cost;
}

static void test_parked_extensions(void **state) {
    (void)state;
    assert_cost_grows_with("extensions that wait for a record", of_parked, 8000);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_locks_and_kinds),       cmocka_unit_test(test_taking),
        cmocka_unit_test(test_waiters_on_one_key),    cmocka_unit_test(test_waiters_on_many_keys),
        cmocka_unit_test(test_memory_of_a_held_lock), cmocka_unit_test(test_parked_extensions),
    };
    return cmocka_run_group_tests(tests, open_both, close_both);
}
