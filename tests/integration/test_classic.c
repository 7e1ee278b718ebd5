/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Single and classic mode on real servers: taken, refused, extended, released, for 1 to 15 nodes.
 */
#include "fixtures.h"

static void a_lock_is_taken_on_all_nodes_and_released(void **state) {
    (void)state;
    struct redlock_client *client = open_client(&five, NULL);
    struct redlock_lock *lock = new_lock(client, "taken", NULL);
    char value[200];
    assert_result(redlock_try(lock), REDLOCK_OK);
    assert_int_equal(redlock_lock_state(lock), REDLOCK_STATE_HELD);
    nap_ms(50); /* the stragglers */
    struct redlock_bytes token = redlock_token(lock);
    assert_int_equal(token.bytes, REDLOCK_TOKEN_HEX_BYTES);
    for (unsigned i = 0; i < 5; i++) {
        assert_true(server_get(&five.at[i], "taken", value, sizeof value));
        assert_memory_equal(value, token.data, token.bytes);
        long long left = server_ask_integer(&five.at[i], "PTTL taken");
        assert_in_range(left, 29000, 30000);
    }
    assert_in_range(redlock_validity_ms(lock), 29000, 30000 - 302 - 50);
    assert_result(redlock_release(lock), REDLOCK_OK);
    assert_int_equal(redlock_validity_ms(lock), 0);
    nap_ms(50);
    assert_int_equal(servers_holding(&five, "taken"), 0);
    redlock_lock_free(lock);
    redlock_client_free(client);
}

static void two_clients_exclude_each_other(void **state) {
    (void)state;
    struct redlock_client *a = open_client(&five, NULL), *b = open_client(&five, NULL);
    struct redlock_lock *mine = new_lock(a, "both", NULL), *yours = new_lock(b, "both", NULL);
    int verdicts[5];
    assert_result(redlock_try(mine), REDLOCK_OK);
    assert_result(redlock_try(yours), REDLOCK_HELD);
    assert_int_equal(redlock_verdicts(yours, verdicts, 5), 5);
    unsigned denied = 0;
    for (int i = 0; i < 5; i++) denied += verdicts[i] == REDLOCK_VERDICT_DENIED;
    assert_true(denied >= 3);
    assert_result(redlock_release(mine), REDLOCK_OK);
    assert_result(redlock_acquire(yours, 1000), REDLOCK_OK);
    assert_result(redlock_try(mine), REDLOCK_HELD);
    redlock_lock_free(yours);
    redlock_lock_free(mine);
    redlock_client_free(b);
    redlock_client_free(a);
    assert_int_equal(servers_holding(&five, "both"), 0);
}

static void any_number_of_nodes_will_do(void **state) {
    (void)state;
    for (unsigned n = 1; n <= 15; n += n < 5 ? 1 : 5) {
        struct servers servers;
        servers_start(&servers, n);
        struct redlock_client *a = open_client(&servers, NULL), *b = open_client(&servers, NULL);
        struct redlock_lock *mine = new_lock(a, "n", NULL), *yours = new_lock(b, "n", NULL);
        assert_result(redlock_try(mine), REDLOCK_OK);
        assert_result(redlock_try(yours), REDLOCK_HELD);
        assert_result(redlock_extend(mine, 0), REDLOCK_OK);
        assert_result(redlock_release(mine), REDLOCK_OK);
        assert_result(redlock_release(mine), REDLOCK_LOST);
        assert_result(redlock_acquire(yours, 2000), REDLOCK_OK);
        redlock_lock_free(mine);
        redlock_lock_free(yours);
        redlock_client_free(a);
        redlock_client_free(b);
        servers_stop(&servers);
    }
}

static void an_extension_never_shortens(void **state) {
    (void)state;
    struct redlock_client *client = open_client(&five, NULL);
    struct redlock_lock *lock = new_lock(client, "extend", NULL);
    assert_result(redlock_try(lock), REDLOCK_OK);
    assert_result(redlock_extend(lock, 1000), REDLOCK_OK);
    assert_true(redlock_validity_ms(lock) > 20000);
    assert_true(server_ask_integer(&five.at[0], "PTTL extend") > 20000);
    assert_result(redlock_extend(lock, 60000), REDLOCK_OK);
    assert_true(redlock_validity_ms(lock) > 50000);
    assert_result(redlock_release(lock), REDLOCK_OK);
    assert_result(redlock_extend(lock, 1000), REDLOCK_LOST);
    redlock_lock_free(lock);
    redlock_client_free(client);
}

