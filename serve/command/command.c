/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The table of commands, and the checks before one runs. A command has a function (`run`) or is a
 * plan: one call on each of its lock keys. EXEC can carry out plans later. Scripts make the same
 * calls (KEY_..., key_call.h). */
#include "command.h"

#include "connection/connection.h"
#include "loop/gateway.h"

#define ANY REQUEST_WORDS_MAX

/* name, words_min, words_max (the name counts), flags, first_key */
static const struct command commands[] = {
    {"set", 3, ANY, 0, 1, .asks = KEY_TAKE, .plan = plan_set},
    {"setnx", 3, 3, 0, 1, .asks = KEY_TAKE, .shape = PLAN_FLAG, .plan = plan_setnx},
    {"get", 2, 2, 0, 1, .asks = KEY_GET},
    {"exists", 2, ANY, COMMAND_MANY_KEYS, 1, .asks = KEY_EXISTS},
    {"pttl", 2, 2, 0, 1, .asks = KEY_PTTL},
    {"ttl", 2, 2, 0, 1, .asks = KEY_PTTL, .shape = PLAN_SECONDS},
    {"pexpire", 3, 4, 0, 1, .asks = KEY_EXTEND, .plan = plan_expire},
    {"expire", 3, 4, 0, 1, .asks = KEY_EXTEND, .plan = plan_expire},
    {"pexpireat", 3, 4, 0, 1, .asks = KEY_EXTEND, .plan = plan_expire},
    {"expireat", 3, 4, 0, 1, .asks = KEY_EXTEND, .plan = plan_expire},
    {"del", 2, ANY, COMMAND_MANY_KEYS, 1, .asks = KEY_DELETE},
    {"unlink", 2, ANY, COMMAND_MANY_KEYS, 1, .asks = KEY_DELETE},
    {"delifeq", 3, 3, 0, 1, .asks = KEY_DELETE, .shape = PLAN_IF_SAME, .plan = plan_delifeq},
    {"delex", 2, 4, 0, 1, .asks = KEY_DELETE, .plan = plan_delex},
    {"redlock.fence", 2, 3, 0, 1, .asks = KEY_GET, .shape = PLAN_FENCE, .plan = plan_fence},
    {"redlock.renew", 4, 6, 0, 1, .run = command_renew},
    {"eval", 3, ANY, 0, 3, .run = command_eval},
    {"evalsha", 3, ANY, 0, 3, .run = command_evalsha},
    {"script", 2, ANY, 0, 0, .run = command_script},
    {"watch", 2, ANY, COMMAND_IN_MULTI, 1, .run = command_watch},
    {"unwatch", 1, 1, COMMAND_IN_MULTI, 0, .run = command_unwatch},
    {"multi", 1, 1, COMMAND_IN_MULTI, 0, .run = command_multi},
    {"exec", 1, 1, COMMAND_IN_MULTI, 0, .run = command_exec},
    {"discard", 1, 1, COMMAND_IN_MULTI, 0, .run = command_discard},
    {"subscribe", 2, ANY, COMMAND_PUBSUB, 0, .run = command_subscribe},
    {"unsubscribe", 1, ANY, COMMAND_PUBSUB, 0, .run = command_unsubscribe},
    {"psubscribe", 2, ANY, COMMAND_PUBSUB, 0, .run = command_subscribe},
    {"punsubscribe", 1, ANY, COMMAND_PUBSUB, 0, .run = command_unsubscribe},
    {"auth", 2, 3, COMMAND_NO_AUTH, 0, .run = command_auth},
    {"hello", 1, ANY, COMMAND_NO_AUTH, 0, .run = command_hello},
    {"client", 2, ANY, 0, 0, .run = command_client},
    {"select", 2, 2, 0, 0, .run = command_select},
    {"ping", 1, 2, COMMAND_PUBSUB, 0, .run = command_ping},
    {"echo", 2, 2, 0, 0, .run = command_echo},
    {"quit", 1, ANY, COMMAND_NO_AUTH | COMMAND_PUBSUB | COMMAND_IN_MULTI, 0, .run = command_quit},
    {"reset", 1, 1, COMMAND_NO_AUTH | COMMAND_PUBSUB | COMMAND_IN_MULTI, 0, .run = command_reset},
    {"info", 1, ANY, 0, 0, .run = command_info},
    {"command", 1, ANY, 0, 0, .run = command_command},
    {"config", 2, ANY, 0, 0, .run = command_config},
    {"time", 1, 1, 0, 0, .run = command_time},
    {"role", 1, 1, 0, 0, .run = command_role},
    {"cluster", 2, ANY, 0, 0, .run = command_cluster},
};

const struct command *command_at(size_t index) {
    return index < sizeof commands / sizeof commands[0] ? &commands[index] : NULL;
}

const struct command *command_find(struct bytes name) {
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        if (command_is(name, commands[i].name)) return &commands[i];
    }
    return NULL;
}

/* ---- execution ---- */

static bool may_run(struct connection *connection, const struct command *command) {
    struct reply *reply = &connection->reply;
    if (!connection->authenticated && (command->flags & COMMAND_NO_AUTH) == 0) {
        reply_error(reply, "NOAUTH Authentication required.");
        return false;
    }
    if (connection->channels > 0 && reply->protocol == 2 &&
        (command->flags & COMMAND_PUBSUB) == 0) {
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
    struct job *job = &connection->exchange->job;
    *job = (struct job){.word = 1,
                        .plan = {.key = connection->exchange->reader.words[1],
                                 .call = {.command = command->asks},
                                 .shape = command->shape}};
    if (command->plan != NULL && !command->plan(connection, &job->plan)) {
        /* EXEC must not answer as if all commands had been accepted */
        transaction_break(connection);
        return;
    }
    bool many = (command->flags & COMMAND_MANY_KEYS) != 0;
    job->keys_left = many ? connection->exchange->reader.count - 1 : 1;
    if (!transaction_is_open(connection)) {
        job_begin(connection);
    } else if (job->keys_left == 1) {
        transaction_queue(connection, &job->plan);
    } else {
        command_refuse(connection, command->name, "between MULTI and EXEC it takes one key");
    }
}

void command_do(struct connection *connection) {
    const struct bytes name = connection->exchange->reader.words[0];
    const struct command *command = command_find(name);
    connection->gateway->metrics.requests++;
    if (command_is(name, "post") || command_is(name, "host:")) {
        /* A browser can be made to send such lines to a local port: the rest of its input must not
         * be read. */
        connection_breaks_protocol(connection, "it speaks HTTP");
        connection_close(connection);
    } else if (command == NULL && !connection->authenticated) {
        reply_error(&connection->reply, "NOAUTH Authentication required.");
    } else if (command == NULL) {
        command_refused(connection);
        /* Clients look for "unknown command" at the beginning to learn what a server can do. */
        reply_error(
            &connection->reply,
            "ERR unknown command '%.*s'. This is redlock serve, a gateway to locks on a majority of servers: it takes "
            "SET with NX and PX or EX, GET, PTTL, PEXPIRE, DEL, EVAL, WATCH and the others that " REDLOCK_DOC
            "/serve.md lists",
            (int)(name.bytes < 64 ? name.bytes : 64), name.data);
    } else if (connection->exchange->reader.count < command->words_min ||
               connection->exchange->reader.count > command->words_max) {
        command_refused(connection);
        reply_error(&connection->reply, "ERR wrong number of arguments for '%s' command",
                    command->name);
    } else if (may_run(connection, command)) {
        if (command->run != NULL)
            command->run(connection);
        else
            run_plan(connection, command);
    }
}
