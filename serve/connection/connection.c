/* SPDX-License-Identifier: BSD-2-Clause */
#include "connection.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <event2/buffer.h>
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
    const struct exchange *exchange = connection->exchange;
    set_weight(connection,
               sizeof *connection + evbuffer_get_length(connection->reply.out) +
                   (exchange != NULL ? sizeof *exchange + request_weight(&exchange->reader) : 0) +
                   connection->gateway->above->weight(connection) + connection->channel_bytes);
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
        count += connection_is_open(one) && one->peer_uid == uid;
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

/* ---- those that keep the gateway waiting ---- */

static bool is_half(const struct connection *connection) {
    return connection->exchange != NULL && connection->exchange->reader.midway && !connection->busy;
}

static size_t unread(const struct connection *connection) {
    return evbuffer_get_length(connection->reply.out);
}

static void enter_slow(struct connection *connection) {
    if (connection->is_slow || (!is_half(connection) && unread(connection) == 0)) return;
    connection->is_slow = true;
    TAILQ_INSERT_TAIL(&connection->gateway->slow, connection, slow);
}

static void leave_slow(struct connection *connection) {
    if (connection->is_slow) TAILQ_REMOVE(&connection->gateway->slow, connection, slow);
    connection->is_slow = false;
}

/* ---- the end of a connection ---- */

static void connection_free(struct connection *connection) {
    *connection->self = connection->next;
    if (connection->next != NULL) connection->next->self = connection->self;
    connection->gateway->above->transaction_free(connection);
    task_close(&connection->task);
    exchange_end(connection);
    free(connection);
}

/* The struct lives on until its operation ends. */
static void free_when_idle(struct connection *connection) {
    if (!connection_is_open(connection) && !connection->busy && !connection->working)
        connection_free(connection);
}

void connection_close(struct connection *connection) {
    if (!connection_is_open(connection)) return;
    event_del(&connection->readable);
    event_del(&connection->writable);
    event_del(&connection->again);
    evutil_closesocket(connection->fd);
    connection->fd = -1;
    evbuffer_free(connection->reply.out);
    connection->reply.out = NULL;
    connection->gateway->connections_count--;
    connection_prove(connection, true);
    leave_slow(connection);
    channel_leave_all(connection);
    connection->gateway->above->closed(connection);
    notifications_forget(connection);
    set_weight(connection, 0);
    if (connection->busy &&
        (guess_abandon(connection) || key_op_abandon(&connection->exchange->op)))
        connection->busy = false;
    free_when_idle(connection);
}

/* False: the connection is broken. */
static bool write_some(struct connection *connection) {
    if (unread(connection) > 0 && evbuffer_write(connection->reply.out, connection->fd) < 0 &&
        errno != EAGAIN && errno != EINTR)
        return false;
    if (unread(connection) == 0) connection->unread_since_ns = 0;
    return true;
}

/* The answers before the one that is missing are lost, too: the client cannot tell which it is. */
static void miss_answer(struct connection *connection) {
    struct gateway *gateway = connection->gateway;
    connection->last = true;
    evbuffer_drain(connection->reply.out, unread(connection));
    if (connection->missed) return; /* it is closed soon in any case */
    notifications_miss(connection, REFUSED_MEMORY);
    gateway_soon(gateway->notifications->turn);
    notice_say(&gateway->no_memory, gateway->options, out_of_memory);
}

/* An answer is written at once. Waiting until the socket is reported writable would cost two more
 * system calls, and a turn of the loop. on_writable() writes the rest, and closes a connection that
 * is broken: the caller may be walking a list of connections. */
void connection_flush(struct connection *connection) {
    if (!connection_is_open(connection)) return;
    if (connection->reply.failed) miss_answer(connection);
    if (unread(connection) > 0 && !event_pending(&connection->writable, EV_WRITE, NULL) &&
        (!write_some(connection) || unread(connection) > 0))
        event_add(&connection->writable, NULL);
    enter_slow(connection);
    weigh(connection);
}

void connection_finish(struct connection *connection) {
    if (!connection_is_open(connection)) return;
    connection->last = true;
    event_del(&connection->readable);
    connection_flush(connection);
    if (unread(connection) == 0) connection_close(connection);
}

