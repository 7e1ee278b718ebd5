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

#include "core/core.h"

struct net;

struct net_bytes {
    const void *data;
    size_t bytes;
};

enum net_op {
    NET_ACQUIRE, /* one key: SET key token NX PX ttl. Several: all or nothing (a script, or
                    WATCH/MULTI) */
    NET_EXTEND,  /* compare-and-pexpire on all keys; never shortens */
    NET_RELEASE, /* compare-and-delete of each key */
    NET_PEEK,    /* PTTL of the key that ends last */
    NET_LOOK,    /* first key: its first bytes and PTTL */
    NET_SCAN,    /* keys under a prefix: SCAN cursor MATCH prefix* */
    NET_SURVEY,  /* no keys; one question about the server itself */
    NET_STATE,   /* no keys; GRANTED with `state`: what a vote rests on besides the node's record */
    /* Guarded only. ACQUIRE and EXTEND of a guarded request carry the fence too: see struct
     * net_request. */
    NET_RAISE, /* the fence of all stripes, strictly: GRANTED; STALE with `fence`, the highest there
                */
    NET_CONFIRM, /* GRANTED: each key still holds the token and each stripe's fence is at least the
                    request's; else STALE */
    NET_RECORD,  /* the node's record: GRANTED with `items`, field and value in turn; ABSENT */
    NET_RECORD_WRITE, /* GRANTED: written; DENIED: its nonce is not the expected one */
    NET_FENCES,       /* all fences of the nonce (`was_kept`: the kept ones): GRANTED with `fences`;
                         RECOVERING: there are none of that name; PROTOCOL: one of them is not a
                         fence */
    /* While somebody waits (net_watch()). */
    NET_WATCH, /* as PEEK, and of the next change of these keys handlers.wake() tells */
    NET_TRACK, /* net's own */
    NET_STAND, /* two keys, NET_KEY_WAITING and NET_KEY_WAITERS of a lock's key: stand in line under
                  the token for ttl_ms, `age_us` before now; GRANTED with `count`, how many are
                  before us */
    NET_LEAVE  /* the same keys and token: stand there no longer; GRANTED with `count`, how many
                  still do */
};
static inline bool net_op_is_write(enum net_op op) {
    return op <= NET_RELEASE;
} /* one that leaves or takes a key */

/* The names of guarded mode's own keys; the nonce is written as 16 hex digits. */
#define NET_KEY_RECORD "redlock:node"
#define NET_KEY_FENCES "redlock:fences:"   /* and the nonce: only while the node is intact */
#define NET_KEY_KEPT "redlock:fences:kept" /* those of a node that recovers */
#define NET_NONCE_BYTES 16
/* The names of a line of those who wait, each followed by the lock's whole key; and the channel of
 * one of them, followed by its token. */
#define NET_KEY_WAITING "redlock:waiting:"
#define NET_KEY_WAITERS "redlock:waiters:"
#define NET_CHANNEL_WAKE "redlock:wake:"
/* Under scheme=setnx, followed by the lock's whole key: which token the timestamp there belongs
 * to. */
#define NET_KEY_SETNX "redlock:setnx:"

/* INFO by section: a whole one would be cut by no limit of ours. CONFIG key by key: before version
 * 7 it takes one. */
enum net_question {
    NET_ASK_TIME,
    NET_ASK_INFO_SERVER,
    NET_ASK_INFO_REPLICATION,
    NET_ASK_INFO_MEMORY,
    NET_ASK_INFO_PERSISTENCE,
    NET_ASK_INFO_CLIENTS,
    NET_ASK_POLICY,
    NET_ASK_APPENDONLY,
    NET_ASK_APPENDFSYNC,
    NET_ASK_SAVE,
    NET_ASK_STOP_WRITES,
    NET_ASK_PROTECTED,
    NET_ASK_BIND,
    NET_ASK_MAXCLIENTS,
    NET_ASK_QUORUM, /* the quorum id in the node's record; no items: it has no record */
    NET_QUESTIONS
};

/* A request and all it points to stays as it is until every call made with it is done: it may be
 * encoded again (NOSCRIPT, reconnect). */
