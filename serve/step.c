/* SPDX-License-Identifier: BSD-2-Clause */
#include "step.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "channel.h"
#include "failure.h"
#include "gateway.h"
#include "turn.h"

/* Where nodes are silent, the votes of a try under way may look as if they could decide. They are
 * soon gone. */
enum { LOOKS_MAX = 3 };

static const struct script_value nil = {.kind = SCRIPT_NIL},
                                 none = {.kind = SCRIPT_INTEGER, .integer = 0},
                                 one = {.kind = SCRIPT_INTEGER, .integer = 1},
                                 ok = {.kind = SCRIPT_STATUS, .bytes = {"OK", 2}};

/* ---- answers ---- */

static bool answered(struct script_value *value, struct script_value is) {
    *value = is;
    return true;
}

static struct script_value error_of(struct turn *turn) {
    return (struct script_value){.kind = SCRIPT_ERROR, .bytes = {turn->text, strlen(turn->text)}};
}

static struct script_value sentence(struct turn *turn, const char *text) {
    snprintf(turn->text, sizeof turn->text, "%s", text);
    return error_of(turn);
}

static struct script_value failure(struct turn *turn, int result, struct redlock_lock *lock) {
    int verdicts[REDLOCK_NODES_MAX] = {0};
    if (lock != NULL) redlock_verdicts(lock, verdicts, REDLOCK_NODES_MAX);
    failure_text(turn->gateway, result, lock != NULL ? verdicts : NULL, turn->text,
                 sizeof turn->text);
    return error_of(turn);
}

/* What is surely left. */
static struct script_value remaining(const struct turn *turn) {
    const struct sight *sight = &turn->sight;
    struct script_value value = {.kind = SCRIPT_INTEGER, .integer = -2};
    if (sight->state != SIGHT_LOCK) return value;
    value.integer = -1;
    if (sight->ends_ns == SIGHT_NEVER) return value;
    struct redlock_lock *kept = key_lock(turn->key, sight);
    int64_t ends_ns = kept != NULL ? redlock_validity_end_ns(kept) : sight->ends_ns;
    if (sight->ends_ns < ends_ns) ends_ns = sight->ends_ns;
    int64_t left_ns = ends_ns - gateway_now_ns();
    value.integer = left_ns > 0 ? left_ns / GATEWAY_MS : 0;
    return value;
}

/* ---- what each step has in common ---- */

void step_close(struct turn *turn) {
    free(turn->views);
    turn->views = NULL;
    if (turn->lock == NULL) return;
    redlock_lock_disown(turn->lock); /* freeing it would release what somebody holds */
    redlock_lock_free(turn->lock);
    turn->lock = NULL;
}

static void step_measure(struct turn *turn, enum metric_step step, int result) {
    struct metrics *metrics = &turn->gateway->metrics;
    enum metric_outcome outcome = METRIC_FAILED;
    if (result == REDLOCK_OK) outcome = METRIC_DONE;
    if (result == REDLOCK_HELD || result == REDLOCK_LOST) outcome = METRIC_NOT;
    if (result == REDLOCK_NO_QUORUM || result == REDLOCK_EXPIRED) outcome = METRIC_NO_QUORUM;
    metrics->steps[step][outcome]++;
    durations_add(&metrics->round_trips[step], gateway_now_ns() - turn->since_ns);
}

/* A lock of the turn's own. False: *value says why not. */
static bool make_lock(struct turn *turn, int64_t ttl_ms, struct script_bytes owner,
                      struct script_value *value) {
    struct redlock_lock_options options;
    struct redlock_error error;
    step_close(turn);
    redlock_lock_options_init(&options);
    options.ttl_ms = ttl_ms;
    options.renew = 0;
    options.lost_margin_ms = 0;
    options.owner = owner.bytes > 0 ? owner.data : NULL;
    options.owner_bytes = owner.bytes;
    int result = redlock_lock_new(turn->gateway->client, turn->key->name.data,
                                  turn->key->name.bytes, &options, &turn->lock, &error);
    turn->since_ns = gateway_now_ns();
    if (result == REDLOCK_OK) return true;
    snprintf(turn->text, sizeof turn->text, "ERR %s", error.text);
    *value = error_of(turn);
    return false;
}

