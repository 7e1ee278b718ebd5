/* SPDX-License-Identifier: BSD-2-Clause
 *
 * redlock -- distributed locks held on a majority of independent Redis or Valkey servers.
 *
 * The contract, in four sentences: Time: every duration is in milliseconds, is measured on
 * CLOCK_BOOTTIME and never on a wall clock, and a validity that is reported errs on the short side.
 * Threads: with the service thread (the default) every function may be called from any thread;
 * without it, calls on one client and its locks must not overlap, except redlock_cancel() and
 * redlock_client_reload(). Memory: what a function copies it says; what it hands out belongs to the
 * object it came from. Output: the library never prints, exits, installs a signal handler or logs a
 * token or a password; it calls the log function that you give it, and nothing unless you do.
 *
 * Structs that begin with `size` grow at their end from release to release. A program that was
 * built with an older or a newer header than the library works: nothing is read or written behind
 * `size`. A field that the library does not know yet must be zero in options (else BAD_ARGUMENT),
 * and is set to zero in what it fills. A `size` below that of the first release is BAD_ARGUMENT.
 */
#ifndef REDLOCK_H
#define REDLOCK_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define REDLOCK_API __attribute__((visibility("default")))
#define REDLOCK_MUST_CHECK __attribute__((warn_unused_result))
#else
#define REDLOCK_API
#define REDLOCK_MUST_CHECK
#endif

#define REDLOCK_VERSION_MAJOR 0
#define REDLOCK_VERSION_MINOR 1
#define REDLOCK_VERSION_PATCH 0

/* Limits. A value outside them is REDLOCK_BAD_ARGUMENT, never clipped. */
#define REDLOCK_NODES_MAX 15
#define REDLOCK_RESOURCE_BYTES_MAX 65536 /* key prefix included */
#define REDLOCK_RESOURCES_MAX 64         /* in one lock */
#define REDLOCK_TTL_MS_MIN 10
#define REDLOCK_TTL_MS_MAX 86400000 /* 24 hours */
#define REDLOCK_OWNER_BYTES_MAX 128
#define REDLOCK_TOKEN_HEX_BYTES 40 /* 20 random bytes in hexadecimal */
#define REDLOCK_TOKEN_BYTES_MAX                                                                    \
    1024 /* of a token given by the caller; ours are at most 40 + 1 + owner */
#define REDLOCK_WAIT_FOREVER (-1)
#define REDLOCK_FENCE_MAX                                                                          \
    INT64_C(9007199254740991) /* 2^53 - 1: exact in a double, as Lua, JSON and sorted sets have */
#define REDLOCK_FENCE_RESOURCES_MAX 16777216

/* Results. Values are never renumbered. HELD ("another has it") and NO_QUORUM ("cannot know")
 * are different answers; see docs/safety.md. */
#define REDLOCK_RESULTS(X)                                                                         \
    X(REDLOCK_OK, 0, "ok")                                                                         \
    X(REDLOCK_HELD, -1, "held by another")                                                         \
    X(REDLOCK_NO_QUORUM, -2, "no quorum: too few nodes answered")                                  \
    X(REDLOCK_EXPIRED, -3, "expired while acquiring: the majority answered too late")              \
    X(REDLOCK_LOST, -4, "lost: this lock is not, or no longer, ours")                              \
    X(REDLOCK_CANCELLED, -5, "cancelled")                                                          \
    X(REDLOCK_BAD_ARGUMENT, -6, "bad argument")                                                    \
    X(REDLOCK_NO_MEMORY, -7, "out of memory")                                                      \
    X(REDLOCK_FORKED, -8, "client used after fork(2) in the child: open a new one there")          \
    X(REDLOCK_BUSY, -9, "another operation on this lock is under way")                             \
    X(REDLOCK_SYSTEM, -10, "a system call failed")                                                 \
    X(REDLOCK_TWICE_LISTED, -11, "one server is listed twice: its vote would count twice")         \
    X(REDLOCK_LIMIT, -12, "the lock's maximum hold or renewal count is used up")                   \
    X(REDLOCK_FENCED, -13, "fenced off: an operation with a higher fencing token was here before") \
    X(REDLOCK_TTL_MAX_EXCEEDED, -14, "the TTL is longer than the quorum's ttl_max allows")         \
    X(REDLOCK_CONFLICT, -15, "another change of the quorum is under way or came first")            \
    X(REDLOCK_TWO_QUORUMS, -16, "the list of nodes names servers of two quorums")                  \
    X(REDLOCK_GUARDED_NODES, -17, "the servers belong to a guarded quorum, and no mode was chosen")

enum redlock_result {
#define REDLOCK_ENUM(name, value, text) name = (value),
    REDLOCK_RESULTS(REDLOCK_ENUM)
#undef REDLOCK_ENUM
};

