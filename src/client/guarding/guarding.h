/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Which nodes may vote, by the client's mode. Guarded: this connects core/guard.h with the
 * connections. It reads the nodes' records, recovers nodes that lost their data, and reports which
 * nodes may vote. Auto: it finds out whether a node carries a record, and then the client is
 * guarded. The client's mutex protects all of it. */
#ifndef RL_CLIENT_GUARDING_H
#define RL_CLIENT_GUARDING_H

#include "client/client.h"
#include "core/clocks.h"
#include "core/freshness.h"
#include "core/guard.h"
#include "record.h"

/* ---- poll.c: a question to each connected node, with the votes and now and then ---- */

struct poll {
    struct redlock_client *client;
    struct net_timer timer;
    struct net_request request;
    struct net_call calls[RL_NODES_MAX];
    struct rl_freshness freshness;
    rl_ns wake_at;   /* of the timer; NEVER: it is not set */
    rl_mask refused; /* not asked again on these connections */
    rl_mask stale;   /* asked before a push: a part of the answer may be older than the push */
    bool rests;      /* while no lock is held or being acquired */
};

/* `clients`: as in core/freshness.h. */
void poll_init(struct poll *poll, struct redlock_client *client, const struct net_request *request,
               net_answered_fn *answered, void *owner, uint32_t clients);
void poll_begin(struct poll *poll);              /* it is the client's poll from now on */
void poll_engaged(struct poll *poll, rl_ns ttl); /* a lock with this TTL is acquired or held */
/* Over a new connection. `asked`: by its handshake, which has just ended. */
void poll_connected(struct poll *poll, unsigned node, bool asked);
void poll_counted(struct poll *poll, unsigned node, uint32_t clients);
void poll_stop(struct poll *poll);
/* These nodes are about to be asked for votes. */
void poll_before_votes(struct redlock_client *client, rl_mask votes);
/* Asks once more, before the next request, the nodes that do not owe an answer already. */
void poll_ask(struct poll *poll, rl_mask nodes);

/* ---- rates.c: how fast do the nodes' clocks run? ---- */

bool rates_start(struct redlock_client *client); /* the net is open; false: no memory */
void rates_free(struct redlock_client *client);  /* frees memory only */
/* A node came or went, and no guard asks. */
void rates_node(struct redlock_client *client, unsigned node, const struct net_node_status *status);
struct rl_clocks *rates_clocks(const struct redlock_client *client);
/* The node's clock, from an answer to a question that was asked then. Locks learn of a larger
 * allowance. */
void rates_sample(struct redlock_client *client, unsigned node, int64_t wall_us, rl_ns asked);
void rates_stop(struct redlock_client *client);       /* a guard asks from now on */
int64_t rates_wall_us(const struct net_reply *reply); /* from TIME's answer; -1: it is not one */
/* A lock with this TTL begins to be acquired or held, or one is not any more. */
void client_engaged(struct redlock_client *client, int64_t ttl_ms);
void client_disengaged(struct redlock_client *client);

/* ---- fitness.c: is a node fit to vote? ----
 *
 * It asks before each read of the record, and as poll.c does. At any time an operator may switch
 * eviction on, make the node a replica or give it one, and its wall clock may step. */

void fitness_start(struct guard *guard);
#define FITNESS_TEXT_BYTES 120
/* Why the node may not vote; "" when it may. */
void fitness_judge(const struct redlock_client *client, const struct net_state *state, char *why,
                   size_t size);

/* ---- guard.c ---- */

/* One node, next to the machine's knowledge of it. */
struct guard_node {
    struct net_request write;
    struct record_text text;
    bool up;
    /* the net's count when the node came up: another count is another connection */
    uint64_t reconnects;
    bool announces;    /* changes are pushed, so no regular reads are needed */
    char unfit[120];   /* why it is not fit; "": it is */
    const char *fault; /* why its record cannot be used; NULL: it was read */
    rl_ns voided_at; /* when it was last voided; votes of a round that began before do not count */
    int trouble;     /* the verdict of the last failure; 0: none since */
    enum rl_eligibility logged;
    /* Of the write of its record, the read of its fences, and the read of its record: denied to
     * this user, by the last answer; and the command, if the server names it. */
    struct guard_denial {
        bool denied, logged;
        char command[24];
    } write_denied, fences_denied, read_denied;
};

