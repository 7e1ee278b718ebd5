/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The internals of src/client/locks: a lock, the memory that it needs while an operation is under
 * way, and the functions that its files share. The mutex is held. */
#ifndef RL_CLIENT_LOCK_H
#define RL_CLIENT_LOCK_H

#include <stdatomic.h>
#include <stddef.h>

#include "chains.h"
#include "core/guard.h"
#include "core/mix.h"
#include "locks.h"

/* Freed memory of one size, kept for the next use. */
struct pool {
    void *first;
    unsigned count;
};

struct renewals {
    /* a heap of the waiting renewals, so that no lock is lost before its parent */
    struct redlock_lock **due;
    uint32_t count, room;
    const struct redlock_lock *picked; /* it is this lock's turn */
    unsigned under_way;
    unsigned window;          /* the limit of renewals under way */
    rl_ns took;               /* the quickest renewal so far; 0: none */
    unsigned held;            /* locks that are held and to be renewed, ... */
    uint64_t needed_in_1e6_s; /* ... and how many renewals they need in a million seconds */
    unsigned threshold;       /* it grows fast up to this: a higher value was once too high */
    unsigned won;             /* renewals that succeeded since it last grew */
    rl_ns cut_at;             /* when it was last cut */
    rl_ns busy_since;         /* some renewal waits since then, ... */
    uint64_t done_since;      /* ... and this many were renewed meanwhile */
    rl_ns reported_at;        /* when the log last had that renewals do not keep up; 0: never */
    struct net_timer timer;   /* fires when one that waits may begin */
    bool awake;               /* the timer is set */
};

/* Locks without their key on some nodes; and disowned ones. */
struct late_locks {
    struct late_lock *first, *last;
    unsigned count, left, disowned; /* left: to be looked at, from the first on */
    rl_mask nodes;                  /* that lack a key; perhaps a few more */
    struct net_timer timer;
};

/* The options that locks with equal settings share. */
enum { LOCK_VALUES = 15 };
struct lock_config {
    struct chained by_values;
    int64_t values[LOCK_VALUES]; /* of the options, and whether the mode is fenced */
    const struct lock_mode *mode;
    unsigned locks;
    /* without owner and the context of on_change, which belong to each lock */
    struct redlock_lock_options options;
    struct rl_terms terms;
    struct rl_lease_rules rules;
};

/* "/64", between the digits and the owner of a slot's token */
enum { SLOTS_TEXT_BYTES = 3 };
enum {
    ROUND_TOKEN_BYTES = REDLOCK_TOKEN_HEX_BYTES + SLOTS_TEXT_BYTES + 1 + REDLOCK_OWNER_BYTES_MAX
};

/* The slots of a lock's resource, whose key is the lock's. A lock with slots has no other key. */
struct slots {
    uint8_t count;
    uint8_t held;  /* the slot that was settled on in this try, or is held; 0: none */
    uint8_t other; /* the number of slots that others gave, when that ended the last acquisition */
    uint16_t *stripes;       /* of the slots */
    struct net_bytes keys[]; /* of the slots; then the stripes and the keys' bytes */
};

/* What a round of a lock with slots has in addition: the first request of a try. The round's
 * `acquire` asks for the slot that was settled on, and so does a repair. */
struct slot_round {
    struct net_request choose, leave;
    char settled[2]; /* the slot as two digits */
    char order[RL_SLOTS_MAX * 3];
    struct net_bytes leave_keys[];
};

/* The calls made with one token. A round outlives its lock's use of it while a node owes an answer.
 * A lock that waits for no answer has none. */
