/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The inside of src/net: the client's net, its nodes, and each node's connections.
 *
 * Requests go over a node's main connection. Where scripting is refused, a second connection (aux)
 * runs transactions, one at a time. While a caller waits, a third one (the notifier) reports
 * changes of its keys. While an answer is overdue, a fresh one is tried, which may take the place
 * of the main one. Handlers run only inside net_process() and net_close(). A failure while sending
 * only marks the connection as broken, and net_process() handles it. */
#ifndef RL_NET_CONN_H
#define RL_NET_CONN_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>

#include "core/mix.h"
#include "net/conn/bag.h"
#include "net/codec/buffer.h"
#include "net/codec/command.h"
#include "net/net.h"
#include "net/codec/reader.h"
#include "net/codec/setnx.h"
#include "net/conn/timers.h"
#include "net/conn/tls.h"
#include "net/codec/url.h"
#include "policy/policy.h"
#include "redlock.h"

/* the most that may wait to be written to one node */
#define NET_WIRE_BYTES_MAX ((size_t)16 << 20)
#define NET_MEMORY_RETRY (10 * RL_MS)

struct node;

enum conn_kind { CONN_MAIN = 0, CONN_AUX, CONN_NOTIFIER, CONN_FRESH };
enum { CONNS_PER_NODE = 4 };
/* epoll's items: a node's connections, by their places in node->conns, and these. */
enum epoll_item { ITEM_KICK = CONNS_PER_NODE, ITEM_TIMER, ITEM_SLEEPER, ITEM_SOCKETS };

enum conn_state {
    CONN_DOWN = 0,
    CONN_PASSWORD, /* somebody is asked for it */
    CONN_RESOLVING,
    CONN_CONNECTING,
    CONN_TLS,
    CONN_HANDSHAKE,
    CONN_READY
};

enum { HANDSHAKE_STEPS_MAX = 16, ADDRESSES_MAX = 8 };

struct addresses {
    unsigned count;
    struct {
        struct sockaddr_storage at;
        socklen_t bytes;
    } each[ADDRESSES_MAX];
};

struct conn {
    struct node *node;
    enum conn_kind kind;
    enum conn_state state;
    int fd;
    uint32_t generation;   /* counts sockets: events of an earlier one are stale */
    uint32_t epoll_events; /* the events that epoll reports */
    struct addresses addresses;
    unsigned address; /* how many addresses were tried */
    /* the address to begin with: after the one that used up the last try's time */
    unsigned first;
    char *password;     /* for AUTH, and forgotten then; NULL: none, or that of the URL */
    bool password_late; /* the last try gave up before there was one */
    struct tls *tls;
    struct buffer out;    /* commands not yet written (with TLS: not yet encrypted) */
    struct buffer cipher; /* TLS records not yet written */
    struct reader reader;
    /* Before READY: the connect timeout. Then: when the oldest call is overdue, or stalled. */
    struct net_timer deadline;
    struct net_timer retry;
    struct backoff backoff;                   /* of a CONN_AUX; the policy has the others */
    unsigned char steps[HANDSHAKE_STEPS_MAX]; /* the replies that the handshake waits for */
    unsigned step, steps_count;
    uint32_t scripts;       /* the texts that went this way, by 1 << script; NODE_SCRIPTS_ALL too */
    bool scripting_refused; /* found by the handshake; so are the next fields */
    bool lua_missing;       /* ... because the server has no engine for scripts */
    /* COMMAND_DELEX or _DELIFEQ: the server knows that command; COMMAND_STOCK: neither */
    enum command_style deleter;
    /* Whether its trial has begun; and whether it was passed, so that a release uses it (send.c).
     */
    bool deleter_tried, deletes;
    const char *unknown_command; /* ... because the server does not know EVAL or EVALSHA */
    bool guarded;                /* the handshake checked, or will check, what guarded mode needs */
    bool redict;                 /* the server is Redict */
    bool announces;              /* the server announces changes of the record (tracking.c) */
    char refusal[80];            /* why the server does not announce */
    bool native;                 /* the server has our module */
    struct native_hello hello;   /* native: what the module reports; else empty */
    char run_id[41];             /* of the server process; "": unknown */
    char quorum[17];
    struct call_queue calls; /* in order of the replies; of aux: transactions, the rest waits */
    unsigned replies;        /* of the first call, until now */
    struct net_reply answer; /* of the first call, until now */
    struct net_state state_reported; /* the answer's */
    /* Counts of calls (on aux: of a transaction's stages) since the connection began: those in the
     * buffer, those of them that were written to the socket, those that were written before the
     * bytes that are now read came, and those that are answered. */
    unsigned queued, written, answerable, answered;
    /* Owners of the calls; except on CONN_MAIN: hashes of their keys. See send.c. */
    struct bag counted;
    /* counting ends after this call; NULL: nothing is counted */
    const struct net_call *counted_until;
    int broken; /* a verdict: net_process() will close the connection; 0: not broken */
    char broken_text[160];
};

