/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Programs and libraries of different releases: each sized struct of redlock.h as an older program
 * has it (as short as the first release's), as a newer one has it (longer), and shorter than any
 * release's. The numbers are those of 64-bit machines, and they are frozen: what fails here breaks
 * programs that exist.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "redlock/admin.h"
#include "redlock/fence.h"
#include "redlock/metrics.h"

enum {
    CLIENT_OPTIONS = 128,
    NODE_STATUS = 280,
    STATS = 112,
    LOCK_OPTIONS = 120,
    SERVER = 384,
    QUORUM = 72,
    MEMBER = 304,
    OWN_KEY = 288,
    QUORUM_OPTIONS = 48,
    GATE_OPTIONS = 28,
    WAIT_STATUS = 32,
    BREAK_OPTIONS = 32,
    BREAK_REPORT = 360,
    WHY = 6984,
    LONGER = 24, /* bytes that a later release has appended */
    ROOM = 8192,
    CANARY = 0xa5,
};

static const char *const nowhere = "redis://127.0.0.1:1,redis://127.0.0.1:2,redis://127.0.0.1:3";

/* The program's memory: a struct of `size` bytes, or several, with something else right behind. */
static unsigned char *room(size_t size, size_t count) {
    static _Alignas(16) unsigned char bytes[ROOM];
    assert_true(size * count < ROOM);
    memset(bytes, CANARY, sizeof bytes);
    for (size_t i = 0; i < count; i++) memcpy(bytes + i * size, &size, sizeof size);
    return bytes;
}

static void assert_kept(const unsigned char *bytes, size_t from) {
    for (size_t i = from; i < ROOM; i++)
        if (bytes[i] != CANARY) fail_msg("byte %zu was written; the struct ends at %zu", i, from);
}

static void assert_zero(const unsigned char *bytes, size_t from, size_t to) {
    for (size_t i = from; i < to; i++)
        if (bytes[i] != 0)
            fail_msg("byte %zu is %d; it is unknown to this library and must be 0", i, bytes[i]);
}

static void assert_size(const unsigned char *bytes, size_t size) {
    size_t kept;
    memcpy(&kept, bytes, sizeof kept);
    assert_int_equal(kept, size);
}

static struct redlock_client *open_client(int mode) {
    struct redlock_client_options options;
    struct redlock_client *client = NULL;
    struct redlock_error error = {0};
    redlock_client_options_init(&options);
    options.mode = mode;
    options.connect_timeout_ms = 100;
    if (redlock_client_open(nowhere, &options, &client, &error) != REDLOCK_OK)
        fail_msg("%s", error.text);
    return client;
}

/* ---- options: filled, changed and handed in ---- */

struct options_kind {
    const char *name;
    void (*fill)(void *options, size_t size);
    int (*use)(void *options, struct redlock_error *error);
    size_t first, now;
    int accepted;
};

static void fill_client(void *options, size_t size) { redlock_client_options_fill(options, size); }
static void fill_lock(void *options, size_t size) { redlock_lock_options_fill(options, size); }
static void fill_quorum(void *options, size_t size) { redlock_quorum_options_fill(options, size); }
static void fill_break(void *options, size_t size) { redlock_break_options_fill(options, size); }
static void fill_gate(void *options, size_t size) {
    redlock_fence_gate_options_fill(options, size);
}

static int use_client(void *options, struct redlock_error *error) {
    struct redlock_client *client = NULL;
    int result = redlock_client_open(nowhere, options, &client, error);
    redlock_client_free(client);
    return result;
}

static int use_lock(void *options, struct redlock_error *error) {
    struct redlock_client *client = open_client(REDLOCK_MODE_CLASSIC);
    struct redlock_lock *lock = NULL;
    int result = redlock_lock_new(client, "sizes", 5, options, &lock, error);
    redlock_lock_free(lock);
    redlock_client_free(client);
    return result;
}

static int use_quorum(void *options, struct redlock_error *error) {
    struct redlock_client *client = open_client(REDLOCK_MODE_GUARDED);
    int result = redlock_quorum_remove(client, "0123456789abcdef", options, error);
    redlock_client_free(client);
    return result;
}

static int use_break(void *options, struct redlock_error *error) {
    struct redlock_client *client = open_client(REDLOCK_MODE_CLASSIC);
    struct redlock_break_report report;
    redlock_break_report_init(&report);
    int result = redlock_break(client, "sizes", 5, options, &report, error);
    redlock_client_free(client);
    return result;
}

static int use_gate(void *options, struct redlock_error *error) {
    struct redlock_fence_gate *gate = NULL;
    int result = redlock_fence_gate_open(options, &gate, error);
    redlock_fence_gate_free(gate);
    return result;
}

static const struct options_kind kinds[] = {
    {"client", fill_client, use_client, CLIENT_OPTIONS, sizeof(struct redlock_client_options),
     REDLOCK_OK},
    {"lock", fill_lock, use_lock, LOCK_OPTIONS, sizeof(struct redlock_lock_options), REDLOCK_OK},
    /* No node can be reached, and that is found out only after the options were looked at. */
    {"quorum", fill_quorum, use_quorum, QUORUM_OPTIONS, sizeof(struct redlock_quorum_options),
     REDLOCK_NO_QUORUM},
    {"break", fill_break, use_break, BREAK_OPTIONS, sizeof(struct redlock_break_options),
     REDLOCK_NO_QUORUM},
    {"gate", fill_gate, use_gate, GATE_OPTIONS, sizeof(struct redlock_fence_gate_options),
     REDLOCK_OK},
};

static void judge(const struct options_kind *kind, void *options, size_t size, int expected) {
    struct redlock_error error = {0};
    int result = kind->use(options, &error);
    if (result != expected)
        fail_msg("%s options of %zu bytes: %d (%s), not %d", kind->name, size, result, error.text,
                 expected);
    bool names_size = strstr(error.text, "unknown size") != NULL;
    assert_int_equal(names_size, expected == REDLOCK_BAD_ARGUMENT);
}

static void options_of_any_release(void **state) {
    (void)state;
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        const struct options_kind *kind = &kinds[k];
        assert_true(kind->first <= kind->now);
        size_t sizes[] = {kind->first, kind->now, kind->now + LONGER};
        for (size_t i = 0; i < 3; i++) {
            unsigned char *options = room(sizes[i], 1);
            kind->fill(options, sizes[i]);
            assert_size(options, sizes[i]);
            if (sizes[i] > kind->now) assert_zero(options, kind->now, sizes[i]);
            assert_kept(options, sizes[i]);
            judge(kind, options, sizes[i], kind->accepted);
            assert_kept(options, sizes[i]);
        }
    }
}

