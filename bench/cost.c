/* SPDX-License-Identifier: BSD-2-Clause */
#include "cost.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

int64_t cost_now_ns(void) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (int64_t)at.tv_sec * 1000000000 + at.tv_nsec;
}

void cost_must(int result, const char *what, const char *text) {
    if (result >= REDLOCK_OK) return;
    fprintf(stderr, "%s: %s%s%s\n", what, redlock_result_text(result), text[0] ? ": " : "", text);
    exit(1);
}

struct redlock_client *cost_client(enum redlock_mode mode, int service_thread) {
    struct redlock_client_options options;
    struct redlock_client *client = NULL;
    struct redlock_error error = {0};
    const char *nodes = getenv("REDLOCK_NODES");
    if (!nodes) {
        fputs("REDLOCK_NODES is not set; run this program with: redlock up --\n", stderr);
        exit(64);
    }
    redlock_client_options_init(&options);
    options.mode = (int)mode;
    options.service_thread = service_thread;
    options.node_timeout_ms = 1000; /* a late answer is a slow cycle here, not a lost one */
    cost_must(redlock_client_open(nodes, &options, &client, &error), "open", error.text);
    cost_must(redlock_client_wait_ready(client, 5000), "connect", "");
    return client;
}

struct redlock_lock *cost_lock(struct redlock_client *client, const char *name, bool shared) {
    struct redlock_lock_options options;
    struct redlock_lock *lock = NULL;
    struct redlock_error error = {0};
    redlock_lock_options_init(&options);
    options.renew = 0;
    options.shared = shared;
    cost_must(redlock_lock_new(client, name, strlen(name), &options, &lock, &error), "lock",
              error.text);
    return lock;
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double cost_median(double *values, size_t count) {
    qsort(values, count, sizeof(values[0]), by_size);
    return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}
