/* SPDX-License-Identifier: BSD-2-Clause The rules of a node, one by one; that real servers have the
 * same is the differential test's to say. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "node/table.h"

#define B(text) ((struct node_bytes){text, sizeof(text) - 1})

/* Changes as text: "S a=x@1100 " is SET of a to x until 1100. */
struct reported {
    char text[512];
    size_t used;
};

static void on_change(void *context, enum node_change change, struct node_bytes key,
                      struct node_bytes token, int64_t expires_ms) {
    struct reported *reported = context;
    int bytes = snprintf(reported->text + reported->used, sizeof(reported->text) - reported->used,
                         "%c %.*s=%.*s@%lld ", "SEDXL"[change], (int)key.bytes,
                         (const char *)key.data, (int)token.bytes, (const char *)token.data,
                         expires_ms == INT64_MAX ? -1 : (long long)expires_ms);
    assert_true(bytes > 0 && (size_t)bytes < sizeof(reported->text) - reported->used);
    reported->used += (size_t)bytes;
}

static struct reported reported;

static struct node_table *new_table(void) {
    struct node_table *table = node_table_new(on_change, &reported);
    reported = (struct reported){0};
    assert_non_null(table);
    return table;
}

static void expect_reported(const char *text) {
    assert_string_equal(reported.text, text);
    reported = (struct reported){0};
}

static enum node_answer acquire(struct node_table *table, struct node_bytes key,
                                struct node_bytes token, int64_t ttl_ms, int64_t now_ms) {
    return node_acquire(table, &key, 1, token, ttl_ms, now_ms);
}

static enum node_answer extend(struct node_table *table, struct node_bytes key,
                               struct node_bytes token, int64_t ttl_ms, int64_t now_ms) {
    return node_extend(table, &key, 1, token, ttl_ms, now_ms);
}

static enum node_answer release(struct node_table *table, struct node_bytes key,
                                struct node_bytes token, int64_t now_ms) {
    return node_release(table, &key, 1, token, now_ms);
}

static void expect_held(struct node_table *table, struct node_bytes key, struct node_bytes value,
                        int64_t now_ms) {
    struct node_bytes held = node_get(table, key, now_ms);
    assert_non_null(held.data);
    assert_int_equal(held.bytes, value.bytes);
    assert_memory_equal(held.data, value.data, value.bytes);
}

static void test_acquire(void **state) {
    struct node_table *table = new_table();
    (void)state;
    assert_int_equal(acquire(table, B("a"), B("x"), 100, 1000), NODE_GRANTED);
    assert_int_equal(acquire(table, B("a"), B("y"), 100, 1000), NODE_DENIED);
    assert_int_equal(acquire(table, B("a"), B("x"), 100, 1000),
                     NODE_DENIED); /* its own key blocks too */
    assert_int_equal(acquire(table, B("b"), B("y"), 50, 1000), NODE_GRANTED);
    assert_int_equal(node_pttl(table, B("a"), 1030), 70);
    assert_int_equal(node_next_expiry(table), 1050);
    assert_int_equal(node_count(table), 2);
    expect_held(table, B("a"), B("x"), 1030);
    expect_reported("S a=x@1100 S b=y@1050 ");
    node_table_free(table);
}

static void test_the_millisecond_of_the_end(void **state) {
    struct node_table *table = new_table();
    (void)state;
    acquire(table, B("a"), B("x"), 100, 1000);
    assert_int_equal(node_pttl(table, B("a"), 1100), 0);
    assert_int_equal(acquire(table, B("a"), B("y"), 100, 1100), NODE_DENIED);
    assert_int_equal(acquire(table, B("a"), B("y"), 100, 1101), NODE_GRANTED);
    expect_reported("S a=x@1100 X a=x@1100 S a=y@1201 ");
    node_table_free(table);
}

/* A key that has ended is there until somebody asks; a clock that steps back first gives it its
 * time again. */
static void test_clock_steps_back(void **state) {
    struct node_table *table = new_table();
    (void)state;
    acquire(table, B("a"), B("x"), 100, 1000);
    acquire(table, B("b"), B("x"), 100, 1000);
    assert_int_equal(node_pttl(table, B("b"), 2000), -2);
    assert_int_equal(node_count(table), 1);
    assert_int_equal(node_pttl(table, B("a"), 1050), 50);
    assert_int_equal(node_pttl(table, B("a"), 500), 600);
    assert_int_equal(node_pttl(table, B("b"), 1050), -2);
    node_table_free(table);
}

