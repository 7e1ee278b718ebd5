/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The native node's wait queue: who waits for each lock, in the order in which they came. No clock
 * and no I/O: time comes in as `now_us` (the clock of a native table, in microseconds), and
 * messages go out through a callback.
 *
 * When a lock becomes free, it is reserved for the first waiter for a short time, and that waiter
 * is notified. Meanwhile every other acquire is denied. A waiter that does not come in time loses
 * its place, and the lock is reserved for the next. So a queue delays a lock by at most the
 * reservation for each waiter that does not come. Everything here is a hint: a lost or false queue
 * costs time, never correctness. A waiter that lost its place comes back with its age.
 *
 * Each call costs a number of steps that grows with the logarithm of the number of waiters; but
 * node_queue_free(). */
#ifndef RL_NODE_QUEUE_H
#define RL_NODE_QUEUE_H

#include "node/table.h"

/* "Notify this waiter": there are `rank` waiters before it. `turn`: the lock is reserved for it now
 * (rank 0). Key and waiter are valid during the call, which must not call the queue. */
typedef void node_notify_fn(void *context, struct node_bytes key, struct node_bytes waiter,
                            size_t rank, bool turn);

enum { NODE_RESERVE_US = 100000 };

struct node_queue_options {
    uint64_t seed;      /* of the hash */
    size_t bytes_max;   /* 0: no limit */
    int64_t reserve_us; /* for how long a free lock waits for its first waiter; above 0 */
    /* This many at the head are notified when they move up. 0: only of their turn. */
    size_t heads;
    node_notify_fn *notify; /* may be NULL */
    void *context;
};

struct node_queue;
struct node_queue *node_queue_new(const struct node_queue_options *options); /* NULL: no memory */
void node_queue_free(struct node_queue *queue);

struct node_waiter {
    struct node_bytes name; /* 1 to 128 bytes; empty: an acquire by nobody that waits */
    int64_t waited_us;      /* by its own clock; 0 to 2^52 */
    int64_t since_us;       /* node_queue_since(); NODE_SINCE_UNKNOWN: `waited_us` counts alone */
    int64_t remember_us;    /* it is forgotten unless it comes back within this time; above 0 */
    bool reads;             /* it waits for a shared lock */
};

/* When a waiter came, from what its wall clock showed then (`said_us`), in the queue's time. All
 * nodes get the same number, so they order their waiters alike, although a request does not reach
 * all of them at the same time. A wall clock is only a hint: what differs from `waited_us` by more
 * than a request takes does not count. `wall_us` is this node's wall clock at `now_us`. */
#define NODE_SINCE_UNKNOWN INT64_MIN
enum { NODE_SINCE_SLACK_US = 50000 };
int64_t node_queue_since(struct node_queue *queue, int64_t said_us, int64_t wall_us,
                         int64_t now_us);

/* Enters, or is remembered for longer (then it keeps its place, or moves up to its age). Returns
 * its rank; -1: the queue is full, or not such a name. A waiter that comes first by its age gets
 * the reservation, if there is one. */
int64_t node_queue_enter(struct node_queue *queue, struct node_bytes key,
                         const struct node_waiter *waiter, int64_t now_us);
/* Returns how many remain. `skipping`: those before it did not come when it was their turn; they
 * leave too, at most 16 of them. */
size_t node_queue_leave(struct node_queue *queue, struct node_bytes key, struct node_bytes waiter,
                        bool skipping, int64_t now_us);
/* How many wait, and for how long the first of them (0: none). Changes nothing. Waiters whose time
 * is over count until the next tick. */
size_t node_queue_peek(const struct node_queue *queue, struct node_bytes key, int64_t now_us,
                       int64_t *age_us);

/* The lock has become free (released, ended, or deleted): it is reserved for the first. */
void node_queue_freed(struct node_queue *queue, struct node_bytes key, int64_t now_us);
/* False: the lock is reserved for another for *left_us. True: nobody has a reservation, or this
 * waiter comes first by its age. */
