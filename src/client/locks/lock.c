/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A lock as its user sees it: acquire, extend, release, query, free. The functions here
 * only begin an operation. step.c carries it on: events go to the state machines of src/core, and
 * their actions go to the nodes. */
#include <stdlib.h>
#include <string.h>

#include "client/ask/ask.h"
#include "lock.h"

/* ---- client->locks: what a client keeps for all of its locks ---- */

const size_t locks_bytes = sizeof(struct locks);

void locks_init(struct redlock_client *client) {
    client->locks->client = client;
    renewals_init(&client->locks->renewals);
    late_init(&client->locks->late);
}

/* All locks have been freed, and with the last one of its kind each lock config. Only in a child
 * after fork(2) redlock_lock_free() leaves the configs, for this function. */
void locks_free(struct redlock_client *client) {
    struct locks *locks = client->locks;
    pool_empty(&locks->rounds);
    pool_empty(&locks->acquisitions);
    pool_empty(&locks->extras);
    free(locks->renewals.due);
    chains_free(&locks->lock_configs, free);
    wait_queues_free(locks->wait_queues);
}

/* ---- freeing ---- */

/* The lock waits for nothing any more. The answers to its requests go to the round, which ends with
 * the last of them. */
static void forget(struct redlock_lock *lock) {
    wait_queue_leave(lock);
    acquiring_remove(lock);
    fenced_unpark(lock);
    leased_remove(lock);
    renewals_forget(lock);
    late_forget(lock);
    net_timer_set(lock->client->net, &lock->timer, RL_NEVER);
    lock->phase = PHASE_FREE;
}

static void cancel(struct redlock_lock *lock) {
    if (lock->phase != PHASE_ACQUIRING) return;
    int *abort_result = &lock->extra->acquisition->abort_result;
    if (*abort_result == TURNED_GUARDED) *abort_result = REDLOCK_CANCELLED;
    lock_step(lock, (struct rl_event){.type = RL_EVENT_CANCEL});
}

static void stop(struct redlock_lock *lock) {
    struct net_timer *timer = extra_of(lock)->op.stop;
    if (timer) timer->fire(timer);
}

void redlock_lock_free(struct redlock_lock *lock) {
    if (!lock) return;
    struct redlock_client *client = lock->client;
    if (client_enter(client) != REDLOCK_OK) { /* in a child: the connections belong to the parent */
        struct round *round = round_now(lock);
        if (round) free(round->slots);
        free(round);
        free(extra_of(lock)->acquisition);
        lock_dealloc(lock); /* its lock config ends with the client */
        client_unref(client);
        return;
    }
    atomic_store(&lock->freed, true);
    /* a thread that is blocked in a call on the lock is perhaps inside a callback of it */
    if (extra_of(lock)->op.waiter) op_finish(lock, lock_op(lock), REDLOCK_CANCELLED);
    if (extra_of(lock)->extension.waiter) op_finish(lock, lock_extension(lock), REDLOCK_CANCELLED);
    stop(lock);
    cancel(lock);
    if (lock->phase == PHASE_LEASED) {
        lock->phase = PHASE_RELEASING;
        lock_step(lock, (struct rl_event){.type = RL_EVENT_RELEASE});
    }
    rl_ns now = net_now(client->net);
    if (lock->phase == PHASE_ACQUIRING) events_failed(lock, REDLOCK_CANCELLED, now);
    if (lock->phase == PHASE_RELEASING) events_released(lock, REDLOCK_NO_QUORUM, now);
    if (lock->phase != PHASE_DISOWNED) {
        forget(lock);
        lock_drop_round(lock);
    }
    schedule_stop_callbacks(&client->schedule, &lock->notified);
    op_cancel(lock, lock_op(lock));
    op_cancel(lock, lock_extension(lock));
    if (!schedule_is_forked(&client->schedule)) lock_unref(lock);
    client_leave(client);
    client_unref(client);
}

/* ---- operations ---- */

