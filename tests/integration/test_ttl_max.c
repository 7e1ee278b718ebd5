/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A change of the quorum's ttl_max, as clients that are open meanwhile see it. */
#include "guarded.h"

#include <pthread.h>
#include <string.h>

enum { SHORT = 1000, LONG = 3000 };

static struct servers nodes;

static int start(void **state) {
    (void)state;
    start_quorum(&nodes, 3, SHORT);
    return 0;
}

static int stop(void **state) {
    (void)state;
    servers_stop(&nodes);
    return 0;
}

static void set_ttl_max(struct redlock_client *client, int64_t ttl_ms) {
    struct redlock_error error = {0};
    int result = redlock_quorum_set_ttl_max(client, ttl_ms, NULL, &error);
    if (result != REDLOCK_OK) fail_msg("%s: %s", redlock_result_text(result), error.text);
}

static struct redlock_quorum_status look(struct redlock_client *client) {
    struct redlock_quorum_status quorum;
    struct redlock_member members[REDLOCK_NODES_MAX];
    redlock_quorum_status_init(&quorum);
    for (size_t i = 0; i < REDLOCK_NODES_MAX; i++) redlock_member_init(&members[i]);
    /* while records change, they are read again */
    wait_until(redlock_quorum_peek(client, &quorum, members, REDLOCK_NODES_MAX) == REDLOCK_OK,
               3000);
    return quorum;
}

static void *lower(void *client) {
    struct redlock_error error = {0};
    return redlock_quorum_set_ttl_max(client, SHORT, NULL, &error) == REDLOCK_OK ? NULL : "failed";
}

static void a_longer_ttl_is_allowed_when_it_is_raised(void **state) {
    (void)state;
    struct redlock_client *client = open_guarded(&nodes), *other = open_guarded(&nodes);
    const struct redlock_lock_options options = lock_options(LONG);
    struct redlock_lock *lock = new_lock(other, "job", &options);
    assert_result(redlock_try(lock), REDLOCK_TTL_MAX_EXCEEDED);
    set_ttl_max(client, LONG);
    struct redlock_quorum_status quorum = look(client);
    assert_int_equal(quorum.ttl_ms_max, LONG);
    assert_int_equal(quorum.ttl_ms_allowed, LONG);
    assert_int_equal(quorum.ttl_ms_next, LONG);
    assert_true(quorum.settled);
    assert_int_equal(quorum.epoch, 3);
    wait_until(redlock_try(lock) == REDLOCK_OK, 3000); /* the other client reads it soon */
    assert_true(redlock_validity_ms(lock) > SHORT);
    assert_result(redlock_release(lock), REDLOCK_OK);
    set_ttl_max(client, LONG); /* nothing to do */
    assert_int_equal(look(client).epoch, 3);
    redlock_lock_free(lock);
    redlock_client_free(other);
    redlock_client_free(client);
}

/* Its TTL is too long, so it asks for no vote; and the servers do not notify it of the change. */
static void a_client_that_is_not_notified_hears_of_it(void **state) {
    (void)state;
    if (servers_version() < 700) skip(); /* a subcommand cannot be forbidden by itself */
    struct redlock_client *client = open_guarded(&nodes);
    for (unsigned i = 0; i < nodes.count; i++)
        freeReplyObject(server_ask(&nodes.at[i], "ACL SETUSER default -client|tracking"));
    struct redlock_client *other = open_guarded(&nodes);
    const struct redlock_lock_options options = lock_options(LONG);
    struct redlock_lock *lock = new_lock(other, "job", &options);
    assert_result(redlock_try(lock), REDLOCK_TTL_MAX_EXCEEDED);
    set_ttl_max(client, LONG);
    wait_until(redlock_try(lock) == REDLOCK_OK, 5000);
    assert_result(redlock_release(lock), REDLOCK_OK);
    redlock_lock_free(lock);
    redlock_client_free(other);
    redlock_client_free(client);
}

static void a_lock_goes_on_when_it_is_lowered(void **state) {
    (void)state;
    struct redlock_client *client = open_guarded(&nodes), *holder = open_guarded(&nodes);
    struct notices notices = {0};
    struct redlock_lock_options options = notices_options(LONG, &notices);
    set_ttl_max(client, LONG);
    options.lost_margin_ms = 20;
    struct redlock_lock *lock = new_lock(holder, "held", &options);
    wait_until(redlock_try(lock) == REDLOCK_OK, 3000);
    pthread_t thread;
    void *failure;
    pthread_create(&thread, NULL, lower, client);
    wait_until(look(holder).ttl_ms_allowed == SHORT, 3000);
    struct redlock_quorum_status quorum = look(holder);
    assert_int_equal(quorum.ttl_ms_max, LONG);
    assert_int_equal(quorum.ttl_ms_next, SHORT);
    assert_false(quorum.settled);
    struct redlock_lock *next = new_lock(holder, "next", &options);
    assert_result(redlock_try(next), REDLOCK_TTL_MAX_EXCEEDED);
    assert_result(redlock_extend(lock, LONG), REDLOCK_TTL_MAX_EXCEEDED);
    assert_result(redlock_extend(lock, SHORT), REDLOCK_OK);
    pthread_join(thread, &failure);
    if (failure) fail_msg("the change %s", (const char *)failure);
    quorum = look(holder);
    assert_int_equal(quorum.ttl_ms_max, SHORT);
    assert_true(quorum.settled);
    nap_ms(2 * SHORT); /* by now it lives by renewals of the shorter TTL alone */
    int64_t left = redlock_validity_ms(lock);
    if (left <= 0 || left > SHORT) fail_msg("%lld ms are left", (long long)left);
    assert_result(redlock_release(lock), REDLOCK_OK);
    redlock_lock_free(lock);
    redlock_lock_free(next);
    redlock_client_free(holder);
    redlock_client_free(client);
}

static void a_wrong_argument_changes_nothing(void **state) {
    (void)state;
    struct redlock_client *client = open_guarded(&nodes);
    const int64_t wrong[] = {0, -1, REDLOCK_TTL_MS_MIN - 1, REDLOCK_TTL_MS_MAX + 1, INT64_MAX};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct redlock_error error = {0};
        assert_result(redlock_quorum_set_ttl_max(client, wrong[i], NULL, &error),
                      REDLOCK_BAD_ARGUMENT);
        assert_non_null(strstr(error.text, "must be between"));
    }
    assert_int_equal(look(client).epoch, 1);
    struct redlock_client_options options = guarded_options();
    options.mode = REDLOCK_MODE_CLASSIC;
    struct redlock_client *classic = open_guarded_at(nodes.urls, &options);
    assert_result(redlock_quorum_set_ttl_max(classic, LONG, NULL, NULL), REDLOCK_BAD_ARGUMENT);
    redlock_client_free(classic);
    redlock_client_free(client);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_longer_ttl_is_allowed_when_it_is_raised, start, stop),
        cmocka_unit_test_setup_teardown(a_client_that_is_not_notified_hears_of_it, start, stop),
        cmocka_unit_test_setup_teardown(a_lock_goes_on_when_it_is_lowered, start, stop),
        cmocka_unit_test_setup_teardown(a_wrong_argument_changes_nothing, start, stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
