/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The node's wait queue: its rules one by one, and many waiters against a simple list. */
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
#include "node/queue.h"

#define B(text) ((struct node_bytes){text, sizeof(text) - 1})
enum { RESERVE = 20000, REMEMBER = 500000, NAME_BYTES = 24 };
#define NOW INT64_C(1000000)

static const struct node_bytes key = {"r", 1}, nobody = {NULL, 0};

/* Notifications as text: "b:0! " is b's turn. */
static char notified[512];
static bool silent;

static void on_notify(void *context, struct node_bytes of, struct node_bytes waiter, size_t rank,
                      bool turn) {
    size_t used = strlen(notified);
    (void)context;
    (void)of;
    if (silent) return;
    int bytes = snprintf(notified + used, sizeof(notified) - used, "%.*s:%zu%s ", (int)waiter.bytes,
                         (const char *)waiter.data, rank, turn ? "!" : "");
    assert_true(bytes > 0 && (size_t)bytes < sizeof(notified) - used);
}

static void expect_notified(const char *text) {
    assert_string_equal(notified, text);
    notified[0] = 0;
}

static struct node_queue *open_queue(struct node_queue_options options) {
    options.reserve_us = RESERVE;
    options.notify = on_notify;
    notified[0] = 0;
    silent = false;
    struct node_queue *queue = node_queue_new(&options);
    assert_non_null(queue);
    return queue;
}

static struct node_queue *new_queue(void) { return open_queue((struct node_queue_options){0}); }

static struct node_waiter named(const char *name, int64_t waited_us) {
    return (struct node_waiter){
        {name, strlen(name)}, waited_us, NODE_SINCE_UNKNOWN, REMEMBER, false};
}

static int64_t enter(struct node_queue *queue, const char *name, int64_t waited_us,
                     int64_t now_us) {
    struct node_waiter waiter = named(name, waited_us);
    return node_queue_enter(queue, key, &waiter, now_us);
}

static size_t leave(struct node_queue *queue, const char *name, int64_t now_us) {
    return node_queue_leave(queue, key, named(name, 0).name, false, now_us);
}

/* -1: admitted, else for how long it is reserved for another. */
static int64_t refused(struct node_queue *queue, const char *name, int64_t waited_us,
                       int64_t now_us) {
    struct node_waiter waiter = named(name, waited_us);
    int64_t left_us = -1;
    bool admitted = node_queue_admits(queue, key, &waiter, now_us, &left_us);
    assert_int_equal(admitted, left_us == -1);
    return left_us;
}

static size_t length(const struct node_queue *queue) {
    int64_t age_us;
    return node_queue_peek(queue, key, NOW, &age_us);
}

static void test_order_is_that_of_arrival(void **state) {
    struct node_queue *queue = new_queue();
    int64_t age_us;
    (void)state;
    assert_int_equal(node_queue_peek(queue, key, NOW, &age_us), 0);
    assert_int_equal(age_us, 0);
    assert_int_equal(enter(queue, "a", 0, NOW), 0);
    assert_int_equal(enter(queue, "b", 0, NOW + 10), 1);
    assert_int_equal(enter(queue, "c", 25, NOW + 20), 0); /* it came before: elsewhere */
    assert_int_equal(enter(queue, "b", 0, NOW + 30), 2);  /* keeps its place */
    assert_int_equal(enter(queue, "d", 2 * NOW, NOW), 0); /* from before this node began */
    assert_int_equal(node_queue_peek(queue, key, NOW + 100, &age_us), 4);
    assert_int_equal(age_us, 2 * NOW + 100);
    assert_int_equal(leave(queue, "d", NOW), 3);
    assert_int_equal(leave(queue, "d", NOW), 3);
    assert_int_equal(enter(queue, "a", 0, NOW + 30), 1);
    assert_int_equal(node_queue_waiters(queue), 3);
    assert_int_equal(node_queue_peek(queue, B("s"), NOW, &age_us), 0);
    assert_int_equal(node_queue_leave(queue, B("s"), B("a"), false, NOW), 0);
    expect_notified("");
    node_queue_free(queue);
    assert_int_equal(memory_pieces, 0);
}

static int64_t enter_since(struct node_queue *queue, const char *name, int64_t waited_us,
                           int64_t since_us, int64_t now_us) {
    struct node_waiter waiter = named(name, waited_us);
    waiter.since_us = since_us;
    return node_queue_enter(queue, key, &waiter, now_us);
}

