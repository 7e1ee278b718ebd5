/* SPDX-License-Identifier: BSD-2-Clause
 *
 * For the people who run the servers: which locks exist, what each server reports about itself,
 * and the quorum of guarded mode. A program that only takes locks needs redlock.h alone. Times,
 * threads, memory and struct sizes are as redlock.h describes.
 */
#ifndef REDLOCK_ADMIN_H
#define REDLOCK_ADMIN_H

#include <string.h>

#include "../redlock.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- listing ------------------------------------------------------------------------------ */

/* `resource`, without the key prefix, is valid during the call. Must not call the library. */
typedef void redlock_resource_fn(void *context, const void *resource, size_t bytes);
/* Calls `each` for every string key with a TTL and the client's prefix, on any node. The same
 * resource may come more than once. Reads by SCAN: it finds every key that exists from beginning to
 * end. A node whose SCAN does not end is left out, with the verdict PROTOCOL. OK, NO_QUORUM,
 * BAD_ARGUMENT, NO_MEMORY, FORKED. */
REDLOCK_API REDLOCK_MUST_CHECK int redlock_list(struct redlock_client *client,
                                                redlock_resource_fn *each, void *context);

/* Asks the nodes what kind of value a key holds that redlock_peek() reports as WRONGTYPE. Copies
 * the server's own name for it into `type`, at most `size` - 1 bytes and a NUL: "list", "hash",
 * "set", "zset", "stream", or a module's name. "": no node says (the user may lack the permission
 * for TYPE), or the key is a string or is gone. Waits like redlock_peek(). OK, BAD_ARGUMENT (`size`
 * is 0), NO_MEMORY, FORKED. */
REDLOCK_API REDLOCK_MUST_CHECK int redlock_key_type(struct redlock_client *client,
                                                    const void *resource, size_t bytes, char *type,
                                                    size_t size);

/* ---- redlock's own keys --------------------------------------------------------------------- */

/* One of the keys that this client uses on a node. */
struct redlock_own_key {
    size_t size;    /* set by _init() */
    char name[256]; /* the whole name, cut to what fits; "": it uses none of this kind */
    int denied;     /* 1: the user may not read it, or not write it (ACL) */
    int foreign; /* 1: it holds another type than redlock writes there. Always 0 for the lock's own
                    key: see redlock_key_type() */
    char type[16]; /* the server's name for that type; "": unknown */
};
enum { REDLOCK_OWN_KEYS = 8 };
static inline void redlock_own_keys_init(struct redlock_own_key keys[REDLOCK_OWN_KEYS]) {
    memset(keys, 0, REDLOCK_OWN_KEYS * sizeof *keys);
    for (int i = 0; i < REDLOCK_OWN_KEYS; i++) keys[i].size = sizeof *keys;
}
/* Asks one node about the key of a lock on this resource, its readers (shared locks), its two wait
 * queues, its owner (scheme=setnx), the node's record, the fences of a recovering node, and the
 * fences, in this order. With `bytes` 0 only about the node's own. On a native node only about the
 * lock's key. Changes nothing. Waits for at most the connect timeout. OK, BAD_ARGUMENT, NO_MEMORY,
 * FORKED. */
REDLOCK_API REDLOCK_MUST_CHECK int redlock_own_keys(struct redlock_client *client, size_t node,
                                                    const void *resource, size_t bytes,
                                                    struct redlock_own_key *keys);

/* ---- ending another client's lock ---------------------------------------------------------- */

struct redlock_break_options {
    size_t size; /* set by _init() */
    /* The token that must hold the lock, as redlock_peek() reports it. NULL, the default: any. Give
     * it when a person has decided about one holder: a later holder is then left alone. */
    const void *token;
    size_t token_bytes;
    /* How long deletes are repeated while too few nodes answer, 0 to 86400000; 3000. The call takes
     * up to four connect timeouts more. Who holds the lock is asked once: with fewer than a
     * majority connected the call ends. */
    int64_t retry_ms;
};
/* Writes the defaults into a struct of `size` bytes. Call _init() instead. */
REDLOCK_API void redlock_break_options_fill(struct redlock_break_options *options, size_t size);
static inline void redlock_break_options_init(struct redlock_break_options *options) {
    redlock_break_options_fill(options, sizeof *options);
}

