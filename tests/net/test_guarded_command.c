/* SPDX-License-Identifier: BSD-2-Clause
 * Guarded requests as bytes on the wire, and what each reply to them means. */
#include "world.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "net/codec/command.h"
#include "node/scripts.h"

#define LIMIT ((size_t)1 << 20)
#define FENCE INT64_C(1700000000000000)

static const uint64_t nonces[5] = {0x0123456789abcdef, UINT64_MAX, 1, 0, 0xfedcba9876543210};
static const char *const names[5] = {
    "redlock:fences:0123456789abcdef", "redlock:fences:ffffffffffffffff",
    "redlock:fences:0000000000000001", "redlock:fences:0000000000000000",
    "redlock:fences:fedcba9876543210"};

static struct net_bytes keys[REDLOCK_RESOURCES_MAX];
static uint16_t stripes[REDLOCK_RESOURCES_MAX];
static char key_texts[REDLOCK_RESOURCES_MAX][40];

static struct net_request guarded(enum net_op op, size_t count) {
    for (size_t i = 0; i < count; i++) {
        /* Of growing length, so that lengths of one and of two digits are met. */
        int n = snprintf(key_texts[i], sizeof(key_texts[i]), "k%0*zu", (int)(i % 30) + 1, i);
        keys[i] = (struct net_bytes){key_texts[i], (size_t)n};
        stripes[i] = (uint16_t)(RL_STRIPES - 1 - i);
    }
    return (struct net_request){.op = op,
                                .keys = keys,
                                .keys_count = count,
                                .token = {"t\0\r\n", 4},
                                .ttl_ms = 30000,
                                .nonces = nonces,
                                .fence = FENCE,
                                .stripes = stripes,
                                .stripes_count = count};
}

/* ---- what is sent ---- */

/* The encoded commands must be these words; NULL ends a command, two NULLs all. Only the token
 * holds a NUL, here written as "TOKEN". */
