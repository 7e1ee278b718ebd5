/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Many locks at once: each has its own outcome, and what they send to a node goes out together.
 */
#include "fixtures.h"
#include "notices.h"

#include <poll.h>
#include <pthread.h>

enum { MANY = 3000, RENEWED = 200, TTL_MS = 20000, PATIENCE_MS = 2000 };

/* How often the server has read from a socket. */
static long long reads_of(struct server *server) {
    redisReply *reply = server_ask(server, "INFO stats");
    long long reads = strtoll(strstr(reply->str, "total_reads_processed:") + 22, NULL, 10);
    freeReplyObject(reply);
    return reads;
}

static void all_are_taken_and_given_back(void **state) {
    static struct redlock_lock *locks[MANY];
    static int results[MANY];
    (void)state;
    struct redlock_client *client = open_patient(&three, PATIENCE_MS, 1);
    const struct redlock_lock_options options = lock_options(TTL_MS);
    make_locks(client, "all", &options, locks, MANY);
    for (int round = 0; round < 2; round++) {
        memset(results, 1, sizeof results);
        assert_result(redlock_acquire_many(locks, MANY, 2000, results), REDLOCK_OK);
        for (size_t i = 0; i < MANY; i++) {
            assert_result(results[i], REDLOCK_OK);
            assert_int_equal(redlock_lock_state(locks[i]), REDLOCK_STATE_HELD);
        }
        memset(results, 1, sizeof results);
        assert_result(redlock_release_many(locks, MANY, round == 0 ? results : NULL), REDLOCK_OK);
        for (size_t i = 0; i < MANY; i++) {
            if (round == 0) assert_result(results[i], REDLOCK_OK);
            assert_int_equal(redlock_lock_state(locks[i]), REDLOCK_STATE_FREE);
        }
    }
    free_locks(locks, MANY);
    redlock_client_free(client);
}

static void each_has_its_own_outcome(void **state) {
    struct redlock_lock *locks[5], *twice[6], *none[2] = {NULL, NULL};
    int results[6];
    (void)state;
    struct redlock_client *client = open_patient(&three, PATIENCE_MS, 1),
                          *other = open_patient(&three, PATIENCE_MS, 1);
    const struct redlock_lock_options options = lock_options(TTL_MS);
    make_locks(client, "each", &options, locks, 5);
    for (int i = 0; i < 3; i++) freeReplyObject(server_ask(&three.at[i], "SET each:3 another"));
    memcpy(twice, locks, sizeof locks);
    twice[5] = locks[1];
    assert_int_not_equal(redlock_acquire_many(twice, 6, 0, results), REDLOCK_OK);
    for (int i = 0; i < 6; i++)
        assert_result(results[i], i == 3 ? REDLOCK_HELD : i == 5 ? REDLOCK_BUSY : REDLOCK_OK);
    assert_result(redlock_release_many(locks, 5, results), REDLOCK_LOST);
    for (int i = 0; i < 5; i++) assert_result(results[i], i == 3 ? REDLOCK_LOST : REDLOCK_OK);
    assert_result(redlock_acquire_many(locks, 0, 0, NULL), REDLOCK_OK);
    none[0] = locks[0];
    assert_result(redlock_acquire_many(none, 2, 0, results), REDLOCK_BAD_ARGUMENT);
    assert_result(results[0], REDLOCK_BAD_ARGUMENT);
    none[1] = new_lock(other, "each:0", NULL);
    assert_result(redlock_acquire_many(none, 2, 0, results), REDLOCK_BAD_ARGUMENT);
    assert_int_equal(redlock_lock_state(locks[0]), REDLOCK_STATE_FREE);
    for (int i = 0; i < 3; i++) freeReplyObject(server_ask(&three.at[i], "DEL each:3"));
    redlock_lock_free(none[1]);
    free_locks(locks, 5);
    redlock_client_free(other);
    redlock_client_free(client);
}

struct tally {
    int done, ok;
};

static void count_done(void *context, struct redlock_lock *lock, int result) {
    struct tally *tally = context;
    (void)lock;
    tally->done++;
    tally->ok += result == REDLOCK_OK;
}

static void drive(struct redlock_client *client, const struct tally *tally, int wanted) {
    double end = now_ms() + 5000;
    while (tally->done < wanted && now_ms() < end) {
        struct pollfd descriptor = {.fd = redlock_client_fd(client), .events = POLLIN};
        poll(&descriptor, 1, 100);
        assert_result(redlock_process(client), REDLOCK_OK);
    }
    assert_int_equal(tally->done, wanted);
}

