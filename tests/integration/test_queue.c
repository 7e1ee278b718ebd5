/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Callbacks that wait in a queue until the program asks for them; and a `done` that comes once,
 * however the lock ends.
 */
#include "fixtures.h"
#include "notices.h"

#include <poll.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

static struct redlock_client *open_queued(const char *urls) {
    struct redlock_client_options options;
    struct redlock_client *client = NULL;
    redlock_client_options_init(&options);
    options.node_timeout_ms = 150;
    options.queue = 1;
    assert_result(redlock_client_open(urls, &options, &client, NULL), REDLOCK_OK);
    assert_true(redlock_client_wait_ready(client, 3000) == 3);
    return client;
}

static bool rings(struct redlock_client *client, int ms) {
    struct pollfd bell = {.fd = redlock_client_fd(client), .events = POLLIN};
    assert_true(bell.fd >= 0);
    return poll(&bell, 1, ms) == 1;
}

static void expect_done(struct redlock_client *client, struct done *done, int result) {
    const int before = done->count;
    while (done->count == before) { /* it rings for each answer */
        assert_true(rings(client, 3000));
        assert_int_equal(done->count, before); /* not on another thread */
        assert_result(redlock_process(client), REDLOCK_OK);
    }
    assert_int_equal(done->count, before + 1);
    assert_result(done->result, result);
    assert_true(pthread_equal(done->thread, pthread_self()));
}

/* After the answers that nobody waits for. */
static void expect_silence(struct redlock_client *client, const struct done *done, int ms) {
    const int before = done->count;
    for (const double end = now_ms() + 1000; rings(client, ms);) {
        assert_true(now_ms() < end);
        assert_result(redlock_process(client), REDLOCK_OK);
    }
    assert_int_equal(done->count, before);
}

static void callbacks_run_where_they_are_asked_for(void **state) {
    (void)state;
    struct done done = {0};
    struct redlock_client *client = open_queued(three.urls);
    struct redlock_lock_options options = lock_options(2000);
    options.on_change_context = &done;
    struct redlock_lock *lock = new_lock(client, "queued", &options);
    assert_ptr_equal(redlock_lock_context(lock), &done);
    assert_result(redlock_acquire_start(lock, 2000, on_done, &done), REDLOCK_OK);
    expect_done(client, &done, REDLOCK_OK);
    expect_silence(client, &done, 50);
    assert_result(redlock_extend_start(lock, 0, on_done, &done), REDLOCK_OK);
    expect_done(client, &done, REDLOCK_OK);
    assert_result(redlock_release_start(lock, on_done, &done), REDLOCK_OK);
    expect_done(client, &done, REDLOCK_OK);
    assert_result(redlock_process(client), REDLOCK_OK); /* with nothing to do */
    assert_result(redlock_acquire(lock, 2000), REDLOCK_OK);
    redlock_lock_free(lock);
    redlock_client_free(client);
    assert_int_equal(servers_holding(&three, "queued"), 0);
}

static struct redlock_why_report why_cancelled(struct redlock_client *client,
                                               struct redlock_lock *lock) {
    struct redlock_why_report why;
    redlock_why_report_init(&why);
    assert_result(redlock_why(client, lock, REDLOCK_CANCELLED, NULL, &why), REDLOCK_OK);
    return why;
}

