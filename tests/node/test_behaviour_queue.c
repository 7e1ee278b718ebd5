/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What a native node's wait queue does with drawn calls (behaviour.h): by itself, and with a table
 * whose locks, shared locks and slots are taken in turn, as the module calls both. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "behaviour.h"
#include "node/slots.h"

enum {
    WALKS = 150,
    CALLS = 400,
    CROWD_CALLS = 5000,
    KEYS = 9,
    SOME = 46,
    NAMES = 1800, /* more than what two pieces of any kind hold */
    COUNT_OF_SLOTS = 3,
    NAME_BYTES = 130
};

static const struct node_bytes nobody = {"", 0};
static struct node_bytes keys[KEYS], slots[NODE_SLOTS_MAX], waiters[NAMES];
static char slot_names[NODE_SLOTS_MAX][16], names[NAMES][16], long_names[2][NAME_BYTES];

static struct node_bytes text(const char *bytes) {
    return (struct node_bytes){bytes, strlen(bytes)};
}

static int name_keys(void **state) {
    (void)state;
    for (unsigned i = 0; i < NODE_SLOTS_MAX; i++) {
        snprintf(slot_names[i], sizeof slot_names[i], "r:slot:%u", i + 1);
        slots[i] = text(slot_names[i]);
    }
    for (unsigned i = 0; i < NAMES; i++) { /* the first is the beginning of the others */
        const int bytes = snprintf(names[i], sizeof names[i], "w%u", i);
        waiters[i] = (struct node_bytes){names[i], i == 0 ? 1 : (size_t)bytes};
    }
    static const char *const same_names[] = {SAME_HASH_NAMES};
    static const char *const same[] = {SAME_HASH_KEYS, SAME_HASH_LINE, SAME_HASH_LINES};
    const struct node_bytes some[] = {slots[0], text("a"), text(""), text("b")};
    for (unsigned i = 0; i < KEYS; i++) keys[i] = i < 4 ? some[i] : text(same[i - 4]);
    waiters[1] = text(same_names[0]);
    waiters[2] = text(same_names[1]);
    memset(long_names, 'n', sizeof long_names);
    return 0;
}

/* ---- the world ---- */

static struct node_queue *queue;
static struct node_table *table; /* NULL: the queue alone */
static struct node_queue_options options;
static int64_t now_us, step_us, offset_us; /* of the wall clock */
static unsigned keys_used, names_used;
static bool wants_fences, crowd;

static void on_notify(void *context, struct node_bytes key, struct node_bytes waiter, size_t rank,
                      bool turn) {
    (void)context;
    fold_bytes(key);
    fold_bytes(waiter);
    fold((int64_t)rank << 1 | turn);
}

/* As the module does. */
static void on_change(void *context, enum node_change change, struct node_bytes key,
                      struct node_bytes token, int64_t expires_ms) {
    char out[NODE_SLOT_KEY_BYTES_MAX];
    struct node_bytes first;
    (void)context;
    fold(change);
    fold_bytes(key);
    fold_bytes(token);
    fold(expires_ms);
    if (change == NODE_CHANGE_SET || change == NODE_CHANGE_EXTENDED) return;
    node_queue_freed(queue, key, now_us);
    if (node_slot_first(key, &first, out)) node_queue_freed(queue, first, now_us);
}

static int64_t now_ms(void) { return now_us / 1000; }

static struct node_bytes draw_key(void) { return keys[draw(keys_used)]; }

/* A name has 1 to 128 bytes. */
static struct node_bytes draw_name(void) {
    static const size_t lengths[] = {0, 127, 128, 129};
    if (!one_in(60)) return waiters[draw(names_used)];
    const unsigned which = (unsigned)draw(2);
    return (struct node_bytes){long_names[which], lengths[draw(4)]};
}

static int64_t draw_waited(void) {
    static const int64_t rare[] = {-1, INT64_C(1) << 52, (INT64_C(1) << 52) + 1, 1000000};
    if (one_in(50)) return rare[draw(4)];
    return one_in(3) ? 0 : (int64_t)draw(one_in(4) ? 200000 : 40) * step_us;
}