/* What a break found and did. It holds no secret: of a token, only the owner part. */
struct redlock_break_report {
    size_t size; /* set by _init() */
    /* 1: the key of this holder was deleted on at least one node. 0 with the result OK: the lock
     * was free already, or became free. */
    int deleted;
    /* 1: every node reported after the break that it does not have the token. 0: a node in `silent`
     * may have it, or one of the `unlisted`. If the holder renewed while its keys were deleted, and
     * reaches such a node, it may keep the lock: break it again then. */
    int certain;
    /* guarded: every later holder has a higher fence than this, and the broken one a lower; 0:
     * classic, or nothing was broken. */
    int64_t fence;
    int64_t remaining_ms; /* how long the key would have lived on the node where it lives longest,
                             as read before; -1: without end; 0: no key was found */
    size_t owner_bytes;   /* of `owner` */
    char owner[256];      /* as the holder has set it; empty when the token has another form */
    uint32_t silent;      /* nodes that did not report whether they have the token, by bits */
    /* enum redlock_verdict, by node. GRANTED: it deleted the key; ABSENT: it has none; DENIED: it
     * holds another client's token, which was left alone; else why it did not answer. */
    int verdicts[15];
    uint32_t unlisted; /* guarded: how many members of the quorum this client does not list, and so
                          did not ask */
};
static inline void redlock_break_report_init(struct redlock_break_report *report) {
    memset(report, 0, sizeof *report);
    report->size = sizeof *report;
}

/* Ends the lock on a resource, for any holder. Reads the holder; then deletes its token, and no
 * other, on all nodes, until a majority reports that it is not there. In guarded mode the first
 * delete also raises the fence of the resource, in the same step on each node of a majority.
 *
 * The holder is not asked. It loses its lock at its next renewal, and believes until then that it
 * has it: in classic mode two clients may work at the same time for that long. In guarded mode its
 * writes are refused where the fence is checked, once the resource has seen `fence` (admit it there
 * yourself, redlock/fence.h) or the fence of a later holder. A lock on several resources is lost as
 * a whole when one of them is broken; the keys of the others stay until it is released or ends.
 *
 * OK: the lock was broken (report->deleted), or was free. CONFLICT: another client holds it by now,
 * or another than options->token; its key was left alone. NO_QUORUM: too few nodes answered; keys
 * may have been deleted. BAD_ARGUMENT (also: a token of more than REDLOCK_TOKEN_BYTES_MAX bytes;
 * scheme=setnx, where keys hold no token), TWICE_LISTED, TWO_QUORUMS, NO_MEMORY, FORKED. Waits for
 * the nodes as an acquisition does. `options` may be NULL. The report is filled for OK, CONFLICT
 * and NO_QUORUM, and left alone otherwise; *error, which may be NULL, names node and cure. */
REDLOCK_API REDLOCK_MUST_CHECK int redlock_break(struct redlock_client *client,
                                                 const void *resource, size_t bytes,
                                                 const struct redlock_break_options *options,
                                                 struct redlock_break_report *report,
                                                 struct redlock_error *error);
/* ---- waiting ------------------------------------------------------------------------------ */

/* How an acquisition waits, for people who watch it. */
struct redlock_wait_status {
    size_t size;       /* set by _init() */
    int waiting;       /* 1: it waits for a lock that others hold or wait for; 0: it does not */
    int64_t waited_ms; /* for how long; 0 if it does not wait */
    int64_t ahead;     /* how many wait before it, as the nodes reported last: other clients, and
                          callers of this client. It is a hint. -1: unknown */
};
static inline void redlock_wait_status_init(struct redlock_wait_status *status) {
    memset(status, 0, sizeof *status);
    status->size = sizeof *status;
}
/* Fills *status with what this client knows about the wait of `lock`. Reads memory, not the
 * network; any thread may call it. To see the holder, call redlock_peek_start() on another lock of
 * the same resource. OK, BAD_ARGUMENT (`size` is too small), FORKED. */
REDLOCK_API REDLOCK_MUST_CHECK int redlock_lock_wait_status(struct redlock_lock *lock,
                                                            struct redlock_wait_status *status);

