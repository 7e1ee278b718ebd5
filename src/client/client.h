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

#include "core/core.h"
#include "guard.h"
#include "net/net.h"
#include "redlock.h"

/* A thread that blocks until something is done. Lives on that thread's stack. */
struct waiter {
    struct waiter *next;
    pthread_cond_t cond;
    bool done;
};

enum driver { DRIVER_NONE, DRIVER_SERVICE, DRIVER_CALLER };

struct redlock_client {
    pthread_mutex_t mutex;
    struct redlock_client_options options;
    char *key_prefix;
    struct net *net;
    unsigned nodes;
    unsigned fork_generation;
    bool twice_listed;
    struct redlock_stats stats;

    enum driver driver;      /* who sleeps in net_wait() for all */
    rl_ns driver_until;      /* until when, at the latest */
    bool finished;           /* a waiter was finished since the driver last looked: it may be the driver itself, asleep */
    struct waiter *waiters;  /* blocked callers; the first takes over when the driver leaves */
    uint64_t drives;         /* counts callers that drove, so that the service thread sees activity */

    pthread_t service;
    bool service_runs, service_parked, stopping;
    bool service_sleeps;     /* in net_wait(): as the driver, or not yet out of it since a caller took over */
    rl_ns service_until;     /* in a timed sleep on service_cond until then */
    pthread_cond_t service_cond;

    struct redlock_lock *told_first, **told_last; /* locks with callbacks due */
    struct redlock_lock *telling;                 /* its callback runs now, ... */
    pthread_t telling_thread;                     /* ... on this thread */
    pthread_cond_t told_cond;

    struct redlock_lock *acquiring; /* acquisitions under way: they hear of nodes that come and go */
    struct gathering *gatherings;   /* threads that wait for nodes to be connected */

    struct guard *guard;            /* guarded mode; NULL: classic */
    struct redlock_lock *parked;    /* locks with extensions that wait until a node's record has been read again */
};

/* The calls made with one token. It outlives the lock's interest in it while a node owes an answer. */
struct round {
    struct redlock_lock *lock;
    unsigned refs; /* one for the lock while it is its current round, one for each busy call */
    unsigned token_bytes;
    unsigned char token[REDLOCK_TOKEN_BYTES_MAX];
    struct net_request acquire, repair, extend, release, peek;
    struct net_request *again; /* guarded, by node: raise or confirm. Not one for all: proposals overlap */
    uint64_t *nonces;          /* guarded, by node: under which it was asked last */
    struct net_call calls[];   /* nodes votes, nodes unlocks, nodes peeks; then `again` and `nonces` */
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

struct redlock_lock {
    struct redlock_client *client;
    unsigned refs; /* the user's, the rounds', a running callback's */
    atomic_bool freed; /* by the user */
    struct redlock_lock_options options;
    struct rl_terms terms;
    struct net_bytes *keys;
    size_t keys_count;
    uint16_t *stripes;   /* guarded: those of the keys, each once */
    size_t stripes_count;
    int64_t fence;       /* guarded: the fencing token; 0 unknown */

    enum phase phase;
    struct rl_acquire acquire;
    struct rl_lease lease;
    struct round *round;
    struct net_timer timer;
    rl_mask unsent; /* sends that failed at once and are yet to be told to the machine, by kind */
    rl_mask unsent_release;
    bool stepping;
    int verdicts[REDLOCK_NODES_MAX];

    struct op op;        /* acquire or release */
    struct op extension;
    int abort_result;    /* not OK: why we cancelled the acquisition ourselves */

