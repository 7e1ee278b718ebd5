/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The protocol as functions of (state, event, time). Nothing here reads a clock, touches a socket,
 * allocates or draws a random number. Time, votes and a random seed come in as events. "Send this",
 * "wake me at" and "report to the caller" go out as actions. So the protocol can be simulated, and
 * an exchange can be read as text.
 *
 * Source of the rules: "Distributed Locks with Redis" (the Redlock page) and docs/use/safety.md. */
#ifndef RL_CORE_H
#define RL_CORE_H

#include <stdbool.h>
#include <stdint.h>

typedef int64_t rl_ns;    /* a point in time, or a span, of the client's clock, in nanoseconds */
typedef uint16_t rl_mask; /* bit i: node i */

#define RL_NODES_MAX 15
#define RL_SLOTS_MAX 64 /* of one resource; acquire_slot.lua has it too */
#define RL_NEVER INT64_MAX
#define RL_MS ((rl_ns)1000000)
#define RL_FENCE_MAX INT64_C(9007199254740991) /* 2^53 - 1: REDLOCK_FENCE_MAX */

/* A majority of all configured nodes, reachable or not. */
static inline unsigned rl_quorum(unsigned nodes) { return nodes / 2 + 1; }
static inline rl_mask rl_all(unsigned nodes) { return (rl_mask)((1u << nodes) - 1); }
static inline rl_mask rl_bit(unsigned node) { return (rl_mask)(1u << node); }
/* Parallel sums of 2, 4, 8 and 16 bits: this runs a hundred times for every lock. */
static inline unsigned rl_count(rl_mask mask) {
    unsigned bits = mask;
    bits -= bits >> 1 & 0x5555;
    bits = (bits & 0x3333) + (bits >> 2 & 0x3333);
    bits = (bits + (bits >> 4)) & 0x0f0f;
    return (bits + (bits >> 8)) & 0x1f;
}

/* A node's answer, as far as the protocol needs it. */
enum rl_vote {
    RL_VOTE_NONE = 0,
    RL_VOTE_GRANTED, /* set, extended or deleted */
    RL_VOTE_DENIED,  /* the key holds another client's token */
    RL_VOTE_ABSENT,  /* extend, release: there is no such key */
    /* Guarded acquire and raise: the key holds our token, but the fence was not raised to our
     * proposal. */
    RL_VOTE_STALE,
    /* no answer, or an error: connection lost, not reachable, or the server could not say */
    RL_VOTE_FAILED
};

/* Nodes whose clocks were measured to gain more on ours than the configured allowance covers, and
 * the allowance that covers each (clocks.h). */
struct rl_rates {
    rl_mask fast;
    uint32_t ppm[RL_NODES_MAX]; /* of the nodes in `fast`; above the configured one */
};

/* The settings that all locks of a client with the same TTL share. */
struct rl_terms {
    uint8_t nodes; /* 1..15 */
    /* rl_quorum() of the configured nodes; guarded: of the members that the records name */
    uint8_t quorum;
    bool guarded;       /* a vote carries a fencing token: the proposal */
    uint8_t slots;      /* 0: an ordinary lock; else one of so many slots is acquired */
    bool confirm;       /* guarded: ask a majority of the voters once more before the win counts */
    bool announces;     /* guarded: the lease announces its term to observers (observer.h) */
    bool shared;        /* a place among readers; guarded: the token is the highest fence found */
    rl_ns ttl;          /* > 0 */
    rl_ns ttl_max;      /* guarded: no renewal asks for more; 0: unlimited */
    uint32_t drift_ppm; /* drift of a TTL = ttl * drift_ppm / 1e6 + drift_fixed */
    rl_ns drift_fixed;
    const struct rl_rates *rates; /* the client's; NULL: nothing is measured */
    rl_ns node_timeout;           /* 0 < node_timeout < ttl */
    rl_ns validity_min;           /* a win must leave more than 0 and at least this */
};
rl_ns rl_drift(const struct rl_terms *terms, rl_ns ttl);
/* The same with another allowance. */
rl_ns rl_drift_at(const struct rl_terms *terms, uint32_t ppm, rl_ns ttl);
/* The least allowance that covers the clocks of `quorum` of these nodes (of all, if they are
 * fewer). */
