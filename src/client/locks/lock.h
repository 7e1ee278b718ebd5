/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The inside of this room: a lock, what it needs while something is under way, and what its files
 * do for each other. The mutex is held.
 */
#ifndef RL_CLIENT_LOCK_H
#define RL_CLIENT_LOCK_H

#include <stdatomic.h>

#include "chains.h"
#include "locks.h"

/* Freed memory of one size, kept for the next that needs it. */
struct pool {
    void *first;
    unsigned count;
};

struct renewals {
    struct redlock_lock **due; /* a heap of those that wait: no lock is lost before its parent */
    uint32_t count, room;
    const struct redlock_lock *picked; /* its turn is now */
    unsigned under_way;
    unsigned window,
        threshold;    /* so many may be; to which it grows fast, since above it was once too wide */
    unsigned won;     /* since it grew last */
    rl_ns cut_at;     /* when it was cut last */
    rl_ns busy_since; /* some wait since then, ... */
    uint64_t done_since;    /* ... and so many were renewed meanwhile */
    rl_ns reported_at;      /* that they do not keep up; 0: never */
    struct net_timer timer; /* there is room for one that waits */
    bool awake;             /* it is set */
};

/* This room's part of a client. */
struct locks {
    struct redlock_client *client;
    struct acquisition *acquiring; /* those under way: they hear of nodes that come and go */
    struct chains lock_configs;
    struct lock_config *lock_config_last; /* used last; NULL: gone */
    struct pool rounds, acquisitions;
    struct renewals renewals;        /* those that are due */
    struct wait_queues *wait_queues; /* who waits for what; NULL: nobody has waited yet */
    struct redlock_lock *parked; /* locks with extensions that wait until a node's record has been
                                    read again */
};

/* What locks made with the same options share. */
struct lock_config {
    struct chained by_options;
    unsigned locks;
    unsigned held;                       /* of them, and to be renewed */
    struct redlock_lock_options options; /* without owner and on_change, which are the lock's own */
    struct rl_terms terms;
};

enum { ROUND_TOKEN_BYTES = REDLOCK_TOKEN_HEX_BYTES + 1 + REDLOCK_OWNER_BYTES_MAX };

/* The calls made with one token. It outlives the lock's interest in it while a node owes an answer;
 * a lock that waits for none has none. */
struct round {
    struct redlock_lock *lock;
    unsigned refs;  /* one for the lock while it is its current round, one for each busy call */
    rl_mask voting; /* nodes with a busy vote */
    uint16_t token_bytes;
    unsigned char *token; /* own_token, or for a longer one behind all else: such a round is not for
                             the pool */
    unsigned char own_token[ROUND_TOKEN_BYTES];
    struct net_request acquire, extend, release, peek;
    struct net_request *repair; /* guarded: the classic request. Else `acquire` is that already */
    struct net_request
        *again;       /* guarded, by node: raise or confirm. Not one for all: proposals overlap */
    uint64_t *nonces; /* guarded, by node: under which it was asked last */
    struct net_call
        calls[]; /* nodes votes, nodes unlocks, nodes peeks; then `repair`, `again` and `nonces` */
};

/* Of an acquisition. */
struct place {
    struct wait_queue *queue; /* where it waits; NULL: it does not */
    struct redlock_lock *next, **at;
    rl_ns since;
};

/* What a lock needs only until it is taken. */
struct acquisition {
    struct rl_acquire machine;
    struct redlock_lock *lock;
    struct place place;
    struct acquisition *next, **at; /* in the client's list; at is NULL outside it */
};

enum phase { PHASE_FREE, PHASE_ACQUIRING, PHASE_LEASED, PHASE_RELEASING };

/* An operation that somebody waits for: a blocked thread, or a callback. */
struct op {
    bool active, finished;
    int result;
    struct waiter *waiter;
    redlock_done_fn *done;
    void *context;
};

/* There may be a hundred thousand of them, held and at rest. What is needed only now and then
 * belongs to a round or an acquisition, what many have in common to their configuration. */
struct redlock_lock {
    struct redlock_client *client;
    struct lock_config *config;
    unsigned refs;     /* the user's, the rounds', a running callback's */
    atomic_bool freed; /* by the user */
    bool stepping;
    bool unranked; /* nobody can tell its rank in the queue, which is yet to be told to the machine
                    */
    uint8_t phase; /* enum phase */
    uint8_t keys_count, stripes_count;
    uint8_t changes; /* notices to be told, ored */
    rl_mask unsent;  /* sends that failed at once and are yet to be told to the machine, by kind */
    rl_mask unsent_release;
    rl_mask parked; /* extensions that wait, ... */
    uint8_t verdicts[REDLOCK_NODES_MAX];
    uint8_t owner_bytes;
    uint16_t token_bytes;
    bool counted;       /* among its configuration's held ones */
    bool renewing;      /* counted among the renewals under way, ... */
    uint32_t due_place; /* ... or one of those that wait: its place among them and 1. 0: it does not
                           wait */
    int abort_result;   /* not OK: why we cancelled the acquisition ourselves */
    unsigned char
        *token; /* of the lease: behind the lock, or where it is too long for that, allocated */
    uint16_t *stripes;               /* guarded: those of the keys, each once */
    int64_t fence;                   /* guarded: the fencing token; 0 unknown */
    struct acquisition *acquisition; /* while it is being acquired */
    struct round *round;
    struct rl_lease lease;
    struct net_timer timer;

