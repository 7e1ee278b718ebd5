/* SPDX-License-Identifier: BSD-2-Clause Record and fences on a node, one rule after the other; that
 * real servers have the same is the differential test's. */
#include <setjmp.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/mix.h"
#include "node/table.h"

#define B(text) ((struct node_bytes){text, sizeof(text) - 1})
#define A UINT64_C(0xa)
#define C UINT64_C(0xc)
#define TTL 100
#define NOW 1000

/* -Wl,--wrap=malloc: after so many the next one fails, and all after it, or only that one. */
static long allocations_left = -1, pieces;
static bool one_fails;
void *__real_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes);
void __real_free(void *memory);
void __wrap_free(void *memory);
void *__wrap_malloc(size_t bytes) {
    if (allocations_left == 0) {
        if (one_fails) allocations_left = -1;
        return NULL;
    }
    if (allocations_left > 0) allocations_left--;
    pieces++;
    return __real_malloc(bytes);
}

void __wrap_free(void *memory) {
    if (memory) pieces--;
    __real_free(memory);
}

static const struct node_bytes token = {"x", 1}, others = {"y", 1};
static const uint16_t s1[] = {1}, s12[] = {1, 2}, s4095[] = {4095};
static int64_t floors[NODE_STRIPES];

static const int64_t *floor_of(uint16_t stripe, int64_t fence) {
    memset(floors, 0, sizeof(floors));
    floors[stripe] = fence;
    return floors;
}

static struct node_field nonce_field(uint64_t nonce) {
    return (struct node_field){B("nonce"),
                               nonce == A ? B("000000000000000a") : B("000000000000000c")};
}

static enum node_answer write_record(struct node_table *table, uint64_t expected, uint64_t nonce,
                                     bool was_kept, bool keep, const int64_t *floor) {
    struct node_field field = nonce_field(nonce);
    struct node_record_write write = {expected, nonce, was_kept, keep, floor, &field, 1};
    return node_record_write(table, &write);
}

static struct node_table *intact_table(void) {
    struct node_table *table = node_table_new(NULL, NULL);
    assert_non_null(table);
    assert_int_equal(write_record(table, 0, A, true, false, floor_of(2, 5)), NODE_GRANTED);
    return table;
}

static void expect_fence(const struct node_table *table, uint64_t nonce, uint16_t stripe,
                         int64_t fence) {
    const int64_t *fences = node_fences(table, nonce);
    assert_non_null(fences);
    assert_int_equal(fences[stripe], fence);
}

static void test_zadd_raises_strictly(void **state) {
    struct node_table *table = intact_table();
    (void)state;
    assert_int_equal(node_zadd(table, A, 5, s1, 1), NODE_GRANTED);
    assert_int_equal(node_zadd(table, A, 5, s1, 1), NODE_STALE);
    assert_int_equal(node_zadd(table, A, 4, s1, 1), NODE_STALE);
    assert_int_equal(node_zadd(table, A, INT64_C(9007199254740991), s4095, 1), NODE_GRANTED);
    assert_int_equal(node_zadd(table, A, 7, s12, 2), NODE_GRANTED);
    assert_int_equal(node_zadd(table, A, 8, s1, 1), NODE_GRANTED);
    assert_int_equal(node_zadd(table, A, 8, s12, 2),
                     NODE_STALE); /* the one that can be is raised all the same */
    expect_fence(table, A, 2, 8);
    assert_int_equal(node_zadd(table, C, 100, s1, 1), NODE_STALE);
    assert_int_equal(node_zadd(table, 0, 100, s1, 1), NODE_STALE);
    expect_fence(table, A, 1, 8);
    expect_fence(table, A, 3, 0);
    node_table_free(table);
}

