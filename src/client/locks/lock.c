/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A lock as its user sees it: create, acquire, extend, release, query, free. The functions here
 * only begin an operation. step.c carries it on: events go to the state machines of src/core, and
 * their actions go to the nodes. */
#include <stdlib.h>
#include <string.h>

#include "lock.h"

/* ---- client->locks: what a client keeps for all of its locks ---- */

const size_t locks_bytes = sizeof(struct locks);

void locks_init(struct redlock_client *client) {
    client->locks->client = client;
    renewals_init(&client->locks->renewals);
}

/* All locks have been freed, and with the last one of its kind each lock config. Only in a child
 * after fork(2) redlock_lock_free() leaves the configs, for this function. */
void locks_free(struct redlock_client *client) {
    struct locks *locks = client->locks;
    pool_empty(&locks->rounds);
    pool_empty(&locks->acquisitions);
    free(locks->renewals.due);
    chains_free(&locks->lock_configs, free);
    wait_queues_free(locks->wait_queues);
}

/* ---- making and freeing ---- */

void lock_unref(struct redlock_lock *lock) {
    if (--lock->refs > 0) return;
    /* an adopted token that is too long for the lock's own allocation */
    if (lock->token != lock_own_token(lock)) free(lock->token);
    lock_config_drop(lock->client, lock->config);
    free(lock->slots);
    free(lock);
}

static bool resources_valid(const struct redlock_client *client,
                            const struct redlock_bytes *resources, size_t count,
                            struct redlock_error *error) {
    if (count < 1 || count > REDLOCK_RESOURCES_MAX)
        return bad_argument(error, "a lock covers 1 to %d resources, not %zu",
                            REDLOCK_RESOURCES_MAX, count);
    for (size_t i = 0; i < count; i++) {
        if (!resources[i].data || resources[i].bytes == 0)
            return bad_argument(error, "the resource is empty: give it a name of 1 to %d bytes",
                                REDLOCK_RESOURCE_BYTES_MAX);
        /* Compares without adding to resources[i].bytes: that sum could wrap. */
        size_t most = REDLOCK_RESOURCE_BYTES_MAX - client->options.key_prefix_bytes;
        if (resources[i].bytes > most)
            return bad_argument(
                error, "the resource has %zu bytes; at most %zu are allowed (%d with prefix)",
                resources[i].bytes, most, REDLOCK_RESOURCE_BYTES_MAX);
        for (size_t j = 0; j < i; j++) {
            if (resources[i].bytes == resources[j].bytes &&
                memcmp(resources[i].data, resources[j].data, resources[i].bytes) == 0)
                return bad_argument(error,
                                    "resource %zu is the same as resource %zu: name each once",
                                    i + 1, j + 1);
        }
    }
    return true;
}

static bool slots_valid(const struct redlock_client *client, const struct redlock_bytes *resource,
                        size_t count, struct redlock_error *error) {
    const size_t bytes = client->options.key_prefix_bytes + resource->bytes;
    if (count > 1)
        return bad_argument(error, "a lock with slots covers one resource, not %zu", count);
    if (client->scheme != REDLOCK_SCHEME_SET)
        return bad_argument(error, "scheme=setnx has no slots: leave slots 0");
    if (bytes > SLOTS_RESOURCE_BYTES_MAX)
        return bad_argument(error,
                            "the resource has %zu bytes with its prefix; with slots at most %d are "
                            "allowed",
                            bytes, SLOTS_RESOURCE_BYTES_MAX);
    return true;
}

static bool shared_valid(const struct redlock_client *client,
                         const struct redlock_lock_options *options, size_t count,
                         struct redlock_error *error) {
    if (client->scheme != REDLOCK_SCHEME_SET)
        return bad_argument(
            error, "with scheme=setnx a lock cannot be shared: those programs know no readers");
    if (count > 1)
        return bad_argument(
            error, "a shared lock covers one resource, not %zu: make one lock for each", count);
    if (options->leader || options->slots)
        return bad_argument(error, "a shared lock has no leader and no slots: leave leader and "
                                   "slots 0, or shared");
    return true;
}

/* The name under which the readers of the only key are listed. Returns its end. */
static unsigned char *put_list_name(struct redlock_lock *lock, unsigned char *at) {
    const size_t prefix = sizeof NET_KEY_SHARED - 1;
    lock->keys[1] = (struct net_bytes){at, prefix + lock->keys[0].bytes};
    memcpy(at, NET_KEY_SHARED, prefix);
    memcpy(at + prefix, lock->keys[0].data, lock->keys[0].bytes);
    return at + lock->keys[1].bytes;
}

