/* SPDX-License-Identifier: BSD-2-Clause
 *
 * redlock: distributed locks held on a majority of independent Redis or Valkey servers.
 *
 * The contract:
 * Time: durations are in milliseconds on CLOCK_BOOTTIME, never on a wall clock. A reported validity
 * errs on the short side.
 * Threads: with the service thread (the default) any thread may call any function. Without it,
 * calls on one client and its locks must not overlap, except redlock_cancel() and
 * redlock_client_reload().
 * Callbacks: each returns. None throws a C++ exception or calls longjmp(3).
 * Fork: in a child, made without CLONE_VM and CLONE_FILES, calls on the parent's clients answer
 * FORKED and touch no connection. One that returns from a callback gets FORKED from the call that
 * it is in; on the service thread it ends as by exit(0). vfork(2) and posix_spawn(3) are safe.
 * Cancellation: no call is a cancellation point for pthread_cancel(3). redlock_cancel() ends waits.
 * Exit: exit(3) with open clients is safe and releases no lock. In exit handlers that were
 * registered before the first client with TLS, calls on clients with TLS answer FORKED.
 * Unloading: the shared library stays in memory after dlclose(3).
 * Stacks: a call needs at most 64 KiB of the caller's stack.
 * Descriptors: a program that closes those of a client (closefrom(3)) loses its locks, and is
 * notified of that. It uses the client no more, nor frees it: what it opens next may have the same
 * numbers. A forked child may close them. None is below 3, where stray output goes.
 * Memory: options, names and URLs are copied. What a function returns belongs to the object it came
 * from. `_free(NULL)` is fine. A failed call leaves its output parameters alone.
 * NULL: a function that returns enum redlock_result answers BAD_ARGUMENT for a client, a lock or a
 * gate that is NULL. Queries, which return something else, and redlock_cancel() need an object.
 * Output: the library never prints, exits, installs a signal handler or logs a token or a password.
 * It calls your log function, if you set one.
 *
 * A struct that begins with `size` grows at its end from release to release; its _init() function
 * sets `size`. A program and a library of different releases work together: the library reads and
 * writes nothing behind `size`. A field that the library does not know must be zero in options
 * (else BAD_ARGUMENT), and it sets such a field to zero in a struct that it fills. A `size` below
 * that of the first release is BAD_ARGUMENT.
 *
 * Parameters and fields that hold an enumeration are `int`, so that a value of a later release, or
 * a compiler's choice of the enumeration's size, does no harm.
 *
 * redlock/metrics.h has counters, histograms and events; redlock/admin.h has listing, server
 * information and the quorum; redlock/fence.h has the resource's side. The pages that they name,
 * such as safety.md, are installed in share/doc/redlock.
 */
#ifndef REDLOCK_H
#define REDLOCK_H

#include <string.h>

#include "redlock/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Limits. A value outside of them is BAD_ARGUMENT; the library never clips. */
#define REDLOCK_NODES_MAX 15
#define REDLOCK_RESOURCES_MAX 64 /* in one lock */
#define REDLOCK_SLOTS_MAX 64     /* of one resource */
#define REDLOCK_TTL_MS_MIN 10
#define REDLOCK_TTL_MS_MAX 86400000 /* 24 hours */
#define REDLOCK_OWNER_BYTES_MAX 128
#define REDLOCK_TOKEN_HEX_BYTES 40   /* 20 random bytes in hexadecimal */
#define REDLOCK_TOKEN_BYTES_MAX 1024 /* of one that you give; ours: 40, or 41 and the owner */
#define REDLOCK_WAIT_FOREVER (-1)

struct redlock_client;
struct redlock_lock;

/* Bytes with a length; NUL has no meaning. */
struct redlock_bytes {
    const void *data;
    size_t bytes;
};

/* ---- the client --------------------------------------------------------------------------- */

/* How strong a lock is: guarded.md, safety.md. */
enum redlock_mode {
    REDLOCK_MODE_CLASSIC = 0, /* Redlock as other clients know it; with one node, the single lock */
    REDLOCK_MODE_GUARDED = 1, /* nodes carry a record (redlock_quorum_init()). A node that lost its
                                 data does not vote; each lock has a fencing token. Redis >= 6.2 */
    REDLOCK_MODE_AUTO = 2     /* classic until a node shows a record, then guarded for good */
};

