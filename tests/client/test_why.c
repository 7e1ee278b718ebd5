/* SPDX-License-Identifier: BSD-2-Clause
 *
 * redlock_why() on three nodes that nothing listens on, and on what nodes may answer to a try.
 * tests/cli/test_why.py compares it with the command line, on real servers and fake nodes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "redlock.h"

#define V(name) REDLOCK_VERDICT_##name

static struct redlock_client *client;

static int open_client(void **state) {
    static const char nodes[] = "redis://me:secret@127.0.0.1:1/3,redis://127.0.0.1:2,unix:///none";
    struct redlock_client_options options;
    (void)state;
    redlock_client_options_init(&options);
    options.mode = REDLOCK_MODE_CLASSIC;
    assert_int_equal(redlock_client_open(nodes, &options, &client, NULL), REDLOCK_OK);
    assert_int_equal(redlock_client_wait_ready(client, 5000), 0);
    return 0;
}

static int close_client(void **state) {
    (void)state;
    redlock_client_free(client);
    return 0;
}

static struct redlock_why_report explained(struct redlock_lock *lock, int result,
                                           const int *verdicts) {
    struct redlock_why_report why;
    redlock_why_report_init(&why);
    assert_int_equal(redlock_why(client, lock, result, verdicts, &why), REDLOCK_OK);
    assert_null(strstr(why.sentence, "secret"));
    assert_null(strstr(why.cure, "secret"));
    assert_true(why.head_bytes <= strlen(why.sentence));
    assert_int_equal(why.nodes, 3);
    return why;
}

static void nodes_that_cannot_be_reached(void **state) {
    const struct redlock_why_report why = explained(NULL, REDLOCK_NO_QUORUM, NULL);
    const char head[] = "no quorum: 0 of 3 nodes answered, 2 needed";
    (void)state;
    assert_int_equal(why.head_bytes, strlen(head));
    assert_memory_equal(why.sentence, head, strlen(head));
    assert_non_null(strstr(why.sentence, " (redis://me@127.0.0.1:1/3: "));
    assert_non_null(strstr(why.sentence, "; unix:///none: "));
    assert_string_equal(why.cure, "127.0.0.1:1: start it, or correct its URL or the network; "
                                  "127.0.0.1:2: start it, or correct its URL or the network; "
                                  "/none: start it, or correct its URL or the network");
    assert_int_equal(why.votes, 0);
    assert_int_equal(why.silent, 3);
    assert_int_equal(why.named, 3);
    assert_int_equal(why.votes_needed, 2);
    assert_int_equal(why.in_vain, 0);
}

static void nodes_that_do_not_accept_a_lock(void **state) {
    const int full[] = {V(GRANTED), V(OOM), V(OOM)}, divided[] = {V(GRANTED), V(DENIED), V(DENIED)};
    struct redlock_why_report why = explained(NULL, REDLOCK_NO_QUORUM, full);
    (void)state;
    assert_string_equal(why.sentence,
                        "no quorum: 1 of 3 nodes can vote, 2 needed (redis://127.0.0.1:2: server "
                        "out of memory; unix:///none: server out of memory)");
    assert_int_equal(why.node[1].obstacle, REDLOCK_OBSTACLE_ERROR);
    assert_string_equal(why.node[1].cure, "raise maxmemory, or move other data elsewhere");
    why = explained(NULL, REDLOCK_NO_QUORUM, divided);
    assert_memory_equal(why.sentence, "no quorum: 1 of 3 nodes agree, 2 needed (", 41);
}

/* The nodes that have not answered are those that nothing listens on. */
static void cancelled_waits(void **state) {
    const int held[] = {V(DENIED), V(DENIED), V(NONE)}, divided[] = {V(DENIED), V(GRANTED), V(OOM)};
    const int open[] = {V(GRANTED), V(GRANTED), V(DENIED)};
    struct redlock_why_report why = explained(NULL, REDLOCK_CANCELLED, held);
    (void)state;
    assert_int_equal(why.result, REDLOCK_HELD);
    assert_string_equal(why.sentence, "held by another");
    why = explained(NULL, REDLOCK_CANCELLED, divided);
    assert_int_equal(why.result, REDLOCK_NO_QUORUM);
    assert_non_null(strstr(why.sentence, "unix:///none: server out of memory"));
    why = explained(NULL, REDLOCK_CANCELLED, open);
    assert_int_equal(why.result, REDLOCK_CANCELLED);
    assert_string_equal(why.sentence, "cancelled");
    why = explained(NULL, REDLOCK_CANCELLED, NULL);
    assert_int_equal(why.result, REDLOCK_NO_QUORUM);
    assert_int_equal(why.silent, 3);
}