struct round {
    struct redlock_lock *lock;
    unsigned refs;  /* one for the lock while this is its current round, one for each busy call */
    rl_mask voting; /* nodes with a busy vote */
    rl_mask told;   /* nodes whose denial said how long the holder's key has left */
    uint16_t token_bytes;
    /* own_token, or for a longer token after all else; such a round does not go to the pool */
    unsigned char *token;
    unsigned char own_token[ROUND_TOKEN_BYTES];
    struct net_request acquire, extend, release, peek;
    /* guarded: the classic request; in classic mode `acquire` serves for it */
    struct net_request *repair;
    /* guarded, by node: raise or confirm; one for each node, because proposals overlap */
    struct net_request *again;
    uint64_t *nonces;         /* guarded, by node: the nonce of its last request */
    struct slot_round *slots; /* NULL: a lock without slots */
    /* nodes votes, nodes unlocks, nodes peeks; then `repair`, `again` and `nonces` */
    struct net_call calls[];
};

/* The place of an acquisition in a wait queue. */
struct place {
    struct wait_queue *queue; /* where it waits; NULL: it does not wait */
    struct redlock_lock *next, **at;
    rl_ns since;
    int64_t since_us; /* the same, by the wall clock */
};

/* What a lock needs only until it is taken. */
struct acquisition {
    struct rl_acquire machine;
    struct redlock_lock *lock;
    struct place place;
    /* not OK: why the library cancelled the acquisition itself; or TURNED_GUARDED */
    int abort_result;
    /* No node could report its rank in the queue, and the machine does not have this event yet. */
    bool unranked;
    rl_ns since;                    /* when the caller asked */
    struct acquisition *next, **at; /* in the client's list; `at` is NULL outside it */
};

/* Not a result: the acquisition was cancelled to begin again as guarded. */
enum { TURNED_GUARDED = 1 };

/* DISOWNED: free for the user; its late nodes still get the key. */
enum phase { PHASE_FREE, PHASE_ACQUIRING, PHASE_LEASED, PHASE_RELEASING, PHASE_DISOWNED };

/* An operation that a blocked thread or a callback waits for. */
struct op {
    bool active, finished;
    int result;
    struct waiter *waiter;
    redlock_done_fn *done;
    void *context;
    /* Fires at once when the caller cancels the operation or frees the lock. NULL: the machines
     * learn of that, or it ends soon. */
    struct net_timer *stop;
};

/* A lock without its key on some nodes, or a disowned one. */
struct late_lock {
    struct redlock_lock *lock; /* NULL: it is not listed */
    struct late_lock *next, *previous;
    rl_ns end; /* of a disowned one */
};

/* What a lock needs only while something is under way, and what few locks have at all. A lock has
 * it while any of this is in use. */
struct extra {
    struct op op; /* acquire or release */
    struct op extension;
    struct acquisition *acquisition; /* while it is being acquired */
    struct rl_lease_work work;
    /* Sends that failed at once, by kind; the machine does not have these events yet. Both are 0
     * between steps. */
    rl_mask unsent, unsent_release;
    struct round *round;
    struct late_lock late;
    struct slots *slots;    /* NULL: the lock has none */
    struct net_bytes *pair; /* its key, and the name of its readers; NULL: never downgraded */
    unsigned char *token;   /* adopted, and too long for the space after the lock; else NULL */
    rl_ns parked_t1;        /* of the round that began then ... */
    rl_mask parked;         /* ... the extensions that wait */
    struct redlock_lock *parked_next, **parked_at; /* `at` is NULL outside the client's list */
};
extern const struct extra nothing_extra;

/* What a client keeps for all of its locks. */
struct locks {
    struct redlock_client *client;
    struct acquisition *acquiring; /* those under way; they are notified when nodes come and go */
    struct chains lock_configs;
    struct lock_config *lock_config_last; /* the one last used; NULL: it is gone */
    struct pool rounds, acquisitions, extras;
    struct extra spare;              /* a step uses it when memory runs out */
    struct renewals renewals;        /* the renewals that are due */
    struct wait_queues *wait_queues; /* NULL: no caller has waited yet */
    /* Locks with extensions that wait until a node's record has been read again. */
    struct redlock_lock *parked;
    struct redlock_lock *leased; /* locks with a lease, until it is released */
    struct late_locks late;
};