int acquire_begin(struct redlock_lock *lock, int64_t wait_ms, redlock_done_fn *done,
                  void *context) {
    struct redlock_client *client = lock->client;
    if (wait_ms < REDLOCK_WAIT_FOREVER) return REDLOCK_BAD_ARGUMENT;
    if (lock_is_freed(lock)) return REDLOCK_CANCELLED; /* by another thread, in our callback */
    if (!lock_is_idle(lock) || op_is_busy(lock_op(lock))) return REDLOCK_BUSY;
    if (client_refusal(client) != REDLOCK_OK) return client_refusal(client);
    rl_ns now = net_now(client->net);
    struct rl_event start = {.type = RL_EVENT_START};
    if (net_random(client->net, &start.seed, sizeof start.seed) != 0) return REDLOCK_SYSTEM;
    const struct redlock_lock_options *o = &lock->config->options;
    const struct rl_retry_rules rules = {
        .retries_max = o->retry_count_max ? o->retry_count_max : UINT32_MAX,
        .deadline = wait_deadline(wait_ms, now),
        .delay_min = o->retry_delay_ms_min * RL_MS,
        .delay_max = o->retry_delay_ms_max * RL_MS,
        .connect_timeout = client->options.connect_timeout_ms * RL_MS,
    };
    late_end(lock); /* before its configuration changes */
    if (lock_config_follow_mode(lock) != REDLOCK_OK) return REDLOCK_NO_MEMORY;
    if (!acquiring_add(lock)) return REDLOCK_NO_MEMORY;
    op_begin(lock, &lock->extra->op, done, context);
    lock->phase = PHASE_ACQUIRING;
    lock->reads = false;
    lock->extra->acquisition->since = now;
    rl_acquire_init(&lock->extra->acquisition->machine, &lock->config->terms, &rules);
    wait_queue_begin(lock, wait_ms != 0, &start);
    lock_step(lock, start);
    return REDLOCK_OK;
}

static int may_extend(const struct redlock_lock *lock, int64_t ttl_ms) {
    if (ttl_ms < REDLOCK_TTL_MS_MIN || ttl_ms > REDLOCK_TTL_MS_MAX) return REDLOCK_BAD_ARGUMENT;
    if (lock->phase == PHASE_ACQUIRING || lock->phase == PHASE_RELEASING) return REDLOCK_BUSY;
    if (op_is_busy(lock_extension(lock))) return REDLOCK_BUSY;
    if (lock_is_idle(lock)) return REDLOCK_LOST;
    const struct lock_mode *mode = lock->config->mode;
    return mode->may_extend ? mode->may_extend(lock, ttl_ms) : REDLOCK_OK;
}

static int extend_begin(struct redlock_lock *lock, int64_t ttl_ms, redlock_done_fn *done,
                        void *context) {
    if (ttl_ms == 0) ttl_ms = lock->config->options.ttl_ms;
    int refusal = may_extend(lock, ttl_ms);
    if (refusal != REDLOCK_OK) return refusal;
    if (!extra_take(lock, false)) return REDLOCK_NO_MEMORY;
    op_begin(lock, &lock->extra->extension, done, context);
    lock_step(lock, (struct rl_event){.type = RL_EVENT_EXTEND, .ttl = ttl_ms * RL_MS});
    return REDLOCK_OK;
}

/* Every node must be able to make its key that of readers. */
static bool all_may_list_readers(struct redlock_client *client) {
    for (unsigned i = 0; i < client->nodes; i++) {
        const struct net_node_status status = client_status(client, i);
        if (!status.keeps_readers) return false;
    }
    return true;
}

/* From here on the lock is a reader's, whatever the nodes answer: where the extension arrives, the
 * node admits other readers. Where it does not, the node has the writer's key, and makes it the
 * reader's at the next extension, or deletes it at the release (share_extend.lua and
 * share_release.lua compare both). */
static int downgrade_begin(struct redlock_lock *lock, redlock_done_fn *done, void *context) {
    const struct redlock_lock_options *options = &lock->config->options;
    int refusal = may_extend(lock, options->ttl_ms);
    if (refusal != REDLOCK_OK) return refusal;
    if (lock_reads(lock)) return extend_begin(lock, 0, done, context);
    if (lock->keys_count > 1 || slots_of(lock) || options->leader ||
        lock->client->scheme != REDLOCK_SCHEME_SET)
        return REDLOCK_BAD_ARGUMENT;
    if (!all_may_list_readers(lock->client)) return REDLOCK_NO_SHARED;
    struct extra *extra = extra_take(lock, false);
    if (extra && !extra->pair) extra->pair = lock_pair_new(lock->keys[0]);
    if (!extra || !extra->pair) return REDLOCK_NO_MEMORY;
    lock->reads = true;
    return extend_begin(lock, 0, done, context);
}