/* What one node said, or why it said nothing. Values are never renumbered. */
#define REDLOCK_VERDICTS(X)                                                                        \
    X(REDLOCK_VERDICT_NONE, 0, "no answer yet")                                                    \
    X(REDLOCK_VERDICT_GRANTED, 1, "granted")                                                       \
    X(REDLOCK_VERDICT_DENIED, 2, "held by another")                                                \
    X(REDLOCK_VERDICT_ABSENT, 3, "key absent")                                                     \
    X(REDLOCK_VERDICT_TIMEOUT, 4, "no answer in time")                                             \
    X(REDLOCK_VERDICT_CONNECTING, 5, "not connected yet")                                          \
    X(REDLOCK_VERDICT_REFUSED, 6, "connection refused or unreachable")                             \
    X(REDLOCK_VERDICT_DISCONNECTED, 7, "connection lost")                                          \
    X(REDLOCK_VERDICT_NAME, 8, "host name not found")                                              \
    X(REDLOCK_VERDICT_TLS, 9, "TLS failed")                                                        \
    X(REDLOCK_VERDICT_AUTH, 10, "wrong or missing password")                                       \
    X(REDLOCK_VERDICT_NOPERM, 11, "no permission (ACL)")                                           \
    X(REDLOCK_VERDICT_OOM, 12, "server out of memory")                                             \
    X(REDLOCK_VERDICT_MISCONF, 13, "server cannot persist (MISCONF)")                              \
    X(REDLOCK_VERDICT_READONLY, 14, "read-only replica")                                           \
    X(REDLOCK_VERDICT_LOADING, 15, "server is loading its data")                                   \
    X(REDLOCK_VERDICT_BUSY, 16, "server is busy with a script")                                    \
    X(REDLOCK_VERDICT_NOREPLICAS, 17, "server lacks replicas (NOREPLICAS)")                        \
    X(REDLOCK_VERDICT_WRONGTYPE, 18, "key holds something other than a string")                    \
    X(REDLOCK_VERDICT_MAXCLIENTS, 19, "server has too many clients")                               \
    X(REDLOCK_VERDICT_PROTOCOL, 20, "answer out of order, oversized or malformed")                 \
    X(REDLOCK_VERDICT_CLUSTER, 21, "server is part of a cluster")                                  \
    X(REDLOCK_VERDICT_MASTERDOWN, 22, "replica lost its master (MASTERDOWN)")                      \
    X(REDLOCK_VERDICT_TWICE_LISTED, 23, "same server as an earlier node")                          \
    X(REDLOCK_VERDICT_NO_MEMORY, 24, "out of memory in this process")                              \
    X(REDLOCK_VERDICT_ERROR, 25, "server answered with another error")                             \
    X(REDLOCK_VERDICT_RECOVERING, 26, "node lost its lock data and does not vote yet")             \
    X(REDLOCK_VERDICT_FOREIGN, 27, "node is not, or no longer, a member of this quorum")           \
    X(REDLOCK_VERDICT_STALE, 28, "fencing token too low")                                          \
    X(REDLOCK_VERDICT_NO_RECORD, 29, "node carries no record: redlock quorum init makes one")      \
    X(REDLOCK_VERDICT_UNFIT, 30, "server is not fit for guarded mode")                             \
    X(REDLOCK_VERDICT_GUARDED, 31, "server belongs to a guarded quorum: choose guarded mode")

enum redlock_verdict {
#define REDLOCK_ENUM(name, value, text) name = (value),
    REDLOCK_VERDICTS(REDLOCK_ENUM)
#undef REDLOCK_ENUM
};

/* A sentence in English for a result or verdict; never NULL, static. */
REDLOCK_API const char *redlock_result_text(int result);
REDLOCK_API const char *redlock_verdict_text(int verdict);
/* The version of the library at run time, "MAJOR.MINOR.PATCH". */
REDLOCK_API const char *redlock_version(void);

/* What went wrong in a call that takes one, as one sentence that names the problem and the cure.
 * Filled on failure only. */
struct redlock_error {
    int result;
    char text[512];
};

struct redlock_client;
struct redlock_lock;

/* How strong a lock is; docs/guarded.md, docs/safety.md. */
enum redlock_mode {
    REDLOCK_MODE_CLASSIC = 0, /* Redlock as other clients know it; with one node, the single lock */
    REDLOCK_MODE_GUARDED =
        1, /* nodes carry a record (redlock_quorum_init()): one that lost its data does not vote,
              and every lock has a fencing token. Redis 6.2 or later, or Valkey */
    REDLOCK_MODE_AUTO =
        2 /* classic, but never on nodes that carry a record: these are refused (GUARDED_NODES) */
};

/* How a node keeps a lock: by its URL; docs/older-ways.md. */
enum redlock_scheme {
    REDLOCK_SCHEME_SET = 0,     /* SET key token NX PX ttl */
    REDLOCK_SCHEME_SETNX = 1,   /* a timestamp in seconds under the key, which has no TTL */
    REDLOCK_SCHEME_SETNX_MS = 2 /* the same in milliseconds */
};

enum redlock_log_level {
    REDLOCK_LOG_ERROR = 0,
    REDLOCK_LOG_WARNING = 1,
    REDLOCK_LOG_INFO = 2,
    REDLOCK_LOG_DEBUG = 3
};

/* Called from whichever thread drives the client; must not call back into the library. */
typedef void redlock_log_fn(void *context, enum redlock_log_level level, const char *text);

/* Options of a client. Fill with redlock_client_options_init(), then change what you need.
 * Strings are copied by redlock_client_open(). Fields are only ever appended. */
