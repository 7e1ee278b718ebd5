/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What all fuzz targets have in common: a rule that does not hold ends the run, and each input is
 * read from memory of exactly its size, so that the address sanitizer sees a read beyond its end.
 */
#ifndef FUZZ_MUST_H
#define FUZZ_MUST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static inline void must(bool holds, const char *what) {
    if (holds) return;
    fprintf(stderr, "broken: %s\n", what);
    abort();
}

/* Free it. */
static inline char *copy_of(const void *data, size_t size) {
    char *copy = malloc(size > 0 ? size : 1);
    must(copy != NULL, "no memory");
    if (size > 0) memcpy(copy, data, size);
    return copy;
}

/* The same with a NUL behind it; the text ends at its first NUL. Free it. */
static inline char *text_of(const void *data, size_t size) {
    char *text = strndup((const char *)data, size);
    must(text != NULL, "no memory");
    return text;
}

#endif
