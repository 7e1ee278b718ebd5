/* SPDX-License-Identifier: BSD-2-Clause */
#include "command.h"

#include <stdlib.h>
#include <string.h>

#include <event2/buffer.h>

#include "connection/connection.h"
#include "loop/gateway.h"

enum { PLANS_MAX = 32 };

struct transaction {
    bool open, broken, watching;
    bool looks;      /* EXEC reads the lock first, to compare it with the watched one */
    struct key *key; /* the watched one; NULL: none */
    uint64_t version;
    struct observation watched;
    size_t count, at;
    struct plan plans[PLANS_MAX];
    char *bytes[PLANS_MAX]; /* one value each; the key of all is behind the first one */
    size_t bytes_kept;
    struct reply answers;
};

void transaction_free(struct connection *connection) {
    struct transaction *transaction = connection->transaction;
    if (transaction == NULL) return;
    for (size_t i = 0; i < transaction->count; i++) free(transaction->bytes[i]);
    if (transaction->answers.out != NULL) evbuffer_free(transaction->answers.out);
    connection->transaction = NULL;
    if (transaction->key != NULL) key_unwatch(transaction->key);
    free(transaction);
}

size_t transaction_weight(const struct connection *connection) {
    const struct transaction *transaction = connection->transaction;
    if (transaction == NULL) return 0;
    const struct key *key = transaction->key;
    return sizeof *transaction + (key != NULL ? sizeof *key + key->name.bytes : 0) +
           transaction->bytes_kept + evbuffer_get_length(transaction->answers.out);
}

/* Returns the connection's transaction, and makes one if necessary; NULL after an error. */
static struct transaction *get(struct connection *connection) {
    if (connection->transaction != NULL) return connection->transaction;
    struct transaction *transaction = calloc(1, sizeof *transaction);
    if (transaction != NULL) transaction->answers.out = evbuffer_new();
    if (transaction == NULL || transaction->answers.out == NULL) {
        free(transaction);
        reply_error(&connection->reply, "OOM out of memory");
        return NULL;
    }
    connection->transaction = transaction;
    return transaction;
}

bool transaction_is_open(const struct connection *connection) {
    return connection->transaction != NULL && connection->transaction->open;
}

void transaction_break(struct connection *connection) {
    if (transaction_is_open(connection)) connection->transaction->broken = true;
}

/* ---- WATCH ---- */

/* It only reads: what it has observed is what EXEC compares with. */
static enum program_step watch_program(struct key_op *op, const struct answer *answer,
                                       struct key_call *call, struct answer *result) {
    struct transaction *transaction = connection_of(op)->transaction;
    if (answer == NULL) {
        *call = (struct key_call){.command = KEY_GET};
        return PROGRAM_CALLS;
    }
    transaction->watching = true;
    transaction->watched = op->observation;
    transaction->version = op->key->version;
    *result = (struct answer){.kind = ANSWER_STATUS, .bytes = {"OK", 2}};
    if (answer->kind == ANSWER_ERROR) *result = *answer;
    return PROGRAM_ENDS;
}

static void watch_over(struct key_op *op, const struct answer *result) {
    struct connection *connection = connection_of(op);
    if (result->kind == ANSWER_ERROR) transaction_free(connection);
    if (connection_is_open(connection)) reply_value(&connection->reply, result);
    connection_answered(connection);
}

static bool is_watched(const struct transaction *transaction, struct bytes key) {
    return bytes_equal(transaction->key->name, key);
}

void command_watch(struct connection *connection) {
    const struct bytes key = connection->exchange->reader.words[1];
    if (transaction_is_open(connection)) {
        reply_error(&connection->reply, "ERR WATCH inside MULTI is not allowed");
        return;
    }
    struct transaction *transaction = get(connection);
    if (transaction == NULL) return;
    const bool watches = transaction->key != NULL;
    if (connection->exchange->reader.count > 2 || (watches && !is_watched(transaction, key))) {
        command_refuse(connection, "WATCH of several keys", "a transaction here is on one lock");
        return;
    }
    if (watches) { /* the first WATCH counts */
        reply_status(&connection->reply, "OK");
        return;
    }
    transaction->key = key_watch(connection->gateway, key);
    if (transaction->key == NULL) {
        reply_error(&connection->reply, "OOM out of memory");
        transaction_free(connection);
        return;
    }
    if (!connection_begin(connection, key, watch_program, watch_over)) transaction_free(connection);
}

void command_unwatch(struct connection *connection) {
    if (!transaction_is_open(connection)) transaction_free(connection);
    reply_status(&connection->reply, "OK");
}

/* ---- MULTI ---- */

void command_multi(struct connection *connection) {
    if (transaction_is_open(connection)) {
        reply_error(&connection->reply, "ERR MULTI calls can not be nested");
        return;
    }
    struct transaction *transaction = get(connection);
    if (transaction == NULL) return;
    transaction->open = true;
    reply_status(&connection->reply, "OK");
}

void command_discard(struct connection *connection) {
    if (!transaction_is_open(connection)) {
        reply_error(&connection->reply, "ERR DISCARD without MULTI");
        return;
    }
    transaction_free(connection);
    reply_status(&connection->reply, "OK");
}

static bool same_key(const struct transaction *transaction, struct bytes key) {
    if (transaction->count > 0) return bytes_equal(transaction->plans[0].key, key);
    return transaction->key == NULL || is_watched(transaction, key);
}

