/* SPDX-License-Identifier: BSD-2-Clause */
#include "key_op.h"

#include <event2/event.h>

#include "gateway.h"

/* A script may call without end, and many clients may change a key again and again. */
enum { CALLS_MAX = 100, RESTARTS_MAX = 5 };

/* ---- the queue of a key ---- */

static void start(struct key_op *op) {
    op->running = true;
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
    for (struct key_op *op; (op = TAILQ_FIRST(&gateway->key_ops.ready)) != NULL;) {
        take_from_ready(&gateway->key_ops, op);
        start(op);
    }
}

bool key_ops_open(struct gateway *gateway) {
    TAILQ_INIT(&gateway->key_ops.ready);
    gateway->key_ops.event = event_new(gateway->base, -1, 0, on_ready, gateway);
    return gateway->key_ops.event != NULL;
}

void key_ops_close(struct gateway *gateway) {
    if (gateway->key_ops.event != NULL) event_free(gateway->key_ops.event);
}

bool key_op_begin(struct key_op *op, struct gateway *gateway, struct script_bytes name,
                  const struct observation *watched, key_op_program *program, key_op_over *over) {
    struct key *key = key_get(gateway, name);
    if (key == NULL) return false;
    op->gateway = gateway;
    op->key = key;
    op->program = program;
    op->over = over;
    op->running = op->is_ready = op->changed = false;
    op->calls = op->effects = op->restarts = op->peeks = 0;
    op->since_ns = gateway_now_ns();
    op->watched = watched != NULL;
    op->observation.state = OBSERVED_NONE;
    if (watched != NULL) op->observation = *watched;
    const bool waits = !TAILQ_EMPTY(&key->queue);
    TAILQ_INSERT_TAIL(&key->queue, op, queued);
    if (waits) return true;
    start(op);
    return true;
}

static void leave(struct key_op *op) {
    struct key *key = op->key;
    const bool was_first = TAILQ_FIRST(&key->queue) == op;
    TAILQ_REMOVE(&key->queue, op, queued);
    op->key = NULL;
    struct key_op *next = TAILQ_FIRST(&key->queue);
    if (was_first && next != NULL) {
        /* Not at once: a long queue would make a deep stack. */
        TAILQ_INSERT_TAIL(&op->gateway->key_ops.ready, next, ready);
        next->is_ready = true;
        event_active(op->gateway->key_ops.event, 0, 0);
    }
    key_rest(key);
}

bool key_op_abandon(struct key_op *op) {
    if (op->key == NULL || op->running) return false;
    take_from_ready(&op->gateway->key_ops, op);
    leave(op);
    return true;
}

/* ---- steps ---- */

/* The caller owns the call or the result. */
static void go_on(struct key_op *op, enum script_step step, struct script_call *call,
                  struct script_value *result) {
    struct script_value reached;
    while (step == SCRIPT_CALLS) {
        if (++op->calls > CALLS_MAX) {
            *result =
                script_error("ERR the script calls more often than a script about a lock should");
            break;
        }
        if (!step_call(op, call, &reached)) return;
        step = op->program(op, &reached, call, result);
    }
    if (step == SCRIPT_WAITS) return;
    step_close(op);
    op->running = false;
    leave(op);
    op->over(op, result);
}

void key_op_go(struct key_op *op, const struct script_value *answer) {
    struct script_call call;
    struct script_value result;
    const enum script_step step = op->program(op, answer, &call, &result);
    go_on(op, step, &call, &result);
}

void key_op_said(struct key_op *op, enum script_step step, const struct script_call *call,
                 const struct script_value *result) {
    struct script_call next = {.command = SCRIPT_GET};
    struct script_value end = {.kind = SCRIPT_NIL};
    if (call != NULL) next = *call;
    if (result != NULL) end = *result;
    go_on(op, step, &next, &end);
}

void key_op_late(struct key_op *op, const struct script_value *answer) {
    op->changed = op->watched;
    if (op->watched || op->effects > 0 || ++op->restarts > RESTARTS_MAX) {
        key_op_go(op, answer);
        return;
    }
    op->observation.state = OBSERVED_NONE;
    op->peeks = 0;
    key_op_go(op, NULL);
}
