/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The commands about the server: clients send them to find out what they are connected to.
 */
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include <event2/buffer.h>

#include "command.h"
#include "connection/connection.h"
#include "loop/gateway.h"

/* ---- INFO ---- */

static void info_redlock(const struct gateway *gateway, struct evbuffer *out) {
    size_t nodes = redlock_client_nodes(gateway->client), ready = 0;
    for (size_t i = 0; i < nodes; i++) {
        struct redlock_node_status status = {.size = sizeof status};
        if (redlock_client_node(gateway->client, i, &status) == REDLOCK_OK)
            ready += status.verdict == REDLOCK_VERDICT_GRANTED;
    }
    evbuffer_add_printf(
        out,
        "redlock_version:%s\r\nredlock_mode:%s\r\nredlock_nodes:%zu\r\nredlock_nodes_ready:%zu\r\n",
        redlock_version(), gateway_is_guarded(gateway) ? "guarded" : "classic", nodes, ready);
    evbuffer_add_printf(out, "redlock_locks_kept:%zu\r\n", gateway->keys->kept);
}

/* Begins the section, if the client asks for it. */
static bool begins(const struct request_reader *reader, const char *title, struct evbuffer *out) {
    bool asks = reader->count == 1;
    for (size_t i = 1; i < reader->count && !asks; i++) {
        const struct bytes word = reader->words[i];
        asks = command_is(word, title) || command_is(word, "all") ||
               command_is(word, "everything") || command_is(word, "default");
    }
    if (!asks) return false;
    evbuffer_add_printf(out, "%s# %s\r\n", evbuffer_get_length(out) > 0 ? "\r\n" : "", title);
    return true;
}

void command_info(struct connection *connection) {
    const struct gateway *gateway = connection->gateway;
    const struct request_reader *reader = &connection->exchange->reader;
    struct evbuffer *out = evbuffer_new();
    if (out == NULL) {
        reply_error(&connection->reply, "OOM out of memory");
        return;
    }
    if (begins(reader, "Server", out))
        evbuffer_add_printf(
            out,
            "redis_version:" COMMAND_REDIS_VERSION
            "\r\nredis_mode:standalone\r\nos:Linux\r\nprocess_id:%ld\r\nrun_id:%s\r\n"
            "uptime_in_seconds:%" PRId64 "\r\n",
            (long)getpid(), gateway->run_id,
            (gateway_now_ns() - gateway->began_ns) / (1000 * GATEWAY_MS));
    if (begins(reader, "Clients", out))
        evbuffer_add_printf(out, "connected_clients:%zu\r\nmaxclients:%zu\r\n",
                            gateway->connections_count, gateway->options->connections_max);
    if (begins(reader, "Replication", out))
        evbuffer_add_printf(out, "role:master\r\nconnected_slaves:0\r\n");
    if (begins(reader, "Redlock", out)) info_redlock(gateway, out);
    reply_buffer(&connection->reply, out);
}

/* ---- COMMAND ---- */

static void report_command(struct reply *reply, const struct command *command) {
    const int words = (int)command->words_min;
    const bool many = (command->flags & COMMAND_MANY_KEYS) != 0;
    reply_array(reply, 6);
    reply_text(reply, command->name);
    reply_integer(reply, command->words_min == command->words_max ? words : -words);
    reply_array(reply, 0);
    reply_integer(reply, command->first_key);
    reply_integer(reply, many ? -1 : command->first_key);
    reply_integer(reply, command->first_key != 0);
}

void command_command(struct connection *connection) {
    const struct request_reader *reader = &connection->exchange->reader;
    struct reply *reply = &connection->reply;
    size_t count = 0;
    while (command_at(count) != NULL) count++;
    if (reader->count == 1 || (command_is(reader->words[1], "info") && reader->count == 2)) {
        reply_array(reply, count);
        for (size_t i = 0; i < count; i++) report_command(reply, command_at(i));
    } else if (command_is(reader->words[1], "count")) {
        reply_integer(reply, (int64_t)count);
    } else if (command_is(reader->words[1], "docs")) {
        reply_map(reply, 0);
    } else if (command_is(reader->words[1], "info")) {
        reply_array(reply, reader->count - 2);
        for (size_t i = 2; i < reader->count; i++) {
            const struct command *command = command_find(reader->words[i]);
            if (command != NULL)
                report_command(reply, command);
            else
                reply_nil_array(reply);
        }
    } else {
        command_refuse(connection, "COMMAND", "it takes COUNT, DOCS and INFO");
    }
}

/* ---- the rest ---- */

void command_config(struct connection *connection) {
    if (command_is(connection->exchange->reader.words[1], "get"))
        reply_map(&connection->reply, 0);
    else
        command_refuse(
            connection, "CONFIG",
            "there is nothing to configure, and notifications of locks that end are always sent");
}

void command_time(struct connection *connection) {
    const int64_t now_us = wall_clock_us();
    char text[24];
    reply_array(&connection->reply, 2);
    snprintf(text, sizeof text, "%" PRId64, now_us / 1000000);
    reply_text(&connection->reply, text);
    snprintf(text, sizeof text, "%" PRId64, now_us % 1000000);
    reply_text(&connection->reply, text);
}

void command_role(struct connection *connection) {
    reply_array(&connection->reply, 3);
    reply_text(&connection->reply, "master");
    reply_integer(&connection->reply, 0);
    reply_array(&connection->reply, 0);
}

void command_cluster(struct connection *connection) {
    reply_error(&connection->reply, "ERR This instance has cluster support disabled");
}
