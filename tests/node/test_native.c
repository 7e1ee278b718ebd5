/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The rules of a native table, one by one, and which rule ends the keys of a stock table. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/mix.h"
#include "memory.h"
#include "node/table.h"

#define B(text) ((struct node_bytes){text, sizeof(text) - 1})
#define A UINT64_C(0xa)
#define C UINT64_C(0xc)
enum { TTL = 100, NOW = 1000, NAME_BYTES = 24 };

static const struct node_bytes token = {"x", 1}, others = {"y", 1};

static char reported[512];

static void on_change(void *context, enum node_change change, struct node_bytes key,
                      struct node_bytes held, int64_t expires_ms) {
    size_t used = strlen(reported);
    (void)context;
    int bytes =
        snprintf(reported + used, sizeof(reported) - used, "%c %.*s=%.*s@%lld ", "SEDXL"[change],
                 key.bytes < 16 ? (int)key.bytes : 16, (const char *)key.data, (int)held.bytes,
                 (const char *)held.data, (long long)expires_ms);
    assert_true(bytes > 0 && (size_t)bytes < sizeof(reported) - used);
}

static void expect_reported(const char *text) {
    assert_string_equal(reported, text);
    reported[0] = 0;
}

static struct node_table *open_table(struct node_options options) {
    options.on_change = on_change;
    reported[0] = 0;
    struct node_table *table = node_table_open(&options);
    assert_non_null(table);
    return table;
}

static struct node_table *native_table(void) {
    return open_table((struct node_options){.native = true});
}

/* ---- keys with stripes ---- */

static uint16_t stripe_of(struct node_bytes key) {
    return (uint16_t)(rl_fnv1a(RL_FNV_BASIS, key.data, key.bytes) % NODE_STRIPES);
}

/* Three keys: two of one stripe, one of another. */
static char names[3][NAME_BYTES];
static struct node_bytes k[3];
static uint16_t s[3];

static int find_keys(void **state) {
    (void)state;
    k[0] = B("first");
    unsigned found = 1;
    for (unsigned i = 0; found < 3; i++) {
        int bytes = snprintf(names[found], NAME_BYTES, "key-%u", i);
        struct node_bytes key = {names[found], (size_t)bytes};
        if ((stripe_of(key) == stripe_of(k[0])) == (found == 1)) k[found++] = key;
    }
    for (unsigned i = 0; i < 3; i++) s[i] = stripe_of(k[i]);
    return s[0] == s[1] && s[0] != s[2] ? 0 : -1;
}

/* ---- the record ---- */

static int64_t floors[NODE_STRIPES];

static const int64_t *floor_of(uint16_t stripe, int64_t fence) {
    memset(floors, 0, sizeof(floors));
    floors[stripe] = fence;
    return floors;
}

static enum node_answer write_record(struct node_table *table, uint64_t expected, uint64_t nonce,
                                     bool was_kept, bool keep, const int64_t *floor) {
    struct node_field field = {B("nonce"),
                               nonce == A ? B("000000000000000a") : B("000000000000000c")};
    struct node_record_write write = {expected, nonce, was_kept, keep, floor, &field, 1};
    return node_record_write(table, &write);
}

static struct node_table *intact_table(void) {
    struct node_table *table = native_table();
    assert_int_equal(write_record(table, 0, A, true, false, floor_of(0, 0)), NODE_GRANTED);
    return table;
}

static enum node_answer acquire(struct node_table *table, unsigned key, int64_t fence,
                                int64_t now_ms) {
    return node_acquire_guarded(table, &k[key], 1, token, TTL, A, fence, &s[key], 1, now_ms);
}

static enum node_answer raise_key(struct node_table *table, unsigned key, int64_t fence,
                                  int64_t *highest) {
    return node_raise(table, &k[key], 1, token, A, fence, &s[key], 1, NOW, highest);
}

static void release(struct node_table *table, unsigned key) {
    assert_int_equal(node_release(table, &k[key], 1, token, NOW), NODE_GRANTED);
}

static void expect_fence(struct node_table *table, unsigned key, int64_t fence) {
    struct node_lock lock;
    assert_true(node_look(table, k[key], NOW, &lock));
    assert_int_equal(lock.fence, fence);
}

/* What recovery reads. */
static void expect_highest(const struct node_table *table, uint16_t stripe, int64_t fence) {
    const int64_t *fences = node_fences(table, A);
    assert_non_null(fences);
    assert_int_equal(fences[stripe], fence);
}

/* ---- when keys end ---- */

