/* SPDX-License-Identifier: BSD-2-Clause
 * RESP3: the same slots as RESP2 has for the same, cut at every byte; pushes between the replies;
 * malformed, too large; and that both decoders say the same of RESP2. */
#include "world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "net/codec/reader.h"

/* ---- a reply as a line of text ---- */

struct text {
    char at[4096];
    size_t bytes;
};

static void add(struct text *text, const char *data, size_t bytes) {
    assert_true(text->bytes + bytes < sizeof(text->at));
    if (bytes > 0) memcpy(text->at + text->bytes, data, bytes);
    text->bytes += bytes;
}

/* "[2 's' :1]" and the like; pushes begin with '>'. */
static void describe(const struct reader *reader, enum reader_status status, struct text *text) {
    if (status == READER_PUSH) add(text, ">", 1);
    for (size_t i = 0; i < reader->slots_count; i++) {
        static const char *const marks[] = {
            [REPLY_NIL] = "_",    [REPLY_INTEGER] = ":", [REPLY_STATUS] = "+",
            [REPLY_STRING] = "$", [REPLY_ERROR] = "-",   [REPLY_ARRAY] = "*"};
        char number[32];
        enum reply_type type = reader->slots[i].type;
        bool counts = type == REPLY_INTEGER || type == REPLY_ARRAY;
        add(text, marks[type], 1);
        if (counts)
            add(text, number,
                (size_t)snprintf(number, sizeof(number), "%lld",
                                 (long long)reader->slots[i].integer));
        else
            add(text, reader->bytes[i].data, reader->bytes[i].bytes);
        add(text, " ", 1);
    }
    add(text, "| ", 2);
}

/* All replies of what comes in two parts; at a failure its number. */
static void read_parts(const char *data, size_t bytes, size_t cut, bool resp3, struct text *text) {
    struct reader reader;
    enum reader_status status = READER_MORE;
    text->bytes = 0;
    assert_true(reader_open(&reader));
    reader_expect_resp3(&reader, resp3);
    for (int part = 0; part < 2 && status == READER_MORE; part++) {
        assert_true(
            reader_feed(&reader, part == 0 ? data : data + cut, part == 0 ? cut : bytes - cut));
        while ((status = reader_next(&reader)) == READER_REPLY || status == READER_PUSH)
            describe(&reader, status, text);
    }
    if (status != READER_MORE) add(text, status == READER_OVERSIZED ? "too large" : "malformed", 9);
    reader_close(&reader);
}

static void expect(const char *data, size_t bytes, const char *wanted, size_t wanted_bytes) {
    struct text text;
    for (size_t cut = 0; cut <= bytes; cut++) {
        read_parts(data, bytes, cut, true, &text);
        if (text.bytes != wanted_bytes || memcmp(text.at, wanted, text.bytes) != 0)
            fail_msg("%s\ncut at %zu is: %.*s\nnot: %s", data, cut, (int)text.bytes, text.at,
                     wanted);
    }
    struct reader reader; /* byte by byte */
    assert_true(reader_open(&reader));
    reader_expect_resp3(&reader, true);
    enum reader_status status = READER_MORE;
    text.bytes = 0;
    for (size_t i = 0; i < bytes && status == READER_MORE; i++) {
        assert_true(reader_feed(&reader, data + i, 1));
        while ((status = reader_next(&reader)) == READER_REPLY || status == READER_PUSH)
            describe(&reader, status, &text);
    }
    if (status != READER_MORE)
        add(&text, status == READER_OVERSIZED ? "too large" : "malformed", 9);
    assert_int_equal(text.bytes, wanted_bytes);
    assert_memory_equal(text.at, wanted, text.bytes);
    reader_close(&reader);
}

#define EXPECT(data, wanted) expect(data, sizeof(data) - 1, wanted, sizeof(wanted) - 1)

/* ---- what servers send ---- */

