/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Leaders and their observers, on real servers.
 */
#include <poll.h>
#include <pthread.h>

#include "guarded.h"

static struct servers five;

static int start(void **state) {
    (void)state;
    start_quorum(&five, 5, 60000);
    return 0;
}

static int stop(void **state) {
    (void)state;
    servers_stop(&five);
    return 0;
}

/* ---- what an observer reported ---- */

struct seen {
    pthread_mutex_t mutex;
    struct redlock_leader last;
    char id[REDLOCK_OWNER_BYTES_MAX + 1];
    double at; /* when the present term was first reported */
    unsigned calls;
    bool fell, expired; /* a lower term than before; a report that had run out when it came */
};

static void see(void *context, const struct redlock_leader *leader) {
    struct seen *seen = context;
    const double now = now_ms();
    pthread_mutex_lock(&seen->mutex);
    if (leader->state == REDLOCK_LEADER_KNOWN) {
        if (leader->term < seen->last.term) seen->fell = true;
        if ((double)leader->sure_until_ns / 1e6 <= now - 100) seen->expired = true;
        if (leader->term != seen->last.term || seen->at == 0) seen->at = now;
    }
    const int64_t term = leader->state == REDLOCK_LEADER_KNOWN ? leader->term : seen->last.term;
    seen->last = *leader;
    seen->last.term = term; /* the highest so far */
    seen->last.id = (struct redlock_bytes){NULL, 0};
    if (leader->state == REDLOCK_LEADER_KNOWN) {
        memcpy(seen->id, leader->id.data, leader->id.bytes);
        seen->id[leader->id.bytes] = '\0';
    }
    seen->calls++;
    pthread_mutex_unlock(&seen->mutex);
}

static struct seen seen_begin(void) { return (struct seen){.mutex = PTHREAD_MUTEX_INITIALIZER}; }

static struct seen now_seen(struct seen *seen) {
    pthread_mutex_lock(&seen->mutex);
    struct seen copy = *seen;
    pthread_mutex_unlock(&seen->mutex);
    return copy;
}

static bool sees(struct seen *seen, int state, int64_t term) {
    const struct seen now = now_seen(seen);
    return now.last.state == state && (term == 0 || now.last.term == term);
}

static void assert_sound(struct seen *seen) {
    const struct seen now = now_seen(seen);
    assert_false(now.fell);
    assert_false(now.expired);
}

static struct redlock_observer *observe(struct redlock_client *client, const char *name,
                                        struct seen *seen) {
    struct redlock_observer *observer = NULL;
    struct redlock_error error = {0};
    if (redlock_observe_start(client, name, strlen(name), see, seen, &observer, &error) !=
        REDLOCK_OK)
        fail_msg("%s", error.text);
    return observer;
}

static struct redlock_lock *candidate(struct redlock_client *client, const char *name,
                                      const char *id, int64_t ttl_ms) {
    struct redlock_lock_options options = lock_options(ttl_ms);
    options.leader = 1;
    options.owner = id;
    return new_lock(client, name, &options);
}

/* ---- */

static void reports_term_and_id(void **state) {
    (void)state;
    struct redlock_client *leads = open_guarded(&five), *watches = open_guarded(&five),
                          *other = open_guarded(&five);
    struct seen first = seen_begin(), second = seen_begin();
    struct redlock_observer *one = observe(watches, "plain", &first),
                            *two = observe(other, "plain", &second);
    wait_until(sees(&first, REDLOCK_LEADER_NONE, 0), 5000);
    struct redlock_lock *lock = candidate(leads, "plain", "10.0.0.1:80", 3000);
    assert_result(redlock_acquire(lock, 0), REDLOCK_OK);
    const int64_t term = redlock_fence(lock);
    wait_until(sees(&first, REDLOCK_LEADER_KNOWN, term), 5000);
    wait_until(sees(&second, REDLOCK_LEADER_KNOWN, term), 5000);
    const struct seen now = now_seen(&first);
    assert_string_equal(now.id, "10.0.0.1:80");
    assert_string_equal(now_seen(&second).id, "10.0.0.1:80");
    /* never beyond the end of the keys */
    assert_less((double)now.last.sure_until_ns / 1e6, now_ms() + 3000);
    /* the renewals prolong it */
    wait_until(now_seen(&first).last.sure_until_ns > now.last.sure_until_ns, 5000);
    assert_true(sees(&first, REDLOCK_LEADER_KNOWN, term));
    redlock_observe_stop(two);
    const unsigned calls = now_seen(&second).calls;
    assert_result(redlock_release(lock), REDLOCK_OK);
    wait_until(sees(&first, REDLOCK_LEADER_NONE, 0), 5000);
    assert_int_equal(now_seen(&second).calls, calls);
    assert_sound(&first);
    redlock_observe_stop(one);
    redlock_lock_free(lock);
    redlock_client_free(leads);
    redlock_client_free(watches);
    redlock_client_free(other);
}