/* Waits for at most `wait_ms` (0: looks once; or REDLOCK_WAIT_FOREVER) and the node timeout of the
 * last look until a majority of nodes holds no key under the resource. It takes nothing and enters
 * no queue, so the answer is a hint: another client may have the lock when this returns. Where a
 * majority of nodes notifies of changes, it looks again on each notification and when the key ends,
 * else after a random 50 to 250 ms. Blocks; nodes that are down are waited for. OK: free. HELD: not
 * free in that time. NO_QUORUM: too few nodes answered the last look. BAD_ARGUMENT, NO_MEMORY,
 * SYSTEM, TWICE_LISTED, TWO_QUORUMS, GUARDED_NODES, FORKED. */
REDLOCK_API REDLOCK_MUST_CHECK int redlock_await_free(struct redlock_client *client,
                                                      const void *resource, size_t bytes,
                                                      int64_t wait_ms);
/* The same without blocking, for the resource of a lock that is free: one resource, no slots. It
 * asks only connected nodes, so the first look may find NO_QUORUM, and it looks again. OK: started;
 * `done` is called once, also with CANCELLED after redlock_cancel(). The lock is BUSY meanwhile. */
REDLOCK_API REDLOCK_MUST_CHECK int redlock_await_free_start(struct redlock_lock *lock,
                                                            int64_t wait_ms, redlock_done_fn *done,
                                                            void *context);
/* ---- many locks at once ------------------------------------------------------------------- */

/* Both functions below ask connected nodes only, and wait for them for at most the connect timeout.
 * For an observer that looks again and again: each call is a small, bounded piece of work for the
 * servers. Neither changes anything. */

enum redlock_key {
    REDLOCK_KEY_OTHER = 0,   /* may be a lock; redlock_survey() shows it */
    REDLOCK_KEY_WAITING = 1, /* the wait queue of a resource */
    REDLOCK_KEY_LEADER = 2   /* a leader's announcement; only if the walk asks for it */
};
/* `node` has a key of `resource`, without the key prefix; valid during the call. `what` is enum
 * redlock_key. Must not call the library. */
typedef void redlock_scan_fn(void *context, size_t node, int what, const void *resource,
                             size_t bytes);

/* Where a walk over the keys of all nodes is. */
struct redlock_walk {
    size_t size;     /* set by _init() */
    uint32_t effort; /* how many keys each server looks at in one call, 1 to 1000; 50. With long
                        keys fewer: the connection ends if one answer is larger than 1 MiB */
    uint32_t ended;  /* bits, by node: the walk has passed all its keys, ... */
    uint32_t failed; /* ... or the node did not answer the last call, and is asked again in the next
                        one. A call does not ask nodes that have ended; clear `ended` to begin a new
                        walk there */
    uint64_t cursors[REDLOCK_NODES_MAX]; /* the servers' own; 0: at the beginning */
    uint64_t bytes;                      /* of all names that this walk has received */
    int verdicts[REDLOCK_NODES_MAX]; /* enum redlock_verdict, of the node's last call: GRANTED, or
                                        why it failed; NOPERM: the user may not run SCAN */
    int leaders; /* 1: `each` also gets announcements of leaders. They end with the TTL; 0 */
};
static inline void redlock_walk_init(struct redlock_walk *walk) {
    memset(walk, 0, sizeof *walk);
    walk->size = sizeof *walk;
    walk->effort = 50;
}
/* Takes one step of the walk on every node that has not ended, and calls `each` for every key with
 * the client's prefix and for every wait queue of such a key; of any type, and perhaps more than
 * once. The keys of guarded mode are left out. A walk finds each key that exists from its beginning
 * to its end. OK: at least one node answered. NO_QUORUM: none did. BAD_ARGUMENT, NO_MEMORY, FORKED.
 */
REDLOCK_API REDLOCK_MUST_CHECK int redlock_scan(struct redlock_client *client,
                                                struct redlock_walk *walk, redlock_scan_fn *each,
                                                void *context);

/* The wait queue that a node keeps for a resource (waiting.md). Of stock nodes one keeps
 * it; of native nodes each does, so how many wait is the greatest number that a node reports. */