/* A process may have a million of these, held and idle. */
struct redlock_lock {
    struct redlock_client *client;
    struct lock_config *config;
    struct extra *extra; /* NULL: it needs none of it now */
    unsigned refs;       /* of the user, the rounds, and a running callback */
    uint32_t due_place;  /* among the renewals that are due, plus 1; 0: it does not wait */
    uint16_t token_bytes;
    uint8_t phase;      /* enum phase */
    uint8_t notices;    /* enum rl_notice, ored: to report */
    uint8_t keys_count; /* of the resources */
    uint8_t owner_bytes;
    atomic_bool freed; /* by the user */
    bool stepping : 1;
    bool shared : 1;    /* keys[1] is the name under which the readers are listed */
    bool reads : 1;     /* until its release, by redlock_downgrade(): `pair` */
    bool cancelled : 1; /* by the user, since redlock_acquire_all() or _many() began */
    bool counted : 1;   /* counted in its configuration's `held` */
    bool renewing : 1;  /* counted among the renewals under way */
    void *on_change_context;
    struct notified notified; /* its callbacks */
    /* in the client's list; `at` is NULL outside it */
    struct redlock_lock *leased_next, **leased_at;
    struct net_timer timer;
    struct rl_lease lease;
    /* Followed by the fenced part, the verdicts of the nodes, the keys' bytes, the owner and the
     * token. */
    struct net_bytes keys[];
};
_Static_assert(sizeof(struct redlock_lock) <= 216,
               "with key, token and the allocator's own a held lock is to take 300 bytes");

/* What a lock has after its keys if it may be guarded. */
struct fenced {
    int64_t fence; /* the fencing token; 0: unknown */
    uint16_t stripes_count;
    uint16_t stripes[]; /* of the keys; each stripe once */
};

_Static_assert(REDLOCK_RESOURCES_MAX <= UINT8_MAX && REDLOCK_OWNER_BYTES_MAX <= UINT8_MAX,
               "counted in a byte");

/* lock.c */
int acquire_begin(struct redlock_lock *lock, int64_t wait_ms, redlock_done_fn *done, void *context);
int release_begin(struct redlock_lock *lock, redlock_done_fn *done, void *context);
/* Releases the mutex. `which`: lock_op() or lock_extension(). `result`: of beginning the operation;
 * OK: waits for its end. */
int op_await(struct redlock_lock *lock, struct op *which(const struct redlock_lock *lock),
             int result);
/* For a lock that adopted a token: its first round waits for the nodes. */
void gather_for_adopted(struct redlock_lock *lock);

/* events.c: histograms, the event hook, tracepoints. Verdicts and fence are those of the event. */
void events_acquired(struct redlock_lock *lock, rl_ns now);
void events_failed(const struct redlock_lock *lock, int result, rl_ns now);
/* What a step of the lease reports. `extension` is the result of the caller's, if it has ended;
 * `t1`: round_t1 as it was before the step. */
void events_lease(const struct redlock_lock *lock, const struct rl_actions *actions, int extension,
                  rl_ns t1, rl_ns now);
/* By a release; or by the loss. */
void events_hold_ended(struct redlock_lock *lock, bool lost, rl_ns now);
void events_released(const struct redlock_lock *lock, int result, rl_ns now);
void events_disowned(const struct redlock_lock *lock, rl_ns now);

/* trace.c: logs what one step did. Only for a client that is traced. */
void lock_trace(const struct redlock_lock *lock, const struct rl_event *event,
                const struct rl_actions *actions, rl_ns now);

/* pool.c */
/* Zeroed when it is new; NULL: no memory. `reserve` of them stay for others. */
void *pool_take(struct pool *pool, size_t bytes, unsigned reserve);
void pool_give(struct pool *pool, void *memory);
void pool_empty(struct pool *pool);

/* round.c */
/* The lock's own round, or one with its token; NULL: no memory. The reserved one is for a
 * release. */
