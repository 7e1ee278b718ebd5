/* SPDX-License-Identifier: BSD-2-Clause
 *
 * All of several locks, or none of them. The first one waits in its queue; the others are tried
 * once while it is held. A caller that does not get all of them keeps none: two callers that each
 * have what the other needs would wait for each other. Then it stays away for a random time. */
#include <stdlib.h>
#include <string.h>

#include "core/mix.h"
#include "lock.h"

struct all {
    struct redlock_lock *const *locks;
    size_t count;
    struct redlock_client *client;
    rl_ns deadline; /* RL_NEVER: none */
};

/* ---- what both forms decide alike ---- */

/* A lock that is listed twice, or that the caller has already, could not be released here. */
static int check(const struct all *all) {
    for (size_t i = 0; i < all->count; i++) {
        const struct redlock_lock *lock = all->locks[i];
        if (!lock_is_idle(lock) || op_is_busy(lock_op(lock))) return REDLOCK_BUSY;
        for (size_t j = 0; j < i; j++)
            if (all->locks[j] == lock) return REDLOCK_BUSY;
    }
    return REDLOCK_OK;
}

/* What is left of the wait; 0: one try. */
static int64_t left_ms(const struct all *all) {
    if (all->deadline == RL_NEVER) return REDLOCK_WAIT_FOREVER;
    const rl_ns left = all->deadline - net_now(all->client->net);
    return left > 0 ? (left + RL_MS - 1) / RL_MS : 0;
}

/* Begins to acquire the first lock. The mutex is held. Sets *last when no time is left for another
 * try. */
static int begin_first(const struct all *all, bool *last, redlock_done_fn *done, void *context) {
    struct redlock_lock *first = all->locks[0];
    const int64_t wait_ms = left_ms(all);
    *last = wait_ms == 0;
    return first->cancelled ? REDLOCK_CANCELLED : acquire_begin(first, wait_ms, done, context);
}

/* All were acquired. The first ones may have ended since. */
static int held_result(const struct all *all) {
    for (size_t i = 0; i < all->count; i++)
        if (redlock_validity_ms(all->locks[i]) <= 0) return REDLOCK_EXPIRED;
    return REDLOCK_OK;
}

static bool may_pass(int result) {
    return result == REDLOCK_HELD || result == REDLOCK_EXPIRED || result == REDLOCK_NO_QUORUM;
}

static rl_ns away_until(const struct all *all) {
    const struct redlock_lock_options *options = &all->locks[0]->config->options;
    struct net *net = all->client->net;
    uint64_t random = 0;
    if (net_random(net, &random, sizeof random) != 0) random = 1;
    const rl_ns until = net_now(net) + rl_draw_between(&random, options->retry_delay_ms_min * RL_MS,
                                                       options->retry_delay_ms_max * RL_MS);
    return until < all->deadline ? until : all->deadline;
}

static int begin(struct all *all, struct redlock_lock *const *locks, size_t count,
                 int64_t wait_ms) {
    if (!locks || count < 1 || count > REDLOCK_RESOURCES_MAX || wait_ms < REDLOCK_WAIT_FOREVER)
        return REDLOCK_BAD_ARGUMENT;
    for (size_t i = 0; i < count; i++)
        if (!locks[i] || locks[i]->client != locks[0]->client) return REDLOCK_BAD_ARGUMENT;
    *all = (struct all){.locks = locks, .count = count, .client = locks[0]->client};
    if (client_enter(all->client) != REDLOCK_OK) return REDLOCK_FORKED;
    const int result = check(all);
    all->deadline = wait_deadline(wait_ms, net_now(all->client->net));
    if (result == REDLOCK_OK) all->locks[0]->cancelled = false;
    client_leave(all->client);
    return result;
}

/* ---- blocking ---- */

/* OK: all are held now. The mutex is not held. */
static int try_all(const struct all *all, bool *last) {
    if (client_enter(all->client) != REDLOCK_OK) return REDLOCK_FORKED;
    int result = op_await(all->locks[0], lock_op, begin_first(all, last, NULL, NULL));
    if (result != REDLOCK_OK) return result;
    result =
        all->count > 1 ? redlock_acquire_many(all->locks + 1, all->count - 1, 0, NULL) : REDLOCK_OK;
    if (result == REDLOCK_OK) result = held_result(all);
    if (result != REDLOCK_OK) redlock_release_many(all->locks, all->count, NULL);
    return result;
}

/* With the mutex held. False: it was cancelled meanwhile. */
static bool stay_away(const struct all *all) {
    struct redlock_lock *first = all->locks[0];
    struct waiter waiter;
    waiter_init(&waiter);
    struct extra *extra = extra_take(first, false);
    if (extra) extra->op = (struct op){.active = true, .waiter = &waiter};
    schedule_wait_until(&all->client->schedule, &waiter, away_until(all));
    if (extra_of(first)->op.waiter == &waiter) first->extra->op = (struct op){0};
    extra_rest(first);
    return !first->cancelled;
}

int redlock_acquire_all(struct redlock_lock *const *locks, size_t count, int64_t wait_ms) {
    struct all all;
    int result = begin(&all, locks, count, wait_ms);
    if (result != REDLOCK_OK) return result;
    for (;;) {
        bool last = true;
        result = try_all(&all, &last);
        if (result == REDLOCK_OK || !may_pass(result) || last) return result;
        if (client_enter(all.client) != REDLOCK_OK) return REDLOCK_FORKED;
        const bool goes_on = !locks[0]->cancelled && stay_away(&all);
        result = client_leave_notifying(all.client, goes_on ? REDLOCK_OK : REDLOCK_CANCELLED);
        if (result != REDLOCK_OK) return result;
    }
}