/* At first no node is connected, so that nothing has been sent. */
static void cancelled_at_once(void **state) {
    (void)state;
    struct done done = {0};
    struct redlock_client_options options;
    struct redlock_client *client = NULL;
    redlock_client_options_init(&options);
    options.queue = 1;
    options.node_timeout_ms = 150;
    assert_result(redlock_client_open(three.urls, &options, &client, NULL), REDLOCK_OK);
    for (int i = 0; i < 3; i++) freeReplyObject(server_ask(&three.at[i], "SET at-once another"));
    struct redlock_lock *lock = new_lock(client, "at-once", NULL);
    for (int i = 0; i < 20; i++) {
        assert_result(redlock_acquire_start(lock, REDLOCK_WAIT_FOREVER, on_done, &done),
                      REDLOCK_OK);
        redlock_cancel(lock);
        redlock_cancel(lock); /* once is enough, and twice does no harm */
        expect_done(client, &done, REDLOCK_CANCELLED);
        expect_silence(client, &done, 10);
        if (i >= 10) assert_int_equal(why_cancelled(client, lock).result, REDLOCK_HELD);
        if (i == 9) assert_true(redlock_client_wait_ready(client, 3000) == 3);
    }
    assert_result(redlock_acquire_many_start(&lock, 1, REDLOCK_WAIT_FOREVER, NULL, on_done, &done),
                  REDLOCK_OK);
    redlock_cancel(lock);
    expect_done(client, &done, REDLOCK_CANCELLED);
    for (int i = 0; i < 2; i++) server_pause(&three.at[i]);
    assert_result(redlock_acquire_start(lock, REDLOCK_WAIT_FOREVER, on_done, &done), REDLOCK_OK);
    redlock_cancel(lock);
    expect_done(client, &done, REDLOCK_CANCELLED);
    assert_int_equal(why_cancelled(client, lock).result, REDLOCK_NO_QUORUM);
    assert_int_equal(why_cancelled(client, lock).silent, 2);
    for (int i = 0; i < 2; i++) server_resume(&three.at[i]);
    redlock_lock_free(lock);
    redlock_client_free(client);
    for (int i = 0; i < 3; i++) freeReplyObject(server_ask(&three.at[i], "DEL at-once"));
}

/* The program is busy for three TTLs. */
static void renewals_need_nobody(void **state) {
    (void)state;
    struct notices notices = {0};
    const struct redlock_lock_options options = notices_options(600, &notices);
    struct redlock_client *client = open_queued(three.urls);
    struct redlock_lock *lock = new_lock(client, "busy", &options);
    assert_result(redlock_acquire(lock, 2000), REDLOCK_OK);
    usleep(1800000);
    assert_int_equal(redlock_lock_state(lock), REDLOCK_STATE_HELD);
    assert_int_equal(notices.count[REDLOCK_CHANGE_RENEWED], 0);
    for (int i = 0; i < 3; i++) freeReplyObject(server_ask(&three.at[i], "SET busy another"));
    while (notices.count[REDLOCK_CHANGE_LOST] == 0) {
        assert_true(rings(client, 3000));
        assert_result(redlock_process(client), REDLOCK_OK);
    }
    assert_int_equal(notices.count[REDLOCK_CHANGE_RENEWED], 1); /* several in a row are one */
    redlock_lock_free(lock);
    redlock_client_free(client);
    for (int i = 0; i < 3; i++) freeReplyObject(server_ask(&three.at[i], "DEL busy"));
}

enum { STILL = 40, STILL_TTL_MS = 1000 };

static void process_for(struct redlock_client *client, int ms) {
    for (const double end = now_ms() + ms; now_ms() < end;)
        if (rings(client, 5)) assert_result(redlock_process(client), REDLOCK_OK);
}

/* Its completions are due, so that what arrives is left to it; and it stands still for three TTLs,
 * again and again. */
static void a_loop_stands_still(void **state) {
    (void)state;
    struct redlock_lock *locks[STILL];
    struct notices notices = {0};
    struct done held = {0}, waits = {0};
    const struct redlock_lock_options options = notices_options(STILL_TTL_MS, &notices);
    struct redlock_client *client = open_queued(three.urls), *other = open_queued(three.urls);
    struct redlock_lock *taken = new_lock(other, "stands", &options),
                        *wanted = new_lock(client, "stands", &options);
    assert_result(redlock_acquire(taken, 2000), REDLOCK_OK);
    make_locks(client, "still", &options, locks, STILL);
    assert_result(redlock_acquire_many_start(locks, STILL, 2000, NULL, on_done, &held), REDLOCK_OK);
    while (held.count < STILL) process_for(client, 10);
    assert_result(redlock_acquire_start(wanted, REDLOCK_WAIT_FOREVER, on_done, &waits), REDLOCK_OK);
    for (int i = 0; i < 2; i++) {
        process_for(client, 300 + 37 * i);
        nap_ms(3 * STILL_TTL_MS);
        for (int j = 0; j < STILL; j++) {
            assert_int_equal(redlock_lock_state(locks[j]), REDLOCK_STATE_HELD);
            assert_true(redlock_validity_ms(locks[j]) > 0);
        }
    }
    process_for(client, 50);
    assert_int_equal(notices.count[REDLOCK_CHANGE_LOST], 0);
    assert_true(notices.count[REDLOCK_CHANGE_RENEWED] >= 2 * STILL);
    assert_int_equal(waits.count, 0);
    redlock_lock_free(taken);
    while (waits.count == 0) process_for(client, 10);
    assert_result(waits.result, REDLOCK_OK);
    redlock_lock_free(wanted);
    free_locks(locks, STILL);
    redlock_client_free(client);
    redlock_client_free(other);
}