uint32_t rl_allowance(const struct rl_terms *terms, rl_mask nodes, unsigned quorum);
/* A proposal above every fence that was seen. The hint, a clock, only saves round trips, and one
 * that is out of range is ignored. Above RL_FENCE_MAX: no tokens are left. */
int64_t rl_fence_above(int64_t seen, int64_t hint);

enum rl_event_type {
    /* acquisition: begin; lease: begin with `validity_end`, `asked` and `granted` */
    RL_EVENT_START,
    RL_EVENT_VOTE,     /* `node` answered the SET, extension, raise or repair with `vote` */
    RL_EVENT_UNLOCKED, /* `node` answered the release with `vote` */
    RL_EVENT_HINT,     /* acquisition: on `node` the holder's key has `remaining` left */
    RL_EVENT_WAKE,     /* a hint that the resource may be free now; it may be false or lost */
    RL_EVENT_NODES,    /* `ready` or `settled` changed */
    RL_EVENT_TICK,     /* only time has passed */
    RL_EVENT_CANCEL,   /* acquisition: the caller gives up */
    RL_EVENT_EXTEND,   /* lease: the caller asks for `ttl` */
    RL_EVENT_RELEASE,  /* lease: the caller releases */
    /* Acquisition: `node` answered a watch. ABSENT: no key. GRANTED: the key has `remaining` left
     * (below 0: it has no TTL). FAILED: the node did not answer. */
    RL_EVENT_WATCHED,
    /* Acquisition: `rank` waiting clients are before us; below 0: no node could report it. */
    RL_EVENT_RANK,
    /* Acquisition: `node` keeps its own queue, and says how we stand there. ABSENT: we may try, for
     * the lock is free, or reserved for us. GRANTED: not yet; the lock, or a reservation for
     * another, has `remaining` left (below 0: no end). FAILED: we have no place there. `rank` below
     * 0: neither have we, because the queue is full, or the try did not ask for one. */
    RL_EVENT_QUEUED,
    RL_EVENT_TURN /* acquisition: `node` has just reserved the lock for us */
};

struct rl_event {
    enum rl_event_type type;
    uint8_t node;
    enum rl_vote vote;
    /* Every event: nodes that can take a SET now (connected, no overdue answer, slot free). */
    rl_mask ready;
    /* Guarded, every event: nodes that are known not to be eligible now (another incarnation,
     * another epoch, recovering). Their grants in an open round do not count. */
    rl_mask voided;
    /* Guarded, a part of `voided`: nodes that are superseded or not members. The caller may forget
     * the evidence later, for example after a disconnect. An attempt that has seen the bit never
     * counts the node again. */
    rl_mask foreign;
    /* Every event: nodes that are connected, or whose last try to connect has failed. */
    rl_mask settled;
    rl_mask asked;   /* lease START: nodes that may hold our key */
    rl_mask granted; /* lease START: of these, nodes that have answered that they do */
    rl_mask denied;  /* lease START: of these, nodes that have answered that another client does */
    rl_ns validity_end; /* lease START */
    uint32_t drift_ppm; /* lease START: the allowance that was subtracted */
    rl_ns remaining;    /* HINT, WATCHED, QUEUED */
    /* Every event of an acquisition: nodes that report the key's next change (WAKE) after a
     * read. */
    rl_mask watched;
    /* Every event of an acquisition: nodes that keep queues of their own, and that notify us. None,
     * if they are fewer than a majority: then one node keeps the queue for all. */
    rl_mask keepers;
    /* every event of an acquisition: other callers of this process wait before us */
    bool behind;
    /* Acquisition START: other clients waited when we last held the lock, so we go behind them. */
    bool crowded;
    int32_t rank; /* RANK, QUEUED */
    rl_ns ttl;    /* EXTEND */
    bool full; /* every event of a lease: no renewal may be sent now; a renewal that is due waits */
    rl_mask busy;  /* every event of a lease: nodes that owe it an answer, and so are not ready */
    uint64_t seed; /* acquisition START: 64 random bits for the retry delays */
    /* VOTE, when a slot is acquired. GRANTED, STALE: the slot that the node gave. DENIED: slots are
     * held there with this other number of slots; 0: all slots are taken. */
    uint8_t slot, other_slots;
    /* Guarded VOTE: the highest fence known of that node; 0: unknown. GRANTED to a reader: the
     * fence that the node has. Lease START without validity: the highest that the caller knows. */
    int64_t fence;
    /* Guarded, every event of an acquisition, and of a lease that is adopted and not proven: the
     * least value for a proposal made now. */
    int64_t fence_hint;
};

