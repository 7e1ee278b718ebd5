/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The slots of a resource on one node: the rules one by one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "memory.h"
#include "node/slots.h"

#define HEX "000000000000000000000000000000000000000"
enum { TTL_MS = 1000 };

/* One more than there are: nobody asks for the last. */
static char names[NODE_SLOTS_MAX + 1][16];
static struct node_bytes keys[NODE_SLOTS_MAX + 1];

static int name_keys(void **state) {
    (void)state;
    for (unsigned i = 0; i <= NODE_SLOTS_MAX; i++) {
        int bytes = snprintf(names[i], sizeof(names[i]), "r:slot:%u", i + 1);
        keys[i] = (struct node_bytes){names[i], (size_t)bytes};
    }
    return 0;
}

static struct node_bytes text(const char *bytes) {
    return (struct node_bytes){bytes, strlen(bytes)};
}

/* `order`: a digit for each slot. */
static struct node_slot_answer take(struct node_table *table, const char *token, unsigned count,
                                    const char *order, int64_t now_ms) {
    uint8_t slots[16];
    struct node_slot_request request = {.names = keys,
                                        .count = count,
                                        .order = slots,
                                        .order_count = (unsigned)strlen(order),
                                        .token = text(token),
                                        .ttl_ms = TTL_MS};
    for (unsigned i = 0; i < request.order_count; i++) slots[i] = (uint8_t)(order[i] - '0');
    return node_acquire_slot(table, &request, now_ms);
}

static void expect_slot(struct node_slot_answer answer, unsigned slot) {
    assert_int_equal(answer.answer, NODE_GRANTED);
    assert_int_equal(answer.slot, slot);
}

static bool holds(struct node_table *table, unsigned slot, const char *token, int64_t now_ms) {
    struct node_bytes held = node_get(table, keys[slot - 1], now_ms);
    return held.bytes == strlen(token) && memcmp(held.data, token, held.bytes) == 0;
}

static void test_order(void **state) {
    struct node_table *table = node_table_new(NULL, NULL);
    (void)state;
    expect_slot(take(table, HEX "1/3", 3, "213", 0), 2);
    expect_slot(take(table, HEX "2/3", 3, "213", 0), 1);
    expect_slot(take(table, HEX "3/3", 3, "213", 0), 3);
    struct node_slot_answer full = take(table, HEX "4/3", 3, "123", 400);
    assert_int_equal(full.answer, NODE_DENIED);
    assert_int_equal(full.other_count, 0);
    assert_int_equal(full.remaining_ms, TTL_MS - 400);
    assert_int_equal(node_count(table), 3);
    /* At the end of a slot the next one has it. */
    expect_slot(take(table, HEX "4/3", 3, "123", TTL_MS + 1), 1);
    node_table_free(table);
}

/* A slot that is held with another number refuses, wherever it is; an end of its time ends that. */
static void test_another_number(void **state) {
    struct node_table *table = node_table_new(NULL, NULL);
    (void)state;
    expect_slot(take(table, HEX "1/5", 5, "5", 0), 5);
    struct node_slot_answer other = take(table, HEX "2/2", 2, "12", 0);
    assert_int_equal(other.answer, NODE_DENIED);
    assert_int_equal(other.other_count, 5);
    assert_int_equal(take(table, HEX "2/7", 7, "7123456", 0).other_count, 5);
    assert_int_equal(node_count(table), 1);
    expect_slot(take(table, HEX "3/5", 5, "51", 0), 1);
    expect_slot(take(table, HEX "2/2", 2, "12", TTL_MS + 1), 1);
    node_flush_all(table);
    expect_slot(take(table, HEX "1/1", 1, "1", 0), 1);
    other = take(table, HEX "2/2", 2, "2", 0);
    assert_int_equal(other.other_count, 1);
    assert_int_equal(other.remaining_ms, -1); /* it is not for a slot to end that it waits */
    node_flush_all(table);
    /* the last slot counts, and the name after it is not a slot */
    assert_int_equal(node_set(table, keys[NODE_SLOTS_MAX - 1], text(HEX "1/64"), 0, 0),
                     NODE_GRANTED);
    assert_int_equal(node_set(table, keys[NODE_SLOTS_MAX], text(HEX "1/5"), 0, 0), NODE_GRANTED);
    assert_int_equal(take(table, HEX "2/2", 2, "12", 0).other_count, 64);
    expect_slot(take(table, HEX "2/64", 64, "1", 0), 1);
    node_table_free(table);
}