enum transaction_stage { TX_IDLE = 0, TX_PLAIN, TX_CHECK, TX_COMMIT, TX_END };

/* See transaction.c. */
struct transaction {
    enum transaction_stage stage; /* of the first of aux.calls */
    unsigned replies, awaited, tries;
    struct net_reply answer; /* until the end: NONE, or the first error among the replies */
    bool open;               /* MULTI was accepted; else ... */
    int refused;             /* ... why not */
    unsigned ours, foreign, changed;
    bool mine[REDLOCK_RESOURCES_MAX];
    int64_t left_ms[REDLOCK_RESOURCES_MAX];
    struct setnx_seen setnx; /* used instead of the five above */
};

/* See tracking.c. */
enum { WAITER_BYTES = 16, TRACKING_STEPS = 3 };
/* After the name of PROBE's key: that of a trial (send.c), which no probe may disturb. */
#define TRIAL_SUFFIX ":trial"
struct tracking {
    /* the id of the connection that receives changes; and the one that the node knows */
    uint64_t id, reported;
    struct net_request request;
    /* PROBE's key, which no lock uses, and its channel. */
    struct net_bytes probe;
    char probe_text[sizeof(NET_KEY_WAITING) + WAITER_BYTES];
    char channel[sizeof(NET_CHANNEL_WAKE) + WAITER_BYTES];
};

struct node {
    struct net *net;
    unsigned index;
    struct url url;
    union {
        struct {
            struct conn first, aux, notifier, second;
        };
        struct conn conns[CONNS_PER_NODE];
    };
    struct conn *main, *fresh; /* the first and the second, or the other way round */
    struct lookup *lookup;     /* of the node's addresses (lookup.c); NULL: none is under way */
    struct tracking tracking;
    struct transaction tx;
    struct net_timer keep_timer;   /* when a kept release ends */
    struct net_timer memory_timer; /* when to send again after memory ran out */
    uint64_t sent, answered;       /* calls of the main connection, counted since the start */
    int logged; /* the verdict last logged, so that a dead node is not logged at every retry */
    bool logged_silence; /* the log has that the server does not announce */
    /* of the connection that is up, or was up last; net_node() adds what depends on the time */
    struct net_node_status status;
};

/* See passwords.c. */
struct password_read;
struct passwords {
    char *user;
    char *file; /* NULL, or `ask` is */
    redlock_password_fn *ask;
    void *context;
    struct password_read *read; /* NULL: none is under way */
};