static void test_a_key_ends_at_its_end(void **state) {
    struct node_table *table = native_table();
    (void)state;
    assert_int_equal(node_acquire(table, k, 1, token, TTL, NOW), NODE_GRANTED);
    assert_int_equal(node_pttl(table, k[0], NOW + TTL - 1), 1);
    assert_int_equal(node_acquire(table, k, 1, others, TTL, NOW + TTL - 1), NODE_DENIED);
    assert_int_equal(node_pttl(table, k[0], NOW + TTL), -2);
    assert_int_equal(node_extend(table, k, 1, token, TTL, NOW + TTL), NODE_ABSENT);
    expect_reported("S first=x@1100 X first=x@1100 ");
    assert_int_equal(node_acquire(table, k, 1, token, TTL, NOW), NODE_GRANTED);
    assert_int_equal(node_release(table, k, 1, token, NOW + TTL), NODE_ABSENT);
    expect_reported("S first=x@1100 X first=x@1100 ");
    assert_int_equal(node_acquire(table, k, 1, token, TTL, NOW), NODE_GRANTED);
    assert_int_equal(node_acquire(table, k, 1, others, TTL, NOW + TTL), NODE_GRANTED);
    expect_reported("S first=x@1100 X first=x@1100 S first=y@1200 ");
    node_table_free(table);
}

/* Reads run where a server forbids writes; the change function writes the mirror. */
static void test_reads_change_nothing(void **state) {
    struct node_table *table = intact_table();
    struct node_lock lock;
    int64_t highest = -1;
    (void)state;
    assert_int_equal(acquire(table, 0, 5, NOW), NODE_GRANTED);
    expect_reported("S first=x@1100 ");
    assert_true(node_look(table, k[0], NOW, &lock));
    assert_int_equal(lock.expires_ms, NOW + TTL);
    assert_int_equal(lock.fence, 5);
    assert_int_equal(lock.token.bytes, 1);
    assert_memory_equal(lock.key.data, k[0].data, k[0].bytes);
    lock.fence = -1;
    assert_false(node_look(table, k[0], NOW + TTL, &lock));
    assert_false(node_look_ended(table, k[0], NOW + TTL - 1, &lock));
    assert_false(node_look_ended(table, B("other"), NOW + TTL, &lock));
    assert_int_equal(lock.fence, -1);
    assert_true(node_look_ended(table, k[0], NOW + TTL, &lock));
    assert_int_equal(lock.fence, 5);
    assert_memory_equal(lock.token.data, token.data, token.bytes);
    assert_null(node_get(table, k[0], NOW + TTL).data);
    assert_int_equal(node_confirm(table, k, 1, token, A, 5, s, 1, NOW + TTL), NODE_STALE);
    assert_int_equal(node_raise(table, k, 1, token, A, 6, s, 1, NOW + TTL, &highest), NODE_DENIED);
    assert_int_equal(node_count(table), 1);
    expect_reported("");
    node_expire_key(table, k[0], NOW + TTL - 1);
    expect_reported("");
    node_expire_key(table, k[0], NOW + TTL);
    expect_reported("X first=x@1100 ");
    node_table_free(table);
}

static void test_ends_in_portions(void **state) {
    struct node_table *table = native_table();
    const struct node_bytes key[] = {B("a"), B("b"), B("c"), B("d")};
    (void)state;
    assert_int_equal(node_next_expiry(table), INT64_MAX);
    for (int i = 0; i < 4; i++)
        assert_int_equal(node_acquire(table, &key[i], 1, token, 40 - 10 * i, 0), NODE_GRANTED);
    assert_int_equal(node_next_expiry(table), 10);
    reported[0] = 0;
    assert_int_equal(node_expire_some(table, 9, 10), 0);
    assert_int_equal(node_expire_some(table, 30, 2), 2);
    expect_reported("X d=x@10 X c=x@20 ");
    assert_int_equal(node_next_expiry(table), 30);
    assert_int_equal(node_expire_some(table, 30, 2), 1);
    assert_int_equal(node_next_expiry(table), 40);
    assert_int_equal(node_extend(table, key, 1, token, 100, 0), NODE_GRANTED);
    assert_int_equal(node_next_expiry(table), 100);
    node_table_free(table);
}

static void test_rules_of_stock_servers(void **state) {
    (void)state;
    static const struct {
        enum node_end_rule rule;
        bool a_request_finds_it, expiry_takes_it;
    } rules[] = {{NODE_ENDS_AFTER, true, false},
                 {NODE_EXPIRES_AT, true, true},
                 {NODE_ENDS_EITHER, false, true}};
    for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
        struct node_table *table = open_table((struct node_options){.ends = rules[i].rule});
        bool request = rules[i].a_request_finds_it, expires = rules[i].expiry_takes_it;
        assert_int_equal(write_record(table, 0, A, true, false, floor_of(0, 0)), NODE_GRANTED);
        assert_int_equal(node_acquire(table, k, 1, token, TTL, NOW), NODE_GRANTED);
        assert_int_equal(node_pttl(table, k[0], NOW + TTL), 0);
        assert_non_null(node_get(table, k[0], NOW + TTL).data);
        node_set(table, k[0], token, TTL, NOW);
        assert_int_equal(node_confirm(table, k, 1, token, A, 0, s, 1, NOW + TTL),
                         request ? NODE_GRANTED : NODE_STALE);
        node_set(table, k[0], token, TTL, NOW);
        assert_int_equal(node_release(table, k, 1, token, NOW + TTL),
                         request ? NODE_GRANTED : NODE_ABSENT);
        node_set(table, k[0], token, TTL, NOW);
        node_expire_due(table, NOW + TTL);
        assert_int_equal(node_count(table), !expires);
        node_set(table, k[0], token, TTL, NOW);
        assert_int_equal(node_acquire(table, k, 1, others, TTL, NOW + TTL),
                         request ? NODE_DENIED : NODE_GRANTED);
        node_set(table, k[0], token, TTL, NOW);
        assert_int_equal(node_extend(table, k, 1, token, TTL, NOW + TTL),
                         request ? NODE_GRANTED : NODE_ABSENT);
        node_table_free(table);
    }
}

