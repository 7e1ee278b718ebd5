/* SPDX-License-Identifier: BSD-2-Clause
 * Requests as native nodes take them, and what their replies mean. */
#include "world.h"

#include <stdio.h>
#include <string.h>

#include "net/codec/command.h"
#include "net/codec/form.h"

#define LIMIT ((size_t)1 << 20)
#define ID "0123456789abcdef0123456789abcdef01234567"
#define FENCE INT64_C(1700000000000000)

static const uint64_t nonces[3] = {0x0123456789abcdef, UINT64_MAX, 0};
static const struct net_bytes keys[2] = {{"k\0\r\n", 4}, {"l", 1}};
static const uint16_t stripes[2] = {4095, 7};

static struct net_request classic(enum net_op op, size_t count) {
    return (struct net_request){
        .op = op, .keys = keys, .keys_count = count, .token = {"t", 1}, .ttl_ms = 30000};
}

static struct net_request guarded(enum net_op op, size_t count) {
    struct net_request request = classic(op, count);
    request.nonces = nonces;
    request.fence = FENCE;
    request.stripes = stripes;
    request.stripes_count = count;
    return request;
}

/* ---- what is sent ---- */

/* `words`, separated by spaces; KEY stands for the first key, '' for an empty word. */
static void expect(const struct net_request *request, unsigned node, const char *words) {
    struct buffer out = {0}, want = {0};
    size_t nonce_at;
    assert_true(command_encode(request, node, COMMAND_NATIVE, &out, LIMIT, &nonce_at));
    for (const char *at = words; *at != '\0'; at += *at == ';') {
        const size_t end = strcspn(at, ";");
        char line[32];
        int count = 1;
        for (size_t i = 0; i < end; i++) count += at[i] == ' ';
        buffer_append(&want, line, (size_t)snprintf(line, sizeof(line), "*%d\r\n", count), LIMIT);
        for (int i = 0; i < count; i++, at += *at == ' ') {
            struct net_bytes word = {at, strcspn(at, " ;")};
            at += word.bytes;
            if (net_is_text(word, "KEY")) word = request->keys[0];
            if (net_is_text(word, "''")) word.bytes = 0;
            buffer_append(&want, line, (size_t)snprintf(line, sizeof(line), "$%zu\r\n", word.bytes),
                          LIMIT);
            buffer_append(&want, word.data, word.bytes, LIMIT);
            buffer_append(&want, "\r\n", 2, LIMIT);
        }
    }
    if (buffer_bytes(&out) != buffer_bytes(&want) ||
        memcmp(buffer_data(&out), buffer_data(&want), buffer_bytes(&out)) != 0)
        fail_msg("sent: %.*s\nnot: %.*s", (int)buffer_bytes(&out), buffer_data(&out),
                 (int)buffer_bytes(&want), buffer_data(&want));
    assert_false(command_needs_script(request, true));
    buffer_free(&out);
    buffer_free(&want);
}

static void expect_classic(enum net_op op, size_t count, const char *words) {
    const struct net_request request = classic(op, count);
    expect(&request, 0, words);
}

static void expect_guarded(enum net_op op, size_t count, unsigned node, const char *words) {
    const struct net_request request = guarded(op, count);
    expect(&request, node, words);
}

