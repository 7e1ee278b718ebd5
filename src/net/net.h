/* SPDX-License-Identifier: BSD-2-Clause
 *
 * All connections of one client: the boundary between the protocol and the outside. Only src/net
 * uses sockets, TLS, the codec, clocks and the kernel's randomness. The simulator implements this
 * header in its own way, so the layers above may assume only what is written here.
 *
 * No locking inside: the caller serialises every call on one `struct net` except net_wait() and
 * net_kick(), which may run while another thread holds the caller's mutex. */
#ifndef RL_NET_H
#define RL_NET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/request.h"
#include "redlock.h"

struct net;

/* The text of a node begins with it when nobody knows the password: that may pass. */
#define NET_NO_PASSWORD "no password: "

/* Why a node with verdict NOPERM is not used as a classic one in mode auto. */
#define NET_QUORUM_UNREADABLE                                                                      \
    "the user may not read whether the server belongs to a guarded quorum: allow +hget "           \
    "%R~redlock:node (before Redis 7 ~redlock:node), or choose mode classic"

struct net_timer {
    rl_ns at, later; /* used only by net */
    /* Used only by net: arming a timer never needs memory. `prev` is NULL while it is not armed. */
    struct net_timer *child, *next, *prev;
    void (*fire)(struct net_timer *timer);
};

enum { NET_WAKE_TURN = -2 }; /* a `rank` of handlers.wake() */

struct net_handlers {
    /* A call is done; its memory belongs to the caller again. Never called from within
     * net_send(). */
    void (*reply)(void *context, struct net_call *call, const struct net_reply *reply);
    /* The result of net_ready() or net_settled() has changed for the node. */
    void (*node)(void *context, unsigned node);
    void (*log)(void *context, int level, const char *text);
    /* A hint. It may be late, lost or false, or caused by our own requests. `rank` below 0: the key
     * may have changed on that node; with `key` NULL, any key may have changed, and so may
     * net_tracked() for the node. `rank` from 0 on: that many clients wait before us in the key's
     * queue. NET_WAKE_TURN: a native node has reserved the key for us. */
    void (*wake)(void *context, unsigned node, struct net_bytes key, int rank);
    /* Guarded, or `asks_quorum` and the node carries a record. The node's record, or all data of
     * the server, may have changed. Where net_node() has `announces`, this call comes before the
     * reply to any request that the server executed after a full resynchronisation or a flush. */
    void (*changed)(void *context, unsigned node);
    void *context;
};

struct net_options {
    const char *nodes; /* the URL list */
    rl_ns connect_timeout, stall_timeout;
    const char *tls_ca_file, *tls_cert_file, *tls_key_file, *tls_server_name;
    /* Of nodes without a password in the URL; at most one of the two sources. NULL: none */
    const char *user, *password_file;
    redlock_password_fn *password;
    void *password_context;
    int log_level;
    /* The handshake asks for NET_ASK_QUORUM. A connection to a node with a record is guarded from
     * its handshake on, and handlers.changed() reports the first one at once. */
    bool asks_quorum;
    /* Nodes without scripting fail with NOPERM: guarded requests cannot use a transaction. */
    bool guarded;
};

struct net_error {
    int result; /* enum redlock_result */
    char text[512];
};

/* Parses the URLs, reads the TLS files, starts connecting. On failure *net is left alone. */
int net_open(struct net **net, const struct net_options *options,
             const struct net_handlers *handlers, struct net_error *error);
/* Closes connections with an unanswered write by a reset, closes the others, ends every open call
 * with DISCONNECTED through the handler, and frees everything. With `forked` it only frees memory,
 * touches no connection and calls no handler. */
void net_close(struct net *net, bool forked);

/* The TLS files, read again, for connections made after net_use_tls(). net_read_tls() may block,
 * and changes nothing. It may run while other threads use the net, but only one thread at a time
 * may run it. OK with *fresh NULL: the net has no TLS. On failure *error has the reason. */
struct tls_context;
int net_read_tls(const struct net *net, struct tls_context **fresh, struct net_error *error);
/* takes ownership; NULL: does nothing */
void net_use_tls(struct net *net, struct tls_context *fresh);

/* Whether the password file, if there is one, can be used. It may block, and changes nothing: each
 * connection reads the file. May run while other threads use the net. False: *error. */
bool net_check_passwords(const struct net *net, struct net_error *error);

/* This process is a child of the one that opened the net, or a child of a child. Nothing here
 * touches a socket, a timer or the epoll set then: they are the parent's. Any thread may call it;
 * NULL: false. */
bool net_is_forked(const struct net *net);
/* The same from now on, in this process. */
void net_detach(struct net *net);
/* A number that a process shares with none of its children; never 0. */
unsigned net_process_number(void);
bool net_uses_tls(const struct net *net);
/* The program has closed the descriptors: no node can be reached any more. Timers go on. */
bool net_is_bereft(const struct net *net);

unsigned net_nodes(const struct net *net);
rl_ns net_now(struct net *net);                       /* CLOCK_BOOTTIME; see net_process() */
int net_random(struct net *net, void *buf, size_t n); /* getrandom(2), buffered; 0, or -1 */
/* CLOCK_REALTIME: for hints, and for the floor and epoch of `quorum init` */
int64_t net_wall_us(struct net *net);

/* `asks_quorum`: a record was seen, so all connections are guarded from now on. One that is up
 * without it is closed like a lost one, in the next net_process(), and made again. */
void net_become_guarded(struct net *net);

