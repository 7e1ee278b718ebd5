/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The bytes of one connection on the way out: the buffer of commands, TLS, socket. conn_read() has
 * the way in. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "net/codec/command.h"
#include "net/conn/conn.h"

void conn_break(struct conn *conn, int verdict, const char *text) {
    if (conn->broken) return;
    conn->broken = verdict;
    if (conn->kind == CONN_MAIN) policy_leave(&conn->node->net->policy, conn->node->index);
    snprintf(conn->broken_text, sizeof(conn->broken_text), "%s", text);
    conn->node->net->pending = true;
    net_kick(conn->node->net); /* ends a net_wait(), so that net_process() runs */
}

void conn_epoll(struct conn *conn, uint32_t events) {
    if (conn->epoll_events == events || !net_may_touch(conn->node->net)) return;
    struct epoll_event event = {.events = events};
    const uint64_t item = (uint64_t)(conn - conn->node->conns);
    event.data.u64 = item << 56 | (uint64_t)conn->node->index << 48 | conn->generation;
    int op = conn->epoll_events == 0 ? EPOLL_CTL_ADD : EPOLL_CTL_MOD;
    if (epoll_ctl(conn->node->net->sockets, op, conn->fd, &event) != 0) {
        conn_break(conn, REDLOCK_VERDICT_NO_MEMORY, "epoll_ctl failed");
        return;
    }
    conn->epoll_events = events;
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