bool connection_may_write(const struct connection *connection) {
    return connection_is_open(connection) && unread(connection) <= CONNECTION_OUTPUT_MAX;
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

static void read_no_more(struct connection *connection) {
    struct gateway *gateway = connection->gateway;
    gateway->metrics.refusals[REFUSED_MEMORY]++;
    notice_say(&gateway->no_memory, gateway->options, out_of_memory);
    reply_error(&connection->reply, "OOM out of memory while reading a request");
    connection_finish(connection);
}

/* Processes one request. False: there is no complete one. */
static bool next_request(struct connection *connection) {
    if (connection->exchange == NULL) return false;
    enum request_status status = request_next(&connection->exchange->reader);
    if (status == REQUEST_MORE) return false;
    connection->midway_since_ns = 0;
    if (status == REQUEST_NO_MEMORY) {
        read_no_more(connection);
    } else if (status == REQUEST_BAD) {
        connection_breaks_protocol(connection, connection->exchange->reader.error);
        reply_error(&connection->reply, "ERR Protocol error: %s",
                    connection->exchange->reader.error);
        connection_finish(connection);
    } else if (connection->exchange->reader.count > 0) {
        connection->gateway->above->request(connection);
    }
    return true;
}

static bool may_go_on(const struct connection *connection) {
    return connection_is_open(connection) && !connection->busy && !connection->last &&
           unread(connection) <= CONNECTION_OUTPUT_PAUSE;
}

/* While a request or an unread answer blocks the connection, the input may fill up to two reads.
 * `starves`: the next request is not complete yet. */
static void read_when_there_is_room(struct connection *connection, bool starves) {
    if (!connection_is_open(connection) || connection->last || connection->ended) return;
    const struct exchange *exchange = connection->exchange;
    if (!starves && exchange != NULL && exchange->reader.pending >= READ_BYTES)
        event_del(&connection->readable);
    else if (event_add(&connection->readable, NULL) != 0)
        connection_close(connection);
}

/* False: nothing has arrived, or the connection is closed. */
static bool read_some(struct connection *connection) {
    char bytes[READ_BYTES];
    const ssize_t count = recv(connection->fd, bytes, sizeof bytes, MSG_DONTWAIT);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) return false;
    connection->gateway->heard++;
    if (count < 0) {
        connection_close(connection);
        return false;
    }
    if (count == 0) {
        connection->ended = true; /* requests that it sent before are still answered */
        event_del(&connection->readable);
        return true;
    }
    if (!exchange_begin(connection)) {
        read_no_more(connection);
        return false;
    }
    connection->heard_ns = gateway_now_ns();
    request_feed(&connection->exchange->reader, bytes, (size_t)count);
    return true;
}

/* True: more requests may be here. */
static bool process_requests(struct connection *connection, int most, int64_t until_ns) {
    bool more = true;
    for (int i = 0; i < most && more && may_go_on(connection); i++) {
        more = next_request(connection);
        if (gateway_now_ns() >= until_ns) break;
    }
    if (exchange_is_over(connection)) {
        exchange_end(connection);
        more = false;
    }
    if (may_go_on(connection) && !more && connection->ended) connection_finish(connection);
    return more;
}

/* Writing an answer may give the processor to the client, which has sent its next request by the
 * time that the gateway goes on. So it reads once without asking the loop, unless another client
 * has a request under way. True: it has. */
static bool writes_and_reads(struct connection *connection) {
    const bool answers = connection_is_open(connection) && unread(connection) > 0;
    connection_flush(connection);
    return answers && may_go_on(connection) && !connection->ended && unread(connection) == 0 &&
           connection->gateway->exchanges->used == 0 && read_some(connection);
}

static void go_on(struct connection *connection) {
    static const struct timeval at_once = {0};
    if (connection->working) return;
    connection->working = true;
    const int64_t until_ns = gateway_now_ns() + GATEWAY_SHARE_NS;
    bool more = process_requests(connection, REQUESTS_AT_ONCE, until_ns);
    if (writes_and_reads(connection)) {
        more = process_requests(connection, 1, until_ns);
        connection_flush(connection);
    }
    read_when_there_is_room(connection, !more);
    /* The answers that blocked it may have been written by now. */
    if (more && may_go_on(connection) && event_add(&connection->again, &at_once) != 0)
        connection_close(connection);
    connection->working = false;
    free_when_idle(connection);
}

bool connection_begin(struct connection *connection, struct bytes key, key_op_program *program,
                      key_op_over *over) {
    connection->busy = true;
    if (key_op_begin(&connection->exchange->op, connection->gateway, key, program, over))
        return true;
    reply_error(&connection->reply, "OOM out of memory");
    connection_answered(connection);
    return false;
}

void connection_answered(struct connection *connection) {
    connection->busy = false;
    if (connection_is_open(connection) && connection->gateway->draining)
        connection_finish(connection);
    else if (connection_is_open(connection))
        go_on(connection);
    else
        free_when_idle(connection);
}

/* ---- callbacks of libevent ---- */