static void test_locks(void **state) {
    (void)state;
    expect_classic(NET_ACQUIRE, 1, "REDLOCK.LOCK KEY t 30000");
    expect_classic(NET_ACQUIRE, 2, "REDLOCK.ACQUIRE 2 KEY l t 30000");
    expect_classic(NET_EXTEND, 2, "REDLOCK.EXTEND 2 KEY l t 30000");
    expect_classic(NET_RELEASE, 1, "REDLOCK.UNLOCK KEY t");
    expect_classic(NET_RELEASE, 2, "REDLOCK.RELEASE 2 KEY l t");
    expect_classic(NET_PEEK, 2, "REDLOCK.PTTL KEY;REDLOCK.PTTL l");
    expect_classic(NET_PEEK_VALUE, 1, "REDLOCK.PTTL KEY;REDLOCK.GET KEY 1025");
    expect_classic(NET_WATCH, 1, "CLIENT CACHING YES;REDLOCK.PTTL KEY");
    expect_guarded(NET_ACQUIRE, 1, 0,
                   "REDLOCK.LOCK KEY t 30000:0123456789abcdef:1700000000000000:4095");
    expect_guarded(
        NET_ACQUIRE, 2, 1,
        "REDLOCK.ACQUIRE 2 KEY l t 30000 FENCE=ffffffffffffffff:1700000000000000:4095,7");
    expect_guarded(NET_EXTEND, 1, 2,
                   "REDLOCK.EXTEND 1 KEY t 30000 FENCE=0000000000000000:1700000000000000:4095");
    expect_guarded(NET_ACQUIRE, 1, 1,
                   "REDLOCK.LOCK KEY t 30000:ffffffffffffffff:1700000000000000:4095");
    expect_guarded(NET_RELEASE, 1, 0, "REDLOCK.UNLOCK KEY t");
    expect_guarded(NET_RAISE, 2, 0,
                   "REDLOCK.RAISE 2 KEY l t FENCE=0123456789abcdef:1700000000000000:4095,7");
    expect_guarded(NET_CONFIRM, 1, 0,
                   "REDLOCK.CONFIRM 1 KEY t FENCE=0123456789abcdef:1700000000000000:4095");
    expect_guarded(NET_BREAK, 1, 0,
                   "REDLOCK.BREAK KEY t FENCE=0123456789abcdef:1700000000000000:4095");
}

static void test_readers(void **state) {
    (void)state;
    /* the second key is the name of the list on a stock node */
    expect_classic(NET_SHARE, 2, "REDLOCK.SHARE KEY t 30000");
    expect_classic(NET_SHARE_EXTEND, 2, "REDLOCK.SHAREEXTEND KEY t 30000");
    expect_classic(NET_SHARE_RELEASE, 2, "REDLOCK.UNSHARE KEY t");
    struct net_request request = guarded(NET_SHARE, 2);
    request.stripes_count = 1;
    expect(&request, 0, "REDLOCK.SHARE KEY t 30000:0123456789abcdef:1700000000000000:4095");
    request.waiter = (struct net_bytes){"w", 1};
    request.remember_us = 9;
    expect(&request, 1,
           "REDLOCK.SHARE KEY t 30000:ffffffffffffffff:1700000000000000:4095 WAITER w 0 0 9");
    request.op = NET_SHARE_EXTEND;
    expect(&request, 0, "REDLOCK.SHAREEXTEND KEY t 30000:0123456789abcdef:1700000000000000:4095");
    request = classic(NET_READERS, 2);
    request.effort = 20;
    request.cursor = 1700000000000;
    request.skip = 3;
    expect(&request, 0, "REDLOCK.READERS KEY 20 1700000000000 3");
    request = classic(NET_TURN_WAIT, 1);
    request.waiter = (struct net_bytes){"w", 1};
    request.remember_us = 9;
    request.reads = true;
    expect(&request, 0, "REDLOCK.WAIT KEY w 0 0 9 SHARED");
}

static void test_slots(void **state) {
    static const uint16_t of_each[] = {7, 4095, 7};
    (void)state;
    struct net_request request = classic(NET_ACQUIRE_SLOT, 1);
    request.slots = 3;
    request.slot_order = (struct net_bytes){"02", 2};
    expect(&request, 0, "REDLOCK.SLOT KEY t 3 02 30000");
    request.waiter = (struct net_bytes){"w", 1};
    request.remember_us = 9;
    expect(&request, 0, "REDLOCK.SLOT KEY t 3 02 30000 WAITER w 0 0 9");
    request = guarded(NET_ACQUIRE_SLOT, 1);
    request.slots = 3;
    request.slot_order = (struct net_bytes){"02", 2};
    request.stripes = of_each;
    request.stripes_count = 3;
    expect(&request, 1, "REDLOCK.SLOT KEY t 3 02 30000:ffffffffffffffff:1700000000000000:7,4095,7");
    request = classic(NET_TURN_WAIT, 1);
    request.waiter = (struct net_bytes){"w", 1};
    request.remember_us = 9;
    request.slots = 3;
    expect(&request, 0, "REDLOCK.WAIT KEY w 0 0 9 SLOTS 3");
}

