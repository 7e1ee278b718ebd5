/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Requests, calls and replies: what a client asks a node, and what the node answers. src/net
 * carries them over sockets, and the simulator over a simulated network. src/policy decides about
 * them for both. */
#ifndef RL_POLICY_REQUEST_H
#define RL_POLICY_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "core/core.h"
#include "policy/ops.h"

struct net_bytes {
    const void *data;
    size_t bytes;
};
/* Digits only, at most `most`. */
static inline bool net_read_number(struct net_bytes text, uint64_t most, uint64_t *number) {
    *number = 0;
    for (size_t i = 0; i < text.bytes; i++) {
        unsigned digit = ((const unsigned char *)text.data)[i] - (unsigned)'0';
        if (digit > 9 || *number > (UINT64_MAX - digit) / 10) return false;
        *number = *number * 10 + digit;
    }
    return text.bytes > 0 && *number <= most;
}
static inline bool bytes_equal(struct net_bytes a, struct net_bytes b) {
    return a.bytes == b.bytes && memcmp(a.data, b.data, a.bytes) == 0;
}
static inline bool net_is_text(struct net_bytes bytes, const char *text) {
    return bytes.bytes == strlen(text) && memcmp(bytes.data, text, bytes.bytes) == 0;
}
/* TIME's answer in microseconds; -1: it is not one. */
static inline int64_t net_time_us(struct net_bytes seconds, struct net_bytes us) {
    uint64_t whole, part;
    if (!net_read_number(seconds, INT64_MAX / 1000000 - 1, &whole) ||
        !net_read_number(us, 999999, &part))
        return -1;
    return (int64_t)(whole * 1000000 + part);
}
/* INFO's value of "field:value" at the start of a line; {NULL, 0} when absent. */
static inline struct net_bytes net_info_field(struct net_bytes info, const char *field) {
    const char *at = info.data, *end = at + info.bytes;
    const size_t length = strlen(field);
    while (at < end) {
        const char *line_end = memchr(at, '\n', (size_t)(end - at));
        if (!line_end) line_end = end;
        if ((size_t)(line_end - at) > length && memcmp(at, field, length) == 0 &&
            at[length] == ':') {
            at += length + 1;
            if (line_end > at && line_end[-1] == '\r') line_end--;
            return (struct net_bytes){at, (size_t)(line_end - at)};
        }
        at = line_end + 1;
    }
    return (struct net_bytes){NULL, 0};
}

/* The names of guarded mode's own keys. The nonce is written as 16 hex digits. */
#define NET_KEY_RECORD "redlock:node"
#define NET_KEY_FENCES "redlock:fences:"
/* followed by the nonce; exists only while the node is intact */
#define NET_KEY_KEPT "redlock:fences:kept" /* the fences of a recovering node */
#define NET_NONCE_BYTES 16
/* What native nodes call NET_KEY_KEPT: all names there are without the prefix. */
#define NET_KEPT "kept"
/* The names of a wait queue's keys, each followed by the whole key of the lock. The name of a
 * waiting client's channel, followed by its token. */
#define NET_KEY_WAITING "redlock:waiting:"
#define NET_KEY_WAITERS "redlock:waiters:"
#define NET_CHANNEL_WAKE "redlock:wake:"
/* Followed by the whole key of the lock: the announcement of its leader, "TERM TOKEN". */
#define NET_KEY_TERM "redlock:term:"
/* For scheme=setnx, followed by the whole key of the lock: the token to which the timestamp there
 * belongs. */
#define NET_KEY_SETNX "redlock:setnx:"
/* After the key of a resource, followed by a number from 1: the key of a slot. */
#define NET_SLOT_SUFFIX ":slot:"

/* Shared locks: what the key holds instead of a token, and what precedes the key in the name under
 * which its readers are listed. No client draws such a token: all known ones draw random bytes,
 * digits or UUIDs. */
#define NET_SHARED_MARKER "redlock:shared"
#define NET_KEY_SHARED "redlock:shared:"

/* INFO goes section by section: none of our limits could cut a whole one. CONFIG GET goes key by
 * key: before version 7 it takes only one. */
