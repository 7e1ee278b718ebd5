/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Notifications of changes: a waiter sleeps until a lock is free, and no longer. In RESP2 a
 * connection that has read keys cannot get their notifications itself. So a second one, the
 * notifier, subscribes to the messages that the server redirects to it. It is open only while a
 * caller waits. On it, the wait queue also notifies a waiter when its turn is near.
 *
 * A WATCH names the keys: after CLIENT CACHING YES, the next PTTL both answers and makes the server
 * notify of the key's next change. The server notifies once, also for keys that do not exist, and
 * for changes by any client except this connection's own. All of it is a hint. If a server refuses
 * any of it, waiters poll it, and only the log shows that.
 *
 * A main connection that tracks the node's record (conn_push()) cannot also track single keys.
 * There the notifier uses RESP3 and does all of it: it reads, and it is notified. So it is also
 * notified of our own requests on the main connection: a SET that was granted, and a release of a
 * key that was ours. A SET that is denied and a release that finds nothing change no key. So a
 * client is notified of its own requests only after a grant, and does not keep itself awake. */
#include <stdio.h>
#include <string.h>

#include "net/conn/conn.h"
#include "net/codec/error_reply.h"

/* ---- when a caller waits ---- */

/* Returns the notifier's calls, which are lost. */
static struct call_queue forget(struct node *node) {
    struct call_queue calls = node->notifier.calls;
    node->notifier.calls = (struct call_queue){.head = NULL};
    conn_stop_counting(&node->notifier);
    node->tracking.id = node->tracking.reported = 0;
    return calls;
}

static void close_notifier(struct node *node) {
    timers_set(&node->net->timers, &node->notifier.retry, RL_NEVER);
    if (node->notifier.state != CONN_DOWN) conn_close(&node->notifier, false);
}

static void untrack_fired(struct net_timer *timer) {
    struct net *net = (struct net *)(void *)((char *)timer - offsetof(struct net, untrack));
    if (!policy_track_end(&net->policy)) return;
    for (unsigned i = 0; i < net->nodes && !net->policy.caller_waits; i++) {
        struct node *node = &net->node[i];
        struct call_queue lost = forget(node);
        close_notifier(node);
        node_lose_calls(node, &lost, REDLOCK_VERDICT_DISCONNECTED); /* whose owner may wait again */
    }
}

void tracking_init(struct net *net) { net->untrack.fire = untrack_fired; }

static bool draw_waiter(struct net *net) {
    static const char digits[] = "0123456789abcdef";
    unsigned char random[WAITER_BYTES / 2];
    if (net->waiter[0] != '\0') return true;
    if (net_random(net, random, sizeof(random)) != 0) return false;
    for (int i = 0; i < WAITER_BYTES; i++)
        net->waiter[i] = digits[random[i / 2] >> (i % 2 * 4) & 15];
    return true;
}

void net_track(struct net *net, bool on) {
    struct policy *policy = &net->policy;
    if (on == policy->caller_waits || net->closing) return;
    if (on && !draw_waiter(net)) return;
    timers_set(&net->timers, &net->untrack, policy_track(policy, on, on ? 0 : net_now(net)));
    if (!on || policy_tracked(policy) == rl_all(net->nodes)) return;
    net->pending = true; /* connections are opened by net_process() */
    net_kick(net);
}

rl_mask net_tracked(struct net *net) { return policy_tracked(&net->policy); }

struct net_bytes net_waiter(struct net *net) {
    if (!draw_waiter(net)) return (struct net_bytes){NULL, 0};
    return (struct net_bytes){net->waiter, WAITER_BYTES};
}

/* ---- the second connection ---- */

static void notify(struct net *net, unsigned node, struct net_bytes key, int rank) {
    if (!net->closing) net->handlers.wake(net->handlers.context, node, key, rank);
}

static void notify_any(struct node *node) {
    notify(node->net, node->index, (struct net_bytes){NULL, 0}, -1);
}

/* A refusal that may pass is not logged. */
static void refuse(struct node *node, const char *what, int verdict, struct net_bytes error) {
    if (!policy_tracking_refused(&node->net->policy, node->index, verdict)) return;
    net_log(node->net, REDLOCK_LOG_INFO, "%s: waiting polls: %s is refused: %.*s", node->url.text,
            what, error_reply_shown_bytes(error, 110), (const char *)error.data);
}

bool tracking_subscribe(struct conn *conn) {
    struct tracking *tracking = &conn->node->tracking;
    const char *waiter = conn->node->net->waiter;
    snprintf(tracking->channel, sizeof(tracking->channel), NET_CHANNEL_WAKE "%s", waiter);
    snprintf(tracking->probe_text, sizeof(tracking->probe_text), NET_KEY_WAITING "%s", waiter);
    tracking->probe = (struct net_bytes){tracking->probe_text, strlen(tracking->probe_text)};
    return conn_command(conn, "SUBSCRIBE", tracking->channel, NULL);
}

static const char *invalidate_of(const struct node *node) {
    return node->main->redict ? "__redict__:invalidate" : "__redis__:invalidate";
}