static void test_turns(void **state) {
    (void)state;
    struct net_request request = classic(NET_ACQUIRE, 1);
    request.waiter = (struct net_bytes){"w", 1};
    request.since_us = 1700000000000000;
    request.waited_us = 7;
    request.remember_us = 500000;
    expect(&request, 0, "REDLOCK.ACQUIRE 1 KEY t 30000 WAITER w 1700000000000000 7 500000");
    request.op = NET_TURN_WAIT;
    expect(&request, 0, "REDLOCK.WAIT KEY w 1700000000000000 7 500000");
    request.op = NET_TURN_LEAVE;
    expect(&request, 0, "REDLOCK.UNWAIT KEY w 0");
    request.passes = true;
    expect(&request, 0, "REDLOCK.UNWAIT KEY w 1");
    request = guarded(NET_ACQUIRE, 2);
    request.waiter = (struct net_bytes){"w", 1};
    request.remember_us = 1;
    expect(&request, 1,
           "REDLOCK.ACQUIRE 2 KEY l t 30000 FENCE=ffffffffffffffff:1700000000000000:4095,7 "
           "WAITER w 0 0 1");
    /* One that extends never waits. */
    request.op = NET_EXTEND;
    expect(&request, 1,
           "REDLOCK.EXTEND 2 KEY l t 30000 FENCE=ffffffffffffffff:1700000000000000:4095,7");
}

static void test_the_node_itself(void **state) {
    static const struct net_bytes fields[4] = {
        {"nonce", 5}, {"000000000000000b", 16}, {"epoch", 5}, {"", 0}};
    static int64_t floor[RL_STRIPES];
    struct net_request request = {.op = NET_STATE};
    (void)state;
    expect(&request, 0, "REDLOCK.STATE");
    request.op = NET_RECORD;
    expect(&request, 0, "REDLOCK.RECORD");
    request.op = NET_SERVER_INFO;
    request.question = NET_ASK_QUORUM;
    expect(&request, 0, "REDLOCK.HELLO 1");
    request.question = NET_ASK_INFO_MEMORY;
    expect(&request, 0, "INFO memory");
    request = (struct net_request){.op = NET_FENCES, .nonces = nonces};
    expect(&request, 1, "REDLOCK.FENCES ffffffffffffffff");
    request.was_kept = true;
    expect(&request, 1, "REDLOCK.FENCES kept");
    struct net_request write = {
        .op = NET_RECORD_WRITE, .expected = 10, .nonce = 11, .fields = fields, .fields_count = 4};
    expect(&write, 0,
           "REDLOCK.RECORDWRITE 000000000000000a 000000000000000a 000000000000000b '' 0 nonce "
           "000000000000000b epoch ''");
    write.keep = true;
    write.expected = 0;
    expect(&write, 0, "REDLOCK.RECORDWRITE '' kept kept '' 0 nonce 000000000000000b epoch ''");
    write.keep = false;
    write.was_kept = true;
    write.expected = 12;
    floor[7] = 9;
    write.floor = floor;
    struct buffer out = {0};
    size_t nonce_at;
    assert_true(command_encode(&write, 0, COMMAND_NATIVE, &out, LIMIT, &nonce_at));
    assert_non_null(memmem(buffer_data(&out), buffer_bytes(&out),
                           "$16\r\n000000000000000c\r\n$4\r\nkept\r\n$16\r\n000000000000000b\r\n"
                           "$3\r\n7 9\r\n$1\r\n1\r\n",
                           72));
    buffer_free(&out);
    const struct net_bytes prefix = {"a*", 2};
    struct net_request scan = {.op = NET_SCAN, .keys = &prefix, .keys_count = 1, .cursor = 5};
    expect(&scan, 0, "REDLOCK.SCAN 5 MATCH a\\** COUNT 50");
}

/* What the module does not serve goes to the server around it. */
static void test_as_on_a_stock_node(void **state) {
    const struct net_bytes queue[2] = {{"redlock:waiting:k", 17}, {"redlock:waiters:k", 17}};
    struct net_request request = {.op = NET_WAIT_QUEUE_PEEK, .keys = queue, .keys_count = 2};
    (void)state;
    expect(&request, 0, "REDLOCK.QUEUE k");
    request.op = NET_WAIT_QUEUE_LEAVE;
    assert_null(form_of_native(&request));
    assert_true(command_needs_script(&request, true));
    /* A lock of scheme=setnx is a key that other programs write. */
    for (int op = 0; op <= NET_PEEK_VALUE; op++) {
        struct net_request setnx = classic((enum net_op)op, 1);
        struct buffer stock = {0}, native = {0};
        size_t nonce_at;
        setnx.scheme = REDLOCK_SCHEME_SETNX;
        assert_null(form_of_native(&setnx));
        assert_true(command_encode(&setnx, 0, COMMAND_STOCK, &stock, LIMIT, &nonce_at));
        assert_true(command_encode(&setnx, 0, COMMAND_NATIVE, &native, LIMIT, &nonce_at));
        assert_int_equal(buffer_bytes(&stock), buffer_bytes(&native));
        assert_memory_equal(buffer_data(&stock), buffer_data(&native), buffer_bytes(&stock));
        assert_int_equal(command_replies(&setnx, true), command_replies(&setnx, false));
        buffer_free(&stock);
        buffer_free(&native);
    }
}

