/* SPDX-License-Identifier: BSD-2-Clause */
#include "trace.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

void text_add(struct text *text, const char *format, ...) {
    va_list args;
    va_start(args, format);
    size_t room = sizeof text->data - text->used;
    int n = vsnprintf(text->data + text->used, room, format, args);
    va_end(args);
    if (n < 0 || (size_t)n >= room) {
        fprintf(stderr, "trace too long\n");
        exit(2);
    }
    text->used += (size_t)n;
}

void text_ms(struct text *text, rl_ns at) {
    char digits[32];
    snprintf(digits, sizeof digits, "%.3f", (double)at / (double)RL_MS);
    size_t end = strlen(digits);
    while (digits[end - 1] == '0') end--;
    if (digits[end - 1] == '.') end--;
    text_add(text, "%.*sms", (int)end, digits);
}

void text_nodes(struct text *text, rl_mask mask) {
    const char *comma = "node";
    for (unsigned node = 0; node < RL_NODES_MAX; node++) {
        if ((mask & rl_bit(node)) == 0) continue;
        unsigned last = node;
        while (last + 1 < RL_NODES_MAX && (mask & rl_bit(last + 1))) last++;
        if (last > node)
            text_add(text, "%s%u..%u", comma, node + 1, last + 1);
        else
            text_add(text, "%s%u", comma, node + 1);
        comma = ",";
        node = last;
    }
}

void text_show_difference(FILE *out, const char *name, const char *wanted, const char *got) {
    fprintf(out, "%s: the machines did something else (-: the file, +: now)\n", name);
    unsigned line = 1;
    while (*wanted != '\0' || *got != '\0') {
        size_t w = strcspn(wanted, "\n"), g = strcspn(got, "\n");
        bool same = w == g && memcmp(wanted, got, w) == 0 && (wanted[w] == got[g]);
        if (!same) fprintf(out, "%4u -%.*s\n     +%.*s\n", line, (int)w, wanted, (int)g, got);
        wanted += w + (wanted[w] == '\n');
        got += g + (got[g] == '\n');
        line++;
    }
}
