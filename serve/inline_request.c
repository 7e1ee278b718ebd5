/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A request that a person typed, split into words.
 */
#include "request.h"

#include <stdint.h>

struct splitting {
    const char *at, *end;
    char *out; /* never ahead of `at`: what is quoted becomes shorter */
};

static bool is_blank(char c) { return c == ' ' || c == '\t'; }

static int digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

/* Behind a backslash. */
static char escaped(struct splitting *s) {
    char c = *s->at++;
    if (c == 'x' && s->end - s->at >= 2 && digit(s->at[0]) >= 0 && digit(s->at[1]) >= 0) {
        c = (char)(digit(s->at[0]) * 16 + digit(s->at[1]));
        s->at += 2;
        return c;
    }
    if (c == 'n') return '\n';
    if (c == 'r') return '\r';
    if (c == 't') return '\t';
    return c;
}

/* Behind the opening quote. False: there is no closing one, or no blank behind it. */
static bool quoted(struct splitting *s, char quote) {
    while (s->at < s->end && *s->at != quote) {
        bool escapes = *s->at == '\\' && s->end - s->at >= 2 && (quote == '"' || s->at[1] == '\'');
        if (escapes) s->at++;
        *s->out++ = escapes ? escaped(s) : *s->at++;
    }
    if (s->at == s->end) return false;
    s->at++;
    return s->at == s->end || is_blank(*s->at);
}

static bool word(struct splitting *s) {
    while (s->at < s->end && !is_blank(*s->at)) {
        char c = *s->at++;
        if (c == '"' || c == '\'') return quoted(s, c);
        *s->out++ = c;
    }
    return true;
}

int request_split(char *inline_request, size_t bytes, struct script_bytes *words,
                  size_t count_max) {
    struct splitting s = {
        .at = inline_request, .end = inline_request + bytes, .out = inline_request};
    size_t count = 0;
    while (true) {
        while (s.at < s.end && is_blank(*s.at)) s.at++;
        if (s.at == s.end) return (int)count;
        if (count == count_max) return -1;
        char *from = s.out;
        if (!word(&s)) return -1;
        words[count++] = (struct script_bytes){from, (size_t)(s.out - from)};
    }
}