static void test_acquire_is_one_step(void **state) {
    struct node_table *table = intact_table();
    const struct node_bytes ab[] = {B("a"), B("b")}, bc[] = {B("b"), B("c")};
    (void)state;
    assert_int_equal(node_acquire_guarded(table, ab, 2, token, TTL, A, 6, s12, 2, NOW),
                     NODE_GRANTED);
    assert_int_equal(node_acquire_guarded(table, bc, 2, others, TTL, A, 7, s12, 2, NOW),
                     NODE_DENIED);
    assert_int_equal(node_count(table), 2);
    expect_fence(table, A, 2, 6);
    node_flush_all(table);
    assert_int_equal(node_acquire_guarded(table, ab, 2, token, TTL, A, 8, s12, 2, NOW), NODE_STALE);
    assert_int_equal(node_count(table), 2); /* gone are the fences, the keys are set */
    node_table_free(table);
    table = intact_table();
    assert_int_equal(node_acquire_guarded(table, ab, 2, token, TTL, A, 5, s12, 2, NOW), NODE_STALE);
    assert_int_equal(node_count(table), 2);
    expect_fence(table, A, 1, 0); /* all or none */
    node_table_free(table);
}

static void test_extend_needs_the_fences(void **state) {
    struct node_table *table = intact_table();
    const struct node_bytes ab[] = {B("a"), B("b")};
    (void)state;
    assert_int_equal(node_extend_guarded(table, ab, 1, token, TTL, A, 3, s1, 1, NOW), NODE_ABSENT);
    node_set(table, ab[0], token, TTL, NOW);
    node_set(table, ab[1], others, TTL, NOW);
    assert_int_equal(node_extend_guarded(table, ab, 2, token, 500, A, 3, s1, 1, NOW), NODE_DENIED);
    assert_int_equal(node_extend_guarded(table, ab, 2, token, 500, C, 3, s1, 1, NOW),
                     NODE_GONE); /* said first */
    expect_fence(table, A, 1, 0);
    assert_int_equal(node_pttl(table, ab[0], NOW), TTL);
    assert_int_equal(node_extend_guarded(table, ab, 1, token, 500, A, 3, s12, 2, NOW),
                     NODE_GRANTED);
    assert_int_equal(node_pttl(table, ab[0], NOW), 500);
    expect_fence(table, A, 1, 3); /* raised where it was below */
    expect_fence(table, A, 2, 5); /* and not lowered where it was above */
    assert_int_equal(node_extend_guarded(table, ab, 1, token, 50, A, 3, s12, 2, NOW), NODE_GRANTED);
    assert_int_equal(node_pttl(table, ab[0], NOW), 500);
    node_table_free(table);
}

static enum node_answer break_a(struct node_table *table, struct node_bytes holder, int64_t fence,
                                int64_t *highest) {
    const struct node_bytes a = B("a");
    return node_break(table, a, holder, A, 0, fence, s12, 2, NOW, highest);
}

static void test_break_raises_and_deletes_in_one_step(void **state) {
    struct node_table *table = intact_table();
    const struct node_bytes a = B("a");
    int64_t highest = -1;
    (void)state;
    assert_int_equal(node_acquire(table, &a, 1, token, TTL, NOW), NODE_GRANTED);
    assert_int_equal(node_raise(table, &a, 1, token, A, 20, s12, 2, NOW, &highest), NODE_GRANTED);
    assert_int_equal(break_a(table, token, 20, &highest), NODE_STALE); /* and nothing is deleted */
    assert_int_equal(highest, 20);
    assert_int_equal(node_pttl(table, a, NOW), TTL);
    assert_int_equal(break_a(table, others, 21, &highest), NODE_DENIED); /* raised all the same */
    expect_fence(table, A, 1, 21);
    assert_int_equal(node_pttl(table, a, NOW), TTL);
    assert_int_equal(break_a(table, token, 22, &highest), NODE_GRANTED);
    expect_fence(table, A, 1, 22);
    assert_int_equal(node_pttl(table, a, NOW), -2);
    /* its holder, which raises its own fence a moment later */
    assert_int_equal(node_raise(table, &a, 1, token, A, 30, s12, 2, NOW, &highest), NODE_DENIED);
    assert_int_equal(break_a(table, token, 23, &highest), NODE_ABSENT);
    expect_fence(table, A, 1, 23);
    assert_int_equal(node_break(table, a, token, C, 0, 24, s12, 2, NOW, &highest), NODE_GONE);
    assert_int_equal(node_set_other_type(table, a, NOW), NODE_GRANTED);
    assert_int_equal(break_a(table, token, 24, &highest), NODE_WRONGTYPE);
    expect_fence(table, A, 1, 23);
    assert_int_equal(highest, 20);
    node_table_free(table);
}