/* ---- fences ---- */

static void test_keys_in_use_are_exact(void **state) {
    struct node_table *table = intact_table();
    int64_t highest = -1;
    (void)state;
    assert_int_equal(acquire(table, 0, 100, NOW), NODE_GRANTED);
    assert_int_equal(acquire(table, 1, 50, NOW), NODE_GRANTED); /* its neighbour does not count */
    expect_fence(table, 0, 100);
    expect_fence(table, 1, 50);
    expect_highest(table, s[0], 100);
    assert_int_equal(raise_key(table, 1, 50, &highest), NODE_STALE);
    assert_int_equal(highest, 50);
    assert_int_equal(raise_key(table, 1, 51, &highest), NODE_GRANTED);
    assert_int_equal(node_confirm(table, &k[1], 1, token, A, 51, &s[1], 1, NOW), NODE_GRANTED);
    assert_int_equal(node_confirm(table, &k[1], 1, token, A, 52, &s[1], 1, NOW), NODE_STALE);
    expect_highest(table, s[0], 100);
    node_table_free(table);
}

/* However a key goes, the next one of its stripe begins above its fence. */
static void test_a_key_leaves_its_fence(void **state) {
    (void)state;
    for (int way = 0; way < 4; way++) {
        struct node_table *table = intact_table();
        int64_t now_ms = NOW;
        assert_int_equal(acquire(table, 0, 100, NOW), NODE_GRANTED);
        if (way == 0) release(table, 0);
        if (way == 1) now_ms += TTL; /* the acquire below takes it out */
        if (way == 2) {
            now_ms += TTL;
            assert_int_equal(node_expire_some(table, now_ms, 1), 1);
        }
        if (way == 3) assert_true(node_delete(table, k[0], NOW));
        assert_int_equal(acquire(table, 0, 100, now_ms), NODE_STALE);
        assert_int_equal(node_release(table, k, 1, token, now_ms), NODE_GRANTED);
        assert_int_equal(acquire(table, 1, 100, now_ms), NODE_STALE);
        assert_int_equal(node_release(table, &k[1], 1, token, now_ms), NODE_GRANTED);
        assert_int_equal(acquire(table, 2, 1, now_ms), NODE_GRANTED); /* of another stripe */
        assert_int_equal(acquire(table, 0, 101, now_ms), NODE_GRANTED);
        node_table_free(table);
    }
}

/* A key that is held keeps its own fence when a neighbour with a higher one goes. */
static void test_a_neighbour_that_goes(void **state) {
    struct node_table *table = intact_table();
    int64_t highest = -1;
    (void)state;
    assert_int_equal(acquire(table, 0, 100, NOW), NODE_GRANTED);
    assert_int_equal(acquire(table, 1, 50, NOW), NODE_GRANTED);
    release(table, 0);
    assert_int_equal(raise_key(table, 1, 51, &highest), NODE_GRANTED);
    release(table, 1);
    assert_int_equal(acquire(table, 1, 100, NOW), NODE_STALE);
    expect_fence(table, 1, 100); /* where it begins */
    assert_int_equal(raise_key(table, 1, 101, &highest), NODE_GRANTED);
    node_table_free(table);
}

static void test_stale_leaves_the_key(void **state) {
    struct node_table *table = intact_table();
    int64_t highest = -1;
    (void)state;
    assert_int_equal(acquire(table, 0, 100, NOW), NODE_GRANTED);
    release(table, 0);
    assert_int_equal(acquire(table, 0, 90, NOW), NODE_STALE);
    assert_int_equal(node_count(table), 1);
    assert_int_equal(raise_key(table, 0, 100, &highest), NODE_STALE);
    assert_int_equal(highest, 100);
    release(table, 0); /* what was never accepted raises nothing */
    assert_int_equal(acquire(table, 0, 101, NOW), NODE_GRANTED);
    assert_int_equal(acquire(table, 0, 200, NOW), NODE_DENIED);
    expect_fence(table, 0, 101); /* a rival that was denied raises nothing either */
    expect_highest(table, s[0], 101);
    node_table_free(table);
}