/* Bytes written for one node become those for another. */
static void test_nonces(void **state) {
    static const enum net_op ops[] = {NET_ACQUIRE, NET_EXTEND, NET_RAISE, NET_CONFIRM, NET_FENCES};
    (void)state;
    for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++) {
        const struct net_request request = guarded(ops[i], 2);
        struct buffer once = {0};
        size_t nonce_at;
        assert_true(command_encode(&request, 0, COMMAND_NATIVE, &once, LIMIT, &nonce_at));
        assert_true(nonce_at > 0);
        for (unsigned node = 0; node < 3; node++) {
            struct buffer anew = {0};
            size_t ignored;
            command_for_node(&request, node, nonce_at, &once);
            assert_true(command_encode(&request, node, COMMAND_NATIVE, &anew, LIMIT, &ignored));
            assert_int_equal(buffer_bytes(&once), buffer_bytes(&anew));
            assert_memory_equal(buffer_data(&once), buffer_data(&anew), buffer_bytes(&once));
            buffer_free(&anew);
        }
        buffer_free(&once);
    }
}

/* ---- what is answered ---- */

static bool feed(const struct net_request *request, unsigned nth, const char *text, bool resp3,
                 struct net_reply *answer) {
    static struct reader reader;
    static int64_t fences[RL_STRIPES];
    static struct net_state state;
    reader_close(&reader);
    assert_true(reader_open(&reader));
    reader_expect_resp3(&reader, resp3);
    assert_true(reader_feed(&reader, text, strlen(text)));
    assert_int_equal(reader_next(&reader), READER_REPLY);
    bool right =
        command_answer(request, nth, &reader, (struct answer_room){fences, &state, ID}, answer);
    /* The quick way, where it is one, says the same. */
    struct net_reply quick = {.verdict = -1};
    if (command_is_native_write(request) && command_answer_native(&reader, &quick)) {
        assert_true(right);
        assert_int_equal(quick.verdict, answer->verdict);
        assert_int_equal(quick.remaining_ms, answer->remaining_ms);
    }
    return right;
}

#define HELD "*4\r\n:0\r\n:1500\r\n:-1\r\n$3\r\nabc\r\n"
#define WRONG REDLOCK_VERDICT_NONE /* not an answer to it */

