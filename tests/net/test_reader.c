/* SPDX-License-Identifier: BSD-2-Clause
 * Replies split at every byte, nested, binary, malformed, too large. */
#include "world.h"

#include <stdlib.h>
#include <string.h>

#include "net/codec/reader.h"

static const char stream[] = "+OK\r\n"
                             "-ERR no\r\n"
                             ":-42\r\n"
                             "$-1\r\n"
                             "*-1\r\n"
                             "$5\r\na\0\r\nb\r\n"
                             "$0\r\n\r\n"
                             "*0\r\n"
                             "*2\r\n$1\r\n7\r\n*3\r\n$2\r\nk1\r\n$2\r\nk2\r\n*1\r\n:9\r\n"
                             "+last\r\n";

static void expect(struct reader *reader, unsigned nth) {
    static const enum reply_type first[] = {REPLY_STATUS, REPLY_ERROR,  REPLY_INTEGER, REPLY_NIL,
                                            REPLY_NIL,    REPLY_STRING, REPLY_STRING,  REPLY_ARRAY,
                                            REPLY_ARRAY,  REPLY_STATUS};
    static const size_t slots[] = {1, 1, 1, 1, 1, 1, 1, 1, 7, 1};
    assert_int_equal(reader->slots[0].type, first[nth]);
    assert_int_equal(reader->slots_count, slots[nth]);
    if (nth == 0) assert_true(reader_is_status(reader, 0, "OK"));
    if (nth == 1) assert_memory_equal(reader->bytes[0].data, "ERR no", 6);
    if (nth == 2) assert_int_equal(reader->slots[0].integer, -42);
    if (nth == 5) {
        assert_int_equal(reader->bytes[0].bytes, 5);
        assert_memory_equal(reader->bytes[0].data, "a\0\r\nb", 5);
    }
    if (nth == 6) assert_int_equal(reader->bytes[0].bytes, 0);
    if (nth == 8) {
        assert_int_equal(reader->slots[0].integer, 2);
        assert_int_equal(reader->slots[2].integer, 3);
        assert_memory_equal(reader->bytes[1].data, "7", 1);
        assert_memory_equal(reader->bytes[3].data, "k1", 2);
        assert_memory_equal(reader->bytes[4].data, "k2", 2);
        assert_int_equal(reader->slots[6].integer, 9);
    }
    if (nth == 9) assert_true(reader_is_status(reader, 0, "last"));
}

static unsigned take_all(struct reader *reader, unsigned nth) {
    enum reader_status status;
    while ((status = reader_next(reader)) == READER_REPLY) expect(reader, nth++);
    assert_int_equal(status, READER_MORE);
    return nth;
}

static void test_split_at_every_byte(void **state) {
    (void)state;
    for (size_t cut = 0; cut <= sizeof(stream) - 1; cut++) {
        struct reader reader;
        assert_true(reader_open(&reader));
        assert_true(reader_feed(&reader, stream, cut));
        unsigned nth = take_all(&reader, 0);
        assert_true(reader_feed(&reader, stream + cut, sizeof(stream) - 1 - cut));
        assert_int_equal(take_all(&reader, nth), 10);
        reader_close(&reader);
    }
}

static void test_byte_by_byte(void **state) {
    struct reader reader;
    unsigned nth = 0;
    (void)state;
    assert_true(reader_open(&reader));
    for (int round = 0; round < 300; round++) {
        nth = 0;
        for (size_t i = 0; i < sizeof(stream) - 1; i++) {
            assert_true(reader_feed(&reader, stream + i, 1));
            nth = take_all(&reader, nth);
        }
        assert_int_equal(nth, 10);
    }
    reader_close(&reader);
}

/* The plain ones are taken as they lie, the others by hiredis, and what is cut off begins plainly
 * and ends there. */
