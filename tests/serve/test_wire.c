/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What the gateway and its workers send each other is read as it was written; and whatever a worker
 * might send that means nothing is refused.
 */
#include "script/element.h"
#include "script/script_wire.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define SHA "0123456789abcdef0123456789abcdef01234567"

static struct bytes bytes(const char *text) { return (struct bytes){text, strlen(text)}; }

static void assert_bytes(struct bytes here, struct bytes there) {
    assert_int_equal(here.bytes, there.bytes);
    if (here.bytes > 0) assert_memory_equal(here.data, there.data, here.bytes);
}

/* A frame of its own size, so that a sanitizer sees what is read behind it. */
static char *frame_of(const struct wire_message *message, size_t *size) {
    *size = wire_bytes(message);
    char *frame = malloc(*size);
    assert_non_null(frame);
    wire_write(message, frame);
    assert_int_equal(wire_body_bytes(frame), *size - WIRE_HEAD_BYTES);
    return frame;
}

static const struct bytes three[] = {{"one", 3}, {"", 0}, {"three", 5}};
static struct bytes room[WIRE_ARGUMENTS_MAX];

/* An array of 7 and "x", as this machine packs it. */
#define SEVEN_AND_X "\1\7\0\0\0\0\0\0\0\2\1\0\0\0\0\0\0\0x"

static struct wire_message messages[] = {
    {.kind = WIRE_READY, .pid = 4711, .limited = true},
    {.kind = WIRE_READY, .pid = 1, .filtered = true, .error = 22},
    {.kind = WIRE_LOAD, .sha = SHA, .text = {"return 1", 8}},
    {.kind = WIRE_LOADED},
    {.kind = WIRE_REFUSED, .text = {"ERR no", 6}},
    {.kind = WIRE_RUN, .sha = SHA, .text = {"", 0}, .key = {"k\0k", 3}},
    {.kind = WIRE_RUN,
     .sha = SHA,
     .text = {"return 1", 8},
     .key = {"key", 3},
     .arguments = three,
     .argument_count = 3},
    {.kind = WIRE_CALL, .call = {.command = KEY_GET}},
    {.kind = WIRE_CALL, .call = {.command = KEY_DELETE}},
    {.kind = WIRE_CALL, .call = {.command = KEY_EXTEND, .ttl_ms = 1}},
    {.kind = WIRE_CALL, .call = {.command = KEY_TAKE, .ttl_ms = INT64_MAX, .value = {"v\0v", 3}}},
    {.kind = WIRE_CALL, .call = {.command = KEY_EXTEND, .ttl_ms = 7, .until = true}},
    {.kind = WIRE_CALL,
     .call = {.command = KEY_PUBLISH, .value = {"message", 7}, .channel = {"c", 1}}},
    {.kind = WIRE_END, .value = {.kind = ANSWER_ARRAY}},
    {.kind = WIRE_END,
     .value = {.kind = ANSWER_ARRAY, .integer = 2, .bytes = {SEVEN_AND_X, sizeof SEVEN_AND_X - 1}}},
    {.kind = WIRE_ANSWER, .value = {.kind = ANSWER_NIL}},
    {.kind = WIRE_ANSWER, .value = {.kind = ANSWER_INTEGER, .integer = INT64_MIN}},
    {.kind = WIRE_END, .value = {.kind = ANSWER_BYTES, .bytes = {"\r\n\0", 3}}},
    {.kind = WIRE_END, .value = {.kind = ANSWER_STATUS, .bytes = {"OK", 2}}},
    {.kind = WIRE_END, .value = {.kind = ANSWER_ERROR, .bytes = {"ERR", 3}}},
};
enum { MESSAGES = sizeof messages / sizeof messages[0] };