enum rl_outcome {
    RL_OUTCOME_NONE = 0,
    RL_OUTCOME_OK,
    RL_OUTCOME_HELD, /* another client holds so many nodes that a majority is out of reach */
    /* so many nodes failed that a majority is out of reach: the holder is unknown */
    RL_OUTCOME_NO_QUORUM,
    RL_OUTCOME_EXPIRED, /* a majority granted, but too late */
    RL_OUTCOME_LOST,
    RL_OUTCOME_CANCELLED,
    RL_OUTCOME_LIMIT,
    RL_OUTCOME_OTHER_SLOTS /* as HELD, and a holder has another number of slots */
};

enum rl_notice {
    RL_NOTICE_RENEWED = 1 << 0,
    RL_NOTICE_UNSURE = 1 << 1,
    RL_NOTICE_SURE = 1 << 2,
    RL_NOTICE_LOST = 1 << 3
};

/* What the caller must do after a step, in this order: send, arm the timer, report. */
struct rl_actions {
    bool fresh_token; /* draw a new token before sending `acquire` */
    rl_mask acquire;  /* SET key token NX PX ttl */
    /* Slots: the one that `acquire` asks for, in place of any other that the node gave us; 0: the
     * first free one. */
    uint8_t slot;
    rl_mask leave; /* slots: compare-and-delete all of them but the one that was won */
    /* The same SET with the same token and `repair_ttl`, on a node that does not have the key of a
     * lease. */
    rl_mask repair;
    rl_mask extend;   /* compare-and-pexpire to `extend_ttl` */
    rl_mask catch_up; /* the same to `repair_ttl`, on a node that was not asked with the others */
    rl_ns extend_ttl, repair_ttl;
    rl_mask release;  /* compare-and-delete, queued behind all that was sent to that node before */
    rl_mask peek;     /* read how long the holder's key has left (a hint) */
    rl_mask watch;    /* the same, answered by WATCHED; the node also notifies of the next change */
    bool enter_queue; /* enter the wait queue, or stay in it; answered by RANK */
    rl_mask queue;    /* the same, in these nodes' own queues; answered by QUEUED */
    int64_t fence;    /* guarded: the proposal that goes with `acquire`, `raise` and `confirm` */
    rl_mask raise;    /* guarded: raise the fence to the proposal where the key is ours */
    rl_mask confirm;  /* guarded: do key and fence still have the values that were voted for? */
    rl_mask announce; /* lease: write the term and the token next to the lock */
    /* Lease: a renewal is due and waits for an event without `full`. `wake_at` does not cover
     * it. */
    bool renewal_waits;
    /* Step again with TICK at this time at the latest; RL_NEVER: there is nothing to wait for. */
    rl_ns wake_at;
    unsigned notices;               /* enum rl_notice, ored */
    enum rl_outcome outcome;        /* not NONE: the acquisition or the release has ended */
    enum rl_outcome extend_outcome; /* not NONE: the caller's extension has ended */
};

/* ---- one round of votes: the nodes asked and their answers ----------------------------------- */

struct rl_tally {
    uint8_t nodes, quorum;
    rl_mask asked, granted, denied, absent, failed;
};
/* Nodes that are not in `asked` count as failed. */
void rl_tally_open(struct rl_tally *tally, unsigned nodes, unsigned quorum, rl_mask asked);
/* False: the vote is not part of this round. The node was not asked, or has answered already. */
bool rl_tally_vote(struct rl_tally *tally, unsigned node, enum rl_vote vote);
rl_mask rl_tally_pending(const struct rl_tally *tally);
void rl_tally_close(struct rl_tally *tally); /* pending nodes count as failed from now on */
/* The votes of these nodes, cast or still to come, do not count: the nodes have failed. False: they
 * had failed before. */
