/* SPDX-License-Identifier: BSD-2-Clause */
#include "connection.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>

#include "loop/gateway.h"

/* Limits on one client's requests in a row, and on their time, before others have their turn; and
 * on the bytes of one read. */
enum { REQUESTS_AT_ONCE = 64, READ_BYTES = 16 * 1024 };
#define NO_UID ((uid_t)-1)

/* ---- memory ---- */

static void set_weight(struct connection *connection, size_t weight) {
    struct gateway *gateway = connection->gateway;
    gateway->client_bytes = gateway->client_bytes - connection->weight + weight;
    connection->weight = weight;
    /* The event closes it later: the caller may be walking a list of connections. */
    if (gateway->client_bytes > gateway->options->client_bytes_max)
        event_active(gateway->weighs, 0, 0);
}

static void weigh(struct connection *connection) {
    set_weight(
        connection,
        sizeof *connection + evbuffer_get_length(bufferevent_get_input(connection->wire)) +
            evbuffer_get_length(connection->reply.out) + request_weight(&connection->reader) +
            connection->gateway->above->transaction_weight(connection) + connection->channel_bytes);
}

static const char out_of_memory[] =
    "out of memory: a connection is closed whose request or answer found none";

/* ---- room for connections ---- */

static struct unproven *list_of(const struct connection *connection) {
    struct gateway *gateway = connection->gateway;
    return connection->guess.wait != NULL ? &gateway->guessing : &gateway->unproven;
}

void connection_prove(struct connection *connection, bool authenticated) {
    if (connection->authenticated == authenticated) return;
    connection->authenticated = authenticated;
    if (authenticated)
        TAILQ_REMOVE(list_of(connection), connection, unproven);
    else
        TAILQ_INSERT_TAIL(list_of(connection), connection, unproven);
}

void connection_guess(struct connection *connection, struct event *wait) {
    if (!connection->authenticated) TAILQ_REMOVE(list_of(connection), connection, unproven);
    connection->guess.wait = wait;
    if (!connection->authenticated) TAILQ_INSERT_TAIL(list_of(connection), connection, unproven);
}

static size_t count_of(const struct gateway *gateway, uid_t uid) {
    size_t count = 0;
    for (const struct connection *one = gateway->connections; one != NULL; one = one->next)
        count += one->wire != NULL && one->peer_uid == uid;
    return count;
}

/* A client that fills the gateway shuts out nobody else: one that has not given the password makes
 * room for the next one, and one whose password is still to be checked does so last; where no
 * password is needed, on Unix sockets, one user leaves the last tenth to others. */
static bool make_room(struct gateway *gateway, uid_t uid) {
    const size_t most = gateway->options->connections_max, last_tenth = most / 10;
    struct connection *first = TAILQ_FIRST(&gateway->unproven);
    if (first == NULL) first = TAILQ_FIRST(&gateway->guessing);
    if (gateway->connections_count >= most && first != NULL) {
        gateway->metrics.refusals[REFUSED_CONNECTION]++;
        connection_close(first);
    }
    if (gateway->connections_count >= most) return false;
    return uid == NO_UID || gateway->password != NULL ||
           gateway->connections_count < most - last_tenth || count_of(gateway, uid) < last_tenth;
}

/* ---- the end of a connection ---- */

static void connection_free(struct connection *connection) {
    *connection->self = connection->next;
    if (connection->next != NULL) connection->next->self = connection->self;
    request_close(&connection->reader);
    connection->gateway->above->transaction_free(connection);
    task_close(&connection->script.task);
    free(connection);
}

/* The struct lives on until its operation ends. */
static void free_when_idle(struct connection *connection) {
    if (connection->wire == NULL && !connection->busy && !connection->working)
        connection_free(connection);
}

void connection_close(struct connection *connection) {
    if (connection->wire == NULL) return;
    bufferevent_free(connection->wire);
    connection->wire = NULL;
    connection->reply.out = NULL;
    connection->gateway->connections_count--;
    connection_prove(connection, true);
    channel_leave_all(connection);
    notifications_forget(connection);
    set_weight(connection, 0);
    if (connection->busy && (guess_abandon(connection) || key_op_abandon(&connection->op)))
        connection->busy = false;
    free_when_idle(connection);
}