/* With a token and a wrong fence it would announce a term that was another leader's. */
static void a_leader_adopts_no_token(void **state) {
    (void)state;
    struct redlock_client *client = open_guarded(&five);
    struct redlock_lock *lock = candidate(client, "adopted", "a", 3000),
                        *other = candidate(client, "adopted", "a", 3000);
    assert_result(redlock_acquire(lock, 1000), REDLOCK_OK);
    const struct redlock_bytes token = redlock_token(lock);
    assert_result(redlock_lock_adopt_fenced(other, token.data, token.bytes, redlock_fence(lock)),
                  REDLOCK_BAD_ARGUMENT);
    assert_result(redlock_release(lock), REDLOCK_OK);
    redlock_lock_free(other);
    redlock_lock_free(lock);
    redlock_client_free(client);
}

static void a_lock_without_the_option_is_no_leader(void **state) {
    (void)state;
    struct redlock_client *client = open_guarded(&five), *watches = open_guarded(&five);
    struct redlock_lock_options options = lock_options(3000);
    struct redlock_lock *lock = new_lock(client, "silent", &options);
    struct seen seen = seen_begin();
    assert_result(redlock_acquire(lock, 0), REDLOCK_OK);
    struct redlock_observer *observer = observe(watches, "silent", &seen);
    nap_ms(400);
    assert_false(sees(&seen, REDLOCK_LEADER_KNOWN, 0));
    assert_false(sees(&seen, REDLOCK_LEADER_NONE, 0));
    redlock_observe_stop(observer);
    redlock_lock_free(lock);
    redlock_client_free(client);
    redlock_client_free(watches);
}

static int by_value(const void *a, const void *b) {
    const double left = *(const double *)a, right = *(const double *)b;
    return left < right ? -1 : left > right;
}

static void print_times(const char *what, double *times, size_t count) {
    qsort(times, count, sizeof times[0], by_value);
    printf("%s: p50 %.2f ms, p99 %.2f ms, max %.2f ms (%zu times)\n", what, times[count / 2],
           times[count * 99 / 100], times[count - 1], count);
}

struct standby {
    struct redlock_lock *lock;
    _Atomic double since;
};

static void *stand_by(void *argument) {
    struct standby *standby = argument;
    assert_result(redlock_acquire(standby->lock, 60000), REDLOCK_OK);
    standby->since = now_ms();
    return NULL;
}

/* A standby leads within milliseconds after a resignation, and observers learn it. */
static void resignations_hand_over(void **state) {
    (void)state;
    enum { TIMES = 200, TTL_MS = 10000 };
    static double handed[TIMES], told[TIMES];
    struct redlock_client *clients[2] = {open_guarded(&five), open_guarded(&five)},
                          *watches = open_guarded(&five), *other = open_guarded(&five);
    struct redlock_lock *locks[2] = {candidate(clients[0], "handed", "a", TTL_MS),
                                     candidate(clients[1], "handed", "b", TTL_MS)};
    struct seen first = seen_begin(), second = seen_begin();
    struct redlock_observer *one = observe(watches, "handed", &first),
                            *two = observe(other, "handed", &second);
    assert_result(redlock_acquire(locks[0], 0), REDLOCK_OK);
    for (int i = 0; i < TIMES; i++) {
        struct standby standby = {.lock = locks[(i + 1) % 2]};
        const int64_t before = redlock_fence(locks[i % 2]);
        pthread_t thread;
        pthread_create(&thread, NULL, stand_by, &standby);
        wait_until(sees(&first, REDLOCK_LEADER_KNOWN, before), 5000);
        nap_ms(5);
        const double resigned = now_ms();
        assert_result(redlock_release(locks[i % 2]), REDLOCK_OK);
        pthread_join(thread, NULL);
        const int64_t term = redlock_fence(standby.lock);
        assert_true(term > before);
        wait_until(sees(&first, REDLOCK_LEADER_KNOWN, term), 5000);
        wait_until(sees(&second, REDLOCK_LEADER_KNOWN, term), 5000);
        assert_string_equal(now_seen(&first).id, i % 2 ? "a" : "b");
        assert_string_equal(now_seen(&second).id, i % 2 ? "a" : "b");
        handed[i] = standby.since - resigned;
        told[i] = now_seen(&first).at - standby.since;
    }
    print_times("a standby leads after a resignation", handed, TIMES);
    print_times("an observer learns of the new leader", told, TIMES);
    /* far below the TTL, on a busy machine too */
    assert_less(handed[TIMES / 2], 500);
    assert_less(told[TIMES / 2], 500);
    assert_sound(&first);
    assert_sound(&second);
    redlock_observe_stop(one);
    redlock_observe_stop(two);
    for (int i = 0; i < 2; i++) redlock_lock_free(locks[i]);
    for (int i = 0; i < 2; i++) redlock_client_free(clients[i]);
    redlock_client_free(watches);
    redlock_client_free(other);
}