static void test_extensions_raise_to_at_least(void **state) {
    struct node_table *table = intact_table();
    (void)state;
    assert_int_equal(acquire(table, 0, 100, NOW), NODE_GRANTED);
    assert_int_equal(node_extend_guarded(table, k, 1, token, TTL, A, 100, s, 1, NOW), NODE_GRANTED);
    expect_fence(table, 0, 100);
    /* a repair: the key is set again without a fence, and then extended */
    assert_int_equal(node_acquire(table, &k[2], 1, token, TTL, NOW), NODE_GRANTED);
    assert_int_equal(node_extend_guarded(table, &k[2], 1, token, TTL, A, 70, &s[2], 1, NOW),
                     NODE_GRANTED);
    expect_fence(table, 2, 70);
    expect_highest(table, s[2], 70);
    assert_int_equal(node_extend_guarded(table, &k[2], 1, token, TTL, A, 60, &s[2], 1, NOW),
                     NODE_GRANTED);
    expect_fence(table, 2, 70);
    assert_int_equal(node_extend_guarded(table, &k[2], 1, token, TTL, C, 90, &s[2], 1, NOW),
                     NODE_GONE);
    assert_int_equal(node_extend_guarded(table, &k[2], 1, others, TTL, A, 90, &s[2], 1, NOW),
                     NODE_DENIED);
    expect_fence(table, 2, 70);
    release(table, 2);
    assert_int_equal(acquire(table, 2, 70, NOW), NODE_STALE);
    node_table_free(table);
}

/* As a raise without keys; and what it deletes leaves no higher floor. */
static void test_a_break(void **state) {
    struct node_table *table = intact_table();
    int64_t highest = -1;
    (void)state;
    assert_int_equal(acquire(table, 0, 100, NOW), NODE_GRANTED);
    assert_int_equal(node_break(table, k[0], token, A, 5, 100, s, 1, NOW, &highest), NODE_STALE);
    assert_int_equal(highest, 100);
    assert_int_equal(node_break(table, k[0], others, A, 5, 110, s, 1, NOW, &highest), NODE_DENIED);
    assert_int_equal(node_confirm(table, k, 1, token, A, 100, s, 1, NOW), NODE_GRANTED);
    assert_int_equal(node_break(table, k[0], token, A, 5, 120, s, 1, NOW, &highest), NODE_GRANTED);
    expect_highest(table, s[0], 120);
    assert_int_equal(raise_key(table, 0, 130, &highest), NODE_DENIED);
    assert_int_equal(acquire(table, 0, 120, NOW), NODE_STALE);
    assert_int_equal(raise_key(table, 0, 121, &highest), NODE_GRANTED);
    assert_int_equal(node_break(table, k[0], token, A, 5, 130, s, 1, NOW + TTL, &highest),
                     NODE_ABSENT);
    node_table_free(table);
}

/* Every vote that counts later must be above it, for keys that are held too. */
static void test_a_raise_without_keys(void **state) {
    struct node_table *table = intact_table();
    int64_t highest = -1;
    (void)state;
    assert_int_equal(acquire(table, 0, 100, NOW), NODE_GRANTED);
    assert_int_equal(node_acquire(table, &k[1], 1, token, TTL, NOW), NODE_GRANTED);
    assert_int_equal(node_raise(table, NULL, 0, others, A, 100, s, 1, NOW, &highest), NODE_STALE);
    assert_int_equal(highest, 100);
    assert_int_equal(node_raise(table, NULL, 0, others, A, 120, s, 1, NOW, &highest), NODE_GRANTED);
    expect_highest(table, s[0], 120);
    /* the key of a client that was denied elsewhere, and raises its proposal */
    assert_int_equal(raise_key(table, 1, 110, &highest), NODE_STALE);
    assert_int_equal(highest, 120);
    assert_int_equal(node_confirm(table, k, 1, token, A, 100, s, 1, NOW), NODE_GRANTED);
    release(table, 0);
    assert_int_equal(acquire(table, 0, 120, NOW), NODE_STALE);
    assert_int_equal(raise_key(table, 0, 121, &highest), NODE_GRANTED);
    node_table_free(table);
}

static void test_floors_bind_keys_in_use(void **state) {
    struct node_table *table = native_table();
    int64_t highest = -1;
    (void)state;
    assert_int_equal(acquire(table, 0, 100, NOW), NODE_STALE); /* no record yet */
    assert_int_equal(raise_key(table, 0, 100, &highest), NODE_GONE);
    assert_int_equal(write_record(table, 0, A, true, false, floor_of(s[0], 500)), NODE_GRANTED);
    expect_highest(table, s[0], 500);
    assert_int_equal(raise_key(table, 0, 500, &highest), NODE_STALE);
    assert_int_equal(highest, 500);
    assert_int_equal(raise_key(table, 0, 501, &highest), NODE_GRANTED);
    assert_int_equal(write_record(table, A, C, false, false, floor_of(s[0], 400)), NODE_GRANTED);
    assert_int_equal(node_fences(table, C)[s[0]], 501); /* lowers nothing */
    assert_int_equal(write_record(table, C, A, false, false, floor_of(s[0], 600)), NODE_GRANTED);
    assert_int_equal(raise_key(table, 0, 600, &highest), NODE_STALE);
    assert_int_equal(acquire(table, 1, 600, NOW), NODE_STALE);
    assert_int_equal(raise_key(table, 1, 601, &highest), NODE_GRANTED);
    node_table_free(table);
}