static size_t unread(const struct connection *connection) {
    return evbuffer_get_length(connection->reply.out);
}

static void write_now(struct connection *connection) {
    struct evbuffer *out = connection->reply.out;
    evbuffer_unfreeze(out, 1);
    int written = evbuffer_write(out, bufferevent_getfd(connection->wire));
    evbuffer_freeze(out, 1);
    if (written < 0 || unread(connection) > 0)
        bufferevent_enable(connection->wire, EV_WRITE);
    else
        connection->unread_since_ns = 0;
}

/* The answers before the one that is missing are lost, too: the client cannot tell which it is. */
static void miss_answer(struct connection *connection) {
    struct gateway *gateway = connection->gateway;
    connection->last = true;
    evbuffer_unfreeze(connection->reply.out, 1);
    evbuffer_drain(connection->reply.out, unread(connection));
    evbuffer_freeze(connection->reply.out, 1);
    if (connection->missed) return; /* it is closed soon in any case */
    notifications_miss(connection, REFUSED_MEMORY);
    gateway_soon(gateway->notifications->turn);
    notice_say(&gateway->no_memory, gateway->options, out_of_memory);
}

/* An answer is written at once. Waiting until the socket is reported writable would cost two more
 * system calls, and a turn of the loop. libevent handles the rest and any error of the socket;
 * until on_written() it writes everything. */
void connection_flush(struct connection *connection) {
    if (connection->wire == NULL) return;
    if (connection->reply.failed) miss_answer(connection);
    const bool writes = (bufferevent_get_enabled(connection->wire) & EV_WRITE) != 0;
    if (unread(connection) > 0 && !writes) write_now(connection);
    weigh(connection);
}

void connection_finish(struct connection *connection) {
    if (connection->wire == NULL) return;
    connection->last = true;
    bufferevent_disable(connection->wire, EV_READ);
    connection_flush(connection);
    if (unread(connection) == 0) connection_close(connection);
}

bool connection_may_write(const struct connection *connection) {
    return connection->wire != NULL && unread(connection) <= CONNECTION_OUTPUT_MAX;
}

/* ---- requests ---- */

void connection_breaks_protocol(const struct connection *connection, const char *how) {
    struct gateway *gateway = connection->gateway;
    char text[ADDRESS_TEXT_BYTES + 160];
    gateway->metrics.refusals[REFUSED_PROTOCOL]++;
    snprintf(text, sizeof text, "closed the connection from %s: protocol error: %s",
             connection->peer, how);
    notice_say(&gateway->not_requests, gateway->options, text);
}

/* Moves input to the reader, which says so if it finds no memory. False: there is none. */
static bool read_more(struct connection *connection) {
    char bytes[READ_BYTES];
    int count = evbuffer_remove(bufferevent_get_input(connection->wire), bytes, sizeof bytes);
    if (count > 0) request_feed(&connection->reader, bytes, (size_t)count);
    return count > 0;
}

/* Processes one request. False: there is no complete one. */
static bool next_request(struct connection *connection) {
    enum request_status status = request_next(&connection->reader);
    if (status == REQUEST_MORE) {
        if (read_more(connection)) return true;
        request_rest(&connection->reader);
        return false;
    }
    connection->midway_since_ns = 0;
    if (status == REQUEST_NO_MEMORY) {
        connection->gateway->metrics.refusals[REFUSED_MEMORY]++;
        notice_say(&connection->gateway->no_memory, connection->gateway->options, out_of_memory);
        reply_error(&connection->reply, "OOM out of memory while reading a request");
        connection_finish(connection);
    } else if (status == REQUEST_BAD) {
        connection_breaks_protocol(connection, connection->reader.error);
        reply_error(&connection->reply, "ERR Protocol error: %s", connection->reader.error);
        connection_finish(connection);
    } else if (connection->reader.count > 0) {
        connection->gateway->above->request(connection);
    }
    return true;
}

static bool may_go_on(const struct connection *connection) {
    return connection->wire != NULL && !connection->busy && !connection->last &&
           unread(connection) <= CONNECTION_OUTPUT_PAUSE;
}