struct net_request {
    enum net_op op;
    const struct net_bytes *keys; /* whole keys, prefix included */
    size_t keys_count;
    struct net_bytes token;
    int64_t ttl_ms;
    uint64_t cursor; /* NET_SCAN */
    int64_t age_us;  /* NET_STAND */
    bool passes; /* NET_LEAVE: takes those before it out of the line, who did not come when it was
                    their turn */
    enum net_question question; /* NET_SURVEY */
    uint8_t scheme;             /* enum redlock_scheme, of all requests on keys the same: the node's
                                   (net_node()). Not SET: one key; RELEASE and EXTEND: ABSENT also
                                   when the lock's time is over; PEEK, LOOK, WATCH: ABSENT also when
                                   its time is over, and `remaining_ms` is by that */
    /* Guarded. ACQUIRE: GRANTED is key and fence; STALE: the key is set, the fence was not raised
     * (or is gone: RAISE tells which). EXTEND: raises the fence to at least this one; RECOVERING:
     * there are no fences of that nonce, nothing was changed. RAISE, CONFIRM: RECOVERING alike.
     * RAISE: DENIED, the key is not ours there. */
    const uint64_t *nonces;  /* by node, read when it is encoded; NULL: classic */
    int64_t fence;           /* 1 to REDLOCK_FENCE_MAX */
    const uint16_t *stripes; /* of the keys, each once */
    size_t stripes_count;
    /* RECORD_WRITE, to one node. The old fences keep their scores under the new name, whichever the
     * two are. */
    uint64_t expected; /* nonce of the record that must be there; 0: none may be */
    uint64_t nonce;    /* the new one, also among the fields */
    bool was_kept,
        keep; /* the fences lie, or are to lie, under NET_KEY_KEPT instead of the nonce's name */
    const int64_t
        *floor; /* RL_STRIPES: every stripe exists then and is at least this; NULL: as they are */
    const struct net_bytes *fields; /* field and value in turn: the whole new record */
    size_t fields_count;            /* at most NET_FIELDS_MAX, both counted */
};
#define NET_FIELDS_MAX 64

/* One request at one node, embedded in the caller's memory; queued without allocation. */
struct net_call {
    struct net_call *next;             /* net's own */
    const struct net_request *request; /* net's own */
    void *owner;                       /* the caller's */
    rl_ns due;                         /* net's own */
    rl_ns keep_until;                  /* net's own */
    uint64_t order;                    /* net's own */
    uint8_t node;                      /* set by net_send */
    uint8_t tag;                       /* the caller's */
    bool busy;         /* set by net_send, cleared just before the handler is called */
    uint8_t state, op; /* net's own */
};

/* What a server says of itself and of its data, by commands in one write (others' commands may come
 * between): TIME, and INFO's replication, memory and stats. */
struct net_state {
    int64_t wall_us;   /* its wall clock */
    char replid[41];   /* the replication id: it changes when the server is promoted, or gets its
                          first replica */
    bool replica;      /* it is one, or becomes one */
    uint32_t replicas; /* connected to it */
    bool may_evict;    /* its maxmemory-policy is not noeviction */
    uint64_t
        evicted; /* keys it has evicted since its process began (CONFIG RESETSTAT sets it to 0) */
};

struct net_reply {
    int verdict;          /* enum redlock_verdict */
    int64_t remaining_ms; /* PEEK, LOOK: -1 no TTL, -2 no key */
    struct net_bytes
        value; /* LOOK: at most REDLOCK_TOKEN_BYTES_MAX first bytes; valid during the handler */
    bool truncated;
    const struct net_bytes *items; /* SCAN: keys. SURVEY: INFO's text; CONFIG's key and value;
                                      TIME's two. During the handler */
    size_t items_count;
    uint64_t cursor;
    int64_t fence;                 /* STALE: the highest of the stripes; 0: not told */
    const int64_t *fences;         /* FENCES: RL_STRIPES, during the handler */
    int64_t count;                 /* STAND, LEAVE */
    const struct net_state *state; /* STATE: during the handler */
    int64_t free_us;               /* net's own, between the replies of one call (setnx.c) */
};

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
     * of the node. Else so many stand before us in the key's line. */
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
