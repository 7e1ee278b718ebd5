/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Nodes that are stopped, killed and restarted under locks that are being taken or held.
 */
#include "fixtures.h"
#include "notices.h"

static struct redlock_client *open_whole(int64_t node_timeout_ms) {
    struct redlock_client *client = open_patient(&five, node_timeout_ms, 1);
    assert_int_equal(nodes_ready(client), 5);
    return client;
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Takes and releases it some times; the median of what taking took. */
static double median_acquire_ms(struct redlock_lock *lock) {
    double took[9];
    for (int i = 0; i < 9; i++) {
        double began = now_ms();
        assert_result(redlock_try(lock), REDLOCK_OK);
        took[i] = now_ms() - began;
        assert_result(redlock_release(lock), REDLOCK_OK);
    }
    qsort(took, 9, sizeof took[0], by_value);
    return took[4];
}

static void two_stopped_nodes_cost_no_timeout(void **state) {
    (void)state;
    struct redlock_client *client = open_whole(1000);
    struct redlock_lock *lock = new_lock(client, "two", NULL);
    assert_result(redlock_try(lock), REDLOCK_OK);
    assert_result(redlock_release(lock), REDLOCK_OK);
    server_pause(&five.at[1]);
    server_pause(&five.at[3]);
    /* The first meets the stall unprepared, and wins all the same as soon as three have granted. */
    double began = now_ms();
    assert_result(redlock_try(lock), REDLOCK_OK);
    assert_less(now_ms() - began, 500);
    assert_result(redlock_release(lock), REDLOCK_OK);
    assert_less(now_ms() - began, 800);
    assert_less(median_acquire_ms(lock), 100);
    nap_ms(1100); /* now their answers are overdue, and they are not asked at all */
    assert_int_equal(nodes_ready(client), 3);
    assert_less(median_acquire_ms(lock), 100);
    server_resume(&five.at[1]);
    server_resume(&five.at[3]);
    wait_until(nodes_ready(client) == 5, 2000);
    assert_int_equal(servers_holding(&five, "two"), 0);
    assert_int_equal(stats_of(client).reconnects, 0);
    redlock_lock_free(lock);
    redlock_client_free(client);
}

static void stragglers_after_a_win_change_nothing(void **state) {
    (void)state;
    struct notices notices = {0};
    struct redlock_lock_options options = notices_options(10000, &notices);
    struct redlock_client *client = open_whole(500);
    struct redlock_lock *lock = new_lock(client, "stragglers", &options);
    server_pause(&five.at[0]);
    server_pause(&five.at[4]);
    assert_result(redlock_try(lock), REDLOCK_OK);
    int64_t end = redlock_validity_end_ns(lock);
    server_resume(&five.at[0]);
    server_resume(&five.at[4]);
    wait_until(servers_holding(&five, "stragglers") == 5, 2000);
    nap_ms(50);
    assert_int_equal(redlock_lock_state(lock), REDLOCK_STATE_HELD);
    assert_true(llabs(redlock_validity_end_ns(lock) - end) < 1000000);
    assert_result(redlock_extend(lock, 20000), REDLOCK_OK);
    assert_result(redlock_release(lock), REDLOCK_OK);
    wait_until(servers_holding(&five, "stragglers") == 0, 1000);
    /* Taken, released and taken again while both lag: each straggler belongs to a round of its
     * own. */
    server_pause(&five.at[0]);
    server_pause(&five.at[4]);
    for (int i = 0; i < 5; i++) {
        assert_result(redlock_try(lock), REDLOCK_OK);
        if (i < 4) assert_result(redlock_release(lock), REDLOCK_OK);
    }
    server_resume(&five.at[0]);
    server_resume(&five.at[4]);
    wait_until(servers_holding(&five, "stragglers") == 5, 2000);
    assert_result(redlock_release(lock), REDLOCK_OK);
    wait_until(servers_holding(&five, "stragglers") == 0, 1000);
    assert_int_equal(notices.count[REDLOCK_CHANGE_LOST] + notices.count[REDLOCK_CHANGE_UNSURE], 0);
    redlock_lock_free(lock);
    redlock_client_free(client);
}

static void three_stopped_nodes_are_no_quorum(void **state) {
    (void)state;
    struct redlock_client *client = open_whole(400);
    struct redlock_lock *lock = new_lock(client, "three", NULL);
    int verdicts[5];
    for (int i = 0; i < 3; i++) server_pause(&five.at[i]);
    double began = now_ms();
    assert_result(redlock_try(lock), REDLOCK_NO_QUORUM);
    assert_less(now_ms() - began, 400 + 400 + 200);
    assert_int_equal(servers_holding(&five, "three"), 0);
    assert_int_equal(redlock_verdicts(lock, verdicts, 5), 5);
    for (int i = 0; i < 5; i++)
        assert_int_equal(verdicts[i], i < 3 ? REDLOCK_VERDICT_TIMEOUT : REDLOCK_VERDICT_GRANTED);
    /* Known to be silent, they are not waited for again, and nothing is set where it could not
     * help. */
    began = now_ms();
    assert_result(redlock_acquire(lock, 500), REDLOCK_NO_QUORUM);
    assert_less(now_ms() - began, 800);
    assert_int_equal(servers_holding(&five, "three"), 0);
    for (int i = 0; i < 3; i++) server_resume(&five.at[i]);
    /* Their SETs are executed now, and behind each its release. */
    wait_until(nodes_ready(client) == 5, 2000);
    assert_int_equal(servers_holding(&five, "three"), 0);
    assert_result(redlock_try(lock), REDLOCK_OK);
    wait_until(servers_holding(&five, "three") == 5, 1000);
    assert_result(redlock_release(lock), REDLOCK_OK);
    assert_int_equal(stats_of(client).reconnects, 0);
    redlock_lock_free(lock);
    redlock_client_free(client);
}

static void restart_all(struct servers *servers) {
    for (unsigned i = 0; i < servers->count; i++) server_kill(&servers->at[i]);
    for (unsigned i = 0; i < servers->count; i++) server_restart(&servers->at[i]);
}

static void a_lease_is_not_resurrected_when_all_nodes_were_restarted(void **state) {
    (void)state;
    struct notices notices = {0};
    struct redlock_lock_options options = notices_options(3000, &notices);
    struct redlock_client *client = open_calm(&five);
    struct redlock_lock *lock = new_lock(client, "restarted", &options);
    assert_result(redlock_try(lock), REDLOCK_OK);
    wait_until(notices.count[REDLOCK_CHANGE_RENEWED] == 1, 2000);
    double end = (double)redlock_validity_end_ns(lock) / 1e6;
    restart_all(&five);
    assert_less(now_ms(), notices.last[REDLOCK_CHANGE_RENEWED] +
                              1000); /* between two renewals, or this tests less */
    end = validity_end_until_lost(lock, &notices, 4000);
    assert_less(notices.first[REDLOCK_CHANGE_LOST], end);
    assert_int_equal(notices.count[REDLOCK_CHANGE_RENEWED], 1);
    assert_int_equal(redlock_lock_state(lock), REDLOCK_STATE_LOST);
    assert_int_equal(redlock_validity_ms(lock), 0);
    assert_result(redlock_extend(lock, 0), REDLOCK_LOST);
    /* Nodes that came back before the loss, and less than a majority, may have been given the key;
     * afterwards none is. */
    unsigned given = servers_holding(&five, "restarted");
    assert_less(given, 3);
    for (int i = 0; i < 12; i++) {
        nap_ms(100); /* over the next renewal's time */
        const unsigned now = servers_holding(&five, "restarted");
        assert_less(now, given + 1);
        given = now;
    }
    assert_int_equal(notices.count[REDLOCK_CHANGE_LOST], 1);
    assert_result(redlock_release(lock), REDLOCK_LOST);
    assert_int_equal(notices.count[REDLOCK_CHANGE_LOST], 1);
    assert_result(redlock_acquire(lock, 2000), REDLOCK_OK);
    assert_result(redlock_release(lock), REDLOCK_OK);
    redlock_lock_free(lock);
    redlock_client_free(client);
}

static void a_node_restarted_empty_is_repaired_by_the_renewal(void **state) {
    (void)state;
    struct notices notices = {0};
    struct redlock_lock_options options = notices_options(1500, &notices);
    struct redlock_client *client = open_calm(&five);
    struct redlock_lock *lock = new_lock(client, "repaired", &options);
    char value[200], token[REDLOCK_TOKEN_HEX_BYTES + 1] = "";
    assert_result(redlock_try(lock), REDLOCK_OK);
    memcpy(token, redlock_token(lock).data, REDLOCK_TOKEN_HEX_BYTES);
    server_restart(&five.at[2]);
    wait_until(servers_holding(&five, "repaired") == 5, 2000);
    assert_true(server_get(&five.at[2], "repaired", value, sizeof value));
    assert_string_equal(value, token);
    assert_in_range(server_ask_integer(&five.at[2], "PTTL repaired"), 1, 1500);
    /* What another put there meanwhile stays. */
    server_restart(&five.at[2]);
    freeReplyObject(server_ask(&five.at[2], "SET repaired stranger"));
    int renewals = notices.count[REDLOCK_CHANGE_RENEWED];
    wait_until(notices.count[REDLOCK_CHANGE_RENEWED] >= renewals + 2, 3000);
    assert_true(server_get(&five.at[2], "repaired", value, sizeof value));
    assert_string_equal(value, "stranger");
    assert_int_equal(notices.count[REDLOCK_CHANGE_UNSURE] + notices.count[REDLOCK_CHANGE_LOST], 0);
    assert_result(redlock_release(lock), REDLOCK_OK);
    wait_until(servers_holding(&five, "repaired") == 1, 1000);
    freeReplyObject(server_ask(&five.at[2], "DEL repaired"));
    redlock_lock_free(lock);
    redlock_client_free(client);
}

static void a_lease_goes_on_when_two_nodes_die(void **state) {
    (void)state;
    struct notices notices = {0};
    struct redlock_lock_options options = notices_options(900, &notices);
    struct redlock_client *client = open_calm(&five);
    struct redlock_lock *lock = new_lock(client, "minority", &options);
    assert_result(redlock_try(lock), REDLOCK_OK);
    server_kill(&five.at[0]);
    server_kill(&five.at[4]);
    for (int i = 0; i < 90; i++) {
        nap_ms(20);
        assert_true(redlock_validity_ms(lock) > 0);
    }
    assert_true(notices.count[REDLOCK_CHANGE_RENEWED] >= 3);
    assert_int_equal(notices.count[REDLOCK_CHANGE_UNSURE] + notices.count[REDLOCK_CHANGE_LOST], 0);
    assert_int_equal(servers_holding(&five, "minority"), 3);
    assert_result(redlock_release(lock), REDLOCK_OK);
    assert_result(redlock_try(lock), REDLOCK_OK);
    redlock_lock_free(lock);
    redlock_client_free(client);
    server_restart(&five.at[0]);
    server_restart(&five.at[4]);
}

static void a_lease_is_reported_unsure_then_lost_when_three_nodes_die(void **state) {
    (void)state;
    struct notices notices = {0};
    struct redlock_lock_options options = notices_options(1500, &notices);
    options.lost_margin_ms = 300;
    struct redlock_client *client = open_calm(&five);
    struct redlock_lock *lock = new_lock(client, "majority", &options);
    assert_result(redlock_try(lock), REDLOCK_OK);
    for (int i = 1; i < 4; i++) server_kill(&five.at[i]);
    wait_until(notices.count[REDLOCK_CHANGE_UNSURE] == 1, 1400);
    assert_int_equal(redlock_lock_state(lock), REDLOCK_STATE_UNSURE);
    assert_true(redlock_validity_ms(lock) > 300);
    double end = validity_end_until_lost(lock, &notices, 2000);
    assert_less(notices.first[REDLOCK_CHANGE_UNSURE], notices.first[REDLOCK_CHANGE_LOST]);
    assert_less(end - 300 - 1, notices.first[REDLOCK_CHANGE_LOST]);
    assert_less(notices.first[REDLOCK_CHANGE_LOST], end - 100);
    nap_ms(400);
    assert_int_equal(notices.count[REDLOCK_CHANGE_LOST], 1);
    assert_int_equal(notices.count[REDLOCK_CHANGE_UNSURE], 1);
    assert_result(redlock_extend(lock, 0), REDLOCK_LOST);
    for (int i = 1; i < 4; i++) server_restart(&five.at[i]);
    wait_until(nodes_ready(client) == 5, 3000);
    assert_result(redlock_release(lock), REDLOCK_LOST);
    assert_result(redlock_try(lock), REDLOCK_OK);
    redlock_lock_free(lock);
    redlock_client_free(client);
}

static void a_lease_is_sure_again_when_the_nodes_answer_in_time(void **state) {
    (void)state;
    struct notices notices = {0};
    struct redlock_lock_options options = notices_options(2400, &notices);
    struct redlock_client *client = open_calm(&five);
    struct redlock_lock *lock = new_lock(client, "sure", &options);
    assert_result(redlock_try(lock), REDLOCK_OK);
    for (int i = 0; i < 3; i++) server_pause(&five.at[i]);
    wait_until(notices.count[REDLOCK_CHANGE_UNSURE] == 1, 1500);
    for (int i = 0; i < 3; i++) server_resume(&five.at[i]);
    wait_until(notices.count[REDLOCK_CHANGE_SURE] == 1, 1000);
    assert_int_equal(redlock_lock_state(lock), REDLOCK_STATE_HELD);
    assert_true(redlock_validity_ms(lock) > 1000);
    int renewals = notices.count[REDLOCK_CHANGE_RENEWED];
    wait_until(notices.count[REDLOCK_CHANGE_RENEWED] > renewals, 2000);
    assert_int_equal(notices.count[REDLOCK_CHANGE_LOST], 0);
    assert_int_equal(notices.count[REDLOCK_CHANGE_UNSURE], 1);
    assert_result(redlock_release(lock), REDLOCK_OK);
    redlock_lock_free(lock);
    redlock_client_free(client);
}

struct seen_verdicts {
    atomic_int changes;
    int verdicts[REDLOCK_NODES_MAX];
};

static void keep_verdicts(void *context, struct redlock_lock *lock, int change) {
    struct seen_verdicts *seen = context;
    if (change != REDLOCK_CHANGE_UNSURE || seen->changes > 0) return;
    redlock_verdicts(lock, seen->verdicts, REDLOCK_NODES_MAX);
    seen->changes++; /* last: the other thread reads the verdicts then */
}

static void a_lease_that_becomes_unsure_has_the_verdicts_of_the_nodes(void **state) {
    (void)state;
    struct seen_verdicts seen = {0};
    struct redlock_lock_options options = lock_options(2400);
    options.on_change = keep_verdicts;
    options.on_change_context = &seen;
    struct redlock_client *client = open_calm(&five);
    struct redlock_lock *lock = new_lock(client, "causes", &options);
    assert_result(redlock_try(lock), REDLOCK_OK);
    for (int i = 0; i < 3; i++) server_pause(&five.at[i]);
    wait_until(seen.changes == 1, 1500);
    for (int i = 0; i < 3; i++) server_resume(&five.at[i]);
    for (int i = 0; i < 5; i++)
        assert_int_equal(seen.verdicts[i],
                         i < 3 ? REDLOCK_VERDICT_TIMEOUT : REDLOCK_VERDICT_GRANTED);
    assert_result(redlock_release(lock), REDLOCK_OK);
    redlock_lock_free(lock);
    redlock_client_free(client);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(two_stopped_nodes_cost_no_timeout, start_five, stop_five),
        cmocka_unit_test_setup_teardown(stragglers_after_a_win_change_nothing, start_five,
                                        stop_five),
        cmocka_unit_test_setup_teardown(three_stopped_nodes_are_no_quorum, start_five, stop_five),
        cmocka_unit_test_setup_teardown(a_lease_is_not_resurrected_when_all_nodes_were_restarted,
                                        start_five, stop_five),
        cmocka_unit_test_setup_teardown(a_node_restarted_empty_is_repaired_by_the_renewal,
                                        start_five, stop_five),
        cmocka_unit_test_setup_teardown(a_lease_goes_on_when_two_nodes_die, start_five, stop_five),
        cmocka_unit_test_setup_teardown(a_lease_is_reported_unsure_then_lost_when_three_nodes_die,
                                        start_five, stop_five),
        cmocka_unit_test_setup_teardown(a_lease_is_sure_again_when_the_nodes_answer_in_time,
                                        start_five, stop_five),
        cmocka_unit_test_setup_teardown(a_lease_that_becomes_unsure_has_the_verdicts_of_the_nodes,
                                        start_five, stop_five),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
