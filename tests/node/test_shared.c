/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The readers of a shared lock on one node: the rules one by one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "memory.h"
#include "node/table.h"

enum { TTL_MS = 1000 };

static struct node_bytes text(const char *bytes) {
    return (struct node_bytes){bytes, strlen(bytes)};
}

static struct node_share of(const char *reader, int64_t ttl_ms) {
    return (struct node_share){.key = text("job"), .reader = text(reader), .ttl_ms = ttl_ms};
}

static enum node_answer join(struct node_table *table, const char *reader, int64_t ttl_ms,
                             int64_t now_ms) {
    const struct node_share share = of(reader, ttl_ms);
    int64_t fence = -1;
    enum node_answer answer = node_share(table, &share, now_ms, &fence);
    if (answer == NODE_GRANTED) assert_int_equal(fence, 0);
    return answer;
}

static enum node_answer extend(struct node_table *table, const char *reader, int64_t ttl_ms,
                               int64_t now_ms) {
    const struct node_share share = of(reader, ttl_ms);
    return node_share_extend(table, &share, now_ms);
}

static enum node_answer leave(struct node_table *table, const char *reader, int64_t now_ms) {
    const struct node_share share = of(reader, 0);
    return node_share_release(table, &share, now_ms);
}

static enum node_answer write_lock(struct node_table *table, int64_t now_ms) {
    const struct node_bytes key = text("job");
    return node_acquire(table, &key, 1, text("writer"), TTL_MS, now_ms);
}

static void count_reader(void *context, struct node_bytes reader, int64_t expires_ms) {
    (void)reader, (void)expires_ms;
    ++*(unsigned *)context;
}

static unsigned readers(struct node_table *table, int64_t now_ms) {
    unsigned count = 0;
    node_readers(table, text("job"), now_ms, count_reader, &count);
    return count;
}

static void test_readers_exclude_writers(void **state) {
    struct node_table *table = node_table_new(NULL, NULL);
    (void)state;
    assert_int_equal(join(table, "a", TTL_MS, 0), NODE_GRANTED);
    assert_int_equal(join(table, "b", TTL_MS, 500), NODE_GRANTED);
    assert_int_equal(write_lock(table, 1200), NODE_DENIED); /* b is there until 1500 */
    assert_int_equal(readers(table, 1200), 1);
    assert_int_equal(write_lock(table, 1501), NODE_GRANTED);
    assert_int_equal(join(table, "a", TTL_MS, 1502), NODE_DENIED);
    assert_int_equal(extend(table, "b", TTL_MS, 1502), NODE_DENIED);
    assert_int_equal(leave(table, "b", 1502), NODE_DENIED);
    node_table_free(table);
}

static void test_the_last_to_leave_deletes_the_key(void **state) {
    struct node_table *table = node_table_new(NULL, NULL);
    (void)state;
    assert_int_equal(join(table, "a", TTL_MS, 0), NODE_GRANTED);
    assert_int_equal(join(table, "b", 2 * TTL_MS, 0), NODE_GRANTED);
    assert_int_equal(leave(table, "b", 1), NODE_GRANTED);
    /* the key lives as long as the last of those that remain, and no longer */
    assert_int_equal(node_pttl(table, text("job"), 1), TTL_MS - 1);
    assert_int_equal(leave(table, "b", 2), NODE_ABSENT);
    assert_int_equal(write_lock(table, 2), NODE_DENIED);
    assert_int_equal(leave(table, "a", 3), NODE_GRANTED);
    assert_int_equal(node_count(table), 0);
    assert_int_equal(node_lists(table), 0);
    assert_int_equal(leave(table, "a", 4), NODE_ABSENT);
    node_table_free(table);
}