/* One allocation: the lock, its keys, their stripes (guarded mode: which fences they raise), their
 * bytes, the owner, the token. */
static struct redlock_lock *lock_alloc(struct redlock_client *client,
                                       const struct redlock_bytes *resources, size_t count,
                                       const struct redlock_lock_options *options) {
    size_t prefix = client->options.key_prefix_bytes, bytes = 0;
    for (size_t i = 0; i < count; i++) bytes += prefix + resources[i].bytes;
    size_t names = count;
    if (options->shared) {
        names++;
        bytes += sizeof NET_KEY_SHARED - 1 + bytes;
    }
    size_t stripes = client->lock_layout->fenced ? count : 0;
    size_t token = REDLOCK_TOKEN_HEX_BYTES + (options->owner_bytes ? 1 + options->owner_bytes : 0);
    if (options->slots) token += SLOTS_TEXT_BYTES;
    struct redlock_lock *lock =
        calloc(1, sizeof *lock + names * sizeof lock->keys[0] + stripes * sizeof lock->stripes[0] +
                      bytes + options->owner_bytes + token);
    if (!lock) return NULL;
    lock->client = client;
    lock->refs = 1;
    lock->keys_count = (uint8_t)count;
    lock->shared = options->shared != 0;
    lock->stripes = (uint16_t *)(void *)(lock->keys + names);
    unsigned char *at = (unsigned char *)(lock->stripes + stripes);
    for (size_t i = 0; i < count; i++) {
        lock->keys[i] = (struct net_bytes){at, prefix + resources[i].bytes};
        if (prefix) memcpy(at, client->key_prefix, prefix);
        memcpy(at + prefix, resources[i].data, resources[i].bytes);
        at += lock->keys[i].bytes;
    }
    if (lock->shared) at = put_list_name(lock, at);
    lock->owner_bytes = (uint8_t)options->owner_bytes;
    if (options->owner_bytes) memcpy(at, options->owner, options->owner_bytes);
    lock->token = lock_own_token(lock);
    lock->on_change = options->on_change;
    lock->on_change_context = options->on_change_context;
    return lock;
}

int redlock_lock_new_multi(struct redlock_client *client, const struct redlock_bytes *resources,
                           size_t count, const struct redlock_lock_options *options,
                           struct redlock_lock **out, struct redlock_error *error) {
    struct redlock_lock_options checked;
    if (!client || !resources || !out)
        return fail(error, REDLOCK_BAD_ARGUMENT,
                    "redlock_lock_new: client, resource and lock must not be NULL");
    if (schedule_is_forked(&client->schedule)) return fail_forked(error);
    if (!options_lock(client, &checked, options, error)) return REDLOCK_BAD_ARGUMENT;
    if (!resources_valid(client, resources, count, error)) return REDLOCK_BAD_ARGUMENT;
    if (checked.leader && count > 1)
        return fail(error, REDLOCK_BAD_ARGUMENT, "a leader has one resource, not %zu", count);
    if (checked.leader && checked.slots)
        return fail(error, REDLOCK_BAD_ARGUMENT, "a leader has no slots: leave one of the two 0");
    if (count > 1 && client->scheme != REDLOCK_SCHEME_SET)
        return fail(error, REDLOCK_BAD_ARGUMENT,
                    "with scheme=setnx a lock covers one resource: make one lock for each");
    if (checked.slots && !slots_valid(client, resources, count, error)) return REDLOCK_BAD_ARGUMENT;
    if (checked.shared && !shared_valid(client, &checked, count, error))
        return REDLOCK_BAD_ARGUMENT;
    struct redlock_lock *lock = lock_alloc(client, resources, count, &checked);
    if (lock && checked.slots && !(lock->slots = slots_new(lock->keys[0], checked.slots))) {
        free(lock);
        lock = NULL;
    }
    if (!lock) return fail(error, REDLOCK_NO_MEMORY, "out of memory while making a lock");
    if (client->lock_layout->keys_valid && !client->lock_layout->keys_valid(lock, error)) {
        free(lock->slots);
        free(lock);
        return REDLOCK_BAD_ARGUMENT;
    }
    pthread_mutex_lock(&client->schedule.mutex);
    lock->config = lock_config_of(client, &checked);
    pthread_mutex_unlock(&client->schedule.mutex);
    if (!lock->config) {
        free(lock->slots);
        free(lock);
        return fail(error, REDLOCK_NO_MEMORY, "out of memory while making a lock");
    }
    lock->timer.fire = lock_on_timer;
    *out = lock;
    return REDLOCK_OK;
}

