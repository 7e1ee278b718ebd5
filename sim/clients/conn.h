/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The internals of the simulated net: a client's connections, one for each entry of its list, and
 * the calls on them.
 */
#ifndef SIM_CONN_H
#define SIM_CONN_H

#include "clients.h"
#include "policy/policy.h"

enum conn_state { CONN_DOWN, CONN_CONNECTING, CONN_READY };

struct conn {
    struct net *net;
    struct conn *next_unread;
    unsigned slot;
    enum conn_state state;
    bool unread;
    int leaving; /* the verdict for which the connection will be closed; 0: it stays open */
    char text[160];
    struct messages in, out;
    struct call_queue calls;
    struct net_timer deadline, retry, keep;
    bool swapped; /* the second link of the pair is the main one */
    bool trying;  /* a fresh connection, on the other one */
    struct net_timer fresh_deadline, fresh_retry;
    bool watch_asked; /* the request for notifications is under way */
    struct net_timer track_again;
    bool announces;  /* the node announces changes of its record and data among its answers */
    uint64_t quorum; /* id in the node's record, from its handshake; 0: none */
    bool native;
};

struct net {
    struct net_handlers handlers;
    rl_ns connect_timeout, stall_timeout;
    struct world *world;
    unsigned client, nodes;
    struct net_timer *timers; /* sorted, the earliest first */
    struct conn *unread_first, **unread_last;
    bool pending, closing, abandoned;
    bool asks_quorum;
    struct net_timer unwatch;
    char waiter[9];
    struct policy policy; /* its node[i] belongs to conn[i] */
    struct conn conn[RL_NODES_MAX];
};

static inline struct actor *actor_of(const struct net *net) {
    return &net->world->actor[net->client];
}
static inline struct links *links_of(const struct net *net) {
    return &net->world->links[net->client];
}
static inline struct policy_node *policy_at(const struct conn *conn) {
    return &conn->net->policy.node[conn->slot];
}
static inline struct link *link_at(const struct conn *conn) {
    return &links_of(conn->net)->link[conn->slot + (conn->swapped ? RL_NODES_MAX : 0)];
}
static inline struct link *fresh_link(const struct conn *conn) {
    return &links_of(conn->net)->link[conn->slot + (conn->swapped ? 0 : RL_NODES_MAX)];
}

void conn_init(struct conn *conn, struct net *net, unsigned slot);
void conn_up(struct conn *conn, const struct message *welcome);
void conn_fail(struct conn *conn, int verdict);
/* A fresh connection, next to the one on which an answer is overdue. */
void fresh_pump(struct conn *conn);
void fresh_answered(struct conn *conn, const struct message *welcome);
void fresh_failed(struct conn *conn);
/* Calls handlers: nodes came or went. */
void net_report(struct net *net);
void conns_connect(struct net *net, rl_mask nodes); /* after the usual pause */
void conn_record(const struct conn *conn, enum history_kind kind, int64_t value);
void conn_post(struct conn *conn, struct net_call *call);
/* takes effect in the next net_process() */
void conn_leave(struct conn *conn, int verdict, const char *text);
void conn_watch_kept(struct conn *conn); /* arms the timer for kept releases */
void watch_pump(struct conn *conn);      /* requests notifications, if a caller waits */
void watch_answered(struct conn *conn, const struct message *answer);
void watch_hear(struct conn *conn, const struct message *hint);

void call_done(struct net *net, struct net_call *call, const struct net_reply *reply);
void calls_fail(struct net *net, struct call_queue *queue, int verdict);

#endif
