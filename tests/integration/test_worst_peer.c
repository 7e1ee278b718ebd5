/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What the worst peer teaches: seven faults of one client, each of them a test here.
 */
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fixtures.h"

static int five_anew(void **state) {
    (void)state;
    for (unsigned i = 0; i < five.count; i++) {
        if (five.at[i].pid == 0)
            server_restart(&five.at[i]);
        else
            server_resume(&five.at[i]);
        freeReplyObject(server_ask(&five.at[i], "FLUSHALL"));
    }
    return 0;
}

static void quorum_over_the_reachable_nodes(void **state) {
    (void)state;
    for (unsigned i = 0; i < 3; i++) server_kill(&five.at[i]);
    struct redlock_client *client = open_client(&five, NULL);
    struct redlock_lock *lock = new_lock(client, "reachable", NULL);
    assert_int_equal(redlock_client_nodes(client), 5);
    assert_int_equal(redlock_client_wait_ready(client, 1000), 2);
    assert_result(redlock_try(lock),
                  REDLOCK_NO_QUORUM); /* two of two that can be reached are no majority of five */
    assert_result(redlock_acquire(lock, 300), REDLOCK_NO_QUORUM);
    assert_int_equal(servers_holding(&five, "reachable"), 0);
    redlock_lock_free(lock);
    redlock_client_free(client);
}

/* The TTL reaches the node to the millisecond, and validity is the TTL less drift and time that
 * really passed. */
static void taken_for(struct redlock_client *client, int64_t ttl_ms) {
    struct redlock_lock_options options = lock_options(ttl_ms);
    options.renew = 0;
    struct redlock_lock *lock = new_lock(client, "exact", &options);
    double began = now_ms();
    assert_result(redlock_try(lock), REDLOCK_OK);
    double validity = (double)redlock_validity_ms(lock), drift = (double)ttl_ms / 100 + 2;
    double passed = now_ms() - began;
    assert_true(validity <= (double)ttl_ms - drift);
    assert_true(validity + 1 >= (double)ttl_ms - drift - passed);
    nap_ms(20);
    long long left = server_ask_integer(&five.at[0], "PTTL exact");
    assert_true(left <= ttl_ms);
    assert_true((double)left + 1 >= (double)ttl_ms - (now_ms() - began) && left > 0);
    assert_result(redlock_release(lock), REDLOCK_OK);
    redlock_lock_free(lock);
}

static void wall_clock_in_whole_seconds_in_an_int(void **state) {
    (void)state;
    struct redlock_client *client = open_client(&five, NULL);
    taken_for(client, REDLOCK_TTL_MS_MAX);
    taken_for(client, 86399999);
    taken_for(client, 12347);
    taken_for(client, 999); /* whole seconds: nothing would be left */
    /* A validity that ends within a second ends when it says, on a clock that no one sets. */
    struct redlock_lock_options options = lock_options(437);
    options.renew = 0;
    struct redlock_lock *lock = new_lock(client, "short", &options);
    assert_result(redlock_try(lock), REDLOCK_OK);
    int64_t end_ns = redlock_validity_end_ns(lock);
    double in_ms = (double)end_ns / 1e6 - now_ms();
    assert_true(in_ms > 200 && in_ms <= 437 - 6);
    nap_ms(440);
    assert_int_equal(redlock_validity_ms(lock), 0);
    redlock_lock_free(lock);
    redlock_client_free(client);
}

static void serial_nodes_without_a_command_timeout(void **state) {
    (void)state;
    struct redlock_client_options options;
    redlock_client_options_init(&options);
    options.node_timeout_ms = 200;
    struct redlock_client *client = open_client(&five, &options);
    struct redlock_lock *lock = new_lock(client, "serial", NULL);
    for (unsigned i = 0; i < 5; i++) server_pause(&five.at[i]);
    double began = now_ms();
    assert_result(redlock_try(lock), REDLOCK_NO_QUORUM);
    double took = now_ms() - began;
    assert_true(took >= 200);
    assert_true(took <
                800); /* one node timeout for the votes, one for the releases; not five of either */
    for (unsigned i = 0; i < 5; i++) server_resume(&five.at[i]);
    /* What they find in their sockets is a SET and its release. */
    nap_ms(100);
    assert_int_equal(servers_holding(&five, "serial"), 0);
    assert_result(redlock_acquire(lock, 3000), REDLOCK_OK);
    redlock_lock_free(lock);
    redlock_client_free(client);
}

static void an_extend_that_brings_a_lost_lock_back(void **state) {
    (void)state;
    struct redlock_client *client = open_client(&five, NULL);
    struct redlock_lock_options options = lock_options(200);
    options.renew = 0;
    struct redlock_lock *lock = new_lock(client, "back", &options),
                        *other = new_lock(client, "back", NULL);
    assert_result(redlock_try(lock), REDLOCK_OK);
    nap_ms(250);
    assert_int_equal(redlock_lock_state(lock), REDLOCK_STATE_LOST);
    assert_result(redlock_extend(lock, 5000), REDLOCK_LOST); /* nobody has it, and still */
    assert_int_equal(redlock_validity_ms(lock), 0);
    nap_ms(30);
    assert_int_equal(servers_holding(&five, "back"), 0);
    assert_result(redlock_try(other), REDLOCK_OK);
    assert_result(redlock_extend(lock, 5000), REDLOCK_LOST);
    assert_result(redlock_release(lock), REDLOCK_LOST);
    nap_ms(30);
    assert_int_equal(servers_holding(&five, "back"), 5); /* the other's */
    assert_result(redlock_extend(other, 0), REDLOCK_OK);
    assert_result(redlock_release(other), REDLOCK_OK);
    redlock_lock_free(lock);
    redlock_lock_free(other);
    redlock_client_free(client);
}

