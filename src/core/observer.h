/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Who leads now, and under which term? Like core.h: a function of (state, event, time).
 *
 * A leader holds a guarded lock, and its fence is the term. Nodes do not store which fence a token
 * was granted with: a stripe's fence also grows for other locks, and for rivals that were denied.
 * Only the leader knows it, from the moment it is granted. So it announces (term, token) on the
 * nodes, next to the lock, when it is granted and with each renewal (lease.c).
 *
 * 1. READING: all nodes are asked for the token, its remaining time, and the announcement.
 * 2. PROVING: when a majority has the same token, and some node has an announcement of that token,
 *    the nodes of this majority are asked once more: is the token still there, under a fence of at
 *    least the term, on the node's present record (the confirmation of an acquisition)?
 * 3. RESTING: until a node notifies of a change, or for a while.
 *
 * A report has three parts, with a reason each:
 * - The term is exact. Only the holder of a token writes an announcement of it, after it was
 *   granted, always with the same fence. So one announcement of it is enough, from any node, and
 *   however old. An announcement of another token says nothing.
 * - The token led at one moment: each node of a majority had it before the second questions went
 *   out, and again when it answered them. A minority proves nothing: it may be left from a leader
 *   that was lost, or be the beginning of a try that fails.
 * - Nobody else can lead before `sure_until`, unless this leader resigns (or an operator breaks its
 *   lock): until then a majority has keys with this token that do not end. This is computed like
 *   validity: remaining time less drift, from before the question was sent.
 *
 * Fences are unique, and grow with each grant. So two observers never report different tokens for
 * one term; and a lower term than the last one is old news, which is not reported. */
#ifndef RL_CORE_OBSERVER_H
#define RL_CORE_OBSERVER_H

#include "core/core.h"

/* The caller numbers the tokens that it reads: equal tokens, equal numbers; 0 is none. It keeps the
 * number of the reported token, and may use all others anew when a round of reading begins. */
struct rl_observer_rules {
    uint8_t nodes;
    rl_ns answer_timeout; /* > 0: of one round */
    uint32_t drift_ppm;   /* as in rl_terms */
    rl_ns drift_fixed;
    const struct rl_rates *rates;
    rl_ns poll_min, poll_max;                   /* between looks, while no majority notifies ... */
    rl_ns notified_poll_min, notified_poll_max; /* ... and while it does: one may be lost */
};

enum rl_observer_event_type {
    RL_OBSERVER_BEGIN, /* with `seed` */
    RL_OBSERVER_KEY,   /* `node` answered: GRANTED with `token` and `remaining`, ABSENT, FAILED */
    /* `node` answered: GRANTED with an announcement of `term` for `token`; ABSENT; FAILED */
    RL_OBSERVER_TERM,
    RL_OBSERVER_PROVEN, /* `node` answered the second question: GRANTED, or not */
    RL_OBSERVER_WAKE,   /* a hint that the key may have changed */
    RL_OBSERVER_NODES,  /* `ready` or `voided` changed */
    RL_OBSERVER_TICK
};

struct rl_observer_event {
    enum rl_observer_event_type type;
    uint8_t node;
    enum rl_vote vote;
    uint8_t token;
    uint32_t round; /* of the actions that asked */
    int64_t term;
    rl_ns remaining; /* below 0: the key does not end, so it is not a leader's */
    uint64_t seed;
    /* Every event. */
    rl_mask ready;    /* nodes that may vote, and can be asked now */
    rl_mask voided;   /* nodes that were not eligible at some time since `asked_at` */
    rl_mask notified; /* nodes that notify of changes */
    rl_mask members;  /* of the listed nodes, those that may be members */
    uint8_t quorum;   /* of the members */
};

enum rl_observed {
    RL_OBSERVED_UNKNOWN = 0, /* too few nodes answered, or the last report has run out */
    RL_OBSERVED_NONE,        /* no token is on a majority */
    RL_OBSERVED_LEADER
};

struct rl_observation {
    enum rl_observed state;
    uint8_t token;
    int64_t term;
    rl_ns sure_until;
};

struct rl_observer_actions {
    uint32_t round;
    rl_mask read;  /* ask for the key and for the announcement */
    rl_mask prove; /* confirm `token` with fence `term` */
    uint8_t token;
    int64_t term;
    bool report;   /* `known` has changed */
    rl_ns wake_at; /* step again with TICK at this time at the latest */
};

enum rl_observer_state {
    RL_OBSERVER_IDLE = 0,
    RL_OBSERVER_READING,
    RL_OBSERVER_PROVING,
    RL_OBSERVER_RESTING
};

struct rl_observer {
    struct rl_observer_rules rules;
    enum rl_observer_state state;
    uint32_t round;
    rl_ns asked_at; /* when the questions of READING went out ... */
    rl_ns since;    /* ... and those of this state */
    /* READING, PROVING: not answered yet: keys, or proofs; announcements */
    rl_mask pending, pending_terms;
    rl_mask answered;                /* whose key is known: ... */
    uint8_t token[RL_NODES_MAX];     /* ... the token, or 0 ... */
    rl_ns ends[RL_NODES_MAX];        /* ... and until when it is there for sure */
    uint8_t announced[RL_NODES_MAX]; /* the token of the announcement; 0: none ... */
    int64_t terms[RL_NODES_MAX];     /* ... and its term */
    uint8_t candidate;
    int64_t candidate_term;
    rl_mask proven;
    bool woken;      /* a change was notified since `asked_at` */
    unsigned misses; /* looks in a row that could not tell who leads */
    rl_ns look_at;   /* RESTING: the next look */
    uint64_t random;
    struct rl_observation known; /* what was last reported */
    int64_t term_seen;           /* the highest term that was reported */
};
void rl_observer_init(struct rl_observer *observer, const struct rl_observer_rules *rules);
void rl_observer_step(struct rl_observer *observer, const struct rl_observer_event *event,
                      rl_ns now, struct rl_observer_actions *actions);
const char *rl_observer_state_name(enum rl_observer_state state);

#endif