/* A vote is a SET and a ZADD, and a break may come between the two. */
static void test_break_changes_the_nonce(void **state) {
    struct node_table *table = intact_table();
    const struct node_bytes a = B("a");
    const struct node_field *fields;
    int64_t highest = -1;
    char digits[17];
    (void)state;
    const uint64_t added = UINT64_C(0x1ffffffff), after = rl_nonce_sum(A, added);
    assert_int_equal(after >> 32, (A >> 32) + 1);
    assert_int_equal((uint32_t)after, (uint32_t)A - 1);
    assert_int_equal(node_acquire(table, &a, 1, token, TTL, NOW), NODE_GRANTED);
    assert_int_equal(node_break(table, a, token, A, added, 20, s12, 2, NOW, &highest),
                     NODE_GRANTED);
    assert_int_equal(node_zadd(table, A, 30, s12, 2), NODE_STALE); /* it was sent before */
    assert_null(node_fences(table, A));
    expect_fence(table, after, 1, 20);
    snprintf(digits, sizeof digits, "%016" PRIx64, after);
    const size_t count = node_record(table, &fields);
    for (size_t i = 0; i < count; i++)
        if (fields[i].name.bytes == 5 && memcmp(fields[i].name.data, "nonce", 5) == 0)
            assert_memory_equal(fields[i].value.data, digits, 16);
    assert_int_equal(node_break(table, a, token, A, added, 40, s12, 2, NOW, &highest), NODE_GONE);
    assert_int_equal(node_break(table, a, token, after, added, 40, s12, 2, NOW, &highest),
                     NODE_ABSENT);
    expect_fence(table, rl_nonce_sum(after, added), 1, 40);
    /* the record is gone, and the fences are there */
    assert_true(node_delete(table, (struct node_bytes){"redlock:node", 12}, NOW));
    assert_int_equal(
        node_break(table, a, token, rl_nonce_sum(after, added), added, 50, s12, 2, NOW, &highest),
        NODE_GONE);
    assert_int_equal(highest, -1);
    node_table_free(table);
}

static void test_raise_reports_the_highest(void **state) {
    struct node_table *table = intact_table();
    const struct node_bytes ab[] = {B("a"), B("b")};
    int64_t highest = -1;
    (void)state;
    assert_int_equal(node_acquire(table, ab, 1, token, TTL, NOW), NODE_GRANTED);
    assert_int_equal(node_raise(table, ab, 1, token, A, 5, s12, 2, NOW, &highest), NODE_STALE);
    assert_int_equal(highest, 5);
    expect_fence(table, A, 1, 0);
    highest = -1;
    assert_int_equal(node_raise(table, ab, 2, token, A, 6, s12, 2, NOW, &highest), NODE_DENIED);
    assert_int_equal(node_raise(table, ab, 1, others, A, 6, s12, 2, NOW, &highest), NODE_DENIED);
    assert_int_equal(node_raise(table, ab, 1, token, A, 6, s12, 2, NOW + TTL + 1, &highest),
                     NODE_DENIED);
    expect_fence(table, A, 1, 0);
    assert_int_equal(node_acquire(table, ab, 1, token, TTL, NOW), NODE_GRANTED);
    assert_int_equal(node_raise(table, ab, 1, token, A, 6, s12, 2, NOW, &highest), NODE_GRANTED);
    assert_int_equal(node_raise(table, ab, 1, token, C, 7, s12, 2, NOW, &highest), NODE_GONE);
    assert_int_equal(highest, -1);
    expect_fence(table, A, 1, 6);
    node_table_free(table);
}

