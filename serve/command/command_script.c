/* SPDX-License-Identifier: BSD-2-Clause
 *
 * EVAL and its variants: a script runs within one operation on its key.
 */
#include "command.h"

#include <stdlib.h>
#include <string.h>

#include "connection/connection.h"
#include "loop/gateway.h"

enum { TEXT_BYTES_MAX = 16 * 1024 };
/* A worker that died during a script may have been killed from outside, or have been damaged by an
 * earlier script of the connection. The script is therefore tried once more, if it has changed
 * nothing yet. */
enum { DEATHS_MAX = 3 };

static const char no_script[] = "NOSCRIPT No matching script. Please use EVAL.";

/* The known ones, and those that a worker has compiled and accepted. */
struct text {
    struct script_entry entry;
    struct bytes bytes; /* stored behind the struct */
    struct known known;
};

static struct connection *connection_of_task(struct worker_task *task) {
    return (struct connection *)(void *)((char *)task - offsetof(struct connection, task));
}

static const char *failure_of(enum worker_failure failure) {
    switch (failure) {
    case WORKER_OVERDUE: return "ERR the script takes too long: it does not end";
    case WORKER_NONE:
        return "ERR this gateway runs only the scripts that it knows by heart: it has no "
               "process for "
               "others, as its log says, or --scripts";
    case WORKER_WORKED:
    case WORKER_DIED: break;
    }
    return "ERR the script ended the process that ran it";
}

/* EVAL has its text in words[1], SCRIPT LOAD in words[2]. */
static bool is_eval(const struct connection *connection) {
    return command_is(connection->exchange->reader.words[0], "eval");
}

static struct bytes text_of(const struct connection *connection) {
    return connection->exchange->reader.words[is_eval(connection) ? 1 : 2];
}

/* ---- running ---- */

/* The text of EVAL, or the digest, is words[1]; then the number of keys, the key, the arguments. */
static enum program_step begin(struct connection *connection, struct answer *result) {
    struct script *script = &connection->exchange->script;
    const struct request_reader *reader = &connection->exchange->reader;
    const struct text *kept = cache_use(&connection->gateway->texts, script->sha);
    struct wire_message message = {.kind = WIRE_RUN,
                                   .key = reader->words[3],
                                   .arguments = &reader->words[4],
                                   .argument_count = reader->count - 4};
    script->changed = false;
    /* Other clients may have displaced the text while this one waited. */
    if (kept == NULL && !is_eval(connection)) {
        *result = answer_error(no_script);
        return PROGRAM_ENDS;
    }
    message.text = kept != NULL ? kept->bytes : text_of(connection);
    memcpy(message.sha, script->sha, sizeof message.sha);
    if (task_ask(&connection->task, &connection->gateway->workers, &message)) return PROGRAM_WAITS;
    *result = answer_error("OOM out of memory");
    return PROGRAM_ENDS;
}

/* The script has been lost. */
static enum program_step begin_after(struct connection *connection, enum worker_failure failure,
                                     struct answer *result) {
    struct script *script = &connection->exchange->script;
    if (failure == WORKER_DIED && !script->changed && ++script->deaths < DEATHS_MAX)
        return begin(connection, result);
    *result = answer_error(failure_of(failure));
    return PROGRAM_ENDS;
}

/* A run that restarts has changed nothing yet. */
static enum program_step program(struct key_op *op, const struct answer *answer,
                                 struct key_call *call, struct answer *result) {
    struct connection *connection = connection_of(op);
    (void)call;
    if (answer == NULL) return begin(connection, result);
    const struct wire_message message = {.kind = WIRE_ANSWER, .value = *answer};
    if (task_ask(&connection->task, &connection->gateway->workers, &message)) return PROGRAM_WAITS;
    return begin_after(connection, connection->task.failure, result);
}

static void heard_of_run(struct worker_task *task, const struct wire_message *message,
                         enum worker_failure failure) {
    struct connection *connection = connection_of_task(task);
    struct answer result;
    if (message == NULL) {
        const enum program_step step = begin_after(connection, failure, &result);
        if (step == PROGRAM_ENDS)
            key_op_said(&connection->exchange->op, PROGRAM_ENDS, NULL, &result);
    } else if (message->kind == WIRE_CALL) {
        struct key_call call = message->call;
        if (call.until) call.ttl_ms = left_until_ms(call.ttl_ms);
        if (call.command >= KEY_DELETE) connection->exchange->script.changed = true;
        key_op_said(&connection->exchange->op, PROGRAM_CALLS, &call, NULL);
    } else {
        key_op_said(&connection->exchange->op, PROGRAM_ENDS, NULL, &message->value);
    }
}

static void over(struct key_op *op, const struct answer *result) {
    struct connection *connection = connection_of(op);
    if (connection_is_open(connection)) reply_value(&connection->reply, result);
    task_end(&connection->task);
    connection_answered(connection);
}

/* Of a script that is known by heart. */
static enum program_step known_program(struct key_op *op, const struct answer *answer,
                                       struct key_call *call, struct answer *result) {
    return known_step(&connection_of(op)->exchange->script.known, answer, call, result);
}

static void run(struct connection *connection) {
    struct script *script = &connection->exchange->script;
    const struct request_reader *reader = &connection->exchange->reader;
    const struct text *kept = cache_use(&connection->gateway->texts, script->sha);
    const bool by_heart = kept != NULL && known_begin(&script->known, &kept->known, script->sha,
                                                      &reader->words[4], reader->count - 4);
    key_op_program *const runs = by_heart ? known_program : program;
    struct workers_count *count = &connection->gateway->workers.count;
    *(by_heart ? &count->known : &count->runs) += 1;
    connection->task.heard = heard_of_run;
    script->deaths = 0;
    connection_begin(connection, reader->words[3], runs, over);
}

