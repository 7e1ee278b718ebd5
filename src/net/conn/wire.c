/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The bytes of one connection. On the way in: socket, TLS, reader, and then the function that the
 * reply is for. On the way out: the buffer of commands, TLS, socket. `generation` shows whether the
 * connection that a function works for has ended meanwhile. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "net/codec/command.h"
#include "net/conn/conn.h"

enum { READ_BYTES = 16384, READS_PER_EVENT = 16 };

void conn_epoll(struct conn *conn, uint32_t events) {
    if (conn->epoll_events == events || !net_may_touch(conn->node->net)) return;
    struct epoll_event event = {.events = events};
    const uint64_t item = (uint64_t)(conn - conn->node->conns);
    event.data.u64 = item << 56 | (uint64_t)conn->node->index << 48 | conn->generation;
    int op = conn->epoll_events == 0 ? EPOLL_CTL_ADD : EPOLL_CTL_MOD;
    if (epoll_ctl(conn->node->net->epoll, op, conn->fd, &event) != 0) {
        conn_break(conn, REDLOCK_VERDICT_NO_MEMORY, "epoll_ctl failed");
        return;
    }
    conn->epoll_events = events;
}

static const char unasked[] = "an answer without a request";

/* A reply that came before a request was written is no answer to it: a server that sends more
 * replies than it was asked for must not grant what was not asked yet. */
static bool is_unasked(const struct conn *conn) {
    if (conn->state == CONN_HANDSHAKE) return false;
    if (conn->kind == CONN_AUX) return conn->answerable != conn->queued;
    if (conn->kind == CONN_NOTIFIER && !conn->reader.resp3.on) return false;
    return conn->answered >= conn->answerable;
}

static void take_plain(struct conn *conn, const char *data, size_t bytes) {
    uint32_t generation = conn->generation;
    conn->answerable = conn->written;
    if (!reader_feed(&conn->reader, data, bytes)) {
        conn_fail(conn, REDLOCK_VERDICT_NO_MEMORY, "out of memory");
        return;
    }
    /* What a reply causes may end the connection; another may even have begun. */
    while (conn->generation == generation && conn->state >= CONN_HANDSHAKE) {
        switch (reader_next(&conn->reader)) {
        case READER_MORE:
            if (!reader_is_in_reply(&conn->reader)) return;
            if (conn->kind == CONN_MAIN) policy_heard(&conn->node->net->policy, conn->node->index);
            if (!is_unasked(conn)) return;
            conn_fail(conn, REDLOCK_VERDICT_PROTOCOL, unasked);
            return;
        case READER_MALFORMED:
            conn_fail(conn, REDLOCK_VERDICT_PROTOCOL, "malformed answer");
            return;
        case READER_OVERSIZED:
            conn_fail(conn, REDLOCK_VERDICT_PROTOCOL, "oversized answer");
            return;
        case READER_NO_MEMORY: conn_fail(conn, REDLOCK_VERDICT_NO_MEMORY, "out of memory"); return;
        case READER_PUSH: conn_push(conn); continue;
        case READER_REPLY: break;
        }
        if (conn->state == CONN_HANDSHAKE)
            handshake_reply(conn);
        else if (is_unasked(conn))
            conn_fail(conn, REDLOCK_VERDICT_PROTOCOL, unasked);
        else if (conn->kind == CONN_MAIN || (conn->kind == CONN_NOTIFIER && conn->reader.resp3.on))
            call_reply(conn);
        else if (conn->kind == CONN_NOTIFIER)
            tracking_message(conn);
        else
            transaction_reply(conn->node);
    }
}

static void take_cipher(struct conn *conn, const char *data, size_t bytes) {
    char plain[READ_BYTES];
    uint32_t generation = conn->generation;
    if (!tls_feed(conn->tls, data, bytes)) {
        conn_fail(conn, REDLOCK_VERDICT_NO_MEMORY, "out of memory");
        return;
    }
    if (conn->state == CONN_TLS) conn_step_tls(conn);
    while (conn->generation == generation && conn->state >= CONN_HANDSHAKE) {
        size_t got = 0;
        enum tls_status status = tls_read(conn->tls, plain, sizeof(plain), &got);
        if (status == TLS_MORE) return;
        if (status == TLS_OK) {
            take_plain(conn, plain, got);
        } else if (status == TLS_CLOSED) {
            conn_fail(conn, REDLOCK_VERDICT_DISCONNECTED, "the server closed the connection");
        } else {
            conn_tls_failed(conn);
        }
    }
}