struct redlock_queue_view {
    int verdict; /* enum redlock_verdict. GRANTED: the node reported its queue; else why not: NONE,
                    it was not asked, because it runs no scripts and keeps no queues */
    int64_t waiters;   /* clients that wait, each counted once however many threads it has */
    int64_t oldest_ms; /* how long the first of them has waited; 0: there is none */
};
#define REDLOCK_SURVEY_MAX 256 /* resources in one call */
/* redlock_peek() for many resources in one round trip, and their wait queues. The element for
 * resource r at node n is [r * redlock_client_nodes() + n]; `queues` may be NULL. OK: a majority
 * answered for each resource; NO_QUORUM (everything is filled as well); BAD_ARGUMENT (`count` is
 * above REDLOCK_SURVEY_MAX; a resource is empty or too long), NO_MEMORY, FORKED. */
REDLOCK_API REDLOCK_MUST_CHECK int redlock_survey(struct redlock_client *client,
                                                  const struct redlock_bytes *resources,
                                                  size_t count, struct redlock_view *views,
                                                  struct redlock_queue_view *queues);

/* What a node holds in place of a token under the key of a shared lock (shared.md). */
#define REDLOCK_SHARED_MARKER "redlock:shared"
/* `node` lists a reader of the resource with that index, for `remaining_ms` more by the node's own
 * time. `token` is valid during the call. Must not call the library. */
typedef void redlock_reader_fn(void *context, size_t resource, size_t node, const void *token,
                               size_t bytes, int64_t remaining_ms);
#define REDLOCK_READERS_MAX 1000000 /* of a resource and node, in one call */
struct redlock_readers_view {
    int verdict;     /* enum redlock_verdict. GRANTED: it holds the marker; ABSENT: no key; DENIED:
                        something else; NOT_SHARED: it cannot; else why it did not say */
    int64_t readers; /* GRANTED: how many readers it lists whose end has not come */
};
/* Lists the readers of shared locks. Of each resource and node at most `most` readers are reported,
 * those that end first; 0: the numbers alone, and `each` may be NULL. Up to 256 of one resource
 * take one round trip; more come page by page, and a reader that comes, leaves or renews meanwhile
 * may be reported twice. The element for resource r at node n is views[r * redlock_client_nodes() +
 * n]. For other locks it costs a question for nothing: ask redlock_survey() first, and this for
 * resources where a view has the marker. Results as redlock_survey(). */
REDLOCK_API REDLOCK_MUST_CHECK int redlock_readers(struct redlock_client *client,
                                                   const struct redlock_bytes *resources,
                                                   size_t count, size_t most,
                                                   redlock_reader_fn *each, void *context,
                                                   struct redlock_readers_view *views);

/* ---- servers ------------------------------------------------------------------------------ */

enum redlock_role { REDLOCK_ROLE_UNKNOWN = 0, REDLOCK_ROLE_MASTER = 1, REDLOCK_ROLE_REPLICA = 2 };

/* What the user may not ask, or the server does not know. Bits. */
enum redlock_server_info_refused {
    REDLOCK_SERVER_INFO_NO_TIME = 1,
    REDLOCK_SERVER_INFO_NO_INFO = 2,  /* at least one section of INFO */
    REDLOCK_SERVER_INFO_NO_CONFIG = 4 /* at least one key of CONFIG GET */
};

/* What redlock_server_info() asks for. */
enum redlock_server_info_what {
    REDLOCK_SERVER_INFO_CLOCK = 1, /* TIME alone: the clock and the round trip */
    REDLOCK_SERVER_INFO_ALL = 2,   /* the whole struct; about 30 short commands in one round trip */
    REDLOCK_SERVER_INFO_PERMISSIONS = 3 /* the clock, `denied` and `denied_others` */
};

/* How a guarded node differs from its record. Bits. A node with such a difference recovers, because
 * its data may lack locks. */
enum redlock_stale {
    REDLOCK_STALE_PROCESS = 1,     /* another server process: it was restarted */
    REDLOCK_STALE_REPLICATION = 2, /* another replication id: it was a replica in between, or has
                                      got one */
    REDLOCK_STALE_EVICTED = 4      /* another number of evicted keys */
};