static void test_shapes(void **state) {
    (void)state;
    EXPECT("+OK\r\n:1\r\n_\r\n:0\r\n$-1\r\n+OK\r\n", "+OK | :1 | _ | :0 | _ | +OK | ");
    EXPECT("%2\r\n$1\r\na\r\n$1\r\n1\r\n$1\r\nb\r\n*1\r\n:7\r\n", "*4 $a $1 $b *1 :7 | ");
    EXPECT("%0\r\n*0\r\n~0\r\n*-1\r\n", "*0 | *0 | *0 | _ | ");
    EXPECT("~2\r\n+x\r\n_\r\n", "*2 +x _ | ");
    EXPECT("*2\r\n*2\r\n$1\r\n7\r\n,1700000000000000\r\n*2\r\n$4\r\n4095\r\n,0\r\n",
           "*2 *2 $7 $1700000000000000 *2 $4095 $0 | ");
    EXPECT("=10\r\ntxt:a:1\r\nb\r\n=4\r\nmkd:\r\n", "$a:1\r\nb | $ | ");
    EXPECT("!9\r\nERR a\r\nb \r\n-ERR c\r\n", "-ERR a\r\nb  | -ERR c | ");
    EXPECT("#t\r\n#f\r\n(123456789012345678901234567890\r\n,inf\r\n,-1.5e-7\r\n",
           ":1 | :0 | $123456789012345678901234567890 | $inf | $-1.5e-7 | ");
}

static void test_binary(void **state) {
    (void)state;
    EXPECT(
        "$6\r\na\0b\r\nc\r\n:-9223372036854775808\r\n:9223372036854775807\r\n$0\r\n\r\n+\r\n-\r\n",
        "$a\0b\r\nc | :-9223372036854775808 | :9223372036854775807 | $ | + | - | ");
    EXPECT("+a\rb\nc\r\n", "+a\rb\nc | ");
}

/* Between any two replies, and between the two of one call. */
static void test_pushes(void **state) {
    (void)state;
    EXPECT("+OK\r\n>2\r\n$10\r\ninvalidate\r\n_\r\n:1\r\n", "+OK | >*2 $invalidate _ | :1 | ");
    EXPECT(">2\r\n$10\r\ninvalidate\r\n*1\r\n$12\r\nredlock:node\r\n_\r\n",
           ">*2 $invalidate *1 $redlock:node | _ | ");
    EXPECT("_\r\n>3\r\n+message\r\n$1\r\nc\r\n$3\r\n0 k\r\n>1\r\n#t\r\n:0\r\n",
           "_ | >*3 +message $c $0 k | >*1 :1 | :0 | ");
    EXPECT("*1\r\n:1\r\n>1\r\n$1\r\na\r\n*1\r\n:1\r\n", "*1 :1 | >*1 $a | *1 :1 | ");
}

static void test_attributes_are_dropped(void **state) {
    (void)state;
    EXPECT("|1\r\n+ttl\r\n:3600\r\n$1\r\nv\r\n:1\r\n", "$v | :1 | ");
    EXPECT("|0\r\n+OK\r\n", "+OK | ");
    EXPECT("*2\r\n:1\r\n|1\r\n+a\r\n%1\r\n$1\r\nb\r\n*2\r\n:2\r\n:3\r\n:4\r\n:5\r\n",
           "*2 :1 :4 | :5 | ");
    EXPECT(
        "|1\r\n|1\r\n+a\r\n+b\r\n$1\r\nc\r\n=5\r\ntxt:d\r\n*1\r\n|2\r\n_\r\n_\r\n_\r\n_\r\n:1\r\n",
        "*1 :1 | ");
    EXPECT("|1\r\n+a\r\n+b\r\n>1\r\n+c\r\n+OK\r\n", ">*1 +c | +OK | ");
}

/* ---- what they do not ---- */

static void test_malformed(void **state) {
    static const char *const bad[] = {
        "x\r\n",
        "\r\n",
        ":\r\n",
        ":abc\r\n",
        ":1 \r\n",
        ":-\r\n",
        ":--1\r\n",
        ":9223372036854775808\r\n",
        ":+1\r\n",
        ":1\n\r\n",
        "$abc\r\n",
        "$-2\r\n",
        "$1\r\nabc\r\n",
        "$?\r\n",
        "*-2\r\n",
        "*?\r\n",
        "*1\r\n?",
        "%-1\r\n",
        "%a\r\n",
        "~-1\r\n",
        "_x\r\n",
        "#\r\n",
        "#x\r\n",
        "#tf\r\n",
        "=3\r\ntxt\r\n",
        "=-1\r\n",
        "!-1\r\n",
        "|-1\r\n",
        ">0\r\n",
        ">-1\r\n",
        "*1\r\n>1\r\n+a\r\n",
        "|1\r\n>1\r\n",
        "+OK\r\n;4\r\n",
        ".\r\n",
        "$123456789012345678901234567890\r\n",
        "*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n:1\r\n"};
    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        for (size_t cut = 0; cut <= strlen(bad[i]); cut++) {
            struct text text;
            read_parts(bad[i], strlen(bad[i]), cut, true, &text);
            if (text.bytes < 9 || memcmp(text.at + text.bytes - 9, "malformed", 9) != 0)
                fail_msg("%s cut at %zu: %.*s", bad[i], cut, (int)text.bytes, text.at);
        }
}