/* How a node stores a lock, by its URL: older-ways.md. */
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

/* `level` is enum redlock_log_level. Runs in any thread that drives the client. Must not call the
 * library. */
typedef void redlock_log_fn(void *context, int level, const char *text);

struct redlock_client_options {
    size_t size;             /* set by _init() */
    int64_t node_timeout_ms; /* 0: min(50, ttl/20), at least 5. How long a try waits for a node; at
                                most 60000, and below the TTL */
    int64_t connect_timeout_ms; /* 1000; 1 to 600000. Connect, TLS and AUTH together; not part of a
                                   try */
    int64_t stall_timeout_ms;   /* 5000; 10 to 600000. A connection with an answer overdue this long
                                   is reset. Sooner, if a fresh connection works */
    uint32_t drift_ppm;         /* 10000 (1 %) of the TTL is subtracted for clock drift, or more
                                   where it is measured to be more; at most 500000 ... */
    uint32_t drift_ms;          /* ... and 2 ms, the granularity of Redis's expiry; at most 60000 */
    int service_thread;      /* 1: a thread renews and calls you back; 0: redlock_process() does */
    const char *key_prefix;  /* NULL: none. Key = prefix + resource */
    size_t key_prefix_bytes; /* 0 with a prefix: strlen() */
    const char *tls_ca_file; /* PEM; NULL: the system's store */
    const char *tls_cert_file; /* PEM, the client's certificate, with tls_key_file; NULL: none */
    const char *tls_key_file;
    const char *tls_server_name; /* NULL: the host in the URL. The name to send and to verify */
    redlock_log_fn *log;         /* NULL: silence */
    void *log_context;
    int log_level; /* enum redlock_log_level; WARNING */
    int mode;      /* enum redlock_mode; AUTO */
    int confirm;   /* guarded. 1: ask a majority once more before a lock counts, at one more round
                      trip. The order of fencing tokens then needs no clock at all, not even if a
                      client is a VM that is snapshotted. 0 */
    int recover;   /* guarded. 1: bring nodes that lost their data back, in the background and
                      together with other clients. 0: leave that to others */
    /* guarded, and with this AUTO is GUARDED. The quorum's id, 16 hex digits: no node of another
     * quorum counts. NULL: the one that the nodes belong to; nodes of two are an error. */
    const char *quorum;
    int allow_replicas; /* guarded. 1: masters with replicas may vote. 0: they are refused, because
                           a promoted replica may lack locks that were granted */
    /* The login at nodes whose URL has no password. It is asked for anew for each connection, so a
     * password may change at any time; connections that are up stay. */
    const char *user;              /* NULL: the server's default user */
    const char *password_file;     /* its first line is the password; NULL: none. A plain file */
    redlock_password_fn *password; /* the program gives it; NULL: none. Not with password_file */
    void *password_context;
    int queue; /* with a service thread. 1: callbacks wait until you call redlock_process(), and run
                  there; the thread goes on renewing, also while your loop stands still. For event
                  loops and other languages. LOST may then come before the `done` of the
                  acquisition, with OK. 0 */
};
/* Writes the defaults into a struct of `size` bytes. Call _init() instead, which passes the size
 * that your header knows. */
REDLOCK_API void redlock_client_options_fill(struct redlock_client_options *options, size_t size);
static inline void redlock_client_options_init(struct redlock_client_options *options) {
    redlock_client_options_fill(options, sizeof *options);
}

/* Opens a client on 1 to 15 nodes: "redis://[user:pass@]host[:port][/db]", "rediss://..." (TLS),
 * "unix:///path[?db=n]", separated by commas or white space; user and password percent-encoded. A
 * single node may have scheme=setnx ("redis://host/0?scheme=setnx") or scheme=setnx-ms: it then
 * excludes programs that lock by SETNX, GETSET and a timestamp. Such a client has no guarded mode,
 * and a lock has one resource; older-ways.md says what it can promise. `nodes` NULL: those of
 * REDLOCK_NODES, else of the file that REDLOCK_CONFIG names, else of /etc/redlock.conf; and options
 * that hold their defaults are taken from the environment and the file, as redlock.conf(5) says. A
 * setuid program does not read its environment.
 * The quorum is nodes/2+1 of the nodes given here, never of those that answer. Returns at once;
 * connections come up in the background. `options` NULL: the defaults. *error, which may be NULL,
 * says why it failed. OK, BAD_ARGUMENT, NO_MEMORY, SYSTEM. */
