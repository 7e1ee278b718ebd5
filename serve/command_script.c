/* SPDX-License-Identifier: BSD-2-Clause
 *
 * EVAL and its like: a script runs within one turn of its key.
 */
#include <string.h>

#include "command.h"
#include "connection.h"
#include "gateway.h"

static const char no_script[] = "NOSCRIPT No matching script. Please use EVAL.";

/* The text of EVAL, or the digest, is words[1]; then the number of keys, the key, the arguments. */
static struct script_run *run_new(struct connection *connection) {
    const struct request_reader *reader = &connection->reader;
    struct scripts *scripts = connection->gateway->scripts;
    char error[512];
    /* Others may have made it be forgotten while this one waited for its turn. */
    if (!scripts_has(scripts, connection->script) && command_is(reader->words[0], "eval"))
        scripts_load(scripts, reader->words[1].data, reader->words[1].bytes, connection->script, error, sizeof error);
    return script_run_new(scripts, connection->script, reader->words[3], &reader->words[4], reader->count - 4);
}

static void no_run(const struct connection *connection, struct script_value *result) {
    const char *text = scripts_has(connection->gateway->scripts, connection->script) ? "OOM out of memory" : no_script;
    *result = (struct script_value){.kind = SCRIPT_ERROR, .bytes = {text, strlen(text)}};
}

/* A run that begins anew has done nothing yet. */
static enum script_step program(struct turn *turn, const struct script_value *answer, struct script_call *call,
                                struct script_value *result) {
    struct connection *connection = connection_of(turn);
    if (answer == NULL) {
        script_run_free(connection->run);
        connection->run = run_new(connection);
    }
    if (connection->run != NULL) return script_run_step(connection->run, answer, call, result);
    no_run(connection, result);
    return SCRIPT_ENDS;
}

static void over(struct turn *turn, const struct script_value *result) {
    struct connection *connection = connection_of(turn);
    if (connection->wire != NULL) reply_value(&connection->reply, result);
    script_run_free(connection->run);
    connection->run = NULL;
    connection_answered(connection);
}

static void run(struct connection *connection) {
    connection->busy = true;
    if (turn_begin(&connection->turn, connection->gateway, connection->reader.words[3], NULL, program, over)) return;
    reply_error(&connection->reply, "OOM out of memory");
    connection_answered(connection);
}

/* Exactly one: what a script may do here is about one lock. */
static bool has_one_key(struct connection *connection) {
    int64_t keys = 0;
    if (!command_number(connection->reader.words[2], &keys)) {
        reply_error(&connection->reply, "ERR value is not an integer or out of range");
    } else if (keys != 1) {
        command_refuse(connection, "a script on several keys, or on none",
                       "a script here is about one lock: it takes one key");
    } else if (connection->reader.count < 4) {
        reply_error(&connection->reply, "ERR Number of keys can't be greater than number of args");
    } else {
        return true;
    }
    return false;
}

/* False after an error. */
static bool load(struct connection *connection, struct script_bytes text, char *sha) {
    char error[512];
    if (scripts_load(connection->gateway->scripts, text.data, text.bytes, sha, error, sizeof error)) return true;
    connection->gateway->metrics.refusals[REFUSED_REQUEST]++;
    reply_error(&connection->reply, "ERR %s", error);
    return false;
}

void command_eval(struct connection *connection) {
    if (has_one_key(connection) && load(connection, connection->reader.words[1], connection->script)) run(connection);
}

static bool read_sha(struct script_bytes word, char *sha) {
    if (word.bytes != SCRIPT_SHA_BYTES) return false;
    memcpy(sha, word.data, SCRIPT_SHA_BYTES);
    sha[SCRIPT_SHA_BYTES] = '\0';
    return strlen(sha) == SCRIPT_SHA_BYTES;
}

void command_evalsha(struct connection *connection) {
    if (!has_one_key(connection)) return;
    if (read_sha(connection->reader.words[1], connection->script) &&
        scripts_has(connection->gateway->scripts, connection->script)) {
        run(connection);
        return;
    }
    reply_error(&connection->reply, "%s", no_script);
}

void command_script(struct connection *connection) {
    const struct request_reader *reader = &connection->reader;
    struct reply *reply = &connection->reply;
    char sha[SCRIPT_SHA_BYTES + 1];
    if (command_is(reader->words[1], "load") && reader->count == 3) {
        if (load(connection, reader->words[2], sha)) reply_text(reply, sha);
    } else if (command_is(reader->words[1], "exists") && reader->count > 2) {
        reply_array(reply, reader->count - 2);
        for (size_t i = 2; i < reader->count; i++)
            reply_integer(reply, read_sha(reader->words[i], sha) && scripts_has(connection->gateway->scripts, sha));
    } else if (command_is(reader->words[1], "flush")) {
        scripts_flush(connection->gateway->scripts);
        reply_status(reply, "OK");
    } else {
        command_refuse(connection, "SCRIPT", "it takes LOAD, EXISTS and FLUSH");
    }
}