#define NET_SERVER_QUESTIONS(X)                                                                    \
    X(TIME, "TIME")                                                                                \
    X(INFO_SERVER, "INFO", "server")                                                               \
    X(INFO_REPLICATION, "INFO", "replication")                                                     \
    X(INFO_MEMORY, "INFO", "memory")                                                               \
    X(INFO_PERSISTENCE, "INFO", "persistence")                                                     \
    X(INFO_CLIENTS, "INFO", "clients")                                                             \
    X(POLICY, "CONFIG", "GET", "maxmemory-policy")                                                 \
    X(APPENDONLY, "CONFIG", "GET", "appendonly")                                                   \
    X(APPENDFSYNC, "CONFIG", "GET", "appendfsync")                                                 \
    X(FSYNC_PAUSES, "CONFIG", "GET", "no-appendfsync-on-rewrite")                                  \
    X(SAVE, "CONFIG", "GET", "save")                                                               \
    X(STOP_WRITES, "CONFIG", "GET", "stop-writes-on-bgsave-error")                                 \
    X(PROTECTED, "CONFIG", "GET", "protected-mode")                                                \
    X(BIND, "CONFIG", "GET", "bind")                                                               \
    X(MAXCLIENTS, "CONFIG", "GET", "maxclients")                                                   \
    X(QUORUM, "HGET", NET_KEY_RECORD, "quorum") /* no items: no record */
enum net_question {
#define NET_QUESTION(name, ...) NET_ASK_##name,
    NET_SERVER_QUESTIONS(NET_QUESTION)
#undef NET_QUESTION
        NET_QUESTIONS,
    /* And after these, may the user run a command? NET_ASK_MAY + i is row i of net_permission(). An
     * error other than a denial is a yes; no row changes anything. */
    NET_ASK_MAY = NET_QUESTIONS,
    NET_QUESTIONS_ALL = NET_ASK_MAY + 28
};

/* A command that a lock needs (permission.c), with its arguments; "%k" stands for the request's
 * key.
 */
struct net_permission {
    const char *text;
    enum {
        NET_MAY_LOCK,  /* any lock */
        NET_MAY_GUARD, /* a lock in guarded mode */
        NET_MAY_OTHER  /* to show locks, slots, shared locks */
    } use;
};
/* NULL: there are no more rows. */
const struct net_permission *net_permission(bool native, unsigned row);

/* A request and all that it points to must not change until every call made with it is done. It may
 * be encoded again (NOSCRIPT, reconnect). */
struct net_request {
    enum net_op op;
    const struct net_bytes *keys; /* whole keys, prefix included */
    size_t keys_count;
    struct net_bytes token;
    int64_t ttl_ms;
    uint64_t cursor; /* NET_SCAN, READERS */
    uint32_t skip;   /* READERS */
    uint32_t effort; /* NET_SCAN: how many keys the server looks at in one call; 0: 50. READERS:
                        how many to list */
    bool anywhere;  /* NET_SCAN: keys that contain the prefix anywhere, not only at the beginning */
    int64_t age_us; /* NET_WAIT_QUEUE_ENTER */
    /* NET_WAIT_QUEUE_LEAVE: also removes the clients before it that did not act when it was their
     * turn. */
    bool passes;
    /* TURN_WAIT, TURN_LEAVE, and an ACQUIRE or SHARE that waits (native nodes). */
    struct net_bytes waiter;
    int64_t since_us; /* its wall clock when it began to wait, in microseconds since 1970 */
    int64_t waited_us, remember_us;
    bool reads;                 /* TURN_WAIT: for a shared lock */
    enum net_question question; /* NET_SERVER_INFO */
    /* enum redlock_scheme, the node's (net_node()), the same for all requests on keys. Not SET: one
     * key. RELEASE and EXTEND answer ABSENT also when the lock's time has ended. PEEK, PEEK_VALUE
     * and WATCH do so too, and `remaining_ms` follows the lock's time. */
    uint8_t scheme;
    /* RELEASE: whether the key was absent or another client's must be known, for which some servers
     * are asked a second time. Read when the answer comes. */
    bool tells_holder;
    /* ACQUIRE_SLOT: how many there are, and those to try, in their order ("3 1 2"). The stripes are
     * those of slots 1, 2, ... WATCH: the keys are slots, and the one that ends first counts. */
    uint8_t slots;
    struct net_bytes slot_order;
    /* Guarded. ACQUIRE: GRANTED is for key and fence. STALE: the key is set, but the fence was not
     * raised, or is gone (RAISE shows which). EXTEND: raises the fence to at least this one;
     * RECOVERING: that nonce has no fences, and nothing was changed. RAISE, BREAK and CONFIRM:
     * RECOVERING means the same. RAISE: DENIED means that the key is not ours there. */
    const uint64_t *nonces;  /* by node, read when it is encoded; NULL: classic */
    int64_t fence;           /* 1 to REDLOCK_FENCE_MAX */
    const uint16_t *stripes; /* of the keys; each stripe once */
    size_t stripes_count;
    /* RECORD_WRITE, to one node. The old fences keep their scores under the new name, whichever
     * names they are. */
    uint64_t expected; /* the nonce of the record that must be there; 0: there must be none */
    /* the new one, also among the fields. BREAK: what is added to the nodes' own */
    uint64_t nonce;
    bool was_kept,
        keep; /* the fences are, or will be, under NET_KEY_KEPT and not under the nonce's name */
    /* RL_STRIPES: afterwards every stripe exists and is at least this; NULL: unchanged */
    const int64_t *floor;
    const struct net_bytes *fields; /* field and value in turn: the whole new record */
    size_t fields_count;            /* at most NET_FIELDS_MAX; fields and values are both counted */
};
#define NET_FIELDS_MAX 64

