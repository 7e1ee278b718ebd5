/* SPDX-License-Identifier: BSD-2-Clause
 *
 * OpenSSL is loaded with the first client that uses TLS, and not before. Built three times: with
 * the library's name, with that of a missing library, and with that of one that has no TLS. */
#include "world.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "net/conn/tls.h"

/* Whether a file of this name is mapped. */
static bool is_loaded(const char *name) {
    char line[512];
    bool found = false;
    FILE *maps = fopen("/proc/self/maps", "re");
    assert_non_null(maps);
    while (fgets(line, sizeof line, maps)) found |= strstr(line, name) != NULL;
    fclose(maps);
    return found;
}

/* Nobody listens there: to open a net needs no server. */
static void test_not_without_tls(void **state) {
    (void)state;
    struct world world;
    world_open_urls(&world, "redis://127.0.0.1:1");
    world_close(&world);
    assert_false(is_loaded("libssl"));
    assert_false(is_loaded("libcrypto"));
}

static void *open_context(void *context) {
    const struct net_options options = {.nodes = NULL};
    struct net_error error = {.result = 0};
    struct tls_context **opened = context;
    *opened = tls_context_new(&options, &error);
    if (!*opened) print_error("%s\n", error.text);
    return NULL;
}

static void test_by_threads_at_once(void **state) {
    enum { THREADS = 8, STACK = 64 << 10 }; /* what docs/use/embedding.md asks for */
    (void)state;
    pthread_t threads[THREADS];
    pthread_attr_t attributes;
    struct tls_context *contexts[THREADS];
    pthread_attr_init(&attributes);
    assert_int_equal(pthread_attr_setstacksize(&attributes, STACK), 0);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], &attributes, open_context, &contexts[i]), 0);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        assert_non_null(contexts[i]);
        tls_context_free(contexts[i]);
    }
    pthread_attr_destroy(&attributes);
    assert_true(is_loaded(REDLOCK_LIBSSL));
}

static void test_refused(void **state) {
    (void)state;
    const struct net_options options = world_options("rediss://127.0.0.1:1");
    const struct net_handlers handlers = {.context = NULL};
    struct net *net = NULL;
    for (int again = 0; again < 2; again++) {
        struct net_error error = {.result = 0};
        assert_int_equal(net_open(&net, &options, &handlers, &error), REDLOCK_BAD_ARGUMENT);
        assert_int_equal(error.result, REDLOCK_BAD_ARGUMENT);
        assert_null(net);
        if (!strstr(error.text, REDLOCK_LIBSSL) || !strstr(error.text, EXPECTED) ||
            !strstr(error.text, "; install OpenSSL"))
            fail_msg("\"%s\" lacks \"" REDLOCK_LIBSSL "\", \"" EXPECTED "\" or the cure",
                     error.text);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_not_without_tls),
        cmocka_unit_test(test_by_threads_at_once),
    };
    const struct CMUnitTest refused[] = {
        cmocka_unit_test(test_not_without_tls),
        cmocka_unit_test(test_refused),
    };
    return EXPECTED[0] ? cmocka_run_group_tests(refused, NULL, NULL)
                       : cmocka_run_group_tests(tests, NULL, NULL);
}