struct round *round_of(struct redlock_lock *lock, bool release);
/* token NULL: a random one */
int lock_fresh_round(struct redlock_lock *lock, const void *token, size_t bytes);
void lock_drop_round(struct redlock_lock *lock);
void lock_rest(struct redlock_lock *lock); /* frees the round if nothing is under way */
void round_unref(struct round *round);
/* Fills in all that differs between uses of the round's memory. `extend` and `peek` are filled just
 * before they are sent: most rounds do not need them. */
void round_fill_in(struct round *round, struct net_request *request);
void round_fill_repair(struct round *round, rl_ns ttl);

/* lock_memory.c */
/* The key prefix goes before each resource. NULL: no memory. */
struct redlock_lock *lock_alloc(struct redlock_client *client,
                                const struct redlock_bytes *resources, size_t count,
                                const struct redlock_lock_options *options);
/* Without its configuration. */
void lock_dealloc(struct redlock_lock *lock);
/* The memory that `extra` points to; NULL: no memory. The reserved one is for a release. */
struct extra *extra_take(struct redlock_lock *lock, bool release);
/* For a step of the lease; without memory the client's own, until the end of the step. */
struct extra *extra_of_step(struct redlock_lock *lock);
void extra_rest(struct redlock_lock *lock); /* gives it back if nothing in it is in use */
void lock_unref(struct redlock_lock *lock);
/* A key, and the name of its readers; NULL: no memory. */
struct net_bytes *lock_pair_new(struct net_bytes key);

/* lock_config.c */
/* NULL: no memory */
struct lock_config *lock_config_of(struct redlock_client *client,
                                   const struct redlock_lock_options *options);
void lock_config_drop(struct redlock_client *client, struct lock_config *config);
/* The client may have turned guarded since the lock was made. OK; or NO_MEMORY. */
int lock_config_follow_mode(struct redlock_lock *lock);

/* notify.c: what a lock reports to its user */
void op_begin(struct redlock_lock *lock, struct op *op, redlock_done_fn *done, void *context);
/* does nothing if the operation is not active, or NULL */
void op_finish(struct redlock_lock *lock, struct op *op, int result);
/* The lock is being freed: calls `done`, if it is still due. Releases the mutex meanwhile. */
void op_cancel(struct redlock_lock *lock, struct op *op);
void lock_notice(struct redlock_lock *lock, unsigned notices); /* enum rl_notice, ored */

/* announce.c: to observers; nothing waits for their answers */
void lock_announce(struct redlock_lock *lock, rl_mask nodes, rl_ns now);

/* step.c: between the machines and the connections */
void lock_step(struct redlock_lock *lock, struct rl_event event);
void lock_send(struct redlock_lock *lock, rl_mask nodes, struct net_request *request,
               struct net_call *calls, rl_ns now);
void lock_on_timer(struct net_timer *timer); /* the lock's */
net_answered_fn lock_vote_reply, lock_unlock_reply, lock_peek_reply;
void lease_init(struct redlock_lock *lock);
void leased_remove(struct redlock_lock *lock); /* does nothing if it is not listed */
bool acquiring_add(struct redlock_lock *lock); /* false: no memory */
void acquiring_remove(struct redlock_lock *lock);

/* vote.c: the event for an answer to a vote. Also records what the answer reports of its node. */
struct rl_event classic_vote(struct redlock_lock *lock, const struct net_call *call,
                             const struct net_reply *reply);
/* *counted: the verdict that the vote rests on, which may be less than the reply's. */
struct rl_event guarded_vote(struct redlock_lock *lock, const struct net_call *call,
                             const struct net_reply *reply, int *counted);
enum rl_vote lock_vote_of(int verdict);
/* A round that ended at its deadline counts the silent nodes as failed; a round that was decided
 * earlier does not. */
void verdicts_close(struct redlock_lock *lock, rl_mask silent);

static inline bool call_extends(const struct net_call *call) {
    return call->request->op == NET_EXTEND || call->request->op == NET_SHARE_EXTEND;
}
/* Its next extension brings a new fencing token. */
static inline bool lock_adopts(const struct redlock_lock *lock) {
    return lock->phase == PHASE_LEASED && lock->lease.adopted && lock->lease.state == RL_LEASE_NONE;
}