static void test_extend(void **state) {
    struct node_table *table = new_table();
    (void)state;
    assert_int_equal(extend(table, B("a"), B("x"), 100, 1000), NODE_ABSENT);
    acquire(table, B("a"), B("x"), 100, 1000);
    assert_int_equal(extend(table, B("a"), B("y"), 500, 1000), NODE_DENIED);
    assert_int_equal(extend(table, B("a"), B("x"), 50, 1000), NODE_GRANTED); /* never shorter */
    assert_int_equal(extend(table, B("a"), B("x"), 100, 1000), NODE_GRANTED);
    expect_reported("S a=x@1100 ");
    assert_int_equal(extend(table, B("a"), B("x"), 100, 1001), NODE_GRANTED);
    expect_reported("E a=x@1101 ");
    assert_int_equal(extend(table, B("a"), B("x"), 100, 1102), NODE_ABSENT); /* an end is an end */
    expect_reported("X a=x@1101 ");
    node_set(table, B("a"), B("x"), 0, 1200);
    assert_int_equal(node_pttl(table, B("a"), 1200), -1);
    assert_int_equal(extend(table, B("a"), B("x"), 5, 1200), NODE_GRANTED); /* a lock must end */
    expect_reported("S a=x@-1 E a=x@1205 ");
    node_table_free(table);
}

static void test_release(void **state) {
    struct node_table *table = new_table();
    (void)state;
    acquire(table, B("a"), B("x"), 100, 1000);
    assert_int_equal(release(table, B("a"), B("xy"), 1000), NODE_DENIED);
    assert_int_equal(release(table, B("a"), B(""), 1000), NODE_DENIED);
    assert_int_equal(release(table, B("a"), B("x"), 1000), NODE_GRANTED);
    assert_int_equal(release(table, B("a"), B("x"), 1000), NODE_ABSENT);
    expect_reported("S a=x@1100 D a=x@1100 ");
    acquire(table, B("a"), B("x"), 100, 1000);
    assert_int_equal(release(table, B("a"), B("x"), 1101), NODE_ABSENT);
    node_table_free(table);
}

static void test_several_keys(void **state) {
    struct node_table *table = new_table();
    const struct node_bytes abc[] = {B("a"), B("b"), B("c")}, bb[] = {B("b"), B("b")};
    (void)state;
    acquire(table, B("b"), B("y"), 100, 1000);
    assert_int_equal(node_acquire(table, abc, 3, B("x"), 100, 1000), NODE_DENIED);
    assert_int_equal(node_count(table), 1);
    assert_int_equal(node_acquire(table, abc, 3, B("x"), 100, 1101), NODE_GRANTED);
    expect_reported("S b=y@1100 X b=y@1100 S a=x@1201 S b=x@1201 S c=x@1201 ");
    assert_int_equal(node_extend(table, abc, 3, B("x"), 200, 1101), NODE_GRANTED);
    expect_reported("E a=x@1301 E b=x@1301 E c=x@1301 ");
    node_delete(table, B("a"), 1101);
    assert_int_equal(node_extend(table, abc, 3, B("x"), 300, 1101), NODE_ABSENT);
    node_set(table, B("c"), B("y"), 0, 1101);
    assert_int_equal(node_extend(table, abc, 3, B("x"), 300, 1101),
                     NODE_DENIED); /* another's is worse than absent */
    expect_reported("D a=x@1301 S c=y@-1 ");
    assert_int_equal(node_release(table, abc, 3, B("x"), 1101),
                     NODE_DENIED); /* ours goes all the same */
    expect_reported("D b=x@1301 ");
    assert_int_equal(node_acquire(table, bb, 2, B("x"), 100, 2000), NODE_GRANTED);
    assert_int_equal(node_count(table), 2);
    assert_int_equal(node_release(table, bb, 2, B("x"), 2000), NODE_GRANTED);
    expect_reported("S b=x@2100 D b=x@2100 ");
    node_table_free(table);
}

static void test_another_type(void **state) {
    struct node_table *table = new_table();
    const struct node_bytes ab[] = {B("a"), B("b")};
    (void)state;
    node_set_other_type(table, B("a"), 1000);
    acquire(table, B("b"), B("x"), 100, 1000);
    assert_int_equal(acquire(table, B("a"), B("x"), 100, 1000), NODE_DENIED);
    assert_int_equal(extend(table, B("a"), B(""), 100, 1000), NODE_WRONGTYPE);
    assert_int_equal(node_pttl(table, B("a"), 1000), -1);
    assert_null(node_get(table, B("a"), 1000).data);
    assert_int_equal(node_release(table, ab, 2, B("x"), 1000),
                     NODE_WRONGTYPE); /* b goes all the same */
    assert_int_equal(node_count(table), 1);
    assert_int_equal(node_set(table, B("a"), B("y"), 0, 1000), NODE_GRANTED);
    expect_held(table, B("a"), B("y"), 1000);
    node_table_free(table);
}

