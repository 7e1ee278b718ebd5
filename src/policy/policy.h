/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A client's decisions about its connections: which nodes can be asked, which releases are kept and
 * sent again, when an overdue answer ends the connection, and how long to pause before the next
 * try. The owner carries the decisions out: src/net on sockets, and the simulator on a simulated
 * network. So the simulator judges the code that ships.
 *
 * Pure: no socket, no clock, no allocation, no randomness of its own. Time and random bits are
 * inputs; "look again at" is an output. One thread at a time. */
#ifndef RL_POLICY_H
#define RL_POLICY_H

#include "policy/request.h"
#include "redlock.h"

/* ---- queues of calls, whose answers come in order: queue.c ---- */

struct call_queue {
    struct net_call *head, *tail;
    /* the first call that is due sooner than the one before it; NULL: there is none */
    struct net_call *rest;
    rl_ns rest_due; /* the earliest due from `rest` to the tail */
};
/* for queues in which dues do not matter */
void calls_push(struct call_queue *queue, struct net_call *call);
/* the same for a whole queue; empties `more` */
void calls_append(struct call_queue *queue, struct call_queue *more);
/* used only by calls_await() */
void calls_pushed_to_rest(struct call_queue *queue, struct net_call *call);
void calls_popped_before_rest(struct call_queue *queue); /* used only by calls_pop() */

/* Appends a call. Afterwards the head is due no later than any call behind it. */
static inline void calls_await(struct call_queue *queue, struct net_call *call) {
    struct net_call *before = queue->tail;
    call->next = NULL;
    queue->tail = call;
    if (!before) {
        queue->head = call;
        return;
    }
    before->next = call;
    if (queue->rest || before->due > call->due) calls_pushed_to_rest(queue, call);
}

/* NULL: the queue is empty. The head's due stays the earliest. */
static inline struct net_call *calls_pop(struct call_queue *queue) {
    struct net_call *call = queue->head;
    if (!call) return NULL;
    queue->head = call->next;
    if (!queue->head) queue->tail = NULL;
    call->next = NULL;
    if (queue->rest) calls_popped_before_rest(queue);
    return call;
}

/* ---- pauses ---- */

#define BACKOFF_MIN (20 * RL_MS)
#define BACKOFF_MAX (1000 * RL_MS)
/* A connection that lasted this long ends the series of failures: the next pause starts small. */
#define BACKOFF_FORGIVEN (10000 * RL_MS)

struct backoff {
    rl_ns pause; /* the last pause was drawn from 0 up to this; 0: none since the node was up */
};
/* The pause before the next try to connect: random, at most twice the last maximum (`random` is 32
 * random bits). Clients that lost a node at the same time must not all come back at the same
 * time. */
rl_ns backoff_next(struct backoff *backoff, uint32_t random);

/* ---- one node ---- */

/* The owner reads all fields, and writes only those marked as its own. */
/* Servers that the node's address has led to, besides that of the last handshake. */
enum { POLICY_SERVERS = 3 };
/* A server to which the address leads again so soon after it led to another one. */
#define POLICY_COMES_BACK (60000 * RL_MS)

struct policy_server {
    char run_id[41];
    rl_ns left; /* when a handshake reached another one */
};

struct policy_node {
    const struct call_queue *calls; /* the owner's: calls on the node's connection, in order */
    /* the owner's: transactions that wait for their turn on the aux connection; NULL: none */
    const struct call_queue *turn;
    bool up;                /* connected, and the handshake is complete */
    bool leaving;           /* its connection will be closed: nothing more is sent on it */
    bool again;             /* ... to be made again */
    bool failed;            /* the last try to connect has failed */
    bool was_up;            /* it was up before */
    int verdict;            /* GRANTED while it is up and not refused; else the reason */
    unsigned writes;        /* net_op_is_awaited() among `calls` */
    struct call_queue kept; /* releases that wait for the connection (or for memory) */
    rl_ns kept_at;          /* when to call policy_expire(); RL_NEVER: not needed */
    rl_ns kept_look_at;     /* the kept releases are not searched again before this */
    struct backoff backoff; /* of its connection */
    rl_ns up_since;
    rl_ns refused_pause; /* the maximum of the pause after the last policy_refuse() */
    uint64_t reconnects;
    char run_id[41]; /* of the server at the last connection; "": unknown */
    /* Of tries to connect anew while an answer is overdue. */
    struct backoff fresh_backoff;
    rl_ns patience; /* an answer is overdue for this long before the next try */
    rl_ns tried_at; /* when the last try began, ... */
    uint32_t heard_before, turn_heard_before; /* ... and the next two then */
    uint32_t heard, turn_heard; /* counts answers to `calls` and `turn`, also incomplete ones */
    struct policy_server reached,
        earlier[POLICY_SERVERS]; /* by the handshakes of all connections */
    rl_ns several_until;         /* see policy_reached() */
    /* While a caller waits. */
    bool tracking_live;    /* the node notifies of changes */
    bool tracking_refused; /* it refuses to notify on this connection */
    struct backoff tracking_backoff;
};