/* wait_queue.c */
/* Before an acquisition starts: decides whether it goes behind others, of this process or of other
 * clients. */
void wait_queue_begin(struct redlock_lock *lock, bool may_wait, struct rl_event *start);
/* For each event of an acquisition. */
void wait_queue_event(struct redlock_lock *lock, struct rl_event *event);
/* After each step of an acquisition. */
void wait_queue_carry_out(struct redlock_lock *lock, const struct rl_actions *actions, rl_ns now);
/* Before the request of a try is sent. A native node that denies it keeps a place for it. */
void wait_queue_try(struct redlock_lock *lock, struct net_request *acquire, rl_ns now);
/* The same for a repair, which does not wait. */
void wait_queue_repair(struct net_request *repair);
/* A native node reports with its vote whether others wait. */
void wait_queue_granted(struct redlock_lock *lock, const struct net_call *call,
                        const struct net_reply *reply);
/* A native node denied a try, and said how long the lock has left. False: it is not for the
 * queue. */
bool wait_queue_denied(struct round *round, const struct net_call *call,
                       const struct net_reply *reply);
/* It waits no longer. */
void wait_queue_leave(struct redlock_lock *lock);
/* Nodes are about to get a release. They do not notify waiters of this process of it. */
void wait_queue_released(struct redlock_lock *lock, rl_mask nodes);

void wait_queues_free(struct wait_queues *wait_queues); /* NULL: nothing */

/* late.c */
void late_init(struct late_locks *all);
/* After a step: the lease may have gained or lost nodes that are late. */
void late_stepped(struct redlock_lock *lock);
void late_forget(struct redlock_lock *lock);
/* The user has just forgotten the lock, which was held until then. */
void late_disown(struct redlock_lock *lock);
/* Of a disowned lock, whose lease wants to be woken at `wake_at`. */
rl_ns late_wake_at(const struct redlock_lock *lock, rl_ns wake_at);
/* Its late nodes get nothing any more. Only for a disowned lock. */
void late_end(struct redlock_lock *lock);
/* The same for all locks with that token: whoever uses it now may release it. */
void late_end_token(struct redlock_client *client, const void *token, size_t bytes);
void late_check(struct redlock_client *client);

/* renewals.c */
void renewals_init(struct renewals *renewals);
/* Before a lease's step: decides whether a renewal that is due must wait. */
void renewals_event(struct redlock_lock *lock, struct rl_event *event);
/* After a lease's step. */
void renewals_stepped(struct redlock_lock *lock, const struct rl_actions *actions, rl_ns now);
/* The lease has ended, or belongs to the lock no longer. */
void renewals_forget(struct redlock_lock *lock);

/* slots.c */
/* Each slot has a name of its own, and each client keeps all of them. */
enum { SLOTS_RESOURCE_BYTES_MAX = 1024, SLOTS_KEY_BYTES_MAX = SLOTS_RESOURCE_BYTES_MAX + 8 };
/* NULL: no memory. `count`: 1 to RL_SLOTS_MAX. */
struct slots *slots_new(struct net_bytes resource, unsigned count);
/* The lock becomes one of so many slots; 0: an ordinary lock. False: no memory. */
bool slots_add(struct redlock_lock *lock, unsigned count);
/* If it is the key of a slot, *key becomes that of the first slot, written to `out`. */
bool slots_first(struct net_bytes *key, unsigned char out[SLOTS_KEY_BYTES_MAX]);
/* Puts the number of slots behind the digits of a token. Returns its length. */
size_t slots_write_count(const struct slots *slots, unsigned char *at);
/* The requests of a round with a new token. False: no memory. */
bool slots_carry(struct round *round);
/* Before the requests of a step are sent: the machine may have settled on a slot. */
void slots_settle(struct redlock_lock *lock);
void slots_won(struct redlock_lock *lock);
/* Asks for any slot, or for the one that was settled on. */
struct net_request *slots_request(struct redlock_lock *lock, const struct rl_actions *actions);
/* Deletes what is left of the other slots. */
void slots_leave(struct redlock_lock *lock, rl_mask nodes, rl_ns now);
/* ---- what follows a lock in its allocation ---- */

