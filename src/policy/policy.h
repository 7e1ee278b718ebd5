/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What a client decides about its connections: which nodes may be asked, which releases are kept
 * and sent again, when an answer has been overdue for too long, and how long to pause before the
 * next try. src/net carries the decisions out on sockets, the simulator on a network of its own:
 * what the simulator judges is what ships.
 *
 * Pure: no socket, no clock, no memory, no chance of its own. Time and random bits are inputs;
 * "look again at" is an output. One thread at a time.
 */
#ifndef RL_POLICY_H
#define RL_POLICY_H

#include "policy/queue.h"
#include "redlock.h"

/* ---- pauses ---- */

#define BACKOFF_MIN (20 * RL_MS)
#define BACKOFF_MAX (1000 * RL_MS)
/* A connection that lasted so long was not refused for the one before. */
#define BACKOFF_FORGIVEN (10000 * RL_MS)

struct backoff {
    rl_ns pause; /* how long the last one was at most; 0: there was none since it was up */
};
/* The pause before the next try to connect: twice the last one at most, and anywhere below
 * (`random` is 32 random bits): clients that lost a node at the same moment must not come back at
 * the same moment. */
rl_ns backoff_next(struct backoff *backoff, uint32_t random);

/* ---- one node ---- */

/* The owner reads all of it, and writes what is said to be its own. */
struct policy_node {
    const struct call_queue *calls; /* the owner's: on the node's connection, in order */
    const struct call_queue
        *turn;    /* the owner's: those that wait their turn on another connection; NULL: none */
    bool up;      /* connected, and the handshake is done */
    bool leaving; /* its connection is to be given up: nothing more is sent on it */
    bool failed;  /* the last try to connect has failed */
    bool was_up;  /* once */
    bool reported_ready, reported_settled;
    int verdict;            /* GRANTED while it is up and not refused; else why not */
    unsigned writes;        /* net_op_is_write() among `calls` */
    struct call_queue kept; /* releases that wait for the connection (or for memory) */
    rl_ns kept_at;          /* when policy_expire() is to be called; RL_NEVER: it need not be */
    rl_ns kept_look_at;     /* not before this are they looked through again */
    struct backoff backoff; /* of its connection */
    rl_ns up_since;
    rl_ns refused_pause; /* how long the pause after the last policy_refuse() was at most */
    uint64_t reconnects;
    char run_id[41]; /* of the server when it was last connected; "": not known */
    /* While somebody waits. */
    bool watch_live;    /* the node notifies of changes */
    bool watch_refused; /* it will not, as long as this connection lasts */
    struct backoff watch_backoff;
};

struct policy {
    unsigned nodes;
    bool watching;          /* somebody waits */
    rl_mask ready, settled; /* as long as nothing changes until ... */
    rl_ns known_until;      /* ... then; INT64_MIN: to be found anew */
    struct policy_node node[RL_NODES_MAX];
};

void policy_init(struct policy *policy, unsigned nodes);

/* ---- standing ---- */

/* What makes a node ready or settled has changed. Functions here that change it say so themselves;
 * the owner says it of the queues. */
static inline void policy_changed(struct policy *policy) { policy->known_until = INT64_MIN; }
/* A call that is due then awaits its answer. */
static inline void policy_awaits(struct policy *policy, rl_ns due) {
    if (due < policy->known_until) policy->known_until = due;
}
/* A call has left a queue: it may have been the overdue one. */
static inline void policy_taken(struct policy *policy, unsigned node) {
    if (!(policy->ready & rl_bit(node))) policy_changed(policy);
}

/* Ready means that a SET sent now has a fair chance: connected, nothing overdue, and no release
 * that still waits to be sent (a SET must not overtake it). */
bool policy_is_ready(const struct policy *policy, unsigned node, rl_ns now);
/* Connected, or the last try to connect has failed. */
bool policy_is_settled(const struct policy *policy, unsigned node);
rl_mask policy_find_readiness(struct policy *policy, rl_ns now); /* policy_ready()'s own */
static inline rl_mask policy_ready(struct policy *policy, rl_ns now) {
    return now > policy->known_until ? policy_find_readiness(policy, now) : policy->ready;
}
/* Does not depend on the time. */
static inline rl_mask policy_settled(struct policy *policy) {
    if (policy->known_until == INT64_MIN) policy_find_readiness(policy, INT64_MIN);
    return policy->settled;
}
/* True: the node is ready or settled, or no longer, and that has not been reported yet. */
bool policy_reports(struct policy *policy, unsigned node, rl_ns now);
/* Why it is not ready; GRANTED: it is. TIMEOUT while it is up: an answer is overdue. */
int policy_shown_verdict(const struct policy *policy, unsigned node, rl_ns now);
/* Nodes with an unanswered ACQUIRE, EXTEND or RELEASE, or one that waits for memory. */
rl_mask policy_busy_writes(const struct policy *policy);

/* ---- a connection's life ---- */

/* One server under two addresses would vote twice. The first listed counts: a connection to
 * `run_id` that is not up yet is to be given up when a node listed before has it (which: -1, none);
 * else those of the nodes listed behind are. */