/* What each waiter's request takes to reach a node differs, and what the waiter says does not. */
static void test_all_nodes_order_alike(void **state) {
    enum { A = NOW - 30, B = NOW - 20, C = NOW - 20 };
    (void)state;
    for (int node = 0; node < 2; node++) {
        struct node_queue *queue = new_queue();
        enter_since(queue, node ? "a" : "b", 0, node ? A : B, NOW);
        enter_since(queue, node ? "b" : "a", 5, node ? B : A, NOW + 900);
        enter_since(queue, "c", 0, C, NOW + 1000); /* at the same time as b: by name */
        assert_int_equal(enter(queue, "a", 0, NOW + 2000), 0);
        assert_int_equal(enter(queue, "b", 0, NOW + 2000), 1);
        assert_int_equal(enter(queue, "c", 0, NOW + 2000), 2);
        node_queue_free(queue);
    }
}

/* A waiter whose clock is wrong has the place that its waiting gives it. */
static void test_a_wall_clock_is_a_hint(void **state) {
    struct node_queue *queue = new_queue();
    (void)state;
    enter(queue, "a", 0, NOW);
    assert_int_equal(enter_since(queue, "early", 0, NOW - NODE_SINCE_SLACK_US, NOW + 1), 1);
    assert_int_equal(enter_since(queue, "late", 0, NOW + 100, NOW + 2), 2);
    assert_int_equal(enter(queue, "b", 0, NOW + 3), 3);
    assert_int_equal(enter_since(queue, "right", 0, NOW + 3 - NODE_SINCE_SLACK_US, NOW + 3), 0);
    /* Its offset to the queue's clock does not follow small changes, which would change the order
     * of those that said the same. */
    assert_int_equal(node_queue_since(queue, 5000000, 5000100, 700), 5000000 - 4999400);
    assert_int_equal(node_queue_since(queue, 5000000, 5000900, 700), 5000000 - 4999400);
    assert_int_equal(node_queue_since(queue, 5000000, 5002900, 1700), 5000000 - 5001200);
    node_queue_free(queue);
}

/* The first request of a waiter took long. A later one that did not shows when it came. */
static void test_a_late_request_does_not_cost_a_place(void **state) {
    struct node_queue *queue = new_queue();
    (void)state;
    enter(queue, "a", 0, NOW);
    enter(queue, "b", 0, NOW + 100);
    assert_int_equal(enter(queue, "c", 10, NOW + 1000), 2);
    node_queue_freed(queue, key, NOW + 1000);
    expect_notified("a:0! ");
    assert_int_equal(enter(queue, "c", 1950, NOW + 2000), 1);
    expect_notified("");
    assert_int_equal(enter(queue, "c", 1000, NOW + 2000), 1); /* a place is never lost by it */
    assert_int_equal(refused(queue, "a", 0, NOW + 2000), -1);
    assert_int_equal(length(queue), 3);
    node_queue_free(queue);
    assert_int_equal(memory_pieces, 0);
}

/* The clocks of both run fast: each time that one comes again it seems to have come before the
 * other. */
static void test_a_reservation_is_not_taken_over(void **state) {
    struct node_queue *queue = new_queue();
    (void)state;
    enter(queue, "a", 0, NOW);
    enter(queue, "b", 0, NOW);
    node_queue_freed(queue, key, NOW + 1000);
    expect_notified("a:0! ");
    for (int64_t i = 1; i < 5; i++) {
        assert_int_equal(enter(queue, "b", 1010 * i, NOW + 1000 * i), 1);
        assert_int_equal(enter(queue, "a", 1010 * i, NOW + 1000 * i), 0);
        assert_int_equal(refused(queue, "b", 1010 * i, NOW + 1000 * i), RESERVE - 1000 * (i - 1));
        assert_int_equal(refused(queue, "a", 1010 * i, NOW + 1000 * i), -1);
    }
    expect_notified("");
    assert_true(node_queue_taken(queue, key, named("a", 0).name, NOW + 5000));
    /* Nobody has a reservation: now it counts. */
    enter(queue, "c", 4900, NOW + 5000);
    assert_int_equal(enter(queue, "b", 5050, NOW + 5000), 0);
    assert_int_equal(enter(queue, "c", 5200, NOW + 5000), 0);
    node_queue_freed(queue, key, NOW + 5000);
    expect_notified("c:0! ");
    node_queue_free(queue);
    assert_int_equal(memory_pieces, 0);
}

/* Its clock is 10 ms slow, and it comes again as soon as it has released the lock. */
static void test_a_slow_clock_does_not_starve_others(void **state) {
    struct node_queue *queue = new_queue();
    (void)state;
    enter(queue, "a", 0, NOW);
    assert_int_equal(enter_since(queue, "slow", 0, NOW + 100 - 10000, NOW + 100), 0);
    assert_true(node_queue_taken(queue, key, B("slow"), NOW + 200));
    enter(queue, "b", 0, NOW + 300);
    assert_int_equal(enter_since(queue, "slow", 0, NOW + 1000 - 10000, NOW + 1000), 1);
    /* A try that is lost costs no place: it goes on waiting. */
    assert_true(node_queue_taken(queue, key, B("a"), NOW + 2000));
    assert_int_equal(enter_since(queue, "a", 3000, NOW, NOW + 3000), 0);
    node_queue_free(queue);
}