/* ---- with a callback ----
 *
 * Each step begins in the callback of the one before. Callbacks run one at a time, and without the
 * mutex. */

struct started {
    struct all all;
    redlock_done_fn *done;
    void *context;
    struct net_timer timer; /* the end of staying away */
    bool last;
    int result;     /* OK, or of one that was not acquired */
    size_t pending; /* callbacks to come */
    int results[REDLOCK_RESOURCES_MAX];
    struct redlock_lock *locks[];
};

/* In a callback of `lock`. To free the first lock is to wait for `done`, so it is a callback of
 * that one; without memory it is called here. */
static void finish(struct started *started, const struct redlock_lock *lock, int result) {
    struct redlock_lock *first = started->all.locks[0];
    struct redlock_client *client = started->all.client;
    redlock_done_fn *done = started->done;
    void *context = started->context;
    struct extra *extra = NULL;
    free(started);
    if (lock != first) {
        if (client_enter(client) != REDLOCK_OK) return;
        extra = extra_take(first, false);
        if (extra) op_begin(first, &extra->op, done, context);
        if (extra) op_finish(first, &extra->op, result);
        client_leave(client);
    }
    if (!extra) done(context, first, result);
}

static redlock_done_fn on_first, on_other, on_released;

static void count_pending(struct started *started, size_t count) {
    started->pending = 0;
    for (size_t i = 0; i < count; i++) started->pending += started->results[i] == REDLOCK_OK;
}

static int take_first(struct started *started) {
    struct redlock_client *client = started->all.client;
    if (client_enter(client) != REDLOCK_OK) return REDLOCK_FORKED;
    const int result = begin_first(&started->all, &started->last, on_first, started);
    client_leave(client);
    return result;
}

static void on_back(void *context, struct redlock_lock *first, int result) {
    struct started *started = context;
    struct redlock_client *client = started->all.client;
    if (client_enter(client) != REDLOCK_OK) return;
    net_timer_set(client->net, &started->timer, RL_NEVER);
    client_leave(client);
    if (result == REDLOCK_OK) result = take_first(started);
    if (result != REDLOCK_OK) finish(started, first, result);
}

static void on_timer(struct net_timer *timer) {
    struct redlock_lock *first = RL_CONTAINER(timer, struct started, timer)->all.locks[0];
    op_finish(first, lock_op(first), REDLOCK_OK);
}

static int start_away(struct started *started) {
    struct redlock_client *client = started->all.client;
    struct redlock_lock *first = started->all.locks[0];
    if (client_enter(client) != REDLOCK_OK) return REDLOCK_FORKED;
    struct extra *extra = extra_take(first, false);
    int result = extra ? REDLOCK_OK : REDLOCK_NO_MEMORY;
    if (first->cancelled) result = REDLOCK_CANCELLED;
    if (result == REDLOCK_OK) {
        op_begin(first, &extra->op, on_back, started);
        extra->op.stop = &started->timer;
        net_timer_set(client->net, &started->timer, away_until(&started->all));
    }
    extra_rest(first);
    client_leave(client);
    return result;
}

/* None is held. */
static void again(struct started *started, const struct redlock_lock *lock) {
    int result = started->result;
    const bool ends = started->last || !may_pass(result);
    if (!ends) result = start_away(started);
    if (ends || result != REDLOCK_OK) finish(started, lock, result);
}

static void on_released(void *context, struct redlock_lock *lock, int result) {
    struct started *started = context;
    (void)result;
    if (--started->pending == 0) again(started, lock);
}

/* Each of them was tried. */
static void decide(struct started *started, const struct redlock_lock *lock) {
    const struct all *all = &started->all;
    if (started->result == REDLOCK_OK) started->result = held_result(all);
    if (started->result == REDLOCK_OK) {
        finish(started, lock, REDLOCK_OK);
        return;
    }
    (void)!redlock_release_many_start(all->locks, all->count, started->results, on_released,
                                      started);
    count_pending(started, all->count);
    if (started->pending == 0) again(started, lock);
}

static void on_other(void *context, struct redlock_lock *lock, int result) {
    struct started *started = context;
    if (result != REDLOCK_OK) started->result = result;
    if (--started->pending == 0) decide(started, lock);
}

static void on_first(void *context, struct redlock_lock *first, int result) {
    struct started *started = context;
    const size_t others = started->all.count - 1;
    started->result = result;
    if (result != REDLOCK_OK) {
        again(started, first);
        return;
    }
    started->result = others ? redlock_acquire_many_start(started->locks + 1, others, 0,
                                                          started->results, on_other, started)
                             : REDLOCK_OK;
    count_pending(started, others);
    if (started->pending == 0) decide(started, first);
}

int redlock_acquire_all_start(struct redlock_lock *const *locks, size_t count, int64_t wait_ms,
                              redlock_done_fn *done, void *context) {
    struct all all;
    if (!done) return REDLOCK_BAD_ARGUMENT;
    int result = begin(&all, locks, count, wait_ms);
    if (result != REDLOCK_OK) return result;
    struct started *started = calloc(1, sizeof *started + count * sizeof locks[0]);
    if (!started) return REDLOCK_NO_MEMORY;
    memcpy(started->locks, locks, count * sizeof locks[0]);
    started->all = all;
    started->all.locks = started->locks;
    started->done = done;
    started->context = context;
    started->timer.fire = on_timer;
    result = take_first(started);
    if (result != REDLOCK_OK) free(started);
    return result;
}
