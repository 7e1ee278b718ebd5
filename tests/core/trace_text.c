/* SPDX-License-Identifier: BSD-2-Clause */
#include "trace.h"

#include <string.h>

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