/* A plain lock on a slot before it hides no other number. */
static void test_another_number_behind_a_plain_lock(void **state) {
    struct node_table *table = node_table_new(NULL, NULL);
    (void)state;
    assert_int_equal(node_acquire(table, &keys[0], 1, text(HEX "9"), TTL_MS, 0), NODE_GRANTED);
    expect_slot(take(table, HEX "1/5", 5, "2", 0), 2);
    assert_int_equal(take(table, HEX "2/3", 3, "3", 0).other_count, 5);
    node_table_free(table);
}

/* A client waits for the slot that ends first. */
static void test_first_end(void **state) {
    static const int64_t began_ms[][3] = {{0, 100, 200}, {100, 0, 200}, {200, 100, 0}};
    struct node_table *table = node_table_new(NULL, NULL);
    (void)state;
    for (unsigned i = 0; i < sizeof(began_ms) / sizeof(began_ms[0]); i++) {
        node_flush_all(table);
        /* the fourth is none of the three */
        assert_int_equal(node_acquire(table, &keys[3], 1, text("plain"), 850, 0), NODE_GRANTED);
        for (unsigned slot = 0; slot < 3; slot++)
            assert_int_equal(
                node_acquire(table, &keys[slot], 1, text("x"), TTL_MS, began_ms[i][slot]),
                NODE_GRANTED);
        assert_int_equal(take(table, HEX "4/3", 3, "123", 600).remaining_ms, 400);
        /* the last moment of the one that ends first */
        assert_int_equal(take(table, HEX "4/3", 3, "123", TTL_MS).remaining_ms, 0);
    }
    /* Those without an end do not count, and without any other there is nothing to wait for. */
    assert_int_equal(node_set(table, keys[1], text("x"), 0, 600), NODE_GRANTED);
    assert_int_equal(take(table, HEX "4/2", 2, "12", 600).remaining_ms, 600);
    assert_int_equal(node_set(table, keys[0], text("x"), 0, 600), NODE_GRANTED);
    assert_int_equal(take(table, HEX "4/2", 2, "12", 600).remaining_ms, -1);
    node_table_free(table);
}

/* Others may lock a slot by its name; it is taken, and says nothing about numbers. */
static void test_plain_lock(void **state) {
    struct node_table *table = node_table_new(NULL, NULL);
    (void)state;
    assert_int_equal(node_acquire(table, &keys[0], 1, text(HEX "9"), TTL_MS, 0), NODE_GRANTED);
    assert_int_equal(node_set_other_type(table, keys[1], 0), NODE_GRANTED);
    assert_int_equal(node_set(table, keys[6], text("no lock/7"), 0, 0), NODE_GRANTED);
    expect_slot(take(table, HEX "1/3", 3, "123", 0), 3);
    struct node_slot_answer full = take(table, HEX "2/3", 3, "123", 100);
    assert_int_equal(full.answer, NODE_DENIED);
    assert_int_equal(full.remaining_ms, TTL_MS - 100);
    node_table_free(table);
}