REDLOCK_API REDLOCK_MUST_CHECK int redlock_client_open(const char *nodes,
                                                       const struct redlock_client_options *options,
                                                       struct redlock_client **client,
                                                       struct redlock_error *error);

/* Frees a client; no other thread may be inside a call on it. Its locks and observers keep it
 * alive: while there are any, it goes on as before, renewals included, and the redlock_lock_free()
 * or redlock_observe_stop() of the last one closes it. With none, this call does. To close a client
 * is to wait for at most one node timeout for releases that are in progress, and for late nodes to
 * get the key of a disowned lock, and then to reset connections with an unanswered SET. In a child
 * after fork(2) it frees memory and leaves descriptors alone (an exec closes them); if another
 * thread was inside the library then, it frees nothing. Do not call this one from a callback. */
REDLOCK_API void redlock_client_free(struct redlock_client *client);

/* Reads the TLS files of the options again, for example after a certificate was renewed. New
 * connections use what was read; existing ones stay. Checks the password file. Blocks while it
 * reads. Any thread may call it at any time, also without a service thread, but not from a
 * callback. On failure nothing changes. OK, BAD_ARGUMENT (a file cannot be used; *error, which may
 * be NULL, says which and why), NO_MEMORY, FORKED. */
REDLOCK_API REDLOCK_MUST_CHECK int redlock_client_reload(struct redlock_client *client,
                                                         struct redlock_error *error);

/* Waits for at most `wait_ms` (0 to 86400000) until every node is connected or its last try to
 * connect has failed. Returns the number of nodes that are ready (guarded: that vote), or a
 * negative result. The client tries failed nodes again in the background (without a service thread:
 * in redlock_process()). To wait for servers that are starting, call it again. */
REDLOCK_API int redlock_client_wait_ready(struct redlock_client *client, int64_t wait_ms);

/* enum redlock_mode, as chosen; but a client in mode AUTO is GUARDED from the first record that it
 * sees. Acquisitions under way begin again as guarded; locks held as classic are reported lost. */
REDLOCK_API int redlock_client_mode(struct redlock_client *client);

/* One node as the client sees it now. Strings are valid until the client is freed. */
struct redlock_node_status {
    size_t size;           /* set by _init() */
    const char *url;       /* as configured, without the password */
    int verdict;           /* enum redlock_verdict. GRANTED: ready; else why not */
    char run_id[41];       /* "": unknown (not connected, or INFO refused). native: the module's
                              own, drawn when it is loaded */
    char version[16];      /* redis_version; "": unknown */
    char text[160];        /* detail of the last failure; "": none. Holds no secret */
    int uses_transactions; /* 1: the server refuses scripts, so WATCH/MULTI/EXEC is used */
    int64_t recovering_ms; /* RECOVERING: until it votes again, as far as this client knows; -1:
                              unknown */
    char node_id[17];      /* guarded: which member it is; "": unknown */
    int scheme;            /* enum redlock_scheme */
    int native;            /* 1: a native node (a server with the module redlock); 0: a stock
                              server, or never connected */
};
static inline void redlock_node_status_init(struct redlock_node_status *status) {
    memset(status, 0, sizeof *status);
    status->size = sizeof *status;
}
/* The number of nodes that the client was opened with. */
REDLOCK_API size_t redlock_client_nodes(const struct redlock_client *client);
/* Fills *status with what the client knows of `node`. OK, BAD_ARGUMENT (`node` is out of range),
 * FORKED. */
REDLOCK_API int redlock_client_node(struct redlock_client *client, size_t node,
                                    struct redlock_node_status *status);

/* For an event loop of yours, with service_thread = 0 or queue = 1: a descriptor that becomes
 * readable when redlock_process() has work, timers included. The client owns it. -1: the service
 * thread does all work, or no descriptor is left. */
REDLOCK_API int redlock_client_fd(struct redlock_client *client);
/* Does all work that is due, without blocking, and runs callbacks; perhaps none. With a queue, two
 * threads may call it: one of them runs the callbacks. OK, FORKED, BAD_ARGUMENT (the service thread
 * does it).
 */
REDLOCK_API int redlock_process(struct redlock_client *client);

/* ---- locks -------------------------------------------------------------------------------- */

