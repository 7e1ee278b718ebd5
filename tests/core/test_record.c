/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What a record says of a server, and the record of the next epoch. */
#include "machine.h"

#include "core/guard.h"

/* Of `members` members: 100, 101, ... at redis://n0, redis://n1, ... */
static struct rl_record record_of(unsigned members) {
    struct rl_record record = {.format = RL_RECORD_FORMAT,
                               .quorum_id = 77,
                               .node_id = 100,
                               .epoch = 4,
                               .begun = 1,
                               .settled = true,
                               .members_count = (uint8_t)members,
                               .eligibility = RL_RECORD_INTACT,
                               .evicted = 3,
                               .nonce = 9,
                               .ttl_max_ms = 1000,
                               .ttl_next_ms = 1000,
                               .ballot = 0x20001,
                               .accepted_ballot = 0x10001,
                               .accepted = {.kind = RL_CHANGE_REMOVE, .id = 101}};
    strcpy(record.run_id, "run");
    strcpy(record.replid, "data");
    for (unsigned i = 0; i < members; i++) {
        record.members[i].id = 100 + i;
        snprintf(record.members[i].url, sizeof record.members[i].url, "redis://n%u", i);
        record.members[i].incarnation.number = i + 1;
        snprintf(record.members[i].incarnation.run_id, RL_RUN_ID_BYTES, "run%u", i);
    }
    return record;
}

/* ---- incarnations ---- */

static void test_the_higher_number_counts_then_the_greater_run_id(void **state) {
    (void)state;
    const struct rl_incarnation old = {3, "b"}, young = {4, "a"}, greater = {4, "b"};
    assert_int_equal(rl_incarnation_compare(&old, &young), -1);
    assert_int_equal(rl_incarnation_compare(&young, &old), 1);
    assert_true(rl_incarnation_compare(&young, &greater) < 0);
    assert_true(rl_incarnation_compare(&greater, &young) > 0);
    assert_int_equal(rl_incarnation_compare(&greater, &greater), 0);
}

static void test_an_incarnation_follows(void **state) {
    (void)state;
    struct rl_incarnation incarnation;
    memset(&incarnation, 'x', sizeof incarnation);
    incarnation.number = UINT32_MAX - 1;
    rl_incarnation_follow(&incarnation, "next");
    assert_int_equal(incarnation.number, UINT32_MAX);
    assert_string_equal(incarnation.run_id, "next");
    assert_int_equal(incarnation.run_id[5], 'x'); /* it copies no more than the run_id */
    rl_incarnation_follow(&incarnation, "");
    assert_int_equal(incarnation.number, UINT32_MAX);
    assert_string_equal(incarnation.run_id, "");
}

/* ---- the server that it was written for ---- */

static void test_a_record_fits_its_server_and_its_data(void **state) {
    (void)state;
    struct rl_record record = record_of(3);
    assert_true(rl_record_fits(&record, "run", "data", 3));
    assert_false(rl_record_fits(&record, "rum", "data", 3));
    assert_false(rl_record_fits(&record, "rvn", "data", 3));
    assert_false(rl_record_fits(&record, "run", "date", 3));
    assert_false(rl_record_fits(&record, "run", "data", 4));
    record.format = 2;
    assert_true(rl_record_fits(&record, "run", "data", 3));
    record.format = 1; /* it does not identify its data */
    assert_false(rl_record_fits(&record, "run", "data", 3));
}

/* ---- members ---- */

static void test_a_member_is_found_by_its_id(void **state) {
    (void)state;
    struct rl_record record = record_of(RL_MEMBERS_MAX);
    for (unsigned i = 0; i < RL_MEMBERS_MAX; i++)
        assert_ptr_equal(rl_record_member(&record, 100 + i), &record.members[i]);
    record.members_count = 2;
    assert_null(rl_record_member(&record, 102)); /* behind the last */
    assert_null(rl_record_member(&record, 0));
}

static void test_a_list_is_the_same_in_any_order(void **state) {
    (void)state;
    const struct rl_record record = record_of(3);
    struct rl_record other = record;
    assert_true(rl_record_same_members(&record, &other));
    other.members[0] = record.members[2];
    other.members[2] = record.members[0];
    assert_true(rl_record_same_members(&record, &other));
    for (unsigned i = 0; i < 3; i++) {
        other = record;
        other.members[i].id = 555;
        assert_false(rl_record_same_members(&record, &other));
    }
    other = record_of(4);
    assert_false(rl_record_same_members(&record, &other)); /* it has all of ours, and one more */
    assert_false(rl_record_same_members(&other, &record));
    other = record; /* what is behind the last does not count */
    other.members[3].id = 555;
    assert_true(rl_record_same_members(&record, &other));
    assert_true(rl_record_same_members(&other, &record));
}

/* ---- ttl_max ---- */

