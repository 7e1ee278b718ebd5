/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A client, a lock or a gate that is NULL: every function that returns a result says BAD_ARGUMENT.
 * All other arguments are good ones.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "redlock/admin.h"
#include "redlock/fence.h"
#include "redlock/metrics.h"

/* Names the call, and goes on with the next one. */
#define REFUSES(call)                                                                              \
    do {                                                                                           \
        const int result = (call);                                                                 \
        if (result != REDLOCK_BAD_ARGUMENT) print_error("%s: %d\n", #call, result);                \
        wrong += result != REDLOCK_BAD_ARGUMENT;                                                   \
    } while (0)

static struct redlock_client *const no_client = NULL;
static struct redlock_lock *const no_lock = NULL;
static struct redlock_view views[REDLOCK_NODES_MAX];

static void done(void *context, struct redlock_lock *lock, int result) {
    (void)context;
    (void)lock;
    (void)result;
}

static void on_event(void *context, const struct redlock_event *event) {
    (void)context;
    (void)event;
}

static void on_leader(void *context, const struct redlock_leader *leader) {
    (void)context;
    (void)leader;
}

static void on_resource(void *context, const void *resource, size_t bytes) {
    (void)context;
    (void)resource;
    (void)bytes;
}

static void on_key(void *context, size_t node, int what, const void *resource, size_t bytes) {
    (void)context;
    (void)node;
    (void)what;
    (void)resource;
    (void)bytes;
}

static void a_client(void **state) {
    int wrong = 0;
    struct redlock_error error = {0};
    struct redlock_lock *lock = NULL;
    struct redlock_observer *observer = NULL;
    struct redlock_node_status status;
    struct redlock_stats stats;
    struct redlock_why_report why;
    (void)state;
    redlock_why_report_init(&why);
    redlock_node_status_init(&status);
    redlock_stats_init(&stats);
    REFUSES(redlock_client_wait_ready(no_client, 0));
    REFUSES(redlock_client_reload(no_client, &error));
    REFUSES(redlock_client_node(no_client, 0, &status));
    REFUSES(redlock_client_stats(no_client, &stats));
    REFUSES(redlock_why(no_client, NULL, REDLOCK_HELD, NULL, &why));
    REFUSES(redlock_client_observe(no_client, on_event, NULL));
    REFUSES(redlock_process(no_client));
    REFUSES(redlock_lock_new(no_client, "r", 1, NULL, &lock, &error));
    REFUSES(redlock_peek(no_client, "r", 1, views, REDLOCK_NODES_MAX));
    REFUSES(redlock_observe_start(no_client, "r", 1, on_leader, NULL, &observer, &error));
    assert_int_equal(wrong, 0);
}

static void a_client_of_an_operator(void **state) {
    int wrong = 0;
    char type[16];
    const struct redlock_bytes resource = {"r", 1};
    struct redlock_error error = {0};
    struct redlock_walk walk;
    struct redlock_break_report report;
    struct redlock_readers_view readers;
    struct redlock_server server;
    struct redlock_own_key keys[REDLOCK_OWN_KEYS];
    struct redlock_quorum_status quorum;
    (void)state;
    redlock_walk_init(&walk);
    redlock_break_report_init(&report);
    redlock_server_init(&server);
    redlock_quorum_status_init(&quorum);
    REFUSES(redlock_list(no_client, on_resource, NULL));
    REFUSES(redlock_key_type(no_client, "r", 1, type, sizeof type));
    REFUSES(redlock_break(no_client, "r", 1, NULL, &report, &error));
    REFUSES(redlock_await_free(no_client, "r", 1, 0));
    REFUSES(redlock_scan(no_client, &walk, on_key, NULL));
    REFUSES(redlock_survey(no_client, &resource, 1, views, NULL));
    REFUSES(redlock_readers(no_client, &resource, 1, 0, NULL, NULL, &readers));
    REFUSES(redlock_server_info(no_client, REDLOCK_SERVER_INFO_ALL, &server, 1));
    REFUSES(redlock_own_keys(no_client, 0, "r", 1, keys));
    REFUSES(redlock_quorum_peek(no_client, &quorum, NULL, 0));
    REFUSES(redlock_quorum_init(no_client, NULL, &error));
    REFUSES(redlock_quorum_add(no_client, 0, NULL, &error));
    REFUSES(redlock_quorum_remove(no_client, "0123456789abcdef", NULL, &error));
    REFUSES(redlock_quorum_set_ttl_max(no_client, 1000, NULL, &error));
    assert_string_equal(error.text, "the client must not be NULL");
    assert_int_equal(wrong, 0);
}

static void a_lock(void **state) {
    int wrong = 0;
    struct redlock_wait_status status;
    (void)state;
    redlock_wait_status_init(&status);
    REFUSES(redlock_try(no_lock));
    REFUSES(redlock_acquire(no_lock, 0));
    REFUSES(redlock_extend(no_lock, 0));
    REFUSES(redlock_downgrade(no_lock));
    REFUSES(redlock_release(no_lock));
    REFUSES(redlock_acquire_start(no_lock, 0, done, NULL));
    REFUSES(redlock_extend_start(no_lock, 0, done, NULL));
    REFUSES(redlock_downgrade_start(no_lock, done, NULL));
    REFUSES(redlock_release_start(no_lock, done, NULL));
    REFUSES(redlock_acquire_many(&no_lock, 1, 0, NULL));
    REFUSES(redlock_release_many(&no_lock, 1, NULL));
    REFUSES(redlock_acquire_many_start(&no_lock, 1, 0, NULL, done, NULL));
    REFUSES(redlock_release_many_start(&no_lock, 1, NULL, done, NULL));
    REFUSES(redlock_acquire_all(&no_lock, 1, 0));
    REFUSES(redlock_acquire_all_start(&no_lock, 1, 0, done, NULL));
    REFUSES(redlock_await_free_start(no_lock, 0, done, NULL));
    REFUSES(redlock_lock_adopt(no_lock, "t", 1));
    REFUSES(redlock_lock_adopt_fenced(no_lock, "t", 1, 1));
    REFUSES(redlock_lock_disown(no_lock));
    REFUSES(redlock_peek_start(no_lock, views, REDLOCK_NODES_MAX, done, NULL));
    REFUSES(redlock_lock_wait_status(no_lock, &status));
    assert_int_equal(wrong, 0);
}

static void a_gate(void **state) {
    int wrong = 0;
    int64_t least = 0;
    (void)state;
    REFUSES(redlock_fence_admit(NULL, "r", 1, 1));
    REFUSES(redlock_fence_admit_shared(NULL, "r", 1, 1));
    REFUSES(redlock_fence_do(NULL, "r", 1, 1, NULL, NULL));
    REFUSES(redlock_fence_do_shared(NULL, "r", 1, 1, NULL, NULL));
    REFUSES(redlock_fence_least(NULL, "r", 1, &least));
    assert_int_equal(wrong, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_client),
        cmocka_unit_test(a_client_of_an_operator),
        cmocka_unit_test(a_lock),
        cmocka_unit_test(a_gate),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