static void expect_words(const struct net_request *request, unsigned node, bool whole,
                         const char *const *words) {
    struct buffer out = {0}, want = {0};
    size_t nonce_at;
    assert_true(command_encode(request, node, whole ? COMMAND_WHOLE : COMMAND_STOCK, &out, LIMIT,
                               &nonce_at));
    for (; *words; words++) {
        char line[32];
        int count = 0;
        while (words[count]) count++;
        buffer_append(&want, line, (size_t)snprintf(line, sizeof(line), "*%d\r\n", count), LIMIT);
        for (; *words; words++) {
            struct net_bytes word = {*words, strlen(*words)};
            if (strcmp(*words, "TOKEN") == 0) word = request->token;
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
    buffer_free(&out);
    buffer_free(&want);
}

#define EXPECT_WORDS(request, node, whole, ...)                                                    \
    expect_words(request, node, whole, (const char *const[]){__VA_ARGS__, NULL, NULL})

static void test_locks(void **state) {
    struct net_request request = guarded(NET_ACQUIRE, 1);
    (void)state;
    EXPECT_WORDS(&request, 4, false, "SET", "k0", "TOKEN", "NX", "PX", "30000", NULL, "ZADD",
                 names[4], "XX", "GT", "CH", "1700000000000000", "4095");
    assert_int_equal(command_replies(&request, false), 2);
    assert_false(command_needs_script(&request, false));
    request = guarded(NET_ACQUIRE, 2);
    EXPECT_WORDS(&request, 1, false, "EVALSHA", node_scripts[NODE_ACQUIRE_GUARDED].sha1, "3", "k0",
                 "k01", names[1], "TOKEN", "30000", "1700000000000000", "4095", "4094");
    assert_int_equal(command_replies(&request, false), 1);
    request.stripes_count = 1; /* two keys may share a stripe */
    EXPECT_WORDS(&request, 0, true, "EVAL", node_scripts[NODE_ACQUIRE_GUARDED].text, "3", "k0",
                 "k01", names[0], "TOKEN", "30000", "1700000000000000", "4095");
    request = guarded(NET_EXTEND, 1);
    EXPECT_WORDS(&request, 2, false, "EVALSHA", node_scripts[NODE_EXTEND_GUARDED].sha1, "2", "k0",
                 names[2], "TOKEN", "30000", "1700000000000000", "4095");
    request = guarded(NET_RAISE, 2);
    EXPECT_WORDS(&request, 3, false, "EVALSHA", node_scripts[NODE_RAISE].sha1, "3", "k0", "k01",
                 names[3], "TOKEN", "1700000000000000", "4095", "4094");
    request = guarded(NET_BREAK, 1);
    request.nonce = UINT64_C(0x123456789abcdef);
    EXPECT_WORDS(&request, 1, false, "EVALSHA", node_scripts[NODE_BREAK].sha1, "3", "k0",
                 "redlock:node", names[1], "TOKEN", "1700000000000000", "0123456789abcdef", "4095");
    request = guarded(NET_CONFIRM, 2);
    EXPECT_WORDS(&request, 0, false, "EVALSHA", node_scripts[NODE_CONFIRM].sha1, "3", "k0", "k01",
                 names[0], "TOKEN", "1700000000000000", "4095", "4094");
}

static void test_record_and_fences(void **state) {
    static const struct net_bytes fields[4] = {
        {"nonce", 5}, {"000000000000000b", 16}, {"epoch", 5}, {"", 0}};
    static int64_t floor[RL_STRIPES];
    const char *sha1 = node_scripts[NODE_RECORD_WRITE].sha1;
    struct net_request read = {.op = NET_RECORD};
    struct net_request fences = {.op = NET_FENCES, .nonces = nonces};
    struct net_request write = {
        .op = NET_RECORD_WRITE, .expected = 10, .nonce = 11, .fields = fields, .fields_count = 4};
    (void)state;
    EXPECT_WORDS(&read, 3, false, "HGETALL", "redlock:node");
    EXPECT_WORDS(&fences, 4, false, "ZRANGE", names[4], "0", "-1", "WITHSCORES");
    fences.was_kept = true;
    fences.nonces = NULL;
    EXPECT_WORDS(&fences, 4, false, "ZRANGE", "redlock:fences:kept", "0", "-1", "WITHSCORES");

    EXPECT_WORDS(&write, 0, false, "EVALSHA", sha1, "3", "redlock:node",
                 "redlock:fences:000000000000000a", "redlock:fences:000000000000000b",
                 "000000000000000a", "", "0", "nonce", "000000000000000b", "epoch", "");
    write.keep = true;
    EXPECT_WORDS(&write, 0, false, "EVALSHA", sha1, "3", "redlock:node",
                 "redlock:fences:000000000000000a", "redlock:fences:kept", "000000000000000a", "",
                 "0", "nonce", "000000000000000b", "epoch", "");
    write.keep = false;
    write.was_kept = true;
    write.floor = floor;
    EXPECT_WORDS(&write, 0, false, "EVALSHA", sha1, "3", "redlock:node", "redlock:fences:kept",
                 "redlock:fences:000000000000000b", "000000000000000a", "", "1", "nonce",
                 "000000000000000b", "epoch", "");
    /* No record is expected: whatever fences there are, they are the kept ones. */
    floor[0] = 1;
    floor[9] = FENCE;
    floor[RL_STRIPES - 1] = REDLOCK_FENCE_MAX;
    write.expected = 0;
    write.was_kept = false;
    EXPECT_WORDS(&write, 0, true, "EVAL", node_scripts[NODE_RECORD_WRITE].text, "3", "redlock:node",
                 "redlock:fences:kept", "redlock:fences:000000000000000b", "",
                 "0 1 9 1700000000000000 4095 9007199254740991", "1", "nonce", "000000000000000b",
                 "epoch", "");
}

/* The largest of each: all keys and stripes, all fields, all floors. */
static void test_largest(void **state) {
    struct net_request request = guarded(NET_ACQUIRE, REDLOCK_RESOURCES_MAX);
    struct net_bytes fields[NET_FIELDS_MAX];
    static int64_t floor[RL_STRIPES];
    struct buffer out = {0};
    size_t nonce_at;
    (void)state;
    assert_true(command_encode(&request, 0, COMMAND_WHOLE, &out, LIMIT, &nonce_at));
    assert_memory_equal(buffer_data(&out), "*135\r\n", 6);
    buffer_clear(&out);
    request.op = NET_EXTEND;
    assert_true(command_encode(&request, 0, COMMAND_WHOLE, &out, LIMIT, &nonce_at));
    assert_memory_equal(buffer_data(&out), "*135\r\n", 6);
    buffer_clear(&out);
    for (size_t i = 0; i < NET_FIELDS_MAX; i++) fields[i] = (struct net_bytes){"f", 1};
    for (size_t i = 0; i < RL_STRIPES; i++) floor[i] = REDLOCK_FENCE_MAX;
    struct net_request write = {.op = NET_RECORD_WRITE,
                                .expected = 1,
                                .nonce = 2,
                                .fields = fields,
                                .fields_count = NET_FIELDS_MAX,
                                .floor = floor};
    assert_true(command_encode(&write, 0, COMMAND_STOCK, &out, LIMIT, &nonce_at));
    assert_memory_equal(buffer_data(&out), "*73\r\n", 5);
    assert_in_range(buffer_bytes(&out), 80000, 100000);
    assert_int_equal(nonce_at, 0);
    buffer_clear(&out);
    assert_false(command_encode(&write, 0, COMMAND_STOCK, &out, 80000, &nonce_at));
    assert_int_equal(buffer_bytes(&out), 0);
    buffer_free(&out);
}

/* What was encoded for one node and given another's nonce is what would have been encoded for the
 * other. */
static void test_nonce_of_each_node(void **state) {
    static const enum net_op ops[] = {NET_ACQUIRE, NET_EXTEND, NET_RAISE, NET_CONFIRM, NET_FENCES};
    (void)state;
    for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]) * REDLOCK_RESOURCES_MAX * 2; i++) {
        enum net_op op = ops[i % 5];
        bool whole = i / 5 % 2;
        struct net_request request = guarded(op, i / 10 + 1);
        struct buffer once = {0};
        size_t nonce_at, ignored;
        assert_true(command_encode(&request, 0, whole ? COMMAND_WHOLE : COMMAND_STOCK, &once, LIMIT,
                                   &nonce_at));
        assert_true(nonce_at > NET_NONCE_BYTES);
        for (unsigned node = 5; node-- > 0;) {
            struct buffer anew = {0};
            command_for_node(&request, node, nonce_at, &once);
            assert_true(command_encode(&request, node, whole ? COMMAND_WHOLE : COMMAND_STOCK, &anew,
                                       LIMIT, &ignored));
            assert_int_equal(buffer_bytes(&once), buffer_bytes(&anew));
            assert_memory_equal(buffer_data(&once), buffer_data(&anew), buffer_bytes(&anew));
            assert_non_null(
                memmem(buffer_data(&once), buffer_bytes(&once), names[node], strlen(names[node])));
            buffer_free(&anew);
        }
        buffer_free(&once);
    }
}