int release_begin(struct redlock_lock *lock, redlock_done_fn *done, void *context) {
    if (lock->phase == PHASE_ACQUIRING || lock->phase == PHASE_RELEASING) return REDLOCK_BUSY;
    if (op_is_busy(lock_op(lock))) return REDLOCK_BUSY;
    if (lock_is_idle(lock)) return REDLOCK_LOST;
    struct extra *extra = extra_take(lock, true);
    if (extra) op_begin(lock, &extra->op, done, context);
    lock->phase = PHASE_RELEASING;
    lock_step(lock, (struct rl_event){.type = RL_EVENT_RELEASE});
    return extra ? REDLOCK_OK : REDLOCK_NO_QUORUM; /* without memory it has ended in the step */
}

/* A program that adopts a lock (takes it over by its token) has often just opened the client. So
 * the first round waits until the nodes are connected, as an acquisition does. */
void gather_for_adopted(struct redlock_lock *lock) {
    if (lock->phase == PHASE_LEASED && lock->lease.adopted && lock->lease.state == RL_LEASE_NONE)
        gather_majority(lock->client, lock->config->terms.quorum, lock->config->terms.node_timeout);
}

int op_await(struct redlock_lock *lock, struct op *which(const struct redlock_lock *lock),
             int result) {
    struct redlock_client *client = lock->client;
    struct op *op = which(lock);
    if (result != REDLOCK_OK) {
        client_leave(client);
    } else if (op->active) {
        struct waiter waiter;
        waiter_init(&waiter);
        op->waiter = &waiter;
        return schedule_await(&client->schedule, &waiter);
    } else {
        result = op->result;
        *op = (struct op){0};
        extra_rest(lock);
        result = client_leave_notifying(client, result);
    }
    return result;
}

/* OK: has taken the mutex. */
static int enter(struct redlock_lock *lock) {
    return lock ? client_enter(lock->client) : REDLOCK_BAD_ARGUMENT;
}

static int enter_gathered(struct redlock_lock *lock) {
    const int entered = enter(lock);
    if (entered == REDLOCK_OK) gather_for_adopted(lock);
    return entered;
}

int redlock_acquire(struct redlock_lock *lock, int64_t wait_ms) {
    const int entered = enter(lock);
    if (entered != REDLOCK_OK) return entered;
    return op_await(lock, lock_op, acquire_begin(lock, wait_ms, NULL, NULL));
}

int redlock_try(struct redlock_lock *lock) { return redlock_acquire(lock, 0); }

int redlock_extend(struct redlock_lock *lock, int64_t ttl_ms) {
    const int entered = enter_gathered(lock);
    if (entered != REDLOCK_OK) return entered;
    return op_await(lock, lock_extension, extend_begin(lock, ttl_ms, NULL, NULL));
}

int redlock_downgrade(struct redlock_lock *lock) {
    const int entered = enter_gathered(lock);
    if (entered != REDLOCK_OK) return entered;
    return op_await(lock, lock_extension, downgrade_begin(lock, NULL, NULL));
}

int redlock_release(struct redlock_lock *lock) {
    const int entered = enter_gathered(lock);
    if (entered != REDLOCK_OK) return entered;
    return op_await(lock, lock_op, release_begin(lock, NULL, NULL));
}

static int enter_async(struct redlock_lock *lock, redlock_done_fn *done) {
    return done ? enter(lock) : REDLOCK_BAD_ARGUMENT;
}

static int leave(struct redlock_lock *lock, int result) {
    client_leave(lock->client);
    return result;
}

int redlock_acquire_start(struct redlock_lock *lock, int64_t wait_ms, redlock_done_fn *done,
                          void *context) {
    const int entered = enter_async(lock, done);
    if (entered != REDLOCK_OK) return entered;
    return leave(lock, acquire_begin(lock, wait_ms, done, context));
}