/* A leader that is gone without a resignation: nobody else leads before the observer's sure time,
 * and somebody within the TTL. */
static void nobody_leads_before_the_sure_time(void **state) {
    (void)state;
    enum { TTL_MS = 1500 };
    struct redlock_client *leads = open_guarded(&five), *waits = open_guarded(&five),
                          *watches = open_guarded(&five);
    struct redlock_lock *lock = candidate(leads, "gone", "a", TTL_MS),
                        *next = candidate(waits, "gone", "b", TTL_MS);
    struct seen seen = seen_begin();
    struct redlock_observer *observer = observe(watches, "gone", &seen);
    assert_result(redlock_acquire(lock, 0), REDLOCK_OK);
    const int64_t term = redlock_fence(lock);
    wait_until(sees(&seen, REDLOCK_LEADER_KNOWN, term), 5000);
    const double gone = now_ms();
    assert_result(redlock_lock_disown(lock), REDLOCK_OK);
    nap_ms(100);
    const double sure_until = (double)now_seen(&seen).last.sure_until_ns / 1e6;
    assert_result(redlock_acquire(next, 30000), REDLOCK_OK);
    const double led = now_ms();
    printf("a leader is gone: the next one leads after %.0f ms, TTL %d ms, %.0f ms after the "
           "observer's sure time\n",
           led - gone, TTL_MS, led - sure_until);
    assert_less(sure_until, led);
    assert_less(led - gone, TTL_MS + 1000);
    assert_true(redlock_fence(next) > term);
    wait_until(sees(&seen, REDLOCK_LEADER_KNOWN, redlock_fence(next)), 5000);
    assert_string_equal(now_seen(&seen).id, "b");
    assert_sound(&seen);
    redlock_observe_stop(observer);
    redlock_lock_free(lock);
    redlock_lock_free(next);
    redlock_client_free(leads);
    redlock_client_free(waits);
    redlock_client_free(watches);
}

/* Two of five nodes are gone: the leader is still known. A third one: after its sure time it is
 * not. */
static void a_majority_must_answer(void **state) {
    (void)state;
    struct servers own;
    start_quorum(&own, 5, 60000);
    struct redlock_client *leads = open_guarded(&own), *watches = open_guarded(&own);
    struct redlock_lock *lock = candidate(leads, "few", "a", 2000);
    struct seen seen = seen_begin();
    struct redlock_observer *observer = observe(watches, "few", &seen);
    assert_result(redlock_acquire(lock, 0), REDLOCK_OK);
    const int64_t term = redlock_fence(lock);
    wait_until(sees(&seen, REDLOCK_LEADER_KNOWN, term), 5000);
    server_kill(&own.at[0]);
    server_kill(&own.at[1]);
    const int64_t sure = now_seen(&seen).last.sure_until_ns;
    wait_until(now_seen(&seen).last.sure_until_ns > sure + 1000000000, 10000);
    assert_true(sees(&seen, REDLOCK_LEADER_KNOWN, term));
    server_pause(&own.at[2]);
    wait_until(sees(&seen, REDLOCK_LEADER_UNKNOWN, 0), 10000);
    server_resume(&own.at[2]);
    redlock_observe_stop(observer);
    redlock_lock_free(lock);
    redlock_client_free(leads);
    redlock_client_free(watches);
    servers_stop(&own);
}

