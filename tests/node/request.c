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

/* ---- keys and tokens -------------------------------------------------------------------------------------- */

static char long_key[65536], long_token[1024];

static struct node_bytes text(const char *bytes) { return (struct node_bytes){bytes, strlen(bytes)}; }

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

/* ---- drawing ---------------------------------------------------------------------------------------------- */

static const unsigned weights[REQUEST_OPS_COUNT] = {
#define REQUEST_WEIGHT(name, weight) weight,
    REQUEST_OPS(REQUEST_WEIGHT)
#undef REQUEST_WEIGHT
};

static enum request_op draw_op(struct random *random) {
    uint64_t drawn = random_below(random, 1000);
    unsigned op = 0;
    while (drawn >= weights[op]) drawn -= weights[op++];
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
    return op == REQUEST_ACQUIRE_MANY || op == REQUEST_EXTEND || op == REQUEST_RELEASE;
}

static int64_t draw_number(struct random *random, enum request_op op) {
    switch (op) {
    case REQUEST_CLOCK_STEP: return draw_step_us(random);
    case REQUEST_CLOCK_TO_END: return ((int64_t)random_below(random, 3) - 1) * 1000; /* before, at, after */
    case REQUEST_PEXPIRE:
        if (random_below(random, 4) == 0) return -(int64_t)random_below(random, 3);
        return draw_ttl_ms(random);
    default: return draw_ttl_ms(random);
    }
}

struct request request_draw(struct random *random) {
    struct request request = {.op = draw_op(random), .keys_count = 1};
    if (takes_many(request.op)) {
        uint64_t drawn = random_below(random, 2 * REQUEST_KEYS_MAX);
        if (drawn < REQUEST_KEYS_MAX) request.keys_count = 1 + (unsigned)drawn;
    }
    for (unsigned i = 0; i < request.keys_count; i++) request.keys[i] = draw_key(random);
    request.token = draw_token(random);
    request.number = draw_number(random, request.op);
    return request;
}

/* ---- showing ---------------------------------------------------------------------------------------------- */

static const char *const names[REQUEST_OPS_COUNT] = {
#define REQUEST_NAME(name, weight) #name,
    REQUEST_OPS(REQUEST_NAME)
#undef REQUEST_NAME
};

void request_show(const struct request *request, char *out, size_t size) {
    int used = snprintf(out, size, "%-12s keys", names[request->op]);
    for (unsigned i = 0; i < request->keys_count && used > 0 && (size_t)used < size; i++)
        used += snprintf(out + used, size - (size_t)used, " %u", request->keys[i]);
    if (used > 0 && (size_t)used < size)
        snprintf(out + used, size - (size_t)used, ", token %u, number %" PRId64, request->token, request->number);
}

/* ---- answers ---------------------------------------------------------------------------------------------- */

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
        used += (size_t)snprintf(shown + used, sizeof(shown) - used, plain ? "%c" : "\\x%02x", data[i]);
    }
    shown[used] = 0;
    answer_line(answer, "=%s", shown);
}