struct redlock_client_options {
    size_t size; /* set by init; tells the library which fields exist */
    int64_t
        node_timeout_ms; /* 0: min(50, ttl/20), at least 5. How long an attempt waits for a node */
    int64_t connect_timeout_ms; /* 1000. Connect, TLS and AUTH together; no part of an attempt */
    int64_t stall_timeout_ms;   /* 5000. A connection with an answer overdue this long is reset */
    uint32_t drift_ppm;      /* 10000 (1 %) of the TTL is taken off validity for clock drift ... */
    uint32_t drift_ms;       /* ... and 2 ms, the granularity of Redis's expiry */
    int service_thread;      /* 1: a thread renews and completes; 0: you call redlock_process() */
    const char *key_prefix;  /* NULL: none. Put before every resource to make the key */
    size_t key_prefix_bytes; /* 0 with a non-NULL prefix: strlen() */
    const char *tls_ca_file; /* PEM; NULL: the system's store */
    const char *tls_cert_file; /* PEM client certificate, with tls_key_file; NULL: none */
    const char *tls_key_file;
    const char *tls_server_name; /* NULL: the host in the URL. Name to send and to verify */
    redlock_log_fn *log;         /* NULL: silence */
    void *log_context;
    enum redlock_log_level log_level; /* REDLOCK_LOG_WARNING */
    int mode;                         /* enum redlock_mode; AUTO */
    int confirm; /* guarded. 1: a majority is asked once more before a lock counts (one round trip
                    more): then the order of fencing tokens needs no clock at all, not even under VM
                    snapshots of a client; 0 */
    int recover; /* guarded. 1: nodes that lost their data are brought back in the background,
                    together with all other clients; 0: only others do that */
    const char
        *quorum; /* guarded. The quorum's id, 16 hex digits: nodes of any other quorum never count.
                    NULL: the one quorum that the nodes belong to; nodes of two are an error */
    int allow_replicas; /* guarded. 1: masters with replicas may vote. 0: they are refused, for a
                           promoted replica may lack locks that were granted */
};

/* The defaults, for a caller whose struct has `size` bytes: as many are written, however many
 * fields this library knows. So what was built against an older header stays sound; the _init()
 * functions hand over what their header says. */
REDLOCK_API void redlock_client_options_fill(struct redlock_client_options *options, size_t size);
static inline void redlock_client_options_init(struct redlock_client_options *options) {
    redlock_client_options_fill(options, sizeof *options);
}

/* Opens a client on 1 to 15 nodes: "redis://[user:pass@]host[:port][/db]", "rediss://..." (TLS),
 * "unix:///path[?db=n]", separated by commas or white space; user and password percent-encoded. A
 * single node may have the option scheme=setnx ("redis://host/0?scheme=setnx"): locks as the old
 * pattern with SETNX, GETSET and a timestamp keeps them, which exclude programs that still use it.
 * scheme=setnx-ms: with milliseconds in place of seconds. Then there is no guarded mode and a lock
 * is on one resource; docs/older-ways.md says what it can promise. The quorum is nodes/2+1 of the
 * nodes given here, never of those that answer. Returns at once; connections come up in the
 * background. `options` NULL: the defaults. On failure *client is left alone and *error (which may
 * be NULL) says why. Returns OK, BAD_ARGUMENT, NO_MEMORY, SYSTEM. */
REDLOCK_API REDLOCK_MUST_CHECK int redlock_client_open(const char *nodes,
                                                       const struct redlock_client_options *options,
                                                       struct redlock_client **client,
                                                       struct redlock_error *error);

/* Frees a client. All its locks must have been freed, and no other thread may be inside a call on
 * it or on them. Waits at most one node timeout for releases under way, then gives up connections
 * whose SET is unanswered with a reset. NULL is fine. In a child after fork(2) it touches no
 * connection and frees memory, unless another thread was inside the library at the moment of the
 * fork: then nothing is freed. Not to be called from a callback. */
REDLOCK_API void redlock_client_free(struct redlock_client *client);

/* Reads the TLS files of the options again, as after a certificate was renewed. Connections that
 * are made from now on use what was read; those that there are stay as they are. Blocks while a
 * file is read. May be called from any thread, also without a service thread and while another call
 * is under way; not from a callback. OK; BAD_ARGUMENT (a file cannot be used: *error, which may be
 * NULL, says which and why), NO_MEMORY, FORKED. On failure nothing changes. */
REDLOCK_API REDLOCK_MUST_CHECK int redlock_client_reload(struct redlock_client *client,
                                                         struct redlock_error *error);

/* Waits until every node is connected or its last try to connect has failed, at most `wait_ms`;
 * returns the number of nodes that are ready (guarded: that vote), or a negative result. Nodes that
 * failed are tried again in the background (without a service thread: by redlock_process()), so to
 * wait for servers that are still starting, call it again. */
REDLOCK_API int redlock_client_wait_ready(struct redlock_client *client, int64_t wait_ms);

/* One node as the client sees it now. Strings are valid until the client is freed. */
struct redlock_node_status {
    size_t size;           /* set by the caller to sizeof(struct redlock_node_status) */
    const char *url;       /* as configured, without the password */
    int verdict;           /* GRANTED: ready; else why it is not */
    char run_id[41];       /* "" while unknown (not connected, or INFO refused) */
    char version[16];      /* redis_version, "" while unknown */
    char text[160];        /* detail of the last failure, "" if none; no secrets */
    int uses_transactions; /* 1: scripting is refused there; WATCH/MULTI/EXEC is used */
    int64_t recovering_ms; /* RECOVERING: until it votes again, as far as this client knows; -1:
                              nobody can tell */
    char node_id[17];      /* guarded: which member it is; "" unknown */
    int scheme;            /* enum redlock_scheme */
};
REDLOCK_API size_t redlock_client_nodes(const struct redlock_client *client);
/* OK, or BAD_ARGUMENT when node is out of range. */
REDLOCK_API int redlock_client_node(struct redlock_client *client, size_t node,
                                    struct redlock_node_status *status);