struct net {
    struct net_handlers handlers;
    atomic_bool bereft;  /* the program has closed our descriptors (closefrom(3), say) */
    atomic_uint process; /* net_process_number() of the one that opened it; 0: abandoned */
    int log_level;
    bool guarded, asks_quorum;
    int64_t *fences; /* guarded: space for the answer to NET_FENCES */
    rl_ns connect_timeout, stall_timeout;
    struct tls_context *tls;
    struct passwords passwords;
    struct timers timers;
    /* The clock for all that was read at once or is due at once; 0: none, ask the clock. */
    rl_ns sample;
    int epoll, kick, timer, sleeper;
    int sockets;                   /* the epoll set of all sockets: `epoll`, or part of it */
    int ring, bell;                /* an eventfd; the epoll set of it, and of `sockets` */
    rl_ns timer_at;                /* the time that the timerfd is set to */
    pthread_mutex_t sleeper_mutex; /* two threads may be in net_wait() for a short time */
    rl_ns sleeper_at;              /* the time that the sleeper's timer is set to */
    bool pending;                  /* net_process() has work that no event announces */
    bool resolving; /* a connection waits for its addresses, or a lookup is under way */
    bool closing;
    bool bereft_noted;
    struct net_timer untrack; /* when no caller has waited for a while */
    char waiter[WAITER_BYTES + 1];
    struct net_call track[RL_NODES_MAX];
    struct net_request trial;   /* of commands that compare and delete, on each node */
    struct net_bytes trial_key; /* no lock and no queue uses it */
    char trial_text[sizeof(NET_KEY_WAITING TRIAL_SUFFIX) + WAITER_BYTES];
    struct net_call trials[RL_NODES_MAX];
    struct buffer scratch[COMMAND_STYLES]; /* a request in each style */
    unsigned char random[256];
    size_t random_left;
    unsigned nodes;
    struct policy policy; /* policy.node[i] belongs to node[i] here */
    struct node node[RL_NODES_MAX];
};

/* It is, or may become, the connection on which the node votes. */
static inline bool conn_is_for_votes(const struct conn *conn) {
    return conn->kind == CONN_MAIN || conn->kind == CONN_FRESH;
}

/* fork.c: whether the net's descriptors are its own. Not in a child, where they are the
 * parent's, and not once the program has closed them: their numbers may be anything's. */
bool net_may_touch(const struct net *net);

/* host.c. A program that has closed its standard output prints to the first descriptor that is
 * opened: never to a server. */
int net_above_standard(int fd);
/* false: no descriptor, or no memory */
bool net_watch(const struct net *net, int fd, enum epoll_item item);

/* conn.c: one connection's life */
void conn_init(struct conn *conn, struct node *node, enum conn_kind kind);
void conn_start(struct conn *conn);
/* `failure` NULL: none */
void conn_given_password(struct conn *conn, const char *password, const char *failure);
void conn_event(struct conn *conn, uint32_t events);
void conn_read(struct conn *conn);
/* `failure` NULL: none */
void conn_resolved(struct conn *conn, const struct addresses *addresses, const char *failure);
void conn_give_up_broken(struct conn *conn);
/* Closes the connection now (by a reset when a write is unanswered), notifies the node, and plans
 * the next try. */
void conn_fail(struct conn *conn, int verdict, const char *text);
/* No try to connect before the pause is over. */
void conn_pause(struct conn *conn, struct backoff *backoff);
/* Closes the socket and drops all state except the calls. */
void conn_close(struct conn *conn, bool reset);
/* Frees the memory. conn_close() comes first, but not in a forked child. */
void conn_free(struct conn *conn);
/* arms the deadline for the first call, if it is not armed */
void conn_arm_deadline(struct conn *conn);
bool conn_has_unanswered_write(const struct conn *conn);

/* passwords.c: the password, where it is not in the URL */
/* Copies the options. False: *error; passwords_close() all the same. */
bool passwords_open(struct passwords *passwords, const struct net_options *options,
                    struct net_error *error);
bool passwords_check(const struct passwords *passwords, struct net_error *error);
void passwords_close(struct passwords *passwords, bool forked);
/* Starts a thread that reads it, unless one does already. False: no thread. */
bool passwords_begin(struct net *net);
/* False: it still reads, or none does. `failure` NULL: none. Both texts are valid until
 * passwords_drop(). */
bool passwords_answers(const struct passwords *passwords, const char **password,
                       const char **failure);
void passwords_drop(struct passwords *passwords);

/* lookup.c: a node's name to addresses */
#define LOOKUP_NO_THREAD "no memory or thread to resolve the host name"
/* For a connection that is CONN_RESOLVING: starts a lookup, unless one is under way or must wait.
 * False: no thread. */
bool lookup_begin(struct node *node);
/* True when the host is an address already. */
bool lookup_numeric(const char *host, const char *port, struct addresses *addresses);
/* Never waits. A thread that still runs ends when getaddrinfo(3) does, and uses only memory of its
 * own. `forked`: in a child, where the thread does not exist. */