enum redlock_state {
    REDLOCK_STATE_FREE = 0, /* not held, nothing in progress */
    REDLOCK_STATE_ACQUIRING = 1,
    REDLOCK_STATE_HELD = 2,
    REDLOCK_STATE_UNSURE = 3, /* a renewal failed and is being retried; validity is left */
    REDLOCK_STATE_LOST = 4,   /* until released */
    REDLOCK_STATE_RELEASING = 5
};

enum redlock_change {
    REDLOCK_CHANGE_RENEWED = 1,
    REDLOCK_CHANGE_UNSURE = 2, /* renewal fails; redlock_validity_ms() says what is left */
    REDLOCK_CHANGE_SURE = 3,   /* renewed again after UNSURE */
    REDLOCK_CHANGE_LOST = 4    /* lost_margin_ms before validity ends, or at once if known sooner */
};
/* `change` is enum redlock_change. Runs outside of the library's mutex: on the service thread; with
 * a queue inside redlock_process(); without that thread also inside blocking calls. It may call any
 * function, also redlock_lock_free(), except redlock_client_free(). Keep it short: on the service
 * thread it delays the callbacks of all locks of the client, and their renewals while no other
 * thread is in a blocking call. */
typedef void redlock_change_fn(void *context, struct redlock_lock *lock, int change);

struct redlock_lock_options {
    size_t size;               /* set by _init() */
    int64_t ttl_ms;            /* 30000; 10 to 86400000 */
    int64_t validity_ms_min;   /* 1. A win that leaves less, or not more than lost_margin_ms, is
                                  released (EXPIRED) */
    int renew;                 /* 1: renew until released or lost; 0 */
    int64_t renew_interval_ms; /* 0: a third of the TTL; below the TTL */
    int64_t hold_ms_max;       /* 0: no limit; at most 366 days. Validity ends at most this long
                                  after acquiring */
    uint32_t renew_count_max;  /* 0: no limit */
    int64_t lost_margin_ms;    /* -1: a tenth of the TTL, or of hold_ms_max if that is less, at most
                                  1000. LOST comes this long before validity ends */
    uint32_t retry_count_max;  /* 0: no limit. Retries of one redlock_acquire() */
    int64_t retry_delay_ms_min; /* 50. Each retry waits a random time in [min, max]; if servers
                                   report a free lock, this is the upper bound (waiting.md) */
    int64_t retry_delay_ms_max; /* 250; at most 86400000 */
    const void *owner;          /* NULL: none. At most 128 bytes; part of the token, shown by
                                   `redlock show` */
    size_t owner_bytes;         /* 0 with an owner: strlen() */
    redlock_change_fn *on_change;
    void *on_change_context; /* also without on_change: redlock_lock_context() */
    int leader; /* one resource. 1: its holder is a leader, redlock_fence() its term, and nodes show
                   both to observers. NO_QUORUM without records, but in mode CLASSIC no term. 0 */
    uint32_t slots; /* 0: an ordinary lock. 1 to 64: a semaphore; the lock is one of so many slots
                       of the resource, whichever is free. All clients must give the same number;
                       it can change when no slot is held (slots.md) */
    int shared;     /* 1: a shared (read) lock on one resource: any number of them at a time, and no
                       exclusive one meanwhile (shared.md). 0: exclusive */
};
/* Writes the defaults into a struct of `size` bytes. Call _init() instead. */
REDLOCK_API void redlock_lock_options_fill(struct redlock_lock_options *options, size_t size);
static inline void redlock_lock_options_init(struct redlock_lock_options *options) {
    redlock_lock_options_fill(options, sizeof *options);
}

/* Makes a lock on one resource; with _multi, on all of several: all or nothing on each node. It
 * acquires nothing yet. A lock can be used again after its release. Refuses the names of what nodes
 * keep of locks: redlock:node, and names that begin with redlock: and then fences:, term:,
 * waiting:, waiters:, setnx: or shared:. So do redlock_observe_start(), redlock_await_free() and
 * redlock_break(). OK, BAD_ARGUMENT, NO_MEMORY, FORKED. */
REDLOCK_API REDLOCK_MUST_CHECK int redlock_lock_new(struct redlock_client *client,
                                                    const void *resource, size_t bytes,
                                                    const struct redlock_lock_options *options,
                                                    struct redlock_lock **lock,
                                                    struct redlock_error *error);