/* The lock that this turn has seen: the one kept here, else by its token. NULL: *value says why
 * not. */
static struct redlock_lock *seen_lock(struct turn *turn, int64_t ttl_ms,
                                      struct script_value *value) {
    struct redlock_lock *kept = key_lock(turn->key, &turn->sight);
    turn->since_ns = gateway_now_ns();
    if (kept != NULL) return kept;
    if (!make_lock(turn, ttl_ms, (struct script_bytes){NULL, 0}, value)) return NULL;
    int result =
        redlock_lock_adopt_fenced(turn->lock, turn->sight.token, turn->sight.token_bytes, 0);
    if (result == REDLOCK_OK) return turn->lock;
    *value = failure(turn, result, NULL);
    return NULL;
}

/* ---- releasing ---- */

static void on_released(void *context, struct redlock_lock *lock, int result) {
    struct turn *turn = context;
    struct script_value value = one;
    step_measure(turn, METRIC_RELEASE, result);
    if (result == REDLOCK_OK) {
        turn->effects++;
        turn->sight.state = SIGHT_ABSENT;
        channel_tell(turn->gateway, turn->key->name, "del");
    } else if (result != REDLOCK_LOST) {
        value = failure(turn, result, lock);
    }
    key_forget(turn->key); /* in each case it is nobody's to keep */
    if (result == REDLOCK_LOST)
        turn_late(turn, &none);
    else
        turn_go(turn, &value);
}

static bool release(struct turn *turn, struct script_value *value) {
    if (turn->sight.state == SIGHT_ABSENT) return answered(value, none);
    struct redlock_lock *lock = seen_lock(turn, turn->gateway->options->ttl_ms, value);
    if (lock == NULL) return true;
    int result = redlock_release_start(lock, on_released, turn);
    return result == REDLOCK_OK ? false : answered(value, failure(turn, result, NULL));
}

/* ---- extending ---- */

static void on_extended(void *context, struct redlock_lock *lock, int result);

/* A node that has not answered the SET yet is not asked to extend. Where others are gone, all hangs
 * on it: so the extension of a lock that has only just been won is tried once more. */
static bool extends_again(struct turn *turn, struct redlock_lock *lock, int result) {
    if (result != REDLOCK_NO_QUORUM || turn->tries > 0 || redlock_validity_ms(lock) == 0)
        return false;
    turn->tries++;
    turn->since_ns = gateway_now_ns();
    return redlock_extend_start(lock, turn->call.ttl_ms, on_extended, turn) == REDLOCK_OK;
}

static void on_extended(void *context, struct redlock_lock *lock, int result) {
    struct turn *turn = context;
    struct script_value value = one;
    step_measure(turn, METRIC_EXTEND, result);
    if (extends_again(turn, lock, result)) return;
    if (result == REDLOCK_OK) {
        int64_t ends_ns = gateway_now_ns() + turn->call.ttl_ms * GATEWAY_MS;
        if (turn->sight.ends_ns == SIGHT_NEVER || ends_ns > turn->sight.ends_ns)
            turn->sight.ends_ns = ends_ns;
        turn->effects++;
        if (lock == turn->lock) turn->lock = NULL;
        key_keep(turn->key, lock, turn->sight.ends_ns);
    } else if (result == REDLOCK_LOST) {
        key_forget(turn->key);
    } else {
        value = failure(turn, result, lock);
    }
    if (result == REDLOCK_LOST)
        turn_late(turn, &none);
    else
        turn_go(turn, &value);
}

static bool extend(struct turn *turn, struct script_value *value) {
    static const char no_fence[] =
        "ERR this lock cannot be extended here: it was taken through another gateway or "
        "before this one started, or was one too many to remember, so its "
        "fencing token is not known. It can be released";
    if (turn->call.ttl_ms <= 0) return release(turn, value);
    if (turn->sight.state == SIGHT_ABSENT) return answered(value, none);
    if (turn->call.ttl_ms > REDLOCK_TTL_MS_MAX)
        return answered(value,
                        sentence(turn, "ERR a lock lives for at most 24 hours between extensions"));
    if (turn->call.ttl_ms < REDLOCK_TTL_MS_MIN) turn->call.ttl_ms = REDLOCK_TTL_MS_MIN;
    turn->tries = 0;
    struct redlock_lock *lock = seen_lock(turn, turn->call.ttl_ms, value);
    if (lock == NULL) return true;
    if (turn->gateway->options->guarded && lock == turn->lock)
        return answered(value, sentence(turn, no_fence));
    int result = redlock_extend_start(lock, turn->call.ttl_ms, on_extended, turn);
    return result == REDLOCK_OK ? false : answered(value, failure(turn, result, NULL));
}

