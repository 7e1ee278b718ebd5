/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A client, as all rooms below this directory know it: the parts that they share, and nothing that
 * a room keeps for itself. docs/inside/architecture.md names the rooms. The schedule's mutex
 * protects everything here unless a comment says otherwise. */
#ifndef RL_CLIENT_H
#define RL_CLIENT_H

#include <pthread.h>
#include <stdbool.h>

#include "client/schedule/schedule.h"
#include "config/client_fields.h"
#include "core/core.h"
#include "net/net.h"
#include "redlock/metrics.h"

struct round;

/* The differences between the modes, in two tables: for nodes (guarding.h), ... A function that is
 * NULL has nothing to do. */
struct node_mode {
    bool (*start)(struct redlock_client *client); /* the net is open; false: no memory */
    /* A node came or went. */
    void (*node)(struct redlock_client *client, unsigned node,
                 const struct net_node_status *status);
    /* The node's verdict, based on the net's. */
    int (*verdict)(const struct redlock_client *client, unsigned node, int verdict);
    /* Adds to the net's status. */
    void (*status)(const struct redlock_client *client, unsigned node,
                   struct redlock_node_status *status);
    void (*hurry)(struct redlock_client *client); /* the nodes are needed now */
    void (*leave)(struct redlock_client *client); /* the client ends; the net is still open */
};

/* ... and for locks (locks.h). */
struct lock_mode {
    bool fenced;                          /* locks have fences, and each key a stripe */
    size_t round_bytes, round_bytes_each; /* the extra bytes of a round, and those for each node */
    void (*choose_stripes)(struct redlock_lock *lock);
    /* The round's requests carry another token from now on. */
    void (*round_carry)(struct round *round);
    void (*event)(struct redlock_lock *lock, struct rl_event *event); /* before each step */
    void (*send_votes)(struct redlock_lock *lock, const struct rl_actions *actions, rl_ns now);
    /* With this fencing token: an acquisition, or an adopted lock. */
    void (*won)(struct redlock_lock *lock, int64_t fence);
    /* For the answers to what send_votes() sent. The lock may use another round by now. */
    void (*answer)(struct round *round, const struct net_call *call, const struct net_reply *reply);
    /* These two return OK, or the reason why not. */
    int (*may_extend)(const struct redlock_lock *lock, int64_t ttl_ms);
    int (*adopt)(struct redlock_lock *lock, int64_t fence);
};

struct redlock_client {
    struct schedule schedule;
    atomic_uint refs; /* of its user, and one for each lock and observer */
    /* Allows one redlock_client_reload() at a time; taken before the schedule's mutex. */
    pthread_mutex_t reload_mutex;
    struct redlock_client_options options;
    const struct node_mode *node_mode;
    const struct lock_mode *lock_mode;   /* of the locks that are taken from now on */
    const struct lock_mode *lock_layout; /* locks have room for this mode: auto may turn guarded */
    char *key_prefix;
    struct net *net;
    unsigned nodes;
    uint8_t scheme; /* enum redlock_scheme, the same for all nodes */
    bool twice_listed, closing;
    bool traced;     /* REDLOCK_TRACE=1: each step of a lock is logged, ... */
    rl_ns opened_at; /* ... with times counted from here */
    struct redlock_stats stats;
    redlock_event_fn *observer; /* NULL: none */
    void *observer_context;

    /* The mode's knowledge of the nodes. */
    rl_mask voters; /* nodes that may vote once connected */
    rl_mask unread; /* not known yet whether they may vote; no reason against it either */
    int refusal;    /* OK; or why no lock is taken, however many nodes would grant it */
    void (*voters_changed)(struct redlock_client *client); /* call this after `voters` changed */

    struct rl_rates rates; /* of the nodes' clocks, as measured (rates.c) */
    struct clock_rates *clock_rates;
    struct poll *poll; /* guarding: what votes rest on; NULL: classic */
    unsigned engaged;  /* locks that are being acquired or held */
    void (*rates_grown)(struct redlock_client *client); /* leases are shortened */

    /* Auto has become guarded: all locks learn of it. */
    void (*turned_guarded)(struct redlock_client *client);

    struct guard *guard;          /* guarding: mode guarded, or auto that became so; else NULL */
    struct automode *automode;    /* guarding: mode auto; else NULL */
    struct gathering *gatherings; /* ask: threads that wait for nodes to be connected */
    struct locks *locks;          /* locks */
    struct watcher *watchers;     /* look: threads that wait until a key is gone */
    struct redlock_observer *observers; /* look */
    struct quorum_task *tasks;          /* change: running commands */
    struct break_task *breaks;          /* change */
    unsigned trackers;                  /* callers that nodes notify of changes */
    rl_mask natives;                    /* native nodes, while connected: they keep wait queues */
    rl_mask readerless, slotless;       /* ... of these, old ones without readers, without slots */
};

/* options.c: defaults, validation, copies */
bool options_client(struct redlock_client_options *to, const struct redlock_client_options *from,
                    struct redlock_error *error);
/* Whether those that depend on each other go together. */
bool options_agree(struct redlock_client_options *to, struct redlock_error *error);
bool options_lock(const struct redlock_client *client, struct redlock_lock_options *to,
                  const struct redlock_lock_options *from, struct redlock_error *error);
/* configured.c */
/* The nodes, and what the options leave to the machine; the options refer to `fields`. An enum
 * redlock_result. */