/* Counters since the client was opened. */
struct redlock_stats {
    size_t size;       /* set by the caller */
    uint64_t attempts; /* tries to acquire, one round of votes each */
    uint64_t acquired;
    uint64_t retries;
    uint64_t votes_granted;
    uint64_t votes_denied;
    uint64_t votes_lost; /* timeouts, lost connections and errors of a node */
    uint64_t extensions;
    uint64_t extensions_failed;
    uint64_t released;
    uint64_t lost;
    uint64_t reconnects;
    uint64_t splits;  /* tries that another's votes made fail although some nodes granted */
    uint64_t wakeups; /* hints from nodes to those who waited */
    uint64_t
        overloads; /* times that renewals were seen not to keep up, at most one in 10 s. It is seen
                      before a lock is lost for that: a quarter of the time in which its renewal can
                      be done has passed. Each is logged as a WARNING too. Of the last one: */
    uint64_t renewals_needed; /* renewals a second that the locks held then take */
    uint64_t renewals_done;   /* renewals a second that were done since the first had to wait */
};
REDLOCK_API int redlock_client_stats(struct redlock_client *client, struct redlock_stats *stats);

/* ---- any event loop -------------------------------------------------------------------- */

/* With service_thread = 0: one descriptor that becomes readable when redlock_process() has work,
 * timers included. Owned by the client. -1 with a service thread. */
REDLOCK_API int redlock_client_fd(struct redlock_client *client);
/* Does all work that is due without blocking and runs callbacks. OK, FORKED or BAD_ARGUMENT
 * (service thread). */
REDLOCK_API int redlock_process(struct redlock_client *client);

/* ---- locks ------------------------------------------------------------------------------ */

enum redlock_state {
    REDLOCK_STATE_FREE = 0, /* not held, nothing under way */
    REDLOCK_STATE_ACQUIRING = 1,
    REDLOCK_STATE_HELD = 2,
    REDLOCK_STATE_UNSURE = 3, /* a renewal failed; validity is left and renewal is tried again */
    REDLOCK_STATE_LOST = 4,   /* final until released */
    REDLOCK_STATE_RELEASING = 5
};

/* What on_change may report, always outside the library's mutex: on the service thread, or inside
 * redlock_process() (and inside blocking calls) without one. It may call any function,
 * redlock_lock_free() too, but not redlock_client_free(). Keep it short: on the service thread it
 * holds up the callbacks of every lock of the client, and, while no other thread is in a blocking
 * call, their renewals. */
enum redlock_change {
    REDLOCK_CHANGE_RENEWED = 1,
    REDLOCK_CHANGE_UNSURE = 2, /* renewal fails; redlock_validity_ms() says what is left */
    REDLOCK_CHANGE_SURE = 3,   /* renewed again after UNSURE */
    REDLOCK_CHANGE_LOST =
        4 /* comes before validity ends by lost_margin_ms, or at once when it is known sooner */
};
typedef void redlock_change_fn(void *context, struct redlock_lock *lock,
                               enum redlock_change change);

struct redlock_lock_options {
    size_t size;
    int64_t ttl_ms;          /* 30000; 10 to 86400000 */
    int64_t validity_ms_min; /* 1. A win that leaves less, or not more than lost_margin_ms, is given
                                back (EXPIRED) */
    int renew;               /* 1: renewed until released or lost */
    int64_t renew_interval_ms; /* 0: a third of the TTL */
    int64_t hold_ms_max; /* 0: no limit. Renewal stops so that validity ends at or before this long
                            after acquiring */
    uint32_t renew_count_max; /* 0: no limit */
    int64_t
        lost_margin_ms; /* -1: ttl/10, at most 1000. LOST is told this long before validity ends */
    uint32_t retry_count_max;   /* 0: no limit. Retries of one redlock_acquire() */
    int64_t retry_delay_ms_min; /* 50. A fresh random delay in [min, max] before each retry; where
                                 servers tell when the lock is free, it is only the net below that
                                 (docs/waiting.md) */
    int64_t retry_delay_ms_max; /* 250 */
    const void
        *owner; /* NULL: none. At most 128 bytes, shown by `redlock show`; part of the token */
    size_t owner_bytes; /* 0 with a non-NULL owner: strlen() */
    redlock_change_fn *on_change;
    void *on_change_context;
};
REDLOCK_API void redlock_lock_options_fill(struct redlock_lock_options *options, size_t size);
static inline void redlock_lock_options_init(struct redlock_lock_options *options) {
    redlock_lock_options_fill(options, sizeof *options);
}

/* Bytes with a length; NUL has no meaning. */
struct redlock_bytes {
    const void *data;
    size_t bytes;
};

/* A lock on one resource (or, with _multi, on all of several: all or nothing on each node).
 * Takes nothing yet. Names and options are copied. A lock is used again after release.
 * OK, BAD_ARGUMENT, NO_MEMORY, FORKED. */
REDLOCK_API REDLOCK_MUST_CHECK int redlock_lock_new(struct redlock_client *client,
                                                    const void *resource, size_t bytes,
                                                    const struct redlock_lock_options *options,
                                                    struct redlock_lock **lock,
                                                    struct redlock_error *error);
REDLOCK_API REDLOCK_MUST_CHECK int
redlock_lock_new_multi(struct redlock_client *client, const struct redlock_bytes *resources,
                       size_t count, const struct redlock_lock_options *options,
                       struct redlock_lock **lock, struct redlock_error *error);
/* Frees it; cancels an acquisition under way, releases what is held, without waiting. NULL is fine.
 * No callback of this lock runs after it returns. */
