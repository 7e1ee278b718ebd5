/* SPDX-License-Identifier: BSD-2-Clause
 *
 * redlock_break() on real servers: what the holder's program notices, what a break leaves alone,
 * and what it refuses. tests/cli/test_break.py has the command.
 */
#include "fixtures.h"
#include "notices.h"

#include "redlock/admin.h"

static struct redlock_break_report report;
static struct redlock_error why;

static int break_lock(struct redlock_client *client, const char *resource,
                      const struct redlock_break_options *options) {
    redlock_break_report_init(&report);
    why.text[0] = '\0';
    return redlock_break(client, resource, strlen(resource), options, &report, &why);
}

static struct redlock_break_options naming(const char *token) {
    struct redlock_break_options options;
    redlock_break_options_init(&options);
    options.token = token;
    options.token_bytes = strlen(token);
    return options;
}

static void put(const char *resource, const char *token) {
    for (unsigned i = 0; i < five.count; i++)
        freeReplyObject(server_ask(&five.at[i], "SET %s %s PX 60000", resource, token));
}

static void test_the_holder_is_notified_at_its_next_renewal(void **state) {
    (void)state;
    struct notices notices = {.count = {0}};
    struct redlock_client *client = open_calm(&five), *operator_ = open_calm(&five);
    struct redlock_lock_options options = notices_options(3000, &notices);
    options.owner = "web1";
    struct redlock_lock *lock = new_lock(client, "job", &options);
    assert_int_equal(redlock_try(lock), REDLOCK_OK);
    double began = now_ms();
    assert_int_equal(break_lock(operator_, "job", NULL), REDLOCK_OK);
    assert_int_equal(report.deleted, 1);
    assert_int_equal(report.certain, 1);
    assert_int_equal(report.silent, 0);
    assert_int_equal(report.fence, 0);
    assert_int_equal(report.owner_bytes, 4);
    assert_memory_equal(report.owner, "web1", 4);
    assert_true(report.remaining_ms > 1500 && report.remaining_ms <= 3000);
    for (int i = 0; i < 5; i++) assert_int_equal(report.verdicts[i], REDLOCK_VERDICT_GRANTED);
    assert_int_equal(servers_holding(&five, "job"), 0);
    wait_until(notices.count[REDLOCK_CHANGE_LOST] == 1, 2900);
    assert_less(notices.last[REDLOCK_CHANGE_LOST] - began,
                2500); /* long before its validity ends */
    assert_int_equal(redlock_validity_ms(lock), 0);
    assert_int_equal(servers_holding(&five, "job"), 0); /* no renewal has set it again */
    redlock_lock_free(lock);
    redlock_client_free(client);
    redlock_client_free(operator_);
}

/* One of its keys is enough to lose it; the others stay until the release. */
static void test_a_lock_on_several_resources_is_lost_as_a_whole(void **state) {
    (void)state;
    struct notices notices = {.count = {0}};
    struct redlock_client *client = open_calm(&five), *operator_ = open_calm(&five);
    struct redlock_lock_options options = notices_options(3000, &notices);
    struct redlock_bytes resources[] = {{"many-a", 6}, {"many-b", 6}};
    struct redlock_lock *lock = NULL;
    assert_int_equal(redlock_lock_new_multi(client, resources, 2, &options, &lock, NULL),
                     REDLOCK_OK);
    assert_int_equal(redlock_try(lock), REDLOCK_OK);
    assert_int_equal(break_lock(operator_, "many-a", NULL), REDLOCK_OK);
    assert_int_equal(servers_holding(&five, "many-a"), 0);
    assert_int_equal(servers_holding(&five, "many-b"), 5);
    wait_until(notices.count[REDLOCK_CHANGE_LOST] == 1, 2900);
    assert_int_equal(servers_holding(&five, "many-a"), 0);
    redlock_lock_free(lock);
    wait_until(servers_holding(&five, "many-b") == 0, 1000);
    redlock_client_free(client);
    redlock_client_free(operator_);
}

static void test_a_token_that_does_not_hold_it_any_more(void **state) {
    (void)state;
    struct redlock_client *client = open_calm(&five);
    struct redlock_break_options seen = naming("seen"), holds = naming("holds");
    put("named", "holds");
    assert_int_equal(break_lock(client, "named", &seen), REDLOCK_CONFLICT);
    assert_non_null(strstr(why.text, "changed hands"));
    assert_int_equal(report.deleted, 0);
    assert_int_equal(servers_holding(&five, "named"), 5);
    assert_int_equal(break_lock(client, "named", &holds), REDLOCK_OK);
    assert_int_equal(report.deleted, 1);
    assert_int_equal(break_lock(client, "named", &holds), REDLOCK_OK); /* free: nothing to do */
    assert_int_equal(report.deleted, 0);
    redlock_client_free(client);
}

