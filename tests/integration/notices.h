/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What a lock reports: through on_change, how often, and when first and last; and the ends of its
 * operations. Reported on another thread.
 */
#ifndef TESTS_NOTICES_H
#define TESTS_NOTICES_H

#include <pthread.h>
#include <stdatomic.h>

#include "harness.h"

struct notices {
    atomic_int count[REDLOCK_CHANGE_LOST + 1];
    _Atomic double first[REDLOCK_CHANGE_LOST + 1], last[REDLOCK_CHANGE_LOST + 1];
};

static inline void notice(void *context, struct redlock_lock *lock, int change) {
    struct notices *notices = context;
    (void)lock;
    notices->last[change] = now_ms();
    if (notices->count[change] == 0) notices->first[change] = notices->last[change];
    notices->count[change]++; /* last: whoever sees the count sees the times */
}

static inline struct redlock_lock_options notices_options(int64_t ttl_ms, struct notices *notices) {
    struct redlock_lock_options options = lock_options(ttl_ms);
    options.on_change = notice;
    options.on_change_context = notices;
    return options;
}

struct done {
    atomic_int count, result;
    struct redlock_lock *lock; /* the last one */
    pthread_t thread;
    bool frees; /* the lock, in its own callback */
};

static inline void on_done(void *context, struct redlock_lock *lock, int result) {
    struct done *done = context;
    done->lock = lock;
    done->thread = pthread_self();
    done->result = result;
    if (done->frees) redlock_lock_free(lock);
    done->count++; /* last, as above */
}

/* How many nodes have granted in the last round. */
static inline size_t granted_by(struct redlock_lock *lock) {
    int verdicts[REDLOCK_NODES_MAX];
    size_t nodes = redlock_verdicts(lock, verdicts, REDLOCK_NODES_MAX), granted = 0;
    for (size_t i = 0; i < nodes; i++) granted += verdicts[i] == REDLOCK_VERDICT_GRANTED;
    return granted;
}

#define wait_until(condition, ms)                                                                  \
    do {                                                                                           \
        double end_ = now_ms() + (double)(ms);                                                     \
        while (!(condition)) {                                                                     \
            if (now_ms() > end_) fail_msg("not within %g ms: %s", (double)(ms), #condition);       \
            nap_ms(2);                                                                             \
        }                                                                                          \
    } while (0)

/* Fails with both values. */
#define assert_less(a, b)                                                                          \
    do {                                                                                           \
        double a_ = (double)(a), b_ = (double)(b);                                                 \
        if (!(a_ < b_)) fail_msg("%s is %g, not less than %s, which is %g", #a, a_, #b, b_);       \
    } while (0)

/* With more patience than the default, so that a busy machine does not look like a dead node. */
static inline struct redlock_client *open_calm(const struct servers *servers) {
    struct redlock_client_options options;
    redlock_client_options_init(&options);
    options.node_timeout_ms = 300;
    return open_client(servers, &options);
}

/* A test that measures no time waits for as long as it takes: a machine that is busy with other
 * tests may stop it, and the servers, for a second. */
enum { PATIENT_NODE_MS = 1500, PATIENT_TTL_MS = 4000, PATIENT_MS = 30000 };

static inline unsigned nodes_ready(struct redlock_client *client) {
    unsigned ready = 0;
    for (size_t i = 0; i < redlock_client_nodes(client); i++) {
        struct redlock_node_status status = {.size = sizeof status};
        assert_result(redlock_client_node(client, i, &status), REDLOCK_OK);
        ready += status.verdict == REDLOCK_VERDICT_GRANTED;
    }
    return ready;
}

static inline struct redlock_stats stats_of(struct redlock_client *client) {
    struct redlock_stats stats = {.size = sizeof stats};
    assert_result(redlock_client_stats(client, &stats), REDLOCK_OK);
    return stats;
}

/* When the lock's validity ends as last seen before it was lost, on the scale of now_ms(). */
static inline double validity_end_until_lost(struct redlock_lock *lock, struct notices *notices,
                                             double ms) {
    double end = 0, give_up = now_ms() + ms;
    while (notices->count[REDLOCK_CHANGE_LOST] == 0) {
        double now_end = (double)redlock_validity_end_ns(lock) / 1e6;
        if (now_end > 0) end = now_end;
        if (now_ms() > give_up) fail_msg("not told LOST within %g ms", ms);
        nap_ms(2);
    }
    return end;
}

#endif
