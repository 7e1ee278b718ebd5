/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Guarded mode's nodes: between core/guard.h and the connections. It reads their records, brings
 * back those that lost their data, and says which may vote. All under the client's mutex.
 */
#ifndef RL_CLIENT_GUARD_H
#define RL_CLIENT_GUARD_H

#include "core/guard.h"
#include "fitness.h"
#include "record.h"

struct redlock_client;
struct redlock_node_status;

/* One node, beside what the machine knows of it. */
struct guard_node {
    struct net_request write;
    struct record_text text;
    bool up;
    uint64_t reconnects; /* the net's count when it came up: another count is another connection */
    bool announces;      /* changes are pushed: it need not be looked at now and then */
    char unfit[120];     /* why it is not fit; "" when it is */
    rl_ns voided_at; /* when it was voided last; votes of a round that began before do not count */
    int trouble;     /* the verdict of what failed last; 0: nothing since */
    enum rl_standing logged;
};

struct guard {
    struct redlock_client *client;
    struct rl_guard machine;
    struct guard_node node[RL_NODES_MAX];
    struct net_timer timer, look;
    struct net_request read, fences;
    struct net_call errands[RL_NODES_MAX];
    uint64_t nonces[RL_NODES_MAX]; /* of the last record by which the node was intact */
    rl_mask intact;                /* may vote */
    rl_mask foreign;               /* of the voided: superseded, or no member */
    rl_mask voided;                /* what they voted in a round that is open does not count */
    rl_mask unread;                /* nobody knows yet, and nothing says why */
    rl_mask reread;                /* of these: intact when its record was read last */
    rl_mask failed;                /* could not be asked: the machine is told after its step */
    bool stepping, changed, closing;
    int64_t fence_seen, fence_ahead, fence_proposed;
    uint32_t logged_epoch;
    unsigned logged_lacking;
    struct fitness fitness;
    struct rl_record heard; /* the record that was just read */
};

struct guard *guard_new(struct redlock_client *client); /* NULL: no memory */
void guard_start(struct guard *guard);                  /* the net is open */
/* The client ends: what was waited for nodes that recover is handed on, or short-lived clients
 * would never bring one back. Nobody needs the answers; before the net is closed, `closing` is
 * set. */
void guard_leave(struct guard *guard);
void guard_free(struct guard *guard); /* after the net was closed */

void guard_node_changed(struct guard *guard, unsigned node);
void guard_reply(struct net_call *call, const struct net_reply *reply);
/* A vote that went out under this nonce says that there are no fences of that name. */
void guard_doubt(struct guard *guard, unsigned node, uint64_t nonce);
/* What it says that it is now; `unfit`: why it may not vote, "" when it may. */
void guard_stated(struct guard *guard, unsigned node, const struct net_state *state,
                  const char *unfit);
/* Its record, or all its data, may have changed: what it says counts again when both were read
 * anew. */
void guard_changed(struct guard *guard, unsigned node);
/* Its wall clock moved forward alone, so keys may have ended there before their time. */
void guard_jumped(struct guard *guard, unsigned node);
/* Somebody other than the machine has written there, or knows of a change: its record is read
 * again. */
void guard_look(struct guard *guard, unsigned node);

/* Nodes of which is known whether they vote, or why that cannot be known. */
rl_mask guard_settled(const struct guard *guard);
/* The node's verdict, given the net's. */
int guard_verdict(const struct guard *guard, unsigned node, int verdict);
int64_t guard_recovering_ms(const struct guard *guard,
                            unsigned node); /* -1: nobody can tell; 0: it does not recover */
/* One sentence about a node that does not vote and what to do; "" where there is nothing to say. */
void guard_text(const struct guard *guard, unsigned node, char *text, size_t size);
void guard_report(struct guard *guard); /* into the log: whose standing has changed, and whether the
                                           list lacks members */
void guard_status(const struct guard *guard, unsigned node,
                  struct redlock_node_status *status); /* on top of the net's */
/* Connected, and its record has to be read before a vote of it counts. */
bool guard_is_unread(const struct guard *guard, unsigned node);
/* Nodes that were voided at `since` or after it, for however short a time. */
rl_mask guard_voided_since(const struct guard *guard, rl_ns since);
bool guard_ttl_too_long(const struct guard *guard,
                        int64_t ttl_ms); /* false while nothing is known of the quorum */

/* Above every fence that this client has seen: a clock in microseconds, moved forward where others'
 * are ahead. */
int64_t guard_fence_hint(struct guard *guard);
/* An extension raises fences to its lock's, and what is raised never comes down: a typing error
 * must not use up all tokens of a resource. */
bool guard_fence_plausible(struct guard *guard, int64_t fence);
void guard_saw_fence(struct guard *guard, int64_t fence);
void guard_proposed_fence(struct guard *guard,
                          int64_t fence); /* by this client: the next is to be another */

#endif
