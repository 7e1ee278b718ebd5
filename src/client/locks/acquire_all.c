/* SPDX-License-Identifier: BSD-2-Clause
 *
 * All of several locks, or none of them. The first one waits in its queue; the others are tried
 * once while it is held. A caller that does not get all of them keeps none: two callers that each
 * have what the other needs would wait for each other. Then it stays away for a random time. */
#include "core/mix.h"
#include "lock.h"

struct all {
    struct redlock_lock *const *locks;
    size_t count;
    struct redlock_client *client;
    rl_ns deadline; /* RL_NEVER: none */
};

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

static int take_first(const struct all *all, bool *last) {
    struct redlock_lock *first = all->locks[0];
    if (client_enter(all->client) != REDLOCK_OK) return REDLOCK_FORKED;
    const int64_t wait_ms = left_ms(all);
    *last = wait_ms == 0;
    const int result =
        first->cancelled ? REDLOCK_CANCELLED : acquire_begin(first, wait_ms, NULL, NULL);
    return op_await(first, lock_op, result);
}

/* OK: all are held now. The mutex is not held. */
static int try_all(const struct all *all, bool *last) {
    int result = take_first(all, last);
    if (result != REDLOCK_OK) return result;
    result =
        all->count > 1 ? redlock_acquire_many(all->locks + 1, all->count - 1, 0, NULL) : REDLOCK_OK;
    for (size_t i = 0; i < all->count && result == REDLOCK_OK; i++)
        if (redlock_validity_ms(all->locks[i]) <= 0) result = REDLOCK_EXPIRED;
    if (result != REDLOCK_OK) redlock_release_many(all->locks, all->count, NULL);
    return result;
}

/* With the mutex held. False: it was cancelled meanwhile. */
static bool stay_away(const struct all *all) {
    struct redlock_lock *first = all->locks[0];
    const struct redlock_lock_options *options = &first->config->options;
    struct redlock_client *client = all->client;
    struct waiter waiter;
    uint64_t random = 0;
    if (net_random(client->net, &random, sizeof random) != 0) random = 1;
    const rl_ns delay = rl_draw_between(&random, options->retry_delay_ms_min * RL_MS,
                                        options->retry_delay_ms_max * RL_MS),
                until = net_now(client->net) + delay;
    waiter_init(&waiter);
    struct extra *extra = extra_take(first, false);
    if (extra) extra->op = (struct op){.active = true, .waiter = &waiter};
    schedule_wait_until(&client->schedule, &waiter, until < all->deadline ? until : all->deadline);
    if (extra_of(first)->op.waiter == &waiter) first->extra->op = (struct op){0};
    extra_rest(first);
    return !first->cancelled;
}

static bool may_pass(int result) {
    return result == REDLOCK_HELD || result == REDLOCK_EXPIRED || result == REDLOCK_NO_QUORUM;
}

static int begin(struct all *all, int64_t wait_ms) {
    if (client_enter(all->client) != REDLOCK_OK) return REDLOCK_FORKED;
    const rl_ns now = net_now(all->client->net);
    const bool ends = wait_ms != REDLOCK_WAIT_FOREVER && wait_ms <= (RL_NEVER - now) / RL_MS;
    const int result = check(all);
    all->deadline = ends ? now + wait_ms * RL_MS : RL_NEVER;
    if (result == REDLOCK_OK) all->locks[0]->cancelled = false;
    client_leave(all->client);
    return result;
}

int redlock_acquire_all(struct redlock_lock *const *locks, size_t count, int64_t wait_ms) {
    if (!locks || count < 1 || count > REDLOCK_RESOURCES_MAX || wait_ms < REDLOCK_WAIT_FOREVER)
        return REDLOCK_BAD_ARGUMENT;
    for (size_t i = 0; i < count; i++)
        if (!locks[i] || locks[i]->client != locks[0]->client) return REDLOCK_BAD_ARGUMENT;
    struct all all = {.locks = locks, .count = count, .client = locks[0]->client};
    int result = begin(&all, wait_ms);
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