static void test_answers(void **state) {
    static const struct {
        enum net_op op;
        bool guarded;
        const char *text;
        int verdict;
    } table[] = {
        {NET_ACQUIRE, false, ":1\r\n", REDLOCK_VERDICT_GRANTED},
        {NET_ACQUIRE, false, HELD, REDLOCK_VERDICT_DENIED},
        {NET_ACQUIRE, false, ":0\r\n", REDLOCK_VERDICT_DENIED},
        {NET_ACQUIRE, false, ":-1\r\n", WRONG},
        {NET_ACQUIRE, false, "+OK\r\n", WRONG},
        {NET_ACQUIRE, false, "$-1\r\n", WRONG},
        {NET_ACQUIRE, false, ":2\r\n", REDLOCK_VERDICT_GRANTED},
        {NET_ACQUIRE, true, ":2\r\n", REDLOCK_VERDICT_GRANTED},
        {NET_ACQUIRE, false, ":3\r\n", WRONG},
        {NET_EXTEND, false, ":2\r\n", WRONG},
        {NET_ACQUIRE, false, "*0\r\n", WRONG},
        {NET_ACQUIRE, false, "*3\r\n:0\r\n:5\r\n:-1\r\n", WRONG},
        {NET_ACQUIRE, false, "*4\r\n:1\r\n:5\r\n:-1\r\n$0\r\n\r\n", WRONG},
        {NET_ACQUIRE, false, "*4\r\n:0\r\n:-2\r\n:-1\r\n$0\r\n\r\n", WRONG},
        {NET_ACQUIRE, false, "*4\r\n:0\r\n:5\r\n:-2\r\n$0\r\n\r\n", WRONG},
        {NET_ACQUIRE, false, "*4\r\n:0\r\n:5\r\n:-1\r\n:5\r\n", WRONG},
        {NET_ACQUIRE, false, "*4\r\n:0\r\n:5\r\n+x\r\n$0\r\n\r\n", WRONG},
        {NET_ACQUIRE, false, "*4\r\n:0\r\n:5\r\n:-1\r\n$-1\r\n", REDLOCK_VERDICT_DENIED},
        {NET_ACQUIRE, false, "*5\r\n:0\r\n:5\r\n:-1\r\n$0\r\n\r\n+later\r\n",
         REDLOCK_VERDICT_DENIED},
        {NET_ACQUIRE, false, "-OOM x\r\n", REDLOCK_VERDICT_OOM},
        {NET_ACQUIRE, false, "-READONLY x\r\n", REDLOCK_VERDICT_READONLY},
        {NET_ACQUIRE, true, ":1\r\n", REDLOCK_VERDICT_GRANTED},
        {NET_ACQUIRE, true, ":-1\r\n", REDLOCK_VERDICT_STALE},
        {NET_ACQUIRE, true, ":-2\r\n", WRONG},
        {NET_ACQUIRE, true, HELD, REDLOCK_VERDICT_DENIED},
        {NET_TURN_WAIT, false, "*2\r\n:0\r\n:-2\r\n", REDLOCK_VERDICT_ABSENT},
        {NET_TURN_WAIT, false, "*2\r\n:3\r\n:15\r\n", REDLOCK_VERDICT_GRANTED},
        {NET_TURN_WAIT, false, "*2\r\n:-1\r\n:-1\r\n", REDLOCK_VERDICT_GRANTED},
        {NET_TURN_WAIT, false, "*2\r\n:-2\r\n:1\r\n", WRONG},
        {NET_TURN_WAIT, false, "*2\r\n:0\r\n:-3\r\n", WRONG},
        {NET_TURN_WAIT, false, "*3\r\n:0\r\n:1\r\n:1\r\n", WRONG},
        {NET_TURN_WAIT, false, "*2\r\n:0\r\n$1\r\n1\r\n", WRONG},
        {NET_TURN_WAIT, false, ":0\r\n", WRONG},
        {NET_TURN_LEAVE, false, ":2\r\n", REDLOCK_VERDICT_GRANTED},
        {NET_TURN_LEAVE, false, ":-1\r\n", WRONG},
        {NET_EXTEND, false, ":1\r\n", REDLOCK_VERDICT_GRANTED},
        {NET_EXTEND, false, ":0\r\n", REDLOCK_VERDICT_ABSENT},
        {NET_EXTEND, false, ":-1\r\n", REDLOCK_VERDICT_DENIED},
        {NET_EXTEND, false, ":-2\r\n", WRONG},
        {NET_EXTEND, true, ":-2\r\n", REDLOCK_VERDICT_RECOVERING},
        {NET_EXTEND, true, HELD, WRONG},
        {NET_RELEASE, true, ":1\r\n", REDLOCK_VERDICT_GRANTED},
        {NET_RELEASE, true, ":0\r\n", REDLOCK_VERDICT_ABSENT},
        {NET_RELEASE, true, ":-1\r\n", REDLOCK_VERDICT_DENIED},
        {NET_RAISE, true, ":0\r\n", REDLOCK_VERDICT_GRANTED},
        {NET_RAISE, true, ":-1\r\n", REDLOCK_VERDICT_DENIED},
        {NET_RAISE, true, ":-2\r\n", REDLOCK_VERDICT_RECOVERING},
        {NET_RAISE, true, ":1700000000000001\r\n", REDLOCK_VERDICT_STALE},
        {NET_RAISE, true, ":1\r\n", WRONG},
        {NET_BREAK, true, ":-3\r\n", REDLOCK_VERDICT_GRANTED},
        {NET_BREAK, true, ":0\r\n", REDLOCK_VERDICT_ABSENT},
        {NET_BREAK, true, ":-1\r\n", REDLOCK_VERDICT_DENIED},
        {NET_BREAK, true, ":-2\r\n", REDLOCK_VERDICT_RECOVERING},
        {NET_BREAK, true, ":1700000000000001\r\n", REDLOCK_VERDICT_STALE},
        {NET_BREAK, true, ":1\r\n", WRONG},
        {NET_BREAK, true, ":-4\r\n", WRONG},
        {NET_BREAK, true, "$1\r\n0\r\n", WRONG},
        {NET_CONFIRM, true, ":1\r\n", REDLOCK_VERDICT_GRANTED},
        {NET_CONFIRM, true, ":0\r\n", REDLOCK_VERDICT_STALE},
        {NET_CONFIRM, true, ":-1\r\n", WRONG},
        {NET_SHARE, false, ":0\r\n", REDLOCK_VERDICT_GRANTED},
        {NET_SHARE, false, ":1\r\n", WRONG},
        {NET_SHARE, false, HELD, REDLOCK_VERDICT_DENIED},
        {NET_SHARE, true, ":1700000000000001\r\n", REDLOCK_VERDICT_GRANTED},
        {NET_SHARE, true, ":1\r\n", WRONG}, /* a fence below the one that was asked for */
        {NET_SHARE, true, ":-2\r\n", REDLOCK_VERDICT_RECOVERING},
        {NET_SHARE, true, HELD, REDLOCK_VERDICT_DENIED},
        {NET_SHARE, true, "*1\r\n:0\r\n", WRONG},
        {NET_SHARE_EXTEND, true, ":-2\r\n", REDLOCK_VERDICT_RECOVERING},
        {NET_SHARE_EXTEND, false, ":-2\r\n", WRONG},
        {NET_SHARE_RELEASE, true, ":1\r\n", REDLOCK_VERDICT_GRANTED},
        {NET_READERS, false, ":-1\r\n", REDLOCK_VERDICT_DENIED},
        {NET_READERS, false, "*4\r\n:9\r\n:17\r\n:1\r\n$3\r\n5 t\r\n", REDLOCK_VERDICT_GRANTED},
        {NET_PEEK, false, ":-1\r\n", REDLOCK_VERDICT_GRANTED},
        {NET_PEEK, false, ":-2\r\n", REDLOCK_VERDICT_ABSENT},
        {NET_RECORD, false, "*0\r\n", REDLOCK_VERDICT_ABSENT},
        {NET_RECORD, false, "*2\r\n$5\r\nnonce\r\n$1\r\nx\r\n", REDLOCK_VERDICT_GRANTED},
        {NET_RECORD, false, "*1\r\n$5\r\nnonce\r\n", WRONG},
        {NET_RECORD_WRITE, true, ":1\r\n", REDLOCK_VERDICT_GRANTED},
        {NET_RECORD_WRITE, true, ":0\r\n", REDLOCK_VERDICT_DENIED},
        {NET_FENCES, true, "*0\r\n", REDLOCK_VERDICT_RECOVERING},
        {NET_FENCES, true, "*2\r\n$1\r\n7\r\n$2\r\n12\r\n", REDLOCK_VERDICT_GRANTED},
        {NET_FENCES, true, "*2\r\n:7\r\n:12\r\n", REDLOCK_VERDICT_GRANTED},
        {NET_FENCES, true, "*2\r\n:4096\r\n:12\r\n", REDLOCK_VERDICT_PROTOCOL},
        {NET_FENCES, true, "*2\r\n:7\r\n:-1\r\n", REDLOCK_VERDICT_PROTOCOL},
        {NET_FENCES, true, "*2\r\n:7\r\n:9007199254740993\r\n", REDLOCK_VERDICT_PROTOCOL},
        {NET_FENCES, true, "*1\r\n:7\r\n", WRONG},
        {NET_FENCES, true, "*2\r\n:7\r\n$2\r\n12\r\n", WRONG},
        {NET_SCAN, false, "*2\r\n$1\r\n0\r\n*1\r\n$1\r\na\r\n", REDLOCK_VERDICT_GRANTED},
        {NET_STATE, false, "*3\r\n:5\r\n$6\r\nmaster\r\n:0\r\n", REDLOCK_VERDICT_GRANTED},
        {NET_STATE, false, "*3\r\n$1\r\n5\r\n+master\r\n$1\r\n0\r\n", REDLOCK_VERDICT_GRANTED},
        {NET_STATE, false, "*3\r\n:5\r\n$5\r\nother\r\n:0\r\n", REDLOCK_VERDICT_PROTOCOL},
        {NET_STATE, false, "*3\r\n:-5\r\n$6\r\nmaster\r\n:0\r\n", REDLOCK_VERDICT_PROTOCOL},
        {NET_STATE, false, "*2\r\n:5\r\n$6\r\nmaster\r\n", WRONG},
        {NET_STATE, false, ":5\r\n", WRONG},
        {NET_STATE, false, "*3\r\n:5\r\n:6\r\n:0\r\n", WRONG},
        {NET_STATE, false, "*4\r\n:5\r\n$6\r\nmaster\r\n:0\r\n$40\r\n" ID "\r\n",
         REDLOCK_VERDICT_GRANTED},
        /* Another incarnation: the module was loaded again under the connection. */
        {NET_STATE, false,
         "*4\r\n:5\r\n$6\r\nmaster\r\n:0\r\n$40\r\nffff456789abcdef0123456789abcdef01234567\r\n",
         WRONG},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        const struct net_request request =
            table[i].guarded ? guarded(table[i].op, 1) : classic(table[i].op, 1);
        struct net_reply answer;
        bool right = feed(&request, 0, table[i].text, false, &answer);
        if (right != (table[i].verdict != WRONG) || (right && answer.verdict != table[i].verdict))
            fail_msg("row %zu, %s: %d, verdict %d", i, table[i].text, right, answer.verdict);
    }
}