bool rl_tally_void(struct rl_tally *tally, rl_mask voided);
bool rl_tally_won(const struct rl_tally *tally);      /* a majority granted */
bool rl_tally_hopeless(const struct rl_tally *tally); /* granted + pending is below the quorum */
/* A majority granted, but a node with a fast clock is needed for it, and answers that are still to
 * come may make a majority without. */
bool rl_tally_may_get_steadier(const struct rl_tally *tally, const struct rl_terms *terms);
/* The nth smallest of the times of these nodes; RL_NEVER: there are fewer. */
rl_ns rl_nth_time(const rl_ns times[RL_NODES_MAX], rl_mask nodes, unsigned nth);

/* ---- which slot: the nodes' choices, and ours ------------------------------------------------ */

/* Each node gives the first slot that is free in our order. A majority for one slot wins at once;
 * otherwise we settle on the slot that most nodes gave and ask the others for it
 * (docs/use/slots.md).
 */
struct rl_slots {
    uint8_t slot;             /* the one that counts; 0: not settled yet */
    uint8_t at[RL_NODES_MAX]; /* the slot that a node gave; 0: none */
    rl_mask voted;            /* before it is settled: nodes that granted, for this proposal */
    rl_mask asked;            /* asked for the slot that counts */
    rl_mask others;           /* hold slots with another number of slots, ... */
    uint8_t other_slots;      /* ... with this one */
    rl_ns settle_at;          /* from then on silent nodes are not waited for */
};
/* The slot to settle on, given by most of the nodes in `counted`; 0: a later answer of a node in
 * `silent` may still make a majority, or no node gave one. */
unsigned rl_slots_choice(const struct rl_slots *slots, rl_mask counted, rl_mask silent,
                         unsigned quorum, rl_ns now);
/* Nodes that gave another slot than the one that counts. */
rl_mask rl_slots_elsewhere(const struct rl_slots *slots);

/* ---- one attempt ------------------------------------------------------------------------- */

enum rl_attempt_state {
    RL_ATTEMPT_IDLE = 0,
    RL_ATTEMPT_VOTING,
    RL_ATTEMPT_CONFIRMING,
    RL_ATTEMPT_WON,
    RL_ATTEMPT_LOST
};

struct rl_attempt {
    const struct rl_terms *terms;
    enum rl_attempt_state state;
    enum rl_outcome outcome; /* when LOST */
    struct rl_tally tally;
    rl_ns t1;           /* when the SETs went out */
    rl_ns validity_end; /* when WON: t1 + ttl - drift, ... */
    uint32_t drift_ppm; /* ... with this allowance */
    /* Guarded. A granted vote counts at the proposal that it was given for. Where the key holds our
     * token but the fence is too low (STALE), the attempt raises the fence again, to a higher
     * proposal for all nodes. */
    int64_t fence;      /* the proposal; when WON the fencing token */
    int64_t fence_seen; /* the highest fence that any node reported */
    rl_mask ours;       /* nodes that have reported our token in the key */
    rl_mask current;    /* asked for this proposal */
    rl_mask waiting;    /* asked, for any proposal, and not answered */
    uint8_t raises;
    struct rl_tally confirming;
    struct rl_slots slots;       /* when a slot is acquired */
    rl_ns asked_at;              /* t1, or when it settled on a slot */
    int64_t found[RL_NODES_MAX]; /* shared, guarded: the fence that each node of `ours` has */
};
void rl_attempt_init(struct rl_attempt *attempt, const struct rl_terms *terms);
void rl_attempt_step(struct rl_attempt *attempt, const struct rl_event *event, rl_ns now,
                     struct rl_actions *actions);

/* ---- waiting: when to watch, and when to contend -------------------------------------------- */

/* This many clients at the head of the queue are notified of changes; the others get their rank. */
#define RL_WAITING_ARMED 1

/* Used while nodes notify of changes. Without that, the random delay alone decides. All of it
 * is hints (docs/use/waiting.md). */