REDLOCK_API REDLOCK_MUST_CHECK int
redlock_lock_new_multi(struct redlock_client *client, const struct redlock_bytes *resources,
                       size_t count, const struct redlock_lock_options *options,
                       struct redlock_lock **lock, struct redlock_error *error);
/* Frees a lock: cancels an acquisition and releases what is held, without waiting. No callback of
 * this lock runs after it returns: a `done` that is still due is called here, with CANCELLED, and
 * must not free the lock; and it waits for a callback that runs in another thread. In these
 * callbacks calls on the lock end with CANCELLED. */
REDLOCK_API void redlock_lock_free(struct redlock_lock *lock);

/* One try. OK, HELD, NO_QUORUM, EXPIRED, CANCELLED, NO_MEMORY, BUSY, TWICE_LISTED, GUARDED_NODES,
 * TWO_QUORUMS, FORKED, SYSTEM; guarded: TTL_MAX_EXCEEDED; with slots: OTHER_SLOTS, NO_SLOTS;
 * shared: NO_SHARED. */
REDLOCK_API REDLOCK_MUST_CHECK int redlock_try(struct redlock_lock *lock);
/* Tries until the lock is held, `wait_ms` have passed (0: one try; or REDLOCK_WAIT_FOREVER), the
 * retries are used up, or redlock_cancel(). A failure is that of the last try. It leaves no key of
 * ours on a node that can be reached; elsewhere our key ends with its TTL. */
REDLOCK_API REDLOCK_MUST_CHECK int redlock_acquire(struct redlock_lock *lock, int64_t wait_ms);
/* Ends an acquisition that has begun, or that redlock_acquire_many() has yet to begin (CANCELLED).
 * Otherwise does nothing. */
REDLOCK_API void redlock_cancel(struct redlock_lock *lock);
/* Sets what is left to at least `ttl_ms` (0: the lock's own TTL) on a majority. Never shortens,
 * never brings a lost lock back. OK, LOST, NO_QUORUM (still ours for redlock_validity_ms()), LIMIT,
 * BUSY, BAD_ARGUMENT, NO_MEMORY, FORKED; guarded: TTL_MAX_EXCEEDED, if this TTL is longer than the
 * quorum's ttl_max. */
REDLOCK_API REDLOCK_MUST_CHECK int redlock_extend(struct redlock_lock *lock, int64_t ttl_ms);
/* A writer becomes a reader, without a gap: makes a held exclusive lock on one resource a shared
 * one, by an extension with the lock's own TTL. Token and fence stay. It has the results of
 * redlock_extend(), and NO_SHARED, BAD_ARGUMENT (several resources, slots, a leader).
 * After OK, NO_QUORUM, LIMIT or LOST only read: nodes that it reached admit other readers. Nodes
 * that it did not reach keep all others out, and follow at the next extension or renewal, or when
 * it is called again. After any other result the lock is exclusive as before. On a shared lock it
 * is an extension. The next acquisition is exclusive again. */
REDLOCK_API REDLOCK_MUST_CHECK int redlock_downgrade(struct redlock_lock *lock);
/* Deletes our keys on all nodes. OK: a majority deleted them, and nobody else has held the lock
 * meanwhile. LOST: a majority did not have them. NO_QUORUM: unknown; what is left ends with its
 * TTL. The lock is free in each case. BUSY, FORKED. */
REDLOCK_API int redlock_release(struct redlock_lock *lock);

/* The same without blocking. OK: started; `done` is called once, with an enum redlock_result. Else
 * nothing was started (NO_QUORUM: freed without memory). In a child after fork(2) no callback
 * runs. */
typedef void redlock_done_fn(void *context, struct redlock_lock *lock, int result);
REDLOCK_API REDLOCK_MUST_CHECK int redlock_acquire_start(struct redlock_lock *lock, int64_t wait_ms,
                                                         redlock_done_fn *done, void *context);
REDLOCK_API REDLOCK_MUST_CHECK int redlock_extend_start(struct redlock_lock *lock, int64_t ttl_ms,
                                                        redlock_done_fn *done, void *context);
REDLOCK_API REDLOCK_MUST_CHECK int redlock_downgrade_start(struct redlock_lock *lock,
                                                           redlock_done_fn *done, void *context);
REDLOCK_API REDLOCK_MUST_CHECK int redlock_release_start(struct redlock_lock *lock,
                                                         redlock_done_fn *done, void *context);

