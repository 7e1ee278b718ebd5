/* SPDX-License-Identifier: BSD-2-Clause
 *
 * One sequence of random requests to a real redis-server and to the table of src/node; every reply
 * is compared, and after every request the number of keys. The server's wall clock is held by the
 * test (stepclock.c): it stands still, and steps forward and back between requests, so PTTLs and
 * the millisecond of an end are compared exactly.
 *
 * Before that come requests that chance would not bring: fixed_requests.txt.
 *
 * Record and fences are compared too, with every set of fences as a whole at the end of a sequence.
 *
 * What is not compared, because the simulator's node takes it from elsewhere or draws it:
 *  - when active expiry finds a key that has ended. It is off here but for the request that asks
 *    for all of it.
 *  - which key an eviction takes, and OOM, LOADING, READONLY: not the table's.
 *  - a script or key that is slow: time stands still within a request, as scripts of the server see
 *    it anyway.
 *  - TTLs that a server refuses (0, negative, beyond 64 bits): the library does not send them.
 *
 * usage: differential STEPCLOCK [--seed S] [--requests N] [--skew-us U] [--shrink 0] --shrink 0:
 * the first difference is enough, no shorter sequence is looked for. --skew-us: every other step
 * takes the server's clock so much further than the table's (a skew that stays would not show: TTLs
 * are relative). Proves that the comparison is as exact as it says. Exit status: differs.h.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "differs.h"
#include "fixed.h"
#include "model.h"
#include "model_guarded.h"
#include "real.h"

enum { SEQUENCE_LENGTH = 500, REQUESTS_USUAL = 50000 };

static const int64_t clock_begin_us = 1700000000000000;

struct comparison {
    struct real *real;
    struct model *model;
    int64_t now_us, skew_us;
    bool skewed, guarded;
    struct answer expected, got;
};

static void set_clock(struct comparison *comparison, int64_t now_us) {
    comparison->now_us = now_us;
    comparison->skewed = !comparison->skewed;
    real_clock(comparison->real, now_us + (comparison->skewed ? comparison->skew_us : 0));
}

static void move_clock(struct comparison *comparison, const struct request *request) {
    if (request->op == REQUEST_CLOCK_STEP) {
        set_clock(comparison, comparison->now_us + request->number);
        return;
    }
    int64_t end_ms = model_next_end(comparison->model);
    if (end_ms != INT64_MAX) set_clock(comparison, end_ms * 1000 + request->number);
}

/* True if both say the same. */
static bool ask_both(struct comparison *comparison, const struct request *drawn) {
    struct request resolved = *drawn, *request = &resolved;
    model_resolve(comparison->model, request);
    if (request->op == REQUEST_CLOCK_STEP || request->op == REQUEST_CLOCK_TO_END) {
        move_clock(comparison, request);
        return true;
    }
    answer_clear(&comparison->expected);
    answer_clear(&comparison->got);
    model_do(comparison->model, request, comparison->now_us / 1000, &comparison->expected);
    long long count = (long long)model_count(comparison->model);
    real_do(comparison->real, request, count, &comparison->got);
    answer_line(&comparison->expected, "%lld keys", count);
    answer_line(&comparison->got, "%lld keys", real_count(comparison->real));
    return strcmp(comparison->expected.text, comparison->got.text) == 0;
}

/* All there is at the end, whatever was asked before. */
static bool compare_all(struct comparison *comparison) {
    for (uint8_t i = 0; i < REQUEST_KEYS; i++) {
        struct request look = {.op = REQUEST_PEEK_VALUE, .keys_count = 1, .keys = {i}};
        if (!ask_both(comparison, &look)) return false;
    }
    if (!comparison->guarded) return true;
    struct request record = {.op = REQUEST_RECORD, .keys_count = 1},
                   fences = {.op = REQUEST_ALL_FENCES, .keys_count = 1};
    return ask_both(comparison, &record) && ask_both(comparison, &fences);
}

/* The number of the request whose answers differ, `count` if it shows only in the end, -1: they
 * agree. */
static long run(struct comparison *comparison, const struct request *requests, size_t count) {
    comparison->skewed = true;
    set_clock(comparison, clock_begin_us);
    real_reset(comparison->real);
    model_reset(comparison->model);
    for (size_t i = 0; i < count; i++)
        if (!ask_both(comparison, &requests[i])) return (long)i;
    if (!compare_all(comparison)) return (long)count;
    if (model_reported_all(comparison->model, comparison->now_us / 1000)) return -1;
    answer_clear(&comparison->expected);
    answer_clear(&comparison->got);
    answer_line(&comparison->expected, "what was told of changes is not what the table holds");
    return (long)count;
}