static void the_last_lock_is_freed_in_its_callback(void **state) {
    (void)state;
    struct done done = {.frees = true};
    struct redlock_client *client = open_queued(three.urls);
    struct redlock_lock *lock = new_lock(client, "last", NULL);
    assert_result(redlock_acquire_start(lock, 2000, on_done, &done), REDLOCK_OK);
    redlock_client_free(client);
    expect_done(client, &done, REDLOCK_OK);
    assert_int_equal(servers_holding(&three, "last"), 0);
}

static atomic_bool stopped;

static void *process_until_stopped(void *client) {
    while (!stopped) {
        if (redlock_process(client) != REDLOCK_OK) return client;
        usleep(100);
    }
    return NULL;
}

static void several_threads_may_ask(void **state) {
    (void)state;
    enum { THREADS = 4, LOCKS = 200 };
    struct redlock_client *client = open_queued(three.urls);
    struct redlock_lock *locks[LOCKS];
    struct done done = {0};
    pthread_t threads[THREADS];
    void *failed;
    stopped = false;
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, process_until_stopped, client), 0);
    for (int i = 0; i < LOCKS; i++) {
        char name[20];
        snprintf(name, sizeof name, "thread%d", i);
        locks[i] = new_lock(client, name, NULL);
        assert_result(redlock_acquire_start(locks[i], PATIENT_MS, on_done, &done), REDLOCK_OK);
    }
    wait_until(done.count == LOCKS, PATIENT_MS);
    for (int i = 0; i < LOCKS; i++) redlock_lock_free(locks[i]);
    stopped = true;
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], &failed);
        assert_null(failed);
    }
    assert_int_equal(done.count, LOCKS);
    redlock_client_free(client);
}

