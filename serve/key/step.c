/* SPDX-License-Identifier: BSD-2-Clause */
#include "key.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <redlock/admin.h>

#include "loop/gateway.h"

/* With silent nodes, the votes of a try under way may look as if they could decide. They soon
 * disappear. */
enum { PEEKS_MAX = 3 };

static const struct answer nil = {.kind = ANSWER_NIL},
                           none = {.kind = ANSWER_INTEGER, .integer = 0},
                           one = {.kind = ANSWER_INTEGER, .integer = 1},
                           ok = {.kind = ANSWER_STATUS, .bytes = {"OK", 2}};

/* ---- answers ---- */

static bool answered(struct answer *value, struct answer is) {
    *value = is;
    return true;
}

static struct answer sentence(struct key_op *op, const char *text) {
    snprintf(op->text, sizeof op->text, "%s", text);
    return answer_error(op->text);
}

/* "NOQUORUM ..." or "ERR ...": one sentence for a client's log, which names the nodes and the
 * answer of each. It contains no secrets. `lock` is NULL if no round began. `verdicts`: of a peek,
 * node by node; NULL: the lock has those of its last round. */
static struct answer failure_of(struct key_op *op, int result, struct redlock_lock *lock,
                                const int *verdicts) {
    const bool unknown = result == REDLOCK_NO_QUORUM || result == REDLOCK_EXPIRED;
    struct redlock_why_report why;
    redlock_why_report_init(&why);
    const bool known = redlock_why(op->gateway->client, lock, result, verdicts, &why) == REDLOCK_OK;
    snprintf(op->text, sizeof op->text, "%s %.1000s", unknown ? "NOQUORUM" : "ERR",
             known ? why.sentence : redlock_result_text(result));
    return answer_error(op->text);
}

static struct answer failure(struct key_op *op, int result, struct redlock_lock *lock) {
    return failure_of(op, result, lock, NULL);
}

/* The time that is certainly left. */
static struct answer remaining(const struct key_op *op) {
    const struct observation *observation = &op->observation;
    if (observation->state != OBSERVED_LOCK) return answer_integer(-2);
    if (observation->ends_ns == OBSERVED_NEVER_ENDS) return answer_integer(-1);
    struct redlock_lock *kept = key_lock(op->key, observation);
    if (key_is_over(op->key, observation)) return none;
    int64_t ends_ns = kept != NULL ? redlock_validity_end_ns(kept) : observation->ends_ns;
    if (observation->ends_ns < ends_ns) ends_ns = observation->ends_ns;
    int64_t left_ns = ends_ns - gateway_now_ns();
    return answer_integer(left_ns > 0 ? left_ns / GATEWAY_MS : 0);
}

/* ---- common parts of the steps ---- */

void step_close(struct key_op *op) {
    free(op->views);
    op->views = NULL;
    struct redlock_lock *lock = op->lock;
    op->lock = NULL;
    if (lock != NULL) lock_leave(lock);
}

void step_abandon(struct key_op *op) {
    op->abandoned = true;
    step_close(op);
    if (op->running && op->key != NULL) key_forget(op->key);
}

static void step_measure(struct key_op *op, enum metric_step step, int result) {
    struct metrics *metrics = &op->gateway->metrics;
    enum metric_outcome outcome = METRIC_FAILED;
    if (result == REDLOCK_OK) outcome = METRIC_DONE;
    if (result == REDLOCK_HELD || result == REDLOCK_LOST) outcome = METRIC_NOT;
    if (result == REDLOCK_NO_QUORUM || result == REDLOCK_EXPIRED) outcome = METRIC_NO_QUORUM;
    op->gateway->heard++;
    metrics->steps[step][outcome]++;
    durations_add(&metrics->round_trips[step], gateway_now_ns() - op->since_ns);
}

/* Makes a lock for this operation. False: *value holds the reason. */
static bool make_lock(struct key_op *op, int64_t ttl_ms, struct bytes owner, struct answer *value) {
    struct redlock_lock_options options;
    struct redlock_error error;
    step_close(op);
    redlock_lock_options_init(&options);
    options.ttl_ms = ttl_ms;
    options.renew = 0;
    options.lost_margin_ms = 0;
    options.owner = owner.bytes > 0 ? owner.data : NULL;
    options.owner_bytes = owner.bytes;
    int result = redlock_lock_new(op->gateway->client, op->key->name.data, op->key->name.bytes,
                                  &options, &op->lock, &error);
    op->since_ns = gateway_now_ns();
    if (result == REDLOCK_OK) return true;
    snprintf(op->text, sizeof op->text, "ERR %s", error.text);
    *value = answer_error(op->text);
    return false;
}

