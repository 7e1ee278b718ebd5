/* SPDX-License-Identifier: BSD-2-Clause */
#include "turn.h"

#include <string.h>

#include <event2/event.h>

#include "gateway.h"
#include "step.h"

/* A script may call without end; and a crowd may change a key again and again. */
enum { CALLS_MAX = 100, RESTARTS_MAX = 5 };

/* ---- whose turn it is ---- */

static void start(struct turn *turn) {
    turn->running = true;
    durations_add(&turn->gateway->metrics.waits, gateway_now_ns() - turn->since_ns);
    turn_go(turn, NULL);
}

static void take_from_ready(struct turns *turns, struct turn *turn) {
    if (turn->is_ready) TAILQ_REMOVE(&turns->ready, turn, ready);
    turn->is_ready = false;
}

static void on_ready(evutil_socket_t fd, short what, void *context) {
    (void)fd;
    (void)what;
    struct gateway *gateway = context;
    for (struct turn *turn; (turn = TAILQ_FIRST(&gateway->turns.ready)) != NULL;) {
        take_from_ready(&gateway->turns, turn);
        start(turn);
    }
}

/* Not at once: a long queue would otherwise be a deep stack. */
static void make_ready(struct turns *turns, struct turn *turn) {
    TAILQ_INSERT_TAIL(&turns->ready, turn, ready);
    turn->is_ready = true;
    event_active(turns->event, 0, 0);
}

bool turns_open(struct gateway *gateway) {
    TAILQ_INIT(&gateway->turns.ready);
    gateway->turns.event = event_new(gateway->base, -1, 0, on_ready, gateway);
    return gateway->turns.event != NULL;
}

void turns_close(struct gateway *gateway) {
    if (gateway->turns.event != NULL) event_free(gateway->turns.event);
}

bool turn_begin(struct turn *turn, struct gateway *gateway, struct script_bytes name,
                const struct sight *watched, turn_program *program, turn_over *over) {
    struct key *key = key_get(gateway, name);
    if (key == NULL) return false;
    turn->gateway = gateway;
    turn->key = key;
    turn->program = program;
    turn->over = over;
    turn->running = turn->is_ready = turn->changed = false;
    turn->calls = turn->effects = turn->restarts = turn->looks = 0;
    turn->since_ns = gateway_now_ns();
    turn->watched = watched != NULL;
    turn->sight.state = SIGHT_NONE;
    if (watched != NULL) turn->sight = *watched;
    const bool waits = !TAILQ_EMPTY(&key->queue);
    TAILQ_INSERT_TAIL(&key->queue, turn, queued);
    if (waits) return true;
    start(turn);
    return true;
}

static void leave(struct turn *turn) {
    struct key *key = turn->key;
    const bool was_first = TAILQ_FIRST(&key->queue) == turn;
    TAILQ_REMOVE(&key->queue, turn, queued);
    turn->key = NULL;
    if (was_first && !TAILQ_EMPTY(&key->queue))
        make_ready(&turn->gateway->turns, TAILQ_FIRST(&key->queue));
    key_rest(key);
}

bool turn_abandon(struct turn *turn) {
    if (turn->key == NULL || turn->running) return false;
    take_from_ready(&turn->gateway->turns, turn);
    leave(turn);
    return true;
}

/* ---- what is done in it ---- */

static void give_back(struct turn *turn, const struct script_value *result) {
    step_close(turn);
    turn->running = false;
    leave(turn);
    turn->over(turn, result);
}

/* The call, or the result, is in both cases the caller's. */
static void go_on(struct turn *turn, enum script_step step, struct script_call *call,
                  struct script_value *result) {
    struct script_value reached;
    while (step == SCRIPT_CALLS) {
        if (++turn->calls > CALLS_MAX) {
            static const char text[] =
                "ERR the script calls more often than a script about a lock should";
            *result = (struct script_value){.kind = SCRIPT_ERROR, .bytes = {text, sizeof text - 1}};
            break;
        }
        if (!step_call(turn, call, &reached)) return;
        step = turn->program(turn, &reached, call, result);
    }
    if (step != SCRIPT_WAITS) give_back(turn, result);
}

void turn_go(struct turn *turn, const struct script_value *answer) {
    struct script_call call;
    struct script_value result;
    const enum script_step step = turn->program(turn, answer, &call, &result);
    go_on(turn, step, &call, &result);
}

void turn_said(struct turn *turn, enum script_step step, const struct script_call *call,
               const struct script_value *result) {
    struct script_call next = {.command = SCRIPT_GET};
    struct script_value end = {.kind = SCRIPT_NIL};
    if (call != NULL) next = *call;
    if (result != NULL) end = *result;
    go_on(turn, step, &next, &end);
}

void turn_late(struct turn *turn, const struct script_value *answer) {
    turn->changed = turn->watched;
    if (turn->watched || turn->effects > 0 || ++turn->restarts > RESTARTS_MAX) {
        turn_go(turn, answer);
        return;
    }
    turn->sight.state = SIGHT_NONE;
    turn->looks = 0;
    turn_go(turn, NULL);
}