/* ---- taking ---- */

static void on_taken(void *context, struct redlock_lock *lock, int result) {
    struct turn *turn = context;
    struct script_value value = ok;
    step_measure(turn, METRIC_TAKE, result);
    if (result == REDLOCK_OK) {
        struct redlock_bytes token = redlock_token(lock);
        int64_t ends_ns = gateway_now_ns() + turn->call.ttl_ms * GATEWAY_MS;
        sight_set(&turn->sight, token.data, token.bytes, ends_ns);
        turn->effects++;
        turn->lock = NULL;
        key_keep(turn->key, lock, ends_ns);
    } else if (result == REDLOCK_HELD) {
        value = nil;
    } else {
        value = failure(turn, result, lock);
    }
    /* It was seen to be free in this very turn. */
    if (result == REDLOCK_HELD && turn->sight.state == SIGHT_ABSENT)
        turn_late(turn, &nil);
    else
        turn_go(turn, &value);
}

/* A lock that is not remembered has no known fencing token: its client could not extend it, and
 * would hear of that too late. */
static bool is_full(const struct turn *turn) {
    const struct gateway *gateway = turn->gateway;
    return gateway->options->guarded && turn->key->lock == NULL &&
           !keys_have_room(gateway, turn->key->name);
}

static bool take(struct turn *turn, struct script_value *value) {
    static const char no_room[] =
        "ERR this gateway cannot remember more locks, and in guarded mode one that it does "
        "not remember cannot be extended: release some, use shorter names, or raise "
        "--lock-memory";
    const struct script_call *call = &turn->call;
    if (call->value.bytes == 0 || call->value.bytes > REDLOCK_OWNER_BYTES_MAX) {
        snprintf(turn->text, sizeof turn->text,
                 "ERR the value of a lock is from 1 to %d bytes long, this one is %zu",
                 REDLOCK_OWNER_BYTES_MAX, call->value.bytes);
        return answered(value, error_of(turn));
    }
    if (call->ttl_ms < REDLOCK_TTL_MS_MIN || call->ttl_ms > REDLOCK_TTL_MS_MAX)
        return answered(value, sentence(turn, "ERR a lock lives from 10 milliseconds to 24 hours"));
    if (turn->sight.state == SIGHT_LOCK) {
        turn->gateway->metrics.steps[METRIC_TAKE][METRIC_NOT]++;
        return answered(value, nil);
    }
    if (is_full(turn)) {
        turn->gateway->keys.not_kept++;
        return answered(value, sentence(turn, no_room));
    }
    if (!make_lock(turn, call->ttl_ms, call->value, value)) return true;
    int result = redlock_acquire_start(turn->lock, 0, on_taken, turn);
    return result == REDLOCK_OK ? false : answered(value, failure(turn, result, NULL));
}

/* ---- looking ---- */

static bool act(struct turn *turn, struct script_value *value) {
    const struct sight *sight = &turn->sight;
    switch (turn->call.command) {
    case SCRIPT_GET:
        if (sight->state != SIGHT_LOCK) return answered(value, nil);
        *value = (struct script_value){.kind = SCRIPT_BYTES,
                                       .bytes = sight_value(sight->token, sight->token_bytes)};
        return true;
    case SCRIPT_EXISTS: return answered(value, sight->state == SIGHT_LOCK ? one : none);
    case SCRIPT_PTTL: return answered(value, remaining(turn));
    case SCRIPT_DELETE: return release(turn, value);
    case SCRIPT_EXTEND: return extend(turn, value);
    case SCRIPT_TAKE: return take(turn, value);
    }
    return answered(value, nil);
}