bool node_queue_admits(struct node_queue *queue, struct node_bytes key,
                       const struct node_waiter *waiter, int64_t now_us, int64_t *left_us);
/* Nobody waits, or this waiter comes first: it is the first one, or comes before that by its age.
 */
bool node_queue_is_first(struct node_queue *queue, struct node_bytes key,
                         const struct node_waiter *waiter, int64_t now_us);
/* A reader took the lock: if the first that waits is another reader, it is its turn too. */
void node_queue_shared(struct node_queue *queue, struct node_bytes key, int64_t now_us);
/* The lock was taken: no reservation, and this waiter (empty: none) has left. Returns whether
 * others wait. */
bool node_queue_taken(struct node_queue *queue, struct node_bytes key, struct node_bytes waiter,
                      int64_t now_us);

/* Passes reservations on and forgets waiters, at most `limit` of both. Returns how many; fewer than
 * `limit`: no more. A call for a key passes on that key's reservation by itself. */
size_t node_queue_tick(struct node_queue *queue, int64_t now_us, size_t limit);
/* When a tick is needed; INT64_MAX: never. */
int64_t node_queue_next(const struct node_queue *queue);
size_t node_queue_waiters(const struct node_queue *queue); /* of all keys */
size_t node_queue_reservations(const struct node_queue *queue);
size_t node_queue_bytes(const struct node_queue *queue);

/* An acquire with the queue: node_queue_admits() for every key, then node_acquire(), or
 * node_acquire_guarded() if `fences` is not NULL; then node_queue_taken() if the keys are set now.
 * DENIED: the waiter, if it has a name, has entered the queue of the first key that denied it, and
 * *turn is set. The table is a native one; its time is now_us / 1000. node_queue_freed() is the
 * caller's: the table reports what becomes free through its node_change_fn, which may call the
 * queue. (A holder that repairs its lock on this node has not to wait: it calls node_acquire(), and
 * node_queue_taken().) */
struct node_fence_request {
    uint64_t nonce;
    int64_t fence;
    const uint16_t *stripes;
    size_t stripes_count;
};
struct node_turn {
    struct node_bytes key; /* the one that denied it: one of the request's */
    int64_t rank;          /* -1: it is not in the queue */
    int64_t left_us;       /* of the lock, or of a reservation; -1: no end */
    bool reserved;         /* the lock is free, and reserved for another waiter */
    bool others;           /* not denied: others wait for one of the keys */
};
enum node_answer node_acquire_in_turn(struct node_table *table, struct node_queue *queue,
                                      const struct node_bytes *keys, size_t count,
                                      struct node_bytes token, int64_t ttl_ms,
                                      const struct node_fence_request *fences,
                                      const struct node_waiter *waiter, int64_t now_us,
                                      struct node_turn *turn);

/* A node_share() with the queue: as above, with one key. A reader that has a place keeps it.
 * Another one stands behind all that came before it, so that readers that follow each other cannot
 * keep a writer waiting; and when it is let in, the next waiter is, if it reads too. */
enum node_answer node_share_in_turn(struct node_table *table, struct node_queue *queue,
                                    const struct node_share *share,
                                    const struct node_waiter *waiter, int64_t now_us,
                                    int64_t *fence, struct node_turn *turn);
/* A node_share_extend(). When it makes a writer a reader, the first that waits is let in, if it
 * reads. */
enum node_answer node_share_extend_in_turn(struct node_table *table, struct node_queue *queue,
                                           const struct node_share *share, int64_t now_us);
/* A node_queue_leave(). When a writer that waited among readers leaves, the reader behind it is let
 * in. */
size_t node_leave_turn(struct node_table *table, struct node_queue *queue, struct node_bytes key,
                       struct node_bytes waiter, bool skipping, int64_t now_us);

#endif