/* Of a hundred SETs a node need not read many times: they come in one piece. */
static void in_an_event_loop_they_go_out_together(void **state) {
    struct redlock_lock *locks[101];
    int results[101];
    struct tally tally = {0};
    (void)state;
    struct redlock_client *client = open_patient(&three, PATIENCE_MS, 0);
    const struct redlock_lock_options options = lock_options(TTL_MS);
    make_locks(client, "loop", &options, locks, 100);
    locks[100] = locks[7];
    long long before = reads_of(&three.at[0]);
    assert_result(redlock_acquire_many_start(locks, 101, 2000, results, count_done, &tally),
                  REDLOCK_BUSY);
    assert_int_equal(tally.done, 0); /* never from within the call */
    for (int i = 0; i <= 100; i++) assert_result(results[i], i == 100 ? REDLOCK_BUSY : REDLOCK_OK);
    drive(client, &tally, 100);
    assert_int_equal(tally.ok, 100);
    assert_less(reads_of(&three.at[0]) - before, 11);
    tally = (struct tally){0};
    assert_result(redlock_release_many_start(locks, 100, NULL, count_done, &tally), REDLOCK_OK);
    drive(client, &tally, 100);
    assert_int_equal(tally.ok, 100);
    assert_result(redlock_release_many_start(locks, 100, results, NULL, NULL),
                  REDLOCK_BAD_ARGUMENT);
    free_locks(locks, 100);
    redlock_client_free(client);
}

/* redlock_acquire_many() begins 1024 of them, and the rest when these have ended. */
enum { AT_ONCE = 1024, QUEUED = 10 };

struct crowd {
    struct redlock_lock *locks[AT_ONCE + QUEUED];
    int results[AT_ONCE + QUEUED];
};

static void *acquire_crowd(void *context) {
    struct crowd *crowd = context;
    (void)!redlock_acquire_many(crowd->locks, AT_ONCE + QUEUED, PATIENT_MS, crowd->results);
    return NULL;
}

static void one_is_cancelled_before_it_begins(void **state) {
    static struct crowd crowd;
    static struct redlock_lock *holders[AT_ONCE];
    pthread_t thread;
    (void)state;
    struct redlock_client *client = open_patient(&three, PATIENCE_MS, 1),
                          *other = open_patient(&three, PATIENCE_MS, 1);
    const struct redlock_lock_options options = lock_options(TTL_MS);
    make_locks(other, "crowd", &options, holders, AT_ONCE);
    make_locks(client, "crowd", &options, crowd.locks, AT_ONCE + QUEUED);
    assert_result(redlock_acquire_many(holders, AT_ONCE, PATIENT_MS, NULL), REDLOCK_OK);
    assert_int_equal(pthread_create(&thread, NULL, acquire_crowd, &crowd), 0);
    wait_until(redlock_lock_state(crowd.locks[AT_ONCE - 1]) == REDLOCK_STATE_ACQUIRING, PATIENT_MS);
    assert_int_equal(redlock_lock_state(crowd.locks[AT_ONCE + 3]), REDLOCK_STATE_FREE);
    redlock_cancel(crowd.locks[AT_ONCE + 3]);
    for (int i = 0; i < AT_ONCE; i++) redlock_cancel(crowd.locks[i]);
    pthread_join(thread, NULL);
    for (int i = 0; i < AT_ONCE + QUEUED; i++)
        assert_result(crowd.results[i],
                      i < AT_ONCE || i == AT_ONCE + 3 ? REDLOCK_CANCELLED : REDLOCK_OK);
    assert_result(redlock_acquire(crowd.locks[AT_ONCE + 3], PATIENT_MS), REDLOCK_OK);
    free_locks(crowd.locks, AT_ONCE + QUEUED);
    free_locks(holders, AT_ONCE);
    redlock_client_free(other);
    redlock_client_free(client);
}

/* Taken one after the other, renewed together: a node reads far fewer times than there are
 * renewals. */
static void renewals_go_out_together(void **state) {
    struct redlock_lock *locks[RENEWED];
    struct notices notices = {0};
    (void)state;
    struct redlock_client *client = open_patient(&three, PATIENCE_MS, 1);
    struct redlock_lock_options options = notices_options(TTL_MS, &notices);
    options.renew_interval_ms = 1500;
    make_locks(client, "renewed", &options, locks, RENEWED);
    for (int i = 0; i < RENEWED; i++) assert_result(redlock_acquire(locks[i], 2000), REDLOCK_OK);
    long long before = reads_of(&three.at[0]);
    int renewed = notices.count[REDLOCK_CHANGE_RENEWED];
    wait_until(notices.count[REDLOCK_CHANGE_RENEWED] >= renewed + RENEWED, 10000);
    long long reads = reads_of(&three.at[0]) - before;
    renewed = notices.count[REDLOCK_CHANGE_RENEWED] - renewed;
    if (reads * 3 > renewed) fail_msg("%lld reads for %d renewals", reads, renewed);
    /* With what the pool has of the first time, each once more its own. */
    int before_all = notices.count[REDLOCK_CHANGE_RENEWED];
    wait_until(notices.count[REDLOCK_CHANGE_RENEWED] >= before_all + 2 * RENEWED, 10000);
    assert_int_equal(notices.count[REDLOCK_CHANGE_UNSURE] + notices.count[REDLOCK_CHANGE_LOST], 0);
    assert_result(redlock_release_many(locks, RENEWED, NULL), REDLOCK_OK);
    free_locks(locks, RENEWED);
    redlock_client_free(client);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_are_taken_and_given_back),
        cmocka_unit_test(each_has_its_own_outcome),
        cmocka_unit_test(in_an_event_loop_they_go_out_together),
        cmocka_unit_test(one_is_cancelled_before_it_begins),
        cmocka_unit_test(renewals_go_out_together),
    };
    return cmocka_run_group_tests(tests, start_three, stop_three);
}
