/* SPDX-License-Identifier: BSD-2-Clause */
#include "key.h"

#include <search.h>
#include <stdlib.h>
#include <string.h>

#include <event2/event.h>

#include "loop/gateway.h"

/* A script may call without end, and many clients may change a key again and again. */
enum { CALLS_MAX = 100, RESTARTS_MAX = 5 };

/* ---- keys ---- */

static int compare(const void *a, const void *b) {
    const struct key *one = a, *other = b;
    if (one->name.bytes != other->name.bytes) return one->name.bytes < other->name.bytes ? -1 : 1;
    return memcmp(one->name.data, other->name.data, one->name.bytes);
}

/* NULL: out of memory. */
static struct key *key_get(struct gateway *gateway, struct bytes name) {
    const struct key wanted = {.name = name};
    struct key **found = tfind(&wanted, &gateway->keys->tree, compare);
    if (found != NULL) return *found;
    struct key *key = calloc(1, sizeof *key + name.bytes);
    if (key == NULL) return NULL;
    char *copy = (char *)(key + 1);
    memcpy(copy, name.data, name.bytes);
    key->gateway = gateway;
    TAILQ_INIT(&key->queue);
    key->name = (struct bytes){copy, name.bytes};
    if (tsearch(key, &gateway->keys->tree, compare) != NULL) return key;
    free(key);
    return NULL;
}

static void leave_due(struct key *key) {
    if (key->is_due) TAILQ_REMOVE(&key->gateway->keys->due, key, due);
    key->is_due = false;
}

static void key_free(struct key *key) {
    key_forget(key);
    leave_due(key);
    tdelete(key, &key->gateway->keys->tree, compare);
    if (key->end != NULL) event_free(key->end);
    free(key);
}

static void key_rest(struct key *key);

/* A node keeps time in whole milliseconds: a key disappears up to one of them after its TTL. */
static int64_t gone_ns(const struct key *key) { return key->ends_ns + GATEWAY_MS; }

/* The time of many locks may end at once. */
static void on_end(evutil_socket_t fd, short what, void *context) {
    struct key *key = context;
    struct keys *keys = key->gateway->keys;
    (void)fd;
    (void)what;
    if (key->is_due) return;
    key->is_due = true;
    TAILQ_INSERT_TAIL(&keys->due, key, due);
    gateway_soon(keys->ends);
}

/* While an operation has the key, the end of that operation handles this. */
static void on_ends(evutil_socket_t fd, short what, void *context) {
    struct gateway *gateway = context;
    struct keys *keys = gateway->keys;
    const int64_t until_ns = gateway_now_ns() + GATEWAY_SHARE_NS;
    (void)fd;
    (void)what;
    while (!TAILQ_EMPTY(&keys->due) && !gateway->above->waits(gateway) &&
           gateway_now_ns() < until_ns) {
        struct key *key = TAILQ_FIRST(&keys->due);
        leave_due(key);
        key_rest(key);
    }
    if (!TAILQ_EMPTY(&keys->due)) gateway_next_turn(keys->ends);
}

static bool watch_end(struct key *key) {
    if (key->end == NULL) key->end = evtimer_new(key->gateway->base, on_end, key);
    if (key->end == NULL) return false;
    int64_t us = (gone_ns(key) - gateway_now_ns()) / 1000 + 1;
    if (us < 0) us = 0;
    const struct timeval after = {.tv_sec = (time_t)(us / 1000000),
                                  .tv_usec = (suseconds_t)(us % 1000000)};
    return evtimer_add(key->end, &after) == 0;
}

void key_ended(struct key *key, const char *what) {
    key->version++;
    key->gateway->above->ended(key, what);
}

/* Once the lock has expired on the nodes too: a waiter would get it now. */
static void end_in_time(struct key *key) {
    if (key->lock == NULL || gateway_now_ns() < gone_ns(key)) return;
    key_forget(key);
    key->gateway->metrics.expired++;
    key_ended(key, "expired");
}

/* Frees the key when nobody uses it and no lock is cached. */
static void key_rest(struct key *key) {
    if (!TAILQ_EMPTY(&key->queue)) return;
    end_in_time(key);
    /* The loop's clock is coarse: the event may fire some milliseconds too early. */
    if (key->lock != NULL && !evtimer_pending(key->end, NULL) && !watch_end(key)) key_forget(key);
    if (key->lock == NULL && key->watchers == 0) key_free(key);
}

