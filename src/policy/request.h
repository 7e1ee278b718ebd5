/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What a client asks of a node, and what the node answers: requests, calls and replies. src/net
 * carries them over sockets, the simulator over a network of its own, and src/policy decides about
 * them for both.
 */
#ifndef RL_POLICY_REQUEST_H
#define RL_POLICY_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/core.h"
#include "policy/ops.h"

struct net_bytes {
    const void *data;
    size_t bytes;
};

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
    enum net_question question; /* NET_SERVER_INFO */
    uint8_t scheme;             /* enum redlock_scheme, of all requests on keys the same: the node's
                                   (net_node()). Not SET: one key; RELEASE and EXTEND: ABSENT also
                                   when the lock's time is over; PEEK, PEEK_VALUE, WATCH: ABSENT
                                   also when its time is over, and `remaining_ms` is by that */
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
    int verdict;            /* enum redlock_verdict */
    int64_t remaining_ms;   /* PEEK, PEEK_VALUE: -1 no TTL, -2 no key */
    struct net_bytes value; /* PEEK_VALUE: at most REDLOCK_TOKEN_BYTES_MAX first bytes; valid during
                               the handler */
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

#endif