static void test_a_place_needs_its_own_end(void **state) {
    struct node_table *table = node_table_new(NULL, NULL);
    (void)state;
    assert_int_equal(join(table, "a", TTL_MS, 0), NODE_GRANTED);
    assert_int_equal(join(table, "b", 5 * TTL_MS, 0), NODE_GRANTED);
    assert_int_equal(extend(table, "c", TTL_MS, 1), NODE_ABSENT);
    assert_int_equal(extend(table, "a", 100, 1), NODE_GRANTED); /* shortens nothing */
    assert_int_equal(readers(table, 999), 2);
    assert_int_equal(extend(table, "a", TTL_MS, 999), NODE_GRANTED);
    /* the key is there for b, but the end of a has come */
    assert_int_equal(extend(table, "a", TTL_MS, 1999), NODE_ABSENT);
    assert_int_equal(readers(table, 1999), 1);
    assert_int_equal(join(table, "a", TTL_MS, 2000), NODE_GRANTED);
    assert_int_equal(join(table, "a", 100, 2001), NODE_GRANTED); /* shortens nothing either */
    assert_int_equal(extend(table, "a", TTL_MS, 2999), NODE_GRANTED);
    node_table_free(table);
}

static void test_a_new_key_has_a_new_list(void **state) {
    struct node_table *table = node_table_new(NULL, NULL);
    (void)state;
    assert_int_equal(join(table, "a", 5 * TTL_MS, 0), NODE_GRANTED);
    assert_true(node_delete(table, text("job"), 1));
    assert_int_equal(extend(table, "a", TTL_MS, 2), NODE_ABSENT);
    assert_int_equal(join(table, "b", TTL_MS, 3), NODE_GRANTED);
    assert_int_equal(readers(table, 3), 1);
    assert_int_equal(extend(table, "a", TTL_MS, 4), NODE_ABSENT);
    assert_int_equal(leave(table, "a", 4), NODE_ABSENT);
    assert_int_equal(leave(table, "b", 5), NODE_GRANTED);
    assert_int_equal(node_count(table), 0);
    node_table_free(table);
}

static enum node_answer write_as(struct node_table *table, const char *token, int64_t ttl_ms,
                                 int64_t now_ms) {
    const struct node_bytes key = text("job");
    return node_acquire(table, &key, 1, text(token), ttl_ms, now_ms);
}

/* In one step: before it nobody else may read, after it nobody may write. */
static void test_a_writer_becomes_a_reader(void **state) {
    struct node_table *table = node_table_new(NULL, NULL);
    (void)state;
    assert_int_equal(extend(table, "a", TTL_MS, 0), NODE_ABSENT); /* takes nothing */
    assert_int_equal(write_as(table, "a", TTL_MS, 0), NODE_GRANTED);
    assert_int_equal(join(table, "b", TTL_MS, 1), NODE_DENIED);
    assert_int_equal(extend(table, "b", TTL_MS, 1), NODE_DENIED); /* not its token */
    assert_int_equal(leave(table, "b", 1), NODE_DENIED);
    assert_int_equal(readers(table, 1), 0);
    assert_int_equal(extend(table, "a", 100, 1), NODE_GRANTED);
    assert_int_equal(readers(table, 1), 1);
    assert_int_equal(node_pttl(table, text("job"), 1), TTL_MS - 1); /* shortens nothing */
    assert_int_equal(extend(table, "a", TTL_MS, 1), NODE_GRANTED);  /* again */
    assert_int_equal(node_pttl(table, text("job"), 1), TTL_MS);
    assert_int_equal(write_lock(table, 2), NODE_DENIED);
    assert_int_equal(join(table, "b", TTL_MS, 500), NODE_GRANTED);
    assert_int_equal(leave(table, "a", 501), NODE_GRANTED);
    assert_int_equal(write_lock(table, 502), NODE_DENIED); /* b is there */
    assert_int_equal(readers(table, 502), 1);
    node_table_free(table);
}

/* The list of readers from before the writer came is not that of its readers. */
static void test_a_downgrade_begins_a_new_list(void **state) {
    struct node_table *table = node_table_new(NULL, NULL);
    (void)state;
    assert_int_equal(join(table, "old", 5 * TTL_MS, 0), NODE_GRANTED);
    assert_true(node_delete(table, text("job"), 1));
    assert_int_equal(write_as(table, "a", TTL_MS, 2), NODE_GRANTED);
    assert_int_equal(extend(table, "a", TTL_MS, 3), NODE_GRANTED);
    assert_int_equal(extend(table, "old", TTL_MS, 4), NODE_ABSENT);
    assert_int_equal(readers(table, 4), 1);
    assert_int_equal(node_pttl(table, text("job"), 3), TTL_MS);
    node_table_free(table);
}