int redlock_lock_new(struct redlock_client *client, const void *resource, size_t bytes,
                     const struct redlock_lock_options *options, struct redlock_lock **lock,
                     struct redlock_error *error) {
    const struct redlock_bytes one = {resource, bytes};
    return redlock_lock_new_multi(client, &one, 1, options, lock, error);
}

/* The lock waits for nothing any more. The answers to its requests go to the round, which ends with
 * the last of them. */
static void forget(struct redlock_lock *lock) {
    wait_queue_leave(lock);
    acquiring_remove(lock);
    fenced_unpark(lock);
    renewals_forget(lock);
    net_timer_set(lock->client->net, &lock->timer, RL_NEVER);
    lock->phase = PHASE_FREE;
}

static void cancel(struct redlock_lock *lock) {
    if (lock->phase != PHASE_ACQUIRING) return;
    if (lock->abort_result == TURNED_GUARDED) lock->abort_result = REDLOCK_CANCELLED;
    lock_step(lock, (struct rl_event){.type = RL_EVENT_CANCEL});
}

void redlock_lock_free(struct redlock_lock *lock) {
    if (!lock) return;
    struct redlock_client *client = lock->client;
    if (client_enter(client) != REDLOCK_OK) { /* in a child: the connections belong to the parent */
        if (lock->round) free(lock->round->slots);
        free(lock->round);
        free(lock->acquisition);
        free(lock->slots);
        if (lock->token != lock_own_token(lock)) free(lock->token);
        free(lock); /* its lock config ends with the client */
        return;
    }
    atomic_store(&lock->freed, true);
    lock->op = lock->extension = (struct op){0};
    cancel(lock);
    if (lock->phase == PHASE_LEASED) {
        lock->phase = PHASE_RELEASING;
        lock_step(lock, (struct rl_event){.type = RL_EVENT_RELEASE});
    }
    rl_ns now = net_now(client->net);
    if (lock->phase == PHASE_ACQUIRING) events_failed(lock, REDLOCK_CANCELLED, now);
    if (lock->phase == PHASE_RELEASING) events_released(lock, REDLOCK_NO_QUORUM, now);
    forget(lock);
    lock_drop_round(lock);
    schedule_stop_callbacks(&client->schedule, &lock->notified);
    lock_unref(lock);
    client_leave(client);
}

/* ---- operations ---- */

static void op_begin(struct op *op, redlock_done_fn *done, void *context) {
    *op = (struct op){.active = true, .done = done, .context = context};
}

int acquire_begin(struct redlock_lock *lock, int64_t wait_ms, redlock_done_fn *done,
                  void *context) {
    struct redlock_client *client = lock->client;
    if (wait_ms < REDLOCK_WAIT_FOREVER) return REDLOCK_BAD_ARGUMENT;
    if (lock->phase != PHASE_FREE || lock->op.active || lock->op.finished) return REDLOCK_BUSY;
    if (client_refusal(client) != REDLOCK_OK) return client_refusal(client);
    rl_ns now = net_now(client->net);
    struct rl_event start = {.type = RL_EVENT_START};
    if (net_random(client->net, &start.seed, sizeof start.seed) != 0) return REDLOCK_SYSTEM;
    const struct redlock_lock_options *o = &lock->config->options;
    const struct rl_retry_rules rules = {
        .retries_max = o->retry_count_max ? o->retry_count_max : UINT32_MAX,
        .deadline = wait_ms == REDLOCK_WAIT_FOREVER || wait_ms > (RL_NEVER - now) / RL_MS
                        ? RL_NEVER
                        : now + wait_ms * RL_MS,
        .delay_min = o->retry_delay_ms_min * RL_MS,
        .delay_max = o->retry_delay_ms_max * RL_MS,
        .connect_timeout = client->options.connect_timeout_ms * RL_MS,
    };
    if (lock_config_follow_mode(lock) != REDLOCK_OK) return REDLOCK_NO_MEMORY;
    if (!acquiring_add(lock)) return REDLOCK_NO_MEMORY;
    op_begin(&lock->op, done, context);
    lock->abort_result = REDLOCK_OK;
    lock->phase = PHASE_ACQUIRING;
    lock->acquisition->since = now;
    rl_acquire_init(&lock->acquisition->machine, &lock->config->terms, &rules);
    wait_queue_begin(lock, wait_ms != 0, &start);
    lock_step(lock, start);
    return REDLOCK_OK;
}