static void test_a_free_lock_is_reserved(void **state) {
    struct node_queue *queue = new_queue();
    (void)state;
    node_queue_freed(queue, key, NOW); /* nobody waits */
    assert_int_equal(refused(queue, "x", 0, NOW), -1);
    enter(queue, "a", 0, NOW);
    enter(queue, "b", 0, NOW + 1);
    assert_int_equal(refused(queue, "x", 0, NOW), -1); /* it is not free: the table denies */
    expect_notified("");
    node_queue_freed(queue, key, NOW + 10);
    expect_notified("a:0! ");
    assert_int_equal(node_queue_next(queue), NOW + 10 + RESERVE);
    assert_int_equal(refused(queue, "x", 0, NOW + 11), RESERVE - 1);
    assert_int_equal(refused(queue, "b", 0, NOW + 11), RESERVE - 1);
    assert_int_equal(refused(queue, "a", 0, NOW + 11), -1);
    struct node_waiter none = {.name = nobody};
    int64_t left_us = -1;
    assert_false(node_queue_admits(queue, key, &none, NOW + 11, &left_us));
    node_queue_freed(queue, key, NOW + 12); /* again: the time is that of the first */
    assert_int_equal(node_queue_next(queue), NOW + 10 + RESERVE);
    node_queue_taken(queue, key, B("a"), NOW);
    assert_int_equal(length(queue), 1);
    assert_int_equal(refused(queue, "x", 0, NOW + 12), -1);
    assert_int_equal(node_queue_next(queue), NOW + 1 + REMEMBER);
    expect_notified("");
    node_queue_free(queue);
    assert_int_equal(memory_pieces, 0);
}

static void test_who_does_not_come_loses_its_place(void **state) {
    struct node_queue *queue = new_queue();
    (void)state;
    enter(queue, "a", 0, NOW);
    enter(queue, "b", 0, NOW + 1);
    enter(queue, "c", 0, NOW + 2);
    node_queue_freed(queue, key, NOW + 10);
    expect_notified("a:0! ");
    assert_int_equal(node_queue_tick(queue, NOW + 9 + RESERVE, 10), 0);
    assert_int_equal(node_queue_tick(queue, NOW + 10 + RESERVE, 10), 1);
    expect_notified("b:0! ");
    assert_int_equal(length(queue), 2);
    assert_int_equal(node_queue_next(queue), NOW + 10 + 2 * RESERVE);
    /* without a tick, a request finds that its time is over; the next has all of its own */
    assert_int_equal(refused(queue, "b", 0, NOW + 500 + 2 * RESERVE), RESERVE);
    expect_notified("c:0! ");
    assert_int_equal(refused(queue, "c", 0, NOW + 500 + 2 * RESERVE), -1);
    assert_int_equal(node_queue_tick(queue, NOW + 500 + 3 * RESERVE, 10), 1);
    assert_int_equal(length(queue), 0);
    assert_int_equal(refused(queue, "x", 0, NOW + 500 + 3 * RESERVE), -1);
    assert_int_equal(node_queue_next(queue), INT64_MAX);
    /* it comes back with its age */
    enter(queue, "d", 0, NOW + 100);
    assert_int_equal(enter(queue, "a", 200, NOW + 200), 0);
    node_queue_free(queue);
    assert_int_equal(memory_pieces, 0);
}

static void test_the_last_reservation_ends_by_a_request(void **state) {
    struct node_queue *queue = new_queue();
    (void)state;
    enter(queue, "a", 0, NOW);
    node_queue_freed(queue, key, NOW);
    assert_int_equal(refused(queue, "x", 0, NOW + RESERVE - 1), 1);
    assert_int_equal(refused(queue, "x", 0, NOW + RESERVE), -1);
    assert_int_equal(node_queue_waiters(queue), 0);
    enter(queue, "a", 0, NOW);
    node_queue_freed(queue, key, NOW);
    assert_int_equal(enter(queue, "b", 0, NOW + RESERVE), 0);
    enter(queue, "c", 0, NOW + RESERVE);
    node_queue_freed(queue, key, NOW + RESERVE);
    assert_int_equal(leave(queue, "c", NOW + 2 * RESERVE), 0);
    node_queue_free(queue);
}

/* All nodes come to favour the one that has waited longest, also one that this node did not know.
 */
