/* SPDX-License-Identifier: BSD-2-Clause */
#include "command.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "connection.h"
#include "gateway.h"
#include "transaction.h"

#define ANY REQUEST_WORDS_MAX

static const struct command commands[] = {
    {"set", 3, ANY, 0, NULL, plan_set, 1},
    {"setnx", 3, 3, 0, NULL, plan_setnx, 1},
    {"get", 2, 2, 0, NULL, plan_get, 1},
    {"exists", 2, ANY, COMMAND_MANY_KEYS, NULL, plan_exists, 1},
    {"pttl", 2, 2, 0, NULL, plan_pttl, 1},
    {"ttl", 2, 2, 0, NULL, plan_ttl, 1},
    {"pexpire", 3, 4, 0, NULL, plan_pexpire, 1},
    {"expire", 3, 4, 0, NULL, plan_expire, 1},
    {"del", 2, ANY, COMMAND_MANY_KEYS, NULL, plan_delete, 1},
    {"unlink", 2, ANY, COMMAND_MANY_KEYS, NULL, plan_delete, 1},
    {"redlock.fence", 2, 3, 0, NULL, plan_fence, 1},
    {"eval", 3, ANY, 0, command_eval, NULL, 3},
    {"evalsha", 3, ANY, 0, command_evalsha, NULL, 3},
    {"script", 2, ANY, 0, command_script, NULL, 0},
    {"watch", 2, ANY, COMMAND_IN_MULTI, command_watch, NULL, 1},
    {"unwatch", 1, 1, COMMAND_IN_MULTI, command_unwatch, NULL, 0},
    {"multi", 1, 1, COMMAND_IN_MULTI, command_multi, NULL, 0},
    {"exec", 1, 1, COMMAND_IN_MULTI, command_exec, NULL, 0},
    {"discard", 1, 1, COMMAND_IN_MULTI, command_discard, NULL, 0},
    {"subscribe", 2, ANY, COMMAND_LISTENING, command_subscribe, NULL, 0},
    {"unsubscribe", 1, ANY, COMMAND_LISTENING, command_unsubscribe, NULL, 0},
    {"psubscribe", 2, ANY, COMMAND_LISTENING, command_psubscribe, NULL, 0},
    {"punsubscribe", 1, ANY, COMMAND_LISTENING, command_punsubscribe, NULL, 0},
    {"auth", 2, 3, COMMAND_OPEN, command_auth, NULL, 0},
    {"hello", 1, ANY, COMMAND_OPEN, command_hello, NULL, 0},
    {"client", 2, ANY, 0, command_client, NULL, 0},
    {"select", 2, 2, 0, command_select, NULL, 0},
    {"ping", 1, 2, COMMAND_LISTENING, command_ping, NULL, 0},
    {"echo", 2, 2, 0, command_echo, NULL, 0},
    {"quit", 1, ANY, COMMAND_OPEN | COMMAND_LISTENING | COMMAND_IN_MULTI, command_quit, NULL, 0},
    {"reset", 1, 1, COMMAND_OPEN | COMMAND_LISTENING | COMMAND_IN_MULTI, command_reset, NULL, 0},
    {"info", 1, ANY, 0, command_info, NULL, 0},
    {"command", 1, ANY, 0, command_command, NULL, 0},
    {"config", 2, ANY, 0, command_config, NULL, 0},
    {"time", 1, 1, 0, command_time, NULL, 0},
    {"role", 1, 1, 0, command_role, NULL, 0},
    {"cluster", 2, ANY, 0, command_cluster, NULL, 0},
};

const struct command *command_at(size_t index) {
    return index < sizeof commands / sizeof commands[0] ? &commands[index] : NULL;
}

bool command_is(struct script_bytes word, const char *text) {
    return word.bytes == strlen(text) && strncasecmp(word.data, text, word.bytes) == 0;
}

const struct command *command_find(struct script_bytes name) {
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        if (command_is(name, commands[i].name)) return &commands[i];
    }
    return NULL;
}