/* Nothing is repeated, and the delete is confirmed all the same. */
static void test_without_patience(void **state) {
    (void)state;
    struct redlock_client *client = open_calm(&five);
    struct redlock_break_options options;
    redlock_break_options_init(&options);
    options.retry_ms = 0;
    put("hasty", "holds");
    assert_int_equal(break_lock(client, "hasty", &options), REDLOCK_OK);
    assert_int_equal(report.deleted, 1);
    assert_int_equal(report.certain, 1);
    assert_int_equal(servers_holding(&five, "hasty"), 0);
    redlock_client_free(client);
}

/* The reason is that of the nodes that are down, and no word of the one that is up. */
static void test_too_few_nodes_are_connected(void **state) {
    (void)state;
    char up[40], urls[128];
    struct redlock_client *client;
    snprintf(up, sizeof up, "redis://127.0.0.1:%d", five.at[0].port);
    snprintf(urls, sizeof urls, "%s redis://127.0.0.1:1 redis://127.0.0.1:2", up);
    assert_int_equal(redlock_client_open(urls, NULL, &client, NULL), REDLOCK_OK);
    assert_int_equal(redlock_client_wait_ready(client, 2000), 1);
    assert_int_equal(break_lock(client, "job", NULL), REDLOCK_NO_QUORUM);
    assert_non_null(strstr(why.text, "127.0.0.1:1 (connection refused"));
    assert_null(strstr(why.text, up));
    assert_int_equal(report.verdicts[0], REDLOCK_VERDICT_NONE);
    assert_int_equal(report.verdicts[1], REDLOCK_VERDICT_REFUSED);
    redlock_client_free(client);
}

static void test_the_prefix_is_a_part_of_the_key(void **state) {
    (void)state;
    struct redlock_client_options options;
    redlock_client_options_init(&options);
    options.key_prefix = "team:";
    struct redlock_client *client = open_client(&five, &options);
    put("team:x", "t");
    put("x", "t");
    assert_int_equal(break_lock(client, "x", NULL), REDLOCK_OK);
    assert_int_equal(servers_holding(&five, "team:x"), 0);
    assert_int_equal(servers_holding(&five, "x"), 5);
    redlock_client_free(client);
}

static void test_refused(void **state) {
    (void)state;
    struct redlock_client *client = open_calm(&five), *setnx = NULL;
    struct redlock_break_options options = naming("x");
    char url[80];
    options.token_bytes = REDLOCK_TOKEN_BYTES_MAX + 1;
    assert_int_equal(break_lock(client, "x", &options), REDLOCK_BAD_ARGUMENT);
    options = naming("x");
    options.retry_ms = -1;
    assert_int_equal(break_lock(client, "x", &options), REDLOCK_BAD_ARGUMENT);
    assert_int_equal(break_lock(client, "", NULL), REDLOCK_BAD_ARGUMENT);
    assert_int_equal(redlock_break(client, "x", 1, NULL, NULL, &why), REDLOCK_BAD_ARGUMENT);
    snprintf(url, sizeof url, "redis://127.0.0.1:%d?scheme=setnx", five.at[0].port);
    assert_int_equal(redlock_client_open(url, NULL, &setnx, &why), REDLOCK_OK);
    freeReplyObject(server_ask(&five.at[0], "SET old 1790000000"));
    assert_int_equal(break_lock(setnx, "old", NULL), REDLOCK_BAD_ARGUMENT);
    assert_non_null(strstr(why.text, "scheme=setnx"));
    assert_int_equal(server_ask_integer(&five.at[0], "EXISTS old"), 1);
    redlock_client_free(setnx);
    redlock_client_free(client);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_holder_is_notified_at_its_next_renewal),
        cmocka_unit_test(test_a_lock_on_several_resources_is_lost_as_a_whole),
        cmocka_unit_test(test_a_token_that_does_not_hold_it_any_more),
        cmocka_unit_test(test_without_patience),
        cmocka_unit_test(test_too_few_nodes_are_connected),
        cmocka_unit_test(test_the_prefix_is_a_part_of_the_key),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, start_five, stop_five);
}