static void test_confirm_changes_nothing(void **state) {
    struct node_table *table = intact_table();
    const struct node_bytes ab[] = {B("a"), B("b")}, list[] = {B("list")};
    (void)state;
    node_set_other_type(table, list[0], NOW);
    assert_int_equal(node_acquire_guarded(table, ab, 2, token, TTL, A, 6, s12, 2, NOW),
                     NODE_GRANTED);
    assert_int_equal(node_confirm(table, ab, 2, token, A, 6, s12, 2, NOW), NODE_GRANTED);
    assert_int_equal(node_confirm(table, ab, 2, others, A, 6, s12, 2, NOW), NODE_STALE);
    assert_int_equal(node_confirm(table, ab, 2, token, A, 7, s12, 2, NOW), NODE_STALE);
    assert_int_equal(node_confirm(table, ab, 2, token, C, 6, s12, 2, NOW), NODE_GONE);
    assert_int_equal(node_confirm(table, list, 1, token, A, 6, s12, 2, NOW), NODE_WRONGTYPE);
    assert_int_equal(node_zadd(table, A, 7, s1, 1),
                     NODE_GRANTED); /* another has passed by, and was denied */
    assert_int_equal(node_confirm(table, ab, 2, token, A, 6, s12, 2, NOW), NODE_GRANTED);
    assert_int_equal(node_confirm(table, ab, 2, token, A, 6, (const uint16_t[]){2}, 1, NOW),
                     NODE_GRANTED);
    assert_int_equal(
        node_confirm(table, ab, 2, token, A, 6, (const uint16_t[]){2}, 1, NOW + TTL + 1),
        NODE_STALE);
    node_table_free(table);
}

static void expect_record(const struct node_table *table, const struct node_field *wanted,
                          size_t count) {
    const struct node_field *fields;
    assert_int_equal(node_record(table, &fields), count);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(fields[i].name.bytes, wanted[i].name.bytes);
        assert_memory_equal(fields[i].name.data, wanted[i].name.data, wanted[i].name.bytes);
        assert_int_equal(fields[i].value.bytes, wanted[i].value.bytes);
        assert_memory_equal(fields[i].value.data, wanted[i].value.data, wanted[i].value.bytes);
    }
}

static void test_record_is_compare_and_set(void **state) {
    struct node_table *table = node_table_new(NULL, NULL);
    const struct node_field first[] = {
        {B("url"), B("redis://a\0b")}, nonce_field(A), {B("empty"), B("")}};
    struct node_record_write write = {.nonce = A, .fields = first, .fields_count = 3};
    const struct node_field *old;
    (void)state;
    assert_non_null(table);
    expect_record(table, NULL, 0);
    assert_int_equal(write_record(table, A, C, false, false, NULL),
                     NODE_DENIED); /* there is none */
    assert_int_equal(node_record_write(table, &write), NODE_GRANTED);
    assert_int_equal(node_record_write(table, &write), NODE_DENIED); /* there is one */
    expect_record(table, first, 3);
    assert_int_equal(node_record(table, &old), 3);
    struct node_field second[] = {nonce_field(C), old[0]}; /* from the record itself */
    write =
        (struct node_record_write){.expected = A, .nonce = C, .fields = second, .fields_count = 2};
    assert_int_equal(node_record_write(table, &write), NODE_GRANTED);
    second[1] = first[0];
    expect_record(table, second, 2);
    assert_int_equal(node_record_write(table, &write),
                     NODE_DENIED);      /* its nonce is another by now */
    assert_null(node_fences(table, C)); /* without a floor none are made */
    node_table_free(table);
}

static void test_fences_move_with_the_nonce(void **state) {
    struct node_table *table = intact_table();
    (void)state;
    assert_int_equal(write_record(table, A, C, false, false, NULL), NODE_GRANTED);
    assert_null(node_fences(table, A));
    expect_fence(table, C, 2, 5);
    assert_int_equal(node_zadd(table, A, 9, s12, 2), NODE_STALE); /* a vote in flight is void */
    assert_int_equal(write_record(table, C, A, false, true, NULL), NODE_GRANTED);
    assert_null(node_fences(table, A));
    expect_fence(table, 0, 2, 5);
    assert_int_equal(node_zadd(table, 0, 9, s12, 2),
                     NODE_STALE); /* kept ones are no name to vote under */
    assert_int_equal(write_record(table, A, C, true, true, NULL), NODE_GRANTED);
    assert_int_equal(write_record(table, C, A, true, false, floor_of(1, 7)), NODE_GRANTED);
    expect_fence(table, A, 1, 7);
    expect_fence(table, A, 2, 5); /* the floor lowers nothing */
    assert_null(node_fences(table, 0));
    node_table_free(table);
}

