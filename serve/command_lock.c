/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The commands about a lock: what each one asks of its key.
 */
#include <redlock.h>

#include "command.h"
#include "connection.h"
#include "gateway.h"

static bool plans(struct plan *plan, enum script_command command, enum plan_shape shape) {
    plan->call = (struct script_call){.command = command};
    plan->shape = shape;
    return true;
}

bool plan_get(struct connection *connection, struct plan *plan) {
    (void)connection;
    return plans(plan, SCRIPT_GET, PLAN_PLAIN);
}

bool plan_exists(struct connection *connection, struct plan *plan) {
    (void)connection;
    return plans(plan, SCRIPT_EXISTS, PLAN_PLAIN);
}

bool plan_pttl(struct connection *connection, struct plan *plan) {
    (void)connection;
    return plans(plan, SCRIPT_PTTL, PLAN_PLAIN);
}

bool plan_ttl(struct connection *connection, struct plan *plan) {
    (void)connection;
    return plans(plan, SCRIPT_PTTL, PLAN_SECONDS);
}

bool plan_delete(struct connection *connection, struct plan *plan) {
    (void)connection;
    return plans(plan, SCRIPT_DELETE, PLAN_PLAIN);
}

bool plan_fence(struct connection *connection, struct plan *plan) {
    if (!connection->gateway->options->guarded) {
        command_refuse(
            connection, "no fencing token",
            "the quorum is in classic mode, and only guarded mode has them (--mode guarded)");
        return false;
    }
    if (connection->reader.count < 3) {
        command_refuse(
            connection, "REDLOCK.FENCE key without a value",
            "give the value that the lock was taken with: the lock may be another client's by now");
        return false;
    }
    plans(plan, SCRIPT_GET, PLAN_FENCE);
    plan->call.value = connection->reader.words[2];
    return true;
}

bool plan_setnx(struct connection *connection, struct plan *plan) {
    plans(plan, SCRIPT_TAKE, PLAN_FLAG);
    plan->call.value = connection->reader.words[2];
    plan->call.ttl_ms = connection->gateway->options->ttl_ms;
    return true;
}

/* ---- times to live ---- */

/* A number of milliseconds, or of seconds. False after an error. */
static bool read_ttl(struct connection *connection, struct script_bytes word, int64_t unit_ms,
                     int64_t *ttl_ms) {
    int64_t number = 0;
    if (!command_number(word, &number)) {
        reply_error(&connection->reply, "ERR value is not an integer or out of range");
        return false;
    }
    const int64_t most = INT64_MAX / 1000;
    *ttl_ms = (number > most ? most : number < -most ? -most : number) * unit_ms;
    return true;
}

static bool plan_expiry(struct connection *connection, struct plan *plan, int64_t unit_ms) {
    if (connection->reader.count > 3) {
        command_refuse(connection, "NX, XX, GT and LT are not taken",
                       "an expiry here never shortens what is left, as with GT");
        return false;
    }
    plans(plan, SCRIPT_EXTEND, PLAN_PLAIN);
    return read_ttl(connection, connection->reader.words[2], unit_ms, &plan->call.ttl_ms);
}

bool plan_pexpire(struct connection *connection, struct plan *plan) {
    return plan_expiry(connection, plan, 1);
}
bool plan_expire(struct connection *connection, struct plan *plan) {
    return plan_expiry(connection, plan, 1000);
}

/* ---- SET ---- */

struct set_options {
    bool nx, get, ttl;
    const char *refused; /* the option that is not supported, or given twice */
};

/* Reads the option at words[*at]. False after an error. */
static bool read_option(struct connection *connection, size_t *at, struct set_options *options,
                        int64_t *ttl_ms) {
    const struct script_bytes *words = connection->reader.words, word = words[*at];
    bool ms = command_is(word, "px"), seconds = command_is(word, "ex");
    if (command_is(word, "nx")) {
        options->nx = true;
    } else if (command_is(word, "get")) {
        options->get = true;
    } else if ((ms || seconds) && !options->ttl && *at + 1 < connection->reader.count) {
        options->ttl = true;
        return read_ttl(connection, words[++*at], ms ? 1 : 1000, ttl_ms);
    } else if (command_is(word, "xx") || command_is(word, "keepttl") || command_is(word, "pxat") ||
               command_is(word, "exat")) {
        command_refuse(connection, "SET with XX, KEEPTTL, PXAT or EXAT is not taken",
                       "take a lock by SET key value NX PX ms");
        return false;
    } else {
        reply_error(&connection->reply, "ERR syntax error");
        return false;
    }
    return true;
}

bool plan_set(struct connection *connection, struct plan *plan) {
    struct set_options options = {0};
    plans(plan, SCRIPT_TAKE, PLAN_PLAIN);
    plan->call.value = connection->reader.words[2];
    for (size_t at = 3; at < connection->reader.count; at++) {
        if (!read_option(connection, &at, &options, &plan->call.ttl_ms)) return false;
    }
    if (!options.nx || !options.ttl) {
        command_refuse(
            connection, options.nx ? "SET without a time to live" : "SET without NX",
            "this gateway keeps only locks; take one by SET key value NX PX ms, or EX s");
        return false;
    }
    if (options.get) plan->shape = PLAN_OLD;
    return true;
}

/* ---- several keys, one after the other ---- */

static enum script_step program(struct key_op *op, const struct script_value *answer,
                                struct script_call *call, struct script_value *result) {
    struct connection *connection = connection_of(op);
    return plan_step(&connection->job.plan, op, answer, call, result);
}

static void over(struct key_op *op, const struct script_value *result) {
    struct connection *connection = connection_of(op);
    struct job *job = &connection->job;
    job->keys_left--;
    bool several = job->word > 1 || job->keys_left > 0;
    if (several && result->kind == SCRIPT_INTEGER) {
        job->sum += result->integer;
        if (job->keys_left > 0 && connection->wire != NULL) {
            job->word++;
            job->plan.key = connection->reader.words[job->word];
            job_begin(connection);
            return;
        }
    }
    const struct script_value sum = {.kind = SCRIPT_INTEGER, .integer = job->sum};
    if (connection->wire != NULL)
        reply_value(&connection->reply, several && result->kind == SCRIPT_INTEGER ? &sum : result);
    connection_answered(connection);
}

void job_begin(struct connection *connection) {
    connection->busy = true;
    if (key_op_begin(&connection->op, connection->gateway, connection->job.plan.key, NULL, program,
                     over))
        return;
    reply_error(&connection->reply, "OOM out of memory");
    connection_answered(connection);
}