static void check_ttl(int64_t max_ms, int64_t next_ms, bool pending, int64_t allowed_ms,
                      int64_t wait_ms) {
    struct rl_record record = record_of(1);
    record.ttl_max_ms = max_ms;
    record.ttl_next_ms = next_ms;
    assert_int_equal(rl_record_ttl_pending(&record), pending);
    assert_int_equal(rl_record_ttl_allowed(&record), allowed_ms);
    assert_int_equal(rl_record_ttl_wait(&record), wait_ms);
}

static void test_between_two_values_of_ttl_max(void **state) {
    (void)state;
    check_ttl(1000, 1000, false, 1000, 1000);
    check_ttl(1000, 2000, true, 1000, 2000);
    check_ttl(2000, 1000, true, 1000, 2000);
}

/* ---- changes ---- */

static bool change(struct rl_record *record, struct rl_change change) {
    return rl_record_change(record, &change);
}

static struct rl_change adding(uint64_t id) {
    struct rl_change adding = {.kind = RL_CHANGE_ADD, .id = id};
    snprintf(adding.url, sizeof adding.url, "redis://new%u", (unsigned)id);
    return adding;
}

static struct rl_change removing(uint64_t id) {
    return (struct rl_change){.kind = RL_CHANGE_REMOVE, .id = id};
}

static struct rl_change ttl_max(int64_t ttl_ms) {
    return (struct rl_change){.kind = RL_CHANGE_TTL_MAX, .ttl_ms = ttl_ms};
}

static void test_operators_that_want_the_same(void **state) {
    (void)state;
    struct rl_change a = adding(1), b = adding(2);
    assert_false(rl_change_same(&a, &b));
    strcpy(b.url, a.url); /* each draws an id of its own */
    assert_true(rl_change_same(&a, &b));
    b.kind = RL_CHANGE_REMOVE;
    assert_false(rl_change_same(&a, &b));
    a = removing(1);
    assert_false(rl_change_same(&a, &b));
    b = removing(1);
    strcpy(b.url, "redis://elsewhere");
    b.ttl_ms = 5;
    assert_true(rl_change_same(&a, &b));
    a = ttl_max(5);
    b = ttl_max(6);
    assert_false(rl_change_same(&a, &b));
    b = ttl_max(5);
    b.id = 7;
    assert_true(rl_change_same(&a, &b));
    a = b = (struct rl_change){.kind = RL_CHANGE_NONE};
    b.id = 7;
    b.ttl_ms = 1;
    strcpy(b.url, "redis://elsewhere");
    assert_true(rl_change_same(&a, &b));
}

static void assert_same_record(const struct rl_record *a, const struct rl_record *b) {
    assert_int_equal(a->epoch, b->epoch);
    assert_int_equal(a->settled, b->settled);
    assert_int_equal(a->members_count, b->members_count);
    for (unsigned i = 0; i < a->members_count; i++) {
        assert_int_equal(a->members[i].id, b->members[i].id);
        assert_string_equal(a->members[i].url, b->members[i].url);
        assert_int_equal(a->members[i].incarnation.number, b->members[i].incarnation.number);
        assert_string_equal(a->members[i].incarnation.run_id, b->members[i].incarnation.run_id);
    }
    assert_int_equal(a->ttl_max_ms, b->ttl_max_ms);
    assert_int_equal(a->ttl_next_ms, b->ttl_next_ms);
    assert_int_equal(a->ballot, b->ballot);
    assert_int_equal(a->accepted_ballot, b->accepted_ballot);
    assert_int_equal(a->accepted.kind, b->accepted.kind);
    assert_int_equal(a->accepted.id, b->accepted.id);
    assert_string_equal(a->accepted.url, b->accepted.url);
    assert_int_equal(a->accepted.ttl_ms, b->accepted.ttl_ms);
}

/* What led to this epoch was decided in the epoch before. */
static struct rl_record next_epoch(const struct rl_record *record) {
    struct rl_record next = *record;
    next.epoch++;
    next.settled = false;
    next.ballot = next.accepted_ballot = 0;
    next.accepted = (struct rl_change){.kind = RL_CHANGE_NONE};
    return next;
}

static void test_a_member_is_added(void **state) {
    (void)state;
    for (unsigned count = 1; count <= RL_MEMBERS_MAX; count++) {
        struct rl_record record = record_of(count), expected = next_epoch(&record);
        if (count < RL_MEMBERS_MAX) { /* a member that was removed has left its traces here */
            record.members[count].id = 9;
            record.members[count].incarnation = (struct rl_incarnation){9, "former"};
            expected.members[count] = (struct rl_member){.id = 555, .url = "redis://new555"};
            expected.members_count++;
        } else { /* too many */
            expected = record;
        }
        assert_int_equal(change(&record, adding(555)), count < RL_MEMBERS_MAX);
        assert_same_record(&record, &expected);
    }
    struct rl_record record = record_of(3), before = record;
    assert_false(change(&record, adding(102))); /* already a member */
    assert_same_record(&record, &before);
}