bool command_number(struct script_bytes word, int64_t *number) {
    char text[24], *end = NULL;
    if (word.bytes == 0 || word.bytes >= sizeof text) return false;
    memcpy(text, word.data, word.bytes);
    text[word.bytes] = '\0';
    if (text[0] != '-' && (text[0] < '0' || text[0] > '9'))
        return false; /* strtoll(3) would pass over blanks */
    long long value = strtoll(text, &end, 10);
    if (end != text + word.bytes || value == INT64_MAX || value == INT64_MIN) return false;
    *number = value;
    return true;
}

/* ---- refusals ---- */

static void refused(struct connection *connection) {
    connection->gateway->metrics.refusals[REFUSED_REQUEST]++;
    transaction_break(connection);
}

void command_refuse(struct connection *connection, const char *what, const char *why) {
    refused(connection);
    reply_error(&connection->reply,
                "ERR %s: %s. This is redlock serve, a gateway to locks on a majority of servers",
                what, why);
}

void command_wrong_words(struct connection *connection, const char *name) {
    refused(connection);
    reply_error(&connection->reply, "ERR wrong number of arguments for '%s' command", name);
}

/* Clients look for "unknown command" at the beginning to learn what a server can do. */
static void unknown(struct connection *connection, struct script_bytes name) {
    refused(connection);
    reply_error(
        &connection->reply,
        "ERR unknown command '%.*s'. This is redlock serve, a gateway to locks on a majority of servers: it takes SET "
        "with NX and PX or EX, GET, PTTL, PEXPIRE, DEL, EVAL, WATCH and the others that " REDLOCK_DOC
        "/serve.md lists",
        (int)(name.bytes < 64 ? name.bytes : 64), name.data);
}

/* ---- execution ---- */

static bool may_run(struct connection *connection, const struct command *command) {
    struct reply *reply = &connection->reply;
    if (!connection->authenticated && (command->flags & COMMAND_OPEN) == 0) {
        reply_error(reply, "NOAUTH Authentication required.");
        return false;
    }
    if (connection->channels > 0 && reply->protocol == 2 &&
        (command->flags & COMMAND_LISTENING) == 0) {
        reply_error(
            reply,
            "ERR Can't execute '%s': only (P)SUBSCRIBE / (P)UNSUBSCRIBE / PING / QUIT / RESET are allowed in "
            "this context",
            command->name);
        return false;
    }
    if (transaction_is_open(connection) && command->run != NULL &&
        (command->flags & COMMAND_IN_MULTI) == 0) {
        command_refuse(connection, command->name,
                       "only commands on one lock are allowed between MULTI and EXEC");
        return false;
    }
    return true;
}

static void run_plan(struct connection *connection, const struct command *command) {
    struct job *job = &connection->job;
    *job = (struct job){.word = 1, .plan = {.key = connection->reader.words[1]}};
    if (!command->plan(connection, &job->plan)) {
        /* EXEC must not answer as if all commands had been accepted */
        transaction_break(connection);
        return;
    }
    bool many = (command->flags & COMMAND_MANY_KEYS) != 0;
    job->keys_left = many ? connection->reader.count - 1 : 1;
    if (!transaction_is_open(connection)) {
        job_begin(connection);
    } else if (job->keys_left == 1) {
        transaction_queue(connection, &job->plan);
    } else {
        command_refuse(connection, command->name, "between MULTI and EXEC it takes one key");
    }
}

/* A browser can be made to send such lines to a local port: the rest of its input must not be read.
 */
static bool is_browser(struct script_bytes name) {
    return command_is(name, "post") || command_is(name, "host:");
}

void command_do(struct connection *connection) {
    const struct script_bytes name = connection->reader.words[0];
    const struct command *command = command_find(name);
    connection->gateway->metrics.requests++;
    if (is_browser(name)) {
        connection->gateway->metrics.refusals[REFUSED_PROTOCOL]++;
        connection_close(connection);
    } else if (command == NULL && !connection->authenticated) {
        reply_error(&connection->reply, "NOAUTH Authentication required.");
    } else if (command == NULL) {
        unknown(connection, name);
    } else if (connection->reader.count < command->words_min ||
               connection->reader.count > command->words_max) {
        command_wrong_words(connection, command->name);
    } else if (may_run(connection, command)) {
        if (command->run != NULL)
            command->run(connection);
        else
            run_plan(connection, command);
    }
}