/* A TLS server answers plain commands with an alert of TLS, or hangs up. */
static bool is_tls_alert(const struct conn *conn, const char *data, size_t bytes) {
    bool first = conn->kind == CONN_MAIN && conn->state == CONN_HANDSHAKE && conn->step == 0;
    return first && bytes >= 2 && data[0] == 0x15 && data[1] == 0x03;
}

static void hung_up(struct conn *conn, const char *why) {
    char text[160];
    const bool begins = conn->kind == CONN_MAIN && conn->state == CONN_HANDSHAKE;
    const bool silent = begins && conn->node->url.kind == URL_TCP && conn->step == 0;
    if (silent)
        snprintf(text, sizeof(text), "%s before its first answer, to %s; TLS port? use rediss://",
                 why, handshake_awaits(conn));
    else if (begins)
        snprintf(text, sizeof(text), "%s before its answer to %s", why, handshake_awaits(conn));
    else
        snprintf(text, sizeof(text), "%s", why);
    conn_fail(conn, REDLOCK_VERDICT_DISCONNECTED, text);
}

void conn_read(struct conn *conn) {
    char data[READ_BYTES];
    struct net *net = conn->node->net;
    uint32_t generation = conn->generation;
    for (int i = 0;
         i < READS_PER_EVENT && conn->generation == generation && conn->state >= CONN_TLS; i++) {
        if (!net_may_touch(net)) return;
        ssize_t got = recv(conn->fd, data, sizeof(data), MSG_DONTWAIT);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
        net->sample = clock_now();
        if (got == 0 && conn->state == CONN_TLS) {
            /* a proxy whose server is down does that, so it may pass */
            conn_fail(conn, REDLOCK_VERDICT_DISCONNECTED,
                      "the server closed the connection during the TLS handshake");
        } else if (got <= 0) {
            hung_up(conn, got == 0 ? "the server closed the connection" : strerror(errno));
        } else if (is_tls_alert(conn, data, (size_t)got)) {
            conn_fail(conn, REDLOCK_VERDICT_TLS,
                      "the server answers in TLS; use rediss:// in the URL");
        } else if (conn->tls) {
            take_cipher(conn, data, (size_t)got);
        } else {
            take_plain(conn, data, (size_t)got);
        }
        net->sample = 0;
        if (got > 0 && (size_t)got < sizeof(data)) return;
    }
}

/* False: what is left has to wait for the socket, or the connection broke. */
static bool write_out(struct conn *conn, struct buffer *buffer) {
    while (buffer_bytes(buffer) > 0) {
        if (!net_may_touch(conn->node->net)) return false;
        ssize_t put =
            send(conn->fd, buffer_data(buffer), buffer_bytes(buffer), MSG_NOSIGNAL | MSG_DONTWAIT);
        if (put < 0 && errno == EINTR) continue;
        if (put < 0) {
            if (errno == EAGAIN || errno == EWOULDBLOCK)
                conn_epoll(conn, EPOLLIN | EPOLLOUT);
            else
                conn_break(conn, REDLOCK_VERDICT_DISCONNECTED, strerror(errno));
            return false;
        }
        buffer_consume(buffer, (size_t)put);
    }
    return true;
}

static bool encrypt(struct conn *conn) {
    while (conn->state >= CONN_HANDSHAKE && buffer_bytes(&conn->out) > 0) {
        size_t written = 0;
        enum tls_status status =
            tls_write(conn->tls, buffer_data(&conn->out), buffer_bytes(&conn->out), &written);
        if (status == TLS_MORE) break;
        if (status != TLS_OK) {
            conn_break(conn, REDLOCK_VERDICT_DISCONNECTED, "TLS failed while writing");
            return false;
        }
        buffer_consume(&conn->out, written);
    }
    if (tls_drain(conn->tls, &conn->cipher, 2 * NET_WIRE_BYTES_MAX)) return true;
    conn_break(conn, REDLOCK_VERDICT_NO_MEMORY, "out of memory");
    return false;
}

void conn_flush(struct conn *conn) {
    if (conn->state < CONN_TLS || conn->broken) return;
    size_t waiting = buffer_bytes(&conn->out);
    if (conn->tls && !encrypt(conn)) return;
    if (write_out(conn, conn->tls ? &conn->cipher : &conn->out)) conn_epoll(conn, EPOLLIN);
    /* If only a part was written, a reply to any of it may come. */
    if (buffer_bytes(&conn->out) < waiting) conn->written = conn->queued;
}

bool conn_command(struct conn *conn, const char *command, ...) {
    struct words words;
    va_list texts;
    words_begin(&words, command);
    va_start(texts, command);
    for (const char *text; (text = va_arg(texts, const char *));) words_text(&words, text);
    va_end(texts);
    return words_end(&words, &conn->out, NET_WIRE_BYTES_MAX);
}