    struct op op; /* acquire or release */
    struct op extension;
    redlock_change_fn *on_change;
    void *on_change_context;

    rl_ns parked_t1;                               /* ... of the round that began then */
    struct redlock_lock *parked_next, **parked_at; /* in the client's list; at is NULL outside it */
    struct notified notified;                      /* its callbacks */
    struct net_bytes keys[]; /* then the stripes, the keys' bytes, the owner and the token */
};
_Static_assert(sizeof(struct redlock_lock) <= 448,
               "with token, key and the allocator's own a held lock is to take 512 bytes");
_Static_assert(REDLOCK_RESOURCES_MAX <= UINT8_MAX && REDLOCK_OWNER_BYTES_MAX <= UINT8_MAX,
               "counted in a byte");

/* lock.c */
void lock_unref(struct redlock_lock *lock);
int acquire_begin(struct redlock_lock *lock, int64_t wait_ms, redlock_done_fn *done, void *context);
int release_begin(struct redlock_lock *lock, redlock_done_fn *done, void *context);
/* Of a lock that took over a token: its first round waits for the nodes. */
void gather_for_adopted(struct redlock_lock *lock);

/* trace.c: what one step did. Only for a client that is traced */
void lock_trace(const struct redlock_lock *lock, const struct rl_event *event,
                const struct rl_actions *actions, rl_ns now);

/* round.c */
/* Zeroed when it is new; NULL: no memory. So many stay for others. */
void *pool_take(struct pool *pool, size_t bytes, unsigned reserve);
void pool_give(struct pool *pool, void *memory);
void pool_empty(struct pool *pool);
/* Its own, or one with its token; NULL: no memory. The one in reserve is for a release. */
struct round *round_of(struct redlock_lock *lock, bool release);
int lock_fresh_round(struct redlock_lock *lock, const void *token,
                     size_t bytes); /* token NULL: a random one */
void lock_drop_round(struct redlock_lock *lock);
void lock_rest(struct redlock_lock *lock); /* gives the round back if nothing is under way */
void round_unref(struct round *round);
/* All but what stays the same in any use of the round's memory. For `extend` and `peek` just before
 * they are sent: most rounds have no need of them. */
void round_fill_in(struct round *round, struct net_request *request);
unsigned char *lock_own_token(struct redlock_lock *lock); /* the place behind the lock */
static inline struct net_call *unlock_calls(struct round *round, unsigned nodes) {
    return &round->calls[nodes];
}
static inline struct net_call *peek_calls(struct round *round, unsigned nodes) {
    return &round->calls[2 * nodes];
}

/* lock_config.c */
struct lock_config *
lock_config_of(struct redlock_client *client,
               const struct redlock_lock_options *options); /* NULL: no memory */
void lock_config_drop(struct redlock_client *client, struct lock_config *config);

/* notify.c: what a lock's user hears of it */
void op_finish(struct redlock_lock *lock, struct op *op, int result); /* nothing if not active */
void lock_notice(struct redlock_lock *lock, unsigned notices);        /* enum rl_notice, ored */

/* step.c: between the machines and the connections */
void lock_step(struct redlock_lock *lock, struct rl_event event);
void lock_send(struct redlock_lock *lock, rl_mask nodes, struct net_request *request,
               struct net_call *calls, rl_ns now);
/* The event that the answer to a vote is; what the lock reports of its node is noted. */
struct rl_event vote_event(struct redlock_lock *lock, const struct net_call *call, int verdict);
void lock_on_timer(struct net_timer *timer); /* the lock's */
void lease_init(struct redlock_lock *lock);
bool acquiring_add(struct redlock_lock *lock); /* false: no memory */
void acquiring_remove(struct redlock_lock *lock);

/* wait_queue.c */
/* Before an acquisition starts: whether it goes behind others, of this process or of the others. */
void wait_queue_begin(struct redlock_lock *lock, bool may_wait, struct rl_event *start);
/* Of each of its events. */
void wait_queue_event(struct redlock_lock *lock, struct rl_event *event);
/* After each of its steps. */
void wait_queue_carry_out(struct redlock_lock *lock, const struct rl_actions *actions, rl_ns now);
/* It waits no longer. */
void wait_queue_leave(struct redlock_lock *lock);
/* Nodes are about to get a release: who waits here is not told of it by them. */
void wait_queue_released(struct redlock_lock *lock, rl_mask nodes);

void wait_queues_free(struct wait_queues *wait_queues); /* NULL: nothing */

/* renewals.c */
void renewals_init(struct renewals *renewals);
/* Before a lease's step: whether a renewal that is due must wait. */
void renewals_event(struct redlock_lock *lock, struct rl_event *event);
/* After it. */
void renewals_stepped(struct redlock_lock *lock, const struct rl_actions *actions, rl_ns now);
/* It is nobody's lease any more. */
void renewals_forget(struct redlock_lock *lock);

/* fenced.c */
void fenced_unpark(struct redlock_lock *lock);

#endif