/* ---- what is answered ---- */

static int64_t fences[RL_STRIPES];

static bool feed(struct reader *reader, const struct net_request *request, unsigned nth,
                 const char *text, struct net_reply *answer) {
    assert_true(reader_feed(reader, text, strlen(text)));
    assert_int_equal(reader_next(reader), READER_REPLY);
    return command_answer(request, nth, reader, (struct answer_room){.fences = fences}, answer);
}

enum { WRONG = -1 }; /* not an answer to it */

static void test_one_reply(void **state) {
    static const struct {
        enum net_op op;
        size_t keys;
        const char *text;
        int verdict;
    } table[] = {
        {NET_ACQUIRE, 2, ":1\r\n", REDLOCK_VERDICT_GRANTED},
        {NET_ACQUIRE, 2, ":0\r\n", REDLOCK_VERDICT_DENIED},
        {NET_ACQUIRE, 2, ":-1\r\n", REDLOCK_VERDICT_STALE},
        {NET_ACQUIRE, 2, ":-2\r\n", WRONG},
        {NET_ACQUIRE, 2, ":2\r\n", WRONG},
        {NET_ACQUIRE, 2, "+OK\r\n", WRONG},
        {NET_ACQUIRE, 2, "$-1\r\n", WRONG},
        {NET_ACQUIRE, 2, "-NOPERM x\r\n", REDLOCK_VERDICT_NOPERM},
        {NET_EXTEND, 1, ":1\r\n", REDLOCK_VERDICT_GRANTED},
        {NET_EXTEND, 1, ":0\r\n", REDLOCK_VERDICT_ABSENT},
        {NET_EXTEND, 1, ":-1\r\n", REDLOCK_VERDICT_DENIED},
        {NET_EXTEND, 1, ":-2\r\n", REDLOCK_VERDICT_RECOVERING},
        {NET_EXTEND, 1, ":-3\r\n", WRONG},
        {NET_EXTEND, 1, ":1700000000000000\r\n", WRONG},
        {NET_RELEASE, 1, ":-2\r\n", WRONG},
        {NET_RAISE, 1, ":0\r\n", REDLOCK_VERDICT_GRANTED},
        {NET_RAISE, 1, ":-2\r\n", REDLOCK_VERDICT_RECOVERING},
        {NET_RAISE, 1, ":1700000000000000\r\n", REDLOCK_VERDICT_STALE},
        {NET_RAISE, 1, ":9007199254740991\r\n", REDLOCK_VERDICT_STALE},
        {NET_RAISE, 1, ":9007199254740992\r\n", REDLOCK_VERDICT_PROTOCOL},
        {NET_RAISE, 1, ":1\r\n", WRONG}, /* lower than what it was raised to */
        {NET_RAISE, 1, ":1699999999999999\r\n", WRONG},
        {NET_RAISE, 1, ":-1\r\n", REDLOCK_VERDICT_DENIED},
        {NET_RAISE, 1, ":-3\r\n", WRONG},
        {NET_RAISE, 1, "$1\r\n0\r\n", WRONG},
        {NET_RAISE, 1, "-OOM x\r\n", REDLOCK_VERDICT_OOM},
        {NET_BREAK, 1, ":-3\r\n", REDLOCK_VERDICT_GRANTED},
        {NET_BREAK, 1, ":0\r\n", REDLOCK_VERDICT_ABSENT},
        {NET_BREAK, 1, ":-1\r\n", REDLOCK_VERDICT_DENIED},
        {NET_BREAK, 1, ":-2\r\n", REDLOCK_VERDICT_RECOVERING},
        {NET_BREAK, 1, ":1700000000000001\r\n", REDLOCK_VERDICT_STALE},
        {NET_BREAK, 1, ":1\r\n", WRONG},
        {NET_BREAK, 1, ":-4\r\n", WRONG},
        {NET_BREAK, 1, "$1\r\n0\r\n", WRONG},
        {NET_BREAK, 1, ":9007199254740992\r\n", REDLOCK_VERDICT_PROTOCOL},
        {NET_CONFIRM, 1, ":1\r\n", REDLOCK_VERDICT_GRANTED},
        {NET_CONFIRM, 1, ":0\r\n", REDLOCK_VERDICT_STALE},
        {NET_CONFIRM, 1, ":-2\r\n", REDLOCK_VERDICT_RECOVERING},
        {NET_CONFIRM, 1, ":-1\r\n", WRONG},
        {NET_CONFIRM, 1, "*0\r\n", WRONG},
        {NET_RECORD_WRITE, 0, ":1\r\n", REDLOCK_VERDICT_GRANTED},
        {NET_RECORD_WRITE, 0, ":0\r\n", REDLOCK_VERDICT_DENIED},
        {NET_RECORD_WRITE, 0, ":-1\r\n", WRONG},
        {NET_RECORD_WRITE, 0, "-MISCONF x\r\n", REDLOCK_VERDICT_MISCONF},
        {NET_RECORD, 0, "*0\r\n", REDLOCK_VERDICT_ABSENT},
        {NET_RECORD, 0, "*2\r\n$1\r\na\r\n$0\r\n\r\n", REDLOCK_VERDICT_GRANTED},
        {NET_RECORD, 0, "*1\r\n$1\r\na\r\n", WRONG},
        {NET_RECORD, 0, "*2\r\n$1\r\na\r\n:1\r\n", WRONG},
        {NET_RECORD, 0, "*2\r\n*1\r\n$1\r\na\r\n$1\r\na\r\n", WRONG},
        {NET_RECORD, 0, "*-1\r\n", WRONG},
        {NET_RECORD, 0, "$1\r\na\r\n", WRONG},
        {NET_RECORD, 0, "-WRONGTYPE x\r\n", REDLOCK_VERDICT_WRONGTYPE},
        {NET_FENCES, 0, "*0\r\n", REDLOCK_VERDICT_RECOVERING},
        {NET_FENCES, 0, "-WRONGTYPE x\r\n", REDLOCK_VERDICT_RECOVERING},
        {NET_FENCES, 0, "*-1\r\n", WRONG},
        {NET_FENCES, 0, "*1\r\n$1\r\n0\r\n", WRONG},
        {NET_FENCES, 0, "*2\r\n$1\r\n0\r\n:1\r\n", WRONG},
        {NET_FENCES, 0, "*2\r\n$1\r\n0\r\n$1\r\n0\r\n", REDLOCK_VERDICT_GRANTED},
        {NET_FENCES, 0, "*2\r\n$4\r\n4095\r\n$16\r\n9007199254740991\r\n", REDLOCK_VERDICT_GRANTED},
        /* Of the right form, but no fence. */
        {NET_FENCES, 0, "*2\r\n$4\r\n4096\r\n$1\r\n1\r\n", REDLOCK_VERDICT_PROTOCOL},
        {NET_FENCES, 0, "*2\r\n$20\r\n18446744073709551616\r\n$1\r\n1\r\n",
         REDLOCK_VERDICT_PROTOCOL},
        {NET_FENCES, 0, "*2\r\n$0\r\n\r\n$1\r\n1\r\n", REDLOCK_VERDICT_PROTOCOL},
        {NET_FENCES, 0, "*2\r\n$2\r\n00\r\n$1\r\n1\r\n", REDLOCK_VERDICT_PROTOCOL},
        {NET_FENCES, 0, "*2\r\n$2\r\n-1\r\n$1\r\n1\r\n", REDLOCK_VERDICT_PROTOCOL},
        {NET_FENCES, 0, "*2\r\n$3\r\n1 2\r\n$1\r\n1\r\n", REDLOCK_VERDICT_PROTOCOL},
        {NET_FENCES, 0, "*2\r\n$1\r\n1\r\n$16\r\n9007199254740992\r\n", REDLOCK_VERDICT_PROTOCOL},
        {NET_FENCES, 0, "*2\r\n$1\r\n1\r\n$5\r\n1e+17\r\n", REDLOCK_VERDICT_PROTOCOL},
        {NET_FENCES, 0, "*2\r\n$1\r\n1\r\n$3\r\n1.5\r\n", REDLOCK_VERDICT_PROTOCOL},
        {NET_FENCES, 0, "*2\r\n$1\r\n1\r\n$3\r\ninf\r\n", REDLOCK_VERDICT_PROTOCOL},
        {NET_FENCES, 0, "*4\r\n$1\r\n1\r\n$1\r\n5\r\n$1\r\nx\r\n$1\r\n5\r\n",
         REDLOCK_VERDICT_PROTOCOL},
    };
    struct reader reader;
    (void)state;
    assert_true(reader_open(&reader));
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        struct net_request request = guarded(table[i].op, table[i].keys);
        struct net_reply answer;
        bool right = feed(&reader, &request, 0, table[i].text, &answer);
        if ((right ? answer.verdict : WRONG) != table[i].verdict)
            fail_msg("row %zu, %s: %d", i, table[i].text, right ? answer.verdict : WRONG);
        bool stale_raise = right && (table[i].op == NET_RAISE || table[i].op == NET_BREAK) &&
                           answer.verdict == REDLOCK_VERDICT_STALE;
        if (right)
            assert_int_equal(answer.fence, stale_raise ? strtoll(table[i].text + 1, NULL, 10) : 0);
        bool reported =
            right && table[i].op == NET_FENCES && answer.verdict == REDLOCK_VERDICT_GRANTED;
        if (right) assert_int_equal(answer.fences != NULL, reported);
    }
    reader_close(&reader);
}