static void test_a_member_is_removed(void **state) {
    (void)state;
    for (unsigned at = 0; at < 4; at++) {
        struct rl_record record = record_of(4), expected = next_epoch(&record);
        record.members[4].id = 9; /* behind the last */
        expected.members_count = 3;
        for (unsigned i = at; i < 3; i++) expected.members[i] = record.members[i + 1];
        assert_true(change(&record, removing(100 + at)));
        assert_same_record(&record, &expected);
        assert_int_equal(record.members[3].id, 103); /* nothing behind the list is read: it may */
        assert_int_equal(record.members[4].id, 9);   /* have as many as there is room for */
    }
    struct rl_record two = record_of(2), one = record_of(1), before = one;
    assert_true(change(&two, removing(100)));
    assert_int_equal(two.members_count, 1);
    assert_false(change(&one, removing(100))); /* the last one */
    assert_same_record(&one, &before);
    two = before = record_of(2);
    assert_false(change(&two, removing(555))); /* not a member */
    assert_same_record(&two, &before);
}

/* "e + 1 announces the new value; e + 2 makes it the only one." */
static void test_ttl_max_is_changed_in_two_epochs(void **state) {
    (void)state;
    struct rl_record record = record_of(3), before = record;
    assert_false(change(&record, ttl_max(1000))); /* it has that value */
    assert_same_record(&record, &before);
    struct rl_record expected = next_epoch(&record);
    expected.ttl_next_ms = 3000;
    assert_true(change(&record, ttl_max(3000)));
    assert_same_record(&record, &expected);
    record.settled = true;
    record.ballot = 7;
    before = record;
    assert_false(change(&record, ttl_max(2000))); /* another one is under way */
    assert_false(change(&record, adding(555)));
    assert_false(change(&record, removing(101)));
    assert_same_record(&record, &before);
    expected = next_epoch(&record);
    expected.ttl_max_ms = 3000;
    assert_true(change(&record, ttl_max(3000)));
    assert_same_record(&record, &expected);
    assert_true(change(&record, adding(555)));
}

static void test_the_last_epoch(void **state) {
    (void)state;
    struct rl_record record = record_of(3), before;
    record.epoch = UINT32_MAX - 1;
    assert_true(change(&record, removing(100)));
    assert_int_equal(record.epoch, UINT32_MAX);
    before = record;
    assert_false(change(&record, removing(101)));
    assert_false(change(&record, ttl_max(5)));
    assert_same_record(&record, &before);
    record.epoch = 0;
    assert_true(change(&record, removing(101)));
}

/* ---- what an init writes ---- */

/* Clients and operators of all versions compute it, so it stays as it is. */
static void test_the_loss_of_an_init(void **state) {
    (void)state;
    assert_true(rl_loss_of_init(77, 1) == UINT64_C(0xf432da44f85e25c0));
    assert_true(rl_loss_of_init(77, 2) == UINT64_C(0x82d2a9eac5ca3f8f));
    assert_true(rl_loss_of_init(UINT64_C(0xfedcba9876543210), UINT32_MAX) ==
                UINT64_C(0xd5d1d3304eb45aca));
    assert_true(rl_loss_of_init(UINT64_C(0xe8ea9f60838b9397), 5) == 1); /* it is never 0 */
}

static void test_records_of_an_init(void **state) {
    (void)state;
    struct rl_record record = record_of(3);
    for (record.epoch = 1; record.epoch <= 2; record.epoch++) {
        const bool first = record.epoch == 1;
        record.eligibility = RL_RECORD_RECOVERING;
        record.loss = rl_loss_of_init(77, record.epoch);
        assert_true(rl_record_of_init(&record));
        assert_int_equal(rl_record_of_first_init(&record), first);
        record.eligibility = RL_RECORD_INTACT;
        assert_false(rl_record_of_init(&record));
        assert_false(rl_record_of_first_init(&record));
        record.eligibility = RL_RECORD_RECOVERING;
        record.loss++; /* it has lost its data since */
        assert_false(rl_record_of_init(&record));
        assert_false(rl_record_of_first_init(&record));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_higher_number_counts_then_the_greater_run_id),
        cmocka_unit_test(test_an_incarnation_follows),
        cmocka_unit_test(test_a_record_fits_its_server_and_its_data),
        cmocka_unit_test(test_a_member_is_found_by_its_id),
        cmocka_unit_test(test_a_list_is_the_same_in_any_order),
        cmocka_unit_test(test_between_two_values_of_ttl_max),
        cmocka_unit_test(test_operators_that_want_the_same),
        cmocka_unit_test(test_a_member_is_added),
        cmocka_unit_test(test_a_member_is_removed),
        cmocka_unit_test(test_ttl_max_is_changed_in_two_epochs),
        cmocka_unit_test(test_the_last_epoch),
        cmocka_unit_test(test_the_loss_of_an_init),
        cmocka_unit_test(test_records_of_an_init),
    };
    return cmocka_run_group_tests_name("record", tests, NULL, NULL);
}
