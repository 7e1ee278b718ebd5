/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Threads that block on one client: who are answered together send together, whoever does not come
 * back delays nobody for long, none of them sleeps on when all others have gone, and to wait costs
 * no processor.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

#include "fixtures.h"
#include "proxy.h"

enum { THREADS_MAX = 12, RESOURCE_BYTES = 16 };

struct caller {
    pthread_t thread;
    struct redlock_lock *lock;
    int cycles;
    long nap_us_max; /* between two calls; 0: none */
    unsigned seed;
    double longest_ms;
    int failed; /* a result that is not OK */
};

static struct caller callers[THREADS_MAX];

static void nap_us(long us) {
    nanosleep(&(struct timespec){us / 1000000, us % 1000000 * 1000}, NULL);
}

/* Naps of all lengths: from none to far longer than anybody waits for others. */
static void think(struct caller *caller) {
    caller->seed = caller->seed * 1103515245 + 12345;
    long us = caller->nap_us_max >> (caller->seed >> 16) % 12;
    if (us > 1) nap_us(us);
}

static void *call(void *argument) {
    struct caller *caller = argument;
    for (int i = 0; i < caller->cycles && caller->failed == REDLOCK_OK; i++) {
        double from = now_ms();
        caller->failed = redlock_acquire(caller->lock, 10000);
        double took = now_ms() - from;
        if (took > caller->longest_ms) caller->longest_ms = took;
        think(caller);
        if (caller->failed == REDLOCK_OK) caller->failed = redlock_release(caller->lock);
        think(caller);
    }
    return NULL;
}

#define PATIENCE_MS 2000 /* a late answer is no failure here */

static void prepare(struct redlock_client *client, int threads, int cycles, long nap_us_max) {
    for (int i = 0; i < threads; i++) {
        char name[RESOURCE_BYTES];
        snprintf(name, sizeof name, "own:%d", i);
        struct redlock_lock_options options = lock_options(30000);
        callers[i] =
            (struct caller){.cycles = cycles, .nap_us_max = nap_us_max, .seed = (unsigned)i};
        callers[i].lock = new_lock(client, name, &options);
    }
}

static void run(int threads) {
    for (int i = 0; i < threads; i++)
        assert_int_equal(pthread_create(&callers[i].thread, NULL, call, &callers[i]), 0);
    for (int i = 0; i < threads; i++) pthread_join(callers[i].thread, NULL);
    for (int i = 0; i < threads; i++) {
        assert_result(callers[i].failed, REDLOCK_OK);
        redlock_lock_free(callers[i].lock);
    }
}

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define SANITIZED true
#elif defined(__has_feature)
#define SANITIZED (__has_feature(thread_sanitizer) || __has_feature(address_sanitizer))
#else
#define SANITIZED false
#endif

/* ---- what goes out, counted at the library's own calls (by --wrap) ---- */

ssize_t __real_send(int fd, const void *data, size_t bytes, int flags);
ssize_t __wrap_send(int fd, const void *data, size_t bytes, int flags);

static atomic_int sends;

ssize_t __wrap_send(int fd, const void *data, size_t bytes, int flags) {
    atomic_fetch_add(&sends, 1);
    return __real_send(fd, data, bytes, flags);
}

static int sends_of(int threads, int cycles) {
    struct redlock_client *client = open_patient(&five, PATIENCE_MS, true);
    prepare(client, threads, cycles, 0);
    atomic_store(&sends, 0);
    run(threads);
    int sent = atomic_load(&sends);
    redlock_client_free(client);
    return sent;
}

static atomic_int yields;

int __real_sched_yield(void);
int __wrap_sched_yield(void);

int __wrap_sched_yield(void) {
    atomic_fetch_add(&yields, 1);
    return __real_sched_yield();
}

/* How many are answered together is the scheduler's doing: on a busy machine few are. Where each
 * sends for itself it is one for one, however often it is tried. */
static void who_are_answered_together_send_together(void **state) {
    (void)state;
    enum { THREADS = 4, CYCLES = 500, REQUESTS = THREADS * CYCLES * 2 * 5, TRIES = 10 };
    if (SANITIZED)
        skip(); /* everything is slow but the servers: nobody is answered together with another */
    int sent = REQUESTS;
    for (int i = 0; i < TRIES && sent > REQUESTS * 3 / 4; i++) sent = sends_of(THREADS, CYCLES);
    if (sent == 0 || sent > REQUESTS * 3 / 4) fail_msg("%d requests took %d sends", REQUESTS, sent);
}

static void a_caller_that_does_not_come_back_delays_nobody_for_long(void **state) {
    (void)state;
    /* Nobody else is there who could send what one of them held back for the other. */
    struct redlock_client *client = open_patient(&five, PATIENCE_MS, false);
    for (int i = 0; i < 20; i++) {
        prepare(client, 2, 60, 0);
        callers[1].cycles = 50;
        run(2);
        for (int j = 0; j < 2; j++) {
            if (callers[j].longest_ms > 1000)
                fail_msg("caller %d waited for %.1f ms", j, callers[j].longest_ms);
        }
    }
    redlock_client_free(client);
    client = open_patient(&five, PATIENCE_MS, true);
    prepare(client, 3, 300, 0);
    callers[0].nap_us_max = 20000;
    callers[0].cycles = 60;
    run(3);
    redlock_client_free(client);
    for (int i = 0; i < 3; i++) {
        if (callers[i].longest_ms > 1000)
            fail_msg("caller %d waited for %.1f ms", i, callers[i].longest_ms);
    }
}

static void callers_of_all_paces_are_all_woken(void **state) {
    (void)state;
    for (int with = 0; with < 2; with++) {
        struct redlock_client *client = open_patient(&five, PATIENCE_MS, with);
        prepare(client, THREADS_MAX, 150, 2000);
        run(THREADS_MAX);
        redlock_client_free(client);
    }
}

/* Who waits gives its processor away a few times before it sleeps, unless that is over long before
 * the answer comes. */
static void processors_are_not_given_away_where_answers_are_late(void **state) {
    (void)state;
    enum { THREADS = 4, CYCLES = 20, WAITS = 2 * CYCLES * (THREADS - 1), LATE_MS = 25 };
    struct servers late = {.count = five.count};
    struct proxy *proxies[SERVERS_MAX];
    size_t used = 0;
    for (unsigned i = 0; i < five.count; i++) {
        proxies[i] = proxy_start(five.at[i].port);
        used += (size_t)snprintf(late.urls + used, sizeof late.urls - used,
                                 "%sredis://127.0.0.1:%d", i ? "," : "", proxy_port(proxies[i]));
    }
    struct redlock_client *client = open_patient(&late, PATIENCE_MS, true);
    for (unsigned i = 0; i < five.count; i++) proxy_delay(proxies[i], LATE_MS);
    prepare(client, THREADS, CYCLES, 0);
    atomic_store(&yields, 0);
    run(THREADS);
    int given = atomic_load(&yields);
    redlock_client_free(client);
    for (unsigned i = 0; i < five.count; i++) proxy_stop(proxies[i]);
    if (given == 0 || given > WAITS) fail_msg("%d times in %d waits", given, WAITS);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(who_are_answered_together_send_together, start_five,
                                        stop_five),
        cmocka_unit_test_setup_teardown(a_caller_that_does_not_come_back_delays_nobody_for_long,
                                        start_five, stop_five),
        cmocka_unit_test_setup_teardown(callers_of_all_paces_are_all_woken, start_five, stop_five),
        cmocka_unit_test_setup_teardown(processors_are_not_given_away_where_answers_are_late,
                                        start_five, stop_five),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
