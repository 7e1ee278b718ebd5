/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The inside of redlock.h: a client, its locks, and who drives the connections. Everything here is
 * protected by the client's mutex unless a comment says otherwise.
 */
#ifndef RL_CLIENT_H
#define RL_CLIENT_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "automode.h"
#include "chains.h"
#include "core/core.h"
#include "guard.h"
#include "line.h"
#include "net/net.h"
#include "redlock.h"
#include "renewals.h"

/* A thread that blocks until something is done. Lives on that thread's stack. */
struct waiter {
    struct redlock_client *client;
    struct waiter *next, **at; /* in the client's list of sleepers; at is NULL outside it */
    bool done;
    bool heir;  /* woken to drive */
    int result; /* of the operation that it waits for; of several, of one that failed */
    size_t finished, wanted; /* of several: done when so many are over. Of one: 0 */
    atomic_uint word;        /* waiter.c's: up, asleep or woken, ... */
    rl_ns woken_at;          /* ... and since when: to be read once it says so */
    unsigned bed; /* its bit among those that one call wakes together; 0: it is woken by itself */
};

/* waiter.c's: those who sleep, and whether they give their processors away first. Not under the
 * mutex, but for `beds`. */
struct sleepers {
    atomic_uint bell;        /* what those in beds sleep on: it counts how often it was rung */
    unsigned beds;           /* those taken */
    atomic_uint waits, vain; /* how many waits there were; how often yielding was in vain of late */
    atomic_uint
        rest; /* when it made one late: for so long, times this power of two, nobody does it, ... */
    _Atomic rl_ns not_before; /* ... until then */
};

enum driver { DRIVER_NONE, DRIVER_SERVICE, DRIVER_CALLER };

/* Freed memory of one size, kept for the next that needs it. */
struct pool {
    void *first;
    unsigned count;
};

struct redlock_client {
    pthread_mutex_t mutex;
    pthread_mutex_t reload_mutex; /* one redlock_client_reload() at a time; taken before `mutex` */
    struct redlock_client_options options;
    char *key_prefix;
    struct net *net;
    unsigned nodes;
    unsigned fork_generation;
    bool twice_listed;
    uint8_t scheme; /* enum redlock_scheme, of all nodes */
    struct redlock_stats stats;

    enum driver driver; /* who sleeps in net_wait() for all */
    rl_ns driver_until; /* until when, at the latest */
    bool finished;      /* the driver's own wait is over, perhaps while it sleeps */
    struct waiter *asleep, **asleep_last; /* blocked callers that do not drive */
    struct waiter
        *woken; /* no longer among them; their threads are woken when the mutex is given back */
    bool heir;  /* one of them was woken to drive, and is not there yet */
    uint64_t drives; /* counts callers that drove, so that the service thread sees activity */

    unsigned finishes; /* waits that ended in this turn of the driver's, ... */
    unsigned
        returning;  /* ... callers of the last turns that are not back with their next call, ... */
    unsigned group; /* ... out of so many, ... */
    rl_ns returning_since; /* ... and when the last of those turns was */
    unsigned doubt,
        spared;     /* how seldom they come back at once; for so many turns nobody waits for them */
    bool held_back; /* what was sent is not flushed: the last one back does that, or the watch */
    struct waiter *watch; /* sleeps for so long only */
    struct sleepers sleepers;

    pthread_t service;
    bool service_runs, service_parked, stopping;
    bool service_sleeps; /* in net_wait(): as the driver, or not yet out of it since a caller took
                            over */
    rl_ns service_until; /* in a timed sleep on service_cond until then */
    pthread_cond_t service_cond;

    struct redlock_lock *told_first, **told_last; /* locks with callbacks due */
    struct redlock_lock *telling;                 /* its callback runs now, ... */
    pthread_t telling_thread;                     /* ... on this thread */
    pthread_cond_t told_cond;

    struct acquisition *acquiring; /* those under way: they hear of nodes that come and go */
    struct chains kinds;
    struct kind *kind_last; /* used last; NULL: gone */
    struct pool rounds, acquisitions;
    struct renewals renewals;     /* those that are due */
    struct gathering *gatherings; /* threads that wait for nodes to be connected */
    struct quorum_task *tasks;    /* of operators */

