/* SPDX-License-Identifier: BSD-2-Clause
 *
 * An operator ends another client's lock. Like core.h: a function of (state, event, time).
 *
 * 1. READING: who holds the lock? All nodes are asked.
 * 2. RAISING (guarded): a majority of the nodes that may vote raises the fence of the resource to
 *    `fence`, strictly, as for an acquisition, and in the same atomic step compares and deletes the
 *    token that was read. Every later holder gets a higher fence. So a resource that has seen
 *    `fence` refuses the broken holder, and no later one.
 * 3. DELETING: each node compares and deletes again, until it is proven that the token is gone.
 *
 * The holder may be acquiring still, and raise its own fence. On each node of our majority it did
 * so before our step, and is lower than `fence`; or it comes after, and the node refuses it because
 * the key is gone. Between two steps it could have overtaken us: BREAK-OVERTAKEN. A node that has
 * the token again after our step (its request to acquire was still under way, or a repair) may have
 * a higher fence with it: it does not count until it has raised ours anew. Nor does a node that
 * left a delete unanswered: the token may have been there. models/break.pml shows what follows,
 * unless a SET of the holder is under way for longer than the break takes.
 *
 * A holder that renews at the same time may set a deleted key again on a minority of the nodes
 * (repair, lease.c). So one round of deletes proves nothing. The lock is broken when a majority did
 * not have the token at one moment: each of these nodes reported so before a round began, and again
 * in that round. From then on the holder finds its key absent on a majority, and loses its lock.
 *
 * Only nodes whose fence was raised count, and only if what they had then was not the token of
 * another client. So a client that acquired before the raise, with a lower fence, has a majority
 * that shares a node with every majority of ours: its lock is never reported as broken. */
#ifndef RL_CORE_BREAK_H
#define RL_CORE_BREAK_H

#include "core/core.h"

/* The caller numbers the tokens that it reads: equal tokens, equal numbers. */
#define RL_BREAK_WISHED 1 /* the token that the operator has named */

struct rl_break_wish {
    uint8_t nodes;
    bool guarded;
    bool named;           /* break the lock only if RL_BREAK_WISHED holds it */
    rl_ns answer_timeout; /* > 0: of one round */
    rl_ns patience;       /* deletes are repeated for this long; one round confirms them anyway */
};

enum rl_break_event_type {
    RL_BREAK_BEGIN,
    RL_BREAK_READ, /* `node` answered: GRANTED with `token`, ABSENT, or FAILED */
    /* Raised, and the token was: deleted (GRANTED), not there (ABSENT), another's (DENIED). Or
     * neither: STALE (with `fence`, 0: unknown), FAILED. */
    RL_BREAK_RAISED,
    RL_BREAK_DELETED, /* GRANTED, ABSENT, DENIED, or FAILED */
    RL_BREAK_NODES,   /* `voters`, `voided` or `unread` changed */
    RL_BREAK_TICK
};

struct rl_break_event {
    enum rl_break_event_type type;
    uint8_t node;
    enum rl_vote vote;
    uint8_t token;
    uint32_t round; /* of the actions that asked */
    int64_t fence;
    /* Every event. */
    rl_mask ready;  /* nodes that can be asked now */
    rl_mask voters; /* of these, nodes that may vote; classic: the same */
    rl_mask voided; /* guarded: nodes that were not eligible at some time since `raised_at` */
    /* guarded: nodes whose record is being read again. After a push their data may be of an earlier
     * state, so what they have reported counts only when they are read, and not voided then. (A
     * stock server also pushes the change that our own step has made.) */
    rl_mask unread;
    rl_mask members;    /* of the listed nodes, those that may be members */
    uint8_t quorum;     /* rl_quorum() of the members */
    int64_t fence_hint; /* guarded: the least value for a proposal made now */
};

enum rl_break_outcome {
    RL_BREAK_OUTCOME_NONE = 0,
    RL_BREAK_OUTCOME_BROKEN,  /* a majority did not have the token at one moment; we deleted it */
    RL_BREAK_OUTCOME_FREE,    /* no token was, or is any more, on a majority: nothing to do */
    RL_BREAK_OUTCOME_CHANGED, /* another token holds the lock, or may: it was not touched */
    /* Too few nodes answered to know any of these. Keys may have been deleted. */
    RL_BREAK_OUTCOME_NO_QUORUM
};

struct rl_break_actions {
    uint32_t round;
    rl_mask read; /* read the key */
    /* in one step: raise the fence to `fence`, strictly, whatever the key holds; compare with
     * `token`, delete */
    rl_mask raise;
    rl_mask remove; /* compare with `token`, delete; also nodes that are not ready */
    uint8_t token;
    int64_t fence;
    rl_ns wake_at; /* step again with TICK at this time at the latest */
    bool over;
};

enum rl_break_state {
    RL_BREAK_IDLE = 0,
    RL_BREAK_READING,
    RL_BREAK_RAISING,
    RL_BREAK_DELETING,
    RL_BREAK_PAUSING, /* too few nodes answered; they are asked again */
    RL_BREAK_OVER
};

struct rl_break {
    struct rl_break_wish wish;
    enum rl_break_state state;
    enum rl_break_outcome outcome;
    uint32_t round, first_delete; /* of the rounds of deletes, the first one after the raise */
    rl_ns since;                  /* when the round, or the pause, began */
    rl_ns give_up_at;
    rl_ns raised_at;              /* when the raises that count were sent */
    rl_mask pending;              /* asked in this round, and not answered */
    rl_mask answered;             /* READING */
    uint8_t holder[RL_NODES_MAX]; /* what each answered; 0: no key */
    uint8_t token;                /* to be deleted */
    int64_t fence, fence_seen;
    uint8_t raises;
    bool confirms;             /* a round of deletes was repeated only to confirm them */
    rl_mask raised;            /* nodes that raised their fence, and had no token since then */
    rl_mask deleted, deleting; /* nodes that deleted the token: ever, in this round of deletes */
    rl_mask gone;              /* nodes that did not have it at some time since the raise ... */
    rl_mask was_gone;          /* ... and already when this round began ... */
    rl_mask confirmed;         /* ... and again in this round */
    rl_mask unread;            /* as at the last event */
    rl_mask others;            /* nodes whose first answer was another client's token */
};
void rl_break_init(struct rl_break *machine, const struct rl_break_wish *wish);
void rl_break_step(struct rl_break *machine, const struct rl_break_event *event, rl_ns now,
                   struct rl_break_actions *actions);
/* OVER, after deletes: the nodes that did not report in the last round that they do not have the
 * token. If there are none, no repair under way can bring the lock back: a repair reaches a
 * minority. Else it may, together with these nodes. */
rl_mask rl_break_silent(const struct rl_break *machine, rl_mask members);

const char *rl_break_state_name(enum rl_break_state state);
const char *rl_break_outcome_name(enum rl_break_outcome outcome);

#endif
