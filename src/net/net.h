/* SPDX-License-Identifier: BSD-2-Clause
 *
 * All connections of one client: the seam between the protocol and the world. Only src/net knows
 * sockets, TLS, the codec, clocks and the kernel's randomness; the simulator implements this header
 * with a world of its own, so nothing above may assume more than is said here.
 *
 * No locking inside: the caller serialises every call on one `struct net` except net_wait() and
 * net_kick(), which may run while another thread holds the caller's mutex.
 */
#ifndef RL_NET_H
#define RL_NET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/request.h"

struct net;

struct net_timer {
    rl_ns at, later;                       /* net's own */
    size_t index;                          /* net's own; 0: not armed */
    struct net_timer *child, *next, *prev; /* net's own: arming a timer never needs memory */
    void (*fire)(struct net_timer *timer);
};

struct net_handlers {
    /* A call is done (its memory is the caller's again). Never called from within net_send(). */
    void (*reply)(void *context, struct net_call *call, const struct net_reply *reply);
    /* What net_ready() or net_settled() says of a node has changed. */
    void (*node)(void *context, unsigned node);
    void (*log)(void *context, int level, const char *text);
    /* A hint, which may be late, lost or false, or of what we did ourselves. `rank` below 0: the
     * key may have changed on that node, or, when it is NULL, any key, and what net_watched() says
     * of the node. Else so many stand before us in the key's queue. */
    void (*wake)(void *context, unsigned node, struct net_bytes key, int rank);
    /* Guarded. The node's record, or all data of the server, may have changed. Where net_node()
     * says `announces`, this comes before the reply to any request that the server executed after a
     * full resynchronisation or a flush. */
    void (*changed)(void *context, unsigned node);
    void *context;
};

struct net_options {
    const char *nodes; /* the URL list */
    rl_ns connect_timeout, stall_timeout;
    const char *tls_ca_file, *tls_cert_file, *tls_key_file, *tls_server_name;
    int log_level;
    bool asks_quorum; /* the handshake asks for NET_ASK_QUORUM; net_node() has the answer */
    bool guarded;     /* nodes without scripting are failed with NOPERM: there is no transaction for
                         guarded requests */
};

struct net_error {
    int result; /* enum redlock_result */
    char text[512];
};

/* Parses the URLs, reads the TLS files, starts connecting. On failure *net is left alone. */
int net_open(struct net **net, const struct net_options *options,
             const struct net_handlers *handlers, struct net_error *error);
/* Gives up connections with an unanswered write by a reset, closes the others, finishes every call
 * still out with DISCONNECTED through the handler, frees all. With `forked` it frees memory only,
 * touches no connection and calls no handler. */
void net_close(struct net *net, bool forked);

/* The TLS files, read anew, for connections made from net_use_tls() on. net_read_tls() may block,
 * and changes nothing; it may run while other threads use the net, but no two at once. OK with
 * *fresh NULL: the net has no TLS. Else *error says why. */
struct tls_context;
int net_read_tls(const struct net *net, struct tls_context **fresh, struct net_error *error);
void net_use_tls(struct net *net, struct tls_context *fresh); /* takes it over; NULL: nothing */

unsigned net_nodes(const struct net *net);
rl_ns net_now(struct net *net);                       /* CLOCK_BOOTTIME; see net_process() */
int net_random(struct net *net, void *buf, size_t n); /* getrandom(2), buffered; 0, or -1 */
int64_t net_wall_us(
    struct net *net); /* CLOCK_REALTIME: for hints, and for the floor and epoch of `quorum init` */

rl_mask net_ready(struct net *net, rl_ns now); /* connected and no answer overdue */
rl_mask net_settled(struct net *net);     /* connected, or the last try to connect has failed */
rl_mask net_busy_writes(struct net *net); /* nodes with an unanswered ACQUIRE, EXTEND or RELEASE, or
                                             one that waits for memory */

struct net_node_status {
    const char *url; /* without password */
    int verdict;     /* GRANTED when ready, else why not */
    bool connected;  /* and TIMEOUT then means that an answer is overdue */
    char run_id[41];
    char version[16];
    char text[160];
    bool uses_transactions;
    bool announces;  /* guarded: handlers.changed() is called in time, see there */
    char quorum[17]; /* `asks_quorum`: the quorum id in the node's record when it was connected; "":
                        no record, or not told */
    uint8_t scheme;  /* enum redlock_scheme */
    uint64_t reconnects;
};
void net_node(struct net *net, unsigned node, rl_ns now, struct net_node_status *status);
/* Gives the connection up (as a lost one, in the next net_process()) and connects anew after the
 * usual pause, which grows when it happens again and again; the verdict and text stand until then.
 * Meanwhile the node is settled: its last try to connect counts as failed. */
void net_reconnect(struct net *net, unsigned node, int verdict, const char *text);

/* Queues the request on each node of the mask; calls[i] is node i's. Returns the nodes that took
 * it; the others (not connected; no memory) were not touched. `due`: when an answer is overdue. A
 * RELEASE is also taken by a node that is not connected: it is kept until the connection is up
 * again, or until `keep_until`, and then done with DISCONNECTED. One whose connection is lost
 * before the answer came is kept too, and sent again: what it then does not find it may have
 * deleted the first time, so ABSENT and DENIED become DISCONNECTED. Order on one node is the order
 * of net_send(), whatever way the node is spoken to; only a WATCH may come before what was sent
 * earlier, or after what is sent later. Nothing is written before net_flush() or the end of
 * net_process(). */
rl_mask net_send(struct net *net, rl_mask nodes, const struct net_request *request,
                 struct net_call *calls, rl_ns due, rl_ns keep_until);
void net_flush(struct net *net);

/* Somebody waits for keys, or nobody does any more: nodes are asked, on a connection of its own, to
 * tell of changes. */
void net_watch(struct net *net, bool on);
rl_mask net_watched(struct net *net); /* nodes that tell: they take WATCH */
struct net_bytes
net_waiter(struct net *net); /* the token of this client in every line; none: {NULL, 0} */

void net_timer_set(struct net *net, struct net_timer *timer, rl_ns at); /* RL_NEVER disarms */
/* The same for a timer that is moved often and seldom fires: one that is put off keeps its place
 * until that comes, and then moves. So before its memory goes it must be disarmed by
 * net_timer_set(). It may come up to `late` later, together with others of the same `late`. */
void net_timer_move(struct net *net, struct net_timer *timer, rl_ns at, rl_ns late);

/* Sleeps until a socket has work, a timer is due, `until`, or net_kick(). Holds nothing of `net`
 * that net_process() changes. The batch is what it saw: pass it to net_process() of the same
 * net. */
struct net_batch {
    int count;
    struct {
        uint32_t events;
        uint64_t what;
    } item[32];
};
rl_ns net_next_timer(struct net *net);
void net_wait(struct net *net, rl_ns until, struct net_batch *batch);
/* NULL: look without sleeping. What was read from a socket at once, and the timers that are due at
 * once, are worked off under one sample of the clock, taken after the reading: as if all of it were
 * done at that moment and the process then stopped for a while. So T1 is never later than what is
 * sent under it, and an answer never later than its `now`. */
void net_process(struct net *net, const struct net_batch *batch);
void net_kick(struct net *net);
/* One descriptor, readable when net_process() has work, timers included (armed by
 * net_process/net_flush once this was called). */
int net_fd(struct net *net);

#endif
