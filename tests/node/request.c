/* SPDX-License-Identifier: BSD-2-Clause */
#include "request.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* splitmix64: any seed is a good one. */
uint64_t random_next(struct random *random) {
    uint64_t z = random->state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

uint64_t random_below(struct random *random, uint64_t limit) { return random_next(random) % limit; }

/* ---- keys and tokens ------------------------------------------------------------------------- */

static char long_key[65536], long_token[1024];

static struct node_bytes text(const char *bytes) {
    return (struct node_bytes){bytes, strlen(bytes)};
}

static struct node_bytes long_bytes(char *bytes, size_t size) {
    if (bytes[0] == 0)
        for (size_t i = 0; i < size; i++) bytes[i] = (char)(1 + i % 255);
    return (struct node_bytes){bytes, size};
}

struct node_bytes request_key(uint8_t number) {
    switch (number) {
    case 0: return text("a");
    case 1: return text("b");
    case 2: return text("a\r\n$1");
    case 3: return (struct node_bytes){"a\0b", 3};
    case 4: return (struct node_bytes){"", 0};
    case 5: return text("{a}:{b}");
    default: return long_bytes(long_key, sizeof(long_key));
    }
}

struct node_bytes request_list_key(uint8_t number) {
    static const char prefix[] = "redlock:shared:";
    static char name[sizeof(prefix) - 1 + sizeof(long_key)];
    struct node_bytes key = request_key(number);
    memcpy(name, prefix, sizeof(prefix) - 1);
    memcpy(name + sizeof(prefix) - 1, key.data, key.bytes);
    return (struct node_bytes){name, sizeof(prefix) - 1 + key.bytes};
}

struct node_bytes request_token(uint8_t number) {
    switch (number) {
    case 0: return text("0123456789012345678901234567890123456789");
    case 1: return text("0123456789012345678901234567890123456788");
    case 2: return text("01234567890123456789"); /* begins the first */
    case 3: return (struct node_bytes){"t\0\r\n", 4};
    case 4: return (struct node_bytes){"", 0};
    default: return long_bytes(long_token, sizeof(long_token));
    }
}

/* ---- record and fences ----------------------------------------------------------------------- */

uint64_t request_nonce(uint8_t number) {
    static const uint64_t nonces[REQUEST_NONCES] = {0, 0xb, 0x00c0ffee00000000, UINT64_MAX};
    return nonces[number];
}

uint64_t request_added(const struct request *request) {
    const uint64_t from = request_nonce(request->nonce),
                   to = request_nonce((uint8_t)(1 + request->expected % (REQUEST_NONCES - 1)));
    return ((to >> 32) - (from >> 32)) << 32 | (uint32_t)(to - from);
}

void request_nonce_text(uint64_t nonce, char digits[REQUEST_NONCE_BYTES]) {
    snprintf(digits, REQUEST_NONCE_BYTES, "%016" PRIx64, nonce);
}

void request_name(uint8_t number, char name[REQUEST_NAME_BYTES]) {
    char digits[REQUEST_NONCE_BYTES] = "kept";
    if (number > 0 && number < REQUEST_NONCES) request_nonce_text(request_nonce(number), digits);
    snprintf(name, REQUEST_NAME_BYTES, "redlock:fences:%s", digits);
    if (number == REQUEST_RECORD_NAME) snprintf(name, REQUEST_NAME_BYTES, "redlock:node");
}

/* The nonce is first or last; values are those of all tokens, so that some are empty, long, or no
 * text. */
size_t request_fields(const struct request *request, struct node_field *fields,
                      char digits[REQUEST_NONCE_BYTES]) {
    static const char *const names[REQUEST_FIELDS_MAX] = {"a", "b",    "standing",
                                                          "n", "nonc", "member\0\r\n"};
    size_t nonce_at = request->token % 2 ? request->fields : 0, count = request->fields + 1u;
    request_nonce_text(request_nonce(request->nonce), digits);
    for (size_t i = 0, other = 0; i < count; i++) {
        if (i == nonce_at) {
            fields[i] = (struct node_field){text("nonce"), text(digits)};
            continue;
        }
        fields[i].name = text(names[other]);
        if (other == REQUEST_FIELDS_MAX - 1) fields[i].name.bytes += 3;
        fields[i].value = request_token((uint8_t)((request->token + other++) % REQUEST_TOKENS));
    }
    return count;
}

const int64_t *request_floor_of(const struct request *request) {
    static int64_t floor[NODE_STRIPES];
    if (request->floor == FLOOR_NONE) return NULL;
    memset(floor, 0, sizeof(floor));
    if (request->floor == FLOOR_ALL)
        for (int i = 0; i < NODE_STRIPES; i++)
            floor[i] = REQUEST_FENCE_MAX - (i * 37 + request->token) % 5000;
    if (request->floor == FLOOR_FEW)
        for (unsigned i = 0; i < request->stripes_count; i++)
            floor[request->stripes[i]] = request->fence;
    return floor;
}

/* ---- drawing --------------------------------------------------------------------------------- */

static const unsigned weights[REQUEST_OPS_COUNT] = {
#define REQUEST_WEIGHT(name, weight) weight,
    REQUEST_OPS(REQUEST_WEIGHT)
#undef REQUEST_WEIGHT
};

static enum request_op draw_op(struct random *random, bool guarded) {
    unsigned op;
    do {
        uint64_t drawn = random_below(random, 1000);
        for (op = 0; drawn >= weights[op]; op++) drawn -= weights[op];
    } while (!guarded && request_is_guarded((enum request_op)op));
    return (enum request_op)op;
}

/* Few, so that requests meet; the long one seldom, for it is slow. */
static uint8_t draw_key(struct random *random) {
    if (random_below(random, 100) == 0) return REQUEST_KEYS - 1;
    return (uint8_t)random_below(random, REQUEST_KEYS - 1);
}

/* Mostly two that differ in their last byte. */
static uint8_t draw_token(struct random *random) {
    if (random_below(random, 3) > 0) return (uint8_t)random_below(random, 2);
    return (uint8_t)random_below(random, REQUEST_TOKENS);
}

static int64_t draw_ttl_ms(struct random *random) {
    switch (random_below(random, 8)) {
    case 0: return 1;
    case 1: return 2;
    case 2: return 10000000000000; /* some 300 years */
    default: return 1 + (int64_t)random_below(random, 300);
    }
}

static int64_t draw_step_us(struct random *random) {
    switch (random_below(random, 10)) {
    case 0: return (int64_t)random_below(random, 1000); /* within a millisecond or two */
    case 1: return -(int64_t)random_below(random, 1000);
    case 2: return -(int64_t)random_below(random, 400000);          /* what ended may live again */
    case 3: return -(int64_t)random_below(random, 86400) * 1000000; /* a day back */
    case 4: return (int64_t)random_below(random, 86400) * 1000000;
    default: return (int64_t)random_below(random, 200000);
    }
}

static bool takes_many(enum request_op op) {
    return op == REQUEST_ACQUIRE_MANY || op == REQUEST_EXTEND || op == REQUEST_RELEASE ||
           op == REQUEST_ACQUIRE_GUARDED || op == REQUEST_EXTEND_GUARDED || op == REQUEST_CONFIRM;
}

static int64_t draw_number(struct random *random, enum request_op op) {
    switch (op) {
    case REQUEST_CLOCK_STEP: return draw_step_us(random);
    case REQUEST_CLOCK_TO_END:
        return ((int64_t)random_below(random, 3) - 1) * 1000; /* before, at, after */
    case REQUEST_PEXPIRE:
        if (random_below(random, 4) == 0) return -(int64_t)random_below(random, 3);
        return draw_ttl_ms(random);
    default: return draw_ttl_ms(random);
    }
}

/* Few groups, so that what was raised together is asked for together. */
static void draw_stripes(struct random *random, struct request *request) {
    static const struct {
        unsigned count;
        uint16_t stripes[REQUEST_STRIPES_MAX];
    } groups[] = {{1, {0}},      {1, {4095}}, {2, {0, 1}}, {3, {4095, 7, 2048}},
                  {2, {7, 511}}, {1, {512}}};
    unsigned group = (unsigned)random_below(random, sizeof(groups) / sizeof(groups[0]));
    request->stripes_count = groups[group].count;
    memcpy(request->stripes, groups[group].stripes, sizeof(request->stripes));
}

static enum request_floor draw_floor(struct random *random) {
    switch (random_below(random, 20)) {
    case 0: return FLOOR_ZEROS;
    case 1: return FLOOR_FEW;
    case 2: return FLOOR_ALL;
    case 3:
    case 4:
    case 5:
    case 6:
    case 7: return FLOOR_NONE;
    default: return FLOOR_IF_ABSENT;
    }
}

static void draw_guarded(struct random *random, struct request *request) {
    bool writes = request->op == REQUEST_RECORD_WRITE;
    request->nonce = REQUEST_NONCE_PRESENT;
    if (random_below(random, 10) == 0)
        request->nonce = (uint8_t)random_below(random, REQUEST_NONCES);
    if (writes) request->nonce = (uint8_t)(1 + random_below(random, REQUEST_NONCES - 1));
    request->name = (uint8_t)random_below(random, REQUEST_NAMES);
    draw_stripes(random, request);
    request->above = (int64_t)random_below(random, 4) - 1;
    if (random_below(random, 20) == 0) request->above = (int64_t)random_below(random, 1000000);
    request->blind = random_below(random, 8) == 0;
    request->expected = (uint8_t)random_below(random, REQUEST_NONCES);
    request->was_kept = random_below(random, 2) == 0;
    request->keep = random_below(random, 5) == 0;
    request->floor = draw_floor(random);
    request->fields = (uint8_t)random_below(random, REQUEST_FIELDS_MAX + 1);
}

struct request request_draw(struct random *random, bool guarded) {
    struct request request = {.op = draw_op(random, guarded), .keys_count = 1};
    if (takes_many(request.op)) {
        uint64_t drawn = random_below(random, 2 * REQUEST_KEYS_MAX);
        if (drawn < REQUEST_KEYS_MAX) request.keys_count = 1 + (unsigned)drawn;
    }
    for (unsigned i = 0; i < request.keys_count; i++) request.keys[i] = draw_key(random);
    request.token = draw_token(random);
    request.number = draw_number(random, request.op);
    if (request_is_guarded(request.op)) draw_guarded(random, &request);
    return request;
}

/* ---- showing --------------------------------------------------------------------------------- */

static const char *const names[REQUEST_OPS_COUNT] = {
#define REQUEST_NAME(name, weight) #name,
    REQUEST_OPS(REQUEST_NAME)
#undef REQUEST_NAME
};

static void show_guarded(const struct request *request, FILE *out) {
    fprintf(out, ", nonce %u, stripes", request->nonce);
    for (unsigned i = 0; i < request->stripes_count; i++) fprintf(out, " %u", request->stripes[i]);
    fprintf(out, ", above %" PRId64, request->above);
    if (request->op == REQUEST_DEL_NAME) fprintf(out, ", name %u", request->name);
    if (request->op == REQUEST_RECORD_WRITE)
        fprintf(out, ", expected %u (blind %d), was_kept %d, keep %d, floor %d, fields %u",
                request->expected, request->blind, request->was_kept, request->keep,
                (int)request->floor, request->fields);
}

void request_show(const struct request *request, FILE *out) {
    fprintf(out, "%-12s keys", names[request->op]);
    for (unsigned i = 0; i < request->keys_count; i++) fprintf(out, " %u", request->keys[i]);
    fprintf(out, ", token %u, number %" PRId64, request->token, request->number);
    if (request_is_guarded(request->op)) show_guarded(request, out);
    fputc('\n', out);
}

/* ---- answers --------------------------------------------------------------------------------- */

void answer_clear(struct answer *answer) {
    answer->used = 0;
    answer->text[0] = 0;
}

static void no_room(void) {
    fputs("an answer is longer than the test thought possible\n", stderr);
    abort();
}

void answer_line(struct answer *answer, const char *format, ...) {
    size_t left = sizeof(answer->text) - answer->used;
    va_list args;
    va_start(args, format);
    int bytes = vsnprintf(answer->text + answer->used, left, format, args);
    va_end(args);
    if (bytes < 0 || (size_t)bytes + 2 > left) no_room();
    answer->used += (size_t)bytes;
    answer->text[answer->used++] = '\n';
    answer->text[answer->used] = 0;
}

void answer_bytes(struct answer *answer, struct node_bytes bytes) {
    char shown[4 * sizeof(long_token) + 1];
    const unsigned char *data = bytes.data;
    size_t used = 0;
    if (bytes.bytes > sizeof(long_token)) no_room();
    for (size_t i = 0; i < bytes.bytes; i++) {
        bool plain = data[i] > ' ' && data[i] < 127 && data[i] != '\\';
        used +=
            (size_t)snprintf(shown + used, sizeof(shown) - used, plain ? "%c" : "\\x%02x", data[i]);
    }
    shown[used] = 0;
    answer_line(answer, "=%s", shown);
}

static int compare_fields(const void *a, const void *b) {
    struct node_bytes x = (*(const struct node_field *const *)a)->name,
                      y = (*(const struct node_field *const *)b)->name;
    int order = memcmp(x.data, y.data, x.bytes < y.bytes ? x.bytes : y.bytes);
    return order ? order : (x.bytes > y.bytes) - (x.bytes < y.bytes);
}

void answer_fields(struct answer *answer, const struct node_field *fields, size_t count) {
    const struct node_field *sorted[NODE_FIELDS_MAX];
    if (count > NODE_FIELDS_MAX) no_room();
    for (size_t i = 0; i < count; i++) sorted[i] = &fields[i];
    qsort(sorted, count, sizeof(sorted[0]), compare_fields);
    answer_line(answer, "%zu fields", count);
    for (size_t i = 0; i < count; i++) {
        answer_bytes(answer, sorted[i]->name);
        answer_bytes(answer, sorted[i]->value);
    }
}

void answer_fences(struct answer *answer, const char *name, const int64_t fences[NODE_STRIPES]) {
    uint64_t digest = 0;
    unsigned above = 0;
    for (unsigned i = 0; i < NODE_STRIPES; i++) {
        above += fences[i] > 0;
        digest = (digest ^ (uint64_t)fences[i]) * 0x9e3779b97f4a7c15u + i;
    }
    answer_line(answer, "%s: %u of %d above 0, digest %016" PRIx64, name, above, NODE_STRIPES,
                digest);
}
