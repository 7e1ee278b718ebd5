/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A fixed number of cycles (acquire and release), 256 locks in flight in one thread, to be counted
 * by callgrind: instructions have less noise than time. The difference of two lengths leaves out
 * the opening. `observed` sets an event hook that counts.
 * usage: redlock up -n 3 -- valgrind --tool=callgrind build/bench/cycles CYCLES [observed]
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "redlock/metrics.h"

enum { IN_FLIGHT = 256, NODE_TIMEOUT_MS = 5000 };

static void must(int result, const char *what) {
    if (result >= REDLOCK_OK) return;
    fprintf(stderr, "cycles: %s: %s\n", what, redlock_result_text(result));
    exit(1);
}

static void count(void *context, const struct redlock_event *event) {
    uint64_t *counts = context;
    counts[event->kind]++;
}

static struct redlock_client *open_client(uint64_t *counts) {
    struct redlock_client_options options;
    struct redlock_client *client = NULL;
    redlock_client_options_init(&options);
    options.service_thread = 0;
    options.node_timeout_ms = NODE_TIMEOUT_MS; /* valgrind is slow */
    must(redlock_client_open(getenv("REDLOCK_NODES"), &options, &client, NULL), "open");
    must(redlock_client_wait_ready(client, NODE_TIMEOUT_MS), "connect");
    if (counts) must(redlock_client_observe(client, count, counts), "observe");
    return client;
}

int main(int argc, char **argv) {
    struct redlock_lock *locks[IN_FLIGHT];
    uint64_t counts[REDLOCK_EVENT_DISOWNED + 1] = {0};
    if (argc < 2 || argc > 3 || (argc == 3 && strcmp(argv[2], "observed") != 0)) {
        fputs("usage: cycles CYCLES [observed]\n", stderr);
        return 64;
    }
    const long cycles = strtol(argv[1], NULL, 10);
    struct redlock_client *client = open_client(argc == 3 ? counts : NULL);
    for (int i = 0; i < IN_FLIGHT; i++) {
        char name[32];
        int bytes = snprintf(name, sizeof name, "cycles-%d", i);
        must(redlock_lock_new(client, name, (size_t)bytes, NULL, &locks[i], NULL), "lock");
    }
    for (long done = 0; done < cycles; done += IN_FLIGHT) {
        must(redlock_acquire_many(locks, IN_FLIGHT, NODE_TIMEOUT_MS, NULL), "acquire");
        must(redlock_release_many(locks, IN_FLIGHT, NULL), "release");
    }
    for (int i = 0; i < IN_FLIGHT; i++) redlock_lock_free(locks[i]);
    redlock_client_free(client);
    if (argc == 3)
        printf("%llu acquired, %llu released\n", (unsigned long long)counts[REDLOCK_EVENT_ACQUIRED],
               (unsigned long long)counts[REDLOCK_EVENT_RELEASED]);
    return 0;
}
