/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The commands about a lock: what each one asks of its key.
 */
#include "command.h"

#include <redlock.h>

#include "connection/connection.h"
#include "loop/gateway.h"

bool plan_fence(struct connection *connection, struct plan *plan) {
    if (!gateway_is_guarded(connection->gateway)) {
        command_refuse(
            connection, "no fencing token",
            "the quorum is in classic mode, and only guarded mode has them (--mode guarded)");
        return false;
    }
    if (connection->exchange->reader.count < 3) {
        command_refuse(
            connection, "REDLOCK.FENCE key without a value",
            "give the value that the lock was taken with: the lock may be another client's by now");
        return false;
    }
    plan->call.value = connection->exchange->reader.words[2];
    return true;
}

bool plan_setnx(struct connection *connection, struct plan *plan) {
    plan->call.value = connection->exchange->reader.words[2];
    plan->call.ttl_ms = connection->gateway->options->ttl_ms;
    return true;
}

/* ---- times to live ---- */

int64_t left_until_ms(int64_t time_of_day_ms) {
    const int64_t now_ms = wall_clock_us() / 1000;
    return time_of_day_ms < INT64_MIN + now_ms ? INT64_MIN : time_of_day_ms - now_ms;
}

bool plan_ttl(struct connection *connection, struct bytes word, int64_t unit_ms, bool at,
              int64_t *ttl_ms) {
    int64_t number = 0;
    if (!request_number(word, &number)) {
        reply_error(&connection->reply, "ERR value is not an integer or out of range");
        return false;
    }
    const int64_t most = INT64_MAX / 1000;
    *ttl_ms = (number > most ? most : number < -most ? -most : number) * unit_ms;
    if (at) *ttl_ms = left_until_ms(*ttl_ms);
    return true;
}

bool plan_expire(struct connection *connection, struct plan *plan) {
    const struct bytes *words = connection->exchange->reader.words;
    if (connection->exchange->reader.count > 3) {
        command_refuse(connection, "NX, XX, GT and LT are not taken",
                       "an expiry here never shortens what is left, as with GT");
        return false;
    }
    const bool seconds = command_is(words[0], "expire") || command_is(words[0], "expireat");
    const bool at = command_is(words[0], "pexpireat") || command_is(words[0], "expireat");
    return plan_ttl(connection, words[2], seconds ? 1000 : 1, at, &plan->call.ttl_ms);
}

/* ---- deleting by value ---- */

bool plan_delifeq(struct connection *connection, struct plan *plan) {
    plan->call.value = connection->exchange->reader.words[2];
    return true;
}

/* Without a condition it is DEL. */
bool plan_delex(struct connection *connection, struct plan *plan) {
    const struct request_reader *reader = &connection->exchange->reader;
    if (reader->count == 2) return true;
    if (reader->count == 3) {
        reply_error(&connection->reply, "ERR wrong number of arguments for 'delex' command");
        return false;
    }
    if (!command_is(reader->words[2], "ifeq")) {
        command_refuse(connection, "DELEX takes no condition but IFEQ",
                       "a client deletes only its own lock");
        return false;
    }
    plan->shape = PLAN_IF_SAME;
    plan->call.value = reader->words[3];
    return true;
}

/* ---- SET ---- */

struct set_options {
    bool nx, xx, get, ttl, compares;
    struct bytes wanted; /* `compares`: the value of IFEQ */
};

/* Reads the option at words[*at]. False after an error. */
static bool read_option(struct connection *connection, size_t *at, struct set_options *options,
                        int64_t *ttl_ms) {
    const struct bytes *words = connection->exchange->reader.words, word = words[*at];
    const bool follows = *at + 1 < connection->exchange->reader.count;
    const struct time_option *time = time_option_find(word);
    if (command_is(word, "nx")) {
        options->nx = true;
    } else if (command_is(word, "xx")) {
        options->xx = true;
    } else if (command_is(word, "get")) {
        options->get = true;
    } else if (command_is(word, "ifeq") && !options->compares && follows) {
        options->compares = true;
        options->wanted = words[++*at];
    } else if (time != NULL && !options->ttl && follows) {
        options->ttl = true;
        return plan_ttl(connection, words[++*at], time->unit_ms, time->until, ttl_ms);
    } else if (command_is(word, "keepttl") || command_is(word, "ifne") ||
               command_is(word, "ifdeq") || command_is(word, "ifdne")) {
        command_refuse(connection, "SET with KEEPTTL, IFNE, IFDEQ or IFDNE is not taken",
                       "take a lock by SET key value NX PX ms, extend it by PEXPIRE");
        return false;
    } else {
        reply_error(&connection->reply, "ERR syntax error");
        return false;
    }
    return true;
}

/* SET of a value that the key holds already: an extension. False after an error. */
static bool plan_set_again(struct connection *connection, const struct set_options *options,
                           struct plan *plan) {
    if (options->compares && !bytes_equal(options->wanted, plan->call.value)) {
        command_refuse(connection, "SET IFEQ with another value",
                       "it extends a lock, and a lock keeps the value it was taken with");
        return false;
    }
    if (options->get) {
        command_refuse(connection, "SET with IFEQ or XX and GET",
                       "it extends a lock, and answers OK, or nil if the key holds another value");
        return false;
    }
    if (plan->call.ttl_ms <= 0) {
        reply_error(&connection->reply, "ERR invalid expire time in 'set' command");
        return false;
    }
    plan->shape = PLAN_IF_SAME;
    plan->call.command = KEY_EXTEND;
    return true;
}

