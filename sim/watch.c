/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Notifications of changes, as a client receives them: by the rules of src/policy, with the second
 * connection to a node and the request that names it in one message. A world whose nodes do not
 * notify behaves as before Redis 6.0.
 */
#include <stdio.h>

#include "conn.h"

#define NET_OF(timer, member) ((struct net *)(void *)((char *)(timer)-offsetof(struct net, member)))

static bool reports(const struct net *net) { return net->world->options.wakes.on; }

/* ---- recipients ----------------------------------------------------------------------------- */

static void hear(struct net *net, unsigned slot, struct net_bytes key, int rank) {
    if (!net->closing) net->handlers.wake(net->handlers.context, slot, key, rank);
}

static void hear_any(struct conn *conn) {
    hear(conn->net, conn->slot, (struct net_bytes){NULL, 0}, -1);
}

/* From any connection: a client that no longer waits, or has a new connection by now, must tolerate
 * it too. */
void watch_hear(struct conn *conn, const struct message *hint) {
    if (conn->net->closing) return;
    notify_heard(conn->net->world, hint);
    if (hint->keys_count == 0) {
        hear_any(conn);
        return;
    }
    struct node_bytes key = resource_key(hint->keys[0]);
    hear(conn->net, conn->slot, (struct net_bytes){key.data, key.bytes}, hint->rank);
}

/* ---- while a caller waits ------------------------------------------------------------------- */

static void forget(struct conn *conn) {
    net_timer_set(conn->net, &conn->track_again, RL_NEVER);
    conn->watch_asked = false;
}

static void unwatch_fired(struct net_timer *timer) {
    struct net *net = NET_OF(timer, unwatch);
    if (!policy_track_end(&net->policy)) return;
    for (unsigned i = 0; i < net->nodes; i++) {
        forget(&net->conn[i]);
        link_at(&net->conn[i])->tracks = 0; /* the other end is gone */
    }
}

/* net_process() asks after the timers. */
static void track_again_fired(struct net_timer *timer) { (void)timer; }

void watch_init(struct net *net) {
    net->unwatch.fire = unwatch_fired;
    for (unsigned i = 0; i < net->nodes; i++) net->conn[i].track_again.fire = track_again_fired;
}

void net_track(struct net *net, bool on) {
    if (on == net->policy.caller_waits || net->closing || !reports(net)) return;
    net_timer_set(net, &net->unwatch, policy_track(&net->policy, on, net_now(net)));
    if (on) net->pending = true; /* asked for by net_process() */
}

rl_mask net_tracked(struct net *net) { return policy_tracked(&net->policy); }

/* Each process is a waiter of its own. */
static void name_waiter(struct net *net) {
    if (net->waiter_number == 0) net->waiter_number = ++net->world->waiters;
    snprintf(net->waiter, sizeof(net->waiter), "%08x", (unsigned)net->waiter_number);
}

struct net_bytes net_waiter(struct net *net) {
    if (!reports(net)) return (struct net_bytes){NULL, 0};
    name_waiter(net);
    return (struct net_bytes){net->waiter, sizeof(net->waiter) - 1};
}

uint32_t net_waiter_number(const struct net *net) { return net->waiter_number; }

/* ---- requests for notifications ------------------------------------------------------------- */

void watch_pump(struct conn *conn) {
    struct net *net = conn->net;
    if (conn->watch_asked || conn->track_again.index != 0 || net->closing) return;
    if (!policy_wants_tracking(&net->policy, conn->slot)) return;
    conn->watch_asked = true;
    messages_push(&conn->out, message_on(net->world, link_at(conn), MESSAGE_TRACK));
}

void watch_answered(struct conn *conn, const struct message *answer) {
    struct net *net = conn->net;
    if (!conn->watch_asked) return;
    conn->watch_asked = false;
    if (answer->verdict == REDLOCK_VERDICT_GRANTED) {
        policy_tracking_live(&net->policy, conn->slot);
        hear_any(conn);
    } else if (!policy_tracking_refused(&net->policy, conn->slot, answer->verdict)) {
        conn_pause(conn, &policy_at(conn)->tracking_backoff, &conn->track_again);
    }
}

/* Notifications since then may be lost. */
void watch_down(struct conn *conn) {
    forget(conn);
    if (policy_tracking_lost(&conn->net->policy, conn->slot)) hear_any(conn);
}