REDLOCK_API void redlock_lock_free(struct redlock_lock *lock);

/* One try. OK, HELD, NO_QUORUM, EXPIRED, CANCELLED, NO_MEMORY, BUSY, TWICE_LISTED, FORKED, SYSTEM;
 * guarded: TTL_MAX_EXCEEDED. */
REDLOCK_API REDLOCK_MUST_CHECK int redlock_try(struct redlock_lock *lock);
/* Tries until it is ours, `wait_ms` are over (0: one try; REDLOCK_WAIT_FOREVER), the retries are
 * used up or redlock_cancel(). On failure, the outcome of the last try; nothing of ours is left
 * behind where a node can be reached, and elsewhere ends with its TTL. */
REDLOCK_API REDLOCK_MUST_CHECK int redlock_acquire(struct redlock_lock *lock, int64_t wait_ms);
/* Ends an acquisition under way in another thread (CANCELLED). Harmless otherwise. */
REDLOCK_API void redlock_cancel(struct redlock_lock *lock);
/* Sets what is left to at least `ttl_ms` (0: the lock's own TTL) on a majority; never shortens,
 * never brings a lost lock back. OK, LOST, NO_QUORUM (still ours for redlock_validity_ms()), LIMIT,
 * BUSY, BAD_ARGUMENT, FORKED; guarded: TTL_MAX_EXCEEDED, where this TTL or the lock's own, with
 * which it would be renewed, is too long. */
REDLOCK_API REDLOCK_MUST_CHECK int redlock_extend(struct redlock_lock *lock, int64_t ttl_ms);
/* Deletes the keys that are ours on all nodes. OK: a majority deleted them. LOST: a majority had
 * them not. NO_QUORUM: cannot know; what is left ends with its TTL. In each case this lock is free
 * afterwards. BUSY, FORKED. */
REDLOCK_API int redlock_release(struct redlock_lock *lock);

/* The same without blocking: return OK when started, else as above, and call `done` once with the
 * result. */
typedef void redlock_done_fn(void *context, struct redlock_lock *lock, int result);
REDLOCK_API REDLOCK_MUST_CHECK int redlock_acquire_start(struct redlock_lock *lock, int64_t wait_ms,
                                                         redlock_done_fn *done, void *context);
REDLOCK_API REDLOCK_MUST_CHECK int redlock_extend_start(struct redlock_lock *lock, int64_t ttl_ms,
                                                        redlock_done_fn *done, void *context);
REDLOCK_API REDLOCK_MUST_CHECK int redlock_release_start(struct redlock_lock *lock,
                                                         redlock_done_fn *done, void *context);

/* Many locks of one client at once, each by itself: some may be acquired and others not. What they
 * send to a node goes out in one write. results[i] (`results` may be NULL) is locks[i]'s, as
 * redlock_acquire() and redlock_release() return it. OK: all of them; else the result of one that
 * is not. None is begun, and each result is the same: BAD_ARGUMENT (locks of different clients,
 * NULL among them), FORKED. A lock listed twice is BUSY the second time. The locks must live, and
 * redlock_cancel() is the only other call on them, until it returns. */
REDLOCK_API REDLOCK_MUST_CHECK int redlock_acquire_many(struct redlock_lock *const *locks,
                                                        size_t count, int64_t wait_ms,
                                                        int *results);
REDLOCK_API int redlock_release_many(struct redlock_lock *const *locks, size_t count, int *results);
/* The same without blocking: results[i] is OK where locks[i] was started, and `done` is called once
 * for each of those. All are sent for at once: what so many need must be answered within the node
 * timeout, so rather hundreds than thousands. */
REDLOCK_API REDLOCK_MUST_CHECK int redlock_acquire_many_start(struct redlock_lock *const *locks,
                                                              size_t count, int64_t wait_ms,
                                                              int *results, redlock_done_fn *done,
                                                              void *context);
REDLOCK_API REDLOCK_MUST_CHECK int redlock_release_many_start(struct redlock_lock *const *locks,
                                                              size_t count, int *results,
                                                              redlock_done_fn *done, void *context);

/* Takes over a lock that was acquired elsewhere, by its token, so that redlock_extend() and
 * redlock_release() work on it. Proves nothing: until an extension has succeeded the validity is 0.
 * Not renewed before that. The _start forms ask only the nodes that are connected: see
 * redlock_client_wait_ready(). OK, BAD_ARGUMENT (empty or over 1024 bytes), BUSY (in use or
 * held). */
REDLOCK_API REDLOCK_MUST_CHECK int redlock_lock_adopt(struct redlock_lock *lock, const void *token,
                                                      size_t bytes);
/* The same with its fencing token, which in guarded mode an extension needs (without it:
 * BAD_ARGUMENT; a release needs none). 0: none is known. One that is more than a year ahead of all
 * clocks is BAD_ARGUMENT: it is no fence of this lock. */
REDLOCK_API REDLOCK_MUST_CHECK int redlock_lock_adopt_fenced(struct redlock_lock *lock,
                                                             const void *token, size_t bytes,
                                                             int64_t fence);

/* Forgets a held lock without releasing it: it lives on until its TTL, or until somebody adopts its
 * token. OK, LOST (there is none to forget), BUSY, FORKED. */
REDLOCK_API int redlock_lock_disown(struct redlock_lock *lock);

REDLOCK_API enum redlock_state redlock_lock_state(struct redlock_lock *lock);
/* Milliseconds for which the lock is still surely ours, 0 when not. Asks the clock, not the
 * network. */
