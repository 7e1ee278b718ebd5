/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Servers for a whole program or for each of its tests, as a setup and a teardown for cmocka: one,
 * three or five. Clients on them that wait as long as the test says, and many locks at once.
 */
#ifndef TESTS_FIXTURES_H
#define TESTS_FIXTURES_H

#include "harness.h"

static struct servers one, three, five;

static inline int start_one(void **state) {
    (void)state;
    servers_start(&one, 1);
    return 0;
}

static inline int stop_one(void **state) {
    (void)state;
    servers_stop(&one);
    return 0;
}

static inline int start_three(void **state) {
    (void)state;
    servers_start(&three, 3);
    return 0;
}

static inline int stop_three(void **state) {
    (void)state;
    servers_stop(&three);
    return 0;
}

static inline int start_five(void **state) {
    (void)state;
    servers_start(&five, 5);
    return 0;
}

static inline int stop_five(void **state) {
    (void)state;
    servers_stop(&five);
    return 0;
}

/* Whose answers may be so late: on a busy machine a node is late, or, where the test is about that,
 * soon enough. */
static inline struct redlock_client *open_patient(const struct servers *servers,
                                                  int64_t node_timeout_ms, int service_thread) {
    struct redlock_client_options options;
    redlock_client_options_init(&options);
    options.node_timeout_ms = node_timeout_ms;
    options.service_thread = service_thread;
    return open_client(servers, &options);
}

/* "name:0", "name:1", ... */
static inline void make_locks(struct redlock_client *client, const char *name,
                              const struct redlock_lock_options *options,
                              struct redlock_lock **locks, size_t count) {
    for (size_t i = 0; i < count; i++) {
        char resource[64];
        snprintf(resource, sizeof resource, "%s:%zu", name, i);
        locks[i] = new_lock(client, resource, options);
    }
}

static inline void free_locks(struct redlock_lock **locks, size_t count) {
    for (size_t i = 0; i < count; i++) redlock_lock_free(locks[i]);
}

#endif