/* SET and ZADD. The first that fails or denies is the answer; one that no such command gives ends
 * the connection. */
static void test_two_replies(void **state) {
    static const struct {
        const char *set, *zadd;
        int verdict;
    } table[] = {
        {"+OK\r\n", ":1\r\n", REDLOCK_VERDICT_GRANTED},
        {"+OK\r\n", ":0\r\n", REDLOCK_VERDICT_STALE},
        {"+OK\r\n", "-NOPERM x\r\n", REDLOCK_VERDICT_NOPERM},
        {"+OK\r\n", "-WRONGTYPE x\r\n", REDLOCK_VERDICT_RECOVERING}, /* there are no fences */
        {"+OK\r\n", "-ERR x\r\n", REDLOCK_VERDICT_ERROR},
        {"$-1\r\n", ":1\r\n", REDLOCK_VERDICT_DENIED},
        {"$-1\r\n", ":0\r\n", REDLOCK_VERDICT_DENIED},
        {"$-1\r\n", "-OOM x\r\n", REDLOCK_VERDICT_DENIED},
        {"-OOM x\r\n", ":1\r\n", REDLOCK_VERDICT_OOM},
        {"-OOM x\r\n", ":0\r\n", REDLOCK_VERDICT_OOM},
        {"-OOM x\r\n", "-NOPERM x\r\n", REDLOCK_VERDICT_OOM},
        {"+OK\r\n", ":2\r\n", WRONG},
        {"+OK\r\n", ":-1\r\n", WRONG},
        {"+OK\r\n", "+OK\r\n", WRONG},
        {"+OK\r\n", "$-1\r\n", WRONG},
        {"+OK\r\n", "*1\r\n:1\r\n", WRONG},
        {"$-1\r\n", "+OK\r\n", WRONG},
        {"-OOM x\r\n", "+OK\r\n", WRONG},
    };
    struct net_request request = guarded(NET_ACQUIRE, 1);
    struct reader reader;
    (void)state;
    assert_true(reader_open(&reader));
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        struct net_reply answer;
        assert_true(feed(&reader, &request, 0, table[i].set, &answer));
        bool right = feed(&reader, &request, 1, table[i].zadd, &answer);
        if ((right ? answer.verdict : WRONG) != table[i].verdict)
            fail_msg("row %zu: %d", i, right ? answer.verdict : WRONG);
    }
    struct net_reply answer;
    assert_false(feed(&reader, &request, 0, ":1\r\n", &answer)); /* an answer to ZADD alone */
    reader_close(&reader);
}