void lookup_drop(struct node *node, bool forked);
/* False: it still runs, or there is none. `failure` NULL: none */
bool lookup_answers(const struct node *node, struct addresses *addresses, const char **failure);
/* writes why there is no answer yet */
void lookup_late(const struct node *node, rl_ns now, char *text, size_t size);

/* wire.c: its bytes on the way out */
/* Marks the connection; net_process() closes it. */
void conn_break(struct conn *conn, int verdict, const char *text);
void conn_epoll(struct conn *conn, uint32_t events); /* the events that epoll will report */
void conn_flush(struct conn *conn);
/* Queues a command; its texts end with NULL. False: no memory. */
__attribute__((sentinel)) bool conn_command(struct conn *conn, const char *command, ...);

/* handshake.c */
bool handshake_begin(struct conn *conn); /* false: no memory */
void handshake_reply(struct conn *conn);
/* The command whose answer comes next. */
const char *handshake_awaits(const struct conn *conn);

/* transaction.c */
void transaction_add(struct node *node, struct net_call *call);
/* The first of them may be sent: the requests before it are answered. */
static inline bool transaction_is_due(const struct node *node) {
    const struct net_call *first = node->aux.calls.head;
    return first && node->tx.stage == TX_IDLE && node->main->state == CONN_READY &&
           first->order <= node->answered;
}
void transaction_pump(struct node *node);
void transaction_reply(struct node *node);
void transaction_lost(struct node *node, int verdict);
struct call_queue transaction_take_all(struct node *node);
bool transaction_conflicts(struct node *node, const struct net_request *request);

/* host.c */
rl_ns clock_now(void);
void net_report(struct net *net); /* nodes that came or went: calls handlers */
__attribute__((format(printf, 3, 4))) void net_log(struct net *net, int level, const char *format,
                                                   ...);

/* node.c: a node's readiness */
static inline struct policy_node *policy_of(const struct node *node) {
    return &node->net->policy.node[node->index];
}
void node_init(struct node *node, struct net *net, unsigned index, const struct url *url);
void node_up(struct conn *conn);
void node_down(struct conn *conn, int verdict, const char *text);
/* begins, or ends, the try of a fresh connection */
void fresh_pump(struct node *node, rl_ns now);
/* Keeps the command that the reply says is refused. */
void nodes_connect(struct net *net, rl_mask nodes); /* after the usual pause */
void node_note_refusal(struct node *node, const struct net_reply *reply);

/* send.c: calls to be sent, and their answers */
void node_expire_kept(struct node *node);
void node_send_kept(struct node *node);
void node_lose_calls(struct node *node, struct call_queue *lost, int verdict);
void call_reply(struct conn *conn);
/* while `counted_until` is set: a call has come, or has gone */
void conn_count_call(struct conn *conn, const struct net_call *call);
void conn_uncount_call(struct conn *conn, const struct net_call *call);
/* Not on CONN_MAIN. An unanswered call has this key, or one with the same hash. */
bool conn_has_key(struct conn *conn, struct net_bytes key);
void conn_stop_counting(struct conn *conn); /* also when its calls are lost */
void call_done(struct net *net, struct net_call *call, const struct net_reply *reply);
void call_failed(struct net *net, struct net_call *call, int verdict);

/* tracking.c: notifications of changes */
/* a message that a server sends unasked, in RESP3 */
void conn_push(struct conn *conn);
bool tracking_handshake(struct conn *conn); /* false: no memory */
bool tracking_subscribe(struct conn *conn);
void tracking_refused(struct conn *conn, const char *what, struct net_bytes error);
void tracking_up(struct node *node);
void tracking_step(struct conn *conn, bool failed);
void tracking_message(struct conn *conn);
/* The connection for an operation; NULL: none. NET_WATCH and NET_PROBE have one of their own. */
struct conn *tracking_way(struct node *node, enum net_op op);
void tracking_down(struct node *node, const char *text);
/* Returns the calls that are lost with the connection. The caller fails them when the node is not
 * in the middle of a state change. Also returns whether to call tracking_lost() then. */
struct call_queue tracking_main_down(struct node *node, bool *was_live);
void tracking_lost(struct node *node, const char *text);
void tracking_pump(struct node *node);
void tracking_answered(struct net *net, const struct net_call *call, const struct net_reply *reply);
void tracking_init(struct net *net);

#endif
