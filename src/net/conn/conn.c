/* SPDX-License-Identifier: BSD-2-Clause
 *
 * One connection's life: resolve, connect, TLS, handshake, ready, and how it ends. conn.h explains
 * the kinds of connections (main, aux, notifier, fresh).
 */
#include "net/conn/conn.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { READ_BYTES = 4096, READS_PER_EVENT = 16 };

static struct net *net_of(const struct conn *conn) { return conn->node->net; }

/* ---- opening ---- */

static void set_tcp_options(const struct conn *conn) {
    if (conn->node->url.kind == URL_UNIX) return;
    int64_t stall_ms = net_of(conn)->stall_timeout / RL_MS;
    int on = 1, interval_s = 1, probes = 3,
        idle_s = (int)(stall_ms / 1000) > 0 ? (int)(stall_ms / 1000) : 1;
    unsigned timeout_ms = (unsigned)stall_ms;
    /* Best effort: each option only detects a dead peer sooner. */
    setsockopt(conn->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    setsockopt(conn->fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
    setsockopt(conn->fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof(idle_s));
    setsockopt(conn->fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval_s, sizeof(interval_s));
    setsockopt(conn->fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof(probes));
    setsockopt(conn->fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout_ms, sizeof(timeout_ms));
}

static void forget_password(struct conn *conn) {
    if (conn->password) explicit_bzero(conn->password, strlen(conn->password));
    free(conn->password);
    conn->password = NULL;
}

static void begin_handshake(struct conn *conn) {
    conn->state = CONN_HANDSHAKE;
    const bool begun = handshake_begin(conn);
    forget_password(conn);
    if (begun)
        conn_flush(conn);
    else
        conn_fail(conn, REDLOCK_VERDICT_NO_MEMORY, "out of memory");
}

/* A server that speaks TLS 1.3 refuses our certificate after our part of its handshake. Later, a
 * failure is that of the transport. */
static void tls_failed(struct conn *conn) {
    char text[160];
    bool begins = conn->state == CONN_TLS || conn->state == CONN_HANDSHAKE;
    bool refused = begins && tls_is_refused(conn->tls);
    tls_failure(conn->tls, text, sizeof(text));
    conn_fail(conn, refused ? REDLOCK_VERDICT_TLS : REDLOCK_VERDICT_DISCONNECTED, text);
}

static void step_tls(struct conn *conn) {
    enum tls_status status = tls_handshake(conn->tls);
    conn_flush(conn); /* also after a failure: the server logs the reason in our alert */
    if (status == TLS_OK)
        begin_handshake(conn);
    else if (status != TLS_MORE)
        tls_failed(conn);
}

static void connected(struct conn *conn) {
    set_tcp_options(conn);
    conn_epoll(conn, EPOLLIN);
    if (conn->node->url.kind != URL_TLS) {
        begin_handshake(conn);
        return;
    }
    conn->state = CONN_TLS;
    conn->tls = tls_new(net_of(conn)->tls, conn->node->url.host);
    if (!conn->tls)
        conn_fail(conn, REDLOCK_VERDICT_TLS,
                  "out of memory, or a server name that cannot be verified");
    else
        step_tls(conn);
}

static void close_socket(struct conn *conn) {
    if (conn->fd < 0) return;
    /* Done explicitly: while a forked child still has the descriptor, closing ours would leave it
     * in the epoll set, and the connection open. */
    if (net_may_touch(net_of(conn))) {
        if (conn->epoll_events) epoll_ctl(net_of(conn)->sockets, EPOLL_CTL_DEL, conn->fd, NULL);
        shutdown(conn->fd, SHUT_RDWR);
    }
    close(conn->fd);
    conn->fd = -1;
    conn->epoll_events = 0;
}

/* Tries the next address that does not fail at once. `error`: the errno to report if none is left.
 */
static void try_address(struct conn *conn, int error) {
    while (conn->address < conn->addresses.count) {
        unsigned at = (conn->first + conn->address++) % conn->addresses.count;
        const struct sockaddr *address = (const struct sockaddr *)&conn->addresses.each[at].at;
        close_socket(conn);
        conn->generation++;
        conn->fd = net_above_standard(
            socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
        if (conn->fd >= 0 && connect(conn->fd, address, conn->addresses.each[at].bytes) == 0) {
            connected(conn);
            return;
        }
        error = errno;
        if (conn->fd >= 0 && error == EINPROGRESS) {
            conn->state = CONN_CONNECTING;
            conn_epoll(conn, EPOLLOUT);
            return;
        }
    }
    char text[160];
    snprintf(text, sizeof(text), "cannot connect: %s", strerror(error));
    conn_fail(conn, REDLOCK_VERDICT_REFUSED, text);
}

static void look_up(struct conn *conn) {
    struct net *net = net_of(conn);
    const struct url *url = &conn->node->url;
    conn->state = CONN_RESOLVING;
    if (url->kind == URL_UNIX) {
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        memcpy(address.sun_path, url->path, strlen(url->path));
        memcpy(&conn->addresses.each[0].at, &address, sizeof(address));
        conn->addresses.each[0].bytes = sizeof(address);
        conn->addresses.count = 1;
        try_address(conn, ENOENT);
    } else if (lookup_numeric(url->host, url->port, &conn->addresses)) {
        try_address(conn, EHOSTUNREACH);
    } else {
        net->resolving = true;
        if (!lookup_begin(conn->node)) conn_fail(conn, REDLOCK_VERDICT_NO_MEMORY, LOOKUP_NO_THREAD);
    }
}

static void ask_password(struct conn *conn) {
    conn->state = CONN_PASSWORD;
    conn->password_late = false;
    if (!passwords_begin(net_of(conn)))
        conn_fail(conn, REDLOCK_VERDICT_NO_MEMORY, "no memory or thread to read the password");
}

void conn_given_password(struct conn *conn, const char *password, const char *failure) {
    char text[160];
    conn->password = failure ? NULL : strdup(password);
    if (conn->password) {
        look_up(conn);
    } else if (!failure) {
        conn_fail(conn, REDLOCK_VERDICT_NO_MEMORY, "out of memory");
    } else {
        snprintf(text, sizeof(text), NET_NO_PASSWORD "%.140s", failure);
        conn_fail(conn, REDLOCK_VERDICT_AUTH, text);
    }
}

void conn_start(struct conn *conn) {
    struct net *net = net_of(conn);
    if (!net_may_touch(net)) return;
    if (conn->kind == CONN_MAIN) policy_tries(&net->policy, conn->node->index);
    timers_set(&net->timers, &conn->retry, RL_NEVER);
    timers_set(&net->timers, &conn->deadline, net_now(net) + net->connect_timeout);
    conn->address = conn->addresses.count = 0;
    if (!reader_open(&conn->reader))
        conn_fail(conn, REDLOCK_VERDICT_NO_MEMORY, "out of memory");
    else if (conn->node->url.password || (!net->passwords.file && !net->passwords.ask))
        look_up(conn);
    else
        ask_password(conn);
}

void conn_resolved(struct conn *conn, const struct addresses *addresses, const char *failure) {
    char text[160];
    if (failure) {
        snprintf(text, sizeof(text), "host name not found: %s", failure);
        conn_fail(conn, REDLOCK_VERDICT_NAME, text);
    } else {
        conn->addresses = *addresses;
        try_address(conn, EHOSTUNREACH);
    }
}

/* ---- what comes in ----
 *
 * Socket, TLS, reader, and then the function that the reply is for. `generation` shows whether the
 * connection that a function works for has ended meanwhile. */

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
    if (conn->state == CONN_TLS) step_tls(conn);
    while (conn->generation == generation && conn->state >= CONN_HANDSHAKE) {
        size_t got = 0;
        enum tls_status status = tls_read(conn->tls, plain, sizeof(plain), &got);
        if (status == TLS_MORE) return;
        if (status == TLS_OK) {
            take_plain(conn, plain, got);
        } else if (status == TLS_CLOSED) {
            conn_fail(conn, REDLOCK_VERDICT_DISCONNECTED, "the server closed the connection");
        } else {
            tls_failed(conn);
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
        snprintf(text, sizeof(text),
                 "%s before its first answer, to %s: a TLS port (use rediss://) or a proxy", why,
                 handshake_awaits(conn));
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

void conn_event(struct conn *conn, uint32_t events) {
    if (conn->state == CONN_CONNECTING) {
        int error = 0;
        socklen_t bytes = sizeof(error);
        getsockopt(conn->fd, SOL_SOCKET, SO_ERROR, &error, &bytes);
        if (error != 0)
            try_address(conn, error);
        else if (events & EPOLLOUT)
            connected(conn);
        return;
    }
    if (conn->state < CONN_TLS) return; /* DOWN, RESOLVING: an event of an earlier socket */
    uint32_t generation = conn->generation;
    if (events & (EPOLLIN | EPOLLHUP | EPOLLERR)) conn_read(conn);
    if (conn->generation == generation && conn->state >= CONN_TLS) conn_flush(conn);
}

/* ---- closing ----
 *
 * conn_break() (wire.c) only marks: handlers must not run while a caller sends. net_process() then
 * calls conn_give_up_broken(). conn_fail() closes, notifies the node and plans the next try.
 * conn_close() is the part of it that a deliberate end needs too. */

void conn_give_up_broken(struct conn *conn) {
    if (!conn->broken) return;
    uint32_t generation = conn->generation;
    /* A server that closes after it reports the reason (too many clients, protected mode) makes our
     * write fail before we have read the reason. */
    if (conn->state >= CONN_HANDSHAKE && conn->broken == REDLOCK_VERDICT_DISCONNECTED)
        conn_read(conn);
    if (conn->generation == generation && conn->broken)
        conn_fail(conn, conn->broken, conn->broken_text);
}

/* Whether a request that changes keys was sent and its answer has not come. */
bool conn_has_unanswered_write(const struct conn *conn) {
    if (conn->kind == CONN_MAIN) return policy_of(conn->node)->writes > 0;
    if (conn->kind != CONN_AUX) return false; /* they only read */
    return conn->node->tx.stage != TX_IDLE;
}

/* After a plain close the kernel continues to send what we wrote: an abandoned SET could take
 * effect much later. Dissolving the association sends the reset even while a forked child has a
 * copy of the descriptor. */
static void reset_socket(const struct conn *conn) {
    struct linger linger = {.l_onoff = 1, .l_linger = 0};
    struct sockaddr nowhere = {.sa_family = AF_UNSPEC};
    setsockopt(conn->fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
    if (conn->node->url.kind != URL_UNIX) (void)connect(conn->fd, &nowhere, sizeof(nowhere));
}

void conn_close(struct conn *conn, bool reset) {
    struct net *net = net_of(conn);
    if (reset && conn->fd >= 0 && net_may_touch(net)) reset_socket(conn);
    close_socket(conn);
    conn->generation++;
    tls_free(conn->tls);
    conn->tls = NULL;
    reader_close(&conn->reader);
    forget_password(conn);
    buffer_clear(&conn->out);
    buffer_clear(&conn->cipher);
    timers_set(&net->timers, &conn->deadline, RL_NEVER);
    conn->state = CONN_DOWN;
    conn->broken = 0;
    conn->replies = 0;
    conn->queued = conn->written = conn->answerable = conn->answered = 0;
    conn_stop_counting(conn);
}

void conn_free(struct conn *conn) {
    tls_free(conn->tls);
    reader_close(&conn->reader);
    forget_password(conn);
    buffer_free(&conn->out);
    buffer_free(&conn->cipher);
    conn_stop_counting(conn);
}

static uint32_t random_bits(struct net *net) {
    uint32_t random = 0;
    return net_random(net, &random, sizeof(random)) == 0 ? random : UINT32_MAX; /* the longest */
}

void conn_pause(struct conn *conn, struct backoff *backoff) {
    struct net *net = net_of(conn);
    timers_set(&net->timers, &conn->retry, net_now(net) + backoff_next(backoff, random_bits(net)));
}

static void main_pause(struct conn *conn) {
    struct net *net = net_of(conn);
    const rl_ns now = net_now(net);
    const rl_ns pause = policy_pause(&net->policy, conn->node->index, random_bits(net), now);
    timers_set(&net->timers, &conn->retry, now + pause);
}

void conn_fail(struct conn *conn, int verdict, const char *text) {
    struct policy_node *policy = policy_of(conn->node);
    struct backoff *backoff = conn->kind == CONN_NOTIFIER ? &policy->tracking_backoff
                              : conn->kind == CONN_FRESH  ? &policy->fresh_backoff
                                                          : &conn->backoff;
    char why[160]; /* `text` may be conn->broken_text */
    snprintf(why, sizeof(why), "%s", text);
    conn_close(conn, conn_has_unanswered_write(conn));
    if (conn->kind == CONN_MAIN)
        main_pause(conn);
    else
        conn_pause(conn, backoff);
    node_down(conn, verdict, why);
}

/* ---- timers ---- */

static void retry_fired(struct net_timer *timer) {
    struct conn *conn = (struct conn *)((char *)timer - offsetof(struct conn, retry));
    /* The other kinds open again when there is work for them. */
    if (conn->kind == CONN_MAIN) conn_start(conn);
}

static void deadline_fired(struct net_timer *timer) {
    struct conn *conn = (struct conn *)((char *)timer - offsetof(struct conn, deadline));
    struct net *net = net_of(conn);
    char text[160];
    if (conn->state == CONN_READY) {
        if (policy_is_stalled(conn->calls.head, net_now(net), net->stall_timeout))
            conn_fail(conn, REDLOCK_VERDICT_TIMEOUT, "an answer was overdue for too long");
        else
            conn_arm_deadline(conn);
        return;
    }
    /* The next try begins with another address: this one may drop packets. */
    conn->first += conn->address;
    conn->password_late = conn->state == CONN_PASSWORD;
    if (conn->state == CONN_PASSWORD)
        snprintf(text, sizeof(text), NET_NO_PASSWORD "none within %lld ms",
                 (long long)(net->connect_timeout / RL_MS));
    else if (conn->state == CONN_RESOLVING)
        lookup_late(conn->node, net_now(net), text, sizeof(text));
    else
        snprintf(text, sizeof(text), "no connection within %lld ms (%s)",
                 (long long)(net->connect_timeout / RL_MS),
                 conn->state == CONN_CONNECTING ? "connecting"
                 : conn->state == CONN_TLS      ? "TLS handshake; does this port speak TLS?"
                                                : "waiting for the server's first answers");
    conn_fail(conn, REDLOCK_VERDICT_TIMEOUT, text);
}

/* The deadline does not move with each answer: when it fires, it looks again. */
void conn_arm_deadline(struct conn *conn) {
    const struct net_call *oldest = conn->calls.head;
    struct net *net = net_of(conn);
    rl_ns armed = net_timer_is_armed(&conn->deadline) ? conn->deadline.at : RL_NEVER;
    if (conn->state != CONN_READY || policy_looks_in_time(oldest, armed)) return;
    const rl_ns now = net_now(net);
    const rl_ns fresh_at = policy_fresh_at(&net->policy, conn->node->index, now);
    timers_set(&net->timers, &conn->deadline,
               policy_deadline(oldest, armed, fresh_at, now, net->stall_timeout));
}

void conn_init(struct conn *conn, struct node *node, enum conn_kind kind) {
    conn->node = node;
    conn->kind = kind;
    conn->fd = -1;
    conn->deadline.fire = deadline_fired;
    conn->retry.fire = retry_fired;
}
