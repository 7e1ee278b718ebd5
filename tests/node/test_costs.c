/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What a million locks cost: memory, the longest single call, ends in portions; and that twice as
 * many locks or waiters cost twice as much.
 *
 * The same calls are made several times. Of each call the fastest counts, so what other processes
 * and interrupts did is not measured; and then the slowest of all calls. */
#include "costs.h"

#include <stdbool.h>
#include <string.h>

#include "core/mix.h"
#include "memory.h"
#include "node/queue.h"

enum {
    LOCKS = COST_SANITIZED ? 20000 : 1000000,
    ENDING = LOCKS / 10,
    PORTION = 25,
    RUNS = COST_SANITIZED ? 1 : 3,
    NAME_BYTES = 32,
    BESIDE_NAMES_MAX = 120, /* bytes of a lock besides its key and token */
#ifdef __OPTIMIZE__
    CALL_US_MAX = 50,
#else
    CALL_US_MAX = 250,
#endif
    TTL = 30000
};

static const struct node_bytes token = {"0123456789012345678901234567890123456789", 40};

static struct node_bytes name_of(char name[NAME_BYTES], unsigned number) {
    int bytes = snprintf(name, NAME_BYTES, "tenant-%u:invoice-%u", number % 977, number);
    return (struct node_bytes){name, (size_t)bytes};
}

static struct node_table *new_table(void) {
    struct node_table *table =
        node_table_open(&(struct node_options){.native = true, .seed = 0x5eed});
    static const int64_t floor[NODE_STRIPES] = {0};
    static const struct node_field nonce = {{"nonce", 5}, {"000000000000000a", 16}};
    struct node_record_write write = {0, 10, true, false, floor, &nonce, 1};
    assert_non_null(table);
    assert_int_equal(node_record_write(table, &write), NODE_GRANTED);
    return table;
}

static int64_t end_of(unsigned number) { return TTL + number % 1000; }

static void acquire(struct node_table *table, unsigned number) {
    char name[NAME_BYTES];
    struct node_bytes key = name_of(name, number);
    uint16_t stripe = rl_fnv1a(RL_FNV_BASIS, key.data, key.bytes) % NODE_STRIPES;
    assert_true(node_acquire_guarded(table, &key, 1, token, end_of(number), 10, 1 + number, &stripe,
                                     1, 0) == NODE_GRANTED);
}

static void extend(struct node_table *table, unsigned number) {
    char name[NAME_BYTES];
    struct node_bytes key = name_of(name, number);
    uint16_t stripe = rl_fnv1a(RL_FNV_BASIS, key.data, key.bytes) % NODE_STRIPES;
    assert_true(node_extend_guarded(table, &key, 1, token, TTL, 10, 1 + number, &stripe, 1,
                                    TTL / 3) == NODE_GRANTED);
}

static void release(struct node_table *table, unsigned number) {
    char name[NAME_BYTES];
    struct node_bytes key = name_of(name, number);
    assert_true(node_release(table, &key, 1, token, TTL / 3) == NODE_GRANTED);
}

/* A tenth of them ends, in 100 milliseconds. */
static void end_some(struct node_table *table, unsigned number) {
    (void)number;
    assert_int_equal(node_expire_some(table, TTL + 99, PORTION), PORTION);
}

static void visit(void *context, const struct node_lock *lock) {
    (void)lock;
    ++*(unsigned *)context;
}

static uint64_t cursor;

static void scan(struct node_table *table, unsigned number) {
    unsigned visited = 0;
    if (number == 0) cursor = 0;
    cursor = node_scan(table, cursor, 10, 0, visit, &visited);
}

/* ---- the longest call ---- */

typedef void call_fn(struct node_table *table, unsigned number);

static int64_t now_ns(void) {
    struct timespec at;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &at);
    return (int64_t)at.tv_sec * 1000000000 + at.tv_nsec;
}

struct calls {
    const char *what;
    call_fn *call;
    unsigned count;
    uint32_t *ns; /* of each call, the fastest of all runs */
};

static void time_calls(struct calls *calls, struct node_table *table) {
    for (unsigned i = 0; i < calls->count; i++) {
        int64_t before = now_ns();
        calls->call(table, i);
        int64_t took = now_ns() - before;
        if (took < calls->ns[i]) calls->ns[i] = (uint32_t)took;
    }
}

static double longest_us(const struct calls *calls) {
    uint32_t longest = 0;
    double sum = 0;
    for (unsigned i = 0; i < calls->count; i++) {
        if (calls->ns[i] > longest) longest = calls->ns[i];
        sum += calls->ns[i];
    }
    printf("%-30s %8u calls, %6.2f us on average, the longest %6.2f us\n", calls->what,
           calls->count, sum / calls->count / 1000, (double)longest / 1000);
    return (double)longest / 1000;
}