static void test_the_eldest_is_admitted(void **state) {
    struct node_queue *queue = new_queue();
    (void)state;
    enter(queue, "b", 0, NOW);
    node_queue_freed(queue, key, NOW + 10);
    expect_notified("b:0! ");
    assert_int_equal(refused(queue, "a", 10, NOW + 11), RESERVE - 1);
    assert_int_equal(refused(queue, "a", 12, NOW + 11), -1);
    assert_int_equal(enter(queue, "a", 112, NOW + 111), 0);
    expect_notified("a:0! ");
    assert_int_equal(node_queue_next(queue), NOW + 111 + RESERVE);
    assert_int_equal(refused(queue, "b", 0, NOW + 111), RESERVE);
    /* a waiter in the queue has the age with which it entered */
    assert_int_equal(refused(queue, "b", 5000, NOW + 111), RESERVE);
    node_queue_taken(queue, key, nobody, NOW);
    assert_int_equal(length(queue), 2);
    node_queue_free(queue);
}

static void test_leaving(void **state) {
    struct node_queue *queue = open_queue((struct node_queue_options){.heads = 2});
    (void)state;
    enter(queue, "a", 0, NOW);
    enter(queue, "b", 0, NOW + 1);
    enter(queue, "c", 0, NOW + 2);
    enter(queue, "d", 0, NOW + 3);
    expect_notified("");
    assert_int_equal(leave(queue, "d", NOW + 5), 3); /* nobody moves up */
    expect_notified("");
    assert_int_equal(leave(queue, "b", NOW + 5), 2);
    expect_notified("c:1 ");
    node_queue_freed(queue, key, NOW + 6);
    expect_notified("a:0! ");
    assert_int_equal(leave(queue, "a", NOW + 10), 1); /* its reservation passes to the next */
    expect_notified("c:0! ");
    assert_int_equal(refused(queue, "c", 0, NOW + 10), -1);
    assert_int_equal(refused(queue, "x", 0, NOW + 10), RESERVE);
    assert_int_equal(leave(queue, "c", NOW + 11), 0);
    assert_int_equal(refused(queue, "x", 0, NOW + 11), -1);
    expect_notified("");
    for (char name[2] = "a"; *name <= 'e'; ++*name) enter(queue, name, 0, NOW + *name);
    node_queue_taken(queue, key, B("a"), NOW);
    expect_notified("b:0 c:1 ");
    assert_int_equal(node_queue_leave(queue, key, B("d"), true, NOW + 200), 1);
    expect_notified("e:0 ");
    assert_int_equal(node_queue_leave(queue, key, B("b"), true, NOW + 200), 1);
    node_queue_free(queue);
    assert_int_equal(memory_pieces, 0);
}

static void test_waiters_are_forgotten(void **state) {
    struct node_queue *queue = open_queue((struct node_queue_options){.heads = 1});
    (void)state;
    enter(queue, "a", 0, NOW);
    enter(queue, "b", 0, NOW + 10);
    enter(queue, "a", 0, NOW + 100);
    assert_int_equal(node_queue_next(queue), NOW + 10 + REMEMBER);
    assert_int_equal(node_queue_tick(queue, NOW + 10 + REMEMBER, 5), 1);
    assert_int_equal(length(queue), 1);
    enter(queue, "b", 0, NOW + 10 + REMEMBER);
    assert_int_equal(node_queue_tick(queue, NOW + 100 + REMEMBER, 5), 1);
    expect_notified("b:0 ");
    /* a lock is not reserved for one that is known to have gone */
    enter(queue, "c", 0, NOW + 20 + REMEMBER);
    enter(queue, "c", 0, NOW + 2 * REMEMBER);
    node_queue_freed(queue, key, NOW + 10 + 2 * REMEMBER);
    expect_notified("c:0! ");
    assert_int_equal(length(queue), 1);
    node_queue_taken(queue, key, B("c"), NOW);
    enter(queue, "d", 0, NOW);
    node_queue_freed(queue, key, NOW + REMEMBER);
    expect_notified("");
    assert_int_equal(node_queue_waiters(queue), 0);
    node_queue_free(queue);
    assert_int_equal(memory_pieces, 0);
}

static void test_ticks_have_a_limit(void **state) {
    struct node_queue *queue = new_queue();
    char name[NAME_BYTES];
    (void)state;
    for (int i = 0; i < 100; i++) {
        struct node_bytes of = {name, (size_t)snprintf(name, NAME_BYTES, "key%d", i)};
        struct node_waiter waiter = named("a", 0);
        assert_int_equal(node_queue_enter(queue, of, &waiter, NOW), 0);
        if (i < 50) node_queue_freed(queue, of, NOW);
    }
    assert_int_equal(node_queue_tick(queue, NOW + REMEMBER, 30), 30);
    assert_int_equal(node_queue_waiters(queue), 70);
    assert_int_equal(node_queue_tick(queue, NOW + REMEMBER, 30), 30);
    assert_int_equal(node_queue_tick(queue, NOW + REMEMBER, 60), 40);
    assert_int_equal(node_queue_waiters(queue), 0);
    node_queue_free(queue);
    assert_int_equal(memory_pieces, 0);
}