static void test_record_and_fences_reported(void **state) {
    struct net_request record = guarded(NET_RECORD, 0), request = guarded(NET_FENCES, 0);
    struct net_reply answer;
    struct reader reader;
    (void)state;
    assert_true(reader_open(&reader));
    assert_true(feed(&reader, &record, 0, "*4\r\n$5\r\nnonce\r\n$2\r\na\n\r\n$1\r\nx\r\n$0\r\n\r\n",
                     &answer));
    assert_int_equal(answer.items_count, 4);
    assert_memory_equal(answer.items[1].data, "a\n", 2);
    assert_int_equal(answer.items[1].bytes, 2);
    assert_int_equal(answer.items[3].bytes, 0);
    fences[7] = 99; /* of an answer before */
    assert_true(feed(&reader, &request, 0,
                     "*4\r\n$1\r\n3\r\n$2\r\n12\r\n$4\r\n4095\r\n$16\r\n1700000000000000\r\n",
                     &answer));
    assert_ptr_equal(answer.fences, fences);
    for (size_t i = 0; i < RL_STRIPES; i++)
        assert_int_equal(answer.fences[i], i == 3 ? 12 : i == 4095 ? FENCE : 0);
    /* A net that has no room for them never asks. */
    assert_true(reader_feed(&reader, "*2\r\n$1\r\n3\r\n$2\r\n12\r\n", 20));
    assert_int_equal(reader_next(&reader), READER_REPLY);
    assert_false(
        command_answer(&request, 0, &reader, (struct answer_room){.fences = NULL}, &answer));
    reader_close(&reader);
}