static int64_t draw_since(int64_t waited_us) {
    const int64_t counted_us = now_us - waited_us;
    switch (draw(8)) {
    case 0: return counted_us - NODE_SINCE_SLACK_US + (int64_t)draw(3) - 1;
    case 1: return counted_us + (int64_t)draw(3) - 1;
    case 2: return counted_us - (int64_t)draw(NODE_SINCE_SLACK_US);
    case 3: return now_us - (int64_t)draw(60) * step_us;
    default: return NODE_SINCE_UNKNOWN;
    }
}

static struct node_waiter draw_waiter(void) {
    static const int64_t rare[] = {0, -1, INT64_C(1) << 52, (INT64_C(1) << 52) + 1, 1};
    struct node_waiter waiter = {.name = draw_name()};
    waiter.waited_us = draw_waited();
    waiter.since_us = draw_since(waiter.waited_us);
    waiter.remember_us = one_in(50) ? rare[draw(5)] : 1 + (int64_t)draw(80) * step_us;
    if (crowd) waiter.remember_us += 10000 * step_us;
    waiter.reads = one_in(3);
    return waiter;
}

/* ---- the queue ---- */

static void fold_since(void) {
    const int64_t said_us = (int64_t)draw(100000);
    offset_us += one_in(2) ? ((int64_t)draw(5) - 2) * 500 + (int64_t)draw(3) - 1 : 0;
    fold(node_queue_since(queue, said_us, now_us + offset_us, now_us));
}

static void call_queue(void) {
    const struct node_waiter waiter = draw_waiter();
    const struct node_bytes key = draw_key();
    int64_t left_us = -7;
    const uint64_t what = crowd && !one_in(6) ? 0 : draw(30);
    if (what < 13)
        fold(node_queue_enter(queue, key, &waiter, now_us));
    else if (what < 16)
        fold((int64_t)node_queue_leave(queue, key, waiter.name, one_in(4), now_us));
    else if (what < 19)
        node_queue_freed(queue, key, now_us);
    else if (what < 22)
        fold(node_queue_admits(queue, key, &waiter, now_us, &left_us));
    else if (what < 23)
        fold(node_queue_is_first(queue, key, &waiter, now_us));
    else if (what < 24)
        node_queue_shared(queue, key, now_us);
    else if (what < 27)
        fold(node_queue_taken(queue, key, one_in(4) ? nobody : waiter.name, now_us));
    else if (what < 28)
        fold((int64_t)node_queue_tick(queue, now_us, draw_count(4)));
    else if (what < 29)
        fold_since();
    else if (one_in(20))
        fold(node_queue_enter(queue, (struct node_bytes){"", (size_t)UINT32_MAX + 1}, &waiter,
                              now_us));
    fold(left_us);
}

/* ---- in turn ---- */

static void fold_turn(const struct node_turn *turn) {
    fold_bytes(turn->key);
    fold(turn->rank);
    fold(turn->left_us);
    fold(turn->reserved << 1 | turn->others);
}

static struct node_bytes draw_token(void) {
    static const char *const some[] = {"x", "y", "z"};
    return text(some[draw(3)]);
}

static int64_t draw_ttl(void) { return 1 + (int64_t)draw(12); }

static uint16_t stripe_of(struct node_bytes key) {
    return rl_fnv1a(RL_FNV_BASIS, key.data, key.bytes) % NODE_STRIPES;
}

static void take(const struct node_waiter *waiter) {
    struct node_bytes named[3];
    uint16_t stripes[1];
    const size_t count = one_in(4) ? 1 + draw_count(3) : 1;
    const struct node_bytes token = draw_token();
    const int64_t ttl_ms = draw_ttl();
    struct node_turn turn = {.key = nobody};
    for (size_t i = 0; i < count; i++) named[i] = draw_key();
    stripes[0] = stripe_of(named[0]);
    struct node_fence_request fences = {1, 1 + (int64_t)draw(30), stripes, 1};
    if (one_in(12)) fences.nonce = 2;
    fold(node_acquire_in_turn(table, queue, named, count, token, ttl_ms,
                              wants_fences && !one_in(4) ? &fences : NULL, waiter, now_us, &turn));
    fold_turn(&turn);
}