/* Many locks of one client at once, each on its own: some may be acquired and others not. What they
 * send to a node leaves in one write. results[i] (`results` may be NULL) is that of locks[i]. OK:
 * all of them; else the result of one that failed. BAD_ARGUMENT (locks of different clients, or
 * NULL) and FORKED: none was begun, and every result is the same. A lock that is listed twice is
 * BUSY the second time. Until it returns the locks must live, and redlock_cancel() is the only
 * other call on them. */
REDLOCK_API REDLOCK_MUST_CHECK int redlock_acquire_many(struct redlock_lock *const *locks,
                                                        size_t count, int64_t wait_ms,
                                                        int *results);
REDLOCK_API int redlock_release_many(struct redlock_lock *const *locks, size_t count, int *results);
/* The same without blocking. results[i] is OK if locks[i] was started; `done` is called once for
 * each of these. All are sent at once and must be answered within the node timeout: prefer hundreds
 * to thousands. */
REDLOCK_API REDLOCK_MUST_CHECK int redlock_acquire_many_start(struct redlock_lock *const *locks,
                                                              size_t count, int64_t wait_ms,
                                                              int *results, redlock_done_fn *done,
                                                              void *context);
REDLOCK_API REDLOCK_MUST_CHECK int redlock_release_many_start(struct redlock_lock *const *locks,
                                                              size_t count, int *results,
                                                              redlock_done_fn *done, void *context);

/* All of these locks, 1 to 64 of one client, or none: for several slots of a semaphore, or for
 * locks with different options. Waits for the first, and then tries each of the others once; if one
 * is not free it releases all, and tries again after a random delay (retry_delay_ms_min of the
 * first): it may wait longer than callers of one. OK, or as redlock_acquire(): none is held. BUSY:
 * one of them is in use, or is listed twice. redlock_cancel() on the first ends it. */
REDLOCK_API REDLOCK_MUST_CHECK int redlock_acquire_all(struct redlock_lock *const *locks,
                                                       size_t count, int64_t wait_ms);
/* The same without blocking. Until `done`, which gets the first lock, redlock_cancel() is the only
 * other call on the locks. */
REDLOCK_API REDLOCK_MUST_CHECK int redlock_acquire_all_start(struct redlock_lock *const *locks,
                                                             size_t count, int64_t wait_ms,
                                                             redlock_done_fn *done, void *context);

/* Takes over a lock that was acquired elsewhere, by its token, so that redlock_extend() and
 * redlock_release() work on it. This proves nothing: validity is 0, and nothing is renewed, until
 * an extension succeeds. The lock is held from then on, and another client may have held it before:
 * in guarded mode the extension brings a new fencing token (redlock_fence()), above all others; in
 * classic mode nothing tells. The _start forms ask only connected nodes; see
 * redlock_client_wait_ready(). OK, BAD_ARGUMENT (empty, or over 1024 bytes; or the lock has the
 * option `leader`: only an acquisition proves the term), BUSY (in use, or held), FORKED. */
REDLOCK_API REDLOCK_MUST_CHECK int redlock_lock_adopt(struct redlock_lock *lock, const void *token,
                                                      size_t bytes);
/* The same with the fencing token, which an extension in guarded mode needs (BAD_ARGUMENT without
 * it), and below which the new one is not; a release does not. 0: unknown. A fence more than a year
 * ahead of all clocks is BAD_ARGUMENT: it does not belong to this lock. */
REDLOCK_API REDLOCK_MUST_CHECK int redlock_lock_adopt_fenced(struct redlock_lock *lock,
                                                             const void *token, size_t bytes,
                                                             int64_t fence);
/* Forgets a held lock without releasing it: it lives until its TTL ends, or until its token is
 * adopted. Nodes that were not connected when it was taken still get the key for one node timeout,
 * or until this client adopts the token; redlock_client_free() waits for that. So let another
 * process release it only after that time. OK, LOST (nothing is held), BUSY, FORKED. */
REDLOCK_API int redlock_lock_disown(struct redlock_lock *lock);

/* The on_change_context of its options: your object for the lock, in any callback. */
REDLOCK_API void *redlock_lock_context(const struct redlock_lock *lock);
/* What the lock is doing now, an enum redlock_state. Reads memory, not the network. */
REDLOCK_API int redlock_lock_state(struct redlock_lock *lock);
/* For how many milliseconds the lock is still surely ours; 0: it is not. Reads the clock, not the
 * network. */