/* Leaves out what is not needed to make them differ: halves first, then single requests. */
static size_t shrink(struct comparison *comparison, struct request *requests, size_t count) {
    struct request shorter[SEQUENCE_LENGTH];
    for (size_t chunk = count / 2; chunk > 0; chunk /= 2) {
        for (size_t at = 0; at + chunk <= count;) {
            memcpy(shorter, requests, at * sizeof(*requests));
            memcpy(shorter + at, requests + at + chunk, (count - at - chunk) * sizeof(*requests));
            if (run(comparison, shorter, count - chunk) < 0) {
                at += chunk;
                continue;
            }
            count -= chunk;
            memcpy(requests, shorter, count * sizeof(*requests));
        }
    }
    return count;
}

static void report(struct comparison *comparison, struct request *requests, size_t count,
                   uint64_t seed, unsigned long sequence, long at) {
    printf("differ at request %ld of sequence %lu, seed %" PRIu64 "\n", at, sequence, seed);
    if ((size_t)at < count) count = (size_t)at + 1; /* nothing after it matters */
    count = shrink(comparison, requests, count);
    at = run(comparison, requests, count);
    printf("shortest that was found (clock from %" PRId64 " us):\n", clock_begin_us);
    for (size_t i = 0; i < count; i++) {
        printf("  ");
        request_show(&requests[i], stdout);
    }
    if (at == (long)count) printf("  then a look at all there is\n");
    if (at < 0)
        printf("(did not fail again: the server is not a function of requests and clock)\n");
    printf("table:\n%sserver:\n%s", comparison->expected.text, comparison->got.text);
}

struct options {
    const char *stepclock;
    uint64_t seed;
    unsigned long requests;
    int64_t skew_us;
    bool shrink;
};

static bool parse(struct options *options, int argc, char **argv) {
    if (argc < 2 || argc % 2 != 0) return false;
    options->stepclock = argv[1];
    for (int i = 2; i < argc; i += 2) {
        char *end;
        long long number = strtoll(argv[i + 1], &end, 10);
        if (end == argv[i + 1] || *end) return false;
        if (strcmp(argv[i], "--seed") == 0)
            options->seed = (uint64_t)number;
        else if (strcmp(argv[i], "--requests") == 0 && number > 0)
            options->requests = (unsigned long)number;
        else if (strcmp(argv[i], "--skew-us") == 0)
            options->skew_us = number;
        else if (strcmp(argv[i], "--shrink") == 0)
            options->shrink = number != 0;
        else
            return false;
    }
    return true;
}

/* The exit status. */
static int compare(struct comparison *comparison, const struct options *options) {
    struct request requests[SEQUENCE_LENGTH];
    struct random random = {options->seed};
    unsigned long sequences = (options->requests + SEQUENCE_LENGTH - 1) / SEQUENCE_LENGTH;
    for (unsigned long sequence = 0; sequence < sequences; sequence++) {
        for (size_t i = 0; i < SEQUENCE_LENGTH; i++)
            requests[i] = request_draw(&random, comparison->guarded);
        long at = run(comparison, requests, SEQUENCE_LENGTH);
        if (at < 0) continue;
        if (options->shrink)
            report(comparison, requests, SEQUENCE_LENGTH, options->seed, sequence, at);
        else
            printf("differ at request %ld of sequence %lu\n", at, sequence);
        return EXIT_DIFFERS;
    }
    printf("%lu requests in %lu sequences, seed %" PRIu64 ": every reply the same\n",
           sequences * SEQUENCE_LENGTH, sequences, options->seed);
    if (!comparison->guarded || options->requests < REQUESTS_USUAL) return EXIT_SUCCESS;
    return model_guarded_saw_all() ? EXIT_SUCCESS : EXIT_FAILURE;
}

int main(int argc, char **argv) {
    struct options options = {.seed = 1, .requests = REQUESTS_USUAL, .shrink = true};
    if (!parse(&options, argc, argv)) {
        fprintf(stderr,
                "usage: %s STEPCLOCK [--seed S] [--requests N] [--skew-us U] [--shrink 0]\n",
                argv[0]);
        return 64;
    }
    struct comparison *comparison = calloc(1, sizeof(*comparison));
    if (!comparison) return 1;
    comparison->skew_us = options.skew_us;
    comparison->real = real_start(options.stepclock, clock_begin_us);
    comparison->model = model_new(real_end_rule(comparison->real));
    comparison->guarded = real_is_guarded(comparison->real);
    if (!comparison->guarded)
        puts("this server is older than 6.2: nothing of guarded mode is compared");
    int status = EXIT_DIFFERS;
    if (!comparison->guarded || fixed_answered(comparison->real, FIXED_REQUESTS, clock_begin_us))
        status = compare(comparison, &options);
    real_stop(comparison->real);
    model_free(comparison->model);
    free(comparison);
    return status;
}