static struct node_share draw_share(void) {
    static const char *const readers[] = {"a", "b", "c", "x"};
    struct node_share share = {.key = draw_key()};
    share.reader = text(readers[draw(4)]);
    share.ttl_ms = draw_ttl();
    return share;
}

static void take_slot(const struct node_waiter *waiter, bool waits) {
    static const char *const tokens[] = {
        "0000000000000000000000000000000000000001/3", "0000000000000000000000000000000000000002/3",
        "0000000000000000000000000000000000000003/3", "0000000000000000000000000000000000000004/3",
        "0000000000000000000000000000000000000005/2"};
    static const uint8_t orders[][COUNT_OF_SLOTS] = {{1, 2, 3}, {2, 3, 1}, {3, 1, 2}};
    struct node_slot_request request = {.names = slots, .count = COUNT_OF_SLOTS};
    const unsigned token = (unsigned)draw(one_in(9) ? 5 : 4);
    struct node_turn turn = {.key = nobody};
    int64_t rank = -7;
    request.order = orders[draw(3)];
    request.order_count = 1 + (unsigned)draw(COUNT_OF_SLOTS);
    request.token = text(tokens[token]);
    request.ttl_ms = draw_ttl();
    if (one_in(6)) request.barred = draw(8);
    if (token == 4) request.count = request.order_count = 2, request.order = orders[0];
    if (waits) {
        fold(node_await_slot(table, queue, &request, waiter, now_us, &rank));
        fold(rank);
        return;
    }
    const struct node_slot_answer answer =
        node_acquire_slot_in_turn(table, queue, &request, waiter, now_us, &turn);
    fold((int64_t)answer.answer | (int64_t)answer.slot << 8 | (int64_t)answer.other_count << 16);
    fold(answer.remaining_ms);
    fold_turn(&turn);
}

static void release(void) {
    const struct node_bytes key = one_in(3) ? slots[draw(COUNT_OF_SLOTS)] : draw_key();
    const struct node_bytes held = node_get(table, key, now_ms());
    char token[64];
    if (held.bytes == 0 || held.bytes > sizeof token) return;
    memcpy(token, held.data, held.bytes);
    fold(node_release(table, &key, 1, (struct node_bytes){token, held.bytes}, now_ms()));
}

static void call_both(void) {
    struct node_waiter waiter = draw_waiter();
    const struct node_share share = draw_share();
    struct node_turn turn = {.key = nobody};
    int64_t fence = -7;
    if (one_in(5)) waiter.name = nobody;
    const uint64_t what = draw(36);
    if (what < 9)
        take(&waiter);
    else if (what < 13)
        fold(node_share_in_turn(table, queue, &share, &waiter, now_us, &fence, &turn));
    else if (what < 18)
        take_slot(&waiter, false);
    else if (what < 19)
        take_slot(&waiter, true);
    else if (what < 22)
        release();
    else if (what < 24)
        fold(node_share_release(table, &share, now_ms()));
    else if (what < 25)
        fold((int64_t)node_expire_some(table, now_ms(), 1 + draw_count(3)));
    else if (what < 26)
        fold(node_extend(table, &share.key, 1, text("x"), share.ttl_ms, now_ms()));
    else if (what < 29)
        fold(node_share_extend_in_turn(table, queue, &share, now_us));
    else if (what < 31)
        fold((int64_t)node_leave_turn(table, queue, share.key, waiter.name, one_in(4), now_us));
    else if (what < 32 && one_in(4)) /* without an end */
        fold(node_set(table, share.key, draw_token(), 0, now_ms()));
    else
        call_queue();
    fold(fence);
    fold_turn(&turn);
}

