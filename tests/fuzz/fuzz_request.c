/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Any bytes as requests: the same ones come out however the bytes were cut, and none is larger than
 * it may be. An input is a byte that says how it is cut, then what the client sends.
 */
#include "loop/request.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds, const char *what) {
    if (holds) return;
    fprintf(stderr, "broken: %s\n", what);
    abort();
}

/* What was read, as far as two readers can differ: a hash over all words and their lengths. */
struct seen {
    uint64_t hash;
    size_t requests;
    bool bad;
};

static void mix(struct seen *seen, const void *bytes, size_t count) {
    for (size_t i = 0; i < count; i++)
        seen->hash = (seen->hash ^ ((const unsigned char *)bytes)[i]) * 1099511628211U;
}

static void drain(struct request_reader *reader, struct seen *seen) {
    enum request_status status;
    while ((status = request_next(reader)) == REQUEST_READY) {
        size_t all = 0;
        must(reader->count <= REQUEST_WORDS_MAX, "too many words");
        for (size_t i = 0; i < reader->count; i++) {
            mix(seen, &reader->words[i].bytes, sizeof reader->words[i].bytes);
            mix(seen, reader->words[i].data, reader->words[i].bytes);
            all += reader->words[i].bytes;
        }
        must(all <= REQUEST_BYTES_MAX, "too many bytes");
        mix(seen, &reader->count, sizeof reader->count);
        seen->requests++;
    }
    if (status != REQUEST_BAD) return;
    must(reader->error != NULL && *reader->error != '\0', "no reason");
    seen->bad = true;
}

static struct seen read_all(const char *bytes, size_t count, size_t piece) {
    struct request_reader reader;
    struct seen seen = {.hash = 14695981039346656037U};
    must(request_open(&reader), "no reader");
    while (count > 0 && !seen.bad) {
        const size_t now = count < piece ? count : piece;
        /* A copy of exactly these bytes: what is read beyond them is found. */
        char *copy = malloc(now);
        must(copy != NULL, "no memory");
        memcpy(copy, bytes, now);
        request_feed(&reader, copy, now);
        free(copy);
        drain(&reader, &seen);
        bytes += now;
        count -= now;
    }
    request_close(&reader);
    return seen;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 2) return 0;
    const char *bytes = (const char *)data + 1;
    const struct seen whole = read_all(bytes, size - 1, size - 1),
                      cut = read_all(bytes, size - 1, 1 + (size_t)data[0] % 16);
    must(whole.requests == cut.requests, "another number of requests when cut");
    must(whole.hash == cut.hash, "other requests when cut");
    must(whole.bad == cut.bad, "another end when cut");
    return 0;
}