REDLOCK_API int64_t redlock_validity_ms(struct redlock_lock *lock);
/* The same as a point on CLOCK_BOOTTIME in nanoseconds; 0 when not held. */
REDLOCK_API int64_t redlock_validity_end_ns(struct redlock_lock *lock);
/* The token: 40 hex digits, then ':' and the owner if there is one. Valid until the next
 * acquisition. {NULL,0} when not held. */
REDLOCK_API struct redlock_bytes redlock_token(struct redlock_lock *lock);
/* Guarded: the lock's fencing token, 1 to REDLOCK_FENCE_MAX: hand it to whatever the lock protects
 * (docs/fencing.md). It stays the same through extensions. 0 when not held, and in classic mode. */
REDLOCK_API int64_t redlock_fence(struct redlock_lock *lock);
/* What each node said in the last round (acquire, extend or release); verdicts[i] is node i.
 * Returns the count. */
REDLOCK_API size_t redlock_verdicts(struct redlock_lock *lock, int *verdicts, size_t count);

/* ---- looking ---------------------------------------------------------------------------- */

struct redlock_view {
    int verdict; /* GRANTED: a key is there; ABSENT; WRONGTYPE; else why the node did not say */
    int64_t remaining_ms; /* -1: the key has no TTL (not a lock, or one that never ends) */
    size_t token_bytes;   /* 0..1024 stored; token_truncated tells of more */
    int token_truncated;
    unsigned char token[REDLOCK_TOKEN_BYTES_MAX];
};
/* What each node holds under the resource; views[i] is node i, `count` at least
 * redlock_client_nodes(). OK, NO_QUORUM (views are filled all the same), BAD_ARGUMENT, NO_MEMORY,
 * FORKED. */
REDLOCK_API REDLOCK_MUST_CHECK int redlock_look(struct redlock_client *client, const void *resource,
                                                size_t bytes, struct redlock_view *views,
                                                size_t count);
/* The same without blocking, for the resource of a lock that is free; it is BUSY meanwhile. Asks
 * the nodes that are connected, and is over when a majority says the same (who has not answered by
 * then has the verdict NONE), or with the node timeout (TIMEOUT). `views` are filled when `done` is
 * called, and must live until then or until the lock is freed. OK when started; BAD_ARGUMENT (a
 * lock on several resources), BUSY, NO_MEMORY, FORKED. */
REDLOCK_API REDLOCK_MUST_CHECK int redlock_look_start(struct redlock_lock *lock,
                                                      struct redlock_view *views, size_t count,
                                                      redlock_done_fn *done, void *context);
/* Calls `each` once for every string key with a TTL that begins with the client's prefix on any
 * node (resource without the prefix; a key may be told more than once). Reads by SCAN, so it sees
 * what was there throughout. A node whose SCAN does not end is left out, with the verdict PROTOCOL:
 * OK, or NO_QUORUM. */
typedef void redlock_resource_fn(void *context, const void *resource, size_t bytes);
REDLOCK_API REDLOCK_MUST_CHECK int redlock_list(struct redlock_client *client,
                                                redlock_resource_fn *each, void *context);

/* ---- the servers themselves -------------------------------------------------------------- */

enum redlock_role { REDLOCK_ROLE_UNKNOWN = 0, REDLOCK_ROLE_MASTER = 1, REDLOCK_ROLE_REPLICA = 2 };

/* What the user may not ask, or the server does not know; ored. */
enum redlock_survey_refused {
    REDLOCK_SURVEY_NO_TIME = 1,
    REDLOCK_SURVEY_NO_INFO = 2,  /* one section of INFO at least */
    REDLOCK_SURVEY_NO_CONFIG = 4 /* one key of CONFIG GET at least */
};

/* What redlock_survey() asks. */
enum redlock_survey_what {
    REDLOCK_SURVEY_CLOCK = 1, /* TIME alone: the clock and the round trip */
    REDLOCK_SURVEY_ALL = 2    /* all of the struct; 15 short commands in one round trip */
};

/* What one server tells about itself. Numbers are -1 and texts "" while unknown. No field holds a
 * secret. */
struct redlock_server {
    size_t size;         /* set by the caller to sizeof(struct redlock_server), in every element */
    int verdict;         /* GRANTED: the node answers; else why it does not */
    int refused;         /* enum redlock_survey_refused */
    int64_t asked_ns;    /* when TIME was asked ... */
    int64_t answered_ns; /* ... and answered, nanoseconds on our CLOCK_BOOTTIME: the round trip is
                            between them */
    int64_t clock_us; /* the server's wall clock at some moment between the two, microseconds since
                         1970 */
    char server[16];  /* "redis" or "valkey" */
    char version[16]; /* its own version */
    char redis_version[16]; /* the version of Redis it is compatible with */
    char run_id[41];
    int64_t uptime_s; /* seconds since the server process began */
    enum redlock_role role;
    int replicas;             /* connected to this server */
    int loading;              /* 1: it still reads its data */
    int writes_refused;       /* 1: its last write to disk failed, and it refuses writes for that
                                 (MISCONF) */
    int64_t memory_bytes;     /* in use */
    int64_t memory_bytes_max; /* maxmemory; 0: no limit */
    char eviction[24];        /* maxmemory-policy */
    int append_only;          /* 1: an append-only file is written ... */
    char append_fsync[12];    /* ... and flushed to disk "always", "everysec" or "no" */
    int snapshots;            /* 1: data are saved now and then (save) */
    int64_t clients;          /* connected */
    int64_t clients_max;
    int protected_mode; /* 1: on */
    char bind[128];     /* addresses as configured, separated by spaces; cut to what fits */
    int bind_known;     /* 1: bind was told; then "" is no TCP at all, or (before version 7) every
                           address */
    int64_t tcp_port;   /* with TLS or without; 0: Unix socket only */
    char quorum[17];    /* the id of the quorum that its record names; "": it has no record, or does
                           not say */
    int announces; /* guarded: 1: this connection is notified of the loss of its data before any
                      later vote; 0: it is not (an old server, or the user lacks permission): the
                      guarantee is weaker, docs/guarded.md */
    int stale;     /* guarded: how what it is differs from what its record says, enum redlock_stale,
                      ored; 0: it does not; -1: it has no record, or that was not read */
};
/* A node whose record is stale recovers, for its data may lack locks. */
enum redlock_stale {
    REDLOCK_STALE_PROCESS = 1, /* another server process: it was restarted */
    REDLOCK_STALE_REPLICATION =
        2, /* another replication id: it was a replica meanwhile, or has got one */
    REDLOCK_STALE_EVICTED = 4 /* another number of evicted keys */
};

