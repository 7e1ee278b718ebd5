/* SPDX-License-Identifier: BSD-2-Clause */
#include "phrase.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct phrase_time phrase_time(rl_ns time) {
    int64_t thousandths = time / 1000;
    const char *unit = "ms";
    if (thousandths >= 1000000) {
        thousandths /= 1000;
        unit = "s";
    }
    char fraction[8];
    snprintf(fraction, sizeof fraction, ".%03d", (int)(thousandths % 1000));
    size_t length = 4;
    while (length > 1 && fraction[length - 1] == '0') length--;
    if (length == 1) length = 0;
    struct phrase_time out;
    snprintf(out.text, sizeof out.text, "%" PRId64 "%.*s %s", thousandths / 1000, (int)length,
             fraction, unit);
    return out;
}

struct phrase_time phrase_step(rl_ns step) {
    const int64_t hour = 3600 * 1000 * RL_MS, span = step < 0 ? -step : step;
    const char sign = step < 0 ? '-' : '+';
    struct phrase_time out;
    if (span >= hour && span % hour == 0)
        snprintf(out.text, sizeof out.text, "%c%" PRId64 " h", sign, span / hour);
    else
        snprintf(out.text, sizeof out.text, "%c%.30s", sign, phrase_time(span).text);
    return out;
}

void phrase_begin(struct phrase *phrase, char *text, size_t size) {
    *phrase = (struct phrase){.text = text, .size = size};
    text[0] = '\0';
}

void phrase_add(struct phrase *phrase, const char *format, ...) {
    if (phrase->used + 1 >= phrase->size) return;
    va_list arguments;
    va_start(arguments, format);
    int length =
        vsnprintf(phrase->text + phrase->used, phrase->size - phrase->used, format, arguments);
    va_end(arguments);
    if (length < 0) return;
    phrase->used += (size_t)length;
    if (phrase->used >= phrase->size) phrase->used = phrase->size - 1;
}

struct phrase_nodes phrase_nodes(rl_mask nodes) {
    unsigned list[RL_NODES_MAX], count = 0;
    for (unsigned i = 0; i < RL_NODES_MAX; i++)
        if (nodes & rl_bit(i)) list[count++] = i + 1;
    struct phrase_nodes out;
    struct phrase phrase;
    phrase_begin(&phrase, out.text, sizeof out.text);
    phrase_add(&phrase, count == 1 ? "node " : count == 0 ? "no node" : "nodes ");
    if (count > 2 && list[count - 1] - list[0] == count - 1) {
        phrase_add(&phrase, "%u to %u", list[0], list[count - 1]);
        return out;
    }
    for (unsigned i = 0; i < count; i++) {
        const char *before = i == 0 ? "" : i + 1 == count ? " and " : ", ";
        phrase_add(&phrase, "%s%u", before, list[i]);
    }
    return out;
}

/* Length of the well-formed UTF-8 sequence that begins there; 0: none, or a control character. */
static size_t plain_length(const unsigned char *at, size_t bytes) {
    const unsigned char first = at[0];
    if (first < 0x80) return first == '\t' || (first >= ' ' && first != 0x7f);
    const size_t length = first < 0xc2   ? 0
                          : first < 0xe0 ? 2
                          : first < 0xf0 ? 3
                          : first < 0xf5 ? 4
                                         : 0;
    if (length == 0 || length > bytes) return 0;
    for (size_t i = 1; i < length; i++)
        if ((at[i] & 0xc0) != 0x80) return 0;
    const bool c1 = first == 0xc2 && at[1] < 0xa0; /* some terminals obey these */
    const bool overlong = (first == 0xe0 && at[1] < 0xa0) || (first == 0xf0 && at[1] < 0x90);
    const bool beyond = (first == 0xed && at[1] > 0x9f) || (first == 0xf4 && at[1] > 0x8f);
    return c1 || overlong || beyond ? 0 : length;
}

char *phrase_plain(char *out, size_t size, const char *text, size_t bytes) {
    const unsigned char *at = (const unsigned char *)text, *end = at + bytes;
    size_t used = 0;
    while (at < end) {
        const size_t length = plain_length(at, (size_t)(end - at));
        if (used + (length > 0 ? length : 4) >= size) break;
        if (length > 0) memcpy(out + used, at, length);
        if (length == 0) snprintf(out + used, size - used, "\\x%02x", *at);
        used += length > 0 ? length : 4;
        at += length > 0 ? length : 1;
    }
    out[used] = '\0';
    return out;
}
