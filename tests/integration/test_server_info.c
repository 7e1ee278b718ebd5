/* SPDX-License-Identifier: BSD-2-Clause
 *
 * redlock_server_info(): what servers tell of themselves, and what it leaves alone.
 */
#include "fixtures.h"
#include "notices.h"

#include <pthread.h>

static void size_all(struct redlock_server *servers, size_t count) {
    for (size_t i = 0; i < count; i++) servers[i].size = sizeof servers[i];
}

static void arguments_are_checked(void **state) {
    (void)state;
    struct redlock_client *client = open_calm(&three);
    struct redlock_server servers[3];
    size_all(servers, 3);
    assert_result(redlock_server_info(client, REDLOCK_SERVER_INFO_ALL, servers, 2),
                  REDLOCK_BAD_ARGUMENT);
    assert_result(redlock_server_info(client, REDLOCK_SERVER_INFO_ALL, NULL, 3),
                  REDLOCK_BAD_ARGUMENT);
    assert_result(redlock_server_info(client, 0, servers, 3), REDLOCK_BAD_ARGUMENT);
    servers[2].size = 8;
    assert_result(redlock_server_info(client, REDLOCK_SERVER_INFO_ALL, servers, 3),
                  REDLOCK_BAD_ARGUMENT);
    redlock_client_free(client);
}

static void all_is_reported_and_the_clock_alone(void **state) {
    (void)state;
    struct redlock_client *client = open_calm(&three);
    struct redlock_server servers[3];
    size_all(servers, 3);
    assert_result(redlock_server_info(client, REDLOCK_SERVER_INFO_ALL, servers, 3), REDLOCK_OK);
    for (int i = 0; i < 3; i++) {
        const struct redlock_server *server = &servers[i];
        struct redlock_node_status status = {.size = sizeof status};
        assert_result(redlock_client_node(client, (size_t)i, &status), REDLOCK_OK);
        assert_int_equal(server->verdict, REDLOCK_VERDICT_GRANTED);
        assert_int_equal(server->refused, 0);
        assert_string_equal(server->run_id, status.run_id);
        assert_string_equal(server->redis_version, status.version);
        assert_string_equal(server->eviction, "noeviction");
        assert_string_equal(server->quorum, "");
        assert_true(server->announces == -1 && server->stale == -1); /* not read in classic mode */
        assert_int_equal(server->role, REDLOCK_ROLE_MASTER);
        assert_int_equal(server->replicas, 0);
        assert_int_equal(server->snapshots, 0);
        assert_int_equal(server->append_only, 0);
        assert_int_equal(server->writes_refused, 0);
        assert_int_equal(server->loading, 0);
        assert_int_equal(server->memory_bytes_max, 0);
        assert_int_equal(server->bind_known, 1);
        assert_true(server->clients >= 1 && server->clients_max >= server->clients &&
                    server->memory_bytes > 0);
        assert_true(server->answered_ns > server->asked_ns && server->clock_us > 0);
        assert_less((double)server->answered_ns / 1e6, now_ms() + 1);
        assert_int_equal(server_ask_integer(&three.at[i], "DBSIZE"), 0);
    }
    assert_result(redlock_server_info(client, REDLOCK_SERVER_INFO_CLOCK, servers, 3), REDLOCK_OK);
    assert_true(servers[0].clock_us > 0 && servers[0].clients == -1 &&
                servers[0].role == REDLOCK_ROLE_UNKNOWN);
    assert_string_equal(servers[0].eviction, "");
    redlock_client_free(client);
}

/* The answers of a stopped node come when nobody waits for them any more, or never. */
static void a_stopped_node_is_not_waited_for(void **state) {
    (void)state;
    for (int resumed = 0; resumed < 2; resumed++) {
        struct redlock_client_options options;
        redlock_client_options_init(&options);
        options.connect_timeout_ms = 300;
        struct redlock_client *client = open_client(&three, &options);
        struct redlock_server servers[3];
        size_all(servers, 3);
        server_pause(&three.at[1]);
        double began = now_ms();
        assert_result(redlock_server_info(client, REDLOCK_SERVER_INFO_ALL, servers, 3), REDLOCK_OK);
        assert_less(now_ms() - began, 2000);
        assert_int_equal(servers[1].verdict, REDLOCK_VERDICT_TIMEOUT);
        assert_int_equal(servers[1].answered_ns, -1);
        assert_int_equal(servers[2].verdict, REDLOCK_VERDICT_GRANTED);
        if (resumed) {
            server_resume(&three.at[1]);
            wait_until(nodes_ready(client) == 3, 3000);
            assert_result(redlock_server_info(client, REDLOCK_SERVER_INFO_ALL, servers, 3),
                          REDLOCK_OK);
            assert_int_equal(servers[1].verdict, REDLOCK_VERDICT_GRANTED);
        }
        redlock_client_free(client);
        server_resume(&three.at[1]);
    }
}

static void too_few_is_reported(void **state) {
    (void)state;
    server_kill(&three.at[0]);
    server_kill(&three.at[1]);
    struct redlock_client *client = open_calm(&three);
    struct redlock_server servers[3];
    size_all(servers, 3);
    assert_result(redlock_server_info(client, REDLOCK_SERVER_INFO_ALL, servers, 3),
                  REDLOCK_NO_QUORUM);
    assert_int_equal(servers[0].verdict, REDLOCK_VERDICT_REFUSED);
    assert_int_equal(servers[2].verdict, REDLOCK_VERDICT_GRANTED);
    redlock_client_free(client);
}

static void *server_info_often(void *context) {
    struct redlock_server servers[3];
    size_all(servers, 3);
    for (int i = 0; i < 100; i++)
        assert_result(
            redlock_server_info(
                context, i % 4 ? REDLOCK_SERVER_INFO_CLOCK : REDLOCK_SERVER_INFO_ALL, servers, 3),
            REDLOCK_OK);
    return NULL;
}

static void locks_go_on_meanwhile(void **state) {
    (void)state;
    struct redlock_client *client = open_calm(&three);
    pthread_t threads[3];
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, server_info_often, client), 0);
    struct redlock_lock *lock = new_lock(client, "meanwhile", NULL);
    for (int i = 0; i < 100; i++) {
        assert_result(redlock_try(lock), REDLOCK_OK);
        assert_result(redlock_release(lock), REDLOCK_OK);
    }
    for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
    redlock_lock_free(lock);
    redlock_client_free(client);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, start_three, stop_three)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(arguments_are_checked),
        TEST(all_is_reported_and_the_clock_alone),
        TEST(a_stopped_node_is_not_waited_for),
        TEST(too_few_is_reported),
        TEST(locks_go_on_meanwhile),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