struct policy {
    unsigned nodes;
    bool caller_waits;
    rl_mask put_off;        /* nodes that nothing needs now, which are connected later, ... */
    rl_ns spread;           /* ... within this time (the owner's; 0: none is put off) */
    rl_mask ready, settled; /* valid while nothing changes, until ... */
    rl_ns known_until;      /* ... this time; INT64_MIN: compute them again */
    rl_mask reported_ready, reported_settled;
    struct policy_node node[RL_NODES_MAX];
};

void policy_init(struct policy *policy, unsigned nodes);

/* ---- readiness ---- */

/* A node's readiness, or whether it is settled, may have changed. The functions here that change it
 * call this; the owner calls it for the queues. */
static inline void policy_changed(struct policy *policy) { policy->known_until = INT64_MIN; }
/* A call that is due at that time now awaits its answer. */
static inline void policy_awaits(struct policy *policy, rl_ns due) {
    if (due < policy->known_until) policy->known_until = due;
}
/* A call has left a queue: it may have been the overdue one. */
static inline void policy_taken(struct policy *policy, unsigned node) {
    if (!(policy->ready & rl_bit(node))) policy_changed(policy);
}

/* Ready means that a SET sent now has a fair chance: the node is connected, no answer is overdue,
 * and no release still waits to be sent (a SET must not overtake it). */
bool policy_is_ready(const struct policy *policy, unsigned node, rl_ns now);
/* Connected, or the last try to connect has failed. */
bool policy_is_settled(const struct policy *policy, unsigned node);
rl_mask policy_find_readiness(struct policy *policy, rl_ns now); /* used only by policy_ready() */
static inline rl_mask policy_ready(struct policy *policy, rl_ns now) {
    return now > policy->known_until ? policy_find_readiness(policy, now) : policy->ready;
}
/* Does not depend on the time. */
static inline rl_mask policy_settled(struct policy *policy) {
    if (policy->known_until == INT64_MIN) policy_find_readiness(policy, INT64_MIN);
    return policy->settled;
}
/* The nodes that became ready or settled, or stopped being so, since the last call. */
rl_mask policy_reports(struct policy *policy, rl_ns now);
/* Why the node is not ready; GRANTED: it is. TIMEOUT while it is up: an answer is overdue. */
int policy_shown_verdict(const struct policy *policy, unsigned node, rl_ns now);
/* Nodes with an unanswered request that a closing client waits for (net_op_is_awaited()), or with a
 * RELEASE that is about to be sent:
 * it waits for memory, or for a connection that has not failed yet. */
rl_mask policy_busy_writes(const struct policy *policy);

/* ---- a connection's life ---- */

/* The pause before the next try to connect. Clients lose a server all at the same time. If the
 * other nodes are a majority and nothing waits for this one, the connection is put off: it is made
 * at a random time within `spread`, so that not all come at one time. */
rl_ns policy_pause(struct policy *policy, unsigned node, uint32_t random, rl_ns now);
/* Nodes that were put off and are needed now: another one is lost, a release is kept, or a caller
 * waits. The owner connects each after backoff_next(). */
rl_mask policy_needed(struct policy *policy, rl_ns now);
rl_mask policy_hurry(struct policy *policy); /* all that were put off: something waits for them */
static inline void policy_tries(struct policy *policy, unsigned node) { /* to connect */
    policy->put_off &= (rl_mask)~rl_bit(node);
}