/* Asks every connected node once, on the connections there are; surveys[i] is node i, `count` at
 * least redlock_client_nodes(). What a node does not tell stays unknown. Changes nothing, and asks
 * for no password. Nodes answer at most the connect timeout later. For people: no lock depends on
 * what it says. OK: a majority answered. NO_QUORUM (surveys are filled all the same), BAD_ARGUMENT,
 * NO_MEMORY, FORKED. */
REDLOCK_API REDLOCK_MUST_CHECK int redlock_survey(struct redlock_client *client,
                                                  enum redlock_survey_what what,
                                                  struct redlock_server *surveys, size_t count);

/* ---- the quorum of guarded mode ------------------------------------------------------------ */

#define REDLOCK_QUORUM_TTL_MS_MAX 60000 /* the ttl_ms_max of a new quorum where none is given */

/* What the nodes' records say. Member i is the quorum's i-th, whichever node of this client that
 * is. */
struct redlock_quorum {
    size_t size; /* set by the caller */
    int known;   /* 1: a record was found; 0: all else is 0 */
    char id[17];
    uint32_t epoch;     /* counts changes of membership, from 1 */
    int settled;        /* 0: the last change is not finished; any change finishes it first */
    int64_t ttl_ms_max; /* no lock lasts longer between renewals; a node that lost its data waits
                           that long */
    size_t members, intact, votes_needed;
};
struct redlock_member {
    size_t size; /* set by the caller, in every element */
    char id[17];
    char url[256];         /* as it was initialised or added, without password */
    int node;              /* which of this client's nodes; -1: not listed, or not known which */
    int verdict;           /* GRANTED: intact; RECOVERING; FOREIGN; else why it cannot be asked */
    int64_t recovering_ms; /* as in struct redlock_node_status */
};
/* Waits for the nodes as acquiring does. OK: a majority of the members is intact; NO_QUORUM (all is
 * filled the same); TWO_QUORUMS (nodes of the list belong to two, and none is pinned; what is
 * filled is that of the one that this client has taken, if it has); BAD_ARGUMENT (count below the
 * members; a classic client), NO_MEMORY, FORKED. */
REDLOCK_API REDLOCK_MUST_CHECK int redlock_quorum_look(struct redlock_client *client,
                                                       struct redlock_quorum *quorum,
                                                       struct redlock_member *members,
                                                       size_t count);

/* Operator's commands. Each blocks, may be interrupted at any moment (by the end of the process),
 * and is run again then; `progress`, which may be NULL, hears what is being done and how long it
 * will take (-1: not known), about once a second. */
typedef void redlock_progress_fn(void *context, const char *text, int64_t left_ms);
struct redlock_quorum_options {
    size_t size;         /* set by init */
    int64_t ttl_ms_max;  /* quorum_init: of the quorum, 10 to 86400000. 0, the default: not given */
    int64_t fence_floor; /* quorum_init: tokens begin above this, the wall clock in microseconds,
                            and whatever is found; 0 */
    int never_used; /* quorum_init: 1: no lock was ever held on these servers by anyone: ready at
                       once */
    redlock_progress_fn *progress;
    void *progress_context;
    int64_t ttl_ms_max_before; /* quorum_init: the longest ttl_ms_max that these servers are known
                                  to have had, by a configuration for example: it waits at least
                                  that long. 0, the default: not known */
};
REDLOCK_API void redlock_quorum_options_fill(struct redlock_quorum_options *options, size_t size);
static inline void redlock_quorum_options_init(struct redlock_quorum_options *options) {
    redlock_quorum_options_fill(options, sizeof *options);
}

/* Writes records on all nodes of this client, which must all be reachable and fit, and waits,
 * unless never_used, until every lock that may be held there has ended: for the longest of
 * ttl_ms_max, ttl_ms_max_before and the ttl_ms_max of every record on the nodes, of whichever
 * quorum. Where none of these is known the lost quorum's may have been any, so the call fails with
 * BAD_ARGUMENT and writes nothing: there is no default for the wait. The quorum's ttl_ms_max is the
 * option's, else the longest that is known, else (never_used) REDLOCK_QUORUM_TTL_MS_MAX. Over
 * records that are there: only when fewer than a majority is intact (by calling this you assert
 * that the data of a majority is lost), keeping the quorum's id and tokens. OK, NO_QUORUM (a node
 * cannot be reached, or is not fit), CONFLICT (a majority is intact; or another came first),
 * TWO_QUORUMS (nodes of another quorum than that which is pinned, or than others; but what an init
 * left there that came to nothing is taken over), BAD_ARGUMENT, TWICE_LISTED, NO_MEMORY, FORKED;
 * *error says which node and what to do. */