static void is_read_as_it_was_written(void **state) {
    static struct wire_message read;
    (void)state;
    for (size_t i = 0; i < MESSAGES; i++) {
        const struct wire_message *message = &messages[i];
        size_t size;
        char *frame = frame_of(message, &size);
        memset(&read, 0, sizeof read);
        assert_true(wire_read(frame, size, &read, room));
        assert_int_equal(read.kind, message->kind);
        assert_int_equal(read.pid, message->pid);
        assert_int_equal(read.limited, message->limited);
        assert_int_equal(read.filtered, message->filtered);
        assert_int_equal(read.error, message->error);
        assert_string_equal(read.sha, message->sha);
        assert_bytes(read.text, message->text);
        assert_bytes(read.key, message->key);
        assert_int_equal(read.argument_count, message->argument_count);
        for (size_t k = 0; k < read.argument_count; k++)
            assert_bytes(read.arguments[k], message->arguments[k]);
        assert_int_equal(read.call.command, message->call.command);
        assert_int_equal(read.call.ttl_ms, message->call.ttl_ms);
        assert_bytes(read.call.value, message->call.value);
        assert_bytes(read.call.channel, message->call.channel);
        assert_int_equal(read.call.until, message->call.until);
        assert_int_equal(read.value.kind, message->value.kind);
        assert_int_equal(read.value.integer, message->value.integer);
        assert_bytes(read.value.bytes, message->value.bytes);
        free(frame);
    }
}

static void a_part_is_refused(void **state) {
    static struct wire_message read;
    (void)state;
    for (size_t i = 0; i < MESSAGES; i++) {
        size_t size;
        char *frame = frame_of(&messages[i], &size);
        for (size_t part = 0; part < size; part++) {
            char *copy = malloc(part + 1);
            memcpy(copy, frame, part);
            assert_false(wire_read(copy, part, &read, room));
            /* Also where the head says that this is all. */
            const uint32_t body = (uint32_t)(part - WIRE_HEAD_BYTES);
            if (part >= WIRE_HEAD_BYTES) memcpy(copy, &body, sizeof body);
            assert_false(wire_read(copy, part, &read, room));
            free(copy);
        }
        free(frame);
    }
}

static void more_is_refused(void **state) {
    static struct wire_message read;
    (void)state;
    for (size_t i = 0; i < MESSAGES; i++) {
        size_t size;
        char *frame = frame_of(&messages[i], &size), *longer = calloc(1, size + 1);
        memcpy(longer, frame, size);
        assert_false(wire_read(longer, size + 1, &read, room));
        const uint32_t body = (uint32_t)(size + 1 - WIRE_HEAD_BYTES);
        memcpy(longer, &body, sizeof body);
        assert_false(wire_read(longer, size + 1, &read, room));
        free(longer);
        free(frame);
    }
}

/* The number at `at` in the body of what a worker sends. */
static bool takes(const struct wire_message *message, size_t at, int64_t number) {
    static struct wire_message read;
    size_t size;
    char *frame = frame_of(message, &size);
    memcpy(frame + WIRE_HEAD_BYTES + at, &number, sizeof number);
    const bool taken = wire_read(frame, size, &read, room);
    free(frame);
    return taken;
}

static void what_means_nothing_is_refused(void **state) {
    (void)state;
    const struct wire_message ready = {.kind = WIRE_READY, .pid = 1};
    const struct wire_message get = {.kind = WIRE_CALL, .call = {.command = KEY_GET}};
    const struct wire_message take = {.kind = WIRE_CALL,
                                      .call = {.command = KEY_TAKE, .ttl_ms = 9}};
    const struct wire_message end = {.kind = WIRE_END};
    static const int64_t wrong_pids[] = {0, -1, INT64_MIN, (int64_t)1 << 31, INT64_MAX};
    for (size_t i = 0; i < sizeof wrong_pids / sizeof wrong_pids[0]; i++)
        assert_false(takes(&ready, 0, wrong_pids[i]));
    assert_true(takes(&ready, 0, INT32_MAX));
    assert_false(takes(&ready, 8, 2));
    assert_false(takes(&ready, 16, -1));
    assert_true(takes(&get, 0, KEY_PTTL));
    assert_false(takes(&get, 0, KEY_TAKE + 1));
    assert_false(takes(&get, 0, -1));
    assert_false(takes(&get, 0, KEY_EXTEND)); /* for 0 ms */
    assert_true(takes(&take, 8, 1));
    assert_false(takes(&take, 8, 0));
    assert_false(takes(&take, 8, -1));
    assert_true(takes(&end, 0, ANSWER_ERROR));
    assert_true(takes(&end, 0, ANSWER_ARRAY)); /* of no element */
    assert_false(takes(&end, 0, ANSWER_ARRAY + 1));
    assert_false(takes(&end, 0, INT64_MIN));
    assert_true(takes(&take, 16, 1));
    assert_false(takes(&take, 16, 2));
    assert_false(takes(&get, 16, 1)); /* it has no time */
}