static void test_plain_between_others(void **state) {
    static const char text[] =
        "+OK\r\n:1\r\n$-1\r\n:12\r\n+OK\r\n$2\r\nab\r\n:0\r\n+QUEUED\r\n:-1\r\n$-1\r\n";
    static const struct reply_slot expected[] = {
        {REPLY_STATUS, 0},   {REPLY_INTEGER, 1}, {REPLY_NIL, 0},     {REPLY_INTEGER, 12},
        {REPLY_STATUS, 0},   {REPLY_STRING, 0},  {REPLY_INTEGER, 0}, {REPLY_STATUS, 0},
        {REPLY_INTEGER, -1}, {REPLY_NIL, 0}};
    (void)state;
    for (size_t cut = 0; cut < sizeof(text); cut++) {
        struct reader reader;
        size_t nth = 0;
        assert_true(reader_open(&reader));
        for (int part = 0; part < 2; part++) {
            assert_true(reader_feed(&reader, part == 0 ? text : text + cut,
                                    part == 0 ? cut : sizeof(text) - 1 - cut));
            for (; reader_next(&reader) == READER_REPLY; nth++) {
                assert_int_equal(reader.slots[0].type, expected[nth].type);
                assert_int_equal(reader.slots[0].integer, expected[nth].integer);
                assert_int_equal(reader_is_status(&reader, 0, "OK"), nth == 0 || nth == 4);
            }
        }
        assert_int_equal(nth, sizeof(expected) / sizeof(expected[0]));
        reader_close(&reader);
    }
}

static enum reader_status outcome(const char *data, size_t bytes) {
    struct reader reader;
    enum reader_status status;
    assert_true(reader_open(&reader));
    assert_true(reader_feed(&reader, data, bytes));
    while ((status = reader_next(&reader)) == READER_REPLY) continue;
    reader_close(&reader);
    return status;
}

static enum reader_status outcome_of(const char *text) { return outcome(text, strlen(text)); }

static void test_malformed(void **state) {
    static const char *const bad[] = {"x\r\n",    "\r\n",        ":abc\r\n",
                                      "$abc\r\n", "$-2\r\n",     "*-2\r\n",
                                      "+OK\r\n?", "*1\r\n!\r\n", "$99999999999999999999\r\n"};
    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        enum reader_status status = outcome_of(bad[i]);
        if (status != READER_MALFORMED && status != READER_OVERSIZED)
            fail_msg("%s: %d", bad[i], (int)status);
    }
}

static void test_oversized(void **state) {
    size_t bytes = READER_REPLY_BYTES_MAX + 100;
    char *line = test_malloc(bytes);
    (void)state;
    assert_int_equal(outcome_of("$1048577\r\n"), READER_OVERSIZED);
    assert_int_equal(outcome_of("$1048577"), READER_OVERSIZED);
    assert_int_equal(outcome_of("$1048576\r\n"), READER_MORE);
    assert_int_equal(outcome_of("*2\r\n+OK\r\n$2000000\r\n"), READER_OVERSIZED);
    assert_int_equal(outcome_of("*65537\r\n"), READER_OVERSIZED);
    assert_int_equal(outcome_of("*65536\r\n"), READER_MORE);
    memset(line, 'x', bytes);
    line[0] = '+';
    assert_int_equal(outcome(line, bytes), READER_OVERSIZED);
    test_free(line);
}

/* More elements than slots at first, more bytes than the arena at first. */
static void test_growing(void **state) {
    enum { ELEMENTS = 5000 };
    struct reader reader;
    (void)state;
    assert_true(reader_open(&reader));
    for (int round = 0; round < 2; round++) {
        assert_true(reader_feed(&reader, "*5000\r\n", 7));
        for (int i = 0; i < ELEMENTS; i++) {
            assert_int_equal(reader_next(&reader), READER_MORE);
            assert_true(reader_feed(&reader, "$10\r\n0123456789\r\n", 17));
        }
        assert_int_equal(reader_next(&reader), READER_REPLY);
        assert_int_equal(reader.slots_count, ELEMENTS + 1);
        for (int i = 1; i <= ELEMENTS; i++)
            assert_memory_equal(reader.bytes[i].data, "0123456789", 10);
        assert_int_equal(reader_next(&reader), READER_MORE);
    }
    reader_close(&reader);
}

static void test_ordinary_replies_grow_nothing(void **state) {
    struct reader reader;
    (void)state;
    assert_true(reader_open(&reader));
    const void *slots = reader.slots, *bytes = reader.bytes, *arena = reader.arena;
    for (int i = 0; i < 1000; i++) {
        assert_true(reader_feed(&reader, stream, sizeof(stream) - 1));
        assert_int_equal(take_all(&reader, 0), 10);
    }
    assert_ptr_equal(slots, reader.slots);
    assert_ptr_equal(bytes, reader.bytes);
    assert_ptr_equal(arena, reader.arena);
    reader_close(&reader);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_split_at_every_byte),
        cmocka_unit_test(test_byte_by_byte),
        cmocka_unit_test(test_plain_between_others),
        cmocka_unit_test(test_malformed),
        cmocka_unit_test(test_oversized),
        cmocka_unit_test(test_growing),
        cmocka_unit_test(test_ordinary_replies_grow_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