void transaction_queue(struct connection *connection, const struct plan *plan) {
    struct transaction *transaction = connection->transaction;
    const struct bytes key = plan->key, value = plan->call.value;
    const bool first = transaction->count == 0;
    const size_t wanted = value.bytes + (first ? key.bytes : 0);
    if (!same_key(transaction, key) || transaction->count == PLANS_MAX ||
        wanted > REQUEST_BYTES_MAX - transaction->bytes_kept) {
        command_refuse(
            connection, "too much in a transaction",
            "it is on one lock, the watched one, and holds at most 32 commands and 128 KiB");
        return;
    }
    char *bytes = malloc(wanted + 1);
    if (bytes == NULL) {
        transaction->broken = true;
        reply_error(&connection->reply, "OOM out of memory");
        return;
    }
    struct plan *kept = &transaction->plans[transaction->count];
    *kept = *plan;
    if (value.bytes > 0) memcpy(bytes, value.data, value.bytes);
    if (first) memcpy(bytes + value.bytes, key.data, key.bytes);
    kept->call.value.data = bytes;
    kept->key.data = first ? bytes + value.bytes : transaction->plans[0].key.data;
    transaction->bytes[transaction->count++] = bytes;
    transaction->bytes_kept += wanted;
    reply_status(&connection->reply, "QUEUED");
}

/* ---- EXEC ---- */

/* Whether the first command finds out by itself whether the watched lock is still there. */
static bool needs_no_look(const struct key_op *op, const struct transaction *transaction) {
    const struct plan *first = &transaction->plans[0];
    const bool takes = first->call.command == KEY_TAKE, extends = first->call.command == KEY_EXTEND;
    if (first->shape == PLAN_OLD || first->shape == PLAN_IF_SAME) return false;
    if (transaction->watched.state != OBSERVED_LOCK) return takes;
    /* By its token, which is there, or is not. Guarded, an extension needs the fencing token too.
     */
    if (extends && gateway_is_guarded(op->gateway))
        return key_lock(op->key, &transaction->watched) != NULL;
    return extends || first->call.command == KEY_DELETE;
}

/* What this gateway has changed, or seen to be changed, it knows without asking the nodes. */
static bool begin_exec(struct key_op *op, struct transaction *transaction) {
    transaction->at = 0;
    evbuffer_drain(transaction->answers.out, evbuffer_get_length(transaction->answers.out));
    if (!transaction->watching) return true;
    if (op->key->version != transaction->version) return false;
    transaction->looks = op->asks = !needs_no_look(op, transaction);
    if (!transaction->looks && transaction->watched.state == OBSERVED_LOCK)
        key_op_assume(op, &transaction->watched);
    return true;
}

/* Whether the watched key has changed; the operation has just peeked, or tried. */
static bool was_changed(const struct key_op *op, const struct transaction *transaction) {
    if (op->changed) return true;
    bool looked = transaction->watching && !op->watched && op->effects == 0 && transaction->at == 0;
    return looked && !observation_same(&op->observation, &transaction->watched);
}

static enum program_step end_with(const struct answer *value, struct answer *result) {
    *result = *value;
    return PROGRAM_ENDS;
}

/* NIL: the watched lock has changed. An error ends the transaction: "cannot know" must not look
 * like an EXEC that succeeded. */
static enum program_step exec_program(struct key_op *op, const struct answer *answer,
                                      struct key_call *call, struct answer *result) {
    static const struct answer nil = {.kind = ANSWER_NIL};
    struct transaction *transaction = connection_of(op)->transaction;
    const bool begins = answer == NULL;
    if (!begins && answer->kind == ANSWER_ERROR) return end_with(answer, result);
    if (begins ? !begin_exec(op, transaction) : was_changed(op, transaction))
        return end_with(&nil, result);
    if (transaction->looks) {
        transaction->looks = begins;
        *call = (struct key_call){.command = KEY_GET};
        if (begins) return PROGRAM_CALLS;
        answer = NULL;
    }
    while (transaction->at < transaction->count) {
        struct plan *plan = &transaction->plans[transaction->at];
        if (plan_step(plan, op, answer, call, result) == PROGRAM_CALLS) return PROGRAM_CALLS;
        if (result->kind == ANSWER_ERROR) return PROGRAM_ENDS;
        reply_value(&transaction->answers, result);
        transaction->at++;
        answer = NULL;
    }
    *result = (struct answer){.kind = ANSWER_STATUS};
    return PROGRAM_ENDS;
}

static void exec_over(struct key_op *op, const struct answer *result) {
    struct connection *connection = connection_of(op);
    struct transaction *transaction = connection->transaction;
    if (connection_is_open(connection) && result->kind == ANSWER_STATUS) {
        reply_array(&connection->reply, transaction->count);
        reply_move(&connection->reply, transaction->answers.out);
        connection->reply.failed |= transaction->answers.failed;
    } else if (connection_is_open(connection) && result->kind == ANSWER_NIL) {
        reply_nil_array(&connection->reply);
    } else if (connection_is_open(connection)) {
        reply_value(&connection->reply, result);
    }
    transaction_free(connection);
    connection_answered(connection);
}

void command_exec(struct connection *connection) {
    struct transaction *transaction = connection->transaction;
    if (!transaction_is_open(connection)) {
        reply_error(&connection->reply, "ERR EXEC without MULTI");
        return;
    }
    if (transaction->broken || transaction->count == 0) {
        if (transaction->broken)
            reply_error(&connection->reply,
                        "EXECABORT Transaction discarded because of previous errors.");
        else
            reply_array(&connection->reply, 0);
        transaction_free(connection);
        return;
    }
    transaction->answers.protocol = connection->reply.protocol;
    if (!connection_begin(connection, transaction->plans[0].key, exec_program, exec_over))
        transaction_free(connection);
}
