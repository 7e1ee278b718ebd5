/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The readers of a shared lock on one node: the rules one by one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "memory.h"
#include "node/queue.h"

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

/* What a native node leaves behind, or a list that was deleted: somebody reads who is not listed.
 */
static void test_nobody_joins_who_would_not_know_the_others(void **state) {
    struct node_table *table = node_table_new(NULL, NULL);
    (void)state;
    assert_int_equal(node_set(table, text("job"), text(NODE_SHARED_MARKER), TTL_MS, 0),
                     NODE_GRANTED);
    assert_int_equal(join(table, "a", TTL_MS, 1), NODE_DENIED);
    assert_int_equal(extend(table, "a", TTL_MS, 1), NODE_ABSENT);
    assert_int_equal(leave(table, "a", 1), NODE_ABSENT);
    assert_int_equal(write_lock(table, 2), NODE_DENIED);
    assert_int_equal(join(table, "a", TTL_MS, TTL_MS + 1), NODE_GRANTED);
    assert_true(node_pexpire(table, text("job"), 2 * TTL_MS, TTL_MS + 1)); /* longer than a */
    assert_int_equal(join(table, "b", TTL_MS, TTL_MS + 2), NODE_DENIED);
    assert_int_equal(join(table, "a", 3 * TTL_MS, TTL_MS + 2), NODE_GRANTED);
    assert_int_equal(join(table, "b", TTL_MS, TTL_MS + 3), NODE_GRANTED);
    node_table_free(table);
}

static void test_a_reader_whose_end_has_come_joins_like_any_other(void **state) {
    struct node_table *table = node_table_new(NULL, NULL);
    (void)state;
    assert_int_equal(join(table, "a", TTL_MS, 0), NODE_GRANTED);
    assert_int_equal(join(table, "b", 2 * TTL_MS, 0), NODE_GRANTED);
    assert_true(node_pexpire(table, text("job"), 5 * TTL_MS, 1)); /* longer than both */
    assert_int_equal(join(table, "a", TTL_MS, TTL_MS), NODE_DENIED);
    assert_int_equal(join(table, "b", TTL_MS, TTL_MS), NODE_GRANTED);
    node_table_free(table);
}