static int extend_begin(struct redlock_lock *lock, int64_t ttl_ms, redlock_done_fn *done,
                        void *context) {
    if (ttl_ms == 0) ttl_ms = lock->config->options.ttl_ms;
    if (ttl_ms < REDLOCK_TTL_MS_MIN || ttl_ms > REDLOCK_TTL_MS_MAX) return REDLOCK_BAD_ARGUMENT;
    if (lock->phase == PHASE_ACQUIRING || lock->phase == PHASE_RELEASING) return REDLOCK_BUSY;
    if (lock->extension.active || lock->extension.finished) return REDLOCK_BUSY;
    if (lock->phase == PHASE_FREE) return REDLOCK_LOST;
    const struct lock_mode *mode = lock->config->mode;
    int refusal = mode->may_extend ? mode->may_extend(lock, ttl_ms) : REDLOCK_OK;
    if (refusal != REDLOCK_OK) return refusal;
    op_begin(&lock->extension, done, context);
    lock_step(lock, (struct rl_event){.type = RL_EVENT_EXTEND, .ttl = ttl_ms * RL_MS});
    return REDLOCK_OK;
}

int release_begin(struct redlock_lock *lock, redlock_done_fn *done, void *context) {
    if (lock->phase == PHASE_ACQUIRING || lock->phase == PHASE_RELEASING) return REDLOCK_BUSY;
    if (lock->op.active || lock->op.finished) return REDLOCK_BUSY;
    if (lock->phase == PHASE_FREE) return REDLOCK_LOST;
    op_begin(&lock->op, done, context);
    lock->phase = PHASE_RELEASING;
    lock_step(lock, (struct rl_event){.type = RL_EVENT_RELEASE});
    return REDLOCK_OK;
}

/* A program that adopts a lock (takes it over by its token) has often just opened the client. So
 * the first round waits until the nodes are connected, as an acquisition does. */
void gather_for_adopted(struct redlock_lock *lock) {
    if (lock->phase == PHASE_LEASED && lock->lease.adopted && lock->lease.state == RL_LEASE_NONE)
        gather(lock->client, gather_until(lock->client));
}

enum verb { ACQUIRE, EXTEND, RELEASE };

static int begin(struct redlock_lock *lock, enum verb verb, int64_t ms, redlock_done_fn *done,
                 void *context) {
    if (verb == ACQUIRE) return acquire_begin(lock, ms, done, context);
    if (verb == EXTEND) return extend_begin(lock, ms, done, context);
    return release_begin(lock, done, context);
}

static int begin_and_wait(struct redlock_lock *lock, enum verb verb, int64_t ms) {
    struct redlock_client *client = lock->client;
    struct op *op = verb == EXTEND ? &lock->extension : &lock->op;
    if (client_enter(client) != REDLOCK_OK) return REDLOCK_FORKED;
    if (verb != ACQUIRE) gather_for_adopted(lock);
    int result = begin(lock, verb, ms, NULL, NULL);
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
        client_leave_notifying(client);
    }
    return result;
}

static int begin_async(struct redlock_lock *lock, enum verb verb, int64_t ms, redlock_done_fn *done,
                       void *context) {
    if (!done) return REDLOCK_BAD_ARGUMENT;
    if (client_enter(lock->client) != REDLOCK_OK) return REDLOCK_FORKED;
    int result = begin(lock, verb, ms, done, context);
    client_leave(lock->client);
    return result;
}

int redlock_acquire(struct redlock_lock *lock, int64_t wait_ms) {
    return begin_and_wait(lock, ACQUIRE, wait_ms);
}

int redlock_try(struct redlock_lock *lock) { return begin_and_wait(lock, ACQUIRE, 0); }

int redlock_extend(struct redlock_lock *lock, int64_t ttl_ms) {
    return begin_and_wait(lock, EXTEND, ttl_ms);
}

int redlock_release(struct redlock_lock *lock) { return begin_and_wait(lock, RELEASE, 0); }

int redlock_acquire_start(struct redlock_lock *lock, int64_t wait_ms, redlock_done_fn *done,
                          void *context) {
    return begin_async(lock, ACQUIRE, wait_ms, done, context);
}

int redlock_extend_start(struct redlock_lock *lock, int64_t ttl_ms, redlock_done_fn *done,
                         void *context) {
    return begin_async(lock, EXTEND, ttl_ms, done, context);
}

int redlock_release_start(struct redlock_lock *lock, redlock_done_fn *done, void *context) {
    return begin_async(lock, RELEASE, 0, done, context);
}

void redlock_cancel(struct redlock_lock *lock) {
    if (client_enter(lock->client) != REDLOCK_OK) return;
    cancel(lock);
    client_leave(lock->client);
}