/* Why a server refuses scripts. */
enum redlock_scripts {
    REDLOCK_SCRIPTS_RUN = 0,
    REDLOCK_SCRIPTS_DENIED = 1,   /* this user may not run EVAL or EVALSHA, or they fail */
    REDLOCK_SCRIPTS_UNKNOWN = 2,  /* the server does not know EVAL or EVALSHA */
    REDLOCK_SCRIPTS_NO_ENGINE = 3 /* it has no Lua engine */
};

/* What one server reports. A number that is unknown is -1, a text that is unknown is "". No field
 * holds a secret. */
struct redlock_server {
    size_t size;            /* set by _init() */
    int verdict;            /* enum redlock_verdict. GRANTED: the node answers; else why not */
    int refused;            /* enum redlock_server_info_refused, bits */
    int64_t asked_ns;       /* when TIME was sent, in nanoseconds of our CLOCK_BOOTTIME ... */
    int64_t answered_ns;    /* ... and when its reply arrived; the difference is the round trip */
    int64_t clock_us;       /* the server's wall clock between the two, microseconds since 1970 */
    char server[16];        /* "redis" or "valkey" */
    char version[16];       /* its own version */
    char redis_version[16]; /* the version of Redis that it is compatible with */
    char run_id[41];
    int64_t uptime_s;         /* seconds since the server process began */
    int role;                 /* enum redlock_role */
    int replicas;             /* connected to this server */
    int loading;              /* 1: it is still reading its data */
    int writes_refused;       /* 1: its last write to disk failed, so it refuses writes (MISCONF) */
    int64_t memory_bytes;     /* in use */
    int64_t memory_bytes_max; /* maxmemory; 0: no limit */
    char eviction[24];        /* maxmemory-policy */
    int append_only;          /* 1: it writes an append-only file ... */
    char append_fsync[12];    /* ... and flushes it to disk "always", "everysec" or "no" */
    int snapshots;            /* 1: it saves snapshots from time to time (save) */
    int64_t clients;          /* connected */
    int64_t clients_max;
    int protected_mode; /* 1: on */
    char bind[128];     /* the configured addresses, separated by spaces; cut to what fits */
    int bind_known;     /* 1: `bind` was read. Then "" means no TCP at all, or, before version 7,
                           every address */
    int64_t tcp_port;   /* with TLS or without; 0: Unix socket only */
    char quorum[17];    /* the quorum id in its record; "": it has no record, or did not say */
    int announces;      /* guarded. 1: the server notifies this connection of a loss of its data
                           before any later vote. 0: it does not (an old server, or the user lacks
                           permission): the guarantee is weaker, see guarded.md */
    int stale;          /* guarded. enum redlock_stale, bits; 0: the node is as its record says;
                           -1: it has no record, or the record was not read */
    int64_t reconnects; /* how often this client has lost and made its connection again */
    int native;         /* 1: a native node: its locks are in the module redlock, which ends them by
                           a clock of its own. Eviction, persistence and the wall clock do not
                           matter there. 0: a stock server; -1: not connected */
    char module[16];    /* native: the module's version */
    int mirror;         /* native. 1: each lock is also a key, so that programs which do not know
                           the module see it; 0: they do not */
    int replicas_lacking; /* 1: it refuses writes, because min-replicas-to-write is set and no
                             replica is near enough (NOREPLICAS) */
    char denied[192];     /* commands that a lock in this client's mode needs, and that the user may
                             not run, separated by spaces: "set pexpire"; "": none that is known */
    char denied_others[160]; /* PERMISSIONS: the same of commands that show locks (getrange, scan),
                                and of those that slots and shared locks need */
    int fsync_pauses; /* 1: it flushes nothing to disk while a child process writes a snapshot or a
                         new append-only file (no-appendfsync-on-rewrite) */
    int unknown; /* of `refused`, what no permission helps: the server does not know the command
                    (it was renamed or disabled, or a proxy answers) */
    int scripts; /* enum redlock_scripts */
    /* Of the last request for a lock that was refused since the client connected. */
    char last_denied[24];  /* the command that this user may not run; "": none, or it was a key, or
                              the server named none */
    char last_unknown[24]; /* the command that the server does not know */
};
static inline void redlock_server_init(struct redlock_server *server) {
    memset(server, 0, sizeof *server);
    server->size = sizeof *server;
}