/* ---- any reply to any request ---- */

static uint64_t random_state = 42;
static unsigned draw(unsigned below) {
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(random_state >> 33) % below;
}

/* Some reply, mostly near to what could be right. */
static size_t random_reply(char *text, size_t size, unsigned depth) {
    static const char *const strings[] = {
        "", "0", "7", "4095", "4096", "-1", "nonce", "1e5", "9007199254740992", "00"};
    static const char *const errors[] = {"OOM x", "NOPERM", "ERR y", "WRONGTYPE z", ""};
    static const char *const integers[] = {"1",
                                           "0",
                                           "-1",
                                           "-2",
                                           "2",
                                           "1700000000000000",
                                           "1700000000000001",
                                           "-9223372036854775808",
                                           "9223372036854775807"};
    const char *string = strings[draw(10)];
    switch (draw(depth > 2 ? 5 : 8)) {
    case 0: return (size_t)snprintf(text, size, "%s\r\n", draw(2) ? "+OK" : "+QUEUED");
    case 1: return (size_t)snprintf(text, size, "-%s\r\n", errors[draw(5)]);
    case 2: return (size_t)snprintf(text, size, ":%s\r\n", integers[draw(9)]);
    case 3: return (size_t)snprintf(text, size, draw(2) ? "$-1\r\n" : "*-1\r\n");
    case 4: return (size_t)snprintf(text, size, "$%zu\r\n%s\r\n", strlen(string), string);
    default: break;
    }
    unsigned count = draw(5);
    size_t used = (size_t)snprintf(text, size, "*%u\r\n", count);
    bool strings_only = draw(4) != 0;
    for (unsigned i = 0; i < count; i++) {
        string = strings[draw(10)];
        used += strings_only ? (size_t)snprintf(text + used, size - used, "$%zu\r\n%s\r\n",
                                                strlen(string), string)
                             : random_reply(text + used, size - used, depth + 1);
    }
    return used;
}