/* Whatever an array says of itself, its elements are counted. */
static void an_array_has_the_elements_that_it_says(void **state) {
    (void)state;
    const struct wire_message array = {.kind = WIRE_END,
                                       .value = {.kind = ANSWER_ARRAY,
                                                 .integer = 2,
                                                 .bytes = {SEVEN_AND_X, sizeof SEVEN_AND_X - 1}}};
    const size_t first = 8 + 8 + 4, second = first + ELEMENT_HEAD_BYTES;
    assert_true(takes(&array, 8, 2));
    static const int64_t wrong[] = {-1, 0, 1, 3, ELEMENTS_MAX, ELEMENTS_MAX + 1, INT64_MAX};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        assert_false(takes(&array, 8, wrong[i]));
    assert_true(takes(&array, first + 1, INT64_MIN));
    assert_false(takes(&array, first, ANSWER_ERROR));
    assert_false(takes(&array, first, 0xff));
    static const int64_t lengths[] = {-1, 0, 2, INT64_MAX, INT64_MIN};
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++)
        assert_false(takes(&array, second + 1, lengths[i]));
}

static void an_unknown_kind_is_refused(void **state) {
    static struct wire_message read;
    (void)state;
    for (uint32_t kind = 0; kind < 300; kind++) {
        const uint32_t head[2] = {0, kind};
        assert_int_equal(wire_read((const char *)head, sizeof head, &read, room),
                         kind == WIRE_LOADED);
    }
}

static void too_many_arguments_are_refused(void **state) {
    static struct wire_message many = {.kind = WIRE_RUN, .sha = SHA}, read;
    size_t size;
    (void)state;
    static const struct bytes empty[WIRE_ARGUMENTS_MAX];
    many.arguments = empty;
    many.argument_count = WIRE_ARGUMENTS_MAX;
    char *frame = frame_of(&many, &size);
    assert_true(wire_read(frame, size, &read, room));
    const int64_t more = WIRE_ARGUMENTS_MAX + 1;
    memcpy(frame + WIRE_HEAD_BYTES + SCRIPT_SHA_BYTES + 8, &more, sizeof more);
    assert_false(wire_read(frame, size, &read, room));
    free(frame);
}

/* A worker sends none, and the gateway has no room for its arguments. */
static void a_run_is_refused_where_nobody_sends_one(void **state) {
    static struct wire_message read;
    (void)state;
    for (size_t i = 0; i < MESSAGES; i++) {
        size_t size;
        char *frame = frame_of(&messages[i], &size);
        assert_int_equal(wire_read(frame, size, &read, NULL), messages[i].kind != WIRE_RUN);
        free(frame);
    }
}

static void a_length_beyond_the_end_is_refused(void **state) {
    static struct wire_message read;
    (void)state;
    static const uint32_t lengths[] = {3, 4, 0x7fffffff, 0x80000000, 0xfffffff8, 0xffffffff};
    const struct wire_message refused = {.kind = WIRE_REFUSED, .text = bytes("no")};
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        size_t size;
        char *frame = frame_of(&refused, &size);
        memcpy(frame + WIRE_HEAD_BYTES, &lengths[i], sizeof lengths[i]);
        assert_false(wire_read(frame, size, &read, room));
        free(frame);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(is_read_as_it_was_written),
        cmocka_unit_test(a_part_is_refused),
        cmocka_unit_test(more_is_refused),
        cmocka_unit_test(what_means_nothing_is_refused),
        cmocka_unit_test(an_array_has_the_elements_that_it_says),
        cmocka_unit_test(an_unknown_kind_is_refused),
        cmocka_unit_test(too_many_arguments_are_refused),
        cmocka_unit_test(a_run_is_refused_where_nobody_sends_one),
        cmocka_unit_test(a_length_beyond_the_end_is_refused),
    };
    return cmocka_run_group_tests_name("script wire", tests, NULL, NULL);
}