REDLOCK_API int64_t redlock_validity_ms(struct redlock_lock *lock);
/* The end of validity in nanoseconds of CLOCK_BOOTTIME; 0: not held. */
REDLOCK_API int64_t redlock_validity_end_ns(struct redlock_lock *lock);
/* The time now on that clock, in nanoseconds. It needs no client. */
REDLOCK_API int64_t redlock_now_ns(void);
/* The token: 40 hex digits; with slots '/' and their number; and ':' and the owner if there is one.
 * Valid until the next acquisition. {NULL,0}: not held. */
REDLOCK_API struct redlock_bytes redlock_token(struct redlock_lock *lock);
/* The same, copied: writes at most `size` bytes, and returns how many the token has; 0: not held.
 */
REDLOCK_API size_t redlock_token_copy(struct redlock_lock *lock, void *to, size_t size);
/* Guarded: the fencing token, 1 to REDLOCK_FENCE_MAX. Pass it to the resource that the lock
 * protects (fencing.md). Extensions do not change it. 0: not held, or classic mode. */
REDLOCK_API int64_t redlock_fence(struct redlock_lock *lock);
/* Which slot is held, 1 to `slots`: the lock is then the ordinary one on the resource with ":slot:"
 * and this number behind it. 0: none, or the lock has no slots. */
REDLOCK_API uint32_t redlock_slot(struct redlock_lock *lock);
/* After OTHER_SLOTS: the number of slots with which others hold slots of the resource. 0: none. */
REDLOCK_API uint32_t redlock_other_slots(struct redlock_lock *lock);
/* What each node answered in the last acquire, extend, renewal or release; verdicts[i] is node i's.
 * Inside on_change() these are the causes of UNSURE and LOST. Writes at most `count`; returns the
 * number of nodes. */
REDLOCK_API size_t redlock_verdicts(struct redlock_lock *lock, int *verdicts, size_t count);

/* What a node holds under a resource. */
struct redlock_view {
    int verdict; /* enum redlock_verdict. GRANTED: a key is there; ABSENT; WRONGTYPE; else why the
                    node did not say */
    int64_t remaining_ms; /* -1: the key has no TTL (not a lock, or one that never ends) */
    size_t token_bytes;   /* how much of `token` is used */
    int token_truncated;  /* 1: the key holds more */
    unsigned char token[REDLOCK_TOKEN_BYTES_MAX];
};
/* Reads what each node holds; views[i] is node i's; `count` is at least redlock_client_nodes().
 * Waits at most the connect timeout for connections, but once a majority is connected only 250 ms
 * for the other nodes. OK, NO_QUORUM (views are filled as well), BAD_ARGUMENT, NO_MEMORY, FORKED.
 */
REDLOCK_API REDLOCK_MUST_CHECK int redlock_peek(struct redlock_client *client, const void *resource,
                                                size_t bytes, struct redlock_view *views,
                                                size_t count);
/* The same without blocking, for the resource of a free lock, which is BUSY until then. Asks
 * connected nodes; is complete when a majority agrees (NONE: no answer by then) or after the node
 * timeout (TIMEOUT). `views` must live until `done` is called or the lock is freed. OK when
 * started; BAD_ARGUMENT (a lock on several resources), BUSY, NO_MEMORY, FORKED. */
REDLOCK_API REDLOCK_MUST_CHECK int redlock_peek_start(struct redlock_lock *lock,
                                                      struct redlock_view *views, size_t count,
                                                      redlock_done_fn *done, void *context);

/* ---- why ---------------------------------------------------------------------------------- */