static void options_that_are_too_short(void **state) {
    (void)state;
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        unsigned char *options = room(kinds[k].first - 1, 1);
        kinds[k].fill(options, kinds[k].first - 1);
        assert_kept(options, kinds[k].first - 1);
        judge(&kinds[k], options, kinds[k].first - 1, REDLOCK_BAD_ARGUMENT);
    }
}

static void options_that_ask_for_what_is_unknown(void **state) {
    (void)state;
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        size_t size = kinds[k].now + LONGER;
        unsigned char *options = room(size, 1);
        kinds[k].fill(options, size);
        options[size - 1] = 1;
        judge(&kinds[k], options, size, REDLOCK_BAD_ARGUMENT);
    }
}

/* ---- what the library fills ---- */

struct result_kind {
    const char *name;
    int (*ask)(struct redlock_client *client, void *into);
    size_t first, now, count;
    int accepted;
};

static int ask_node(struct redlock_client *client, void *into) {
    return redlock_client_node(client, 2, into);
}
static int ask_stats(struct redlock_client *client, void *into) {
    return redlock_client_stats(client, into);
}
static int ask_server_info(struct redlock_client *client, void *into) {
    return redlock_server_info(client, REDLOCK_SERVER_INFO_CLOCK, into, 3);
}
static int ask_own_keys(struct redlock_client *client, void *into) {
    return redlock_own_keys(client, 0, "r", 1, into);
}
static int ask_quorum(struct redlock_client *client, void *into) {
    return redlock_quorum_peek(client, into, NULL, 0);
}

static int ask_wait_status(struct redlock_client *client, void *into) {
    struct redlock_lock *lock = NULL;
    assert_int_equal(redlock_lock_new(client, "waits", 5, NULL, &lock, NULL), REDLOCK_OK);
    int result = redlock_lock_wait_status(lock, into);
    redlock_lock_free(lock);
    return result;
}

static int ask_why(struct redlock_client *client, void *into) {
    return redlock_why(client, NULL, REDLOCK_NO_QUORUM, NULL, into);
}

static int ask_break(struct redlock_client *client, void *into) {
    return redlock_break(client, "sizes", 5, NULL, into, NULL);
}