static void test_names(void **state) {
    struct node_queue *queue = new_queue();
    char longest[129];
    struct node_waiter waiter = {{longest, 128}, 0, NODE_SINCE_UNKNOWN, REMEMBER, false};
    (void)state;
    memset(longest, 0, sizeof(longest));
    assert_int_equal(node_queue_enter(queue, key, &waiter, NOW), 0);
    waiter.name.bytes = 127;
    assert_int_equal(node_queue_enter(queue, key, &waiter, NOW), 0); /* a prefix comes before */
    waiter.name.bytes = 129;
    assert_int_equal(node_queue_enter(queue, key, &waiter, NOW), -1);
    waiter.name.bytes = 0;
    assert_int_equal(node_queue_enter(queue, key, &waiter, NOW), -1);
    waiter = named("a", -1);
    assert_int_equal(node_queue_enter(queue, key, &waiter, NOW), -1);
    waiter = named("a", INT64_MAX);
    assert_int_equal(node_queue_enter(queue, key, &waiter, NOW), -1);
    waiter = (struct node_waiter){.name = B("a")};
    assert_int_equal(node_queue_enter(queue, key, &waiter, NOW), -1);
    waiter.remember_us = INT64_MAX;
    assert_int_equal(node_queue_enter(queue, key, &waiter, NOW), -1);
    assert_int_equal(length(queue), 2);
    node_queue_free(queue);
}

static void test_a_full_queue(void **state) {
    const size_t limit = 100000;
    struct node_queue *queue = open_queue((struct node_queue_options){.bytes_max = limit});
    char name[NAME_BYTES];
    int count = 0;
    (void)state;
    for (;; count++) {
        snprintf(name, NAME_BYTES, "waiter%d", count);
        if (enter(queue, name, 0, NOW + count) == -1) break;
        assert_true(node_queue_bytes(queue) <= limit);
    }
    assert_true(count > 300);
    assert_int_equal(node_queue_waiters(queue), count);
    assert_int_equal(enter(queue, "waiter5", 0, NOW + count), 5);
    assert_int_equal(leave(queue, "waiter5", NOW), count - 1);
    assert_int_equal(enter(queue, name, 0, NOW + count), count - 1);
    node_queue_free(queue);
    assert_int_equal(memory_pieces, 0);
}

/* ---- with the table ---- */

struct node {
    struct node_table *table;
    struct node_queue *queue;
    int64_t now_us;
};

static void on_change(void *context, enum node_change change, struct node_bytes of,
                      struct node_bytes token, int64_t expires_ms) {
    struct node *node = context;
    (void)token;
    (void)expires_ms;
    if (change == NODE_CHANGE_DELETED || change == NODE_CHANGE_EXPIRED)
        node_queue_freed(node->queue, of, node->now_us);
}

static void open_node(struct node *node) {
    node->queue = new_queue();
    node->table = node_table_open(
        &(struct node_options){.native = true, .on_change = on_change, .context = node});
    assert_non_null(node->table);
}

static void close_node(struct node *node) {
    node_table_free(node->table);
    node_queue_free(node->queue);
    assert_int_equal(memory_pieces, 0);
}

static enum node_answer take(struct node *node, const char *name, int64_t now_us,
                             struct node_turn *denial) {
    struct node_waiter waiter = name ? named(name, 0) : (struct node_waiter){.name = nobody};
    node->now_us = now_us;
    memset(denial, 0x5a, sizeof(*denial));
    return node_acquire_in_turn(node->table, node->queue, &key, 1,
                                name ? waiter.name : B("stranger"), 100, NULL, &waiter, now_us,
                                denial);
}

static void expect_denial(const struct node_turn *denial, int64_t rank, int64_t left_us,
                          bool reserved) {
    assert_int_equal(denial->rank, rank);
    assert_int_equal(denial->left_us, left_us);
    assert_int_equal(denial->reserved, reserved);
    assert_ptr_equal(denial->key.data, key.data);
}

