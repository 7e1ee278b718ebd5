/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What every integration test needs: cmocka, servers, a client on them, a lock on a resource.
 */
#ifndef TESTS_HARNESS_H
#define TESTS_HARNESS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
/* after the above */
#include <cmocka.h>

#include "redlock/admin.h"
#include "redlock/metrics.h"
#include "servers.h"

#define assert_result(expression, expected)                                                        \
    do {                                                                                           \
        int got_ = (expression);                                                                   \
        if (got_ != (expected))                                                                    \
            fail_msg("%s is %d (%s), not %d (%s)", #expression, got_, redlock_result_text(got_),   \
                     (int)(expected), redlock_result_text(expected));                              \
    } while (0)

static inline double now_ms(void) {
    struct timespec at;
    clock_gettime(CLOCK_BOOTTIME, &at);
    return (double)at.tv_sec * 1e3 + (double)at.tv_nsec / 1e6;
}

static inline void nap_ms(long ms) {
    nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL);
}

/* options NULL: the defaults. Waits until all nodes are connected, or have failed to. */
static inline struct redlock_client *open_client(const struct servers *servers,
                                                 const struct redlock_client_options *options) {
    struct redlock_client *client = NULL;
    struct redlock_error error = {0};
    if (redlock_client_open(servers->urls, options, &client, &error) != REDLOCK_OK)
        fail_msg("%s", error.text);
    redlock_client_wait_ready(client, 10000);
    return client;
}

static inline struct redlock_lock *new_lock(struct redlock_client *client, const char *resource,
                                            const struct redlock_lock_options *options) {
    struct redlock_lock *lock = NULL;
    struct redlock_error error = {0};
    if (redlock_lock_new(client, resource, strlen(resource), options, &lock, &error) != REDLOCK_OK)
        fail_msg("%s", error.text);
    return lock;
}

static inline struct redlock_lock_options lock_options(int64_t ttl_ms) {
    struct redlock_lock_options options;
    redlock_lock_options_init(&options);
    options.ttl_ms = ttl_ms;
    return options;
}

#endif