/* Asks every connected node once, on the existing connections. servers[i] is node i; each element
 * is initialised by redlock_server_init(); `count` is at least redlock_client_nodes(). `what` is
 * enum redlock_server_info_what. What a node does not report stays unknown. Changes nothing and
 * asks for no password. Waits for at most the connect timeout. The answers are for people: no lock
 * depends on them. OK: a majority answered. NO_QUORUM (the elements are filled as well),
 * BAD_ARGUMENT, NO_MEMORY, FORKED. */
REDLOCK_API REDLOCK_MUST_CHECK int redlock_server_info(struct redlock_client *client, int what,
                                                       struct redlock_server *servers,
                                                       size_t count);

/* ---- the quorum of guarded mode ----------------------------------------------------------- */

#define REDLOCK_QUORUM_TTL_MS_MAX 60000 /* ttl_ms_max of a new quorum if none is given */

enum redlock_quorum_change {
    REDLOCK_QUORUM_CHANGE_UNKNOWN = 0, /* or none */
    REDLOCK_QUORUM_CHANGE_ADD = 1,
    REDLOCK_QUORUM_CHANGE_REMOVE = 2,
    REDLOCK_QUORUM_CHANGE_TTL_MAX = 3
};

/* What the records on the nodes say. */
struct redlock_quorum_status {
    size_t size; /* set by _init() */
    int known;   /* 1: a record was found; 0: every other field is 0 */
    char id[17];
    uint32_t epoch;     /* counts changes, from 1 */
    int settled;        /* 0: the last change is not complete; the next change completes it first */
    int64_t ttl_ms_max; /* no lock lasts longer between renewals; a node that lost its data waits
                           this long before it votes */
    size_t members, intact, votes_needed;
    int64_t ttl_ms_allowed; /* the longest TTL that a client may use: ttl_ms_max, and less while a
                               change of ttl_ms_max is under way, in either direction */
    int64_t ttl_ms_next;    /* what that change makes of it; ttl_ms_max while there is none */
    size_t behind;          /* members that lack nothing but the newest change of the quorum: the
                               next client that takes a lock brings it to them */
    int change;             /* the last one, if it is not complete: enum redlock_quorum_change */
    char change_id[17];     /* ADD, REMOVE: the member */
    char change_url[256];   /* ADD: of the member, without the password */
};
static inline void redlock_quorum_status_init(struct redlock_quorum_status *quorum) {
    memset(quorum, 0, sizeof *quorum);
    quorum->size = sizeof *quorum;
}

/* The i-th member of the quorum, whichever node of this client it is. */
struct redlock_member {
    size_t size; /* set by _init() */
    char id[17];
    char url[256];         /* as it was initialised or added, without the password */
    int node;              /* which node of this client; -1: not listed, or unknown */
    int verdict;           /* enum redlock_verdict. GRANTED: intact; RECOVERING; FOREIGN; else why
                              the node cannot be asked */
    int64_t recovering_ms; /* as in struct redlock_node_status */
};
static inline void redlock_member_init(struct redlock_member *member) {
    memset(member, 0, sizeof *member);
    member->size = sizeof *member;
}

/* Reads the quorum. Waits for the nodes as an acquisition does. A member with an intact record
 * whose fences are gone is RECOVERING: it cannot vote. Each element of `members` is initialised by
 * redlock_member_init(). OK: a majority of the members is intact. NO_QUORUM (everything is filled
 * as well). TWO_QUORUMS: the listed nodes belong to two quorums and none is pinned; what is filled
 * describes the quorum that this client chose, if it chose one. BAD_ARGUMENT (`count` is below the
 * number of members; a classic client), NO_MEMORY, FORKED. */
REDLOCK_API REDLOCK_MUST_CHECK int redlock_quorum_peek(struct redlock_client *client,
                                                       struct redlock_quorum_status *quorum,
                                                       struct redlock_member *members,
                                                       size_t count);

/* Called about once a second during an operator's command: what it does, and how many milliseconds
 * are left (-1: unknown). `text` is valid during the call. Must not call the library. */
typedef void redlock_progress_fn(void *context, const char *text, int64_t left_ms);