struct rl_waiting {
    const struct rl_terms *terms;
    bool active;
    int32_t rank;                /* clients before us; below 0: unknown */
    int32_t guess;               /* used when `rank` is unknown */
    rl_mask free, held;          /* as of the last read; in neither: unknown */
    rl_mask fresh;               /* read, and no change reported since */
    rl_mask freed;               /* found free after it was held; since `free_since` */
    rl_mask watching, again;     /* a watch is under way; and a change was reported meanwhile */
    rl_ns free_since;            /* since when a majority may be free, or RL_NEVER */
    rl_ns free_at[RL_NODES_MAX]; /* when a held key ends, or RL_NEVER */
    rl_ns watch_at, expire_at, poll_at;
    rl_ns watched_at, rtt; /* when the last watches began; how long they take */
    rl_ns poll_min, poll_max;
    unsigned quiet;   /* polls in a row, see rl_poll_delay() */
    rl_ns away_until; /* after a lost try */
    unsigned losses;  /* tries in a row since the lock was last seen held */
    bool wary;        /* a reported change looked like a release and was not one */
    bool joins;       /* a reader that has just become the first: those before it may be readers */
    uint64_t random;
};
/* For both ways to wait. The mean with one more measurement; a node that was stopped must not make
 * us wait as long as it was. */
rl_ns rl_round_trip(rl_ns mean, rl_ns took, const struct rl_terms *terms);
/* A poll that backs notifications: the more polls in a row have found nothing that was not notified
 * of, the rarer the next one. */
rl_ns rl_poll_delay(uint64_t *random, rl_ns delay_min, rl_ns delay_max, unsigned quiet);
rl_ns rl_poll_delay_most(rl_ns delay_max, unsigned quiet);
/* What each client before us has for its turn. */
rl_ns rl_round_trip_step(rl_ns mean);

void rl_waiting_begin(struct rl_waiting *waiting, const struct rl_terms *terms, rl_ns poll_min,
                      rl_ns poll_max, uint64_t random, rl_ns now, struct rl_actions *actions);
/* After a lost try whose keys are deleted. */
void rl_waiting_resume(struct rl_waiting *waiting, rl_ns now, struct rl_actions *actions);
/* Records what an event reports. Allowed in any state of the acquisition. */
void rl_waiting_note(struct rl_waiting *waiting, const struct rl_event *event, rl_ns now);
/* While sleeping, after rl_waiting_note(): true when it is time to try. */
bool rl_waiting_step(struct rl_waiting *waiting, const struct rl_event *event, rl_ns now,
                     struct rl_actions *actions);
rl_ns rl_waiting_wake_at(const struct rl_waiting *waiting);

/* ---- waiting, where nodes keep queues of their own ------------------------------------------ */

/* For how long a node reserves a free lock for its first waiter. A node with another time costs
 * time only. */
#define RL_RESERVED (100 * RL_MS)

/* Used while a majority of nodes keeps queues. All of it is hints (docs/use/waiting.md). */
struct rl_turns {
    const struct rl_terms *terms;
    bool active;
    bool asks;               /* too few nodes say that it is our turn, so the others are asked */
    int32_t rank;            /* as last reported; below 0: unknown */
    rl_mask keepers;         /* as of the last event */
    rl_mask places;          /* we are in their queues */
    rl_mask ours, taken;     /* we may try; we may not */
    rl_mask asked, notified; /* an answer is due; and a notification came meanwhile */
    rl_ns ends_at[RL_NODES_MAX];
    rl_ns free_at[RL_NODES_MAX]; /* when what is taken ends, or RL_NEVER */
    rl_ns poll_at, try_at;
    rl_ns away_until;    /* after lost tries that others split; 0: not away */
    rl_ns asked_at, rtt; /* when the last questions went out; how long they take */
    rl_ns poll_min, poll_max;
    unsigned quiet;  /* polls in a row, see rl_poll_delay() */
    unsigned losses; /* tries in a row since the lock was last seen held */
    unsigned splits; /* lost tries in a row of which some nodes granted each one */
    uint64_t random;
};
void rl_turns_begin(struct rl_turns *turns, const struct rl_terms *terms, rl_ns poll_min,
                    rl_ns poll_max, uint64_t random, rl_mask keepers, rl_ns now);