static void test_outsiders(void **state) {
    struct node_table *table = new_table();
    (void)state;
    node_set(table, B("a"), B("x"), 100, 1000);
    node_set(table, B("a"), B("longer"), 0, 1000);
    assert_int_equal(node_next_expiry(table), INT64_MAX);
    assert_true(node_pexpire(table, B("a"), 10, 1000)); /* an outsider's does shorten */
    assert_int_equal(node_pttl(table, B("a"), 1000), 10);
    assert_true(node_pexpire(table, B("a"), 0, 1000));
    assert_false(node_pexpire(table, B("a"), 10, 1000));
    assert_false(node_delete(table, B("a"), 1000));
    expect_reported("S a=x@1100 S a=longer@-1 E a=longer@1010 D a=longer@1010 ");
    node_set(table, B("a"), B("x"), 1, 1000);
    node_set(table, B("a"), B("x"), 1, 1002); /* what had ended is not overwritten, it ends */
    expect_reported("S a=x@1001 X a=x@1001 S a=x@1003 ");
    node_delete(table, B("a"), 1000);
    reported = (struct reported){0};
    node_set(table, B("a"), B("x"), 1, 1000);
    node_set(table, B("b"), B("x"), 2, 1000);
    node_set(table, B("c"), B("x"), 1, 1000);
    node_expire_due(table, 1001);
    assert_int_equal(node_count(table), 3);
    node_expire_due(table, 1002);
    assert_true(node_evict_key(table, B("b")));
    assert_false(node_evict_key(table, B("b")));
    node_set(table, B("d"), B("x"), 0, 1000);
    node_flush_all(table);
    expect_reported(
        "S a=x@1001 S b=x@1002 S c=x@1001 X a=x@1001 X c=x@1001 L b=x@1002 S d=x@-1 L d=x@-1 ");
    assert_int_equal(node_count(table), 0);
    node_set(table, B("e"), B("x"), 0, 1000); /* the list's end is right after its last went */
    assert_int_equal(node_count(table), 1);
    node_table_free(table);
}

static void test_bytes(void **state) {
    struct node_table *table = new_table();
    char *key = malloc(65536), token[1024];
    (void)state;
    assert_non_null(key);
    memset(key, 'k', 65536);
    memset(token, 0, sizeof(token));
    struct node_bytes longest = {key, 65536}, shorter = {key, 65535},
                      zeros = {token, sizeof(token)};
    node_table_free(table);
    table = node_table_new(NULL, NULL);
    assert_int_equal(acquire(table, shorter, zeros, 10, 0), NODE_GRANTED);
    assert_int_equal(acquire(table, longest, zeros, 10, 0), NODE_GRANTED);
    expect_held(table, longest, zeros, 0);
    zeros.bytes--;
    assert_int_equal(release(table, longest, zeros, 0), NODE_DENIED);
    assert_int_equal(acquire(table, B(""), B(""), 10, 0), NODE_GRANTED);
    expect_held(table, B(""), B(""), 0);
    assert_int_equal(release(table, (struct node_bytes){NULL, 0}, (struct node_bytes){NULL, 0}, 0),
                     NODE_GRANTED);
    assert_int_equal(acquire(table, B("a\0b"), B("x\0"), 10, 0), NODE_GRANTED);
    assert_int_equal(release(table, B("a\0c"), B("x\0"), 0), NODE_ABSENT);
    assert_int_equal(release(table, B("a\0b"), B("x"), 0), NODE_DENIED);
    assert_int_equal(release(table, B("a\0b"), B("x\0"), 0), NODE_GRANTED);
    node_table_free(table);
    free(key);
}

static void test_snapshots(void **state) {
    struct node_table *table = new_table(), *old = node_table_new(NULL, NULL);
    (void)state;
    assert_non_null(old);
    node_set(table, B("same"), B("x"), 100, 1000);
    node_set(table, B("later"), B("x"), 100, 1000);
    node_set(table, B("taken"), B("x"), 100, 1000);
    node_set(table, B("gone"), B("x"), 100, 1000);
    assert_true(node_table_copy(old, table));
    assert_int_equal(node_count(old), 4);
    node_pexpire(table, B("later"), 200, 1000);
    node_set(table, B("taken"), B("y"), 100, 1000);
    node_delete(table, B("gone"), 1000);
    node_set(table, B("new"), B("x"), 100, 1000);
    reported = (struct reported){0};
    assert_true(node_table_copy(table, old));
    expect_reported("L taken=y@1100 L new=x@1100 E later=x@1100 S taken=x@1100 S gone=x@1100 ");
    assert_int_equal(node_pttl(table, B("later"), 1000), 100);
    assert_int_equal(node_count(table), 4);
    node_table_free(table);
    node_table_free(old);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_acquire),
        cmocka_unit_test(test_the_millisecond_of_the_end),
        cmocka_unit_test(test_clock_steps_back),
        cmocka_unit_test(test_extend),
        cmocka_unit_test(test_release),
        cmocka_unit_test(test_several_keys),
        cmocka_unit_test(test_another_type),
        cmocka_unit_test(test_outsiders),
        cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_snapshots),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