static void on_again(evutil_socket_t fd, short what, void *context) {
    struct connection *connection = context;
    (void)fd;
    (void)what;
    connection->gateway->heard++;
    go_on(connection);
}

static void on_readable(evutil_socket_t fd, short what, void *context) {
    struct connection *connection = context;
    (void)fd;
    (void)what;
    if (read_some(connection)) go_on(connection);
}

static void on_writable(evutil_socket_t fd, short what, void *context) {
    struct connection *connection = context;
    (void)fd;
    (void)what;
    if (!write_some(connection)) {
        connection_close(connection);
        return;
    }
    if (unread(connection) > 0) return;
    event_del(&connection->writable);
    if (connection->last)
        connection_close(connection);
    else
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

/* NULL: out of memory. */
static struct connection *make(struct gateway *gateway, int fd) {
    struct connection *connection = calloc(1, sizeof *connection);
    if (connection == NULL) return NULL;
    connection->fd = fd;
    connection->reply = (struct reply){.out = evbuffer_new(), .protocol = 2};
    event_assign(&connection->readable, gateway->base, fd, EV_READ | EV_PERSIST, on_readable,
                 connection);
    event_assign(&connection->writable, gateway->base, fd, EV_WRITE | EV_PERSIST, on_writable,
                 connection);
    event_assign(&connection->again, gateway->base, -1, 0, on_again, connection);
    if (connection->reply.out != NULL && event_add(&connection->readable, NULL) == 0)
        return connection;
    if (connection->reply.out != NULL) evbuffer_free(connection->reply.out);
    free(connection);
    return NULL;
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
    struct connection *connection = make(gateway, fd);
    if (connection == NULL) {
        evutil_closesocket(fd);
        return;
    }
    if (address->sa_family != AF_UNIX) {
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    }
    address_text(address, connection->peer, sizeof connection->peer);
    link_in(gateway, connection);
    connection->peer_uid = uid;
    connection->authenticated = true;
    connection_prove(connection, gateway->password == NULL);
}

/* ---- all of them ---- */

static void close_heaviest(struct gateway *gateway) {
    struct connection *found = NULL;
    for (struct connection *one = gateway->connections; one != NULL; one = one->next) {
        if (connection_is_open(one) && (found == NULL || one->weight > found->weight)) found = one;
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
    TAILQ_INIT(&gateway->unproven);
    TAILQ_INIT(&gateway->guessing);
    TAILQ_INIT(&gateway->slow);
    gateway->weighs = event_new(gateway->base, -1, 0, on_weigh, gateway);
    return gateway->weighs != NULL;
}

/* The start of that state; 0: the connection is not in it. */
static int64_t since(int64_t before_ns, bool is_so, int64_t now_ns) {
    if (!is_so) return 0;
    return before_ns != 0 ? before_ns : now_ns;
}

static bool keeps_us_waiting(struct connection *connection, int64_t now) {
    const bool half = is_half(connection);
    connection->midway_since_ns = since(connection->midway_since_ns, half, now);
    connection->unread_since_ns = since(connection->unread_since_ns, unread(connection) > 0, now);
    if (half && now - connection->midway_since_ns >= CONNECTION_HALF_NS) return true;
    if (unread(connection) > CONNECTION_OUTPUT_MAX) return true;
    return connection->unread_since_ns != 0 &&
           now - connection->unread_since_ns >= CONNECTION_UNREAD_NS;
}

static void close_slow(struct connection *connection) {
    connection->gateway->metrics.refusals[REFUSED_SLOW]++;
    connection_close(connection);
}

static void sweep_unproven(struct unproven *unproven, int64_t now) {
    for (struct connection *connection = TAILQ_FIRST(unproven), *next; connection != NULL;
         connection = next) {
        next = TAILQ_NEXT(connection, unproven);
        if (now - connection->began_ns >= CONNECTION_HALF_NS) close_slow(connection);
    }
}

void connections_sweep(struct gateway *gateway) {
    const int64_t now = gateway_now_ns();
    for (struct connection *connection = TAILQ_FIRST(&gateway->slow), *next; connection != NULL;
         connection = next) {
        next = TAILQ_NEXT(connection, slow);
        if (keeps_us_waiting(connection, now))
            close_slow(connection);
        else if (!is_half(connection) && unread(connection) == 0)
            leave_slow(connection);
    }
    sweep_unproven(&gateway->unproven, now);
    sweep_unproven(&gateway->guessing, now);
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
        step_abandon(&connection->exchange->op);
        connection_free(connection);
    }
    exchanges_close(gateway);
    if (gateway->weighs != NULL) event_free(gateway->weighs);
    gateway->weighs = NULL;
}