/* The key alone says who holds it: the readers that a list still names have lost it. */
static void test_a_list_without_the_marker_admits_nobody(void **state) {
    struct node_table *table = node_table_new(NULL, NULL);
    (void)state;
    assert_int_equal(join(table, "a", 5 * TTL_MS, 0), NODE_GRANTED);
    assert_true(node_delete(table, text("job"), 1));
    assert_int_equal(write_lock(table, 2), NODE_GRANTED); /* it ends before the list does */
    assert_int_equal(join(table, "b", TTL_MS, 3), NODE_DENIED);
    assert_int_equal(join(table, "a", TTL_MS, 3), NODE_DENIED);
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

/* At its end, as at any other time: a stock node has its key until then. */
static void test_the_only_reader_leaves_at_its_end(void **state) {
    struct node_table *table = node_table_new(NULL, NULL);
    (void)state;
    assert_int_equal(join(table, "a", TTL_MS, 0), NODE_GRANTED);
    assert_int_equal(leave(table, "a", TTL_MS), NODE_GRANTED);
    assert_int_equal(node_count(table) + node_lists(table), 0);
    assert_int_equal(join(table, "a", TTL_MS, 0), NODE_GRANTED);
    assert_int_equal(join(table, "b", TTL_MS + 1, 0), NODE_GRANTED);
    assert_int_equal(leave(table, "a", TTL_MS), NODE_ABSENT);
    assert_int_equal(readers(table, TTL_MS), 1);
    node_table_free(table);
}

static void test_a_copy_without_memory(void **state) {
    (void)state;
    struct node_table *from = node_table_new(NULL, NULL);
    assert_int_equal(join(from, "a", TTL_MS, 0), NODE_GRANTED);
    assert_int_equal(join(from, "b", TTL_MS, 0), NODE_GRANTED);
    bool copied = false;
    for (long left = 0; !copied; left++) {
        struct node_table *to = node_table_new(NULL, NULL);
        memory_left = left;
        copied = node_table_copy(to, from);
        memory_left = -1;
        assert_true(!copied || readers(to, 0) == 2);
        node_table_free(to);
        assert_true(left < 40);
    }
    node_table_free(from);
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

/* ---- native tables and their queue ---- */

static struct node_table *native_table(size_t bytes_max) {
    const struct node_options options = {.native = true, .bytes_max = bytes_max};
    struct node_table *table = node_table_open(&options);
    assert_non_null(table);
    return table;
}

/* Everything ends at its end there, and a list goes with its key, whoever takes the key out. */
static void test_native_ends(void **state) {
    struct node_table *table = native_table(0);
    (void)state;
    assert_int_equal(join(table, "a", TTL_MS, 0), NODE_GRANTED);
    assert_int_equal(join(table, "b", 2 * TTL_MS, 0), NODE_GRANTED);
    assert_int_equal(readers(table, TTL_MS - 1), 2);
    assert_int_equal(readers(table, TTL_MS), 1);
    assert_int_equal(extend(table, "a", TTL_MS, TTL_MS), NODE_ABSENT);
    assert_int_equal(node_pttl(table, text("job"), TTL_MS), TTL_MS);
    assert_int_equal(write_lock(table, 2 * TTL_MS - 1), NODE_DENIED);
    assert_int_equal(node_expire_some(table, 2 * TTL_MS, 9), 1);
    assert_int_equal(node_lists(table), 0);
    assert_int_equal(write_lock(table, 2 * TTL_MS), NODE_GRANTED);
    assert_int_equal(extend(table, "b", TTL_MS, 2 * TTL_MS), NODE_DENIED);
    node_table_free(table);
}

static size_t join_many(struct node_table *table, unsigned count) {
    char name[24];
    for (unsigned i = 0; i < count; i++) {
        snprintf(name, sizeof name, "reader-%u", i);
        assert_int_equal(join(table, name, TTL_MS + (i == 0), 0), NODE_GRANTED);
    }
    return memory_pieces;
}

/* One request does not pay for what a thousand readers leave. */
static void test_native_readers_are_freed_in_portions(void **state) {
    struct node_table *table = native_table(0);
    (void)state;
    const size_t pieces = memory_pieces, before = join_many(table, 1000);
    assert_true(before >= pieces + 1001);
    assert_false(node_frees_more(table));
    assert_true(node_delete(table, text("job"), 0));
    assert_true(memory_pieces + 20 >= before && node_frees_more(table));
    assert_int_equal(node_lists(table), 0);
    /* the next readers of the name are others */
    assert_int_equal(join(table, "reader-7", TTL_MS, 0), NODE_GRANTED);
    assert_int_equal(readers(table, 0), 1);
    assert_int_equal(extend(table, "reader-8", TTL_MS, 0), NODE_ABSENT);
    assert_int_equal(node_free_some(table, 100), 100);
    assert_true(node_free_some(table, 2000) < 1000);
    assert_int_equal(node_free_some(table, 100), 0);
    assert_false(node_frees_more(table));
    assert_int_equal(readers(table, 0), 1);
    assert_true(memory_pieces < pieces + 20);
    node_table_free(table);
}

/* Nor does the last reader pay for a thousand that have ended. */
static void test_native_ended_readers_do_not_hold(void **state) {
    struct node_table *table = native_table(0);
    (void)state;
    const size_t before = join_many(table, 1000);
    assert_int_equal(readers(table, TTL_MS), 1);
    assert_int_equal(extend(table, "reader-500", TTL_MS, TTL_MS), NODE_ABSENT);
    assert_int_equal(leave(table, "reader-501", TTL_MS), NODE_ABSENT);
    assert_int_equal(leave(table, "reader-0", TTL_MS), NODE_GRANTED);
    assert_int_equal(node_count(table) + node_lists(table), 0);
    assert_true(memory_pieces + 60 >= before);
    assert_int_equal(write_lock(table, TTL_MS), NODE_GRANTED);
    while (node_free_some(table, 10) == 10) continue;
    assert_int_equal(write_lock(table, TTL_MS), NODE_DENIED);
    node_table_free(table);
    join_many(table = native_table(0), 100);
    node_table_free(table);
    assert_int_equal(memory_pieces, 0);
}

static void test_native_break(void **state) {
    static int64_t floor[NODE_STRIPES];
    struct node_table *table = native_table(0);
    const struct node_field nonce = {text("nonce"), text("0000000000000007")};
    const struct node_record_write record = {
        .nonce = 7, .floor = floor, .fields = &nonce, .fields_count = 1};
    const uint16_t stripe = 3;
    int64_t highest;
    (void)state;
    assert_int_equal(node_record_write(table, &record), NODE_GRANTED);
    assert_int_equal(join(table, "a", TTL_MS, 0), NODE_GRANTED);
    assert_int_equal(
        node_break(table, text("job"), text(NODE_SHARED_MARKER), 7, 1, 50, &stripe, 1, 1, &highest),
        NODE_GRANTED);
    assert_int_equal(node_lists(table), 0);
    assert_int_equal(extend(table, "a", TTL_MS, 2), NODE_ABSENT);
    assert_int_equal(leave(table, "a", 2), NODE_ABSENT);
    node_table_free(table);
}

/* The key's own fence counts: a writer before raises a reader's, a neighbour in its stripe does
 * not; and a writer after must exceed what the readers had. */
static void test_native_fences(void **state) {
    static int64_t floor[NODE_STRIPES];
    struct node_table *table = native_table(0);
    const struct node_field nonce = {text("nonce"), text("0000000000000007")};
    const struct node_record_write record = {
        .nonce = 7, .floor = floor, .fields = &nonce, .fields_count = 1};
    const struct node_bytes key = text("job");
    struct node_share share = of("a", TTL_MS);
    int64_t fence = 0;
    (void)state;
    share.guarded = true;
    share.nonce = 7;
    share.fence = 5;
    assert_int_equal(node_share(table, &share, 0, &fence), NODE_GONE);
    assert_int_equal(node_count(table), 0);
    assert_int_equal(node_record_write(table, &record), NODE_GRANTED);
    /* the writer names the key's stripe, which only the table knows here */
    for (share.stripe = 0; share.stripe < NODE_STRIPES; share.stripe++) {
        assert_int_equal(
            node_acquire_guarded(table, &key, 1, text("w"), TTL_MS, 7, 40, &share.stripe, 1, 0),
            NODE_GRANTED);
        const bool own = node_fences(table, 7)[share.stripe] == 40;
        assert_int_equal(node_release(table, &key, 1, text("w"), 0), NODE_GRANTED);
        if (own) break;
    }
    assert_true(share.stripe < NODE_STRIPES);
    assert_int_equal(node_share(table, &share, 1, &fence), NODE_GRANTED);
    assert_int_equal(fence, 40);
    share.fence = 44;
    assert_int_equal(node_share(table, &share, 2, &fence), NODE_GRANTED);
    assert_int_equal(fence, 44);
    share.fence = 45;
    assert_int_equal(node_share_extend(table, &share, 2), NODE_GRANTED);
    assert_int_equal(leave(table, "a", 3), NODE_GRANTED);
    assert_int_equal(
        node_acquire_guarded(table, &key, 1, text("w"), TTL_MS, 7, 45, &share.stripe, 1, 3),
        NODE_STALE);
    assert_int_equal(node_release(table, &key, 1, text("w"), 3), NODE_GRANTED);
    assert_int_equal(
        node_acquire_guarded(table, &key, 1, text("w"), TTL_MS, 7, 46, &share.stripe, 1, 3),
        NODE_GRANTED);
    node_table_free(table);
}

/* The limit is for new readers; those that are listed, and writers that become readers, go on. */
static void test_native_limit(void **state) {
    struct node_table *table = native_table(64 << 10);
    char name[16];
    unsigned count = 0;
    (void)state;
    const size_t before = node_bytes_locked(table);
    const struct node_bytes other = text("other");
    assert_int_equal(node_acquire(table, &other, 1, text("w"), TTL_MS, 0), NODE_GRANTED);
    for (; count < 10000; count++) {
        snprintf(name, sizeof name, "r%u", count);
        if (join(table, name, TTL_MS, 0) != NODE_GRANTED) break;
    }
    assert_true(count > 100 && count < 10000);
    assert_true(node_bytes_locked(table) <= 64 << 10);
    assert_int_equal(join(table, "r0", 2 * TTL_MS, 1), NODE_GRANTED);
    assert_int_equal(extend(table, "r1", 2 * TTL_MS, 1), NODE_GRANTED);
    const struct node_share share = {.key = other, .reader = text("w"), .ttl_ms = TTL_MS};
    assert_int_equal(node_share_extend(table, &share, 1), NODE_GRANTED);
    assert_int_equal(node_share_release(table, &share, 1), NODE_GRANTED);
    for (unsigned i = 0; i < count; i++) {
        snprintf(name, sizeof name, "r%u", i);
        assert_int_equal(leave(table, name, 2), NODE_GRANTED);
    }
    assert_int_equal(node_count(table), 0);
    assert_int_equal(node_lists(table), 0);
    assert_true(node_bytes_locked(table) <= before + (80 << 10)); /* pieces of tables remain */
    node_table_free(table);
}

static void note_turn(void *context, struct node_bytes key, struct node_bytes waiter, size_t rank,
                      bool turn) {
    (void)key, (void)rank;
    if (turn) snprintf(context, 16, "%.*s", (int)waiter.bytes, (const char *)waiter.data);
}

static enum node_answer join_in_turn(struct node_table *table, struct node_queue *queue,
                                     const char *reader, const char *waiter, int64_t waited_us,
                                     int64_t now_ms) {
    const struct node_share share = of(reader, TTL_MS);
    const struct node_waiter who = {.name = text(waiter),
                                    .since_us = NODE_SINCE_UNKNOWN,
                                    .waited_us = waited_us,
                                    .remember_us = 10000000,
                                    .reads = true};
    struct node_turn turn;
    int64_t fence;
    return node_share_in_turn(table, queue, &share, &who, now_ms * 1000, &fence, &turn);
}

/* Readers that follow each other do not keep a writer waiting; and after it they come together. */
static void test_native_queue(void **state) {
    char turn[16] = "";
    struct node_table *table = native_table(0);
    struct node_queue *queue = node_queue_new(&(struct node_queue_options){
        .reserve_us = NODE_RESERVE_US, .notify = note_turn, .context = turn});
    const struct node_bytes key = text("job");
    const struct node_waiter writer = {
        .name = text("W"), .since_us = NODE_SINCE_UNKNOWN, .remember_us = 10000000};
    struct node_turn result;
    (void)state;
    assert_int_equal(join_in_turn(table, queue, "a", "", 0, 1), NODE_GRANTED);
    assert_int_equal(join_in_turn(table, queue, "b", "", 0, 2), NODE_GRANTED);
    assert_int_equal(node_acquire_in_turn(table, queue, &key, 1, text("w"), TTL_MS, NULL, &writer,
                                          3000, &result),
                     NODE_DENIED);
    assert_int_equal(result.rank, 0);
    /* a reader that is there stays; others stand behind the writer */
    assert_int_equal(join_in_turn(table, queue, "a", "", 0, 4), NODE_GRANTED);
    assert_int_equal(join_in_turn(table, queue, "c", "", 0, 5), NODE_DENIED);
    assert_int_equal(join_in_turn(table, queue, "d", "D", 0, 6), NODE_DENIED);
    assert_int_equal(join_in_turn(table, queue, "e", "E", 0, 7), NODE_DENIED);
    assert_int_equal(node_queue_waiters(queue), 3);
    assert_int_equal(leave(table, "a", 8), NODE_GRANTED);
    assert_int_equal(leave(table, "b", 8), NODE_GRANTED);
    node_queue_freed(queue, key, 8000);
    assert_string_equal(turn, "W");
    assert_int_equal(join_in_turn(table, queue, "d", "D", 0, 9), NODE_DENIED); /* reserved */
    assert_int_equal(node_acquire_in_turn(table, queue, &key, 1, text("w"), TTL_MS, NULL, &writer,
                                          10000, &result),
                     NODE_GRANTED);
    assert_int_equal(node_release(table, &key, 1, text("w"), 11), NODE_GRANTED);
    node_queue_freed(queue, key, 11000);
    assert_string_equal(turn, "D");
    assert_int_equal(join_in_turn(table, queue, "d", "D", 0, 12), NODE_GRANTED);
    assert_string_equal(turn, "E"); /* it may come at once */
    assert_int_equal(join_in_turn(table, queue, "e", "E", 0, 13), NODE_GRANTED);
    assert_int_equal(node_queue_waiters(queue), 0);
    assert_int_equal(readers(table, 14), 2);
    node_queue_free(queue);
    node_table_free(table);
}

/* A downgrade lets readers in, and so does a writer that gives up among readers. */
static void test_native_readers_are_let_in(void **state) {
    char turn[16] = "";
    struct node_table *table = native_table(0);
    struct node_queue *queue = node_queue_new(&(struct node_queue_options){
        .reserve_us = NODE_RESERVE_US, .notify = note_turn, .context = turn});
    const struct node_bytes key = text("job");
    const struct node_share writer_reads = of("w", TTL_MS);
    const struct node_waiter writer = {
        .name = text("V"), .since_us = NODE_SINCE_UNKNOWN, .remember_us = 10000000};
    struct node_turn result;
    (void)state;
    assert_int_equal(node_acquire(table, &key, 1, text("w"), TTL_MS, 1), NODE_GRANTED);
    assert_int_equal(join_in_turn(table, queue, "d", "D", 0, 2), NODE_DENIED);
    assert_int_equal(node_share_extend_in_turn(table, queue, &writer_reads, 3000), NODE_GRANTED);
    assert_string_equal(turn, "D");
    assert_int_equal(join_in_turn(table, queue, "d", "D", 0, 4), NODE_GRANTED);
    assert_int_equal(node_acquire_in_turn(table, queue, &key, 1, text("v"), TTL_MS, NULL, &writer,
                                          5000, &result),
                     NODE_DENIED);
    assert_int_equal(join_in_turn(table, queue, "e", "E", 0, 6), NODE_DENIED);
    /* an extension of a reader changes nothing */
    assert_int_equal(node_share_extend_in_turn(table, queue, &writer_reads, 7000), NODE_GRANTED);
    assert_int_equal(node_queue_reservations(queue), 0);
    assert_int_equal(node_leave_turn(table, queue, key, text("V"), false, 8000), 1);
    assert_string_equal(turn, "E");
    assert_int_equal(join_in_turn(table, queue, "e", "E", 0, 9), NODE_GRANTED);
    assert_int_equal(node_leave_turn(table, queue, key, text("E"), false, 10000), 0);
    node_queue_free(queue);
    node_table_free(table);
}

/* A reader's turn that a writer comes before is nobody's: the writer keeps its place. */
static void test_native_writer_keeps_its_place(void **state) {
    char turn[16] = "";
    struct node_table *table = native_table(0);
    struct node_queue *queue = node_queue_new(&(struct node_queue_options){
        .reserve_us = NODE_RESERVE_US, .notify = note_turn, .context = turn});
    const struct node_bytes key = text("job");
    const struct node_waiter writer = {.name = text("W"),
                                       .since_us = NODE_SINCE_UNKNOWN,
                                       .waited_us = 5000000,
                                       .remember_us = 10000000};
    const struct node_bytes token = text("w");
    struct node_turn result;
    (void)state;
    assert_int_equal(node_acquire(table, &key, 1, token, TTL_MS, 0), NODE_GRANTED);
    assert_int_equal(join_in_turn(table, queue, "d", "D", 0, 6000), NODE_GRANTED); /* it ended */
    assert_int_equal(
        node_share_release(table, &(struct node_share){key, text("d"), 0, 0, 0, 0, 0}, 6001),
        NODE_GRANTED);
    assert_int_equal(node_acquire(table, &key, 1, token, TTL_MS, 6001), NODE_GRANTED);
    assert_int_equal(join_in_turn(table, queue, "d", "D", 0, 6002), NODE_DENIED);
    assert_int_equal(join_in_turn(table, queue, "e", "E", 0, 6003), NODE_DENIED);
    assert_int_equal(node_release(table, &key, 1, token, 6004), NODE_GRANTED);
    node_queue_freed(queue, key, 6004000);
    assert_int_equal(join_in_turn(table, queue, "d", "D", 0, 6005), NODE_GRANTED);
    assert_string_equal(turn, "E");
    assert_int_equal(
        node_acquire_in_turn(table, queue, &key, 1, token, TTL_MS, NULL, &writer, 6006000, &result),
        NODE_DENIED);
    assert_int_equal(result.rank, 0);
    assert_int_equal(node_queue_reservations(queue), 0);
    (void)node_queue_tick(queue, 6006000 + 2 * NODE_RESERVE_US, 9);
    assert_int_equal(node_queue_waiters(queue), 2);
    node_queue_free(queue);
    node_table_free(table);
}

static void test_native_no_memory(void **state) {
    (void)state;
    for (long left = 0;; left++) {
        struct node_table *table = native_table(0);
        memory_left = left;
        enum node_answer answer = join(table, "a", TTL_MS, 0);
        memory_left = -1;
        const bool granted = answer == NODE_GRANTED;
        assert_int_equal(answer, granted ? NODE_GRANTED : NODE_NO_MEMORY);
        assert_int_equal(node_count(table), granted);
        assert_int_equal(node_lists(table), granted);
        node_table_free(table);
        assert_int_equal(memory_pieces, 0);
        if (granted) break;
        assert_true(left < 20);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_readers_exclude_writers),
        cmocka_unit_test(test_the_last_to_leave_deletes_the_key),
        cmocka_unit_test(test_a_place_needs_its_own_end),
        cmocka_unit_test(test_a_new_key_has_a_new_list),
        cmocka_unit_test(test_nobody_joins_who_would_not_know_the_others),
        cmocka_unit_test(test_a_reader_whose_end_has_come_joins_like_any_other),
        cmocka_unit_test(test_a_list_without_the_marker_admits_nobody),
        cmocka_unit_test(test_a_writer_becomes_a_reader),
        cmocka_unit_test(test_a_downgrade_begins_a_new_list),
        cmocka_unit_test(test_a_reader_that_was_a_writer_leaves),
        cmocka_unit_test(test_the_only_reader_leaves_at_its_end),
        cmocka_unit_test(test_a_copy_without_memory),
        cmocka_unit_test(test_a_downgrade_without_memory),
        cmocka_unit_test(test_fences),
        cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_native_ends),
        cmocka_unit_test(test_native_readers_are_freed_in_portions),
        cmocka_unit_test(test_native_ended_readers_do_not_hold),
        cmocka_unit_test(test_native_break),
        cmocka_unit_test(test_native_fences),
        cmocka_unit_test(test_native_limit),
        cmocka_unit_test(test_native_queue),
        cmocka_unit_test(test_native_readers_are_let_in),
        cmocka_unit_test(test_native_writer_keeps_its_place),
        cmocka_unit_test(test_native_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