/* A vote counts for nobody unless every reply says exactly what a grant says. */
static bool says_granted(enum net_op op, size_t keys_count, const char *first, const char *second) {
    if (op == NET_ACQUIRE && keys_count == 1)
        return !strcmp(first, "+OK\r\n") && !strcmp(second, ":1\r\n");
    return !strcmp(first, op == NET_RAISE ? ":0\r\n" : ":1\r\n");
}

static void test_any_reply(void **state) {
    static const enum net_op ops[] = {NET_ACQUIRE,      NET_EXTEND, NET_RAISE, NET_CONFIRM,
                                      NET_RECORD_WRITE, NET_RECORD, NET_FENCES};
    static char text[2][65536];
    struct reader reader;
    unsigned granted = 0;
    (void)state;
    assert_true(reader_open(&reader));
    for (unsigned i = 0; i < 200000; i++) {
        enum net_op op = ops[draw(7)];
        size_t count = 1 + draw(2);
        struct net_request request = guarded(op, count);
        struct net_reply answer;
        bool right = true;
        for (unsigned nth = 0; right && nth < command_replies(&request, false); nth++) {
            random_reply(text[nth], sizeof(text[nth]), 0);
            right = feed(&reader, &request, nth, text[nth], &answer);
        }
        if (!right) continue;
        bool is_granted = answer.verdict == REDLOCK_VERDICT_GRANTED;
        bool reads = op == NET_RECORD || op == NET_FENCES;
        if (!reads) assert_int_equal(is_granted, says_granted(op, count, text[0], text[1]));
        if (op == NET_RECORD) assert_int_equal(is_granted, answer.items_count > 0);
        if (op == NET_FENCES) assert_int_equal(is_granted, answer.fences != NULL);
        for (size_t s = 0; answer.fences && s < RL_STRIPES; s++)
            assert_in_range(answer.fences[s], 0, REDLOCK_FENCE_MAX);
        granted += is_granted;
    }
    assert_true(granted > 1000); /* it does hit what is right, too */
    reader_close(&reader);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_locks),
        cmocka_unit_test(test_record_and_fences),
        cmocka_unit_test(test_largest),
        cmocka_unit_test(test_nonce_of_each_node),
        cmocka_unit_test(test_one_reply),
        cmocka_unit_test(test_two_replies),
        cmocka_unit_test(test_record_and_fences_reported),
        cmocka_unit_test(test_any_reply),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