struct key *key_watch(struct gateway *gateway, struct bytes name) {
    struct key *key = key_get(gateway, name);
    if (key != NULL) key->watchers++;
    return key;
}

void key_unwatch(struct key *key) {
    key->watchers--;
    key_rest(key);
}

/* ---- the cached lock ---- */

static size_t weight(struct bytes name) { return KEY_LOCK_BYTES + 2 * name.bytes; }

bool keys_have_room(const struct gateway *gateway, struct bytes name) {
    const struct keys *keys = gateway->keys;
    return keys->kept < KEYS_KEPT_MAX &&
           keys->kept_bytes + weight(name) <= gateway->options->lock_bytes_max;
}

void key_keep(struct key *key, struct redlock_lock *lock, int64_t ends_ns) {
    if (key->lock != lock) {
        key_forget(key);
        const bool room = keys_have_room(key->gateway, key->name);
        key->lock = lock;
        key->gateway->keys->kept++;
        key->gateway->keys->kept_bytes += weight(key->name);
        key->ends_ns = ends_ns;
        if (!room) {
            key->gateway->keys->not_kept++;
            key_forget(key);
            return;
        }
    }
    if (ends_ns > key->ends_ns) key->ends_ns = ends_ns; /* an extension never shortens */
    key->believed_until_ns = gateway_now_ns() + KEY_BELIEVED_NS;
    if (!watch_end(key)) key_forget(key);
}

void lock_leave(struct redlock_lock *lock) {
    if (redlock_lock_disown(lock) != REDLOCK_BUSY || redlock_validity_ms(lock) == 0)
        redlock_lock_free(lock);
}

void key_forget(struct key *key) {
    struct redlock_lock *lock = key->lock;
    if (lock == NULL) return;
    key->lock = NULL; /* first: the callback of what is under way comes back here */
    lock_leave(lock);
    key->gateway->keys->lost -= key->lost;
    key->lost = false;
    key->gateway->keys->kept--;
    key->gateway->keys->kept_bytes -= weight(key->name);
    if (key->end != NULL) evtimer_del(key->end);
}

/* The cached lock is the one that was observed, whether or not it is valid. */
static bool is_observed(const struct key *key, const struct observation *observation) {
    if (observation->state != OBSERVED_LOCK || key->lock == NULL) return false;
    const struct redlock_bytes token = redlock_token(key->lock);
    return token.bytes > 0 && token.bytes == observation->token_bytes &&
           memcmp(token.data, observation->token, token.bytes) == 0;
}

struct redlock_lock *key_lock(const struct key *key, const struct observation *observation) {
    return is_observed(key, observation) && redlock_validity_ms(key->lock) > 0 ? key->lock : NULL;
}

bool key_is_over(const struct key *key, const struct observation *observation) {
    return is_observed(key, observation) && redlock_validity_ms(key->lock) == 0;
}

static void turn_guarded(const void *node, VISIT visit, int depth) {
    struct key *key = *(struct key *const *)node;
    (void)depth;
    if ((visit != postorder && visit != leaf) || key->lock == NULL || key->lost) return;
    key->lost = redlock_lock_state(key->lock) == REDLOCK_STATE_LOST;
    key->gateway->keys->lost += key->lost;
}

size_t keys_turn_guarded(struct gateway *gateway) {
    twalk(gateway->keys->tree, turn_guarded);
    return gateway->keys->lost;
}

bool key_believed(const struct key *key, struct observation *observation) {
    const int64_t now = gateway_now_ns();
    if (key->lock == NULL || now >= key->believed_until_ns) return false;
    int64_t validity_end_ns = redlock_validity_end_ns(key->lock);
    if (validity_end_ns == 0) return false;
    struct redlock_bytes token = redlock_token(key->lock);
    observation_set(observation, token.data, token.bytes, validity_end_ns);
    return true;
}

void keys_close(struct gateway *gateway) {
    while (gateway->keys->tree != NULL) key_free(*(struct key **)gateway->keys->tree);
}

/* ---- the queue of a key ---- */

/* Its turn may come before that of the lock's end. */
static void start(struct key_op *op) {
    op->running = true;
    op->gateway->key_ops->running++;
    end_in_time(op->key);
    durations_add(&op->gateway->metrics.waits, gateway_now_ns() - op->since_ns);
    key_op_go(op, NULL);
}

static void take_from_ready(struct ops *ops, struct key_op *op) {
    if (op->is_ready) TAILQ_REMOVE(&ops->ready, op, ready);
    op->is_ready = false;
}