static const struct result_kind results[] = {
    {"node status", ask_node, NODE_STATUS, sizeof(struct redlock_node_status), 1, REDLOCK_OK},
    {"stats", ask_stats, STATS, sizeof(struct redlock_stats), 1, REDLOCK_OK},
    {"why", ask_why, WHY, sizeof(struct redlock_why_report), 1, REDLOCK_OK},
    {"wait status", ask_wait_status, WAIT_STATUS, sizeof(struct redlock_wait_status), 1,
     REDLOCK_OK},
    {"survey", ask_server_info, SERVER, sizeof(struct redlock_server), 3, REDLOCK_NO_QUORUM},
    {"own keys", ask_own_keys, OWN_KEY, sizeof(struct redlock_own_key), REDLOCK_OWN_KEYS,
     REDLOCK_OK},
    {"break", ask_break, BREAK_REPORT, sizeof(struct redlock_break_report), 1, REDLOCK_NO_QUORUM},
    {"quorum", ask_quorum, QUORUM, sizeof(struct redlock_quorum_status), 1, REDLOCK_NO_QUORUM},
};

static void results_of_any_release(void **state) {
    struct redlock_client *client = open_client(REDLOCK_MODE_GUARDED);
    (void)state;
    redlock_client_wait_ready(client, 2000);
    for (size_t k = 0; k < sizeof results / sizeof results[0]; k++) {
        const struct result_kind *kind = &results[k];
        assert_true(kind->first <= kind->now);
        unsigned char whole[ROOM];
        memcpy(whole, room(kind->now, kind->count), ROOM);
        assert_int_equal(kind->ask(client, whole), kind->accepted);
        size_t sizes[] = {kind->first, kind->now, kind->now + LONGER};
        for (size_t i = 0; i < 3; i++) {
            unsigned char *into = room(sizes[i], kind->count);
            int result = kind->ask(client, into);
            if (result != kind->accepted)
                fail_msg("%s of %zu bytes: %d", kind->name, sizes[i], result);
            size_t known = sizes[i] < kind->now ? sizes[i] : kind->now;
            for (size_t at = 0; at < kind->count; at++) {
                unsigned char *element = into + at * sizes[i];
                assert_size(element, sizes[i]);
                assert_memory_equal(element + sizeof(size_t),
                                    whole + at * kind->now + sizeof(size_t),
                                    known - sizeof(size_t));
                assert_zero(element, known, sizes[i]);
            }
            assert_kept(into, kind->count * sizes[i]);
        }
        unsigned char *shorter = room(kind->first - 1, kind->count);
        assert_int_equal(kind->ask(client, shorter), REDLOCK_BAD_ARGUMENT);
        assert_kept(shorter, kind->count * (kind->first - 1));
    }
    redlock_client_free(client);
}

static void elements_of_two_sizes(void **state) {
    struct redlock_client *client = open_client(REDLOCK_MODE_GUARDED);
    (void)state;
    size_t size = sizeof(struct redlock_server), other = size + 8;
    unsigned char *into = room(size, 3);
    memcpy(into + 2 * size, &other, sizeof other);
    assert_int_equal(ask_server_info(client, into), REDLOCK_BAD_ARGUMENT);
    struct redlock_quorum_status quorum = {.size = sizeof quorum};
    size = sizeof(struct redlock_member);
    into = room(size, 3);
    assert_int_equal(redlock_quorum_peek(client, &quorum, (struct redlock_member *)(void *)into, 3),
                     REDLOCK_NO_QUORUM);
    other = size - 8;
    memcpy(into + size, &other, sizeof other);
    assert_int_equal(redlock_quorum_peek(client, &quorum, (struct redlock_member *)(void *)into, 3),
                     REDLOCK_BAD_ARGUMENT);
    into = room(MEMBER - 1, 3);
    assert_int_equal(redlock_quorum_peek(client, &quorum, (struct redlock_member *)(void *)into, 3),
                     REDLOCK_BAD_ARGUMENT);
    into = room(MEMBER, 3);
    assert_int_equal(redlock_quorum_peek(client, &quorum, (struct redlock_member *)(void *)into, 3),
                     REDLOCK_NO_QUORUM);
    redlock_client_free(client);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options_of_any_release),
        cmocka_unit_test(options_that_are_too_short),
        cmocka_unit_test(options_that_ask_for_what_is_unknown),
        cmocka_unit_test(results_of_any_release),
        cmocka_unit_test(elements_of_two_sizes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