REDLOCK_API REDLOCK_MUST_CHECK int redlock_quorum_init(struct redlock_client *client,
                                                       const struct redlock_quorum_options *options,
                                                       struct redlock_error *error);
/* Adds the client's node `node`, listed beside the members; it votes once it has waited for
 * ttl_ms_max as a node that lost its data does. Or removes the member `id` (16 hex digits). Both
 * finish an interrupted change before (CONFLICT: and it was another), and come back when the change
 * is settled: by then an added node may still recover, which it does by any client that has
 * `recover` on. Results as of init. */
REDLOCK_API REDLOCK_MUST_CHECK int redlock_quorum_add(struct redlock_client *client, size_t node,
                                                      const struct redlock_quorum_options *options,
                                                      struct redlock_error *error);
REDLOCK_API REDLOCK_MUST_CHECK int
redlock_quorum_remove(struct redlock_client *client, const char *id,
                      const struct redlock_quorum_options *options, struct redlock_error *error);

/* ---- the resource's side ------------------------------------------------------------------ */

/* A gate stands before a resource and refuses whoever comes with a fencing token (a fence: 1 to
 * REDLOCK_FENCE_MAX, growing from one holder of the lock to the next) below the highest seen for
 * that resource. So a holder that was paused past its validity does no harm when it wakes. It needs
 * no client and no lock server; docs/fencing.md shows it. Every operation passes the gate, reading
 * too: the first touch reserves, so that whoever read before cannot write after. In memory a gate
 * forgets with its process: where a resource outlives that, give it a file.
 *
 * A gate has constant size. Where more resources are seen than fit, the lowest fences are dropped
 * into a common floor: a holder of a fence older than the floor may be refused though nobody else
 * touched its resource (it takes the lock again, and with its new fence is admitted), but none is
 * ever admitted that should be refused.
 *
 * All functions are thread-safe; a gate is not for a child after fork(2) (FORKED), which opens its
 * own. */
struct redlock_fence_gate;

struct redlock_fence_gate_options {
    size_t size;      /* set by init */
    const char *path; /* NULL: in memory. Else a file, shared safely by processes of one machine; an
                         admission is on disk before it is told. Created with the mode that the
                         umask leaves; who shares it must be able to read and write it. Never copy,
                         restore or remove it: it would forget */
    size_t resources; /* 4096. How many are told apart, about 22 bytes each; of an existing file,
                         its own counts */
    int create; /* 1: a file that is absent is created; 0: that is an error (SYSTEM), for a gate
                   that must be there */
};
REDLOCK_API void redlock_fence_gate_options_fill(struct redlock_fence_gate_options *options,
                                                 size_t size);
static inline void redlock_fence_gate_options_init(struct redlock_fence_gate_options *options) {
    redlock_fence_gate_options_fill(options, sizeof *options);
}

/* `options` NULL: a gate in memory. On failure *gate is left alone and *error (which may be NULL)
 * says why. Returns OK, BAD_ARGUMENT, NO_MEMORY, SYSTEM (errno says why; EBADMSG: the file is cut
 * off, damaged or not a gate's). */
REDLOCK_API REDLOCK_MUST_CHECK int
redlock_fence_gate_open(const struct redlock_fence_gate_options *options,
                        struct redlock_fence_gate **gate, struct redlock_error *error);
/* No other call on it may be under way. NULL is fine. */
REDLOCK_API void redlock_fence_gate_free(struct redlock_fence_gate *gate);

/* Admits the fence to the resource (1 to 65536 bytes) unless a higher one was here before, and
 * remembers it; the same fence passes any number of times. For operations that already follow one
 * another, each admitted and done before the next is admitted; else use redlock_fence_do(). Blocks
 * while another thread or process is in the gate, and with a file for a sync of it. OK; FENCED: do
 * not touch the resource, and take your lock for lost; BAD_ARGUMENT; FORKED; SYSTEM (errno; nothing
 * is admitted: a file that fails lets nobody pass). */
REDLOCK_API REDLOCK_MUST_CHECK int redlock_fence_admit(struct redlock_fence_gate *gate,
                                                       const void *resource, size_t bytes,
                                                       int64_t fence);

/* The same, and calls `act` once, in this thread, when admitted, while nobody else is in the gate:
 * whoever is admitted later finds it done. It must not call a function of this gate. Whether it
 * succeeded is between it and its context; the fence is remembered in any case. Returns as
 * redlock_fence_admit(). */
typedef void redlock_fence_act_fn(void *context);
REDLOCK_API REDLOCK_MUST_CHECK int redlock_fence_do(struct redlock_fence_gate *gate,
                                                    const void *resource, size_t bytes,
                                                    int64_t fence, redlock_fence_act_fn *act,
                                                    void *context);

/* The least fence that the resource would admit now, 1 where every fence would be; for messages,
 * not for decisions. OK, BAD_ARGUMENT, FORKED, SYSTEM. */
REDLOCK_API int redlock_fence_least(struct redlock_fence_gate *gate, const void *resource,
                                    size_t bytes, int64_t *fence);

#ifdef __cplusplus
}
#endif
#endif