static void test_several_keys(void **state) {
    struct node_table *table = intact_table();
    const uint16_t both[] = {s[0], s[2]};
    int64_t highest = -1;
    (void)state;
    assert_int_equal(acquire(table, 1, 100, NOW), NODE_GRANTED);
    release(table, 1);
    const struct node_bytes two[] = {k[0], k[2]};
    assert_int_equal(node_acquire_guarded(table, two, 2, token, TTL, A, 100, both, 2, NOW),
                     NODE_STALE);
    expect_fence(table, 2, 0); /* all or none */
    expect_highest(table, s[2], 0);
    assert_int_equal(node_raise(table, two, 2, token, A, 100, both, 2, NOW, &highest), NODE_STALE);
    assert_int_equal(highest, 100);
    assert_int_equal(node_raise(table, two, 2, token, A, 101, both, 2, NOW, &highest),
                     NODE_GRANTED);
    expect_fence(table, 0, 101);
    expect_fence(table, 2, 101);
    assert_int_equal(node_raise(table, &two[1], 1, token, A, 150, &both[1], 1, NOW, &highest),
                     NODE_GRANTED);
    assert_int_equal(node_confirm(table, two, 2, token, A, 101, both, 2, NOW), NODE_GRANTED);
    assert_int_equal(node_confirm(table, two, 2, token, A, 102, both, 2, NOW), NODE_STALE);
    assert_int_equal(node_extend_guarded(table, two, 2, token, TTL, A, 120, both, 2, NOW),
                     NODE_GRANTED);
    expect_fence(table, 0, 120);
    expect_fence(table, 2, 150);
    node_table_free(table);
}

/* A client whose hash is another: its stripe is not that of its key. */
static void test_a_stripe_of_no_key(void **state) {
    struct node_table *table = intact_table();
    int64_t highest = -1;
    (void)state;
    assert_int_equal(acquire(table, 2, 100, NOW), NODE_GRANTED);
    assert_int_equal(node_acquire_guarded(table, k, 1, token, TTL, A, 100, &s[2], 1, NOW),
                     NODE_STALE);
    assert_int_equal(node_raise(table, k, 1, token, A, 101, &s[2], 1, NOW, &highest), NODE_GRANTED);
    expect_fence(table, 0, 101); /* of its own too */
    expect_highest(table, s[0], 101);
    expect_highest(table, s[2], 101);
    assert_int_equal(raise_key(table, 2, 101, &highest), NODE_STALE);
    release(table, 0);
    assert_int_equal(acquire(table, 0, 101, NOW), NODE_STALE);
    node_table_free(table);
}

/* The node does not hash a long key when a request tells its stripe. */
static void test_long_keys(void **state) {
    struct node_table *table = intact_table();
    static char text[2][5000];
    struct node_bytes key[] = {{text[0], 5000}, {text[1], 5000}};
    int64_t highest = -1;
    struct node_lock lock;
    (void)state;
    memset(text, 'k', sizeof(text));
    text[1][0] = 'l';
    uint16_t stripe[] = {stripe_of(key[0]), stripe_of(key[1])};
    assert_int_equal(node_acquire_guarded(table, key, 1, token, TTL, A, 100, stripe, 1, NOW),
                     NODE_GRANTED);
    assert_int_equal(node_raise(table, key, 1, token, A, 100, stripe, 1, NOW, &highest),
                     NODE_STALE);
    assert_int_equal(highest, 100);
    expect_highest(table, stripe[0], 100);
    assert_int_equal(node_release(table, key, 1, token, NOW), NODE_GRANTED);
    assert_int_equal(node_acquire_guarded(table, key, 1, token, TTL, A, 100, stripe, 1, NOW),
                     NODE_STALE);
    assert_int_equal(node_release(table, key, 1, token, NOW), NODE_GRANTED);
    /* a repair: the stripe is told by the extension */
    assert_int_equal(node_acquire(table, key, 1, token, TTL, NOW), NODE_GRANTED);
    assert_int_equal(node_extend_guarded(table, key, 1, token, TTL, A, 50, stripe, 1, NOW),
                     NODE_GRANTED);
    assert_true(node_look(table, key[0], NOW, &lock));
    assert_int_equal(lock.fence, 100);
    assert_int_equal(node_release(table, key, 1, token, NOW), NODE_GRANTED);
    /* never told: nothing remains of it */
    assert_int_equal(node_acquire(table, &key[1], 1, token, TTL, NOW), NODE_GRANTED);
    assert_int_equal(node_release(table, &key[1], 1, token, NOW), NODE_GRANTED);
    expect_highest(table, stripe[1], 0);
    /* two keys: each has its own */
    assert_int_equal(node_acquire_guarded(table, key, 2, token, TTL, A, 101, stripe, 2, NOW),
                     NODE_GRANTED);
    expect_highest(table, stripe[0], 101);
    expect_highest(table, stripe[1], 101);
    assert_int_equal(node_release(table, key, 2, token, NOW), NODE_GRANTED);
    assert_int_equal(
        node_acquire_guarded(table, &key[1], 1, token, TTL, A, 101, &stripe[1], 1, NOW),
        NODE_STALE);
    node_table_free(table);
}

