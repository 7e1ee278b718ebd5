/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Many locks, each independent of the others: their requests to a node go out together. */
#include "lock.h"

/* The limit of operations under way. When half of them are done, the next ones start. A node that
 * got a hundred thousand requests at once would answer the last of them late. */
enum { MANY_AT_ONCE = 1024 };

struct many {
    struct redlock_lock *const *locks;
    size_t count;
    int *results; /* may be NULL */
    bool release;
    int64_t wait_ms;
    redlock_done_fn *done;
    void *context;
};

/* The locks share connections, so they must share the client. */
static struct redlock_client *client_of(const struct many *many) {
    if (many->count == 0 || !many->locks) return NULL;
    for (size_t i = 0; i < many->count; i++)
        if (!many->locks[i] || many->locks[i]->client != many->locks[0]->client) return NULL;
    return many->locks[0]->client;
}

static int fail_all(const struct many *many, int result) {
    for (size_t i = 0; i < many->count && many->results; i++) many->results[i] = result;
    return result;
}

static int begin(const struct many *many, size_t i, int64_t wait_ms) {
    struct redlock_lock *lock = many->locks[i];
    return many->release ? release_begin(lock, many->done, many->context)
                         : acquire_begin(lock, wait_ms, many->done, many->context);
}

/* ---- with callbacks ---- */

static int start(const struct many *many) {
    int first = REDLOCK_OK;
    if (many->count == 0) return REDLOCK_OK;
    struct redlock_client *client = client_of(many);
    if (!client || !many->done) return fail_all(many, REDLOCK_BAD_ARGUMENT);
    if (client_enter(client) != REDLOCK_OK) return fail_all(many, REDLOCK_FORKED);
    for (size_t i = 0; i < many->count; i++) {
        int result = begin(many, i, many->wait_ms);
        if (many->results) many->results[i] = result;
        if (first == REDLOCK_OK) first = result;
    }
    client_leave(client);
    return first;
}

/* ---- blocking ---- */

/* One that has not begun may be cancelled too. */
static int begin_unless_cancelled(const struct many *many, size_t i, int64_t wait_ms) {
    if (!many->release && many->locks[i]->cancelled) return REDLOCK_CANCELLED;
    return begin(many, i, wait_ms);
}

/* True: it is under way, and `waiter` will be notified. */
static bool begin_waiting(const struct many *many, size_t i, int64_t wait_ms,
                          struct waiter *waiter) {
    struct redlock_lock *lock = many->locks[i];
    int result = begin_unless_cancelled(many, i, wait_ms);
    struct op *op = lock_op(lock);
    if (result == REDLOCK_OK && op->active) {
        op->waiter = waiter;
        op->context = many->results ? &many->results[i] : NULL;
        return true;
    }
    if (result == REDLOCK_OK) { /* ended already */
        result = op->result;
        *op = (struct op){0};
        extra_rest(lock);
    }
    if (many->results) many->results[i] = result;
    if (result != REDLOCK_OK) waiter->result = result;
    return false;
}

/* Returns how many have ended since the last call. */
static size_t wait_for_some(struct redlock_client *client, struct waiter *waiter, size_t wanted) {
    size_t finished = waiter->finished;
    int result = waiter->result;
    if (finished < wanted) {
        waiter_init(waiter);
        waiter->finished = finished;
        waiter->wanted = wanted;
        waiter->result = result;
        schedule_wait(&client->schedule, waiter);
        finished = waiter->finished;
    }
    waiter->finished = 0;
    waiter->wanted = SIZE_MAX;
    return finished;
}

static int wait_for_all(const struct many *many) {
    size_t next = 0, busy = 0;
    struct waiter waiter;
    if (many->count == 0) return REDLOCK_OK;
    struct redlock_client *client = client_of(many);
    if (!client) return fail_all(many, REDLOCK_BAD_ARGUMENT);
    if (client_enter(client) != REDLOCK_OK) return fail_all(many, REDLOCK_FORKED);
    for (size_t i = 0; i < many->count; i++) {
        if (many->release)
            gather_for_adopted(many->locks[i]);
        else
            many->locks[i]->cancelled = false;
    }
    waiter_init(&waiter);
    waiter.wanted = SIZE_MAX;
    rl_ns began = net_now(client->net);
    while (next < many->count || busy > 0) {
        int64_t gone_ms = (net_now(client->net) - began) / RL_MS, wait_ms = many->wait_ms;
        if (wait_ms > 0) wait_ms = wait_ms > gone_ms ? wait_ms - gone_ms : 0;
        for (; next < many->count && busy < MANY_AT_ONCE; next++)
            busy += begin_waiting(many, next, wait_ms, &waiter);
        if (busy == 0) break;
        size_t rest = next < many->count ? MANY_AT_ONCE / 2 : 0;
        busy -= wait_for_some(client, &waiter, busy - rest);
    }
    const int result = client_leave_notifying(client, waiter.result);
    return result == REDLOCK_FORKED ? fail_all(many, result) : result;
}

/* ---- */

int redlock_acquire_many(struct redlock_lock *const *locks, size_t count, int64_t wait_ms,
                         int *results) {
    return wait_for_all(&(struct many){locks, count, results, false, wait_ms, NULL, NULL});
}

int redlock_release_many(struct redlock_lock *const *locks, size_t count, int *results) {
    return wait_for_all(&(struct many){locks, count, results, true, 0, NULL, NULL});
}

int redlock_acquire_many_start(struct redlock_lock *const *locks, size_t count, int64_t wait_ms,
                               int *results, redlock_done_fn *done, void *context) {
    return start(&(struct many){locks, count, results, false, wait_ms, done, context});
}

int redlock_release_many_start(struct redlock_lock *const *locks, size_t count, int *results,
                               redlock_done_fn *done, void *context) {
    return start(&(struct many){locks, count, results, true, 0, done, context});
}
