/* SPDX-License-Identifier: BSD-2-Clause */
#include "commands/glob.h"

/* Matches `c` against the set that begins behind '['; *at moves behind its ']' (or to the end of a
 * pattern without one). */
static bool set_has(const unsigned char **at, const unsigned char *end, unsigned char c) {
    const unsigned char *p = *at;
    bool negated = p < end && *p == '^', found = false;
    if (negated) p++;
    for (; p < end && *p != ']'; p++) {
        if (*p == '\\' && end - p >= 2) {
            found = found || *++p == c;
        } else if (end - p >= 3 && p[1] == '-') {
            unsigned char low = p[0] < p[2] ? p[0] : p[2], high = p[0] < p[2] ? p[2] : p[0];
            found = found || (c >= low && c <= high);
            p += 2;
        } else {
            found = found || *p == c;
        }
    }
    *at = p < end ? p + 1 : p;
    return found != negated;
}

/* One character against what is at *at, which is not a star; *at moves behind it. */
static bool one_matches(const unsigned char **at, const unsigned char *end, unsigned char c) {
    unsigned char p = *(*at)++;
    if (p == '?') return true;
    if (p == '[') return set_has(at, end, c);
    if (p == '\\' && *at < end) p = *(*at)++;
    return p == c;
}

bool glob_matches(struct node_bytes pattern, struct node_bytes text) {
    const unsigned char *p = pattern.data, *p_end = p + pattern.bytes;
    const unsigned char *t = text.data, *t_end = t + text.bytes;
    const unsigned char *behind_star = NULL, *retry = NULL; /* the last star takes one more */
    while (t < t_end) {
        if (p < p_end && *p == '*') {
            behind_star = ++p;
            retry = t;
        } else if (p < p_end && one_matches(&p, p_end, *t)) {
            t++;
        } else if (behind_star) {
            p = behind_star;
            t = ++retry;
        } else {
            return false;
        }
    }
    while (p < p_end && *p == '*') p++;
    return p == p_end;
}