rl_mask net_ready(struct net *net, rl_ns now); /* connected, and no answer overdue */
rl_mask net_settled(struct net *net); /* connected, or the last try to connect has failed */
/* Nodes with an unanswered request that a closing client waits for (net_op_is_awaited()), or with a
 * RELEASE that is about to be sent:
 * it waits for memory, or for a connection that has not failed yet. */
rl_mask net_busy_writes(struct net *net);

struct net_node_status {
    const char *url; /* without password */
    int verdict;     /* GRANTED when ready, else the reason */
    bool connected;  /* if connected, TIMEOUT means that an answer is overdue */
    /* Who answers: the run_id of the server process, or the incarnation of a native node, which is
     * drawn anew whenever the module is loaded. */
    char run_id[41];
    char version[16];
    char text[160];
    bool native;     /* a native node; false: a stock node, or it was never connected */
    char module[16]; /* native: the module's version */
    bool mirror;     /* native: locks are also keys, for other programs to see */
    bool uses_transactions;
    uint8_t scripts;              /* enum redlock_scripts */
    char denied[24], unknown[24]; /* of the last request that was refused */
    /* It serves NET_OP_READERS: false for a server that refuses scripts, and for an old module. */
    bool keeps_readers;
    bool keeps_slots; /* it serves NET_ACQUIRE_SLOT: false for an old module */
    bool announces;   /* guarded: handlers.changed() is called in time, see there */
    /* `asks_quorum`: the quorum id in the node's record, as the last handshake read it; "": no
     * record, or unknown. */
    char quorum[17];
    uint8_t scheme; /* enum redlock_scheme */
    uint64_t reconnects;
};
void net_node(struct net *net, unsigned node, rl_ns now, struct net_node_status *status);
/* Closes the connection like a lost one, in the next net_process(), and connects again after the
 * usual pause, which grows when this repeats. The verdict and text stay until then. Meanwhile the
 * node is settled: its last try to connect counts as failed. */
void net_reconnect(struct net *net, unsigned node, int verdict, const char *text);

/* Clients lose a server all at the same time. When the connection to a node ends while the others
 * are a majority and nothing waits for it, it is made again at a random time within `spread`, and
 * not after the usual pause. 0, the default: never so. */
void net_spread(struct net *net, rl_ns spread);
/* Something waits for the nodes: connections that were put off are made after the usual pause. */
void net_hurry(struct net *net);

/* Queues the request on each node of the mask; calls[i] is node i's. Returns the nodes that took
 * it. The other calls (not connected; no memory) are untouched. `due`: when an answer is overdue. A
 * node that is not connected also takes a RELEASE. It is kept, and sent when the connection is up
 * again; at `keep_until` it ends with DISCONNECTED. A RELEASE whose connection is lost before the
 * answer came is also kept, and sent again. It may have deleted the key the first time, so ABSENT
 * and DENIED become DISCONNECTED. The order on one node is the order of net_send(), on
 * whichever connection; only a WATCH may come before earlier requests or after later ones. Nothing
 * is written before net_flush() or the end of net_process(). */
rl_mask net_send(struct net *net, rl_mask nodes, const struct net_request *request,
                 struct net_call *calls, rl_ns due, rl_ns keep_until);
void net_flush(struct net *net);

/* A caller waits for keys (`on`), or none does any more. Nodes are asked, on a separate connection,
 * to notify of changes. */
void net_track(struct net *net, bool on);
rl_mask net_tracked(struct net *net); /* nodes that notify: they accept WATCH */
/* this client's token in every wait queue; none: {NULL, 0} */
struct net_bytes net_waiter(struct net *net);

static inline bool net_timer_is_armed(const struct net_timer *timer) { return timer->prev != NULL; }
void net_timer_set(struct net *net, struct net_timer *timer, rl_ns at); /* RL_NEVER disarms */
/* The same for a timer that moves often and seldom fires. A timer that is put off keeps its place
 * until that time, and then moves. So before its memory is freed it must be disarmed by
 * net_timer_set(). It may fire up to `late` later, together with others of the same `late`. */
void net_timer_move(struct net *net, struct net_timer *timer, rl_ns at, rl_ns late);

/* Sleeps until a socket has work, a timer is due, `until` is reached, or net_kick() is called. Uses
 * nothing of `net` that net_process() changes. The batch is what it saw: pass it to net_process()
 * of the same net. */
struct net_batch {
    int count;
    struct {
        uint32_t events;
        uint64_t what;
    } item[32];
};
bool net_saw_sockets(const struct net_batch *batch); /* with a bell: of sockets alone */
rl_ns net_next_timer(struct net *net);
void net_wait(struct net *net, rl_ns until, struct net_batch *batch);
/* NULL: look without sleeping. All bytes that were read from one socket at once, and all timers
 * that are due at once, are processed with one sample of the clock, taken after the reading. It is
 * as if all was done at that time and the process then stopped for a while. So T1 is never later
 * than the requests sent under it, and an answer never later than its `now`. */
void net_process(struct net *net, const struct net_batch *batch);
void net_kick(struct net *net);
/* One descriptor, readable when net_process() has work, timers included (net_process() and
 * net_flush() arm it after the first call of this function). */
int net_fd(struct net *net);

/* Another descriptor, for a program that waits until it rings: readable from net_ring() to
 * net_hush(), and while it listens also when a socket has work. Right after net_open(). False: no
 * descriptor is left. */
bool net_make_bell(struct net *net);
int net_bell(const struct net *net);            /* -1: there is none */
void net_bell_listen(struct net *net, bool on); /* off at first */
void net_ring(struct net *net);
void net_hush(struct net *net);

#endif