int redlock_extend_start(struct redlock_lock *lock, int64_t ttl_ms, redlock_done_fn *done,
                         void *context) {
    const int entered = enter_async(lock, done);
    if (entered != REDLOCK_OK) return entered;
    return leave(lock, extend_begin(lock, ttl_ms, done, context));
}

int redlock_downgrade_start(struct redlock_lock *lock, redlock_done_fn *done, void *context) {
    const int entered = enter_async(lock, done);
    if (entered != REDLOCK_OK) return entered;
    return leave(lock, downgrade_begin(lock, done, context));
}

int redlock_release_start(struct redlock_lock *lock, redlock_done_fn *done, void *context) {
    const int entered = enter_async(lock, done);
    if (entered != REDLOCK_OK) return entered;
    return leave(lock, release_begin(lock, done, context));
}

void redlock_cancel(struct redlock_lock *lock) {
    if (client_enter(lock->client) != REDLOCK_OK) return;
    lock->cancelled = true;
    if (lock_is_idle(lock) && extra_of(lock)->op.waiter)
        op_finish(lock, lock_op(lock), REDLOCK_CANCELLED); /* between two tries of acquire_all.c */
    stop(lock);
    cancel(lock);
    client_leave(lock->client);
}

int redlock_lock_adopt_fenced(struct redlock_lock *lock, const void *token, size_t bytes,
                              int64_t fence) {
    if (!lock || !token || bytes < 1 || bytes > REDLOCK_TOKEN_BYTES_MAX)
        return REDLOCK_BAD_ARGUMENT;
    struct redlock_client *client = lock->client;
    if (fence < 0 || fence > REDLOCK_FENCE_MAX) return REDLOCK_BAD_ARGUMENT;
    /* It stands for all readers: a release with it would end the locks of all of them. */
    if (net_is_text((struct net_bytes){token, bytes}, NET_SHARED_MARKER))
        return REDLOCK_BAD_ARGUMENT;
    if (client_enter(client) != REDLOCK_OK) return REDLOCK_FORKED;
    int result = lock_is_idle(lock) && !extra_of(lock)->op.active ? REDLOCK_OK : REDLOCK_BUSY;
    if (slots_of(lock)) result = REDLOCK_BAD_ARGUMENT; /* of which slot? It has its own resource */
    if (lock_is_freed(lock)) result = REDLOCK_CANCELLED;
    /* Observers are told the term of a leader, and only its acquisition proves which one that is.
     */
    if (result == REDLOCK_OK && lock->config->options.leader) result = REDLOCK_BAD_ARGUMENT;
    if (result == REDLOCK_OK) late_end(lock); /* before its configuration changes */
    if (result == REDLOCK_OK) result = lock_config_follow_mode(lock);
    if (result == REDLOCK_OK) result = lock->config->mode->adopt(lock, fence);
    if (result == REDLOCK_OK) late_end_token(client, token, bytes);
    if (result == REDLOCK_OK) lock->reads = false;
    if (result == REDLOCK_OK) result = lock_fresh_round(lock, token, bytes);
    if (result == REDLOCK_OK) {
        lease_init(lock);
        lock_step(lock, (struct rl_event){.type = RL_EVENT_START,
                                          .asked = rl_all(client->nodes),
                                          .fence = lock_fence(lock)});
        lock_rest(lock);
    }
    client_leave(client);
    return result;
}

int redlock_lock_adopt(struct redlock_lock *lock, const void *token, size_t bytes) {
    return redlock_lock_adopt_fenced(lock, token, bytes, 0);
}

int redlock_lock_disown(struct redlock_lock *lock) {
    if (!lock) return REDLOCK_BAD_ARGUMENT;
    struct redlock_client *client = lock->client;
    if (client_enter(client) != REDLOCK_OK) return REDLOCK_FORKED;
    int result = lock_is_idle(lock) ? REDLOCK_LOST : REDLOCK_OK;
    if (lock->phase == PHASE_ACQUIRING || lock->phase == PHASE_RELEASING ||
        extra_of(lock)->extension.active)
        result = REDLOCK_BUSY;
    /* the token's bytes stay until the next acquisition */
    if (result == REDLOCK_OK) {
        events_disowned(lock, net_now(client->net));
        forget(lock);
        late_disown(lock);
    }
    client_leave(client);
    return result;
}