    struct redlock_lock *acquiring_next, **acquiring_at; /* in the client's list; at is NULL outside it */
    rl_mask parked;      /* extensions that wait, ... */
    rl_ns parked_t1;     /* ... of the round that began then */
    struct redlock_lock *parked_next, **parked_at; /* as acquiring_next and _at */
    struct redlock_lock *told_next;
    bool told_queued;
    unsigned changes;    /* notices to be told, ored */
};

/* options.c: defaults, validation, copies */
bool options_client(struct redlock_client_options *to, const struct redlock_client_options *from, struct redlock_error *error);
bool options_lock(const struct redlock_client *client, struct redlock_lock_options *to, const struct redlock_lock_options *from,
                  struct redlock_error *error);
int fail(struct redlock_error *error, int result, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* client.c */
void client_log(struct redlock_client *client, enum redlock_log_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* As net_settled(), net_ready() and net_node() say, and guarded, the node's standing. */
rl_mask client_settled(struct redlock_client *client);
rl_mask client_ready(struct redlock_client *client, rl_ns now);
int client_verdict(const struct redlock_client *client, unsigned node, int verdict);

/* drive.c: who sleeps for whom */
int client_enter(struct redlock_client *client);  /* takes the mutex; FORKED without taking it, or OK */
void client_leave(struct redlock_client *client); /* flushes, wakes who must know, gives the mutex back */
void client_leave_telling(struct redlock_client *client); /* the same, and runs callbacks if there is no service thread */
void client_wait(struct redlock_client *client, struct waiter *waiter); /* mutex held; returns when waiter->done */
void waiter_init(struct waiter *waiter);
void waiter_finish(struct waiter *waiter);        /* done; wakes its thread */
void waiter_destroy(struct waiter *waiter);
void client_tell(struct redlock_client *client, struct redlock_lock *lock); /* queues the lock's callbacks */
void client_hush(struct redlock_client *client, struct redlock_lock *lock); /* no callback of it runs after this */
void client_untell(struct redlock_client *client); /* the client ends: callbacks that nobody waits for any more */
int service_start(struct redlock_client *client);
void service_stop(struct redlock_client *client);
unsigned fork_generation(void);

/* lock.c */
void lock_unref(struct redlock_lock *lock);

/* step.c: between the machines and the connections */
void lock_step(struct redlock_lock *lock, struct rl_event event);
void lock_send(struct redlock_lock *lock, rl_mask nodes, struct net_request *request, struct net_call *calls, rl_ns now);
void lock_reply(struct net_call *call, const struct net_reply *reply);
void lock_timer_init(struct redlock_lock *lock);
int lock_fresh_round(struct redlock_lock *lock, const void *token, size_t bytes); /* token NULL: a random one */
void lock_drop_round(struct redlock_lock *lock);
void lease_begin(struct redlock_lock *lock, rl_ns validity_end, rl_mask asked);
void acquiring_add(struct redlock_lock *lock);
void acquiring_remove(struct redlock_lock *lock);
void locks_check(struct redlock_client *client);  /* nodes changed: acquisitions that gather must look again */

/* fenced.c: what a guarded lock's requests carry, and what their answers mean */
bool fenced_keys_valid(struct redlock_lock *lock, struct redlock_error *error); /* and finds their stripes */
size_t fenced_bytes(unsigned nodes);     /* what a round of a guarded lock takes more */
void fenced_round(struct round *round);  /* its requests name the fences */
void fenced_event(struct redlock_lock *lock, struct rl_event *event);
void fenced_votes(struct redlock_lock *lock, const struct rl_actions *actions, rl_ns now); /* sends what asks for votes */
void fenced_won(struct redlock_lock *lock);
void fenced_heard(struct redlock_lock *lock, const struct round *round, const struct net_call *call,
                  const struct net_reply *reply);
/* The vote that an answer is. False: it waits until the node's record has been read again. */
bool fenced_vote(struct redlock_lock *lock, const struct net_call *call, const struct net_reply *reply, struct rl_event *event);
void fenced_unpark(struct redlock_lock *lock);
void fenced_check(struct redlock_client *client); /* standings changed: what waited may go on */

/* look.c */
void look_reply(struct net_call *call, const struct net_reply *reply);
void gatherings_check(struct redlock_client *client);
/* Waits until every node is connected or has failed; the mutex is held. Returns the nodes that are ready. */
rl_mask gather(struct redlock_client *client, rl_ns until);
rl_ns gather_until(struct redlock_client *client); /* now and the connect timeout */

/* survey.c */
void survey_reply(struct net_call *call, const struct net_reply *reply);
int64_t survey_clock_us(const struct net_reply *reply); /* of TIME's answer; -1: it is none */
/* INFO's value of "field:value" at the beginning of a line; {NULL, 0} when absent. */
struct net_bytes info_field(struct net_bytes info, const char *field);

/* quorum.c */
void quorum_reply(struct net_call *call, const struct net_reply *reply);

/* call->tag: whose call it is */
enum call_tag { CALL_VOTE, CALL_UNLOCK, CALL_PEEK, CALL_LOOK, CALL_SURVEY, CALL_GUARD, CALL_CLOCK, CALL_QUORUM };

#define RL_CONTAINER(pointer, type, member) ((type *)((char *)(pointer) - offsetof(type, member)))

#endif
