/* SPDX-License-Identifier: BSD-2-Clause */
#include "trace.h"

#include <glob.h>
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

int text_main(int argc, char **argv, const char *pattern, int (*check)(const char *, bool)) {
    bool update = argc > 1 && strcmp(argv[1], "--update") == 0;
    glob_t all = {.gl_pathc = 0};
    int worst = 0, first = update ? 2 : 1;
    if (argc == 1 && glob(pattern, 0, NULL, &all) != 0) return fprintf(stderr, "no traces\n"), 2;
    for (int i = 0; i < (argc > 1 ? argc - first : (int)all.gl_pathc); i++) {
        int result = check(argc > 1 ? argv[first + i] : all.gl_pathv[i], update);
        if (result > worst) worst = result;
    }
    if (argc == 1) globfree(&all);
    return worst;
}