bool plan_set(struct connection *connection, struct plan *plan) {
    struct set_options options = {0};
    plan->call.value = connection->exchange->reader.words[2];
    for (size_t at = 3; at < connection->exchange->reader.count; at++) {
        if (!read_option(connection, &at, &options, &plan->call.ttl_ms)) return false;
    }
    const bool again = options.xx || options.compares;
    if (options.nx + options.xx + options.compares > 1) {
        reply_error(&connection->reply, "ERR syntax error");
        return false;
    }
    if ((!options.nx && !again) || !options.ttl) {
        command_refuse(
            connection, options.nx || again ? "SET without a time to live" : "SET without NX",
            "this gateway keeps only locks; take one by SET key value NX PX ms, or EX s");
        return false;
    }
    if (again) return plan_set_again(connection, &options, plan);
    if (options.get) plan->shape = PLAN_OLD;
    return true;
}

/* ---- the steps of a plan ---- */

/* The fencing token of a lock that another client holds by now is not returned. */
static struct answer fence_of(const struct key_op *op, struct bytes asked, struct bytes held) {
    if (!bytes_equal(asked, held)) return (struct answer){.kind = ANSWER_NIL};
    struct redlock_lock *lock = key_lock(op->key, &op->observation);
    int64_t fence = lock != NULL ? redlock_fence(lock) : 0;
    if (fence > 0) return answer_integer(fence);
    return answer_error(
        "ERR the lock is held, and its fencing token is not known here: it was taken through another gateway, "
        "before this one started, or by a client in classic mode");
}

static struct answer shaped(const struct plan *plan, const struct key_op *op,
                            const struct answer *answer) {
    if (answer->kind == ANSWER_ERROR) return *answer;
    if (plan->shape == PLAN_FENCE && answer->kind == ANSWER_BYTES)
        return fence_of(op, plan->call.value, answer->bytes);
    if (plan->shape == PLAN_FLAG) return answer_integer(answer->kind == ANSWER_STATUS);
    if (plan->shape == PLAN_SECONDS && answer->integer >= 0)
        return answer_integer((answer->integer + 500) / 1000);
    return *answer;
}

/* Takes the key only after it was observed absent, so that nil certainly means "taken". */
static enum program_step take_or_report(struct plan *plan, const struct answer *answer,
                                        struct key_call *call, struct answer *result) {
    if (answer == NULL) {
        plan->looked = false;
        *call = (struct key_call){.command = KEY_GET};
        return PROGRAM_CALLS;
    }
    if (!plan->looked && answer->kind == ANSWER_NIL) {
        plan->looked = true;
        *call = plan->call;
        return PROGRAM_CALLS;
    }
    *result = *answer;
    if (plan->looked && answer->kind == ANSWER_STATUS)
        *result = (struct answer){.kind = ANSWER_NIL};
    if (plan->looked && answer->kind == ANSWER_NIL)
        *result = answer_error(
            "TRYAGAIN other clients take and release this key all the time: its value could not be read");
    return PROGRAM_ENDS;
}

/* Reads the value first. The effect is on the lock that was read, or the operation begins anew. */
static enum program_step compare_and_act(struct plan *plan, const struct answer *answer,
                                         struct key_call *call, struct answer *result) {
    if (answer == NULL) {
        plan->looked = false;
        *call = (struct key_call){.command = KEY_GET};
        return PROGRAM_CALLS;
    }
    if (!plan->looked && answer->kind == ANSWER_BYTES &&
        bytes_equal(answer->bytes, plan->call.value)) {
        plan->looked = true;
        *call = plan->call;
        return PROGRAM_CALLS;
    }
    const bool done = plan->looked && answer->integer != 0;
    *result = answer_integer(done);
    if (plan->call.command == KEY_EXTEND)
        *result = done ? (struct answer){.kind = ANSWER_STATUS, .bytes = {"OK", 2}}
                       : (struct answer){.kind = ANSWER_NIL};
    if (answer->kind == ANSWER_ERROR) *result = *answer;
    return PROGRAM_ENDS;
}

enum program_step plan_step(struct plan *plan, struct key_op *op, const struct answer *answer,
                            struct key_call *call, struct answer *result) {
    if (plan->shape == PLAN_IF_SAME) return compare_and_act(plan, answer, call, result);
    if (plan->shape == PLAN_OLD) return take_or_report(plan, answer, call, result);
    if (answer == NULL) {
        *call = plan->call;
        return PROGRAM_CALLS;
    }
    *result = shaped(plan, op, answer);
    return PROGRAM_ENDS;
}

/* ---- several keys, one after the other ---- */

static enum program_step program(struct key_op *op, const struct answer *answer,
                                 struct key_call *call, struct answer *result) {
    struct connection *connection = connection_of(op);
    return plan_step(&connection->exchange->job.plan, op, answer, call, result);
}

static void over(struct key_op *op, const struct answer *result) {
    struct connection *connection = connection_of(op);
    struct job *job = &connection->exchange->job;
    job->keys_left--;
    bool several = job->word > 1 || job->keys_left > 0;
    if (several && result->kind == ANSWER_INTEGER) {
        job->sum += result->integer;
        if (job->keys_left > 0 && connection_is_open(connection)) {
            job->word++;
            job->plan.key = connection->exchange->reader.words[job->word];
            job_begin(connection);
            return;
        }
    }
    const struct answer sum = answer_integer(job->sum);
    if (connection_is_open(connection))
        reply_value(&connection->reply, several && result->kind == ANSWER_INTEGER ? &sum : result);
    connection_answered(connection);
}

void job_begin(struct connection *connection) {
    connection_begin(connection, connection->exchange->job.plan.key, program, over);
}
