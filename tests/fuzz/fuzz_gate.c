/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Any bytes as a gate's file. Once a fence is admitted no lower one is, not even by a gate that is
 * opened anew; a file that is not sound lets nobody pass. An input is a byte of flags, then the
 * header, the two slots and the buckets without the room between them. The flags say which sums are
 * made right, else no input would get behind them.
 */
#include "gate/file.h"

#include <sys/mman.h>
#include <unistd.h>

#include "must.h"
#include "redlock/fence.h"

enum { BLOCK = 4096, HEADER = 40, BUCKET = sizeof(struct gate_bucket), BUCKETS_MAX = 64 };
enum {
    FLAG_HEADER = 1,
    FLAG_SLOT_0 = 2,
    FLAG_SLOT_1 = 4,
    FLAG_BUCKETS = 8,
    FLAG_MAGIC = 16,
    FLAG_COUNT = 32,
    FLAG_CUT = 64
};

static char path[64];
static int file;

static void open_file(void) {
    file = memfd_create("gate", MFD_CLOEXEC);
    must(file >= 0, "no file");
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
}

static void put(const void *data, size_t bytes, off_t at) {
    must(pwrite(file, data, bytes, at) == (ssize_t)bytes, "not written");
}

static void put_header(uint8_t flags, unsigned char header[HEADER], uint64_t count) {
    const uint64_t order = UINT64_C(0x0102030405060708);
    uint64_t salt, sum;
    memcpy(&salt, header + 16, sizeof salt);
    if (flags & FLAG_MAGIC)
        memcpy(header, "\x89rlgat2", 8), memcpy(header + 8, &order, sizeof order);
    if (flags & FLAG_COUNT) memcpy(header + 24, &count, sizeof count);
    sum = gate_hash(salt, header, HEADER - sizeof sum);
    if (flags & FLAG_HEADER) memcpy(header + HEADER - sizeof sum, &sum, sizeof sum);
    put(header, HEADER, 0);
}

static void put_bucket(const uint8_t *data, size_t bytes, bool seals, uint64_t salt, off_t at) {
    struct gate_bucket bucket = {.sum = 0};
    memcpy(&bucket, data, bytes < sizeof bucket ? bytes : sizeof bucket);
    if (seals) gate_bucket_seal(&bucket, salt);
    put(&bucket, sizeof bucket, at);
}

static void spread(const uint8_t *data, size_t size) {
    unsigned char header[HEADER] = {0};
    const uint8_t flags = size > 0 ? *data++ : 0;
    uint64_t salt, count = 0;
    size -= size > 0;
    memcpy(header, data, size < HEADER ? size : HEADER);
    data += size < HEADER ? size : HEADER;
    size -= size < HEADER ? size : HEADER;
    memcpy(&salt, header + 16, sizeof salt);
    must(ftruncate(file, 0) == 0 && ftruncate(file, 3 * BLOCK) == 0, "not cut");
    for (size_t i = 0; size > 0 && i < 2 + BUCKETS_MAX; i++) {
        const size_t bytes = size < BUCKET ? size : BUCKET;
        const bool seals = flags & (i == 0 ? FLAG_SLOT_0 : i == 1 ? FLAG_SLOT_1 : FLAG_BUCKETS);
        put_bucket(data, bytes, seals, salt,
                   i < 2 ? (off_t)(i + 1) * BLOCK : 3 * BLOCK + (off_t)(i - 2) * BUCKET);
        count = i < 2 ? 0 : i - 1;
        data += bytes;
        size -= bytes;
    }
    put_header(flags, header, count);
    if (flags & FLAG_CUT) must(ftruncate(file, lseek(file, 0, SEEK_END) - 1) == 0, "not cut");
}

static struct redlock_fence_gate *open_gate(void) {
    struct redlock_fence_gate_options options;
    struct redlock_fence_gate *gate = NULL;
    struct redlock_error error = {0};
    redlock_fence_gate_options_init(&options);
    options.path = path;
    options.create = 0;
    const int result = redlock_fence_gate_open(&options, &gate, &error);
    must((result == REDLOCK_OK) == (gate != NULL), "a gate that was not opened");
    must(result == REDLOCK_OK || error.text[0] != '\0', "refused without a sentence");
    return gate;
}

/* The least that may be admitted; 0: all. */
static int64_t pass(struct redlock_fence_gate *gate, const char *resource) {
    static const int64_t fences[] = {1, 7, INT64_C(1) << 40, REDLOCK_FENCE_MAX - 1, 5};
    int64_t highest = 0, least;
    for (size_t i = 0; i < sizeof fences / sizeof fences[0]; i++) {
        const int result = redlock_fence_admit(gate, resource, strlen(resource), fences[i]);
        must(result == REDLOCK_OK || result == REDLOCK_FENCED || result == REDLOCK_SYSTEM,
             "no such result");
        if (result != REDLOCK_OK) continue;
        must(fences[i] >= highest, "a lower fence was admitted");
        highest = fences[i];
        must(redlock_fence_least(gate, resource, strlen(resource), &least) != REDLOCK_OK ||
                 least >= highest,
             "a lower fence would be admitted");
        /* a writer must be above a reader */
        if (redlock_fence_admit_shared(gate, resource, strlen(resource), fences[i]) == REDLOCK_OK)
            highest = fences[i] + 1;
    }
    return highest;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const resources[] = {"a", "db/orders", "c"};
    int64_t highest[3] = {0};
    if (path[0] == '\0') open_file();
    spread(data, size);
    for (int round = 0; round < 2; round++) {
        struct redlock_fence_gate *gate = open_gate();
        for (size_t i = 0; i < 3 && gate != NULL; i++) {
            const int result =
                highest[i] < 2
                    ? REDLOCK_FENCED
                    : redlock_fence_admit(gate, resources[i], strlen(resources[i]), highest[i] - 1);
            must(result != REDLOCK_OK, "a lower fence is admitted after opening again");
            highest[i] = pass(gate, resources[i]);
        }
        redlock_fence_gate_free(gate);
    }
    return 0;
}
