/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What is measured about locks: histograms, the event hook (redlock/metrics.h), and tracepoints in
 * the same places. Without a hook, this costs a few instructions for each event: what only the hook
 * needs is in functions of its own, so that the others save no registers for it. */
#include "lock.h"

#if REDLOCK_USDT
#include <sys/sdt.h>
#ifdef __clang__ /* a macro of that header, where this file uses it */
#pragma clang diagnostic ignored "-Wgnu-zero-variadic-macro-arguments"
#endif
#else
#define DTRACE_PROBE7(...) ((void)0)
#endif

/* ---- tracepoints ---- */

static size_t prefix_of(const struct redlock_lock *lock) {
    return lock->client->options.key_prefix_bytes;
}

static int64_t fence_now(const struct redlock_lock *lock) {
    return lock->config->mode->fenced ? lock_fence(lock) : 0;
}

/* They have no token either. docs/operate/metrics.md lists the arguments. */
#define TRACEPOINT(name, lock, result, began, now)                                                 \
    DTRACE_PROBE7(redlock, name, lock, (const char *)(lock)->keys[0].data + prefix_of(lock),       \
                  (lock)->keys[0].bytes - prefix_of(lock), result, fence_now(lock), began, now)

/* ---- the hook ---- */

static void pass_on(const struct redlock_lock *lock, const struct redlock_event *what) {
    const struct redlock_client *client = lock->client;
    const size_t prefix = prefix_of(lock);
    struct redlock_bytes resources[REDLOCK_RESOURCES_MAX];
    int verdicts[REDLOCK_NODES_MAX];
    for (size_t i = 0; i < lock->keys_count; i++)
        resources[i] = (struct redlock_bytes){(const char *)lock->keys[i].data + prefix,
                                              lock->keys[i].bytes - prefix};
    for (size_t i = 0; i < client->nodes; i++) verdicts[i] = lock_verdicts(lock)[i];
    struct redlock_event event = *what;
    event.size = sizeof event;
    event.lock = lock;
    event.resources = resources;
    event.resources_count = lock->keys_count;
    event.fence = fence_now(lock);
    event.verdicts = verdicts;
    event.nodes = client->nodes;
    client->observer(client->observer_context, &event);
}

static bool observed(const struct redlock_lock *lock) { return lock->client->observer != NULL; }

/* ---- an acquisition ---- */

static __attribute__((noinline)) void report_acquisition(const struct redlock_lock *lock, int kind,
                                                         int result, rl_ns now) {
    const struct rl_acquire *machine = &lock->extra->acquisition->machine;
    const bool won = result == REDLOCK_OK;
    const struct redlock_event event = {.kind = kind,
                                        .result = result,
                                        .began_ns = lock->extra->acquisition->since,
                                        .ended_ns = now,
                                        .acquired_ns = won ? now : 0,
                                        .validity_end_ns = won ? machine->attempt.validity_end : 0,
                                        .tries = machine->tries};
    pass_on(lock, &event);
}

void events_acquired(struct redlock_lock *lock, rl_ns now) {
    struct redlock_stats *stats = &lock->client->stats;
    const rl_ns since = lock->extra->acquisition->since;
    const struct rl_waiting *waiting = &lock->extra->acquisition->machine.waiting;
    stats->acquired++;
    histogram_add(&stats->waited, now - since);
    if (waiting->active && waiting->free_since != RL_NEVER)
        histogram_add(&stats->handed_over, now - waiting->free_since);
    TRACEPOINT(acquired, lock, REDLOCK_OK, since, now);
    if (observed(lock)) report_acquisition(lock, REDLOCK_EVENT_ACQUIRED, REDLOCK_OK, now);
}

void events_failed(const struct redlock_lock *lock, int result, rl_ns now) {
    TRACEPOINT(failed, lock, result, lock->extra->acquisition->since, now);
    if (observed(lock)) report_acquisition(lock, REDLOCK_EVENT_FAILED, result, now);
}

/* ---- a lease ---- */

static __attribute__((noinline)) void report_lease(const struct redlock_lock *lock, int kind,
                                                   int result, rl_ns began, rl_ns now) {
    const struct rl_lease *lease = &lock->lease;
    const bool proven = rl_lease_holds(lease);
    const bool extends = kind == REDLOCK_EVENT_EXTENDED && proven;
    const struct redlock_event event = {.kind = kind,
                                        .result = result,
                                        .began_ns = began,
                                        .ended_ns = now,
                                        .acquired_ns = lease->began,
                                        .validity_end_ns = extends ? lease->validity_end : 0};
    pass_on(lock, &event);
}

static void extended(const struct redlock_lock *lock, int result, rl_ns t1, rl_ns now) {
    const struct rl_lease *lease = &lock->lease;
    /* A step may end one round and open the next; and a round that can ask nobody ends in the step
     * that opens it. */
    const bool next_is_open = lease->round_t1 != t1 && lease->work->round.asked;
    rl_ns began = next_is_open ? t1 : lease->round_t1;
    const bool asked = result == REDLOCK_OK || result == REDLOCK_NO_QUORUM;
    if (!asked) began = now; /* refused, or overtaken by the loss */
    TRACEPOINT(extended, lock, result, began, now);
    if (observed(lock)) report_lease(lock, REDLOCK_EVENT_EXTENDED, result, began, now);
}

void events_lease(const struct redlock_lock *lock, const struct rl_actions *actions, int extension,
                  rl_ns t1, rl_ns now) {
    if (actions->extend_outcome != RL_OUTCOME_NONE)
        extended(lock, extension, t1, now);
    else if (actions->notices & RL_NOTICE_RENEWED)
        extended(lock, REDLOCK_OK, t1, now);
    else if (actions->notices & RL_NOTICE_UNSURE)
        extended(lock, REDLOCK_NO_QUORUM, t1, now);
    if (!(actions->notices & RL_NOTICE_LOST)) return;
    TRACEPOINT(lost, lock, REDLOCK_LOST, lock->lease.began, now);
    if (observed(lock))
        report_lease(lock, REDLOCK_EVENT_LOST, REDLOCK_LOST, lock->lease.began, now);
}

void events_hold_ended(struct redlock_lock *lock, bool lost, rl_ns now) {
    struct redlock_stats *stats = &lock->client->stats;
    histogram_add(&stats->held, now - lock->lease.began);
    if (!lost) histogram_add(&stats->validity_left, lock->lease.validity_end - now);
}

void events_released(const struct redlock_lock *lock, int result, rl_ns now) {
    const rl_ns began = lock->lease.unlocking_since;
    TRACEPOINT(released, lock, result, began, now);
    if (observed(lock)) report_lease(lock, REDLOCK_EVENT_RELEASED, result, began, now);
}

void events_disowned(const struct redlock_lock *lock, rl_ns now) {
    TRACEPOINT(disowned, lock, REDLOCK_OK, lock->lease.began, now);
    if (observed(lock))
        report_lease(lock, REDLOCK_EVENT_DISOWNED, REDLOCK_OK, lock->lease.began, now);
}

int redlock_client_observe(struct redlock_client *client, redlock_event_fn *each, void *context) {
    if (!client) return REDLOCK_BAD_ARGUMENT;
    if (client_enter(client) != REDLOCK_OK) return REDLOCK_FORKED;
    client->observer = each;
    client->observer_context = context;
    client_leave(client);
    return REDLOCK_OK;
}