    struct guard *guard;       /* guarded mode; NULL: classic */
    struct automode *automode; /* mode auto; NULL: another */
    struct lines *lines;       /* who waits for what; NULL: nobody has waited yet */
    struct redlock_lock
        *parked; /* locks with extensions that wait until a node's record has been read again */
};

/* What locks made with the same options share. */
struct kind {
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
 * belongs to a round or an acquisition, what many have in common to their kind. */
struct redlock_lock {
    struct redlock_client *client;
    struct kind *kind;
    unsigned refs;     /* the user's, the rounds', a running callback's */
    atomic_bool freed; /* by the user */
    bool stepping, told_queued;
    bool
        unranked; /* nobody can tell its rank in the line, which is yet to be told to the machine */
    uint8_t phase; /* enum phase */
    uint8_t keys_count, stripes_count;
    uint8_t changes; /* notices to be told, ored */
    rl_mask unsent;  /* sends that failed at once and are yet to be told to the machine, by kind */
    rl_mask unsent_release;
    rl_mask parked; /* extensions that wait, ... */
    uint8_t verdicts[REDLOCK_NODES_MAX];
    uint8_t owner_bytes;
    uint16_t token_bytes;
    bool counted;       /* among its kind's held ones */
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
    struct redlock_lock *told_next;
    struct net_bytes keys[]; /* then the stripes, the keys' bytes, the owner and the token */
};
_Static_assert(sizeof(struct redlock_lock) <= 448,
               "with token, key and the allocator's own a held lock is to take 512 bytes");
_Static_assert(REDLOCK_RESOURCES_MAX <= UINT8_MAX && REDLOCK_OWNER_BYTES_MAX <= UINT8_MAX,
               "counted in a byte");

/* options.c: defaults, validation, copies */
bool options_client(struct redlock_client_options *to, const struct redlock_client_options *from,
                    struct redlock_error *error);
bool options_lock(const struct redlock_client *client, struct redlock_lock_options *to,
                  const struct redlock_lock_options *from, struct redlock_error *error);
int fail(struct redlock_error *error, int result, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* client.c */
void client_log(struct redlock_client *client, enum redlock_log_level level, const char *format,
                ...) __attribute__((format(printf, 3, 4)));
/* As net_settled(), net_ready() and net_node() say, and guarded, the node's standing. */
rl_mask client_settled(struct redlock_client *client);
rl_mask client_ready(struct redlock_client *client, rl_ns now);
/* OK; or why no lock is taken by this client, however many nodes would grant it. */
int client_refusal(const struct redlock_client *client);
int client_verdict(const struct redlock_client *client, unsigned node, int verdict);

/* drive.c: who sleeps for whom */
int client_enter(
    struct redlock_client *client); /* takes the mutex; FORKED without taking it, or OK */
void client_leave(
    struct redlock_client *client); /* flushes, wakes who must know, gives the mutex back */
void client_leave_telling(
    struct redlock_client *client); /* the same, and runs callbacks if there is no service thread */
void client_wait(struct redlock_client *client,
                 struct waiter *waiter); /* mutex held; returns when waiter->done */
int client_await(struct redlock_client *client,
                 struct waiter *waiter); /* the same, gives the mutex back: the result */
void waiter_init(struct waiter *waiter);
void waiter_finish(
    struct waiter *waiter); /* done; its thread is woken when the mutex is given back */
void client_tell(struct redlock_client *client,
                 struct redlock_lock *lock); /* queues the lock's callbacks */
void client_hush(struct redlock_client *client,
                 struct redlock_lock *lock); /* no callback of it runs after this */
void client_untell(
    struct redlock_client *client); /* the client ends: callbacks that nobody waits for any more */
int service_start(struct redlock_client *client);
void service_stop(struct redlock_client *client);
unsigned fork_generation(void);

/* waiter.c: a thread's sleep */
void waiter_lie_down(
    struct waiter *waiter); /* mutex held, before anybody can know that it sleeps */
bool waiter_sleep(struct waiter *waiter, rl_ns span); /* false: `span` is over (RL_NEVER: no end) */
void waiter_get_up(
    struct waiter *waiter); /* mutex held: it will be woken, or has woken by itself */
/* Wakes a list of them, without the mutex. Touches none of them afterwards: they may be gone. */
void waiters_wake(struct redlock_client *client, struct waiter *first);

/* lock.c */
void lock_unref(struct redlock_lock *lock);
int acquire_begin(struct redlock_lock *lock, int64_t wait_ms, redlock_done_fn *done, void *context);
int release_begin(struct redlock_lock *lock, redlock_done_fn *done, void *context);
void gather_for_adopted(struct redlock_lock *lock);

/* pool.c: memory that is needed again and again */
/* Zeroed when it is new; NULL: no memory. So many stay for others. */
void *pool_take(struct pool *pool, size_t bytes, unsigned reserve);
void pool_give(struct pool *pool, void *memory);
void pool_empty(struct pool *pool);

/* kind.c */
struct kind *kind_of(struct redlock_client *client,
                     const struct redlock_lock_options *options); /* NULL: no memory */
void kind_drop(struct redlock_client *client, struct kind *kind);
void kinds_free(struct redlock_client *client);

/* round.c */
bool rounds_reserve(struct redlock_client *client); /* one, so that a release can be sent without
                                                       memory; false: none */
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

/* step.c: between the machines and the connections */
void op_finish(struct redlock_lock *lock, struct op *op,
               int result); /* harmless where it is not active */
void lock_step(struct redlock_lock *lock, struct rl_event event);
void lock_send(struct redlock_lock *lock, rl_mask nodes, struct net_request *request,
               struct net_call *calls, rl_ns now);
void lock_reply(struct net_call *call, const struct net_reply *reply);
void lock_timer_init(struct redlock_lock *lock);
void lease_begin(struct redlock_lock *lock, rl_ns validity_end, rl_mask asked);
bool acquiring_add(struct redlock_lock *lock); /* false: no memory */
void acquiring_remove(struct redlock_lock *lock);
void locks_check(
    struct redlock_client *client); /* nodes changed: acquisitions that gather must look again */

/* fenced.c: what a guarded lock's requests carry, and what their answers mean */
bool fenced_keys_valid(struct redlock_lock *lock,
                       struct redlock_error *error); /* and finds their stripes */
size_t fenced_bytes(unsigned nodes);                 /* what a round of a guarded lock takes more */
void fenced_round_new(struct round *round, unsigned nodes);
void fenced_round(struct round *round); /* its requests name the fences */
void fenced_event(struct redlock_lock *lock, struct rl_event *event);
void fenced_votes(struct redlock_lock *lock, const struct rl_actions *actions,
                  rl_ns now); /* sends what asks for votes */
void fenced_won(struct redlock_lock *lock);
void fenced_heard(struct redlock_lock *lock, const struct round *round, const struct net_call *call,
                  const struct net_reply *reply);
/* The vote that an answer is. False: it waits until the node's record has been read again. */
bool fenced_vote(struct redlock_lock *lock, const struct net_call *call, int verdict, int64_t fence,
                 struct rl_event *event);
int fenced_verdict(const struct redlock_lock *lock, const struct net_call *call,
                   int verdict); /* the vote's, given the net's */
void fenced_unpark(struct redlock_lock *lock);
void fenced_check(struct redlock_client *client); /* standings changed: what waited may go on */

/* look.c */
void look_reply(struct net_call *call, const struct net_reply *reply);
void gatherings_check(struct redlock_client *client);
/* Waits until every node is connected or has failed; the mutex is held. Returns the nodes that are
 * ready. */
rl_mask gather(struct redlock_client *client, rl_ns until);
rl_ns gather_until(struct redlock_client *client); /* now and the connect timeout */

/* survey.c */
void survey_reply(struct net_call *call, const struct net_reply *reply);
int64_t survey_clock_us(const struct net_reply *reply); /* of TIME's answer; -1: it is none */
/* INFO's value of "field:value" at the beginning of a line; {NULL, 0} when absent. */
struct net_bytes info_field(struct net_bytes info, const char *field);

/* call->tag: whose call it is */
enum call_tag {
    CALL_VOTE,
    CALL_UNLOCK,
    CALL_PEEK,
    CALL_LOOK,
    CALL_SURVEY,
    CALL_GUARD,
    CALL_FITNESS,
    CALL_QUORUM,
    CALL_AUTOMODE,
    CALL_LINE_LOOK,
    CALL_LINE_STAND,
    CALL_LINE_LEAVE
};

#define RL_CONTAINER(pointer, type, member) ((type *)((char *)(pointer)-offsetof(type, member)))

#endif