/* One descriptor, no thread. */
static void works_in_an_event_loop(void **state) {
    (void)state;
    struct redlock_client_options options = guarded_options();
    options.service_thread = 0;
    struct redlock_client *watches = open_guarded_at(five.urls, &options),
                          *leads = open_guarded(&five);
    struct redlock_lock *lock = candidate(leads, "loop", "a", 3000);
    struct seen seen = seen_begin();
    struct redlock_observer *observer = observe(watches, "loop", &seen);
    assert_result(redlock_acquire(lock, 0), REDLOCK_OK);
    const double end = now_ms() + 5000;
    while (!sees(&seen, REDLOCK_LEADER_KNOWN, redlock_fence(lock))) {
        if (now_ms() > end) fail_msg("not reported within 5000 ms");
        struct pollfd fd = {.fd = redlock_client_fd(watches), .events = POLLIN};
        poll(&fd, 1, 1000);
        assert_result(redlock_process(watches), REDLOCK_OK);
    }
    redlock_observe_stop(observer);
    redlock_lock_free(lock);
    redlock_client_free(leads);
    redlock_client_free(watches);
}

/* In mode auto an observer begins with the first record; in mode classic it is refused. */
static void needs_records(void **state) {
    (void)state;
    struct redlock_client_options options = guarded_options();
    struct redlock_error error = {0};
    struct redlock_observer *observer = NULL;
    struct redlock_client *client = NULL;
    struct seen seen = seen_begin();
    options.mode = REDLOCK_MODE_CLASSIC;
    assert_result(redlock_client_open(five.urls, &options, &client, &error), REDLOCK_OK);
    assert_result(redlock_observe_start(client, "x", 1, see, &seen, &observer, &error),
                  REDLOCK_BAD_ARGUMENT);
    redlock_client_free(client);
    options.mode = REDLOCK_MODE_AUTO;
    assert_result(redlock_client_open(five.urls, &options, &client, &error), REDLOCK_OK);
    assert_result(redlock_observe_start(client, "x", 1, see, &seen, &observer, &error), REDLOCK_OK);
    wait_until(sees(&seen, REDLOCK_LEADER_NONE, 0), 5000);
    redlock_observe_stop(observer);
    redlock_client_free(client);
}

/* So does a leader, unless the client is in mode classic by name. */
static void a_leader_without_records(void **state) {
    (void)state;
    struct servers plain;
    struct redlock_client_options options = guarded_options();
    struct redlock_client *automatic = NULL, *classic = NULL;
    int verdicts[3] = {0};
    servers_start(&plain, 3);
    options.mode = REDLOCK_MODE_AUTO;
    assert_result(redlock_client_open(plain.urls, &options, &automatic, NULL), REDLOCK_OK);
    options.mode = REDLOCK_MODE_CLASSIC;
    assert_result(redlock_client_open(plain.urls, &options, &classic, NULL), REDLOCK_OK);
    struct redlock_lock *lock = candidate(automatic, "none", "a", 3000),
                        *termless = candidate(classic, "none", "b", 3000);
    assert_result(redlock_acquire(lock, 0), REDLOCK_NO_QUORUM);
    assert_int_equal(redlock_verdicts(lock, verdicts, 3), 3);
    assert_verdict(verdicts[2], REDLOCK_VERDICT_NO_RECORD);
    assert_result(redlock_acquire(termless, 0), REDLOCK_OK);
    assert_int_equal(redlock_fence(termless), 0);
    redlock_lock_free(termless);
    redlock_client_free(classic);
    init_quorum(plain.urls, 3000);
    assert_result(redlock_acquire(lock, 20000), REDLOCK_OK);
    assert_true(redlock_fence(lock) > 0);
    redlock_lock_free(lock);
    redlock_client_free(automatic);
    servers_stop(&plain);
}

static void count_resource(void *context, const void *resource, size_t bytes) {
    (void)resource;
    (void)bytes;
    ++*(int *)context;
}

static void the_announcement_is_no_lock(void **state) {
    (void)state;
    struct redlock_client *client = open_guarded(&five);
    struct redlock_lock *lock = candidate(client, "listed", "a", 3000);
    assert_result(redlock_acquire(lock, 0), REDLOCK_OK);
    wait_until(servers_holding(&five, "redlock:term:listed") >= 3, 5000);
    int count = 0;
    assert_result(redlock_list(client, count_resource, &count), REDLOCK_OK);
    assert_in_range(count, 1, 5); /* the lock, once for each node */
    redlock_lock_free(lock);
    redlock_client_free(client);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reports_term_and_id),
        cmocka_unit_test(a_leader_adopts_no_token),
        cmocka_unit_test(a_lock_without_the_option_is_no_leader),
        cmocka_unit_test(resignations_hand_over),
        cmocka_unit_test(nobody_leads_before_the_sure_time),
        cmocka_unit_test(a_majority_must_answer),
        cmocka_unit_test(works_in_an_event_loop),
        cmocka_unit_test(needs_records),
        cmocka_unit_test(a_leader_without_records),
        cmocka_unit_test(the_announcement_is_no_lock),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