/* A node that has not learnt of it deletes the writer's key, and no other. */
static void test_a_reader_that_was_a_writer_leaves(void **state) {
    struct node_table *table = node_table_new(NULL, NULL);
    (void)state;
    assert_int_equal(write_as(table, "a", TTL_MS, 0), NODE_GRANTED);
    assert_int_equal(leave(table, "b", 1), NODE_DENIED);
    assert_int_equal(leave(table, "a", 1), NODE_GRANTED);
    assert_int_equal(node_count(table), 0);
    assert_int_equal(leave(table, "a", 2), NODE_ABSENT);
    node_table_free(table);
}

static void test_a_downgrade_without_memory(void **state) {
    (void)state;
    for (long left = 0;; left++) {
        struct node_table *table = node_table_new(NULL, NULL);
        assert_int_equal(write_as(table, "a", TTL_MS, 0), NODE_GRANTED);
        memory_left = left;
        enum node_answer answer = extend(table, "a", TTL_MS, 1);
        memory_left = -1;
        const bool granted = answer == NODE_GRANTED;
        assert_int_equal(answer, granted ? NODE_GRANTED : NODE_NO_MEMORY);
        assert_int_equal(node_lists(table), granted);
        assert_int_equal(join(table, "b", TTL_MS, 2), granted ? NODE_GRANTED : NODE_DENIED);
        assert_int_equal(leave(table, "a", 3), NODE_GRANTED); /* it is held, as the one or other */
        node_table_free(table);
        if (granted) break;
        assert_true(left < 10);
    }
}

static void test_fences(void **state) {
    static int64_t floor[NODE_STRIPES];
    struct node_table *table = node_table_new(NULL, NULL);
    const struct node_field nonce = {text("nonce"), text("0000000000000007")};
    const struct node_record_write record = {
        .nonce = 7, .floor = floor, .fields = &nonce, .fields_count = 1};
    struct node_share share = of("a", TTL_MS);
    int64_t fence = 0;
    (void)state;
    share.guarded = true;
    share.nonce = 7;
    share.stripe = 3;
    share.fence = 5;
    assert_int_equal(node_share(table, &share, 0, &fence), NODE_GONE);
    assert_int_equal(node_count(table), 0);
    floor[3] = 40;
    assert_int_equal(node_record_write(table, &record), NODE_GRANTED);
    assert_int_equal(node_share(table, &share, 0, &fence), NODE_GRANTED);
    assert_int_equal(fence, 40);
    share.fence = 41;
    assert_int_equal(node_share(table, &share, 1, &fence), NODE_GRANTED);
    assert_int_equal(fence, 41);
    assert_int_equal(node_fences(table, 7)[3], 41);
    share.fence = 42;
    assert_int_equal(node_share_extend(table, &share, 2), NODE_GRANTED);
    assert_int_equal(node_fences(table, 7)[3], 42);
    share.nonce = 8;
    assert_int_equal(node_share_extend(table, &share, 3), NODE_GONE);
    assert_int_equal(node_share(table, &share, 3, &fence), NODE_GONE);
    node_table_free(table);
}

/* What is refused for want of memory leaves nothing behind. */
static void test_no_memory(void **state) {
    (void)state;
    for (long left = 0;; left++) {
        struct node_table *table = node_table_new(NULL, NULL);
        assert_non_null(table);
        memory_left = left;
        enum node_answer answer = join(table, "a", TTL_MS, 0);
        memory_left = -1;
        const bool granted = answer == NODE_GRANTED;
        assert_int_equal(answer, granted ? NODE_GRANTED : NODE_NO_MEMORY);
        assert_int_equal(node_count(table), granted);
        assert_int_equal(node_lists(table), granted);
        node_table_free(table);
        if (granted) break;
        assert_true(left < 10);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_readers_exclude_writers),
        cmocka_unit_test(test_the_last_to_leave_deletes_the_key),
        cmocka_unit_test(test_a_place_needs_its_own_end),
        cmocka_unit_test(test_a_new_key_has_a_new_list),
        cmocka_unit_test(test_a_writer_becomes_a_reader),
        cmocka_unit_test(test_a_downgrade_begins_a_new_list),
        cmocka_unit_test(test_a_reader_that_was_a_writer_leaves),
        cmocka_unit_test(test_a_downgrade_without_memory),
        cmocka_unit_test(test_fences),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