static void test_losses(void **state) {
    struct node_table *table = intact_table();
    (void)state;
    assert_int_equal(node_count(table), 0);
    assert_false(node_delete(table, B("redlock:fences:kept"), NOW));
    assert_false(node_delete(table, B("redlock:fences:000000000000000A"), NOW)); /* another name */
    assert_false(node_delete(table, B("redlock:fences:"), NOW));
    assert_true(node_evict_key(table, B("redlock:fences:000000000000000a")));
    assert_null(node_fences(table, A));
    assert_true(node_delete(table, B("redlock:node"), NOW));
    assert_false(node_delete(table, B("redlock:node"), NOW));
    expect_record(table, NULL, 0);
    assert_int_equal(write_record(table, 0, A, true, false, floor_of(1, 1)), NODE_GRANTED);
    expect_fence(table, A, 1, 1);
    expect_fence(table, A, 2, 0); /* what was evicted has left nothing behind */
    node_flush_all(table);
    assert_null(node_fences(table, A));
    expect_record(table, NULL, 0);
    assert_int_equal(node_bytes_used(table), 0);
    node_table_free(table);
}

static void test_snapshots(void **state) {
    struct node_table *table = intact_table(), *old = node_table_new(NULL, NULL),
                      *empty = node_table_new(NULL, NULL);
    struct node_field of_a = nonce_field(A);
    (void)state;
    assert_non_null(old);
    assert_non_null(empty);
    assert_true(node_table_copy(old, table));
    assert_int_equal(node_bytes_used(old), node_bytes_used(table));
    assert_int_equal(node_zadd(table, A, 9, s12, 2), NODE_GRANTED);
    expect_fence(old, A, 2, 5); /* two sets */
    assert_int_equal(write_record(table, A, C, false, true, NULL), NODE_GRANTED);
    assert_true(node_table_copy(table, old));
    expect_record(table, &of_a, 1);
    expect_fence(table, A, 2, 5);
    assert_null(node_fences(table, 0));
    assert_true(node_table_copy(table, empty));
    expect_record(table, NULL, 0);
    assert_int_equal(node_bytes_used(table), 0);
    node_table_free(table);
    node_table_free(old);
    node_table_free(empty);
}

/* A node's memory is that of one record and one set of fences, through recoveries and changes
 * too. */
static void test_memory_is_constant(void **state) {
    struct node_table *table = intact_table();
    size_t used = node_bytes_used(table);
    uint64_t nonce = A;
    (void)state;
    assert_true(used > NODE_STRIPES * sizeof(int64_t));
    for (int i = 0; i < 1000; i++) {
        uint64_t next = nonce == A ? C : A;
        bool was_kept = i % 3 == 1, keep = i % 3 == 0;
        assert_int_equal(
            write_record(table, nonce, next, was_kept, keep, was_kept ? floor_of(1, i) : NULL),
            NODE_GRANTED);
        assert_int_equal(node_bytes_used(table), used);
        nonce = next;
    }
    node_table_free(table);
}

static void test_no_memory_changes_nothing(void **state) {
    enum node_answer answer = NODE_NO_MEMORY;
    long failures = 0;
    (void)state;
    for (; answer == NODE_NO_MEMORY; failures++) {
        struct node_table *table = intact_table();
        struct node_field of_a = nonce_field(A);
        assert_true(node_delete(table, B("redlock:fences:000000000000000a"),
                                NOW)); /* it is kept for the next */
        assert_int_equal(write_record(table, A, A, false, false, floor_of(1, 1)), NODE_GRANTED);
        assert_int_equal(write_record(table, A, A, false, true, NULL), NODE_GRANTED);
        size_t used = node_bytes_used(table);
        allocations_left = failures;
        answer = write_record(table, A, C, false, false,
                              floor_of(1, 9)); /* its fences are kept: others are made */
        allocations_left = -1;
        expect_fence(table, 0, 1, 1);
        if (answer == NODE_NO_MEMORY) {
            assert_int_equal(node_bytes_used(table), used);
            assert_null(node_fences(table, C));
            expect_record(table, &of_a, 1);
        }
        node_table_free(table);
    }
    assert_int_equal(answer, NODE_GRANTED);
    assert_int_equal(failures, 3); /* the fences, the record, none */
}

