/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Messages that a server sends unasked, in RESP3: between two replies, and never inside one.
 *
 * On a guarded net's main connection they watch the node's record. The server announces a loss of
 * all its data (FLUSHALL, a full resynchronisation) at the time of the loss. So every later vote
 * comes after the push in the stream. A change of the record alone is announced as soon as the
 * server has executed the commands that it had read.
 *
 * On the connection that is open while a caller waits, pushes notify the waiter (tracking.c).
 * Pushes of other kinds are ignored. */
#include "net/conn.h"

static void main_push(struct conn *conn) {
    const struct net_handlers *handlers = &conn->node->net->handlers;
    /* Before the handshake is complete the record is unknown, and no vote was requested. */
    if (conn->state != CONN_READY) return;
    if (!reader_is_string(&conn->reader, 1, "invalidate")) return;
    if (handlers->changed) handlers->changed(handlers->context, conn->node->index);
}

void conn_push(struct conn *conn) {
    if (conn->kind == CONN_MAIN) main_push(conn);
    if (conn->kind == CONN_NOTIFIER) tracking_push(conn);
}