static void test_the_longest_call(void **state) {
    struct calls calls[] = {
        {"acquire, from none", acquire, LOCKS, NULL},
        {"extend, all", extend, LOCKS, NULL},
        {"scan, 10 at a time", scan, LOCKS / 10, NULL},
        {"release, to none", release, LOCKS, NULL},
        {"acquire again", acquire, LOCKS, NULL},
        {"end, 25 at a time", end_some, ENDING / PORTION, NULL},
    };
    enum { CALLS = sizeof(calls) / sizeof(calls[0]) };
    (void)state;
    for (int i = 0; i < CALLS; i++) {
        calls[i].ns = malloc(calls[i].count * sizeof(uint32_t));
        assert_non_null(calls[i].ns);
        memset(calls[i].ns, 0xff, calls[i].count * sizeof(uint32_t));
    }
    for (int run = 0; run < RUNS; run++) {
        struct node_table *table = new_table();
        for (int i = 0; i < CALLS; i++) {
            time_calls(&calls[i], table);
            if (calls[i].call == release) { /* what was freed begins above its fence */
                node_table_free(table);
                table = new_table();
            }
        }
        assert_int_equal(node_count(table), LOCKS - ENDING);
        node_table_free(table);
    }
    for (int i = 0; i < CALLS; i++) {
        double us = longest_us(&calls[i]);
        if (!COST_SANITIZED && us > CALL_US_MAX)
            fail_msg("%s: %.2f us is above %d us", calls[i].what, us, CALL_US_MAX);
        free(calls[i].ns);
    }
    assert_int_equal(memory_pieces, 0);
}

/* ---- memory ---- */

static void test_bytes_of_a_lock(void **state) {
    struct node_table *table = new_table();
    size_t before = memory_bytes, names = 0;
    char name[NAME_BYTES];
    (void)state;
    for (unsigned i = 0; i < LOCKS; i++) {
        acquire(table, i);
        names += name_of(name, i).bytes + token.bytes;
    }
    double taken = (double)(memory_bytes - before), beside = (taken - (double)names) / LOCKS;
    double counted = (double)node_bytes_locked(table);
    printf("%u locks: %.1f bytes each, %.1f besides key and token; the table counts %.1f\n", LOCKS,
           taken / LOCKS, beside, counted / LOCKS);
    assert_true(beside <= BESIDE_NAMES_MAX);
    /* What the limit counts is what is taken. */
    assert_true(counted > 0.95 * taken && counted < 1.1 * taken);
    for (unsigned i = 0; i < LOCKS; i++) release(table, i);
    printf("%zu bytes are left when all are released\n", memory_bytes - before);
    assert_true(memory_bytes - before < 200000);
    node_table_free(table);
    assert_int_equal(memory_pieces, 0);
}

/* ---- twice as many ---- */

static double cost_of_locks(unsigned n) {
    struct node_table *table = new_table();
    double before = cpu_ms();
    for (unsigned i = 0; i < n; i++) acquire(table, i);
    for (unsigned i = 0; i < n; i++) extend(table, i);
    for (unsigned i = 0; i < n / 2; i++) release(table, i);
    assert_int_equal(node_expire_some(table, 10 * TTL, n), n - n / 2);
    double cost = cpu_ms() - before;
    node_table_free(table);
    return cost;
}

static void test_twice_as_many_locks(void **state) {
    (void)state;
    assert_cost_grows_with("locks", cost_of_locks, 20000);
}

static struct node_waiter waiter_of(char name[NAME_BYTES], unsigned number) {
    return (struct node_waiter){name_of(name, number), 0, NODE_SINCE_UNKNOWN, 1000000, false};
}

/* All wait for one lock; then it passes through all of them, half of which do not come. */
static double cost_of_waiters(unsigned n) {
    struct node_queue_options options = {.seed = 0x5eed, .reserve_us = 20000, .heads = 2};
    static const struct node_bytes key = {"r", 1};
    struct node_queue *queue = node_queue_new(&options);
    char name[NAME_BYTES];
    int64_t left_us;
    assert_non_null(queue);
    double before = cpu_ms();
    for (unsigned i = 0; i < n; i++) {
        struct node_waiter waiter = waiter_of(name, i);
        waiter.waited_us = (int64_t)(rl_scatter(i) % 1000000);
        assert_true(node_queue_enter(queue, key, &waiter, 0) >= 0);
    }
    for (unsigned i = 0; i < n; i++) {
        struct node_waiter waiter = waiter_of(name, (i * 7919) % n);
        node_queue_freed(queue, key, 1);
        if (node_queue_admits(queue, key, &waiter, 1, &left_us))
            node_queue_taken(queue, key, waiter.name, 1);
        else if (i % 2)
            assert_int_equal(node_queue_enter(queue, key, &waiter, 1) >= 0, 1);
        else
            node_queue_leave(queue, key, waiter.name, false, 1);
    }
    while (node_queue_tick(queue, INT64_MAX / 2, 10)) continue;
    double cost = cpu_ms() - before;
    assert_int_equal(node_queue_waiters(queue), 0);
    node_queue_free(queue);
    return cost;
}

static void test_twice_as_many_waiters(void **state) {
    (void)state;
    assert_cost_grows_with("waiters of one lock", cost_of_waiters, 10000);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bytes_of_a_lock),
        cmocka_unit_test(test_the_longest_call),
        cmocka_unit_test(test_twice_as_many_locks),
        cmocka_unit_test(test_twice_as_many_waiters),
    };
    memory_is_dirty = false;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