static void several_resources_are_taken_all_or_none(void **state) {
    (void)state;
    struct redlock_client *client = open_client(&five, NULL);
    const struct redlock_bytes names[] = {{"m1", 2}, {"m2", 2}, {"m3", 2}};
    struct redlock_lock *all, *single = new_lock(client, "m2", NULL);
    assert_result(redlock_lock_new_multi(client, names, 3, NULL, &all, NULL), REDLOCK_OK);
    assert_result(redlock_try(single), REDLOCK_OK);
    assert_result(redlock_try(all), REDLOCK_HELD);
    nap_ms(50);
    assert_int_equal(servers_holding(&five, "m1"), 0);
    assert_int_equal(servers_holding(&five, "m3"), 0);
    assert_result(redlock_release(single), REDLOCK_OK);
    assert_result(redlock_acquire(all, 1000), REDLOCK_OK);
    assert_result(redlock_try(single), REDLOCK_HELD);
    assert_result(redlock_extend(all, 0), REDLOCK_OK);
    assert_result(redlock_release(all), REDLOCK_OK);
    nap_ms(50);
    assert_int_equal(servers_holding(&five, "m1") + servers_holding(&five, "m2") +
                         servers_holding(&five, "m3"),
                     0);
    redlock_lock_free(all);
    redlock_lock_free(single);
    redlock_client_free(client);
}

static void a_renewed_lock_outlives_its_ttl(void **state) {
    (void)state;
    struct redlock_lock_options options = lock_options(300);
    struct redlock_client *client = open_client(&five, NULL);
    struct redlock_lock *lock = new_lock(client, "renewed", &options);
    assert_result(redlock_try(lock), REDLOCK_OK);
    for (int i = 0; i < 20; i++) {
        nap_ms(50);
        assert_true(redlock_validity_ms(lock) > 0);
    }
    assert_int_equal(redlock_lock_state(lock), REDLOCK_STATE_HELD);
    assert_result(redlock_release(lock), REDLOCK_OK);
    redlock_lock_free(lock);
    redlock_client_free(client);
}

static void a_token_can_be_taken_over(void **state) {
    (void)state;
    struct redlock_client *client = open_client(&five, NULL);
    struct redlock_lock *lock = new_lock(client, "adopted", NULL),
                        *other = new_lock(client, "adopted", NULL);
    char token[REDLOCK_TOKEN_BYTES_MAX];
    assert_result(redlock_try(lock), REDLOCK_OK);
    size_t bytes = redlock_token(lock).bytes;
    memcpy(token, redlock_token(lock).data, bytes);
    assert_result(redlock_lock_disown(lock), REDLOCK_OK);
    assert_result(redlock_release(lock), REDLOCK_LOST);
    assert_result(redlock_lock_adopt(other, token, bytes), REDLOCK_OK);
    assert_int_equal(redlock_validity_ms(other), 0);
    assert_result(redlock_extend(other, 20000), REDLOCK_OK);
    assert_true(redlock_validity_ms(other) > 10000);
    assert_result(redlock_release(other), REDLOCK_OK);
    redlock_lock_free(other);
    redlock_lock_free(lock);
    redlock_client_free(client);
    assert_int_equal(servers_holding(&five, "adopted"), 0);
}

static void the_owner_is_part_of_the_token_and_the_prefix_of_the_key(void **state) {
    (void)state;
    struct redlock_client_options client_options;
    redlock_client_options_init(&client_options);
    client_options.key_prefix = "pre:";
    struct redlock_lock_options options = lock_options(5000);
    options.owner = "host:42";
    struct redlock_client *client = open_client(&five, &client_options);
    struct redlock_lock *lock = new_lock(client, "owned", &options);
    struct redlock_view views[5];
    assert_result(redlock_try(lock), REDLOCK_OK);
    assert_result(redlock_peek(client, "owned", 5, views, 5), REDLOCK_OK);
    assert_int_equal(views[0].verdict, REDLOCK_VERDICT_GRANTED);
    assert_int_equal(views[0].token_bytes, 48);
    assert_memory_equal(views[0].token + 40, ":host:42", 8);
    assert_int_equal(servers_holding(&five, "pre:owned"), 5);
    redlock_lock_free(lock);
    redlock_client_free(client);
    assert_int_equal(servers_holding(&five, "pre:owned"), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_lock_is_taken_on_all_nodes_and_released),
        cmocka_unit_test(two_clients_exclude_each_other),
        cmocka_unit_test(any_number_of_nodes_will_do),
        cmocka_unit_test(an_extension_never_shortens),
        cmocka_unit_test(several_resources_are_taken_all_or_none),
        cmocka_unit_test(a_renewed_lock_outlives_its_ttl),
        cmocka_unit_test(a_token_can_be_taken_over),
        cmocka_unit_test(the_owner_is_part_of_the_token_and_the_prefix_of_the_key),
    };
    return cmocka_run_group_tests(tests, start_five, stop_five);
}