static void test_parts_of_answers(void **state) {
    struct net_request request = classic(NET_ACQUIRE, 1);
    struct net_reply answer;
    (void)state;
    assert_true(feed(&request, 0, HELD, false, &answer));
    assert_int_equal(answer.remaining_ms, 1500);
    assert_int_equal(answer.value.bytes, 3);
    assert_memory_equal(answer.value.data, "abc", 3);
    assert_true(feed(&request, 0, "*4\r\n:0\r\n:-1\r\n:4\r\n$0\r\n\r\n", true, &answer));
    assert_int_equal(answer.remaining_ms, -1);
    assert_true(feed(&request, 0, ":0\r\n", false, &answer));
    assert_int_equal(answer.remaining_ms, -2);
    assert_true(feed(&request, 0, ":1\r\n", false, &answer));
    assert_int_equal(answer.count, 0);
    assert_true(feed(&request, 0, ":2\r\n", false, &answer)); /* others wait */
    assert_int_equal(answer.count, 1);

    request.op = NET_PEEK_VALUE; /* absent */
    assert_true(feed(&request, 0, ":-2\r\n", false, &answer));
    assert_true(feed(&request, 1, "$-1\r\n", false, &answer));
    assert_int_equal(answer.verdict, REDLOCK_VERDICT_ABSENT);
    assert_int_equal(answer.value.bytes, 0);

    request.op = NET_STATE;
    assert_true(feed(&request, 0, "*3\r\n:123456\r\n$7\r\nreplica\r\n:2\r\n", false, &answer));
    assert_int_equal(answer.state->wall_us, 123456);
    assert_true(answer.state->replica);
    assert_int_equal(answer.state->replicas, 2);
    assert_string_equal(answer.state->replid, ID);
    assert_false(answer.state->may_evict);
    assert_int_equal(answer.state->evicted, 0);

    request = guarded(NET_FENCES, 0);
    assert_true(feed(&request, 0, "%2\r\n:7\r\n:12\r\n:4095\r\n:13\r\n", true, &answer));
    assert_int_equal(answer.fences[7], 12);
    assert_int_equal(answer.fences[4095], 13);
    assert_int_equal(answer.fences[0], 0);
}