/* ---- queries: they send nothing, so they unlock without client_leave() ---- */

void *redlock_lock_context(const struct redlock_lock *lock) { return lock->on_change_context; }

int redlock_lock_state(struct redlock_lock *lock) {
    static const int leased[] = {
        [RL_LEASE_NONE] = REDLOCK_STATE_FREE,           [RL_LEASE_HELD] = REDLOCK_STATE_HELD,
        [RL_LEASE_UNSURE] = REDLOCK_STATE_UNSURE,       [RL_LEASE_LOST] = REDLOCK_STATE_LOST,
        [RL_LEASE_RELEASING] = REDLOCK_STATE_RELEASING, [RL_LEASE_RELEASED] = REDLOCK_STATE_FREE,
    };
    if (client_enter(lock->client) != REDLOCK_OK) return REDLOCK_STATE_FREE;
    int state = lock->phase == PHASE_LEASED      ? leased[lock->lease.state]
                : lock->phase == PHASE_ACQUIRING ? REDLOCK_STATE_ACQUIRING
                : lock->phase == PHASE_RELEASING ? REDLOCK_STATE_RELEASING
                                                 : REDLOCK_STATE_FREE;
    client_exit(lock->client);
    return state;
}

static rl_ns validity(struct redlock_lock *lock, rl_ns *now) {
    if (client_enter(lock->client) != REDLOCK_OK) return 0;
    *now = net_now(lock->client->net);
    rl_ns left = lock->phase == PHASE_LEASED ? rl_lease_validity(&lock->lease, *now) : 0;
    client_exit(lock->client);
    return left;
}

int64_t redlock_validity_ms(struct redlock_lock *lock) {
    rl_ns now;
    return validity(lock, &now) / RL_MS;
}

int64_t redlock_validity_end_ns(struct redlock_lock *lock) {
    rl_ns now = 0;
    rl_ns left = validity(lock, &now);
    return left > 0 ? now + left : 0;
}

struct redlock_bytes redlock_token(struct redlock_lock *lock) {
    struct redlock_bytes token = {NULL, 0};
    if (client_enter(lock->client) != REDLOCK_OK) return token;
    if (lock->phase == PHASE_LEASED)
        token = (struct redlock_bytes){token_of(lock), lock->token_bytes};
    client_exit(lock->client);
    return token;
}

size_t redlock_token_copy(struct redlock_lock *lock, void *to, size_t size) {
    if (client_enter(lock->client) != REDLOCK_OK) return 0;
    const size_t bytes = lock->phase == PHASE_LEASED ? lock->token_bytes : 0;
    if (bytes > 0 && size > 0) memcpy(to, token_of(lock), bytes < size ? bytes : size);
    client_exit(lock->client);
    return bytes;
}

int64_t redlock_fence(struct redlock_lock *lock) {
    if (client_enter(lock->client) != REDLOCK_OK) return 0;
    bool held = lock->phase == PHASE_LEASED &&
                rl_lease_validity(&lock->lease, net_now(lock->client->net)) > 0;
    int64_t fence = held && lock->config->mode->fenced ? lock_fence(lock) : 0;
    client_exit(lock->client);
    return fence;
}

uint32_t redlock_slot(struct redlock_lock *lock) {
    if (client_enter(lock->client) != REDLOCK_OK) return 0;
    uint32_t slot = slots_of(lock) && lock->phase == PHASE_LEASED ? slots_of(lock)->held : 0;
    client_exit(lock->client);
    return slot;
}

uint32_t redlock_other_slots(struct redlock_lock *lock) {
    if (client_enter(lock->client) != REDLOCK_OK) return 0;
    uint32_t slots = slots_of(lock) ? slots_of(lock)->other : 0;
    client_exit(lock->client);
    return slots;
}

size_t redlock_verdicts(struct redlock_lock *lock, int *verdicts, size_t count) {
    if (client_enter(lock->client) != REDLOCK_OK) return 0;
    size_t nodes = lock->config->terms.nodes;
    for (size_t i = 0; i < nodes && i < count; i++) verdicts[i] = lock_verdicts(lock)[i];
    client_exit(lock->client);
    return nodes;
}
