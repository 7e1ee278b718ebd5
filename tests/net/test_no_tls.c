/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A library without TLS refuses nodes that need it, and goes on with others. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "redlock.h"

static void test_refused(void **state) {
    (void)state;
    struct redlock_client *client = NULL;
    struct redlock_error error = {0};
    const char *nodes = "redis://127.0.0.1:1,rediss://127.0.0.1:2,redis://127.0.0.1:3";
    assert_int_equal(redlock_client_open(nodes, NULL, &client, &error), REDLOCK_BAD_ARGUMENT);
    assert_null(client);
    assert_string_equal(error.text, "this redlock is built without TLS; name the nodes by "
                                    "redis://, or build it with -DREDLOCK_TLS=loaded");
}

static void test_others(void **state) {
    (void)state;
    struct redlock_client *client = NULL;
    assert_int_equal(redlock_client_open("redis://127.0.0.1:1", NULL, &client, NULL), REDLOCK_OK);
    redlock_client_free(client);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_refused),
                                       cmocka_unit_test(test_others)};
    return cmocka_run_group_tests_name("a library without TLS", tests, NULL, NULL);
}