/* ---- REDLOCK.HELLO ---- */

#define PAIR(name, value) "$" name "\r\n" value "\r\n"
#define PROTOCOL PAIR("8\r\nprotocol", ":1")
#define VERSION PAIR("7\r\nversion", "$5\r\n1.2.3")
#define INCARNATION PAIR("11\r\nincarnation", "$40\r\n" ID)
#define MIRROR PAIR("6\r\nmirror", ":1")
#define QUORUM PAIR("6\r\nquorum", "$16\r\n00000000deadbeef")

static bool hello(const char *text, bool resp3, struct native_hello *hello) {
    struct reader reader;
    assert_true(reader_open(&reader));
    reader_expect_resp3(&reader, resp3);
    assert_true(reader_feed(&reader, text, strlen(text)));
    assert_int_equal(reader_next(&reader), READER_REPLY);
    bool right = native_hello_answer(&reader, hello);
    reader_close(&reader);
    return right;
}

static void test_hello(void **state) {
    struct native_hello said;
    (void)state;
    assert_true(hello("*10\r\n" PROTOCOL VERSION INCARNATION MIRROR QUORUM, false, &said));
    assert_string_equal(said.version, "1.2.3");
    assert_string_equal(said.incarnation, ID);
    assert_string_equal(said.quorum, "00000000deadbeef");
    assert_true(said.mirror);
    assert_true(hello("%3\r\n" INCARNATION PAIR("6\r\nquorum", "$0\r\n") PROTOCOL, true, &said));
    assert_string_equal(said.quorum, "");
    assert_false(said.mirror);
    assert_false(said.shared); /* a module from before shared locks */
    assert_true(hello("*6\r\n" PROTOCOL PAIR("6\r\nshared", ":1") INCARNATION, false, &said));
    assert_true(said.shared);
    /* What a later module adds, of whatever kind, except for what would hide the pairs. */
    assert_true(hello("*6\r\n" PROTOCOL PAIR("5\r\nlater", "$-1") INCARNATION, false, &said));
    /* What is too long is cut; what is not printable is not printed. */
    assert_true(hello("*6\r\n" PROTOCOL INCARNATION PAIR("7\r\nversion", "$20\r\n1.2\n567890123456"
                                                                         "7890"),
                      false, &said));
    assert_string_equal(said.version, "1.2?56789012345");
    static const char *const wrong[] = {
        "+OK\r\n",
        ":1\r\n",
        "$-1\r\n",
        "*0\r\n",
        "*2\r\n" PROTOCOL,
        "*2\r\n" INCARNATION,
        "*3\r\n" PROTOCOL ":1\r\n",
        "*4\r\n" PAIR("8\r\nprotocol", ":2") INCARNATION,
        "*4\r\n" PAIR("8\r\nprotocol", ":-1") INCARNATION,
        "*4\r\n" PAIR("8\r\nprotocol", "$1\r\nx") INCARNATION,
        "*4\r\n" PROTOCOL PAIR("11\r\nincarnation", "$3\r\nabc"),
        "*4\r\n" PROTOCOL PAIR("11\r\nincarnation",
                               "$40\r\nX123456789abcdef0123456789abcdef01234567"),
        "*4\r\n" PROTOCOL PAIR("11\r\nincarnation", ":5"),
        "*6\r\n" PROTOCOL INCARNATION PAIR("6\r\nmirror", ":2"),
        "*4\r\n" PROTOCOL ":5\r\n:6\r\n",
        "*4\r\n" PROTOCOL PAIR("11\r\nincarnation", "*1\r\n$40\r\n" ID),
    };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        if (hello(wrong[i], false, &said)) fail_msg("taken for a native node: %s", wrong[i]);

    struct net_request request = {.op = NET_SERVER_INFO, .question = NET_ASK_QUORUM};
    struct net_reply answer;
    assert_true(feed(&request, 0, "*6\r\n" PROTOCOL INCARNATION QUORUM, false, &answer));
    assert_int_equal(answer.items_count, 1);
    assert_true(net_is_text(answer.items[0], "00000000deadbeef"));
    assert_true(feed(&request, 0, "*4\r\n" PROTOCOL INCARNATION, false, &answer));
    assert_int_equal(answer.items_count, 0);
    assert_false(feed(&request, 0, "$-1\r\n", false, &answer));
}

/* ---- the table ---- */

static void test_table(void **state) {
    (void)state;
    for (int i = 0; i < NET_OPS_COUNT; i++) {
        const struct form *native = &forms[i][FORM_NATIVE];
        const enum net_subject subject = net_op_subject((enum net_op)i);
        for (int mode = 0; mode < FORM_DELEX - FORM_NATIVE; mode++) {
            if (native[mode].replies > 0) assert_int_equal(native[mode].script, NODE_SCRIPTS_ALL);
            /* they are in the module, and nowhere else */
            if (subject == NET_OF_LOCKS || subject == NET_OF_RECORD)
                assert_true(native[mode].replies > 0);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_locks),
        cmocka_unit_test(test_readers),
        cmocka_unit_test(test_slots),
        cmocka_unit_test(test_turns),
        cmocka_unit_test(test_the_node_itself),
        cmocka_unit_test(test_as_on_a_stock_node),
        cmocka_unit_test(test_nonces),
        cmocka_unit_test(test_answers),
        cmocka_unit_test(test_parts_of_answers),
        cmocka_unit_test(test_hello),
        cmocka_unit_test(test_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