static void test_acquire_in_turn(void **state) {
    struct node node;
    struct node_turn denial;
    (void)state;
    open_node(&node);
    assert_int_equal(take(&node, "a", NOW, &denial), NODE_GRANTED);
    assert_int_equal(take(&node, NULL, NOW + 30000, &denial), NODE_DENIED);
    expect_denial(&denial, -1, 70000, false);
    assert_int_equal(take(&node, "b", NOW + 30000, &denial), NODE_DENIED);
    expect_denial(&denial, 0, 70000, false);
    assert_int_equal(take(&node, "c", NOW + 31000, &denial), NODE_DENIED);
    expect_denial(&denial, 1, 69000, false);
    node.now_us = NOW + 40000;
    assert_int_equal(node_release(node.table, &key, 1, B("a"), 1040), NODE_GRANTED);
    expect_notified("b:0! ");
    /* the former holder may not simply come again */
    assert_int_equal(take(&node, "a", NOW + 41000, &denial), NODE_DENIED);
    expect_denial(&denial, 2, RESERVE - 1000, true);
    assert_int_equal(take(&node, NULL, NOW + 41000, &denial), NODE_DENIED);
    expect_denial(&denial, -1, RESERVE - 1000, true);
    assert_int_equal(take(&node, "b", NOW + 42000, &denial), NODE_GRANTED);
    assert_int_equal(node_queue_waiters(node.queue), 2);
    /* an end that no timer has found yet */
    assert_int_equal(take(&node, NULL, NOW + 142000, &denial), NODE_DENIED);
    expect_notified("c:0! ");
    expect_denial(&denial, -1, RESERVE, true);
    assert_int_equal(take(&node, NULL, NOW + 142000 + RESERVE, &denial), NODE_DENIED);
    expect_notified("a:0! ");
    assert_int_equal(take(&node, NULL, NOW + 142000 + 2 * RESERVE, &denial), NODE_GRANTED);
    assert_int_equal(node_queue_waiters(node.queue), 0);
    close_node(&node);
}

static void test_several_keys_in_turn(void **state) {
    struct node node;
    struct node_turn denial;
    const struct node_bytes two[] = {B("s"), key}, name = B("a");
    struct node_waiter a = named("a", 0);
    (void)state;
    open_node(&node);
    assert_int_equal(take(&node, "x", NOW, &denial), NODE_GRANTED);
    assert_int_equal(
        node_acquire_in_turn(node.table, node.queue, two, 2, name, 100, NULL, &a, NOW, &denial),
        NODE_DENIED);
    assert_memory_equal(denial.key.data, "r", 1);
    assert_int_equal(denial.rank, 0);
    assert_int_equal(node_count(node.table), 1);
    assert_int_equal(node_release(node.table, &key, 1, B("x"), 1000), NODE_GRANTED);
    assert_int_equal(take(&node, "b", NOW, &denial), NODE_DENIED);
    assert_int_equal(
        node_acquire_in_turn(node.table, node.queue, two, 2, name, 100, NULL, &a, NOW, &denial),
        NODE_GRANTED);
    assert_int_equal(node_queue_waiters(node.queue), 1);
    close_node(&node);
}

/* A key that is set without its fence is taken: its client raises, and does not wait. */
static void test_fences_in_turn(void **state) {
    struct node node;
    struct node_turn denial;
    const uint16_t stripe = rl_fnv1a(RL_FNV_BASIS, key.data, key.bytes) % NODE_STRIPES;
    static const int64_t floor[NODE_STRIPES] = {0};
    const struct node_field nonce = {B("nonce"), B("000000000000000a")};
    const struct node_record_write write = {0, 10, true, false, floor, &nonce, 1};
    struct node_fence_request request = {10, 5, &stripe, 1};
    struct node_waiter waiter = named("a", 0);
    struct node_lock lock;
    (void)state;
    open_node(&node);
    assert_int_equal(node_record_write(node.table, &write), NODE_GRANTED);
    for (int i = 0; i < 2; i++) {
        enter(node.queue, "a", 0, NOW);
        enter(node.queue, "b", 0, NOW + 1);
        node_queue_freed(node.queue, key, NOW);
        assert_int_equal(node_acquire_in_turn(node.table, node.queue, &key, 1, B("t"), 100,
                                              &request, &waiter, NOW, &denial),
                         i == 0 ? NODE_GRANTED : NODE_STALE);
        assert_int_equal(length(node.queue), 1);
        assert_int_equal(refused(node.queue, "x", 0, NOW), -1);
        assert_true(node_look(node.table, key, NOW / 1000, &lock));
        assert_int_equal(lock.fence, 5);
        assert_int_equal(node_release(node.table, &key, 1, B("t"), NOW / 1000), NODE_GRANTED);
        node_queue_taken(node.queue, key, nobody, NOW);
    }
    close_node(&node);
}

/* ---- many against a list ---- */

enum { NAMES = 40, PLACES = 3 };

struct place {
    bool waits;
    int64_t since_us, until_us;
};

struct list {
    struct place place[NAMES];
    struct {
        unsigned number;
        int64_t at_us;
    } taken[8]; /* the last ones, in turn; since somebody waits */
    unsigned taken_count;
    bool reserved;
    int64_t reserved_until_us;
};

static void name_of(unsigned number, char name[NAME_BYTES]) {
    snprintf(name, NAME_BYTES, "w%u", number);
}

static bool before(const struct list *list, unsigned a, unsigned b) {
    char x[NAME_BYTES], y[NAME_BYTES];
    int64_t s = list->place[a].since_us, t = list->place[b].since_us;
    name_of(a, x);
    name_of(b, y);
    return s != t ? s < t : strcmp(x, y) < 0;
}