/* A client that settles on a slot takes it and leaves the one it had, in one step. */
static void test_settle(void **state) {
    struct node_table *table = node_table_new(NULL, NULL);
    (void)state;
    expect_slot(take(table, HEX "1/3", 3, "123", 0), 1);
    expect_slot(take(table, HEX "1/3", 3, "3", 0), 3);
    assert_false(holds(table, 1, HEX "1/3", 0));
    assert_true(holds(table, 3, HEX "1/3", 0));
    expect_slot(take(table, HEX "1/3", 3, "3", 0), 3); /* the same request again */
    assert_true(holds(table, 3, HEX "1/3", 0));
    /* the first request, late or again: slot 3 counts by now */
    expect_slot(take(table, HEX "1/3", 3, "123", 0), 3);
    assert_false(holds(table, 1, HEX "1/3", 0));
    expect_slot(take(table, HEX "2/3", 3, "2", 0), 2);
    /* the slot is another's: ours is left all the same */
    assert_int_equal(take(table, HEX "1/3", 3, "2", 0).answer, NODE_DENIED);
    assert_int_equal(node_count(table), 1);
    /* only the one that it leaves goes, not the next to it */
    expect_slot(take(table, HEX "1/3", 3, "1", 0), 1);
    assert_int_equal(node_release(table, &keys[1], 1, text(HEX "2/3"), 0), NODE_GRANTED);
    expect_slot(take(table, HEX "1/3", 3, "2", 0), 2);
    assert_true(holds(table, 2, HEX "1/3", 0));
    node_table_free(table);
}

/* The last slot is taken again by the client that has it; no name outside the request is touched.
 */
static void test_last_slot(void **state) {
    struct node_table *table = node_table_new(NULL, NULL);
    struct node_bytes around[NODE_SLOTS_MAX + 1];
    static const uint8_t order[] = {NODE_SLOTS_MAX};
    (void)state;
    memcpy(around + 1, keys, NODE_SLOTS_MAX * sizeof(keys[0]));
    around[0] = keys[NODE_SLOTS_MAX - 1];
    struct node_slot_request request = {.names = around + 1,
                                        .count = NODE_SLOTS_MAX,
                                        .order = order,
                                        .order_count = 1,
                                        .token = text(HEX "1/64"),
                                        .ttl_ms = TTL_MS};
    for (int i = 0; i < 2; i++) {
        expect_slot(node_acquire_slot(table, &request, 0), NODE_SLOTS_MAX);
        assert_true(holds(table, NODE_SLOTS_MAX, HEX "1/64", 0));
    }
    node_table_free(table);
}

static void test_fence(void **state) {
    static const int64_t floor[NODE_STRIPES] = {[4] = 10};
    static const uint16_t stripes[2] = {4, 5};
    static const uint8_t order[2] = {1, 2};
    static const struct node_field field = {{"nonce", 5}, {"000000000000000b", 16}};
    struct node_record_write write = {
        .nonce = 0xb, .floor = floor, .fields = &field, .fields_count = 1};
    struct node_table *table = node_table_new(NULL, NULL);
    (void)state;
    assert_int_equal(node_record_write(table, &write), NODE_GRANTED);
    struct node_slot_request request = {.names = keys,
                                        .count = 2,
                                        .order = order,
                                        .order_count = 2,
                                        .token = text(HEX "1/2"),
                                        .ttl_ms = TTL_MS,
                                        .nonce = 0xb,
                                        .fence = 10,
                                        .stripes = stripes};
    struct node_slot_answer answer = node_acquire_slot(table, &request, 0);
    assert_int_equal(answer.answer, NODE_STALE);
    assert_int_equal(answer.slot, 1);
    assert_true(holds(table, 1, HEX "1/2", 0));
    request.token = text(HEX "2/2");
    answer = node_acquire_slot(table, &request, 0);
    assert_int_equal(answer.answer, NODE_GRANTED);
    assert_int_equal(answer.slot, 2);
    assert_int_equal(node_fences(table, 0xb)[5], 10); /* each slot has its own */
    assert_int_equal(node_fences(table, 0xb)[4], 10);
    request.token = text(HEX "1/2");
    request.nonce = 0xc;
    assert_int_equal(node_acquire_slot(table, &request, 0).answer, NODE_STALE);
    node_table_free(table);
}

/* A native node knows the fence of each key, so one that is as high, or another nonce, raises
 * nothing; the key is set all the same. */