/* One server under two addresses would vote twice, so only the first listed node counts. A
 * connection to `run_id` that is not up yet is to be closed when an earlier node of the list has
 * that server (returned; -1: none). Otherwise the connections of later nodes to it are to be
 * closed. */
int policy_listed_before(const struct policy *policy, unsigned node, const char *run_id);
rl_mask policy_listed_again(const struct policy *policy, unsigned node, const char *run_id);

/* A handshake of any connection to the node's address has reached this server. True: the address
 * leads to several servers at a time, so its vote is none. A process draws its run_id at its start:
 * one that comes back soon after another one's lives next to it, behind a load balancer or a name
 * with several addresses. It is so until it has not been seen for POLICY_COMES_BACK. A client whose
 * connections all reach one of the servers cannot notice it. */
bool policy_reached(struct policy *policy, unsigned node, const char *run_id, rl_ns now);

/* The handshake is complete. The owner then sends the kept releases. (The connection may already be
 * leaving.) */
void policy_up(struct policy *policy, unsigned node, const char *run_id, rl_ns now);
/* The connection will be closed: nothing more is sent on it until it is down. */
void policy_leave(struct policy *policy, unsigned node);
/* The same, to be connected again at once: until then the node is not settled. */
void policy_again(struct policy *policy, unsigned node);
/* The connection is down, or could not be made. `calls` is empty then. policy_tracking_lost()
 * reports whether the node notified of changes. */
void policy_down(struct policy *policy, unsigned node, int verdict);
/* The layers above refuse the server. The next connection most likely reaches the same server, so
 * the pause grows although each connection comes up. The verdict is set at once, so that going down
 * counts as a failed try to connect and nothing waits for the node. False: its connection is
 * already leaving. */
bool policy_refuse(struct policy *policy, unsigned node, int verdict, rl_ns now);

/* ---- a fresh connection ----
 *
 * A connection may be a black hole: a firewall has forgotten it, and neither end learns that. New
 * ones work. So when an answer is overdue, a fresh connection is tried next to the old one, and the
 * first of the two to answer wins: either the old one's overdue answers come, and the try ends; or
 * the fresh one's handshake is complete, and it takes over. At that moment the old one is lost,
 * with its unanswered calls, as any connection is that ends: its votes do not count, and releases
 * are sent again. So two connections of a client never vote for one node. */

/* A try that the old connection beats costs a busy server more than it can spare. Then the next
 * answer may be overdue for longer before a try, up to BACKOFF_MAX. After this long without a try
 * that is forgotten. */
#define PATIENCE_FORGOTTEN (60000 * RL_MS)

/* When to try it; RL_NEVER: no answer is awaited. The owner makes one try at a time, and pauses
 * after each, whatever came of it, by `fresh_backoff`. */
rl_ns policy_fresh_at(const struct policy *policy, unsigned node, rl_ns now);
void policy_fresh_tried(struct policy *policy, unsigned node, rl_ns now); /* a try begins */
/* The try goes on: nothing was heard where an answer is overdue. */
bool policy_fresh_goes_on(const struct policy *policy, unsigned node, rl_ns now);
/* The try ends because the old connection has answered. */
void policy_fresh_beaten(struct policy *policy, unsigned node);
/* The handshake of the fresh connection is complete, with the server `run_id`. True: the old
 * connection is now down, and this one up. False: the old one has answered, or is doing so; or the
 * server is another node of the list already, and would vote twice. */
bool policy_takes_over(const struct policy *policy, unsigned node, const char *run_id, rl_ns now);

/* ---- calls ---- */

/* net_call.state; the other bits are the owner's */
enum { CALL_SENT_BEFORE = 1 }; /* a release whose connection was lost before the answer came */

/* Whether a request can be sent now. */
static inline bool policy_takes(const struct policy *policy, unsigned node) {
    const struct policy_node *at = &policy->node[node];
    return at->up && !at->leaving && !at->kept.head;
}