/* ---- loading ---- */

/* Copies the text. False: out of memory. */
static bool keep_text(struct connection *connection) {
    struct script_cache *texts = &connection->gateway->texts;
    const struct bytes bytes = text_of(connection);
    if (cache_use(texts, connection->exchange->script.sha) != NULL) return true;
    struct text *text = malloc(sizeof *text + bytes.bytes);
    if (text == NULL) return false;
    if (bytes.bytes > 0) memcpy(text + 1, bytes.data, bytes.bytes);
    text->bytes = (struct bytes){(char *)(text + 1), bytes.bytes};
    text->known = known_find(bytes);
    return cache_keep(texts, connection->exchange->script.sha, &text->entry);
}

static bool ask_to_load(struct connection *connection) {
    struct wire_message message = {.kind = WIRE_LOAD, .text = text_of(connection)};
    memcpy(message.sha, connection->exchange->script.sha, sizeof message.sha);
    return task_ask(&connection->task, &connection->gateway->workers, &message);
}

/* Continues with the command that needed the text. If the client has closed, the command does not
 * begin. */
static void loaded(struct connection *connection) {
    if (connection_is_open(connection) && is_eval(connection)) {
        run(connection);
        return;
    }
    if (connection_is_open(connection))
        reply_text(&connection->reply, connection->exchange->script.sha);
    connection_answered(connection);
}

static void heard_of_load(struct worker_task *task, const struct wire_message *message,
                          enum worker_failure failure) {
    struct connection *connection = connection_of_task(task);
    struct script *script = &connection->exchange->script;
    struct answer why = answer_error("OOM out of memory");
    if (message == NULL) {
        if (failure == WORKER_DIED && ++script->deaths < DEATHS_MAX && ask_to_load(connection))
            return;
        why = answer_error(failure_of(failure));
    } else if (message->kind == WIRE_REFUSED) {
        why.bytes = message->text;
    } else if (keep_text(connection)) {
        task_end(task);
        loaded(connection);
        return;
    }
    connection->gateway->metrics.refusals[REFUSED_REQUEST]++;
    if (connection_is_open(connection)) reply_value(&connection->reply, &why);
    task_end(task);
    connection_answered(connection);
}

/* Names the text, and lets a worker compile and judge it if it is not known yet. */
static void load(struct connection *connection) {
    struct script *script = &connection->exchange->script;
    const struct bytes text = text_of(connection);
    if (text.bytes > TEXT_BYTES_MAX) {
        connection->gateway->metrics.refusals[REFUSED_REQUEST]++;
        reply_error(&connection->reply, "ERR the script is too long: this gateway takes %d bytes",
                    TEXT_BYTES_MAX);
        return;
    }
    if (!script_name(text, script->sha)) {
        reply_error(&connection->reply, "ERR SHA1 cannot be computed");
        return;
    }
    connection->busy = true;
    const bool has = cache_use(&connection->gateway->texts, script->sha) != NULL;
    if (has || (known_find(text).program != NULL && keep_text(connection))) {
        loaded(connection);
        return;
    }
    connection->task.heard = heard_of_load;
    script->deaths = 0;
    if (ask_to_load(connection)) return;
    reply_error(&connection->reply, "OOM out of memory");
    connection_answered(connection);
}

/* ---- the commands ---- */

/* Exactly one key: a script here may use only one lock. */
static bool has_one_key(struct connection *connection) {
    int64_t keys = 0;
    if (!request_number(connection->exchange->reader.words[2], &keys)) {
        reply_error(&connection->reply, "ERR value is not an integer or out of range");
    } else if (keys != 1) {
        command_refuse(connection, "a script on several keys, or on none",
                       "a script here is about one lock: it takes one key");
    } else if (connection->exchange->reader.count < 4) {
        reply_error(&connection->reply, "ERR Number of keys can't be greater than number of args");
    } else {
        return true;
    }
    return false;
}

void command_eval(struct connection *connection) {
    if (has_one_key(connection)) load(connection);
}

static bool read_sha(struct bytes word, char *sha) {
    if (word.bytes != SCRIPT_SHA_BYTES) return false;
    memcpy(sha, word.data, SCRIPT_SHA_BYTES);
    sha[SCRIPT_SHA_BYTES] = '\0';
    return strlen(sha) == SCRIPT_SHA_BYTES;
}

void command_evalsha(struct connection *connection) {
    struct script *script = &connection->exchange->script;
    if (!has_one_key(connection)) return;
    const struct script_entry *kept = NULL;
    if (read_sha(connection->exchange->reader.words[1], script->sha))
        kept = cache_find(&connection->gateway->texts, script->sha);
    if (kept == NULL) {
        reply_error(&connection->reply, "%s", no_script);
        return;
    }
    memcpy(script->sha, kept->sha, sizeof script->sha); /* in lower case, as errors show it */
    run(connection);
}

void command_script(struct connection *connection) {
    const struct request_reader *reader = &connection->exchange->reader;
    struct reply *reply = &connection->reply;
    char sha[SCRIPT_SHA_BYTES + 1];
    if (command_is(reader->words[1], "load") && reader->count == 3) {
        load(connection);
    } else if (command_is(reader->words[1], "exists") && reader->count > 2) {
        reply_array(reply, reader->count - 2);
        for (size_t i = 2; i < reader->count; i++)
            reply_integer(reply, read_sha(reader->words[i], sha) &&
                                     cache_find(&connection->gateway->texts, sha) != NULL);
    } else if (command_is(reader->words[1], "flush")) {
        cache_clear(&connection->gateway->texts);
        reply_status(reply, "OK");
    } else {
        command_refuse(connection, "SCRIPT", "it takes LOAD, EXISTS and FLUSH");
    }
}