static void a_child_gets_no_callback(void **state) {
    (void)state;
    struct done done = {0};
    struct redlock_client *client = open_queued(three.urls);
    struct redlock_lock *lock = new_lock(client, "forks", NULL);
    assert_result(redlock_acquire_start(lock, 2000, on_done, &done), REDLOCK_OK);
    assert_true(rings(client, 3000));
    pid_t child = fork();
    if (child == 0) {
        const bool forked = redlock_process(client) == REDLOCK_FORKED;
        redlock_lock_free(lock);
        redlock_client_free(client);
        _exit(forked && done.count == 0 ? 0 : 1);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    expect_done(client, &done, REDLOCK_OK); /* the child did not take the ringing away */
    redlock_lock_free(lock);
    redlock_client_free(client);
}

static void a_queue_needs_the_thread(void **state) {
    (void)state;
    struct redlock_client_options options;
    struct redlock_client *client = NULL;
    struct redlock_error error = {0};
    redlock_client_options_init(&options);
    options.queue = 1;
    options.service_thread = 0;
    assert_result(redlock_client_open(three.urls, &options, &client, &error), REDLOCK_BAD_ARGUMENT);
    assert_non_null(strstr(error.text, "set service_thread"));
}

/* ---- a lock that is freed while something is under way ---- */

static struct redlock_client *open_kind(int kind) {
    struct redlock_client_options options;
    struct redlock_client *client = NULL;
    redlock_client_options_init(&options);
    options.node_timeout_ms = 150;
    options.service_thread = kind > 0;
    options.queue = kind > 1;
    assert_result(redlock_client_open(three.urls, &options, &client, NULL), REDLOCK_OK);
    assert_true(redlock_client_wait_ready(client, 3000) == 3);
    return client;
}

static void expect_cancelled(struct redlock_lock *lock, struct done *done) {
    redlock_lock_free(lock);
    assert_int_equal(done->count, 1);
    assert_result(done->result, REDLOCK_CANCELLED);
    assert_true(pthread_equal(done->thread, pthread_self()));
}

static void what_is_under_way_ends_with_the_lock(void **state) {
    (void)state;
    for (int kind = 0; kind < 3; kind++) {
        struct redlock_client *client = open_kind(kind);
        struct done waiting = {0}, extending = {0}, releasing = {0}, looking = {0};
        struct redlock_view views[3];
        struct redlock_lock *holder = new_lock(client, "under way", NULL);
        struct redlock_lock *waiter = new_lock(client, "under way", NULL);
        struct redlock_lock *other = new_lock(client, "other", NULL);
        struct redlock_lock *look = new_lock(client, "other", NULL);
        assert_result(redlock_acquire(holder, 2000), REDLOCK_OK);
        assert_result(redlock_acquire(other, 2000), REDLOCK_OK);
        assert_result(redlock_acquire_start(waiter, 20000, on_done, &waiting), REDLOCK_OK);
        for (int i = 0; i < 3; i++) server_pause(&three.at[i]);
        assert_result(redlock_extend_start(holder, 0, on_done, &extending), REDLOCK_OK);
        assert_result(redlock_release_start(other, on_done, &releasing), REDLOCK_OK);
        assert_result(redlock_peek_start(look, views, 3, on_done, &looking), REDLOCK_OK);
        expect_cancelled(waiter, &waiting);
        expect_cancelled(holder, &extending);
        expect_cancelled(other, &releasing);
        expect_cancelled(look, &looking);
        for (int i = 0; i < 3; i++) server_resume(&three.at[i]);
        redlock_client_free(client);
        assert_int_equal(waiting.count + extending.count + releasing.count + looking.count, 4);
        wait_until(servers_holding(&three, "under way") == 0, 3000);
    }
}

/* The answer has come, and is not delivered yet. */
static void so_does_what_is_not_delivered(void **state) {
    (void)state;
    struct done done = {0};
    struct redlock_client *client = open_kind(2);
    struct redlock_lock *lock = new_lock(client, "undelivered", NULL);
    assert_result(redlock_acquire_start(lock, 2000, on_done, &done), REDLOCK_OK);
    assert_true(rings(client, 3000));
    expect_cancelled(lock, &done);
    assert_result(redlock_process(client), REDLOCK_OK);
    assert_int_equal(done.count, 1);
    redlock_client_free(client);
    assert_int_equal(servers_holding(&three, "undelivered"), 0);
}

/* One callback frees the lock while another is due. */
static void so_does_the_other_one(void **state) {
    (void)state;
    struct done extending = {.frees = true}, releasing = {0};
    struct redlock_client *client = open_kind(2);
    struct redlock_lock *lock = new_lock(client, "both", NULL);
    assert_result(redlock_acquire(lock, 2000), REDLOCK_OK);
    assert_result(redlock_extend_start(lock, 0, on_done, &extending), REDLOCK_OK);
    assert_result(redlock_release_start(lock, on_done, &releasing), REDLOCK_OK);
    usleep(300000);
    assert_result(redlock_process(client), REDLOCK_OK);
    assert_int_equal(extending.count, 1);
    assert_int_equal(releasing.count, 1);
    assert_result(releasing.result, REDLOCK_CANCELLED);
    redlock_client_free(client);
    assert_int_equal(servers_holding(&three, "both"), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(callbacks_run_where_they_are_asked_for),
        cmocka_unit_test(cancelled_at_once),
        cmocka_unit_test(renewals_need_nobody),
        cmocka_unit_test(a_loop_stands_still),
        cmocka_unit_test(the_last_lock_is_freed_in_its_callback),
        cmocka_unit_test(several_threads_may_ask),
        cmocka_unit_test(a_child_gets_no_callback),
        cmocka_unit_test(a_queue_needs_the_thread),
        cmocka_unit_test(what_is_under_way_ends_with_the_lock),
        cmocka_unit_test(so_does_what_is_not_delivered),
        cmocka_unit_test(so_does_the_other_one),
    };
    return cmocka_run_group_tests(tests, start_three, stop_three);
}