/* While a request or an unread answer blocks the connection, the input may fill up to two reads;
 * libevent's own bound (a watermark) does not survive a failed allocation. libevent would then call
 * on_read() again and again until input is taken; it would call on_event() in the same way if it
 * kept reading at the end of the input. */
static void read_when_there_is_room(struct connection *connection) {
    if (connection->wire == NULL || connection->last || connection->ended) return;
    const bool reads = (bufferevent_get_enabled(connection->wire) & EV_READ) != 0;
    const bool room = evbuffer_get_length(bufferevent_get_input(connection->wire)) < READ_BYTES;
    if (room && !reads) bufferevent_enable(connection->wire, EV_READ);
    if (!room && reads) bufferevent_disable(connection->wire, EV_READ);
}

static void go_on(struct connection *connection) {
    bool more = true;
    if (connection->working) return;
    connection->working = true;
    const int64_t until_ns = gateway_now_ns() + GATEWAY_SHARE_NS;
    for (int i = 0; i < REQUESTS_AT_ONCE && more && may_go_on(connection); i++) {
        more = next_request(connection);
        if (gateway_now_ns() >= until_ns) break;
    }
    if (may_go_on(connection) && !more && connection->ended) connection_finish(connection);
    connection_flush(connection);
    /* The answers that blocked it may have been written by now. */
    if (more && may_go_on(connection))
        bufferevent_trigger(connection->wire, EV_READ,
                            BEV_TRIG_IGNORE_WATERMARKS | BEV_TRIG_DEFER_CALLBACKS);
    read_when_there_is_room(connection);
    connection->working = false;
    free_when_idle(connection);
}

bool connection_begin(struct connection *connection, struct bytes key, key_op_program *program,
                      key_op_over *over) {
    connection->busy = true;
    if (key_op_begin(&connection->op, connection->gateway, key, program, over)) return true;
    reply_error(&connection->reply, "OOM out of memory");
    connection_answered(connection);
    return false;
}

void connection_answered(struct connection *connection) {
    connection->busy = false;
    if (connection->wire != NULL && connection->gateway->draining)
        connection_finish(connection);
    else if (connection->wire != NULL)
        go_on(connection);
    else
        free_when_idle(connection);
}

/* ---- callbacks of libevent ---- */

static void on_read(struct bufferevent *wire, void *context) {
    struct connection *connection = context;
    (void)wire;
    connection->gateway->heard++;
    go_on(connection);
}

/* All is written. */
static void on_written(struct bufferevent *wire, void *context) {
    struct connection *connection = context;
    bufferevent_disable(wire, EV_WRITE);
    connection->unread_since_ns = 0;
    if (connection->last)
        connection_close(connection);
    else
        go_on(connection);
}

static void on_event(struct bufferevent *wire, short what, void *context) {
    struct connection *connection = context;
    (void)wire;
    if ((what & BEV_EVENT_EOF) == 0) {
        connection_close(connection);
        return;
    }
    connection->ended = true; /* requests that it sent before are still answered */
    go_on(connection);
}

/* ---- new connections ---- */

static uid_t uid_of_peer(int fd) {
    struct ucred peer;
    socklen_t bytes = sizeof peer;
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) == 0 ? peer.uid : NO_UID;
}

static void link_in(struct gateway *gateway, struct connection *connection) {
    connection->gateway = gateway;
    connection->next = gateway->connections;
    connection->self = &gateway->connections;
    if (connection->next != NULL) connection->next->self = &connection->next;
    gateway->connections = connection;
    gateway->connections_count++;
    gateway->metrics.connections++;
    connection->id = ++gateway->connections_last_id;
    connection->began_ns = gateway_now_ns();
}