/* Asks the nodes where we have no place yet. */
void rl_turns_enter(struct rl_turns *turns, rl_ns now, struct rl_actions *actions);
/* Before a try. */
void rl_turns_try(struct rl_turns *turns);
/* After a lost try, whose keys are deleted from the nodes that granted it. */
void rl_turns_resume(struct rl_turns *turns, rl_mask granted, rl_ns now,
                     struct rl_actions *actions);
/* Records what an event reports. Allowed in any state of the acquisition. */
void rl_turns_note(struct rl_turns *turns, const struct rl_event *event, rl_ns now);
/* While sleeping, after rl_turns_note(): true when it is time to try. */
bool rl_turns_step(struct rl_turns *turns, const struct rl_event *event, rl_ns now,
                   struct rl_actions *actions);
rl_ns rl_turns_wake_at(const struct rl_turns *turns);

/* ---- an acquisition: attempts with cleaning up and random delays between ------------------- */

struct rl_retry_rules {
    uint32_t retries_max; /* UINT32_MAX: no limit */
    rl_ns deadline;       /* no try starts after it; RL_NEVER: no limit */
    rl_ns delay_min, delay_max;
    rl_ns connect_timeout; /* how long the first try waits for nodes to connect */
};

enum rl_acquire_state {
    RL_ACQUIRE_IDLE = 0,
    /* Waits for nodes to connect, until all are settled, or a majority is ready and one node
     * timeout has passed, or connect_timeout has passed. */
    RL_ACQUIRE_GATHERING,
    RL_ACQUIRE_VOTING,
    RL_ACQUIRE_CLEANING, /* lost: waits for the releases, at most one node timeout */
    RL_ACQUIRE_SLEEPING,
    RL_ACQUIRE_WON,
    RL_ACQUIRE_OVER
};

struct rl_acquire {
    const struct rl_terms *terms;
    struct rl_retry_rules rules;
    enum rl_acquire_state state;
    enum rl_outcome outcome;
    struct rl_attempt attempt;
    struct rl_tally cleaning;
    uint32_t tries;
    uint64_t random; /* state of the generator seeded at START */
    rl_ns since;     /* when this state began */
    rl_ns wake_at;
    bool cancelled;
    bool crowded, parked;        /* parked: other callers of this process are before us */
    bool starved;                /* in the last try too many nodes could not vote */
    rl_ns free_at[RL_NODES_MAX]; /* hints: when the holder's key ends on a node; 0 unknown */
    struct rl_waiting waiting;   /* at most one of the two is active */
    struct rl_turns turns;
};
void rl_acquire_init(struct rl_acquire *acquire, const struct rl_terms *terms,
                     const struct rl_retry_rules *rules);
void rl_acquire_step(struct rl_acquire *acquire, const struct rl_event *event, rl_ns now,
                     struct rl_actions *actions);

/* ---- a lease: renewal, extension, loss, release -------------------------------------------- */

/* Shared by locks, as the terms are. */
struct rl_lease_rules {
    rl_ns renew_every;     /* 0: the lease is not renewed */
    rl_ns hold_max;        /* 0: no limit; validity never reaches beyond START + hold_max */
    uint32_t renewals_max; /* 0: no limit */
    rl_ns lost_margin;     /* LOST is reported this long before validity ends */
};

enum rl_lease_state {
    RL_LEASE_NONE = 0,
    RL_LEASE_HELD,
    RL_LEASE_UNSURE,
    RL_LEASE_LOST,
    RL_LEASE_RELEASING,
    RL_LEASE_RELEASED
};

/* What a lease needs only for a step, and from step to step while a round, the caller's extension
 * or the release is under way. There may be a million leases, and nearly all of them rest. */