/* A call was sent: it is appended to the node's `calls`. */
static inline void policy_asked(struct policy *policy, struct call_queue *calls,
                                struct net_call *call) {
    call->op = (uint8_t)call->request->op;
    if (net_op_is_awaited((enum net_op)call->op)) policy->node[call->node].writes++;
    calls_await(calls, call);
    policy_awaits(policy, call->due);
}
/* An answer to the first of `calls`, or of `turn`, has begun to come. */
static inline void policy_heard(struct policy *policy, unsigned node) {
    policy->node[node].heard++;
}
static inline void policy_turn_heard(struct policy *policy, unsigned node) {
    policy->node[node].turn_heard++;
}
/* Takes the first call, which is answered. NULL: there is none. */
struct net_call *policy_answered(struct policy *policy, struct call_queue *calls);
/* What an answer means. A release that is sent twice may have deleted the key the first time, and
 * another client's key may be there since. So ABSENT or DENIED for the second one does not show
 * whether the key was ours. */
int policy_verdict(const struct net_call *call, int verdict);
/* When to look at the first awaited call of a connection (NULL: none). `armed` is when that is
 * planned now, or RL_NEVER. The timer does not move with each answer: when it fires, it looks
 * again. */
static inline bool policy_looks_in_time(const struct net_call *first, rl_ns armed) {
    return !first || armed <= first->due; /* the timer stays */
}
rl_ns policy_deadline(const struct net_call *first, rl_ns armed, rl_ns fresh_at, rl_ns now,
                      rl_ns stall_timeout); /* `fresh_at`: policy_fresh_at() */
/* The answer has been overdue for so long that the connection is to be closed. */
bool policy_is_stalled(const struct net_call *first, rl_ns now, rl_ns stall_timeout);

/* ---- kept releases ---- */

/* Whether a call that cannot be sent, or whose connection is lost, is kept. */
bool policy_keeps(const struct net_call *call, rl_ns now);
void policy_keep(struct policy *policy, unsigned node, struct net_call *call);
/* The kept releases that end by now. The owner fails them with DISCONNECTED, but not in the middle
 * of a state change. */
struct call_queue policy_expire(struct policy *policy, unsigned node, rl_ns now);
/* The connection was lost with these calls unanswered. Some are kept; the owner fails the rest. */
struct call_queue policy_lose(struct policy *policy, unsigned node, struct call_queue *lost,
                              rl_ns now);
/* The next kept release, to be sent because the connection is up; NULL: there is none left. */
struct net_call *policy_take_kept(struct policy *policy, unsigned node, rl_ns now);
/* It could not be sent because memory was short. */
void policy_put_back(struct policy *policy, unsigned node, struct net_call *call);
/* For a call that is sent later than planned. If it is overdue, it stays overdue from the start, so
 * that no SET is sent before its answer. But the time to stall begins again; otherwise a release
 * that waited long would end each new connection at once. */
void policy_start_again(struct net_call *call, rl_ns now);

/* ---- being notified of changes, while a caller waits ---- */

/* A caller that waits again soon finds that the nodes still notify. */
#define TRACKING_LINGER (10000 * RL_MS)

/* A caller waits (`on`), or none does any more. Returns when to call policy_track_end(): RL_NEVER,
 * or TRACKING_LINGER from now. */
rl_ns policy_track(struct policy *policy, bool on, rl_ns now);
/* No caller has waited for a while: no node notifies from now on. False: a caller waits again. */
bool policy_track_end(struct policy *policy);
/* The node is to be asked to notify. (The owner knows whether that is under way, or pauses by
 * `tracking_backoff`.) */
static inline bool policy_wants_tracking(const struct policy *policy, unsigned node) {
    const struct policy_node *at = &policy->node[node];
    bool asked_in_vain = at->tracking_live || at->tracking_refused;
    return policy->caller_waits && at->up && !at->leaving && !asked_in_vain;
}
/* Nodes that notify: they accept WATCH. */
rl_mask policy_tracked(const struct policy *policy);
/* It notifies from now on; earlier changes are unknown. */
void policy_tracking_live(struct policy *policy, unsigned node);
/* It stopped notifying. True: it did notify before, so the changes since are lost. */
bool policy_tracking_lost(struct policy *policy, unsigned node);
/* It was asked to notify, and answered with `verdict`. True: it is not asked again on this
 * connection, and the caller polls it. False: it is asked again after a pause. */
bool policy_tracking_refused(struct policy *policy, unsigned node, int verdict);

#endif