static inline size_t names_of(const struct redlock_lock *lock) {
    return lock->keys_count + (size_t)lock->shared;
}
static inline size_t fenced_bytes(const struct redlock_client *client, size_t keys) {
    if (!client->lock_layout->fenced) return 0;
    return offsetof(struct fenced, stripes) + keys * sizeof(uint16_t);
}
/* NULL: it is never guarded */
static inline struct fenced *lock_fenced(const struct redlock_lock *lock) {
    if (!lock->client->lock_layout->fenced) return NULL;
    return (struct fenced *)(void *)(lock->keys + names_of(lock));
}
/* By node. */
static inline uint8_t *lock_verdicts(const struct redlock_lock *lock) {
    return (uint8_t *)(lock->keys + names_of(lock)) + fenced_bytes(lock->client, lock->keys_count);
}
/* The space after the lock. */
static inline unsigned char *lock_own_token(const struct redlock_lock *lock) {
    const struct net_bytes *last = &lock->keys[names_of(lock) - 1];
    return (unsigned char *)last->data + last->bytes + lock->owner_bytes;
}

/* ---- what a lock has now, and what it reads as without its extra memory ---- */

static inline const struct extra *extra_of(const struct redlock_lock *lock) {
    return lock->extra ? lock->extra : &nothing_extra;
}
static inline struct op *lock_op(const struct redlock_lock *lock) {
    return lock->extra ? &lock->extra->op : NULL;
}
static inline struct op *lock_extension(const struct redlock_lock *lock) {
    return lock->extra ? &lock->extra->extension : NULL;
}
/* It is under way, or its result has not been fetched yet. */
static inline bool op_is_busy(const struct op *op) { return op && (op->active || op->finished); }
static inline struct round *round_now(const struct redlock_lock *lock) {
    return extra_of(lock)->round;
}
static inline struct slots *slots_of(const struct redlock_lock *lock) {
    return extra_of(lock)->slots;
}
/* Not OK: the library cancels the acquisition. */
static inline int abort_result_of(const struct redlock_lock *lock) {
    return lock->phase == PHASE_ACQUIRING ? lock->extra->acquisition->abort_result : REDLOCK_OK;
}
static inline unsigned char *token_of(const struct redlock_lock *lock) {
    unsigned char *elsewhere = extra_of(lock)->token;
    return elsewhere ? elsewhere : lock_own_token(lock);
}
static inline int64_t lock_fence(const struct redlock_lock *lock) {
    const struct fenced *fenced = lock_fenced(lock);
    return fenced ? fenced->fence : 0;
}

/* Nothing is under way for the user. */
static inline bool lock_is_idle(const struct redlock_lock *lock) {
    return lock->phase == PHASE_FREE || lock->phase == PHASE_DISOWNED;
}

/* A reader: the nodes list it, or would after its next extension. */
static inline bool lock_reads(const struct redlock_lock *lock) {
    return lock->shared || lock->reads;
}

/* All that a lock's requests name. */
static inline const struct net_bytes *lock_keys(const struct redlock_lock *lock, size_t *count) {
    const struct slots *slots = slots_of(lock);
    if (lock->reads) {
        *count = 1;
        return extra_of(lock)->pair;
    }
    *count = !slots ? lock->keys_count : slots->held ? 1 : slots->count;
    return !slots ? lock->keys : &slots->keys[slots->held ? slots->held - 1 : 0];
}

/* fenced.c */
/* docs/inside/guarded.md fixes this, because all clients must agree. */
static inline uint16_t fenced_stripe(struct net_bytes key) {
    return rl_fnv1a(RL_FNV_BASIS, key.data, key.bytes) % RL_STRIPES;
}
void fenced_unpark(struct redlock_lock *lock);

#endif
