/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The commands about the connection itself.
 */
#include <inttypes.h>
#include <string.h>

#include <event2/buffer.h>

#include "command.h"
#include "connection/connection.h"
#include "loop/gateway.h"

/* ---- passwords ---- */

/* False after an error. */
static bool authenticate(struct connection *connection, struct bytes user, struct bytes word) {
    if (guess_check(connection, user, word)) {
        connection_prove(connection, true);
        return true;
    }
    reply_error(&connection->reply,
                "WRONGPASS invalid username-password pair or user is disabled.");
    if (connection->guess.wrong >= GUESSES_MAX) connection_finish(connection);
    return false;
}

void command_auth(struct connection *connection) {
    const struct bytes *words = connection->exchange->reader.words, by_default = {"default", 7};
    bool names_user = connection->exchange->reader.count == 3;
    if (!names_user && connection->gateway->password == NULL) {
        reply_error(
            &connection->reply,
            "ERR AUTH <password> called without any password configured for the default user. Are you sure "
            "your configuration is correct?");
        return;
    }
    if (guess_wait(connection, command_auth)) return;
    if (authenticate(connection, names_user ? words[1] : by_default, words[names_user ? 2 : 1]))
        reply_status(&connection->reply, "OK");
}

/* ---- names ---- */

/* False after an error. */
static bool set_name(struct connection *connection, struct bytes name) {
    for (size_t i = 0; i < name.bytes; i++) {
        if (name.bytes <= CONNECTION_NAME_BYTES_MAX && name.data[i] > ' ' && name.data[i] <= '~')
            continue;
        reply_error(
            &connection->reply,
            "ERR Client names cannot contain spaces, newlines or special characters, and are at most 64 bytes long");
        return false;
    }
    if (name.bytes > 0) memcpy(connection->name, name.data, name.bytes);
    connection->name[name.bytes] = '\0';
    return true;
}

static void describe(const struct connection *connection, struct evbuffer *out) {
    evbuffer_add_printf(
        out, "id=%" PRIu64 " addr=%s name=%s age=%" PRId64 " db=0 sub=%u psub=0 multi=%d resp=%d\n",
        connection->id, connection->peer, connection->name,
        (gateway_now_ns() - connection->began_ns) / (1000 * GATEWAY_MS), connection->channels,
        transaction_is_open(connection) ? 0 : -1, connection->reply.protocol);
}

static void report_clients(struct connection *connection, bool all) {
    struct evbuffer *text = evbuffer_new();
    if (text == NULL) {
        reply_error(&connection->reply, "OOM out of memory");
        return;
    }
    for (const struct connection *one = connection->gateway->connections; all && one != NULL;
         one = one->next) {
        if (connection_is_open(one)) describe(one, text);
    }
    if (!all) describe(connection, text);
    reply_buffer(&connection->reply, text);
}

void command_client(struct connection *connection) {
    const struct bytes *words = connection->exchange->reader.words;
    size_t count = connection->exchange->reader.count;
    struct reply *reply = &connection->reply;
    if (command_is(words[1], "setname") && count == 3) {
        if (set_name(connection, words[2])) reply_status(reply, "OK");
    } else if (command_is(words[1], "getname") && count == 2) {
        if (connection->name[0] != '\0')
            reply_text(reply, connection->name);
        else
            reply_nil(reply);
    } else if (command_is(words[1], "id") && count == 2) {
        reply_integer(reply, (int64_t)connection->id);
    } else if (command_is(words[1], "list") || command_is(words[1], "info")) {
        report_clients(connection, command_is(words[1], "list"));
    } else if (command_is(words[1], "setinfo") || command_is(words[1], "no-evict") ||
               command_is(words[1], "no-touch")) {
        reply_status(reply, "OK");
    } else {
        command_refuse(connection, "CLIENT",
                       "it takes SETNAME, GETNAME, ID, INFO, LIST and SETINFO");
    }
}

/* ---- the rest ---- */

static bool hello_options(struct connection *connection) {
    const struct bytes *words = connection->exchange->reader.words;
    for (size_t at = 2; at < connection->exchange->reader.count; at++) {
        size_t left = connection->exchange->reader.count - at - 1;
        if (command_is(words[at], "auth") && left >= 2) {
            if (!authenticate(connection, words[at + 1], words[at + 2])) return false;
            at += 2;
        } else if (command_is(words[at], "setname") && left >= 1) {
            if (!set_name(connection, words[at + 1])) return false;
            at++;
        } else {
            reply_error(&connection->reply, "ERR Syntax error in HELLO option '%.*s'",
                        (int)(words[at].bytes < 32 ? words[at].bytes : 32), words[at].data);
            return false;
        }
    }
    return true;
}

void command_hello(struct connection *connection) {
    struct reply *reply = &connection->reply;
    int64_t protocol = reply->protocol;
    bool has_password = false;
    if (connection->exchange->reader.count > 1 &&
        (!request_number(connection->exchange->reader.words[1], &protocol) || protocol < 2 ||
         protocol > 3)) {
        reply_error(reply, "NOPROTO unsupported protocol version");
        return;
    }
    for (size_t at = 2; at < connection->exchange->reader.count; at++)
        has_password = has_password || command_is(connection->exchange->reader.words[at], "auth");
    if (has_password && guess_wait(connection, command_hello)) return;
    if (!hello_options(connection)) return;
    if (!connection->authenticated) {
        reply_error(
            reply,
            "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO "
            "<proto> AUTH <user> "
            "<pass> option can be used to authenticate the client and select the RESP protocol version "
            "at the same time");
        return;
    }
    reply->protocol = (int)protocol;
    reply_map(reply, 7);
    reply_text(reply, "server");
    reply_text(reply, "redis");
    reply_text(reply, "version");
    reply_text(reply, COMMAND_REDIS_VERSION);
    reply_text(reply, "proto");
    reply_integer(reply, protocol);
    reply_text(reply, "id");
    reply_integer(reply, (int64_t)connection->id);
    reply_text(reply, "mode");
    reply_text(reply, "standalone");
    reply_text(reply, "role");
    reply_text(reply, "master");
    reply_text(reply, "modules");
    reply_array(reply, 0);
}

void command_select(struct connection *connection) {
    int64_t number = 0;
    if (request_number(connection->exchange->reader.words[1], &number) && number == 0)
        reply_status(&connection->reply, "OK");
    else
        reply_error(&connection->reply,
                    "ERR DB index is out of range: there is only database 0 here");
}

void command_ping(struct connection *connection) {
    struct reply *reply = &connection->reply;
    const struct bytes *words = connection->exchange->reader.words, nothing = {"", 0};
    const struct bytes *word = connection->exchange->reader.count > 1 ? &words[1] : NULL;
    if (connection->channels > 0 &&
        reply->protocol == 2) { /* a status could be mistaken for a message */
        if (word == NULL) word = &nothing;
        reply_array(reply, 2);
        reply_text(reply, "pong");
    }
    if (word != NULL)
        reply_bytes(reply, word->data, word->bytes);
    else
        reply_status(reply, "PONG");
}

void command_echo(struct connection *connection) {
    reply_bytes(&connection->reply, connection->exchange->reader.words[1].data,
                connection->exchange->reader.words[1].bytes);
}

void command_quit(struct connection *connection) {
    reply_status(&connection->reply, "OK");
    connection_finish(connection);
}

void command_reset(struct connection *connection) {
    transaction_free(connection);
    renewals_end(connection);
    channel_leave_all(connection);
    connection->reply.protocol = 2;
    connection_prove(connection, connection->gateway->password == NULL);
    connection->name[0] = '\0';
    reply_status(&connection->reply, "RESET");
}