static void test_native_fence(void **state) {
    static const struct node_field field = {{"nonce", 5}, {"000000000000000b", 16}};
    static const int64_t floor[NODE_STRIPES] = {[4] = 10};
    static const uint16_t stripes[2] = {4, 4};
    static const uint8_t order[2] = {1, 2};
    const struct node_record_write write = {
        .nonce = 0xb, .floor = floor, .fields = &field, .fields_count = 1};
    struct node_table *table = node_table_open(&(struct node_options){.native = true});
    (void)state;
    assert_int_equal(node_record_write(table, &write), NODE_GRANTED);
    struct node_slot_request request = {.names = keys,
                                        .count = 2,
                                        .order = order,
                                        .order_count = 2,
                                        .token = text(HEX "1/2"),
                                        .ttl_ms = TTL_MS,
                                        .nonce = 0xb,
                                        .fence = 10,
                                        .stripes = stripes};
    struct node_slot_answer answer = node_acquire_slot(table, &request, 0);
    assert_int_equal(answer.answer, NODE_STALE);
    assert_int_equal(answer.slot, 1);
    assert_true(holds(table, 1, HEX "1/2", 0));
    request.fence = 11;
    answer = node_acquire_slot(table, &request, 0); /* again: it is ours */
    assert_int_equal(answer.answer, NODE_GRANTED);
    assert_int_equal(answer.slot, 1);
    request.token = text(HEX "2/2");
    request.nonce = 0xc;
    request.fence = 12;
    assert_int_equal(node_acquire_slot(table, &request, 0).answer, NODE_STALE);
    assert_true(holds(table, 2, HEX "2/2", 0));
    node_table_free(table);
}

/* A slot that only the keyspace has is not given; one that the client holds already is. */
static void test_barred(void **state) {
    static const uint8_t order[2] = {1, 2};
    struct node_table *table = node_table_open(&(struct node_options){.native = true});
    struct node_slot_request request = {.names = keys,
                                        .count = 2,
                                        .order = order,
                                        .order_count = 2,
                                        .token = text(HEX "1/2"),
                                        .ttl_ms = TTL_MS,
                                        .barred = 1};
    (void)state;
    expect_slot(node_acquire_slot(table, &request, 0), 2);
    request.token = text(HEX "2/2");
    assert_int_equal(node_acquire_slot(table, &request, 0).answer, NODE_DENIED);
    request.barred = 2;
    request.token = text(HEX "1/2");
    request.order = order + 1;
    request.order_count = 1;
    expect_slot(node_acquire_slot(table, &request, 0), 2);
    node_table_free(table);
}

static void expect_first(const char *key, const char *first) {
    char out[NODE_SLOT_KEY_BYTES_MAX];
    struct node_bytes found = {NULL, 0};
    assert_int_equal(node_slot_first(text(key), &found, out), first != NULL);
    if (!first) return;
    assert_int_equal(found.bytes, strlen(first));
    assert_memory_equal(found.data, first, found.bytes);
}

static void test_names(void **state) {
    char out[NODE_SLOT_KEY_BYTES_MAX];
    (void)state;
    struct node_bytes key = node_slot_key(text("r"), 9, out);
    assert_int_equal(key.bytes, 8);
    assert_memory_equal(key.data, "r:slot:9", 8);
    key = node_slot_key(text(""), 10, out);
    assert_int_equal(key.bytes, 8);
    assert_memory_equal(key.data, ":slot:10", 8);
    expect_first("r:slot:1", "r:slot:1");
    expect_first("r:slot:64", "r:slot:1");
    expect_first(":slot:7", ":slot:1");
    expect_first("r:slot:", NULL);
    expect_first("r:slot:x", NULL);
    expect_first("r:slot:164", NULL); /* no slot has three digits */
    expect_first("12", NULL);
    expect_first("", NULL);
    expect_first("r-slot:1", NULL);
    char longest[NODE_SLOT_RESOURCE_BYTES_MAX + 10];
    memset(longest, 'r', sizeof longest);
    memcpy(longest + NODE_SLOT_RESOURCE_BYTES_MAX, ":slot:12", 9);
    struct node_bytes first;
    const size_t bytes = NODE_SLOT_RESOURCE_BYTES_MAX + 8;
    assert_true(node_slot_first((struct node_bytes){longest, bytes}, &first, out));
    assert_int_equal(first.bytes, bytes - 1);
    longest[bytes] = '\0';
    memmove(longest + 1, longest, bytes); /* a resource that is one byte too long */
    assert_false(node_slot_first((struct node_bytes){longest, bytes + 1}, &first, out));
}