/* Where RESP3 was not agreed on. */
static void test_not_in_resp2(void **state) {
    static const char *const bad[] = {"%1\r\n+a\r\n+b\r\n",
                                      "~1\r\n+a\r\n",
                                      ">1\r\n+a\r\n",
                                      ",1\r\n",
                                      "#t\r\n",
                                      "(1\r\n",
                                      "=5\r\ntxt:a\r\n",
                                      "!1\r\na\r\n",
                                      "|1\r\n+a\r\n+b\r\n+c\r\n"};
    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct text text;
        read_parts(bad[i], strlen(bad[i]), strlen(bad[i]), false, &text);
        if (text.bytes != 9 || memcmp(text.at, "malformed", 9) != 0)
            fail_msg("%s: %.*s", bad[i], (int)text.bytes, text.at);
    }
}

/* The reply that says so is read as RESP3, what stands behind it is not. */
static void test_given_up(void **state) {
    static const char data[] = "-NOPROTO unsupported\r\n+OK\r\n*1\r\n:5\r\n>1\r\n+a\r\n";
    struct reader reader;
    (void)state;
    assert_true(reader_open(&reader));
    reader_expect_resp3(&reader, true);
    assert_true(reader_feed(&reader, data, sizeof(data) - 1));
    assert_int_equal(reader_next(&reader), READER_REPLY);
    assert_true(reader_is_error(&reader));
    reader_expect_resp3(&reader, false);
    assert_int_equal(reader_next(&reader), READER_REPLY);
    assert_true(reader_is_status(&reader, 0, "OK"));
    assert_int_equal(reader_next(&reader), READER_REPLY);
    assert_int_equal(reader.slots[1].integer, 5);
    assert_int_equal(reader_next(&reader), READER_MALFORMED);
    reader_close(&reader);
}

static enum reader_status outcome(const char *begin, const char *again, size_t times) {
    struct reader reader;
    enum reader_status status;
    assert_true(reader_open(&reader));
    reader_expect_resp3(&reader, true);
    assert_true(reader_feed(&reader, begin, strlen(begin)));
    while ((status = reader_next(&reader)) == READER_REPLY || status == READER_PUSH) continue;
    for (size_t i = 0; i < times && status == READER_MORE; i++) {
        assert_true(reader_feed(&reader, again, strlen(again)));
        while ((status = reader_next(&reader)) == READER_REPLY || status == READER_PUSH) continue;
    }
    reader_close(&reader);
    return status;
}

static void test_oversized(void **state) {
    static const char *const large[] = {"$1048577\r\n",
                                        "=1048577\r\n",
                                        "!1048577\r\n",
                                        "*65537\r\n",
                                        "~65537\r\n",
                                        ">65537\r\n",
                                        "%32769\r\n",
                                        "|32769\r\n",
                                        "*2\r\n+OK\r\n$2000000\r\n",
                                        "*1\r\n*9223372036854775807\r\n"};
    (void)state;
    for (size_t i = 0; i < sizeof(large) / sizeof(large[0]); i++)
        assert_int_equal(outcome(large[i], "", 0), READER_OVERSIZED);
    assert_int_equal(outcome("$1048576\r\n", "", 0), READER_MORE);
    assert_int_equal(outcome("$1048576\r\n", "x", 1048575), READER_MORE);
    assert_int_equal(outcome("*65535\r\n", ":1\r\n", 65535), READER_MORE);
    assert_int_equal(outcome("*65536\r\n", ":1\r\n", 65536),
                     READER_OVERSIZED); /* one slot is the array's own */
    assert_int_equal(outcome("+", "0123456789abcdef", 65538), READER_OVERSIZED);
    assert_int_equal(outcome(">2\r\n+invalidate\r\n+", "0123456789abcdef", 65538),
                     READER_OVERSIZED);
    assert_int_equal(
        outcome("*20000\r\n",
                "$64\r\n0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\r\n",
                20000),
        READER_OVERSIZED);
    assert_int_equal(outcome("", "|0\r\n", 262150),
                     READER_OVERSIZED); /* what is dropped is weighed, too */
    assert_int_equal(outcome("", "|1\r\n+a\r\n", 262150), READER_MALFORMED);
}