void connection_open(struct gateway *gateway, int fd, const struct sockaddr *address) {
    static const char full[] = "-ERR max number of clients reached\r\n";
    const int on = 1;
    const uid_t uid = address->sa_family == AF_UNIX ? uid_of_peer(fd) : NO_UID;
    if (!make_room(gateway, uid)) {
        gateway->metrics.refusals[REFUSED_CONNECTION]++;
        if (send(fd, full, sizeof full - 1, MSG_DONTWAIT | MSG_NOSIGNAL) <
            0) { /* the socket is closed in any case */
        }
        evutil_closesocket(fd);
        return;
    }
    struct connection *connection = calloc(1, sizeof *connection);
    struct bufferevent *wire = bufferevent_socket_new(gateway->base, fd, BEV_OPT_CLOSE_ON_FREE);
    if (connection == NULL || wire == NULL || !request_open(&connection->reader)) {
        if (wire != NULL)
            bufferevent_free(wire);
        else
            evutil_closesocket(fd);
        free(connection);
        return;
    }
    if (address->sa_family != AF_UNIX) {
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    }
    address_text(address, connection->peer, sizeof connection->peer);
    link_in(gateway, connection);
    connection->wire = wire;
    connection->reply = (struct reply){.out = bufferevent_get_output(wire), .protocol = 2};
    connection->peer_uid = uid;
    connection->authenticated = true;
    connection_prove(connection, gateway->password == NULL);
    bufferevent_setcb(wire, on_read, on_written, on_event, connection);
    bufferevent_disable(wire, EV_WRITE);
    bufferevent_enable(wire, EV_READ);
}

/* ---- all of them ---- */

static void close_heaviest(struct gateway *gateway) {
    struct connection *found = NULL;
    for (struct connection *one = gateway->connections; one != NULL; one = one->next) {
        if (one->wire != NULL && (found == NULL || one->weight > found->weight)) found = one;
    }
    if (found == NULL) return;
    gateway->metrics.refusals[REFUSED_MEMORY]++;
    reply_error(&found->reply,
                "ERR the clients of this gateway take more memory than --client-memory, and this "
                "one takes most");
    connection_flush(found);
    connection_close(found);
    notice_say(&gateway->too_heavy, gateway->options,
               "clients take more memory than --client-memory: the one that takes most is closed");
}

/* When clients together take more memory than --client-memory, closes the largest, until they fit.
 */
static void on_weigh(evutil_socket_t fd, short what, void *context) {
    struct gateway *gateway = context;
    (void)fd;
    (void)what;
    while (gateway->client_bytes > gateway->options->client_bytes_max &&
           gateway->connections_count > 0)
        close_heaviest(gateway);
}

bool connections_open(struct gateway *gateway) {
    gateway->weighs = event_new(gateway->base, -1, 0, on_weigh, gateway);
    return gateway->weighs != NULL;
}

/* The start of that state; 0: the connection is not in it. */
static int64_t since(int64_t before_ns, bool is_so, int64_t now_ns) {
    if (!is_so) return 0;
    return before_ns != 0 ? before_ns : now_ns;
}

static bool keeps_us_waiting(struct connection *connection, int64_t now) {
    bool half = connection->reader.midway && !connection->busy;
    connection->midway_since_ns = since(connection->midway_since_ns, half, now);
    connection->unread_since_ns = since(connection->unread_since_ns, unread(connection) > 0, now);
    if (half && now - connection->midway_since_ns >= CONNECTION_HALF_NS) return true;
    if (!connection->authenticated && now - connection->began_ns >= CONNECTION_HALF_NS) return true;
    if (unread(connection) > CONNECTION_OUTPUT_MAX) return true;
    return connection->unread_since_ns != 0 &&
           now - connection->unread_since_ns >= CONNECTION_UNREAD_NS;
}

void connections_sweep(struct gateway *gateway) {
    const int64_t now = gateway_now_ns();
    for (struct connection *connection = gateway->connections, *next; connection != NULL;
         connection = next) {
        next = connection->next;
        if (connection->wire == NULL || !keeps_us_waiting(connection, now)) continue;
        gateway->metrics.refusals[REFUSED_SLOW]++;
        connection_close(connection);
    }
}

void connections_drain(struct gateway *gateway) {
    for (struct connection *connection = gateway->connections, *next; connection != NULL;
         connection = next) {
        next = connection->next;
        if (!connection->busy) connection_finish(connection);
    }
}

void connections_close(struct gateway *gateway) {
    while (gateway->connections != NULL) {
        struct connection *connection = gateway->connections;
        connection_close(connection);
        if (gateway->connections != connection) continue;
        step_close(&connection->op); /* its operation will never end */
        connection_free(connection);
    }
    if (gateway->weighs != NULL) event_free(gateway->weighs);
    gateway->weighs = NULL;
}