/* ---- in turn ---- */

static char notified[64]; /* the waiters that were notified of their turn, in that order */

static void note(void *context, struct node_bytes key, struct node_bytes waiter, size_t rank,
                 bool turn) {
    (void)context;
    assert_int_equal(key.bytes, keys[0].bytes);
    assert_memory_equal(key.data, keys[0].data, key.bytes);
    assert_true(turn && rank == 0);
    strncat(notified, waiter.data, waiter.bytes);
}

struct line {
    struct node_table *table;
    struct node_queue *queue;
    struct node_turn turn;
};

static void on_change(void *context, enum node_change change, struct node_bytes key,
                      struct node_bytes token, int64_t expires_ms) {
    struct line *line = context;
    char out[NODE_SLOT_KEY_BYTES_MAX];
    struct node_bytes first;
    (void)token, (void)expires_ms;
    if (change != NODE_CHANGE_DELETED && change != NODE_CHANGE_EXPIRED) return;
    assert_true(node_slot_first(key, &first, out));
    node_queue_freed(line->queue, first, 0);
}

static struct node_waiter waiter(const char *name, int64_t waited_us) {
    return (struct node_waiter){.name = text(name),
                                .waited_us = waited_us,
                                .since_us = NODE_SINCE_UNKNOWN,
                                .remember_us = 1000000};
}

/* At time 0, of two slots, as the waiter; "": as nobody that waits. */
static struct node_slot_answer contend(struct line *line, const char *token, const char *name,
                                       int64_t waited_us) {
    static const uint8_t order[2] = {1, 2};
    const struct node_slot_request request = {.names = keys,
                                              .count = 2,
                                              .order = order,
                                              .order_count = 2,
                                              .token = text(token),
                                              .ttl_ms = TTL_MS};
    const struct node_waiter from = waiter(name, waited_us);
    return node_acquire_slot_in_turn(line->table, line->queue, &request, &from, 0, &line->turn);
}

static void leave(struct line *line, unsigned slot, const char *token) {
    assert_int_equal(node_release(line->table, &keys[slot - 1], 1, text(token), 0), NODE_GRANTED);
}

static struct line line_new(struct line *line) {
    notified[0] = '\0';
    return (struct line){.table = node_table_open(&(struct node_options){
                             .native = true, .on_change = on_change, .context = line}),
                         .queue = node_queue_new(&(struct node_queue_options){
                             .reserve_us = NODE_RESERVE_US, .notify = note, .context = line})};
}

static void line_free(struct line *line) {
    node_queue_free(line->queue);
    node_table_free(line->table);
}

/* Two waiters, in the order in which they came; both slots become free; nobody else comes between,
 * and the second one has its turn as soon as the first one has its slot. */