static bool is_read(const struct observation *observation) {
    const size_t bytes = sizeof REDLOCK_SHARED_MARKER - 1;
    return observation->token_bytes == bytes &&
           memcmp(observation->token, REDLOCK_SHARED_MARKER, bytes) == 0;
}

/* Returns the lock that this operation has observed: the cached one, else one made from its token.
 * NULL: *value holds the reason. */
static struct redlock_lock *seen_lock(struct key_op *op, int64_t ttl_ms, struct answer *value) {
    struct redlock_lock *kept = key_lock(op->key, &op->observation);
    op->since_ns = gateway_now_ns();
    if (kept != NULL) return kept;
    if (is_read(&op->observation)) {
        *value = sentence(op, "ERR this is a shared lock: each reader releases and extends its own "
                              "place, and redlock break ends it for all");
        return NULL;
    }
    if (!make_lock(op, ttl_ms, (struct bytes){NULL, 0}, value)) return NULL;
    int result =
        redlock_lock_adopt_fenced(op->lock, op->observation.token, op->observation.token_bytes, 0);
    if (result == REDLOCK_OK) return op->lock;
    *value = failure(op, result, NULL);
    return NULL;
}

/* ---- releasing ---- */

static void on_released(void *context, struct redlock_lock *lock, int result) {
    struct key_op *op = context;
    struct answer value = one;
    if (op->abandoned) return;
    step_measure(op, METRIC_RELEASE, result);
    if (result == REDLOCK_OK) {
        op->effects++;
        op->observation.state = OBSERVED_ABSENT;
        key_ended(op->key, "del");
    } else if (result != REDLOCK_LOST) {
        value = failure(op, result, lock);
    }
    key_forget(op->key); /* in each case the cached lock is no longer valid */
    if (result == REDLOCK_LOST)
        key_op_late(op, &none);
    else
        key_op_go(op, &value);
}

static bool release(struct key_op *op, struct answer *value) {
    if (op->observation.state == OBSERVED_ABSENT) return answered(value, none);
    struct redlock_lock *lock = seen_lock(op, op->gateway->options->ttl_ms, value);
    if (lock == NULL) return true;
    int result = redlock_release_start(lock, on_released, op);
    return result == REDLOCK_OK ? false : answered(value, failure(op, result, NULL));
}

/* ---- extending ---- */

static void on_extended(void *context, struct redlock_lock *lock, int result);

/* A node that has not answered the SET yet is not asked to extend. If other nodes are down, that
 * node may decide, so the extension of a lock that has only just been won is tried once more. */
static bool extends_again(struct key_op *op, struct redlock_lock *lock, int result) {
    if (result != REDLOCK_NO_QUORUM || op->tries > 0 || redlock_validity_ms(lock) == 0)
        return false;
    op->tries++;
    op->since_ns = gateway_now_ns();
    return redlock_extend_start(lock, op->call.ttl_ms, on_extended, op) == REDLOCK_OK;
}

static void on_extended(void *context, struct redlock_lock *lock, int result) {
    struct key_op *op = context;
    struct answer value = one;
    if (op->abandoned) return;
    step_measure(op, METRIC_EXTEND, result);
    if (extends_again(op, lock, result)) return;
    if (result == REDLOCK_OK) {
        int64_t ends_ns = gateway_now_ns() + op->call.ttl_ms * GATEWAY_MS;
        if (op->observation.ends_ns == OBSERVED_NEVER_ENDS || ends_ns > op->observation.ends_ns)
            op->observation.ends_ns = ends_ns;
        op->effects++;
        op->key->version++;
        if (lock == op->lock) op->lock = NULL;
        key_keep(op->key, lock, op->observation.ends_ns);
    } else if (result == REDLOCK_LOST) {
        key_forget(op->key);
    } else {
        value = failure(op, result, lock);
    }
    if (result == REDLOCK_LOST)
        key_op_late(op, &none);
    else
        key_op_go(op, &value);
}