static void waiting_is_no_cure(void **state) {
    const int denied[] = {V(GRANTED), V(NOPERM), V(NOPERM)},
              once[] = {V(GRANTED), V(DENIED), V(NOPERM)};
    (void)state;
    const struct redlock_why_report why = explained(NULL, REDLOCK_NO_QUORUM, denied);
    assert_int_equal(why.in_vain, 2);
    assert_int_equal(why.node[1].obstacle, REDLOCK_OBSTACLE_SETUP);
    assert_int_equal(explained(NULL, REDLOCK_NO_QUORUM, once).in_vain, 0);
}

static void how_a_lock_was_lost(void **state) {
    struct redlock_lock_options options;
    struct redlock_lock *lock;
    const int gone[] = {V(ABSENT), V(DENIED), V(DENIED)},
              late[] = {V(TIMEOUT), V(TIMEOUT), V(TIMEOUT)},
              other[] = {V(WRONGTYPE), V(WRONGTYPE), V(GRANTED)},
              fine[] = {V(GRANTED), V(NONE), V(NONE)};
    (void)state;
    struct redlock_why_report why = explained(NULL, REDLOCK_LOST, gone);
    assert_string_equal(why.sentence, "lost: 127.0.0.1:1 does not have the key; 127.0.0.1:2 and "
                                      "/none have another token");
    assert_int_equal(why.head_bytes, strlen(why.sentence));
    assert_int_equal(why.named, 3);
    assert_string_equal(explained(NULL, REDLOCK_LOST, late).sentence,
                        "lost: all 3 nodes timed out");
    assert_string_equal(explained(NULL, REDLOCK_LOST, fine).sentence,
                        redlock_result_text(REDLOCK_LOST));
    why = explained(NULL, REDLOCK_NO_QUORUM, other);
    assert_int_equal(why.result, REDLOCK_LOST);
    assert_string_equal(why.sentence,
                        "the key holds a list, a hash or another structure: not a lock");
    redlock_lock_options_init(&options);
    options.shared = 1;
    assert_int_equal(redlock_lock_new(client, "r", 1, &options, &lock, NULL), REDLOCK_OK);
    assert_memory_equal(explained(lock, REDLOCK_LOST, gone).sentence,
                        "lost: 127.0.0.1:1 has no place of this reader;", 46);
    redlock_lock_free(lock);
}

static void every_result_has_a_sentence(void **state) {
    static const int results[] = {
#define VALUE(name, value, text) value,
        REDLOCK_RESULTS(VALUE)
#undef VALUE
    };
    (void)state;
    for (size_t i = 0; i < sizeof results / sizeof results[0]; i++)
        if (results[i] != REDLOCK_NO_QUORUM && results[i] != REDLOCK_CANCELLED)
            assert_memory_equal(explained(NULL, results[i], NULL).sentence,
                                redlock_result_text(results[i]),
                                strlen(redlock_result_text(results[i])));
    assert_string_equal(explained(NULL, 12345, NULL).sentence, "unknown result");
    assert_string_equal(explained(NULL, REDLOCK_GUARDED_NODES, NULL).cure,
                        "remove scheme= from the node's URL, or lock elsewhere");
}

static void what_is_no_question(void **state) {
    struct redlock_client *other = NULL;
    struct redlock_lock *lock = NULL;
    struct redlock_why_report why = {.size = 8};
    (void)state;
    assert_int_equal(redlock_why(client, NULL, REDLOCK_HELD, NULL, &why), REDLOCK_BAD_ARGUMENT);
    redlock_why_report_init(&why);
    assert_int_equal(redlock_client_open("redis://127.0.0.1:4", NULL, &other, NULL), REDLOCK_OK);
    assert_int_equal(redlock_lock_new(other, "r", 1, NULL, &lock, NULL), REDLOCK_OK);
    assert_int_equal(redlock_why(client, lock, REDLOCK_HELD, NULL, &why), REDLOCK_BAD_ARGUMENT);
    assert_string_equal(why.sentence, "");
    redlock_lock_free(lock);
    redlock_client_free(other);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nodes_that_cannot_be_reached),
        cmocka_unit_test(nodes_that_do_not_accept_a_lock),
        cmocka_unit_test(cancelled_waits),
        cmocka_unit_test(waiting_is_no_cure),
        cmocka_unit_test(how_a_lock_was_lost),
        cmocka_unit_test(every_result_has_a_sentence),
        cmocka_unit_test(what_is_no_question),
    };
    return cmocka_run_group_tests(tests, open_client, close_client);
}