/* Everything a client does, with what goes wrong too, and a log level at which a careless library
 * would talk. */
static void do_everything(void) {
    struct redlock_client_options client_options;
    redlock_client_options_init(&client_options);
    client_options.log_level = REDLOCK_LOG_DEBUG;
    struct redlock_client *client = open_client(&five, &client_options);
    struct redlock_lock_options options = lock_options(300);
    struct redlock_lock *lock = new_lock(client, "quiet", &options),
                        *other = new_lock(client, "quiet", NULL);
    struct redlock_view views[5];
    assert_result(redlock_try(lock), REDLOCK_OK);
    assert_result(redlock_try(other), REDLOCK_HELD);
    assert_result(redlock_peek(client, "quiet", 5, views, 5), REDLOCK_OK);
    nap_ms(350); /* renewals */
    for (unsigned i = 0; i < 3; i++) server_kill(&five.at[i]);
    nap_ms(350);
    redlock_release(lock);
    assert_result(redlock_try(lock), REDLOCK_NO_QUORUM);
    redlock_lock_free(lock);
    redlock_lock_free(other);
    redlock_client_free(client);
    struct redlock_client *none = NULL;
    assert_result(redlock_client_open("redis://user:secret@", NULL, &none, NULL),
                  REDLOCK_BAD_ARGUMENT);
}

static void a_token_on_stdout(void **state) {
    (void)state;
    char path[] = "/tmp/redlock-test-XXXXXX";
    int file = mkstemp(path);
    assert_true(file >= 0);
    unlink(path);
    fflush(NULL);
    int out = dup(1), err = dup(2);
    dup2(file, 1);
    dup2(file, 2);
    do_everything();
    fflush(NULL);
    dup2(out, 1);
    dup2(err, 2);
    close(out);
    close(err);
    struct stat status;
    assert_int_equal(fstat(file, &status), 0);
    assert_int_equal(status.st_size, 0);
    close(file);
}

static void assert_refused(const char *nodes) {
    struct redlock_client *untouched = (struct redlock_client *)(void *)&five, *client = untouched;
    struct redlock_error error = {0};
    assert_result(redlock_client_open(nodes, NULL, &client, &error), REDLOCK_BAD_ARGUMENT);
    assert_int_equal(error.result, REDLOCK_BAD_ARGUMENT);
    assert_true(strlen(error.text) > 10);
    assert_ptr_equal(client, untouched);
}

static void exit_minus_one_in_a_constructor(void **state) {
    (void)state;
    static const char *const bad[] = {"",
                                      " , ",
                                      "localhost:6379",
                                      "http://localhost",
                                      "redis://",
                                      "redis://localhost:0",
                                      "redis://localhost:65536",
                                      "redis://localhost:port",
                                      "redis://h/db",
                                      "unix://",
                                      "redis://a,redis://a:6379",
                                      "redis://h/%zz",
                                      "redis://[::1",
                                      "redis://a?x=1"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) assert_refused(bad[i]);
    char sixteen[400] = "";
    for (int i = 0; i < 16; i++)
        snprintf(sixteen + strlen(sixteen), sizeof sixteen - strlen(sixteen), " redis://h%d", i);
    assert_refused(sixteen);
    assert_refused(NULL);
    struct redlock_error error = {0};
    struct redlock_client *client = open_client(&five, NULL);
    struct redlock_lock *lock = NULL;
    struct redlock_lock_options options = lock_options(0);
    assert_result(redlock_lock_new(client, "x", 1, &options, &lock, &error), REDLOCK_BAD_ARGUMENT);
    assert_true(strstr(error.text, "ttl_ms") != NULL);
    assert_result(redlock_lock_new(client, "", 0, NULL, &lock, &error), REDLOCK_BAD_ARGUMENT);
    assert_result(redlock_lock_new_multi(client, NULL, 0, NULL, &lock, &error),
                  REDLOCK_BAD_ARGUMENT);
    assert_null(lock);
    redlock_client_free(client);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(quorum_over_the_reachable_nodes, five_anew),
        cmocka_unit_test_setup(wall_clock_in_whole_seconds_in_an_int, five_anew),
        cmocka_unit_test_setup(serial_nodes_without_a_command_timeout, five_anew),
        cmocka_unit_test_setup(an_extend_that_brings_a_lost_lock_back, five_anew),
        cmocka_unit_test_setup(a_token_on_stdout, five_anew),
        cmocka_unit_test_setup(exit_minus_one_in_a_constructor, five_anew),
    };
    return cmocka_run_group_tests(tests, start_five, stop_five);
}