struct net_call;
struct net_reply;
typedef void net_answered_fn(struct net_call *call, const struct net_reply *reply);

/* One request at one node. It is part of the caller's memory, so queueing needs no allocation. */
struct net_call {
    struct net_call *next;             /* net's own */
    const struct net_request *request; /* net's own */
    void *owner;                       /* the caller's */
    net_answered_fn *answered;         /* the caller's: takes the answer */
    rl_ns due;                         /* net's own */
    rl_ns keep_until;                  /* net's own */
    uint64_t order;                    /* net's own */
    uint8_t node;                      /* set by net_send */
    bool busy;         /* set by net_send, cleared just before the handler is called */
    uint8_t state, op; /* net's own */
};

/* A server's report of itself and of its data. The commands go in one write, but other clients'
 * commands may come between: TIME, and the replication, memory and stats sections of INFO. A native
 * node's clock is CLOCK_BOOTTIME; its data are that of its incarnation, and it never evicts. */
struct net_state {
    int64_t wall_us; /* its wall clock; a native node's CLOCK_BOOTTIME */
    /* The replication id. It changes when the server is promoted, or gets its first replica. A
     * native node's incarnation. */
    char replid[41];
    bool replica;      /* it is a replica, or is becoming one */
    uint32_t replicas; /* connected to it */
    bool may_evict;    /* its maxmemory-policy is not noeviction */
    uint64_t evicted;  /* keys evicted since the process began (CONFIG RESETSTAT resets it to 0) */
    uint32_t clients;  /* that it notifies of changes: the guarded ones, and perhaps others */
};

struct net_reply {
    int verdict; /* enum redlock_verdict */
    /* NOPERM: the command that the user may not run; "": the server does not name it, or a key is
     * denied. */
    char denied[24];
    char
        unknown[24]; /* ERROR: the command that the server does not know; "": it is another error */
    /* PEEK, PEEK_VALUE: -1: no TTL; -2: no key. ACQUIRE and SHARE, DENIED by a native node: of the
     * holder's key that ends last; -2: the node does not say. */
    int64_t remaining_ms;
    /* PEEK_VALUE: the first bytes, at most REDLOCK_TOKEN_BYTES_MAX; valid during the handler.
     * ACQUIRE, DENIED by a native node: fewer of them. */
    struct net_bytes value;
    bool truncated;
    uint8_t slot, slots; /* ACQUIRE_SLOT */
    /* SCAN: keys. SERVER_INFO: INFO's text; CONFIG's key and value; TIME's two numbers. READERS:
     * milliseconds left, a space, a token. Valid during the handler. */
    const struct net_bytes *items;
    size_t items_count;
    uint64_t cursor; /* SCAN, READERS: of the next page; 0: there is none */
    uint32_t skip;   /* READERS: the same */
    /* STALE: the highest fence of the stripes; 0: unknown. SHARE, GRANTED: the stripe's */
    int64_t fence;
    const int64_t *fences;         /* FENCES: RL_STRIPES numbers, valid during the handler */
    int64_t count;                 /* WAIT_QUEUE_ENTER, _LEAVE, _PEEK; READERS: how many */
    int64_t age_us;                /* WAIT_QUEUE_PEEK: how long the first waiter has waited */
    const struct net_state *state; /* STATE: valid during the handler */
    int64_t free_us;               /* net's own, between the replies of one call (setnx.c) */
};

#endif