static bool extend(struct key_op *op, struct answer *value) {
    static const char no_fence[] =
        "ERR this lock cannot be extended here: it was taken through another gateway or "
        "before this one started, or as classic before the nodes were made a guarded quorum, or did not fit into "
        "--lock-memory, so its fencing token is not known. It can be released";
    if (op->call.ttl_ms <= 0) return release(op, value);
    if (op->observation.state == OBSERVED_ABSENT) return answered(value, none);
    if (op->call.ttl_ms > REDLOCK_TTL_MS_MAX)
        return answered(value,
                        sentence(op, "ERR a lock lives for at most 24 hours between extensions"));
    if (op->call.ttl_ms < REDLOCK_TTL_MS_MIN) op->call.ttl_ms = REDLOCK_TTL_MS_MIN;
    op->tries = 0;
    struct redlock_lock *lock = seen_lock(op, op->call.ttl_ms, value);
    if (lock == NULL) return true;
    if (gateway_is_guarded(op->gateway) && lock == op->lock)
        return answered(value, sentence(op, no_fence));
    int result = redlock_extend_start(lock, op->call.ttl_ms, on_extended, op);
    return result == REDLOCK_OK ? false : answered(value, failure(op, result, NULL));
}

/* ---- taking ---- */

static void on_taken(void *context, struct redlock_lock *lock, int result) {
    struct key_op *op = context;
    struct answer value = ok;
    if (op->abandoned) return;
    step_measure(op, METRIC_TAKE, result);
    if (result == REDLOCK_OK) {
        struct redlock_bytes token = redlock_token(lock);
        int64_t ends_ns = gateway_now_ns() + op->call.ttl_ms * GATEWAY_MS;
        observation_set(&op->observation, token.data, token.bytes, ends_ns);
        op->effects++;
        op->key->version++;
        op->lock = NULL;
        key_keep(op->key, lock, ends_ns);
    } else if (result == REDLOCK_HELD) {
        value = nil;
    } else {
        value = failure(op, result, lock);
    }
    /* This same operation has observed the key as absent. */
    if (result == REDLOCK_HELD && op->observation.state == OBSERVED_ABSENT)
        key_op_late(op, &nil);
    else
        key_op_go(op, &value);
}

static bool take(struct key_op *op, struct answer *value) {
    static const char no_room[] =
        "ERR this gateway cannot remember more locks, and in guarded mode one that it does "
        "not remember cannot be extended: release some, use shorter names, or raise "
        "--lock-memory";
    const struct key_call *call = &op->call;
    if (call->value.bytes == 0 || call->value.bytes > REDLOCK_OWNER_BYTES_MAX) {
        snprintf(op->text, sizeof op->text,
                 "ERR the value of a lock is from 1 to %d bytes long, this one is %zu",
                 REDLOCK_OWNER_BYTES_MAX, call->value.bytes);
        return answered(value, answer_error(op->text));
    }
    if (call->ttl_ms < REDLOCK_TTL_MS_MIN || call->ttl_ms > REDLOCK_TTL_MS_MAX)
        return answered(value, sentence(op, "ERR a lock lives from 10 milliseconds to 24 hours"));
    if (op->observation.state == OBSERVED_LOCK) {
        op->gateway->metrics.steps[METRIC_TAKE][METRIC_NOT]++;
        return answered(value, nil);
    }
    /* A lock that is not cached has no known fencing token: its client could not extend it, and
     * would learn that too late. */
    if (gateway_is_guarded(op->gateway) && op->key->lock == NULL &&
        !keys_have_room(op->gateway, op->key->name)) {
        op->gateway->keys->not_kept++;
        return answered(value, sentence(op, no_room));
    }
    if (!make_lock(op, call->ttl_ms, call->value, value)) return true;
    int result = redlock_acquire_start(op->lock, 0, on_taken, op);
    return result == REDLOCK_OK ? false : answered(value, failure(op, result, NULL));
}

/* ---- peeking ---- */

static bool act(struct key_op *op, struct answer *value) {
    const struct observation *observation = &op->observation;
    switch (op->call.command) {
    case KEY_GET:
        if (observation->state != OBSERVED_LOCK) return answered(value, nil);
        *value = (struct answer){
            .kind = ANSWER_BYTES,
            .bytes = observation_value(observation->token, observation->token_bytes)};
        return true;
    case KEY_EXISTS: return answered(value, observation->state == OBSERVED_LOCK ? one : none);
    case KEY_PTTL: return answered(value, remaining(op));
    case KEY_PUBLISH: break; /* asks no key: step_call() */
    case KEY_DELETE: return release(op, value);
    case KEY_EXTEND: return extend(op, value);
    case KEY_TAKE: return take(op, value);
    }
    return answered(value, nil);
}

