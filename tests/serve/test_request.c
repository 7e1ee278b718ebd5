/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Requests, cut anywhere, mixed of arrays and lines, and what is no request.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "loop/request.h"

/* All requests in the bytes, fed `piece` bytes at a time, as "[word|word][word]"; what ends it
 * otherwise is appended.
 */
static const char *read_all(const char *data, size_t bytes, size_t piece) {
    static char seen[1 << 20];
    size_t used = 0;
    struct request_reader reader;
    assert_true(request_open(&reader));
    for (size_t at = 0; at < bytes; at += piece) {
        request_feed(&reader, data + at, bytes - at < piece ? bytes - at : piece);
        enum request_status status;
        while ((status = request_next(&reader)) == REQUEST_READY) {
            used += (size_t)snprintf(seen + used, sizeof seen - used, "[");
            for (size_t i = 0; i < reader.count; i++)
                used +=
                    (size_t)snprintf(seen + used, sizeof seen - used, "%s%.*s", i > 0 ? "|" : "",
                                     (int)reader.words[i].bytes, reader.words[i].data);
            used += (size_t)snprintf(seen + used, sizeof seen - used, "]");
        }
        if (status != REQUEST_BAD) continue;
        snprintf(seen + used, sizeof seen - used, " bad: %s", reader.error);
        assert_int_equal(request_next(&reader), REQUEST_BAD);
        request_close(&reader);
        return seen;
    }
    snprintf(seen + used, sizeof seen - used, "%s", reader.midway ? " midway" : "");
    request_close(&reader);
    return seen;
}

static void reads(const char *data, const char *expected) {
    for (size_t piece = 1; piece <= strlen(data); piece++)
        assert_string_equal(read_all(data, strlen(data), piece), expected);
}

static void test_arrays_and_lines_cut_anywhere(void **state) {
    (void)state;
    reads("*2\r\n$3\r\nGET\r\n$1\r\nk\r\n", "[GET|k]");
    reads("*1\r\n$4\r\nPING\r\n*2\r\n$3\r\nGET\r\n$0\r\n\r\n", "[PING][GET|]");
    reads("PING\r\nGET  k\n\r\n*1\r\n$4\r\nPING\r\nECHO x\r\n*1\r\n$4\r\nQUIT\r\n",
          "[PING][GET|k][][PING][ECHO|x][QUIT]");
    reads("*0\r\n*-1\r\n*1\r\n$1\r\na\r\n", "[][][a]");
    reads("*2\r\n$3\r\nGET\r\n$5\r\n*1\r\n+\r\n", "[GET|*1\r\n+]");
    reads("*2\r\n$3\r\nGET\r\n$1", " midway");
    reads("PI", " midway");
}

static void test_quotes(void **state) {
    (void)state;
    reads("SET k \"a b\" 'c d' \"\\x41\\\"\\\\\\t\" 'it\\'s'\r\n", "[SET|k|a b|c d|A\"\\\t|it's]");
    reads("a\"b c\"\r\n", "[ab c]");
    reads("SET \"\" ''\r\n", "[SET||]");
    reads("SET \"k\r\n", " bad: unbalanced quotes in request");
    reads("SET \"k\"v\r\n", " bad: unbalanced quotes in request");
    reads("SET 'k\r\n", " bad: unbalanced quotes in request");
    reads("SET \"k\\\"\r\n", " bad: unbalanced quotes in request");
}

static void is_bad(const char *data, size_t bytes) {
    for (size_t piece = 1; piece <= bytes; piece = piece < 64 ? piece + 1 : piece * 2)
        assert_non_null(strstr(read_all(data, bytes, piece), " bad: "));
}

static void test_what_is_no_request(void **state) {
    (void)state;
    static const char *const texts[] = {"*x\r\n",
                                        "*1\r\n:5\r\n",
                                        "*1\r\n+a\r\n",
                                        "*1\r\n-a\r\n",
                                        "*1\r\n$-1\r\n",
                                        "*1\r\n*0\r\n",
                                        "*1\r\n$x\r\n",
                                        "*257\r\n",
                                        "*2147483648\r\n",
                                        "*1\r\n$-2\r\n",
                                        "*1\r\nabc\r\n",
                                        "\x16\x03\x01\r\n",
                                        "\x80garbage\x01\r\n",
                                        "a\x7f\r\n",
                                        "PING\r\n\x01\r\n"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) is_bad(texts[i], strlen(texts[i]));
    is_bad("a\0b\r\n", 5);
}

static void test_bounds(void **state) {
    (void)state;
    size_t bytes = REQUEST_BYTES_MAX + 40000;
    char *data = malloc(bytes);
    assert_non_null(data);
    memset(data, 'x', bytes);
    is_bad(data, bytes); /* a line without end */
    int head = sprintf(data, "*2\r\n$4\r\nECHO\r\n$%d\r\n", REQUEST_BYTES_MAX);
    data[head] = 'x';
    assert_non_null(strstr(read_all(data, bytes, 16384), "the request is too long"));
    head = sprintf(data, "*2\r\n$4\r\nECHO\r\n$%d\r\n", 65536);
    data[head] = 'x';
    memcpy(data + head + 65536, "\r\n", 2);
    assert_int_equal(strlen(read_all(data, (size_t)head + 65538, 16384)),
                     65536 + strlen("[ECHO|]"));
    free(data);
}

/* Whatever comes, and however it is cut, it reads the same: as requests, or up to the same
 * refusal. */
static void test_random_bytes_read_the_same_however_cut(void **state) {
    (void)state;
    static const char alphabet[] = "*$123\r\n\r\n ab\"'\\:+-x";
    uint32_t seed = 1;
    for (int round = 0; round < 3000; round++) {
        char data[40], whole[4096];
        size_t bytes = 0;
        while (bytes < sizeof data) {
            seed = seed * 1664525 + 1013904223;
            data[bytes++] = alphabet[(seed >> 16) % (sizeof alphabet - 1)];
        }
        if (round % 2 == 0) memcpy(data, "*2\r\n$1\r\n", 8);
        snprintf(whole, sizeof whole, "%.4095s", read_all(data, bytes, bytes));
        for (size_t piece = 1; piece < bytes; piece += 5) {
            const char *cut = read_all(data, bytes, piece);
            const char *bad = strstr(whole, " bad: ");
            /* A refusal may come sooner or by another name when the bytes come one by one; what was
             * read before is the same. */
            size_t same = bad != NULL ? (size_t)(bad - whole) : strlen(whole);
            assert_memory_equal(cut, whole, same);
            assert_int_equal(bad != NULL, strstr(cut, " bad: ") != NULL);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_arrays_and_lines_cut_anywhere), cmocka_unit_test(test_quotes),
        cmocka_unit_test(test_what_is_no_request), cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_random_bytes_read_the_same_however_cut)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