static void test_turns(void **state) {
    struct line line = line_new(&line);
    (void)state;
    expect_slot(contend(&line, HEX "1/2", "", 0), 1);
    expect_slot(contend(&line, HEX "2/2", "", 0), 2);
    struct node_slot_answer full = contend(&line, HEX "4/2", "b", 10);
    assert_int_equal(full.answer, NODE_DENIED);
    assert_int_equal(full.remaining_ms, TTL_MS);
    assert_int_equal(line.turn.rank, 0);
    assert_false(line.turn.reserved);
    assert_int_equal(contend(&line, HEX "3/2", "a", 20).answer, NODE_DENIED);
    assert_int_equal(line.turn.rank, 0);
    assert_string_equal(notified, "");
    leave(&line, 2, HEX "2/2");
    assert_string_equal(notified, "a");
    leave(&line, 1, HEX "1/2");
    assert_string_equal(notified, "a"); /* one at a time */
    assert_int_equal(contend(&line, HEX "5/2", "", 0).answer, NODE_DENIED);
    assert_true(line.turn.reserved && line.turn.left_us == NODE_RESERVE_US);
    assert_int_equal(contend(&line, HEX "4/2", "b", 10).answer, NODE_DENIED);
    assert_true(line.turn.reserved && line.turn.rank == 1);
    expect_slot(contend(&line, HEX "3/2", "a", 20), 1);
    assert_true(line.turn.others);
    assert_string_equal(notified, "ab");
    expect_slot(contend(&line, HEX "3/2", "", 0), 1); /* it has one: no reservation holds it up */
    expect_slot(contend(&line, HEX "4/2", "b", 10), 2);
    assert_false(line.turn.others);
    assert_int_equal(node_queue_waiters(line.queue), 0);
    line_free(&line);
}

/* A request for one certain slot that is taken leaves the reservation of another slot alone. */
static void test_turn_kept(void **state) {
    struct line line = line_new(&line);
    static const uint8_t one[] = {1};
    (void)state;
    expect_slot(contend(&line, HEX "1/2", "", 0), 1);
    expect_slot(contend(&line, HEX "2/2", "", 0), 2);
    assert_int_equal(contend(&line, HEX "3/2", "a", 20).answer, NODE_DENIED);
    leave(&line, 2, HEX "2/2");
    const struct node_slot_request request = {.names = keys,
                                              .count = 2,
                                              .order = one,
                                              .order_count = 1,
                                              .token = text(HEX "3/2"),
                                              .ttl_ms = TTL_MS};
    const struct node_waiter a = waiter("a", 20);
    assert_int_equal(
        node_acquire_slot_in_turn(line.table, line.queue, &request, &a, 0, &line.turn).answer,
        NODE_DENIED);
    assert_int_equal(node_queue_reservations(line.queue), 1);
    /* with all taken nothing is reserved */
    expect_slot(contend(&line, HEX "4/2", "first", 30), 2);
    assert_int_equal(node_queue_reservations(line.queue), 0);
    line_free(&line);
}

/* One that waits learns what it waits for. */
static void test_await(void **state) {
    struct line line = line_new(&line);
    struct node_slot_request request = {.names = keys, .count = 2};
    const struct node_waiter a = waiter("a", 20), b = waiter("b", 10);
    int64_t rank;
    (void)state;
    assert_int_equal(node_await_slot(line.table, line.queue, &request, &a, 0, &rank), -2);
    assert_int_equal(rank, 0);
    request.barred = 3;
    assert_int_equal(node_await_slot(line.table, line.queue, &request, &a, 0, &rank), -1);
    request.barred = 0;
    expect_slot(contend(&line, HEX "1/2", "c", 40), 1);
    expect_slot(contend(&line, HEX "2/2", "d", 30), 2);
    assert_int_equal(node_await_slot(line.table, line.queue, &request, &b, 0, &rank), TTL_MS);
    assert_int_equal(rank, 1);
    leave(&line, 1, HEX "1/2");
    assert_int_equal(node_await_slot(line.table, line.queue, &request, &b, 0, &rank),
                     NODE_RESERVE_US / 1000);
    assert_int_equal(node_await_slot(line.table, line.queue, &request, &a, 0, &rank), -2);
    line_free(&line);
}

