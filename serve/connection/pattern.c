/* SPDX-License-Identifier: BSD-2-Clause
 *
 * This file does not use fnmatch(3): that ends at a NUL, and with many stars its time is unbounded.
 * This matcher remembers only the last star: it can match anything that an earlier one could. So
 * the time is at most pattern times text.
 */
#include "channel.h"

#include <string.h>

/* Behind the '[' at pattern[*at]; moves behind the ']' or to the end. */
static bool in_class(struct bytes pattern, size_t *at, unsigned char c) {
    bool negated = *at < pattern.bytes && pattern.data[*at] == '^', found = false;
    if (negated) (*at)++;
    while (*at < pattern.bytes && pattern.data[*at] != ']') {
        if (pattern.data[*at] == '\\' && *at + 1 < pattern.bytes) (*at)++;
        unsigned char from = (unsigned char)pattern.data[(*at)++], to = from;
        if (*at + 1 < pattern.bytes && pattern.data[*at] == '-' && pattern.data[*at + 1] != ']') {
            to = (unsigned char)pattern.data[*at + 1];
            *at += 2;
        }
        found = found || (from <= to ? c >= from && c <= to : c >= to && c <= from);
    }
    if (*at < pattern.bytes) (*at)++;
    return found != negated;
}

/* Matches one byte of the text against the element at *at, which is not a star; moves behind it. */
static bool matches_one(struct bytes pattern, size_t *at, unsigned char c) {
    char p = pattern.data[(*at)++];
    if (p == '?') return true;
    if (p == '[') return in_class(pattern, at, c);
    if (p == '\\' && *at < pattern.bytes) p = pattern.data[(*at)++];
    return (unsigned char)p == c;
}

size_t pattern_literal(struct bytes pattern) {
    size_t bytes = 0;
    while (bytes < pattern.bytes && memchr("*?[\\", pattern.data[bytes], 4) == NULL) bytes++;
    return bytes;
}

bool pattern_is_prefix(struct bytes pattern) {
    const size_t literal = pattern_literal(pattern);
    return literal + 1 == pattern.bytes && pattern.data[literal] == '*';
}

bool pattern_matches(struct bytes pattern, struct bytes text) {
    if (pattern_is_prefix(pattern))
        return text.bytes + 1 >= pattern.bytes &&
               memcmp(pattern.data, text.data, pattern.bytes - 1) == 0;
    const size_t nowhere = (size_t)-1;
    size_t p = 0, t = 0, star = nowhere, retry = 0;
    while (t < text.bytes) {
        size_t at = p;
        if (p < pattern.bytes && pattern.data[p] == '*') {
            star = ++p;
            retry = t;
        } else if (p < pattern.bytes && matches_one(pattern, &at, (unsigned char)text.data[t])) {
            p = at;
            t++;
        } else if (star != nowhere) {
            p = star;
            t = ++retry;
        } else {
            return false;
        }
    }
    while (p < pattern.bytes && pattern.data[p] == '*') p++;
    return p == pattern.bytes;
}