int configured_read(struct client_fields *fields, struct redlock_client_options *options,
                    struct redlock_error *error);
/* Puts where they come from before an error. */
void configured_blame(struct redlock_error *error);
/* histogram.c */
/* Leaves `count` to histogram_count(), which sums the buckets. */
void histogram_add(struct redlock_histogram *histogram, rl_ns duration);
void histogram_count(struct redlock_histogram *histogram);
/* words.c */
int fail(struct redlock_error *error, int result, const char *format, ...)
    __attribute__((format(printf, 3, 4))); /* returns `result` */
int fail_forked(struct redlock_error *error);
int fail_null(struct redlock_error *error); /* for a client */
/* false, for functions that check arguments */
#define bad_argument(error, ...) (fail(error, REDLOCK_BAD_ARGUMENT, __VA_ARGS__) == REDLOCK_OK)
/* Text from a server, of any length and content. */
void copy_text(struct net_bytes from, char *to, size_t size);
/* The owner in a token of ours: 40 hex digits, and then ':' and the owner. {NULL, 0}: none */
struct net_bytes token_owner(const void *token, size_t bytes);

void client_log(struct redlock_client *client, int level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* For requests that belong to no lock. */
static inline rl_ns client_node_timeout(const struct redlock_client *client) {
    return client->options.node_timeout_ms > 0 ? client->options.node_timeout_ms * RL_MS
                                               : 50 * RL_MS;
}
/* Nodes that net_settled() returns and whose state the mode knows. */
static inline rl_mask client_settled(struct redlock_client *client) {
    rl_mask settled = net_settled(client->net);
    if (!client->unread) return settled;
    return settled & (rl_mask) ~(net_ready(client->net, net_now(client->net)) & client->unread);
}
/* The nodes that have not answered yet, of calls by node. */
static inline rl_mask client_busy(const struct redlock_client *client,
                                  const struct net_call *calls) {
    rl_mask busy = 0;
    for (unsigned i = 0; i < client->nodes; i++)
        if (calls[i].busy) busy |= rl_bit(i);
    return busy;
}
/* Nodes that net_ready() returns and that may vote. */
static inline rl_mask client_ready(struct redlock_client *client, rl_ns now) {
    return net_ready(client->net, now) & client->voters;
}
/* A caller needs the nodes: what was put off while nobody did happens now. */
static inline void client_hurry(struct redlock_client *client) {
    net_hurry(client->net);
    if (client->node_mode->hurry) client->node_mode->hurry(client);
}
/* While any caller waits for a key, nodes notify of changes. */
static inline void client_track(struct redlock_client *client, bool on) {
    if (on ? client->trackers++ == 0 : --client->trackers == 0) net_track(client->net, on);
}
static inline struct net_node_status client_status(struct redlock_client *client, unsigned node) {
    struct net_node_status status;
    net_node(client->net, node, net_now(client->net), &status);
    return status;
}
/* OK; or why this client takes no lock, however many nodes would grant it. */
static inline int client_refusal(const struct redlock_client *client) {
    if (schedule_is_forked(&client->schedule)) return REDLOCK_FORKED;
    if (net_is_bereft(client->net)) return REDLOCK_SYSTEM;
    return client->twice_listed ? REDLOCK_TWICE_LISTED : client->refusal;
}
static inline int client_verdict(const struct redlock_client *client, unsigned node, int verdict) {
    const struct node_mode *mode = client->node_mode;
    return mode->verdict ? mode->verdict(client, node, verdict) : verdict;
}

/* For an object that the client must outlive. The last one closes the client. Without the mutex. */
static inline void client_ref(struct redlock_client *client) { atomic_fetch_add(&client->refs, 1); }
static inline void client_unref(struct redlock_client *client) {
    if (atomic_fetch_sub(&client->refs, 1) == 1) schedule_end(&client->schedule);
}

/* See schedule.h. */
static inline int client_enter(struct redlock_client *client) {
    return schedule_enter(&client->schedule);
}
static inline void client_leave(struct redlock_client *client) {
    schedule_leave(&client->schedule);
}
/* in place of client_leave(), after a call that sent nothing and changed no timer */
static inline void client_exit(struct redlock_client *client) { schedule_exit(&client->schedule); }
REDLOCK_MUST_CHECK static inline int client_leave_notifying(struct redlock_client *client,
                                                            int result) {
    return schedule_leave_reporting(&client->schedule, result);
}

/* Whether it reports when a key ends. A key without a TTL does not end. A key with a TTL beyond
 * that of any lock is not a lock (and in nanoseconds may exceed 64 bits). */
static inline bool reports_end(const struct net_reply *reply) {
    return reply->remaining_ms >= 0 && reply->remaining_ms <= REDLOCK_TTL_MS_MAX;
}

/* The end of a wait that a caller gives; RL_NEVER: none. */
static inline rl_ns wait_deadline(int64_t wait_ms, rl_ns now) {
    const bool endless = wait_ms == REDLOCK_WAIT_FOREVER || wait_ms > (RL_NEVER - now) / RL_MS;
    return endless ? RL_NEVER : now + wait_ms * RL_MS;
}

/* The first node of a mask that is not empty. */
static inline unsigned first_of(rl_mask mask) { return (unsigned)__builtin_ctz(mask); }

#endif