static void on_ready(evutil_socket_t fd, short what, void *context) {
    (void)fd;
    (void)what;
    struct gateway *gateway = context;
    struct ops *ops = gateway->key_ops;
    const int64_t until_ns = gateway_now_ns() + GATEWAY_SHARE_NS;
    while (!TAILQ_EMPTY(&ops->ready) && gateway_now_ns() < until_ns) {
        struct key_op *op = TAILQ_FIRST(&ops->ready);
        take_from_ready(ops, op);
        start(op);
    }
    if (!TAILQ_EMPTY(&ops->ready)) gateway_next_turn(ops->event);
}

bool key_ops_open(struct gateway *gateway) {
    TAILQ_INIT(&gateway->key_ops->ready);
    TAILQ_INIT(&gateway->keys->due);
    gateway->key_ops->event = event_new(gateway->base, -1, 0, on_ready, gateway);
    gateway->keys->ends = event_new(gateway->base, -1, 0, on_ends, gateway);
    return gateway->key_ops->event != NULL && gateway->keys->ends != NULL;
}

void key_ops_close(struct gateway *gateway) {
    if (gateway->key_ops->event != NULL) event_free(gateway->key_ops->event);
    if (gateway->keys->ends != NULL) event_free(gateway->keys->ends);
}

bool key_op_begin(struct key_op *op, struct gateway *gateway, struct bytes name,
                  key_op_program *program, key_op_over *over) {
    struct key *key = key_get(gateway, name);
    if (key == NULL) return false;
    op->gateway = gateway;
    op->key = key;
    op->program = program;
    op->over = over;
    op->running = op->is_ready = op->watched = op->changed = op->asks = false;
    op->calls = op->effects = op->restarts = op->peeks = 0;
    op->since_ns = gateway_now_ns();
    op->observation.state = OBSERVED_NONE;
    const bool waits = !TAILQ_EMPTY(&key->queue);
    TAILQ_INSERT_TAIL(&key->queue, op, queued);
    if (waits) return true;
    start(op);
    return true;
}

void key_op_assume(struct key_op *op, const struct observation *observation) {
    op->watched = true;
    op->observation = *observation;
}

static void leave(struct key_op *op) {
    struct key *key = op->key;
    const bool was_first = TAILQ_FIRST(&key->queue) == op;
    TAILQ_REMOVE(&key->queue, op, queued);
    op->key = NULL;
    struct key_op *next = TAILQ_FIRST(&key->queue);
    if (was_first && next != NULL) {
        /* Not at once: a long queue would make a deep stack. */
        TAILQ_INSERT_TAIL(&op->gateway->key_ops->ready, next, ready);
        next->is_ready = true;
        gateway_soon(op->gateway->key_ops->event);
    }
    key_rest(key);
}

bool key_op_abandon(struct key_op *op) {
    if (op->key == NULL || op->running) return false;
    take_from_ready(op->gateway->key_ops, op);
    leave(op);
    return true;
}

/* ---- steps ---- */

/* The caller owns the call or the result. */
static void go_on(struct key_op *op, enum program_step step, struct key_call *call,
                  struct answer *result) {
    struct answer reached;
    while (step == PROGRAM_CALLS) {
        if (++op->calls > CALLS_MAX) {
            *result =
                answer_error("ERR the script calls more often than a script about a lock should");
            break;
        }
        if (!step_call(op, call, &reached)) return;
        step = op->program(op, &reached, call, result);
    }
    if (step == PROGRAM_WAITS) return;
    step_close(op);
    op->running = false;
    op->gateway->key_ops->running--;
    leave(op);
    op->over(op, result);
}

void key_op_go(struct key_op *op, const struct answer *answer) {
    struct key_call call;
    struct answer result;
    const enum program_step step = op->program(op, answer, &call, &result);
    go_on(op, step, &call, &result);
}

void key_op_said(struct key_op *op, enum program_step step, const struct key_call *call,
                 const struct answer *result) {
    struct key_call next = {.command = KEY_GET};
    struct answer end = {.kind = ANSWER_NIL};
    if (call != NULL) next = *call;
    if (result != NULL) end = *result;
    go_on(op, step, &next, &end);
}

void key_op_late(struct key_op *op, const struct answer *answer) {
    op->changed = op->watched;
    if (op->watched || op->effects > 0 || ++op->restarts > RESTARTS_MAX) {
        key_op_go(op, answer);
        return;
    }
    op->observation.state = OBSERVED_NONE;
    op->peeks = 0;
    key_op_go(op, NULL);
}