/* What has ended is reserved for the first waiter before anybody else can take it. */
static void test_ended(void **state) {
    struct line line = line_new(&line);
    static const uint8_t order[2] = {1, 2};
    (void)state;
    expect_slot(contend(&line, HEX "1/2", "", 0), 1);
    expect_slot(contend(&line, HEX "2/2", "", 0), 2);
    assert_int_equal(contend(&line, HEX "3/2", "a", 20).answer, NODE_DENIED);
    const struct node_slot_request request = {.names = keys,
                                              .count = 2,
                                              .order = order,
                                              .order_count = 2,
                                              .token = text(HEX "4/2"),
                                              .ttl_ms = TTL_MS};
    const struct node_waiter stranger = waiter("", 0);
    const int64_t later_us = (TTL_MS + 1) * 1000;
    node_queue_enter(line.queue, keys[0],
                     &(struct node_waiter){.name = text("a"),
                                           .since_us = NODE_SINCE_UNKNOWN,
                                           .waited_us = 20,
                                           .remember_us = 2 * later_us},
                     0);
    const struct node_slot_answer late = node_acquire_slot_in_turn(
        line.table, line.queue, &request, &stranger, NODE_RESERVE_US / 2, &line.turn);
    assert_int_equal(late.answer, NODE_DENIED);
    assert_false(line.turn.reserved);
    node_expire_key(line.table, keys[0], 0);
    assert_string_equal(notified, "");
    (void)node_acquire_slot_in_turn(line.table, line.queue, &request, &stranger, later_us,
                                    &line.turn);
    assert_string_equal(notified, "a");
    line_free(&line);
}

static void test_no_memory(void **state) {
    struct node_table *table = node_table_new(NULL, NULL);
    (void)state;
    expect_slot(take(table, HEX "1/3", 3, "1", 0), 1);
    memory_left = 0;
    struct node_slot_answer answer = take(table, HEX "1/3", 3, "3", 0);
    assert_int_equal(answer.answer, NODE_NO_MEMORY);
    assert_int_equal(answer.slot, 0);
    memory_left = -1;
    assert_true(holds(table, 1, HEX "1/3", 0)); /* nothing was changed */
    node_table_free(table);
}

static void test_count(void **state) {
    (void)state;
    assert_int_equal(node_slot_count(text(HEX "0/1")), 1);
    assert_int_equal(node_slot_count(text(HEX "f/64:owner/3")), 64);
    assert_int_equal(node_slot_count(text(HEX "F/7:")), 7);
    assert_int_equal(node_slot_count(text(HEX "9/9")), 9);
    assert_int_equal(node_slot_count(text(HEX "a/10")), 10);
    assert_int_equal(node_slot_count(text(HEX "A/19:")), 19);
    static const char *const others[] = {
        "",        HEX "0",   HEX "0/",    HEX "0/0", HEX "0/07", HEX "0/100", HEX "0/7x",
        HEX "g/7", HEX "/7",  HEX "0:a/7", HEX "0x7", HEX "0/a",  HEX "0/:",   HEX "0/1/",
        HEX "//7", HEX ":/7", HEX "@/7",   HEX "G/7", HEX "`/7",  "g" HEX "/7"};
    for (unsigned i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        assert_int_equal(node_slot_count(text(others[i])), 0);
}

/* What comes after the token does not belong to it. */
static void test_count_of_a_part(void **state) {
    (void)state;
    assert_int_equal(node_slot_count((struct node_bytes){HEX "0/7:", 41}), 0);
    assert_int_equal(node_slot_count((struct node_bytes){HEX "0/12", 42}), 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_another_number),
        cmocka_unit_test(test_plain_lock),
        cmocka_unit_test(test_settle),
        cmocka_unit_test(test_fence),
        cmocka_unit_test(test_last_slot),
        cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_count),
        cmocka_unit_test(test_count_of_a_part),
        cmocka_unit_test(test_another_number_behind_a_plain_lock),
        cmocka_unit_test(test_first_end),
        cmocka_unit_test(test_native_fence),
        cmocka_unit_test(test_barred),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_turns),
        cmocka_unit_test(test_turn_kept),
        cmocka_unit_test(test_await),
        cmocka_unit_test(test_ended),
    };
    return cmocka_run_group_tests(tests, name_keys, NULL);
}
