/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Which nodes may vote, by the client's mode. Guarded: between core/guard.h and the connections;
 * it reads the nodes' records, brings back those that lost their data, and says which may vote.
 * Auto: whether a node carries a record. All under the client's mutex.
 */
#ifndef RL_CLIENT_GUARDING_H
#define RL_CLIENT_GUARDING_H

#include "client/client.h"
#include "core/clocks.h"
#include "core/guard.h"
#include "record.h"

/* ---- poll.c: one question, about once a second, to each node that is connected ---- */

struct poll {
    struct redlock_client *client;
    rl_mask (*ask)(struct poll *poll, rl_mask nodes);
    struct net_timer timer;
    struct net_request request;
    struct net_call calls[RL_NODES_MAX];
};

/* From a second later on. `ask`: poll_ask(), or a function that calls it. */
void poll_start(struct poll *poll, struct redlock_client *client, const struct net_request *request,
                enum call_tag tag, void *owner, rl_mask (*ask)(struct poll *poll, rl_mask nodes));
/* Returns the nodes that do not owe an answer already: they are asked. */
rl_mask poll_ask(struct poll *poll, rl_mask nodes);

/* ---- fitness.c: is a node fit to vote? ----
 *
 * Asked ahead of each reading of its record, and about once a second for as long as it is
 * connected: an operator may switch eviction on, make it a replica or give it one at any time, and
 * its wall clock may step. */

struct fitness {
    struct guard *guard;
    struct rl_clocks clocks;
    struct poll poll;
    rl_ns asked[RL_NODES_MAX];
    rl_mask stale; /* asked before a push: a part of the answer may be from before it */
};

void fitness_start(struct fitness *fitness, struct guard *guard);
/* Once more, in front of what is sent next. */
void fitness_ask(struct fitness *fitness, rl_mask nodes);
/* The server has pushed that its data may be others. */
void fitness_changed(struct fitness *fitness, unsigned node);
void fitness_reply(struct net_call *call, const struct net_reply *reply);
#define FITNESS_TEXT_BYTES 120
/* Why it may not vote; "" when it may. */
void fitness_judge(const struct redlock_client *client, const struct net_state *state, char *why,
                   size_t size);

/* ---- guard.c ---- */

/* One node, next to what the machine knows of it. */
struct guard_node {
    struct net_request write;
    struct record_text text;
    bool up;
    uint64_t reconnects; /* the net's count when it came up: another count is another connection */
    bool announces;      /* changes are pushed: it need not be looked at now and then */
    char unfit[120];     /* why it is not fit; "" when it is */
    rl_ns voided_at; /* when it was voided last; votes of a round that began before do not count */
    int trouble;     /* the verdict of what failed last; 0: nothing since */
    enum rl_eligibility logged;
};

struct guard {
    struct redlock_client *client; /* whose `voters`, `unread` and `refusal` it keeps */
    struct rl_guard machine;
    struct guard_node node[RL_NODES_MAX];
    struct net_timer timer, peek;
    struct net_request read, fences;
    struct net_call pending_ops[RL_NODES_MAX];
    uint64_t nonces[RL_NODES_MAX]; /* of the last record by which the node was intact */
    rl_mask intact;                /* may vote */
    rl_mask foreign;               /* of the voided: superseded, or no member */
    rl_mask voided;                /* what they voted in a round that is open does not count */
    rl_mask reread;                /* of the unread: intact when its record was read last */
    rl_mask failed;                /* could not be asked: the machine is told after its step */
    bool stepping, changed;
    int64_t fence_seen, fence_ahead, fence_proposed;
    uint32_t logged_epoch;
    unsigned logged_lacking;
    struct fitness fitness;
    struct rl_record heard; /* the record that was just read */
};

extern const struct node_mode classic_nodes, auto_nodes, guarded_nodes;

/* The server has pushed: what a node says counts again when its record and what it says of itself
 * were read anew. */
void guard_changed(struct redlock_client *client, unsigned node);
void guard_reply(struct net_call *call, const struct net_reply *reply);
/* A vote that went out under this nonce says that there are no fences of that name. */
void guard_no_fences(struct guard *guard, unsigned node, uint64_t nonce);
/* What it says that it is now; `unfit`: why it may not vote, "" when it may. */
void guard_stated(struct guard *guard, unsigned node, const struct net_state *state,
                  const char *unfit);
/* Its wall clock moved forward alone, so keys may have ended there before their time. */
void guard_jumped(struct guard *guard, unsigned node);
/* Somebody other than the machine has written there, or knows of a change: its record is read
 * again. */
void guard_peek(struct guard *guard, unsigned node);

int64_t guard_recovering_ms(const struct guard *guard,
                            unsigned node); /* -1: nobody can tell; 0: it does not recover */
/* Into the log: whose eligibility has changed, and whether the list lacks members. */
void guard_report(struct guard *guard);
void guard_status(const struct redlock_client *client, unsigned node,
                  struct redlock_node_status *status);
/* Connected, and its record must be read before a vote of it counts. */
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

/* ---- automode.c ----
 *
 * Mode auto: classic, but never on nodes that carry a record. To lock there as classic clients do
 * would be to lock without what the quorum was made for, because an option was forgotten. Each
 * connection begins with the question, and it is asked again about once a second, for a quorum may
 * be made while clients are connected. */

void automode_reply(struct net_call *call, const struct net_reply *reply);

/* ---- gather.c ---- */

/* Waits until every node is connected or has failed; the mutex is held. Returns the nodes that are
 * ready. */
rl_mask gather(struct redlock_client *client, rl_ns until);
rl_ns gather_until(struct redlock_client *client); /* now and the connect timeout */
void gatherings_check(struct redlock_client *client);

#endif