bool tracking_handshake(struct conn *conn) {
    conn->node->tracking.id = 0;
    return conn_command(conn, "CLIENT", "ID", NULL) &&
           conn_command(conn, "SUBSCRIBE", invalidate_of(conn->node), NULL) &&
           tracking_subscribe(conn);
}

void tracking_refused(struct conn *conn, const char *what, struct net_bytes error) {
    int verdict = error_reply_verdict(error);
    refuse(conn->node, what, verdict, error);
    conn_fail(conn, verdict, "cannot be notified of changes");
}

void tracking_step(struct conn *conn, bool failed) {
    struct node *node = conn->node;
    const struct reply_slot *first = &conn->reader.slots[0];
    if (failed) {
        const char *what = conn->step + 2 == conn->steps_count ? "CLIENT ID" : "SUBSCRIBE";
        tracking_refused(conn, what, conn->reader.bytes[0]);
    } else if (first->type == REPLY_INTEGER) {
        node->tracking.id = (uint64_t)first->integer;
    } else if (first->type != REPLY_ARRAY) {
        conn_fail(conn, REDLOCK_VERDICT_PROTOCOL, "an answer of the wrong kind");
    }
}

static bool ask(struct node *node, struct net_request request) {
    struct net *net = node->net;
    rl_ns due = net_now(net) + net->connect_timeout;
    if (net->track[node->index].busy) return false;
    node->tracking.request = request;
    return net_send(net, rl_bit(node->index), &node->tracking.request, net->track, due, due) != 0;
}

/* The connection that asks is set up after the notifier: the server must know where to
 * redirect. */
static void send_track(struct node *node) {
    struct tracking *tracking = &node->tracking;
    if (ask(node, (struct net_request){.op = NET_TRACK, .cursor = tracking->id}))
        tracking->reported = tracking->id;
}

/* ---- does the server notify? ----
 *
 * A server may accept CLIENT TRACKING and never notify, for example because it publishes on another
 * channel. A waiter that trusted it would sleep until the lock's TTL ends. So we track a key of our
 * own, change it, and then publish a message. Both arrive on the notifier, in this order. The
 * message without the change proves that the server does not notify. */

static void send_probe(struct node *node) {
    struct tracking *tracking = &node->tracking;
    struct net_request probe = {.op = NET_PROBE, .keys = &tracking->probe, .keys_count = 1};
    probe.cursor = node->main->announces ? 0 : tracking->id; /* 0: this connection itself */
    probe.token = (struct net_bytes){tracking->channel, strlen(tracking->channel)};
    if (!ask(node, probe))
        conn_break(&node->notifier, REDLOCK_VERDICT_DISCONNECTED, "cannot be tested");
}

static void proven(struct node *node) {
    policy_tracking_live(&node->net->policy, node->index);
    notify_any(node);
}

static bool is_proven(const struct node *node) { return policy_of(node)->tracking_live; }

static void disproved(struct conn *notifier) {
    static const char text[] =
        "it is accepted, but the change that tests it was not reported, or was refused";
    refuse(notifier->node, "CLIENT TRACKING", REDLOCK_VERDICT_ERROR,
           (struct net_bytes){text, sizeof(text) - 1});
    conn_fail(notifier, REDLOCK_VERDICT_ERROR, "does not notify of changes");
}

void tracking_answered(struct net *net, const struct net_call *call,
                       const struct net_reply *reply) {
    struct node *node = &net->node[call->node];
    struct tracking *tracking = &node->tracking;
    bool probe = call->request->op == NET_PROBE;
    bool current =
        node->main->announces || (tracking->reported != 0 && tracking->reported == tracking->id);
    if (!current || net->closing || is_proven(node)) return;
    bool accepted =
        reply->verdict == REDLOCK_VERDICT_GRANTED || reply->verdict == REDLOCK_VERDICT_ABSENT;
    if (accepted) {
        if (!probe) send_probe(node);
    } else if (probe && reply->verdict == REDLOCK_VERDICT_NOPERM) {
        proven(node); /* the user may not test it */
    } else if (reply->verdict != REDLOCK_VERDICT_DISCONNECTED) {
        refuse(node, "CLIENT TRACKING", reply->verdict, (struct net_bytes){"", 0});
        conn_break(&node->notifier, reply->verdict, "cannot be notified of changes");
    }
}

void tracking_up(struct node *node) {
    if (node->main->announces) send_probe(node); /* else send_track() comes first */
}

struct conn *tracking_way(struct node *node, enum net_op op) {
    if ((op != NET_WATCH && op != NET_PROBE) || !node->main->announces) return node->main;
    bool usable = op == NET_PROBE || is_proven(node);
    return usable && !node->notifier.broken ? &node->notifier : NULL;
}

void tracking_pump(struct node *node) {
    struct tracking *tracking = &node->tracking;
    struct conn *notifier = &node->notifier;
    if (node->status.uses_transactions || !policy_wants_tracking(&node->net->policy, node->index))
        return;
    if (notifier->state == CONN_DOWN && !net_timer_is_armed(&notifier->retry)) conn_start(notifier);
    bool redirects = notifier->state == CONN_READY && !node->main->announces;
    if (redirects && tracking->reported != tracking->id) send_track(node);
}