/* A long key is of the stripe that is told with it alone; else the node finds it. */
static void test_which_stripe_a_long_key_has(void **state) {
    static char text[2][4097];
    memset(text, 'k', sizeof(text));
    text[1][0] = 'l';
    (void)state;
    for (unsigned shorter = 0; shorter < 2; shorter++) {
        struct node_table *table = intact_table();
        struct node_bytes key[] = {{text[0], 4097 - shorter}, {text[1], 4097 - shorter}};
        uint16_t own[] = {stripe_of(key[0]), stripe_of(key[1])};
        const uint16_t wrong[] = {(uint16_t)((own[0] + 1) % NODE_STRIPES),
                                  (uint16_t)((own[0] + 2) % NODE_STRIPES)};
        assert_int_equal(node_acquire_guarded(table, key, 1, token, TTL, A, 100, wrong, 1, NOW),
                         NODE_GRANTED);
        expect_highest(table, wrong[0], 100);
        expect_highest(table, own[0], shorter ? 100 : 0);
        assert_int_equal(node_release(table, key, 1, token, NOW), NODE_GRANTED);
        /* two stripes for one key */
        assert_int_equal(node_acquire_guarded(table, key, 1, token, TTL, A, 101, wrong, 2, NOW),
                         NODE_GRANTED);
        expect_highest(table, wrong[1], 101);
        expect_highest(table, own[0], 101);
        assert_int_equal(node_release(table, key, 1, token, NOW), NODE_GRANTED);
        /* one stripe for two keys */
        assert_int_equal(node_acquire_guarded(table, key, 2, token, TTL, A, 102, wrong, 1, NOW),
                         NODE_GRANTED);
        expect_highest(table, own[0], 102);
        expect_highest(table, own[1], 102);
        node_table_free(table);
    }
}

/* A key of that stripe, and no more. */
static struct node_bytes key_of(uint16_t stripe, char name[NAME_BYTES]) {
    for (unsigned i = 0;; i++) {
        int bytes = snprintf(name, NAME_BYTES, "of-%u", i);
        struct node_bytes key = {name, (size_t)bytes};
        if (stripe_of(key) == stripe) return key;
    }
}

/* The floor of a stripe binds the keys of that stripe, and of no other. */
static void test_floors_of_all_stripes(void **state) {
    static const uint16_t ends[] = {0, 1, 2, NODE_STRIPES - 2, NODE_STRIPES - 1};
    enum { ENDS = sizeof(ends) / sizeof(ends[0]) };
    char name[NAME_BYTES];
    (void)state;
    for (unsigned bound = 0; bound < ENDS; bound++) {
        struct node_table *table = native_table();
        assert_int_equal(write_record(table, 0, A, true, false, floor_of(ends[bound], 50)),
                         NODE_GRANTED);
        for (unsigned i = 0; i < ENDS; i++) {
            struct node_bytes key = key_of(ends[i], name);
            assert_int_equal(
                node_acquire_guarded(table, &key, 1, token, TTL, A, 50, &ends[i], 1, NOW),
                i == bound ? NODE_STALE : NODE_GRANTED);
        }
        /* the numbers of a stripe are three */
        size_t used = node_bytes_used(table);
        assert_true(used < 3 * NODE_STRIPES * sizeof(int64_t) + 5000);
        node_table_free(table);
    }
}

static void __attribute__((noinline)) dirty_stack(void) {
    volatile unsigned char bytes[16384];
    for (size_t i = 0; i < sizeof(bytes); i++) bytes[i] = 0xff;
}

/* Two keys and stripes that are neither's: they are raised too, whatever was on the stack before.
 * They are many, because calls in between write over some of it. */
static void test_a_stripe_of_neither_key(void **state) {
    struct node_table *table = intact_table();
    const struct node_bytes two[] = {k[0], k[2]};
    uint16_t strange[NODE_STRIPES / 64];
    enum { STRANGE = sizeof(strange) / sizeof(strange[0]) };
    int64_t highest = -1;
    (void)state;
    for (unsigned i = 0; i < STRANGE; i++) strange[i] = (uint16_t)(64 * i);
    assert_int_equal(node_acquire(table, two, 2, token, TTL, NOW), NODE_GRANTED);
    dirty_stack();
    assert_int_equal(node_raise(table, two, 2, token, A, 7, strange, STRANGE, NOW, &highest),
                     NODE_GRANTED);
    for (unsigned i = 0; i < STRANGE; i++) expect_highest(table, strange[i], 7);
    /* what comes after the request's one stripe is not looked at */
    const uint16_t stripes[] = {s[2], s[0]};
    assert_int_equal(node_release(table, two, 2, token, NOW), NODE_GRANTED);
    assert_int_equal(node_acquire_guarded(table, k, 1, token, TTL, A, 9, stripes, 1, NOW),
                     NODE_GRANTED);
    expect_highest(table, s[2], 9);
    node_table_free(table);
}

/* ---- the record ---- */

static void test_the_record_stays(void **state) {
    struct node_table *table = intact_table();
    const struct node_field *fields;
    (void)state;
    assert_false(node_delete(table, B("redlock:node"), NOW));
    assert_false(node_delete(table, B("redlock:fences:000000000000000a"), NOW));
    assert_false(node_evict_key(table, B("redlock:node")));
    assert_int_equal(node_record(table, &fields), 1);
    assert_non_null(node_fences(table, A));
    node_table_free(table);
}