static unsigned list_rank(const struct list *list, unsigned number) {
    unsigned rank = 0;
    for (unsigned i = 0; i < NAMES; i++) rank += list->place[i].waits && before(list, i, number);
    return rank;
}

static unsigned list_count(const struct list *list) {
    unsigned count = 0;
    for (unsigned i = 0; i < NAMES; i++) count += list->place[i].waits;
    return count;
}

static unsigned list_first(const struct list *list) {
    unsigned first = 0;
    while (first < NAMES && !(list->place[first].waits && list_rank(list, first) == 0)) first++;
    return first;
}

static void list_leave(struct list *list, unsigned number, int64_t now_us) {
    bool first = list_first(list) == number;
    list->place[number].waits = false;
    if (list->reserved && first) list->reserved_until_us = now_us + RESERVE;
    if (list_count(list) == 0) list->reserved = false;
}

static void list_pass(struct list *list, int64_t now_us) {
    if (list->reserved && list->reserved_until_us <= now_us)
        list_leave(list, list_first(list), now_us);
}

static void list_tick(struct list *list, int64_t now_us) {
    list_pass(list, now_us);
    for (;;) { /* in the order of their ends, as that decides for how long it is reserved */
        unsigned next = NAMES;
        for (unsigned i = 0; i < NAMES; i++)
            if (list->place[i].waits && list->place[i].until_us <= now_us &&
                (next == NAMES || list->place[i].until_us < list->place[next].until_us))
                next = i;
        if (next == NAMES) return;
        list_leave(list, next, now_us);
    }
}

static int64_t arrival_of(const struct list *list, unsigned number,
                          const struct node_waiter *waiter, int64_t now_us) {
    int64_t counted_us = now_us - waiter->waited_us, since_us = waiter->since_us;
    if (since_us > counted_us || since_us < counted_us - NODE_SINCE_SLACK_US) return counted_us;
    for (unsigned i = 0; i < list->taken_count && i < 8 && list_count(list) > 0; i++)
        if (list->taken[i].number == number && list->taken[i].at_us <= counted_us &&
            list->taken[i].at_us > since_us)
            since_us = list->taken[i].at_us;
    return since_us;
}

static void list_taken(struct list *list, unsigned number, int64_t now_us) {
    list->reserved = false;
    if (list_count(list) > 0) {
        list->taken[list->taken_count % 8].number = number;
        list->taken[list->taken_count++ % 8].at_us = now_us;
    }
    list->place[number].waits = false;
}

static void list_enter(struct list *list, unsigned number, int64_t since_us, int64_t now_us) {
    struct place *place = &list->place[number];
    const bool came = !place->waits;
    if (!came && list->reserved && since_us <= list->place[list_first(list)].since_us)
        since_us = list->place[list_first(list)].since_us + 1;
    if (came || since_us < place->since_us) place->since_us = since_us;
    place->waits = true;
    place->until_us = now_us + REMEMBER;
    if (came && list->reserved && list_rank(list, number) == 0)
        list->reserved_until_us = now_us + RESERVE;
}

static void list_freed(struct list *list, int64_t now_us) {
    if (list->reserved) return;
    for (unsigned first; (first = list_first(list)) < NAMES;) {
        if (list->place[first].until_us > now_us) break;
        list->place[first].waits = false;
    }
    list->reserved = list_count(list) > 0;
    list->reserved_until_us = now_us + RESERVE;
}

static bool list_admits(const struct list *list, unsigned number, int64_t since_us) {
    struct list as_if = *list;
    if (!list->reserved) return true;
    if (!list->place[number].waits) {
        as_if.place[number].waits = true;
        as_if.place[number].since_us = since_us;
    }
    return list_rank(&as_if, number) == 0;
}

static struct list lists[PLACES];