struct guard {
    struct redlock_client *client; /* the guard maintains its `voters`, `unread` and `refusal` */
    struct rl_guard machine;
    struct guard_node node[RL_NODES_MAX];
    struct net_timer timer, peek;
    struct net_request read, fences;
    struct net_call pending_ops[RL_NODES_MAX];
    uint64_t nonces[RL_NODES_MAX]; /* of the last record with which the node was intact */
    rl_mask intact;                /* nodes that may vote */
    rl_mask foreign;               /* of the voided: superseded, or not a member */
    rl_mask voided;                /* nodes whose votes in an open round do not count */
    rl_mask reread;                /* of the unread: intact in their last record */
    rl_mask failed;                /* nodes that could not be asked; for after the step */
    rl_mask pushed;                /* in a step: the node that has just pushed a change */
    rl_mask put_off;               /* nodes whose read was not sent yet; ... */
    struct net_timer put_off_end;  /* ... then it is */
    bool stepping, changed;
    int64_t fence_seen, fence_ahead, fence_proposed;
    uint32_t logged_epoch;
    unsigned logged_lacking;
    int64_t logged_ttl_ms;  /* 0: none yet */
    struct poll poll;       /* of the nodes' states (fitness.c) */
    struct rl_record heard; /* the record that was just read */
};

extern const struct node_mode classic_nodes, auto_nodes, guarded_nodes;

/* The client is guarded from now on; takes the zeroed memory. */
void guard_begin(struct redlock_client *client, struct guard *guard);

/* The server has pushed a change. Its answers count again when its record and state were read
 * anew. */
void guard_changed(struct redlock_client *client, unsigned node);
void guard_hurry(struct redlock_client *client); /* reads that were put off are sent now */
/* The write of the machine's record for a node. It uses `text` and the node until it is done. */
struct net_request guard_write_request(const struct rl_guard_node *node, struct record_text *text);
/* A vote under this nonce was answered: no fences of that name exist. */
void guard_no_fences(struct guard *guard, unsigned node, uint64_t nonce);
/* A break of ours has changed the node's nonce: see node/break.lua. */
void guard_renamed(struct guard *guard, unsigned node, uint64_t expected, uint64_t nonce);
/* The node's state; `unfit`: why it may not vote, "" when it may. */
void guard_stated(struct guard *guard, unsigned node, const struct net_state *state,
                  const char *unfit);
/* Only this node's wall clock moved forward, so keys there may have ended too early. */
void guard_jumped(struct guard *guard, unsigned node);
/* Another writer has changed the record, or knows of a change: the record is read again. */
void guard_peek(struct guard *guard, unsigned node);
/* false while nothing is known of the quorum */
bool guard_ttl_too_long(const struct guard *guard, int64_t ttl_ms);

/* ---- automode.c ---- */

void automode_free(struct redlock_client *client); /* frees memory only */

/* ---- guard_votes.c ---- */

/* What the node's answer of this verdict is worth. */
int guard_verdict(const struct redlock_client *client, unsigned node, int verdict);
/* It has a record of another quorum, or of no earlier epoch, that is not counted yet: an init or an
 * add has begun there. The quorum that comes of it may be this client's. */
bool guard_is_being_made(const struct guard *guard, unsigned node);
/* -1: unknown; 0: it does not recover */
int64_t guard_recovering_ms(const struct guard *guard, unsigned node);
/* Connected, but its record must be read before its vote counts. */
bool guard_is_unread(const struct guard *guard, unsigned node);
/* Nodes that were voided at `since` or later, even if only briefly. */
rl_mask guard_voided_since(const struct guard *guard, rl_ns since);
/* 0: nothing is known of the quorum yet */
int64_t guard_ttl_max_ms(const struct guard *guard);

/* Above every fence that this client has seen: a clock in microseconds, moved forward when other
 * clients' fences are ahead. */
int64_t guard_fence_hint(struct guard *guard);
/* An extension raises fences to its lock's fence, and a fence never comes down. So a typing error
 * must not use up all tokens of a resource. */
bool guard_fence_plausible(struct guard *guard, int64_t fence);
void guard_saw_fence(struct guard *guard, int64_t fence);
/* by this client: the next one must differ */
void guard_proposed_fence(struct guard *guard, int64_t fence);

/* ---- guard_report.c ---- */

/* Enough nodes carry the quorum's record. It is not decided yet because a node that may carry
 * another one was neither read nor given up. */
bool guard_asks_for_quorum(const struct guard *guard);
/* Of the quorum; of the list while no record was read. */
unsigned guard_votes_needed(const struct guard *guard);
/* How many members of the quorum the list of nodes lacks; *first is one of them, or NULL. */
unsigned guard_unlisted(const struct guard *guard, const struct rl_member **first);
/* Logs changes of eligibility, and members that the list lacks. */
void guard_report(struct guard *guard);
void guard_status(const struct redlock_client *client, unsigned node,
                  struct redlock_node_status *status);

#endif