struct redlock_quorum_options {
    size_t size;         /* set by _init() */
    int64_t ttl_ms_max;  /* init: the quorum's, 10 to 86400000. 0, the default: not given */
    int64_t fence_floor; /* init: fencing tokens begin above this, above the wall clock in
                            microseconds, and above every fence found; 0 */
    int never_used;      /* init. 1: you assert that these servers never held a lock, so that they
                            vote at once; 0 */
    redlock_progress_fn *progress; /* NULL: no reports */
    void *progress_context;
    int64_t ttl_ms_max_before; /* init: the longest ttl_ms_max that these servers are known to have
                                  had, from a configuration for example; init waits at least that
                                  long. 0, the default: unknown */
};
/* Writes the defaults into a struct of `size` bytes. Call _init() instead. */
REDLOCK_API void redlock_quorum_options_fill(struct redlock_quorum_options *options, size_t size);
static inline void redlock_quorum_options_init(struct redlock_quorum_options *options) {
    redlock_quorum_options_fill(options, sizeof *options);
}

/* The operator's commands. Each of them blocks. It may be interrupted at any moment, by the end of
 * the process for example; run it again then. On failure *error, which may be NULL, names the node
 * and the cure. */

/* Writes records on all nodes of this client. All of them must be reachable and fit. Unless
 * never_used, init then waits until every lock that may be held there has ended: for the longest of
 * ttl_ms_max, ttl_ms_max_before and the ttl_ms_max of every record on the nodes, of any quorum. If
 * none of these is known, init returns BAD_ARGUMENT and writes nothing, because the lost quorum may
 * have had any. The quorum's ttl_ms_max is the option's, else the longest known, else (never_used)
 * REDLOCK_QUORUM_TTL_MS_MAX.
 * Over existing records init works only if fewer than a majority is intact: by calling it you
 * assert that the data of a majority is lost. It then keeps the quorum's id and tokens.
 * OK; NO_QUORUM: a node cannot be reached, or is not fit; CONFLICT: a majority is intact, or
 * another change came first; TWO_QUORUMS: a node belongs to another quorum than the pinned one, or
 * than the other nodes (records of an init that never completed are taken over); BAD_ARGUMENT;
 * TWICE_LISTED; NO_MEMORY; FORKED. */
REDLOCK_API REDLOCK_MUST_CHECK int redlock_quorum_init(struct redlock_client *client,
                                                       const struct redlock_quorum_options *options,
                                                       struct redlock_error *error);
/* Adds the client's node `node`, which is listed next to the members. It votes after it has waited
 * for ttl_ms_max, as a node that lost its data does. */
REDLOCK_API REDLOCK_MUST_CHECK int redlock_quorum_add(struct redlock_client *client, size_t node,
                                                      const struct redlock_quorum_options *options,
                                                      struct redlock_error *error);
/* Removes the member `id` (16 hex digits). Add and remove first complete an interrupted change; if
 * another operator makes a different one at the same time, they complete that and return CONFLICT.
 * They return when their change is settled. An added node may still be recovering then; any client
 * with `recover` on brings it back. Results as redlock_quorum_init(). */
REDLOCK_API REDLOCK_MUST_CHECK int
redlock_quorum_remove(struct redlock_client *client, const char *id,
                      const struct redlock_quorum_options *options, struct redlock_error *error);
/* Makes `ttl_ms` (10 to 86400000) the quorum's ttl_max. It first completes an interrupted change,
 * as add and remove do. Raising it takes a few round trips: clients may use the longer TTL when
 * every node that loses its data waits for it. Lowering it takes as long as the present ttl_max:
 * clients keep to the shorter TTL at once, and nodes wait for the shorter one when the locks of the
 * longer one have ended. A lock that is held with a longer TTL goes on; its renewals use the
 * shorter one. Results as redlock_quorum_init(). OK at once if it is the ttl_max already. */
REDLOCK_API REDLOCK_MUST_CHECK int
redlock_quorum_set_ttl_max(struct redlock_client *client, int64_t ttl_ms,
                           const struct redlock_quorum_options *options,
                           struct redlock_error *error);

#ifdef __cplusplus
}
#endif
#endif