/* A lock that is cached here and absent on the nodes was deleted elsewhere. */
static void compare_kept(struct key_op *op) {
    struct key *key = op->key;
    if (key->lock == NULL) return;
    if (key_lock(key, &op->observation) != NULL) {
        /* The nodes' keys may live that much longer than the time that is certainly left. */
        int64_t asking_ns = gateway_now_ns() - op->since_ns;
        key_keep(key, key->lock,
                 op->observation.ends_ns == OBSERVED_NEVER_ENDS
                     ? key->ends_ns
                     : op->observation.ends_ns + asking_ns);
    } else if (redlock_validity_ms(key->lock) > 0) {
        key_forget(key);
        key_ended(key, "del");
    }
}

static bool peek(struct key_op *op, struct answer *value);

static struct answer unseen(struct key_op *op, enum observation_verdict verdict) {
    int verdicts[REDLOCK_NODES_MAX] = {0};
    if (verdict == OBSERVED_FOREIGN)
        return sentence(op, "WRONGTYPE the key holds something other than a lock: not a string");
    if (verdict == OBSERVED_LONG)
        return sentence(
            op, "ERR the key holds something other than a lock: a string of over 1024 bytes");
    for (size_t i = 0; i < redlock_client_nodes(op->gateway->client); i++)
        if (op->views[i].verdict != REDLOCK_VERDICT_ABSENT) /* which is not the reason */
            verdicts[i] = op->views[i].verdict;
    return failure_of(op, REDLOCK_NO_QUORUM, NULL, verdicts);
}

static void on_peek(void *context, struct redlock_lock *lock, int result) {
    (void)lock;
    struct key_op *op = context;
    struct answer value;
    if (op->abandoned) return;
    size_t nodes = redlock_client_nodes(op->gateway->client);
    /* In guarded mode, a node that lost its data reports every lock as absent. Such an answer does
     * not count. */
    for (size_t i = 0; gateway_is_guarded(op->gateway) && i < nodes; i++) {
        struct redlock_node_status status = {.size = sizeof status};
        if (redlock_client_node(op->gateway->client, i, &status) != REDLOCK_OK) continue;
        if (status.verdict != REDLOCK_VERDICT_GRANTED) op->views[i].verdict = status.verdict;
    }
    enum observation_verdict verdict =
        observation_judge(op->views, nodes, op->since_ns, &op->observation);
    step_measure(op, METRIC_PEEK, verdict == OBSERVED_UNKNOWN ? REDLOCK_NO_QUORUM : REDLOCK_OK);
    if (verdict == OBSERVED_UNKNOWN && result == REDLOCK_OK && ++op->peeks < PEEKS_MAX) {
        if (peek(op, &value)) key_op_go(op, &value);
        return;
    }
    if (verdict != OBSERVED_DECIDED) {
        value = unseen(op, verdict);
        key_op_go(op, &value);
        return;
    }
    compare_kept(op);
    if (act(op, &value)) key_op_go(op, &value);
}

static bool peek(struct key_op *op, struct answer *value) {
    size_t nodes = redlock_client_nodes(op->gateway->client);
    if (!make_lock(op, op->gateway->options->ttl_ms, (struct bytes){NULL, 0}, value)) return true;
    op->views = calloc(nodes, sizeof *op->views);
    if (op->views == NULL) return answered(value, failure(op, REDLOCK_NO_MEMORY, NULL));
    int result = redlock_peek_start(op->lock, op->views, nodes, on_peek, op);
    return result == REDLOCK_OK ? false : answered(value, failure(op, result, NULL));
}

/* The key is not asked. */
static bool publish(struct key_op *op, struct answer *value) {
    const char *error = op->gateway->above->publish(op->gateway, op->call.channel, op->call.value);
    return answered(value, error != NULL ? sentence(op, error) : none);
}

bool step_call(struct key_op *op, const struct key_call *call, struct answer *value) {
    op->call = *call;
    if (call->command == KEY_PUBLISH) return publish(op, value);
    if (op->observation.state == OBSERVED_NONE && !op->asks)
        key_believed(op->key, &op->observation);
    /* An operation that only takes finds out by trying; but if a lock is cached here, a peek is
     * cheaper. */
    bool tries = call->command == KEY_TAKE &&
                 (op->key->lock == NULL || redlock_validity_ms(op->key->lock) == 0);
    bool needs_peek = op->observation.state == OBSERVED_NONE && !tries;
    return needs_peek ? peek(op, value) : act(op, value);
}