static void one_step(struct node_queue *queue, uint64_t *random, int64_t now_us) {
    unsigned number = (unsigned)(rl_splitmix64(random) % NAMES),
             place = (unsigned)(rl_splitmix64(random) % PLACES);
    int64_t waited_us = rl_draw_between(random, 0, 2000), left_us, age_us;
    int64_t late_us = rl_draw_between(random, -500, NODE_SINCE_SLACK_US + 500);
    char name[NAME_BYTES], of[] = {'k', (char)('0' + place)};
    struct list *list = &lists[place];
    struct node_bytes where = {of, sizeof(of)};
    name_of(number, name);
    struct node_waiter waiter = named(name, waited_us);
    if (late_us % 2) waiter.since_us = now_us - waited_us - late_us;
    int64_t since_us = 0;
    unsigned what = (unsigned)(rl_splitmix64(random) % 16);
    if (what < 9) list_pass(list, now_us);
    if (list_count(list) == 0) list->taken_count = 0;
    since_us = arrival_of(list, number, &waiter, now_us);
    if (what < 5) {
        list_enter(list, number, since_us, now_us);
        assert_int_equal(node_queue_enter(queue, where, &waiter, now_us), list_rank(list, number));
    } else if (what < 7) {
        if (list->place[number].waits) list_leave(list, number, now_us);
        assert_int_equal(node_queue_leave(queue, where, waiter.name, false, now_us),
                         list_count(list));
    } else if (what < 9) {
        bool admitted = node_queue_admits(queue, where, &waiter, now_us, &left_us);
        assert_int_equal(admitted, list_admits(list, number, since_us));
        if (!admitted) assert_int_equal(left_us, list->reserved_until_us - now_us);
    } else if (what < 11) {
        list_freed(list, now_us);
        node_queue_freed(queue, where, now_us);
    } else if (what < 12) {
        list_taken(list, number, now_us);
        assert_int_equal(node_queue_taken(queue, where, waiter.name, now_us), list_count(list) > 0);
    } else if (what < 14) {
        for (unsigned i = 0; i < PLACES; i++) list_tick(&lists[i], now_us);
        while (node_queue_tick(queue, now_us, 3) == 3) continue;
        assert_true(node_queue_next(queue) > now_us);
    } else {
        unsigned first = list_first(list);
        assert_int_equal(node_queue_peek(queue, where, now_us, &age_us), list_count(list));
        if (first < NAMES) {
            int64_t age = now_us - list->place[first].since_us;
            assert_int_equal(age_us, age > 0 ? age : 0);
        }
    }
}

static void test_as_a_list(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 30; seed++) {
        struct node_queue *queue =
            open_queue((struct node_queue_options){.seed = seed, .heads = 3});
        uint64_t random = seed;
        int64_t now_us = NOW;
        silent = true;
        memset(lists, 0, sizeof(lists));
        for (int i = 0; i < 3000; i++) {
            now_us += rl_draw_between(&random, 0, i % 1000 < 500 ? 3000 : 30000);
            one_step(queue, &random, now_us);
        }
        node_queue_free(queue);
        assert_int_equal(memory_pieces, 0);
    }
}

/* ---- no memory ---- */

static void test_every_allocation_fails(void **state) {
    bool all = false;
    (void)state;
    for (long left = 0; !all; left++) {
        struct node_queue_options options = {.reserve_us = RESERVE, .seed = 1};
        memory_left = left;
        struct node_queue *queue = node_queue_new(&options);
        all = queue != NULL;
        for (int i = 0; queue && i < 40; i++) {
            char name[NAME_BYTES], of[] = {'k', (char)('0' + i % 4)};
            struct node_bytes where = {of, sizeof(of)};
            int64_t left_us;
            name_of((unsigned)i, name);
            struct node_waiter waiter = named(name, 0);
            size_t waiters = node_queue_waiters(queue), bytes = node_queue_bytes(queue);
            if (node_queue_enter(queue, where, &waiter, NOW + i) == -1) {
                all = false;
                assert_int_equal(node_queue_waiters(queue), waiters);
                assert_true(node_queue_bytes(queue) <= bytes + 2 * 8192 + 128);
            }
            node_queue_freed(queue, where, NOW + i);
            if (node_queue_admits(queue, where, &(struct node_waiter){.name = nobody}, NOW + i,
                                  &left_us))
                all = false;
        }
        memory_left = -1;
        if (queue) node_queue_tick(queue, NOW + 40 + RESERVE, 3);
        node_queue_free(queue);
        assert_int_equal(memory_pieces, 0);
        assert_true(left < 1000);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order_is_that_of_arrival),
        cmocka_unit_test(test_all_nodes_order_alike),
        cmocka_unit_test(test_a_wall_clock_is_a_hint),
        cmocka_unit_test(test_a_late_request_does_not_cost_a_place),
        cmocka_unit_test(test_a_reservation_is_not_taken_over),
        cmocka_unit_test(test_a_slow_clock_does_not_starve_others),
        cmocka_unit_test(test_a_free_lock_is_reserved),
        cmocka_unit_test(test_who_does_not_come_loses_its_place),
        cmocka_unit_test(test_the_last_reservation_ends_by_a_request),
        cmocka_unit_test(test_the_eldest_is_admitted),
        cmocka_unit_test(test_leaving),
        cmocka_unit_test(test_waiters_are_forgotten),
        cmocka_unit_test(test_ticks_have_a_limit),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_a_full_queue),
        cmocka_unit_test(test_acquire_in_turn),
        cmocka_unit_test(test_several_keys_in_turn),
        cmocka_unit_test(test_fences_in_turn),
        cmocka_unit_test(test_as_a_list),
        cmocka_unit_test(test_every_allocation_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