/* Every stripe has its floor, the first and the last too. */
static void test_floors_of_all_stripes(void **state) {
    static const uint16_t ends[] = {0, 1, NODE_STRIPES / 2, NODE_STRIPES - 1};
    (void)state;
    for (unsigned i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
        struct node_table *table = node_table_new(NULL, NULL), *copy = node_table_new(NULL, NULL);
        assert_int_equal(write_record(table, 0, A, true, false, floor_of(ends[i], 5)),
                         NODE_GRANTED);
        assert_int_equal(node_zadd(table, A, 5, &ends[i], 1), NODE_STALE);
        assert_true(node_table_copy(copy, table));
        expect_fence(copy, A, ends[i], 5);
        node_table_free(table);
        node_table_free(copy);
    }
}

/* RENAME: what had the name is gone. */
static void test_renamed_over_others(void **state) {
    struct node_table *table = intact_table();
    (void)state;
    assert_int_equal(write_record(table, A, A, false, true, NULL), NODE_GRANTED);
    size_t used = node_bytes_used(table);
    assert_int_equal(write_record(table, A, C, false, false, floor_of(2, 9)), NODE_GRANTED);
    expect_fence(table, 0, 2, 5);
    expect_fence(table, C, 2, 9);
    assert_int_equal(write_record(table, C, C, true, false, NULL), NODE_GRANTED);
    expect_fence(table, C, 2, 5);
    assert_int_equal(node_bytes_used(table), used);
    node_table_free(table);
}

/* The bytes of the record's text, and eight for each stripe. */
static void test_bytes_used(void **state) {
    struct node_table *table = intact_table();
    size_t used = node_bytes_used(table);
    static char text[70000]; /* the limit is a native node's */
    struct node_field fields[] = {nonce_field(C), {B("url"), {text, sizeof(text)}}};
    struct node_record_write write = {A, C, false, false, NULL, fields, 2};
    (void)state;
    assert_true(node_delete(table, B("redlock:fences:000000000000000a"), NOW));
    assert_int_equal(node_bytes_used(table), 5 + 16 + sizeof(struct node_field));
    assert_true(used - node_bytes_used(table) < NODE_STRIPES * sizeof(int64_t) + 100);
    assert_int_equal(node_record_write(table, &write), NODE_GRANTED);
    assert_int_equal(node_bytes_used(table),
                     5 + 16 + 3 + sizeof(text) + 2 * sizeof(struct node_field));
    node_table_free(table);
}

static void test_one_piece_of_memory_is_missing(void **state) {
    struct node_table *table = node_table_new(NULL, NULL), *full = intact_table();
    (void)state;
    one_fails = true;
    allocations_left = 0; /* the fences */
    assert_int_equal(write_record(table, 0, A, true, false, floor_of(1, 1)), NODE_NO_MEMORY);
    expect_record(table, NULL, 0);
    allocations_left = 0;
    assert_false(node_table_copy(table, full));
    allocations_left = -1;
    one_fails = false;
    assert_true(node_table_copy(table, full));
    expect_fence(table, A, 2, 5);
    node_table_free(table);
    node_table_free(full);
}

static void test_all_memory_is_given_back(void **state) {
    const long before = pieces;
    struct node_table *table = intact_table();
    (void)state;
    assert_true(pieces > before);
    node_table_free(table);
    assert_int_equal(pieces, before);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_zadd_raises_strictly),
        cmocka_unit_test(test_acquire_is_one_step),
        cmocka_unit_test(test_extend_needs_the_fences),
        cmocka_unit_test(test_break_raises_and_deletes_in_one_step),
        cmocka_unit_test(test_break_changes_the_nonce),
        cmocka_unit_test(test_raise_reports_the_highest),
        cmocka_unit_test(test_confirm_changes_nothing),
        cmocka_unit_test(test_record_is_compare_and_set),
        cmocka_unit_test(test_fences_move_with_the_nonce),
        cmocka_unit_test(test_losses),
        cmocka_unit_test(test_snapshots),
        cmocka_unit_test(test_memory_is_constant),
        cmocka_unit_test(test_no_memory_changes_nothing),
        cmocka_unit_test(test_floors_of_all_stripes),
        cmocka_unit_test(test_renamed_over_others),
        cmocka_unit_test(test_bytes_used),
        cmocka_unit_test(test_one_piece_of_memory_is_missing),
        cmocka_unit_test(test_all_memory_is_given_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
