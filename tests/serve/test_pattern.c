/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "connection/channel.h"

static bool matches(const char *pattern, const char *text) {
    return pattern_matches((struct bytes){pattern, strlen(pattern)},
                           (struct bytes){text, strlen(text)});
}

static void test_as_redis_does(void **state) {
    (void)state;
    static const struct {
        const char *pattern, *text;
        bool matches;
    } rows[] = {{"", "", true},
                {"", "a", false},
                {"*", "", true},
                {"*", "anything", true},
                {"a*", "abc", true},
                {"a*", "ba", false},
                {"*c", "abc", true},
                {"*c", "abd", false},
                {"a*c", "ac", true},
                {"a*b*c", "aXbYbZc", true},
                {"a*b*c", "aXbYd", false},
                {"?", "a", true},
                {"?", "", false},
                {"a?c", "abc", true},
                {"a?c", "ac", false},
                {"[abc]", "b", true},
                {"[abc]", "d", false},
                {"[a-c]x", "bx", true},
                {"[c-a]", "b", true},
                {"[^a-c]", "d", true},
                {"[^a-c]", "a", false},
                {"\\*", "*", true},
                {"\\*", "a", false},
                {"a\\?b", "a?b", true},
                {"[\\]]", "]", true},
                {"**", "x", true},
                {"*?", "", false},
                {"*?", "x", true},
                {"[a", "a", true},
                {"a\\", "a\\", true},
                {"__key*__:lock:*", "__keyspace@0__:lock:7", true},
                {"__keyevent@0__:del", "__keyevent@0__:delx", false}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (matches(rows[i].pattern, rows[i].text) != rows[i].matches)
            fail_msg("'%s' and '%s' should %s", rows[i].pattern, rows[i].text,
                     rows[i].matches ? "match" : "not match");
    }
}

static void test_bytes_with_nul(void **state) {
    (void)state;
    assert_true(pattern_matches((struct bytes){"a\0*", 3}, (struct bytes){"a\0bc", 4}));
    assert_false(pattern_matches((struct bytes){"a\0*", 3}, (struct bytes){"a", 1}));
}

/* With a matcher that tries all the stars this would not end. */
static void test_many_stars_end_soon(void **state) {
    (void)state;
    static char pattern[600], text[60000];
    for (size_t i = 0; i + 1 < sizeof pattern; i += 2) memcpy(pattern + i, "*a", 2);
    memset(text, 'a', sizeof text);
    text[sizeof text - 1] = 'b';
    assert_false(pattern_matches((struct bytes){pattern, sizeof pattern},
                                 (struct bytes){text, sizeof text}));
}

static struct bytes bytes_of(const char *text) { return (struct bytes){text, strlen(text)}; }

static void test_what_stands_before_the_first_wildcard(void **state) {
    (void)state;
    static const struct {
        const char *pattern;
        size_t literal;
        bool is_prefix;
    } rows[] = {{"", 0, false},    {"*", 0, true},    {"a", 1, false},     {"a*", 1, true},
                {"a*b", 1, false}, {"ab?", 2, false}, {"ab[c]", 2, false}, {"a\\*", 1, false},
                {"a**", 1, false}, {"?*", 0, false}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_int_equal(pattern_literal(bytes_of(rows[i].pattern)), rows[i].literal);
        assert_int_equal(pattern_is_prefix(bytes_of(rows[i].pattern)), rows[i].is_prefix);
    }
    assert_true(matches("lock:*", "lock:"));
    assert_true(matches("lock:*", "lock:7"));
    assert_false(matches("lock:*", "lock"));
    assert_false(matches("lock:*", "lick:7"));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_what_stands_before_the_first_wildcard),
                                       cmocka_unit_test(test_as_redis_does),
                                       cmocka_unit_test(test_bytes_with_nul),
                                       cmocka_unit_test(test_many_stars_end_soon)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