/* A writer that is mistaken about the name of the fences: what was accepted is not forgotten, and
 * there is never a second set. */
static void test_one_set_of_fences(void **state) {
    struct node_table *table = intact_table();
    size_t used = node_bytes_used(table);
    (void)state;
    assert_int_equal(acquire(table, 0, 100, NOW), NODE_GRANTED);
    assert_int_equal(write_record(table, A, C, true, false, floor_of(s[2], 7)), NODE_GRANTED);
    assert_null(node_fences(table, A));
    assert_int_equal(node_fences(table, C)[s[0]], 100);
    assert_int_equal(node_fences(table, C)[s[2]], 7);
    assert_int_equal(node_bytes_used(table), used);
    assert_int_equal(write_record(table, C, A, true, true, floor_of(s[2], 3)), NODE_GRANTED);
    assert_int_equal(node_fences(table, 0)[s[2]], 7);
    assert_null(node_fences(table, C));
    assert_int_equal(write_record(table, A, C, false, false, NULL), NODE_GRANTED);
    assert_null(node_fences(table, C)); /* without a floor they stay where they are */
    assert_int_equal(node_fences(table, 0)[s[0]], 100);
    assert_int_equal(node_bytes_used(table), used);
    node_table_free(table);
}

static void test_a_record_has_a_limit(void **state) {
    struct node_table *table = intact_table();
    static char text[70000];
    struct node_field fields[] = {{B("nonce"), B("000000000000000c")}, {B("url"), {text, 60000}}};
    struct node_record_write write = {A, C, false, false, NULL, fields, 2};
    const struct node_field *read;
    (void)state;
    assert_int_equal(node_record_write(table, &write), NODE_GRANTED);
    write.expected = C;
    fields[1].value.bytes = 65536 - (5 + 16 + 3); /* the last that it takes */
    assert_int_equal(node_record_write(table, &write), NODE_GRANTED);
    fields[1].value.bytes++;
    assert_int_equal(node_record_write(table, &write), NODE_NO_MEMORY);
    assert_int_equal(node_record(table, &read), 2);
    assert_int_equal(read[1].value.bytes, 65512);
    node_table_free(table);
}

/* A flushed set of fences is used again, and given back once. */
static void test_spare_fences(void **state) {
    struct node_table *table = open_table((struct node_options){.native = false});
    (void)state;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(write_record(table, 0, A, true, false, floor_of(1, 5)), NODE_GRANTED);
        node_flush_all(table);
    }
    node_table_free(table);
    assert_int_equal(memory_pieces, 0);
}

/* ---- memory ---- */

static struct node_bytes numbered(char name[NAME_BYTES], unsigned number) {
    int bytes = snprintf(name, NAME_BYTES, "lock:%u", number);
    return (struct node_bytes){name, (size_t)bytes};
}

static unsigned fill(struct node_table *table, unsigned from, size_t limit) {
    char name[NAME_BYTES];
    for (;; from++) {
        struct node_bytes key = numbered(name, from);
        enum node_answer answer = node_acquire(table, &key, 1, token, TTL + from, NOW);
        assert_true(node_bytes_locked(table) <= limit);
        if (answer == NODE_NO_MEMORY) return from;
        assert_int_equal(answer, NODE_GRANTED);
        reported[0] = 0;
    }
}

static void test_a_full_table(void **state) {
    const size_t limit = 200000;
    struct node_table *table =
        open_table((struct node_options){.native = true, .bytes_max = limit});
    char name[NAME_BYTES];
    (void)state;
    unsigned count = fill(table, 0, limit);
    assert_true(count > 1000);
    struct node_bytes key = numbered(name, 0);
    assert_int_equal(node_extend(table, &key, 1, token, 2 * TTL, NOW), NODE_GRANTED);
    assert_int_equal(node_acquire(table, &key, 1, others, TTL, NOW), NODE_DENIED);
    /* recovery does not wait for memory */
    assert_int_equal(write_record(table, 0, A, true, false, floor_of(0, 0)), NODE_GRANTED);
    assert_int_equal(node_release(table, &key, 1, token, NOW), NODE_GRANTED);
    assert_int_equal(fill(table, count, limit), count + 1);
    reported[0] = 0;
    while (node_expire_some(table, INT64_MAX - 1, 1)) reported[0] = 0;
    assert_int_equal(node_count(table), 0);
    assert_int_equal(fill(table, 0, limit), count);
    node_table_free(table);
    assert_int_equal(memory_pieces, 0);
}

/* ---- looking at all ---- */

struct seen {
    unsigned char times[8192];
    unsigned visits;
};

static void visit(void *context, const struct node_lock *lock) {
    struct seen *seen = context;
    char text[NAME_BYTES] = {0};
    memcpy(text, lock->key.data, lock->key.bytes);
    unsigned number = (unsigned)strtoul(text + strlen("lock:"), NULL, 10);
    assert_true(number < sizeof(seen->times));
    if (seen->times[number] < UINT8_MAX) seen->times[number]++;
    seen->visits++;
    assert_int_equal(lock->expires_ms, NOW + TTL);
}