/* What keeps a node from voting. */
enum redlock_obstacle {
    REDLOCK_OBSTACLE_NONE = 0,   /* it votes, or would */
    REDLOCK_OBSTACLE_SILENT = 1, /* it does not answer */
    REDLOCK_OBSTACLE_ERROR = 2,  /* it answers with an error that may pass by itself */
    REDLOCK_OBSTACLE_RECORD = 3, /* its record, or the list of nodes, must change. While
                                    redlock_quorum_init() runs this is so for up to a second */
    REDLOCK_OBSTACLE_SETUP = 4   /* a password, a permission or a setting must be corrected */
};
struct redlock_why_node {
    int verdict;      /* enum redlock_verdict, the one that explains most: of the operation, or of
                         the connection */
    int obstacle;     /* enum redlock_obstacle */
    const char *cure; /* what to do; static. NULL: `text` says it, or time may do it */
    char text[240];   /* why it did not help: "no answer in time" */
};
struct redlock_why_report {
    size_t size;
    int result;  /* enum redlock_result: that of the operation, or one that explains it better */
    int in_vain; /* 1: waiting does not help: too few nodes can vote until records or the list
                    change (REDLOCK_OBSTACLE_RECORD); 2: ... until something is corrected. 0 */
    size_t nodes, votes_needed;
    size_t votes;        /* nodes that answered by the rules of locks, or would */
    size_t silent;       /* nodes that do not answer */
    size_t read;         /* nodes of which it is known whether they carry a record */
    size_t named;        /* nodes that the sentence names */
    size_t head_bytes;   /* of the sentence about all nodes; then perhaps " (URL: why; ...)" */
    char sentence[2048]; /* what is wrong, without the name of the resource: "no quorum: 1 of 3
                            nodes answered, 2 needed (redis://db2: no answer in time; ...)" */
    char cure[1024];     /* a command, a setting or what to do; "": none is known */
    struct redlock_why_node node[REDLOCK_NODES_MAX]; /* node[i] is node i */
};
static inline void redlock_why_report_init(struct redlock_why_report *why) {
    memset(why, 0, sizeof *why);
    why->size = sizeof *why;
}
/* Explains a `result` of an operation on `lock`, or of the client's (`lock` NULL), in the words
 * that the command line prints; CANCELLED by what the last try met, if it is known. `verdicts`:
 * what the client's nodes answered, for example in the views of a peek; NULL: what they answered in
 * the lock's last operation, if there is one. It reports what the client knows now: it asks no
 * node, waits for nothing, may be called in callbacks, and shows no secret. Call it before the next
 * operation on the lock. OK, BAD_ARGUMENT (the lock is another client's), FORKED. */
REDLOCK_API int redlock_why(struct redlock_client *client, struct redlock_lock *lock, int result,
                            const int *verdicts, struct redlock_why_report *why);

/* ---- leaders ------------------------------------------------------------------------------ */

/* A leader holds a guarded lock with the option `leader`. Its term is the fence of the lock: each
 * later leader has a higher one. See elect.md. */
enum redlock_leadership {
    REDLOCK_LEADER_UNKNOWN = 0, /* too few nodes answer, or `sure_until_ns` has passed */
    REDLOCK_LEADER_NONE = 1,    /* no token is on a majority of the nodes */
    REDLOCK_LEADER_KNOWN = 2
};
struct redlock_leader {
    size_t size;
    int state; /* enum redlock_leadership; the rest is 0 unless KNOWN */
    /* Exact. Two observers never report different leaders for one term, and the terms that one
     * observer reports never fall. */
    int64_t term;
    struct redlock_bytes id; /* the `owner` of its lock; valid during the call */
    /* In nanoseconds of CLOCK_BOOTTIME. Before it no other client leads, unless this leader
     * released its lock (it resigned, or was losing the lock) or an operator broke it. It does not
     * promise that the leader still runs. */
    int64_t sure_until_ns;
};
struct redlock_observer;
/* Called when anything above has changed, also when only `sure_until_ns` has grown. Of several
 * changes in a row only the last may be reported. Runs as redlock_change_fn does; it must not call
 * redlock_observe_stop(). */
typedef void redlock_observe_fn(void *context, const struct redlock_leader *leader);
/* Reports who leads `resource`, from now on and until redlock_observe_stop(). Until the first call
 * it is UNKNOWN. Takes nothing. OK, BAD_ARGUMENT (a client in mode CLASSIC: there are no terms; a
 * name that no lock can have), NO_MEMORY, SYSTEM, FORKED. */
REDLOCK_API REDLOCK_MUST_CHECK int redlock_observe_start(struct redlock_client *client,
                                                         const void *resource, size_t bytes,
                                                         redlock_observe_fn *each, void *context,
                                                         struct redlock_observer **observer,
                                                         struct redlock_error *error);
/* NULL: nothing. No call of `each` runs after it returns. */
REDLOCK_API void redlock_observe_stop(struct redlock_observer *observer);

#ifdef __cplusplus
}
#endif
#endif