/* ---- both decoders ---- */

static uint32_t seed = 1;
static uint32_t draw(uint32_t below) {
    seed = seed * 1664525u + 1013904223u;
    return (seed >> 8) % below;
}

static void write_reply(struct text *text, int depth) {
    char line[64];
    size_t bytes = draw(12), count = draw(4);
    switch (draw(depth < 4 ? 8 : 6)) {
    case 0: add(text, "+OK\r\n", 5); return;
    case 1:
        add(text, line, (size_t)snprintf(line, sizeof(line), ":%d\r\n", (int)draw(2000) - 1000));
        return;
    case 2: add(text, "$-1\r\n", 5); return;
    case 3: add(text, "-ERR no\r\n", 9); return;
    case 4: add(text, "*-1\r\n", 5); return;
    case 5:
        add(text, line, (size_t)snprintf(line, sizeof(line), "$%zu\r\n", bytes));
        for (size_t i = 0; i < bytes; i++) add(text, &"\r\n$*:ab\0"[draw(8)], 1);
        add(text, "\r\n", 2);
        return;
    default:
        add(text, line, (size_t)snprintf(line, sizeof(line), "*%zu\r\n", count));
        for (size_t i = 0; i < count; i++) write_reply(text, depth + 1);
        return;
    }
}

static void test_both_decoders_agree(void **state) {
    (void)state;
    for (int round = 0; round < 20000; round++) {
        struct text data = {.bytes = 0}, one, other;
        for (uint32_t i = draw(4); i > 0; i--) write_reply(&data, 0);
        size_t cut = draw((uint32_t)data.bytes + 1);
        read_parts(data.at, data.bytes, cut, false, &one);
        read_parts(data.at, data.bytes, cut, true, &other);
        if (one.bytes != other.bytes || memcmp(one.at, other.at, one.bytes) != 0)
            fail_msg("%.*s\nis %.*s\nor %.*s", (int)data.bytes, data.at, (int)one.bytes, one.at,
                     (int)other.bytes, other.at);
    }
}

/* Whatever comes, it is said of each stream the same however it is cut. */
static void test_garbage(void **state) {
    static const char alphabet[] = "+-:$*_,(#!=%~>|tf0123\r\n\r\n\r\n";
    (void)state;
    for (int round = 0; round < 50000; round++) {
        char data[48];
        size_t bytes = draw(sizeof(data));
        struct text one, other;
        for (size_t i = 0; i < bytes; i++) data[i] = alphabet[draw(sizeof(alphabet))];
        read_parts(data, bytes, bytes, true, &one);
        read_parts(data, bytes, draw((uint32_t)bytes + 1), true, &other);
        assert_int_equal(one.bytes, other.bytes);
        assert_memory_equal(one.at, other.at, one.bytes);
    }
}

static void test_ordinary_replies_grow_nothing(void **state) {
    static const char data[] = "+OK\r\n:1\r\n_\r\n:0\r\n>2\r\n$10\r\ninvalidate\r\n*1\r\n$"
                               "12\r\nredlock:node\r\n=5\r\ntxt:a\r\n";
    struct reader reader;
    (void)state;
    assert_true(reader_open(&reader));
    reader_expect_resp3(&reader, true);
    const void *slots = reader.slots, *arena = reader.arena;
    for (int i = 0; i < 1000; i++) {
        unsigned replies = 0;
        enum reader_status status;
        assert_true(reader_feed(&reader, data, sizeof(data) - 1));
        while ((status = reader_next(&reader)) == READER_REPLY || status == READER_PUSH) replies++;
        assert_int_equal(status, READER_MORE);
        assert_int_equal(replies, 6);
    }
    assert_ptr_equal(slots, reader.slots);
    assert_ptr_equal(arena, reader.arena);
    reader_close(&reader);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shapes),
        cmocka_unit_test(test_binary),
        cmocka_unit_test(test_pushes),
        cmocka_unit_test(test_attributes_are_dropped),
        cmocka_unit_test(test_malformed),
        cmocka_unit_test(test_not_in_resp2),
        cmocka_unit_test(test_given_up),
        cmocka_unit_test(test_oversized),
        cmocka_unit_test(test_both_decoders_agree),
        cmocka_unit_test(test_garbage),
        cmocka_unit_test(test_ordinary_replies_grow_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