struct rl_lease_work {
    const struct rl_terms *terms;
    const struct rl_lease_rules *rules;
    rl_ns round_ttl;
    rl_ns want_ttl; /* the caller's extension, which waits for the round under way; 0: none */
    /* Guarded, adopted, not proven: a node that has extended in this round is asked to raise its
     * fence to the proposal, and counts when it has done so. */
    rl_mask extended;
    uint8_t raises; /* rounds of the caller's extension */
    union {
        struct rl_tally round;
        struct rl_tally unlocking; /* from the release on */
    };
};

struct rl_lease {
    struct rl_lease_work *work; /* not NULL in a step, and between steps until it rests */
    rl_ns began;
    rl_ns validity_end;
    /* The keys that prove it, on `provers`, were set or extended by `keys_ttl`, and end then by our
     * clock if the nodes' clocks do not run faster. */
    union {
        rl_ns keys_end;
        int64_t fence_seen; /* guarded, adopted, not proven: the highest fence of which we know */
    };
    rl_ns keys_ttl;
    rl_ns renew_at; /* next renewal; RL_NEVER */
    rl_ns round_t1;
    union {
        rl_ns unlocking_since; /* when RELEASING */
        /* guarded, adopted: the proposal; from the proof on, the token */
        int64_t fence;
    };
    uint32_t drift_ppm; /* the largest allowance so far: it never shrinks within a lease */
    uint32_t renewals;
    rl_mask asked; /* nodes that may hold our key; a release goes to them */
    /* Nodes that held it while the lease ran, by their last answers. A SET that is still under way
     * when the lease is lost may set the key after another client has held the lock, and then a
     * release finds it there. */
    rl_mask kept;
    rl_mask provers;
    rl_mask late; /* nodes that the last proof did not ask: they get the key when ready */
    /* Of these, nodes that are asked half a node timeout later: they owed an answer, so their key
     * is a little older, or they denied the SET while a release of the holder before may have been
     * on its way to them. */
    rl_mask behind;
    rl_mask repaired; /* in this round */
    rl_mask set;      /* since the last proof; or such a SET may be under way since before */
    rl_mask gone;     /* since the last proof: they had the key */
    /* Guarded: the members, of the listed nodes, and their quorum, when a majority last proved the
     * lease. No members: nothing proves it now. */
    rl_mask proven_members;
    uint8_t proven_quorum;
    uint8_t state;    /* enum rl_lease_state */
    bool adopted : 1; /* known by its token only: no validity is proven yet */
    bool round_open : 1;
    bool round_by_caller : 1;
    bool round_proven : 1; /* a majority extended in this round */
    bool disowned : 1;
};
/* Its validity may still run: until its end, where a renewal has failed. */
bool rl_lease_holds(const struct rl_lease *lease);
void rl_lease_init(struct rl_lease *lease, struct rl_lease_work *work, const struct rl_terms *terms,
                   const struct rl_lease_rules *rules);
/* While it rests, the caller may take `work` away. Before the next step it lends one again. */
bool rl_lease_rests(const struct rl_lease *lease);
void rl_lease_lend(struct rl_lease *lease, struct rl_lease_work *work, const struct rl_terms *terms,
                   const struct rl_lease_rules *rules);
/* The START of the lease that a won attempt brings, without what every event carries. */
struct rl_event rl_lease_start(const struct rl_attempt *won);
/* START with validity_end = 0 adopts a lock by its token. The first proven extension then brings
 * the state HELD; guarded: with a new fencing token, `fence`. */
void rl_lease_step(struct rl_lease *lease, const struct rl_event *event, rl_ns now,
                   struct rl_actions *actions);
/* The caller forgets it: it is renewed no more. Nodes that are late still get the key. */
void rl_lease_disown(struct rl_lease *lease);
/* What its votes rest on has ended, and so has its validity: the next step reports the loss. */
void rl_lease_void(struct rl_lease *lease, rl_ns now);
/* The validity that is certain at `now`; 0 when the lock is lost or released, or nothing is
 * proven. */
rl_ns rl_lease_validity(const struct rl_lease *lease, rl_ns now);

/* For traces and messages; never NULL. */
const char *rl_acquire_state_name(enum rl_acquire_state state);
const char *rl_lease_state_name(enum rl_lease_state state);
const char *rl_outcome_name(enum rl_outcome outcome);
const char *rl_vote_name(enum rl_vote vote);

#endif