static void set_numbered(struct node_table *table, unsigned from, unsigned to, bool held) {
    char name[NAME_BYTES];
    for (unsigned i = from; i < to; i++) {
        struct node_bytes key = numbered(name, i);
        if (held)
            assert_int_equal(node_acquire(table, &key, 1, token, TTL, NOW), NODE_GRANTED);
        else
            assert_int_equal(node_release(table, &key, 1, token, NOW), NODE_GRANTED);
        reported[0] = 0;
    }
}

/* While the table grows eightfold and shrinks again, keys that stay are seen, and if nothing
 * changes each is seen once. */
static void test_scan(void **state) {
    enum { STAY = 500, ALL = 8000 };
    static struct seen seen;
    (void)state;
    for (int run = 0; run < 40; run++) {
        struct node_table *table =
            open_table((struct node_options){.native = true, .seed = (uint64_t)run});
        uint64_t cursor = 0;
        unsigned calls = 0, present = STAY;
        memset(&seen, 0, sizeof(seen));
        set_numbered(table, 0, STAY, true);
        do {
            cursor = node_scan(table, cursor, 10, NOW, visit, &seen);
            calls++;
            bool grows = run % 4 == 1 || (run % 4 == 3 && calls % 9 < 4);
            unsigned next = present, step = 400;
            if (run % 4 != 0) next = grows ? present + step : present - step;
            if (run % 4 == 2 && calls == 1) next = ALL; /* then it shrinks */
            if (next < STAY || next > ALL) continue;
            if (next > present)
                set_numbered(table, present, next, true);
            else
                set_numbered(table, next, present, false);
            present = next;
        } while (cursor != 0);
        assert_true(calls > 1);
        for (unsigned i = 0; i < STAY; i++) assert_true(seen.times[i] >= 1);
        if (run % 4 == 0) assert_int_equal(seen.visits, STAY);
        assert_int_equal(node_scan(table, 0, SIZE_MAX, NOW + TTL, visit, &seen), 0);
        assert_true(node_count(table) >= STAY);
        node_table_free(table);
    }
}

static void test_scan_leaves_out_what_has_ended(void **state) {
    struct node_table *table = native_table();
    static struct seen seen;
    (void)state;
    set_numbered(table, 0, 100, true);
    assert_int_equal(node_scan(table, 0, SIZE_MAX, NOW + TTL - 1, visit, &seen), 0);
    assert_int_equal(seen.visits, 100);
    assert_int_equal(node_scan(table, 0, SIZE_MAX, NOW + TTL, visit, &seen), 0);
    assert_int_equal(seen.visits, 100);
    assert_int_equal(node_count(table), 100);
    node_table_free(table);
}

/* For the simulator's old servers. */
static void test_copies(void **state) {
    struct node_table *table = intact_table(), *copy = native_table();
    int64_t highest = -1;
    (void)state;
    assert_int_equal(acquire(table, 0, 100, NOW), NODE_GRANTED);
    assert_int_equal(acquire(table, 1, 50, NOW), NODE_GRANTED);
    assert_true(node_table_copy(copy, table));
    release(table, 0);
    expect_fence(copy, 0, 100);
    assert_int_equal(raise_key(copy, 1, 50, &highest), NODE_STALE);
    assert_int_equal(raise_key(copy, 1, 51, &highest), NODE_GRANTED);
    expect_fence(table, 1, 50);
    release(copy, 0);
    assert_int_equal(acquire(copy, 0, 100, NOW), NODE_STALE);
    node_table_free(table);
    node_table_free(copy);
    assert_int_equal(memory_pieces, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_key_ends_at_its_end),
        cmocka_unit_test(test_reads_change_nothing),
        cmocka_unit_test(test_ends_in_portions),
        cmocka_unit_test(test_rules_of_stock_servers),
        cmocka_unit_test(test_keys_in_use_are_exact),
        cmocka_unit_test(test_a_key_leaves_its_fence),
        cmocka_unit_test(test_a_neighbour_that_goes),
        cmocka_unit_test(test_stale_leaves_the_key),
        cmocka_unit_test(test_extensions_raise_to_at_least),
        cmocka_unit_test(test_a_break),
        cmocka_unit_test(test_a_raise_without_keys),
        cmocka_unit_test(test_floors_bind_keys_in_use),
        cmocka_unit_test(test_several_keys),
        cmocka_unit_test(test_a_stripe_of_no_key),
        cmocka_unit_test(test_long_keys),
        cmocka_unit_test(test_which_stripe_a_long_key_has),
        cmocka_unit_test(test_floors_of_all_stripes),
        cmocka_unit_test(test_a_stripe_of_neither_key),
        cmocka_unit_test(test_spare_fences),
        cmocka_unit_test(test_the_record_stays),
        cmocka_unit_test(test_one_set_of_fences),
        cmocka_unit_test(test_a_record_has_a_limit),
        cmocka_unit_test(test_a_full_table),
        cmocka_unit_test(test_scan),
        cmocka_unit_test(test_scan_leaves_out_what_has_ended),
        cmocka_unit_test(test_copies),
    };
    return cmocka_run_group_tests(tests, find_keys, NULL);
}