/* What is kept here and not on the nodes was deleted elsewhere. */
static void compare_kept(struct turn *turn) {
    struct key *key = turn->key;
    if (key->lock == NULL) return;
    if (key_lock(key, &turn->sight) != NULL) {
        /* The nodes' keys may live that much longer than what is surely left. */
        int64_t asking_ns = gateway_now_ns() - turn->since_ns;
        key_keep(key, key->lock,
                 turn->sight.ends_ns == SIGHT_NEVER ? key->ends_ns
                                                    : turn->sight.ends_ns + asking_ns);
    } else if (redlock_validity_ms(key->lock) > 0) {
        key_forget(key);
        channel_tell(turn->gateway, key->name, "del");
    }
}

static bool look(struct turn *turn, struct script_value *value);

static struct script_value unseen(struct turn *turn, enum sight_verdict verdict) {
    int verdicts[REDLOCK_NODES_MAX] = {0};
    if (verdict == SIGHT_FOREIGN)
        return sentence(turn, "WRONGTYPE the key holds something else than a lock: not a string");
    if (verdict == SIGHT_LONG)
        return sentence(
            turn, "ERR the key holds something else than a lock: a string of over 1024 bytes");
    for (size_t i = 0; i < redlock_client_nodes(turn->gateway->client); i++)
        verdicts[i] = turn->views[i].verdict;
    failure_text(turn->gateway, REDLOCK_NO_QUORUM, verdicts, turn->text, sizeof turn->text);
    return error_of(turn);
}

/* In guarded mode a node that lost its data says "absent" of every lock. It does not count. */
static void leave_out_recovering(struct turn *turn, size_t nodes) {
    for (size_t i = 0; turn->gateway->options->guarded && i < nodes; i++) {
        struct redlock_node_status status = {.size = sizeof status};
        if (redlock_client_node(turn->gateway->client, i, &status) != REDLOCK_OK) continue;
        if (status.verdict != REDLOCK_VERDICT_GRANTED) turn->views[i].verdict = status.verdict;
    }
}

static void on_look(void *context, struct redlock_lock *lock, int result) {
    (void)lock;
    struct turn *turn = context;
    struct script_value value;
    size_t nodes = redlock_client_nodes(turn->gateway->client);
    leave_out_recovering(turn, nodes);
    enum sight_verdict verdict = sight_judge(turn->views, nodes, turn->since_ns, &turn->sight);
    step_measure(turn, METRIC_LOOK, verdict == SIGHT_UNKNOWN ? REDLOCK_NO_QUORUM : REDLOCK_OK);
    if (verdict == SIGHT_UNKNOWN && result == REDLOCK_OK && ++turn->looks < LOOKS_MAX) {
        if (look(turn, &value)) turn_go(turn, &value);
        return;
    }
    if (verdict != SIGHT_SEEN) {
        value = unseen(turn, verdict);
        turn_go(turn, &value);
        return;
    }
    compare_kept(turn);
    if (act(turn, &value)) turn_go(turn, &value);
}

static bool look(struct turn *turn, struct script_value *value) {
    size_t nodes = redlock_client_nodes(turn->gateway->client);
    if (!make_lock(turn, turn->gateway->options->ttl_ms, (struct script_bytes){NULL, 0}, value))
        return true;
    turn->views = calloc(nodes, sizeof *turn->views);
    if (turn->views == NULL) return answered(value, failure(turn, REDLOCK_NO_MEMORY, NULL));
    int result = redlock_look_start(turn->lock, turn->views, nodes, on_look, turn);
    return result == REDLOCK_OK ? false : answered(value, failure(turn, result, NULL));
}

bool step_call(struct turn *turn, const struct script_call *call, struct script_value *value) {
    turn->call = *call;
    if (turn->sight.state == SIGHT_NONE) key_believed(turn->key, &turn->sight);
    /* Who only wants to take finds out by trying; but where a lock is kept here, a look is
     * cheaper. */
    bool tries = call->command == SCRIPT_TAKE &&
                 (turn->key->lock == NULL || redlock_validity_ms(turn->key->lock) == 0);
    bool needs_look = turn->sight.state == SIGHT_NONE && !tries;
    return needs_look ? look(turn, value) : act(turn, value);
}
