/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A lock that is kept when its process ends, or hands it over: a node that is connected only then
 * still gets the key, and never after a release has begun.
 */
#include "fixtures.h"
#include "proxy.h"

/* So late that the library does not wait for it (50 ms), and within one node timeout of that. */
#define LATE_MS 70

static struct proxy *proxy;
static struct servers seen; /* three servers, the third one behind the proxy */

static int begin(void **state) {
    (void)state;
    servers_start(&three, 3);
    proxy = proxy_start(three.at[2].port);
    proxy_delay(proxy, LATE_MS);
    seen = three;
    snprintf(seen.urls, sizeof seen.urls,
             "redis://127.0.0.1:%d,redis://127.0.0.1:%d,redis://127.0.0.1:%d", three.at[0].port,
             three.at[1].port, proxy_port(proxy));
    return 0;
}

static int end(void **state) {
    (void)state;
    proxy_stop(proxy);
    servers_stop(&three);
    return 0;
}

static void forget_keys(void) {
    for (int i = 0; i < 3; i++) freeReplyObject(server_ask(&three.at[i], "DEL kept"));
}

/* Takes the lock before the third node is connected. A busy machine may spoil a try. */
static struct redlock_client *take(bool service_thread, struct redlock_lock **lock) {
    struct redlock_client_options options;
    struct redlock_lock_options each = lock_options(20000);
    redlock_client_options_init(&options);
    options.service_thread = service_thread;
    for (int tries = 0; tries < 20; tries++) {
        struct redlock_client *client = NULL;
        assert_result(redlock_client_open(seen.urls, &options, &client, NULL), REDLOCK_OK);
        *lock = new_lock(client, "kept", &each);
        if (redlock_try(*lock) == REDLOCK_OK && servers_holding(&three, "kept") == 2) return client;
        redlock_lock_free(*lock);
        redlock_client_free(client);
        forget_keys();
    }
    fail_msg("the third node is never late");
    return NULL;
}

static void a_process_that_ends_gives_it_to_all(void **state) {
    (void)state;
    for (int service_thread = 0; service_thread < 2; service_thread++) {
        struct redlock_lock *lock = NULL;
        struct redlock_client *client = take(service_thread, &lock);
        assert_result(redlock_lock_disown(lock), REDLOCK_OK);
        assert_int_equal(redlock_lock_state(lock), REDLOCK_STATE_FREE);
        assert_result(redlock_extend(lock, 0), REDLOCK_LOST);
        assert_result(redlock_lock_disown(lock), REDLOCK_LOST);
        redlock_lock_free(lock);
        redlock_client_free(client);
        assert_int_equal(servers_holding(&three, "kept"), 3);
        const long long left = server_ask_integer(&three.at[2], "PTTL kept");
        assert_in_range(left, 15000, 20000);
        forget_keys();
    }
}

/* The token's next user may be in the same process: from there on the late node gets nothing. */
static void a_release_leaves_nothing(void **state) {
    (void)state;
    struct redlock_lock *lock = NULL;
    struct redlock_client *client = take(true, &lock);
    struct redlock_lock *other = new_lock(client, "kept", NULL);
    const struct redlock_bytes token = redlock_token(lock);
    char copy[64];
    assert_in_range(token.bytes, 1, sizeof copy);
    memcpy(copy, token.data, token.bytes);
    assert_result(redlock_lock_disown(lock), REDLOCK_OK);
    assert_result(redlock_lock_adopt(other, copy, token.bytes), REDLOCK_OK);
    redlock_lock_free(other);
    redlock_client_wait_ready(client, 2000);
    nap_ms(3 * LATE_MS);
    assert_int_equal(servers_holding(&three, "kept"), 0);
    redlock_lock_free(lock);
    redlock_client_free(client);
}

static void a_lock_that_is_freed_leaves_nothing(void **state) {
    (void)state;
    for (long ms = 0; ms < 60; ms += 5) {
        struct redlock_lock *lock = NULL;
        struct redlock_client *client = take(true, &lock);
        nap_ms(ms);
        redlock_lock_free(lock);
        redlock_client_wait_ready(client, 2000);
        nap_ms(2 * LATE_MS);
        assert_int_equal(servers_holding(&three, "kept"), 0);
        redlock_client_free(client);
    }
}

static void the_lock_is_used_again_at_once(void **state) {
    (void)state;
    struct redlock_lock *lock = NULL;
    struct redlock_client *client = take(true, &lock);
    assert_result(redlock_lock_disown(lock), REDLOCK_OK);
    assert_result(redlock_try(lock), REDLOCK_HELD);
    redlock_lock_free(lock);
    redlock_client_free(client);
    forget_keys();
}

/* A node that does not come costs one node timeout. */
static void the_wait_is_bounded(void **state) {
    (void)state;
    struct redlock_lock *lock = NULL;
    proxy_swallow(proxy, 1);
    struct redlock_client *client = take(true, &lock);
    assert_result(redlock_lock_disown(lock), REDLOCK_OK);
    redlock_lock_free(lock);
    const double before = now_ms();
    redlock_client_free(client);
    const double took = now_ms() - before;
    if (took < 30 || took > 600) fail_msg("redlock_client_free() took %.0f ms, not 50", took);
    proxy_swallow(proxy, 0);
    forget_keys();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_process_that_ends_gives_it_to_all),
        cmocka_unit_test(a_release_leaves_nothing),
        cmocka_unit_test(a_lock_that_is_freed_leaves_nothing),
        cmocka_unit_test(the_lock_is_used_again_at_once),
        cmocka_unit_test(the_wait_is_bounded),
    };
    return cmocka_run_group_tests_name("late", tests, begin, end);
}