int policy_listed_before(const struct policy *policy, unsigned node, const char *run_id);
rl_mask policy_listed_again(const struct policy *policy, unsigned node, const char *run_id);

/* The handshake is done. Then kept releases are to be sent. (It may be leaving already.) */
void policy_up(struct policy *policy, unsigned node, const char *run_id, rl_ns now);
/* The connection is to be given up: nothing more is sent on it until it is down. */
void policy_leave(struct policy *policy, unsigned node);
/* The connection is down, or could not be made. `calls` is empty then. Whether the node notified of
 * changes is policy_watch_lost(). */
void policy_down(struct policy *policy, unsigned node, int verdict);
/* The server is refused by those above us, and the next connection most likely reaches it again: so
 * the pause grows although each connection comes up. The verdict is set at once, so that going down
 * counts as a failed try to connect: nothing waits for such a node. False: it is being given up
 * already. */
bool policy_refuse(struct policy *policy, unsigned node, int verdict, rl_ns now);

/* ---- calls ---- */

/* net_call.state: others of its bits are the owner's */
enum { CALL_SENT_BEFORE = 1 }; /* a release whose connection was lost before the answer came */

/* Whether a request may be sent now. */
static inline bool policy_takes(const struct policy *policy, unsigned node) {
    const struct policy_node *at = &policy->node[node];
    return at->up && !at->leaving && !at->kept.head;
}

/* A call was sent: it is appended to `calls`, which are the node's. */
static inline void policy_asked(struct policy *policy, struct call_queue *calls,
                                struct net_call *call) {
    call->op = (uint8_t)call->request->op;
    if (net_op_is_write((enum net_op)call->op)) policy->node[call->node].writes++;
    calls_await(calls, call);
    policy_awaits(policy, call->due);
}
/* The first of them is answered. NULL: there is none. */
struct net_call *policy_answered(struct policy *policy, struct call_queue *calls);
/* What an answer means: a key that a release does not find the second time may have been deleted by
 * its own first time, and another's may have come since. Such an answer says nothing of whether the
 * key was ours. */
int policy_verdict(const struct net_call *call, int verdict);
/* When the first call awaited on a connection (NULL: none) is looked at next; `armed` is when it
 * will be by now, or RL_NEVER. Lazily: it is not moved with each answer, but looks again when it
 * comes. */
static inline bool policy_looks_in_time(const struct net_call *first, rl_ns armed) {
    return !first || armed <= first->due; /* nothing is to be moved */
}
rl_ns policy_deadline(const struct net_call *first, rl_ns armed, rl_ns now, rl_ns stall_timeout);
/* The answer has been overdue for so long that the connection is to be given up. */
bool policy_is_stalled(const struct net_call *first, rl_ns now, rl_ns stall_timeout);

/* ---- kept releases ---- */

/* Whether a call that cannot be sent, or whose connection is lost, is kept. */
bool policy_keeps(const struct net_call *call, rl_ns now);
void policy_keep(struct policy *policy, unsigned node, struct net_call *call);
/* Those that end by now. To be failed with DISCONNECTED, when nothing is between two states. */
struct call_queue policy_expire(struct policy *policy, unsigned node, rl_ns now);
/* The connection was lost with these calls unanswered: some are kept; the rest is to be failed. */
struct call_queue policy_lose(struct policy *policy, unsigned node, struct call_queue *lost,
                              rl_ns now);
/* The next kept release, to be sent now that the connection is up; NULL: no more. */
struct net_call *policy_take_kept(struct policy *policy, unsigned node, rl_ns now);
/* It could not be sent for want of memory. */
void policy_put_back(struct policy *policy, unsigned node, struct net_call *call);
/* A call that is sent later than it was meant to be: overdue from the start if it is overdue, so
 * that no SET is sent before the answer; but the time to stall begins anew, or a release that has
 * waited for long would end each new connection at once. */
void policy_start_again(struct net_call *call, rl_ns now);

/* ---- being notified of changes, while somebody waits ---- */

/* A caller that waits again soon finds the nodes still notifying. */
#define WATCH_LINGER (10000 * RL_MS)

/* Somebody waits, or nobody does any more. When policy_watch_end() is to be called: RL_NEVER, or
 * WATCH_LINGER from now. */
rl_ns policy_watch(struct policy *policy, bool on, rl_ns now);
/* Nobody has waited for a while: no node notifies any longer. False: somebody waits again. */
bool policy_watch_end(struct policy *policy);
/* The node is to be asked to notify (the owner knows whether it is being asked already, or pauses
 * by `watch_backoff`). */
bool policy_wants_watch(const struct policy *policy, unsigned node);
/* Nodes that notify: they take WATCH. */
rl_mask policy_watched(const struct policy *policy);
/* It notifies from now on; what has changed before is not known. */
void policy_watch_live(struct policy *policy, unsigned node);
/* It does not notify any more: true when it did, so that what has changed meanwhile is lost. */
bool policy_watch_lost(struct policy *policy, unsigned node);
/* It was asked, and answered with `verdict`. True: it is not asked again as long as the connection
 * lasts, and is waited for by polling; else after a pause. */
bool policy_watch_refused(struct policy *policy, unsigned node, int verdict);

#endif