/* ---- what there is ---- */

static void fold_counts(void) {
    int64_t age_us;
    fold((int64_t)node_queue_peek(queue, draw_key(), now_us, &age_us));
    fold(age_us);
    fold((int64_t)node_queue_waiters(queue) << 32 | (int64_t)node_queue_reservations(queue));
    fold((int64_t)node_queue_bytes(queue));
    fold(node_queue_next(queue));
    if (table) fold((int64_t)node_count(table));
    fold_memory();
}

static void pass(void) {
    const int64_t next_us = node_queue_next(queue);
    if (one_in(3)) now_us += (int64_t)draw(3 * (uint64_t)step_us);
    if (!crowd && one_in(90)) now_us += 60 * step_us; /* most are forgotten */
    if (one_in(9) && next_us < now_us + 4 * options.reserve_us && next_us > now_us)
        now_us = next_us + (int64_t)draw(3) - 1;
}

static void write_record(void) {
    static int64_t floor[NODE_STRIPES];
    const struct node_field nonce = {text("nonce"), text("0000000000000001")};
    const struct node_record_write write = {
        .nonce = 1, .floor = floor, .fields = &nonce, .fields_count = 1};
    fold(node_record_write(table, &write));
}

static void draw_options(void) {
    options = (struct node_queue_options){.seed = SAME_HASH_SEED, .notify = on_notify};
    if (one_in(3)) options.seed = draw(3);
    options.reserve_us = 1 + (int64_t)draw(20000);
    options.heads = draw_count(4);
    if (one_in(9)) options.notify = NULL;
    /* some pieces, and some waiters */
    const size_t pieces = 2 + draw_count(5), more = 16 * draw_count(400);
    if (one_in(3)) options.bytes_max = pieces * (8192 + 64) + more - draw_count(2);
    if (crowd && one_in(2)) options.bytes_max = 120000 + 8 * draw_count(10000);
}

static void walk(bool both) {
    static const unsigned many[] = {1, 3, 10, SOME, SOME};
    crowd = !both && one_in(16);
    draw_options();
    step_us = one_in(3) ? 1 : 700;
    now_us = (int64_t)draw(3) * 1000000;
    offset_us = 0;
    keys_used = one_in(2) ? 1 : KEYS;
    names_used = crowd ? NAMES : many[draw(5)];
    queue = node_queue_new(&options);
    if (both)
        table = node_table_open(&(struct node_options){.native = true, .on_change = on_change});
    wants_fences = one_in(3);
    if (both && wants_fences) write_record();
    for (int i = 0; i < (crowd ? CROWD_CALLS : CALLS); i++) {
        pass();
        draw_memory(30);
        if (both)
            call_both();
        else
            call_queue();
        memory_left = -1;
        fold_counts();
    }
    node_queue_free(queue);
    node_table_free(table);
    table = NULL;
}

/* No queue without memory. */
static void fold_opening(bool returns) {
    options = (struct node_queue_options){.reserve_us = 1};
    bool opened = false;
    for (long left = 0; !opened; left++) {
        memory_left = left;
        memory_returns = returns;
        queue = node_queue_new(&options);
        opened = queue != NULL;
        fold(opened);
        memory_left = -1;
        node_queue_free(queue);
    }
}

/* ---- the kinds ---- */

enum kind { ALONE, IN_TURN, KINDS };

static const struct kept_number kept[KINDS] = {
    [ALONE] = {"queue", UINT64_C(0x026599fafc673572)},
    [IN_TURN] = {"in turn", UINT64_C(0x3d595029aa5dd0fa)},
};

static uint64_t number_of(unsigned kind) {
    fold_opening(false);
    fold_opening(true);
    for (int i = 0; i < WALKS; i++) walk(kind == IN_TURN);
    return folded;
}

static void test_behaviour(void **state) {
    (void)state;
    assert_kept(kept, KINDS, number_of);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_behaviour)};
    return cmocka_run_group_tests_name("behaviour of a wait queue", tests, name_keys, NULL);
}