void tracking_lost(struct node *node, const char *text) {
    net_log(node->net, REDLOCK_LOG_DEBUG, "%s: the connection that notifies of changes: %s",
            node->url.text, text);
    notify_any(node);
}

void tracking_down(struct node *node, const char *text) {
    bool was_live = policy_tracking_lost(&node->net->policy, node->index);
    struct call_queue lost = forget(node);
    node_lose_calls(node, &lost, REDLOCK_VERDICT_DISCONNECTED);
    if (was_live) tracking_lost(node, text);
}

struct call_queue tracking_main_down(struct node *node, bool *was_live) {
    close_notifier(node);
    *was_live = policy_tracking_lost(&node->net->policy, node->index);
    return forget(node);
}

/* ---- notifications ---- */

/* "rank key", or "turn key" */
static void take_rank(struct conn *conn, struct net_bytes message) {
    const char *text = message.data, *end = text + message.bytes, *at = text;
    int rank = 0;
    if (message.bytes == 5 && memcmp(text, "probe", 5) == 0) {
        if (!is_proven(conn->node)) disproved(conn);
        return;
    }
    if (message.bytes > 5 && memcmp(text, "turn ", 5) == 0) {
        rank = NET_WAKE_TURN;
        at += 4;
    }
    while (rank >= 0 && at < end && at < text + 4 && *at >= '0' && *at <= '9')
        rank = rank * 10 + (*at++ - '0');
    if (at == text || at == end || *at != ' ') return; /* any client may publish anything */
    notify(conn->node->net, conn->node->index, (struct net_bytes){at + 1, (size_t)(end - at - 1)},
           rank);
}

/* They begin at this slot; nil: all keys are gone.
 *
 * A key that is just being read is left out. Where the connection that asks is also notified,
 * everything comes in order. A notification before the answer to a read is about the time before
 * the read, and the answer is newer. Mostly it is about our own last request on the main
 * connection. */
static void take_keys(struct conn *conn, size_t at) {
    const struct reader *reader = &conn->reader;
    uint32_t generation = conn->generation;
    if (reader->slots[at].type != REPLY_ARRAY) notify_any(conn->node);
    for (size_t i = at + 1; i < reader->slots_count && conn->generation == generation; i++) {
        if (reader->slots[i].type != REPLY_STRING) continue;
        if (bytes_equal(reader->bytes[i], conn->node->tracking.probe))
            proven(conn->node);
        else if (!conn_has_key(conn, reader->bytes[i]))
            notify(conn->node->net, conn->node->index, reader->bytes[i], -1);
    }
}

/* Redict 7.3 cuts the last letter of its channel's name off in messages. */
static bool is_invalidation(const struct conn *conn) {
    const struct reader *reader = &conn->reader;
    return reader_is_string(reader, 2, invalidate_of(conn->node)) ||
           (conn->node->main->redict && reader_is_string(reader, 2, "__redict__:invalidat"));
}

void tracking_message(struct conn *conn) {
    const struct reader *reader = &conn->reader;
    const struct reply_slot *slots = reader->slots;
    if (slots[0].type != REPLY_ARRAY || slots[0].integer != 3 || reader->slots_count < 4 ||
        slots[2].type != REPLY_STRING) {
        conn_fail(conn, REDLOCK_VERDICT_PROTOCOL, "a message of the wrong kind");
        return;
    }
    if (is_invalidation(conn))
        take_keys(conn, 3);
    else if (slots[3].type == REPLY_STRING)
        take_rank(conn, reader->bytes[3]);
}

/* A push comes between two replies, and never inside one. Pushes of other kinds are ignored.
 *
 * On a guarded net's main connection a push reports a change of the node's record. The server
 * announces a loss of all its data (FLUSHALL, a full resynchronisation) at the time of the loss. So
 * every later vote comes after the push in the stream. A change of the record alone is announced as
 * soon as the server has executed the commands that it had read. */
void conn_push(struct conn *conn) {
    const struct reader *reader = &conn->reader;
    const struct net_handlers *handlers = &conn->node->net->handlers;
    bool invalidates = reader_is_string(reader, 1, "invalidate");
    if (conn_is_for_votes(conn)) {
        /* Before the handshake is complete the record is unknown, and no vote was requested. */
        if (conn->state == CONN_READY && invalidates && handlers->changed)
            handlers->changed(handlers->context, conn->node->index);
    } else if (conn->kind == CONN_AUX) {
        return;
    } else if (conn->state == CONN_HANDSHAKE) { /* a push answers a subscription */
        bool last_step = conn->step + 1 == conn->steps_count;
        if (last_step && reader_is_string(reader, 1, "subscribe")) handshake_reply(conn);
    } else if (invalidates && reader->slots_count > 2) {
        take_keys(conn, 2);
    } else if (reader_is_string(reader, 1, "message") && reader->slots_count == 4 &&
               reader->slots[3].type == REPLY_STRING) {
        take_rank(conn, reader->bytes[3]);
    }
}