int redlock_lock_adopt_fenced(struct redlock_lock *lock, const void *token, size_t bytes,
                              int64_t fence) {
    struct redlock_client *client = lock->client;
    if (!token || bytes < 1 || bytes > REDLOCK_TOKEN_BYTES_MAX) return REDLOCK_BAD_ARGUMENT;
    if (fence < 0 || fence > REDLOCK_FENCE_MAX) return REDLOCK_BAD_ARGUMENT;
    /* It stands for all readers: a release with it would end the locks of all of them. */
    if (net_is_text((struct net_bytes){token, bytes}, NET_SHARED_MARKER))
        return REDLOCK_BAD_ARGUMENT;
    if (lock->slots) return REDLOCK_BAD_ARGUMENT; /* of which slot? It has a resource of its own */
    if (client_enter(client) != REDLOCK_OK) return REDLOCK_FORKED;
    int result = lock->phase == PHASE_FREE && !lock->op.active ? REDLOCK_OK : REDLOCK_BUSY;
    if (result == REDLOCK_OK) result = lock_config_follow_mode(lock);
    if (result == REDLOCK_OK) result = lock->config->mode->adopt(lock, fence);
    if (result == REDLOCK_OK) result = lock_fresh_round(lock, token, bytes);
    if (result == REDLOCK_OK) {
        lease_init(lock);
        lock_step(lock, (struct rl_event){.type = RL_EVENT_START, .asked = rl_all(client->nodes)});
        lock_rest(lock);
    }
    client_leave(client);
    return result;
}

int redlock_lock_adopt(struct redlock_lock *lock, const void *token, size_t bytes) {
    return redlock_lock_adopt_fenced(lock, token, bytes, 0);
}

int redlock_lock_disown(struct redlock_lock *lock) {
    struct redlock_client *client = lock->client;
    if (client_enter(client) != REDLOCK_OK) return REDLOCK_FORKED;
    int result = lock->phase == PHASE_FREE ? REDLOCK_LOST : REDLOCK_OK;
    if (lock->phase == PHASE_ACQUIRING || lock->phase == PHASE_RELEASING || lock->extension.active)
        result = REDLOCK_BUSY;
    /* the token's bytes stay until the next acquisition */
    if (result == REDLOCK_OK) {
        events_disowned(lock, net_now(client->net));
        forget(lock);
    }
    client_leave(client);
    return result;
}

/* ---- queries: they send nothing, so they unlock without client_leave() ---- */

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
    pthread_mutex_unlock(&lock->client->schedule.mutex);
    return state;
}

static rl_ns validity(struct redlock_lock *lock, rl_ns *now) {
    if (client_enter(lock->client) != REDLOCK_OK) return 0;
    *now = net_now(lock->client->net);
    rl_ns left = lock->phase == PHASE_LEASED ? rl_lease_validity(&lock->lease, *now) : 0;
    pthread_mutex_unlock(&lock->client->schedule.mutex);
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
    if (lock->phase == PHASE_LEASED) token = (struct redlock_bytes){lock->token, lock->token_bytes};
    pthread_mutex_unlock(&lock->client->schedule.mutex);
    return token;
}

int64_t redlock_fence(struct redlock_lock *lock) {
    if (client_enter(lock->client) != REDLOCK_OK) return 0;
    bool held = lock->phase == PHASE_LEASED &&
                rl_lease_validity(&lock->lease, net_now(lock->client->net)) > 0;
    int64_t fence = held && lock->config->mode->fenced ? lock->fence : 0;
    pthread_mutex_unlock(&lock->client->schedule.mutex);
    return fence;
}

uint32_t redlock_slot(struct redlock_lock *lock) {
    if (client_enter(lock->client) != REDLOCK_OK) return 0;
    uint32_t slot = lock->slots && lock->phase == PHASE_LEASED ? lock->slots->held : 0;
    pthread_mutex_unlock(&lock->client->schedule.mutex);
    return slot;
}

uint32_t redlock_other_slots(struct redlock_lock *lock) {
    if (client_enter(lock->client) != REDLOCK_OK) return 0;
    uint32_t slots = lock->slots ? lock->slots->other : 0;
    pthread_mutex_unlock(&lock->client->schedule.mutex);
    return slots;
}

size_t redlock_verdicts(struct redlock_lock *lock, int *verdicts, size_t count) {
    if (client_enter(lock->client) != REDLOCK_OK) return 0;
    size_t nodes = lock->config->terms.nodes;
    for (size_t i = 0; i < nodes && i < count; i++) verdicts[i] = lock->verdicts[i];
    pthread_mutex_unlock(&lock->client->schedule.mutex);
    return nodes;
}
